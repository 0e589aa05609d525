"""Times of a program with and without a kernel: what is told, on a page, too; and what is no difference."""

from __future__ import annotations

import json
import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import opsplice
from opsplice import cli
from opsplice.measuring.timing import machine
from opsplice.measuring.timing.paired import Paired
from opsplice.reports.render import brief, brief_location
from tests.measuring import test_wrong_kernels

SPEC = """
kernel right(x: f32[m, n]) -> f32[m, n] {
  grid (m)
  cpu "wrong.c"
}
pattern p(x: tensor<m x n x f32>) { negf(x) }
replace p with right(x)
pattern nowhere(x: tensor<m x n x f32>) { negf(absf(x)) }
replace nowhere with right(x)
"""
MODEL = """
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %r = arith.negf %x : tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}
"""


def test_bench_times_matches_and_writes_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.c").write_text((Path(__file__).parent / "wrong.c").read_text())
    (tmp_path / "replace.splice").write_text(SPEC)
    (tmp_path / "model.mlir").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    command = ["bench", "model.mlir", "--spec=replace.splice", "--seconds=0.05", "--no-isolate"]
    assert cli.main([*command, "--html=report.html", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    match, whole = told["timed"]
    assert match["match"]["kernel"] == "right"
    assert match["operations"] == 64 * 64
    assert match["bytes"] == 2 * 64 * 64 * 4
    assert set(whole["seconds"]) == {"IREE", "kernels"}
    assert all(seconds > 0 for each in told["timed"] for seconds in each["seconds"].values())
    assert min(*told["bytes"], *told["memory"], *told["compile_seconds"]) > 0
    page = (tmp_path / "report.html").read_text()
    assert not re.search(r"https?://|<script|<link|src=", page)
    for wanted in (
        "p(m = 64, n = 64)",
        "model.mlir:3:8 in @main",
        "wrong.c",
        "nowhere",
        "<h2>Layers</h2>",
        "prefers-color-scheme",
    ):
        assert wanted in page


def test_what_is_prepared_in_another_process_is_timed_here(tmp_path: Path) -> None:
    (tmp_path / "wrong.c").write_text((Path(__file__).parent / "wrong.c").read_text())
    (tmp_path / "replace.splice").write_text(SPEC)
    (tmp_path / "model.mlir").write_text(MODEL)
    given = str(tmp_path / "model.mlir"), [str(tmp_path / "replace.splice")]
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        prepared = pool.submit(opsplice.prepare, *given).result()
    match, whole = opsplice.bench(prepared, seconds=0.05).timed
    assert match.replacement is not None
    assert match.replacement.kernel == "right"
    assert set(match.seconds) == set(whole.seconds) == {"IREE", "kernels"}
    for more in {"specs": given[1]}, {"targets": ["cpu"]}, {"dims": {"batch": 2}}, {"against": ["onnxruntime"]}:
        with pytest.raises(opsplice.OpspliceError, match="timed as it is"):
            opsplice.bench(prepared, **more)


def test_open_sizes_are_those_of_the_inputs_for_matches_and_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.c").write_text((Path(__file__).parent / "wrong.c").read_text())
    (tmp_path / "replace.splice").write_text(SPEC)
    (tmp_path / "model.mlir").write_text(MODEL.replace("64x64", "?x64"))
    monkeypatch.chdir(tmp_path)
    command = ["bench", "model.mlir", "--spec=replace.splice", "--seconds=0.05", "--no-isolate", "--json"]
    for given, size, notes in (["--input=5x64xf32=1"], 5, 0), ([], 17, 1):
        assert cli.main([*command, *given]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["timed"][0]["operations"] == size * 64
        assert told["timed"][0]["bytes"] == 2 * size * 64 * 4
        assert [note for note in told["notes"] if "open sizes" in note] == [
            "open sizes (?) of inputs are taken as 17, or the nearest that they may be; --input gives others"
        ] * notes


def test_torch_runs_the_same_model_with_its_weights_inputs_by_name_and_results_of_a_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    pytree = pytest.importorskip("torch.utils._pytree")

    class Result(dict):  # type: ignore[type-arg]  # as those of transformers, which file readers do not know
        pass

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(16, 4)

        def forward(self, flag: bool, *, x: Any, bias: Any = None) -> Any:
            return Result(y=self.layer(x) * (2 if flag else 1))

    name = "tests.Result"
    pytree.register_pytree_node(
        Result,
        lambda each: (list(each.values()), list(each)),
        lambda values, keys: Result(zip(keys, values, strict=True)),
        serialized_type_name=name,
    )
    monkeypatch.chdir(tmp_path)
    torch.export.save(torch.export.export(Model(), (True,), {"x": torch.randn(2, 16), "bias": None}), "layer.pt2")
    monkeypatch.delitem(pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE, name)  # as in a process that only reads the file
    assert cli.main(["bench", "layer.pt2", "--against=torch", "--seconds=0.05", "--json"]) == 0
    (whole,) = json.loads(capsys.readouterr().out)["timed"]
    assert set(whole["seconds"]) == {"IREE", "torch", "inductor"}


def test_of_the_peak_is_told_what_is_not_next_to_nothing() -> None:
    a_cpu = machine.Machine("a CPU", 2, 2e11, 3e10)
    assert a_cpu.used(10**9, 10**9, 0.1) == "5% of peak; 10 GB/s, 33%"
    assert a_cpu.used(10**7, 10**9, 0.1) == "10 GB/s, 33%"


def test_a_peak_that_was_measured_on_a_busy_core_is_measured_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPSPLICE_CACHE", str(tmp_path))
    measured = iter([(1e11, 2e10), (1.5e11, 1e10), (1.2e11, 1e10)])
    monkeypatch.setattr(machine, "call_isolated", lambda *_args, **_named: next(measured))
    assert machine.this_machine(lambda _event: None).peak == 1e11
    assert machine.this_machine(lambda _event: None, 0.9e11).peak == 1e11
    found = machine.this_machine(lambda _event: None, 1.1e11)
    assert (found.peak, found.bandwidth) == (1.5e11, 2e10)
    assert machine.this_machine(lambda _event: None, 1.1e11) == found
    assert machine.this_machine(lambda _event: None, 1.6e11) == found, "the larger figure is kept"


def test_files_far_away_are_told_in_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert brief_location("/usr/lib/python3/torch/nn/modules/linear.py:134") == ".../modules/linear.py:134"
    assert brief_location(f"{tmp_path}/deep/er/model.py:3:4") == "deep/er/model.py:3:4"


def test_what_is_too_wide_is_told_without_sizes_of_one() -> None:
    sizes = "n = 1, c = 16, h = 128, w = 128"
    assert brief(f"filtered(sh = 1, {sizes})") == f"filtered(sh = 1, {sizes})"
    wide = f"filtered(sh = 1, dh = 1, {sizes}, o = 10, kh = 11, b = 1x1, g = 1, dh = 1, dw = 1)"
    assert brief(wide) == "filtered(c = 16, h = 128, w = 128, o = 10, kh = 11, b = 1x1)"
    assert brief(f"filtered({', '.join(f'{c} = 12345' for c in 'abcdefgh')})").endswith("e = 12345, ...)")
    types = "tensor<8x128xf32> and tensor<8x1xf32>"
    told = "linalg.generic tensor<8x128xf32>; of"
    assert brief(f"{told} {types} and {types}") == f"{told} tensor<8x128xf32> and ..."


def test_a_match_whose_result_iree_copies_is_timed_alone(tmp_path: Path) -> None:
    (tmp_path / "sum.c").write_text(test_wrong_kernels.SUM)
    (tmp_path / "sum.splice").write_text(test_wrong_kernels.SUM_SPEC)
    found = opsplice.bench(test_wrong_kernels.SUM_MODEL, [tmp_path / "sum.splice"], seconds=0.05)
    assert [each.name for each in found.timed] == ["-:3:8", "@main"]


@pytest.mark.parametrize(
    ("against", "words", "hint"),
    [
        ("tensorflow", "there is no peer 'tensorflow'", "there are: onnxruntime, torch"),
        (
            "onnxruntime",
            "onnxruntime runs .onnx files, and the model is model.mlir",
            "leave onnxruntime out, or give the model as a .onnx file",
        ),
    ],
)
def test_peers_that_cannot_run_the_model(
    against: str, words: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if against == "onnxruntime":
        pytest.importorskip("onnxruntime")
    assert cli.main(["bench", "model.mlir", f"--against={against}"]) == 1
    said = capsys.readouterr().err
    assert words in said
    assert hint in said


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ((1.0, 1.1, 0.9) * 10, (2.0, 2.1, 1.9) * 10, "faster"),
        ((2.0, 2.1, 1.9) * 10, (1.0, 1.1, 0.9) * 10, "slower"),
        ((0.9, 1.0, 1.1) * 10, (1.0, 1.1, 1.0) * 10, "no difference"),
        ((1.0,) * 10, (1.01,) * 10, "no difference"),
    ],
)
def test_what_is_within_the_noise_is_no_difference(
    ours: tuple[float, ...], theirs: tuple[float, ...], verdict: str
) -> None:
    assert Paired(ours, theirs).verdict == verdict
