"""Which kernel is chosen for each size, what is written, what is kept between runs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import opsplice
from opsplice import cli, frontends
from opsplice.compiling.job import Job
from opsplice.compiling.spec_sources import resolve
from opsplice.measuring.cutting.records import Cut
from opsplice.measuring.tuning import candidates, measurements
from opsplice.measuring.tuning.database import Database
from opsplice.measuring.tuning.measurements import Candidate, Choice, Record, Task, choice_of
from opsplice.measuring.tuning.tuned_spec import spec_text
from opsplice.pipeline.flags import for_this_cpu
from samples.measured import demo

ALL = """
#include <stddef.h>
#include <string.h>
void zero(const float *x, int turns, float *out, size_t m, size_t n) {
  for (volatile int i = 0; i < turns; i++) {}
  memset(out, 0, m * n * sizeof(float));
}
void negate(const float *x, float *out, size_t m, size_t n) {
  for (volatile int i = 0; i < 400000; i++) {}
  for (size_t i = 0; i < m * n; i++) out[i] = -x[i];
}
void one(const float *x, float *out, size_t m, size_t n) { for (size_t i = 0; i < m * n; i++) out[i] = 1; }
void crash(const float *x, float *out, size_t m, size_t n) { *(volatile int *)0 = 1; }
"""
SPEC = """
kernel zero(x: f32[m, n], turns: i32) -> f32[m, n] { cpu "all.c" }
kernel negate(x: f32[m, n]) -> f32[m, n] { cpu "all.c" }
kernel one(x: f32[m, n]) -> f32[m, n] { cpu "all.c" }
kernel crash(x: f32[m, n]) -> f32[m, n] { cpu "all.c" }
pattern slow(x: tensor<m x n x f32>) { mulf(tanh(tanh(tanh(tanh(tanh(tanh(x)))))), 0.0) }
pattern quick(x: tensor<m x n x f32>) { negf(x) }
pattern part(x: tensor<m x n x f32>) { tanh(x) }
// Two variants, the worse first; a wrong kernel; one that crashes; one that is too slow.
replace slow with zero(x, 8000000)
replace slow where n >= 8 with zero(x, 0)
replace slow with one(x)
replace slow with crash(x)
replace quick with negate(x)
"""
MODEL = """
func.func @main(%x: tensor<256x256xf32>, %y: tensor<16x8xf32>) -> (tensor<256x256xf32>, tensor<16x8xf32>) {
  %zero = arith.constant dense<0.0> : tensor<256x256xf32>
  %1 = math.tanh %x : tensor<256x256xf32>
  %2 = math.tanh %1 : tensor<256x256xf32>
  %3 = math.tanh %2 : tensor<256x256xf32>
  %4 = math.tanh %3 : tensor<256x256xf32>
  %5 = math.tanh %4 : tensor<256x256xf32>
  %6 = math.tanh %5 : tensor<256x256xf32>
  %r = arith.mulf %6, %zero : tensor<256x256xf32>
  %s = arith.negf %y : tensor<16x8xf32>
  return %r, %s : tensor<256x256xf32>, tensor<16x8xf32>
}
"""


def write(folder: Path) -> None:
    (folder / "all.c").write_text(ALL)
    (folder / "all.splice").write_text(SPEC)
    (folder / "model.mlir").write_text(MODEL)


def test_the_fastest_is_written_as_rules_and_known_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    database = ["--database=known.jsonl", "--no-isolate"]
    command = ["tune", "model.mlir", "--spec=all.splice", "-o", "out/tuned.splice", "--seconds=60", *database]
    assert cli.main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    slow, quick = sorted(told["choices"], key=lambda each: len(each["candidates"]), reverse=True)
    assert [each["verdict"] for each in slow["candidates"]] == ["slower", "faster", "failed", "failed"]
    assert "wanted 0" in slow["candidates"][2]["failed"]
    assert "it crashes" in slow["candidates"][3]["failed"]
    assert (slow["chosen"], quick["kind"]) == ("zero", "IREE")
    text = (tmp_path / "out" / "tuned.splice").read_text()
    assert 'import "../all.splice"' in text
    assert "replace slow priority 1 where n >= 8 and m == 256 and n == 256 with zero(x, 0)" in text
    assert "keep quick priority 1 where m == 16 and n == 8" in text
    assert opsplice.format(text) == text
    assert [each for each in opsplice.lint("out/tuned.splice") if "all.splice" not in str(each.span)] == []

    report = opsplice.match("model.mlir", ["out/tuned.splice"])
    assert [(r.pattern, r.rule_location.partition(":")[0]) for r in report.replacements] == [
        ("slow", "out/tuned.splice")
    ]
    assert "a rule keeps the compiler's code here" in {kept.reason for kept in report.kept}

    lines = Path("known.jsonl").read_text()
    assert cli.main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["known"] == 5
    assert Path("known.jsonl").read_text() == lines


def test_what_the_budget_leaves_is_said_and_no_rule_is_written(tmp_path: Path) -> None:
    write(tmp_path)
    found = opsplice.tune(MODEL, [tmp_path / "all.splice"], seconds=0, database=tmp_path / "known.jsonl")
    assert {choice.kind for choice in found.choices} == {"not measured"}
    assert "more --seconds measure the rest" in str(found)
    assert "priority" not in found.text(tmp_path)
    assert "not measured" in found._repr_html_()


def test_workers_of_dask_measure(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    write(tmp_path)
    kept = [line for line in SPEC.splitlines() if not line.startswith("replace slow")]
    (tmp_path / "all.splice").write_text("\n".join(kept))
    settings = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None, "processes": True}
    with distributed.LocalCluster(**settings) as cluster:
        found = opsplice.tune(
            MODEL,
            [tmp_path / "all.splice"],
            database=tmp_path / "known.jsonl",
            dask=cluster.scheduler_address,
        )
    assert [choice.kind for choice in found.choices] == ["IREE"]
    assert Path(tmp_path / "known.jsonl").read_text().count("\n") == 1


def test_a_scheduler_that_does_not_answer(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    write(tmp_path)
    with pytest.raises(opsplice.OpspliceError, match="no Dask scheduler answers at nonsense"):
        opsplice.tune(MODEL, [tmp_path / "all.splice"], database=tmp_path / "known.jsonl", dask="nonsense://x")


def test_computations_of_open_sizes_are_told_once_with_their_places(tmp_path: Path) -> None:
    write(tmp_path)
    text = """func.func @main(%x: TYPE) -> (TYPE, TYPE) {
      %a = arith.negf %x : TYPE
      %e = math.exp %a : TYPE
      %b = arith.negf %e : TYPE
      return %a, %b : TYPE, TYPE }""".replace("TYPE", "tensor<?x64xf32>")
    (tmp_path / "open.mlir").write_text(text)
    found = opsplice.tune(tmp_path / "open.mlir", [tmp_path / "all.splice"], database=tmp_path / "known.jsonl")
    heading, note, quick = str(found).splitlines()
    assert heading == "nothing is measured: 1 computation left alone"
    assert note.startswith("note: left alone: its sizes are open (?)")
    assert "quick(m = ?, n = 64) at " in quick
    assert "open.mlir:2:12, " in quick
    assert "open.mlir:4:12" in quick
    assert [len(each["places"]) for each in found.to_json()["left"]] == [2]


def test_rules_that_ask_for_weights_are_measured_beside_those_that_do_not(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        """#include <stddef.h>
        void k(const float *x, const float *w, float *out, size_t m, size_t k, size_t n) {
          for (size_t i = 0; i < m * n; i++) out[i] = 0;
          for (size_t i = 0; i < m; i++) for (size_t l = 0; l < k; l++) for (size_t j = 0; j < n; j++)
            out[i * n + j] += x[i * k + l] * w[l * n + j];
        }"""
    )
    (tmp_path / "weights.splice").write_text(
        """kernel k(x: f32[m, k], w: f32[k, n]) -> f32[m, n] { cpu "k.c" }
        pattern p(x: tensor<m x k x f32>, w: tensor<k x n x f32>) { contract[m k, k n -> m n](x, w) }
        replace p with k(x, w)
        replace p where weight(w) with k(x, w)"""
    )
    text = """func.func @main(%x: tensor<4x16xf32>) -> tensor<4x8xf32> {
      %w = arith.constant dense<0.5> : tensor<16x8xf32>
      %zero = arith.constant 0.0 : f32
      %room = tensor.empty() : tensor<4x8xf32>
      %fill = linalg.fill ins(%zero : f32) outs(%room : tensor<4x8xf32>) -> tensor<4x8xf32>
      %r = linalg.matmul ins(%x, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%fill : tensor<4x8xf32>)
        -> tensor<4x8xf32>
      return %r : tensor<4x8xf32> }"""
    found = opsplice.tune(text, [tmp_path / "weights.splice"], database=tmp_path / "known.jsonl", seconds=1)
    (choice,) = found.choices
    assert [record and record.failed for record in choice.records] == ["", ""]


# ---- decisions -------------------------------------------------------------------------------------------------------

CUT = Cut("match_0", (), (), 1, "")


def candidate(kernel: str, m: int, n: int = 64) -> Candidate:
    dims = {"m": [2, m // 2], "n": n}
    return Candidate("a:1:1", "p", kernel, dims, (), "replace p priority 1", "weight(w) or n > 1", f" with {kernel}(x)")


def record(ratio: float, low: float, high: float, failed: str = "") -> Record:
    return Record("", "cpu", "p", "k", (), (1e-3, ratio * 1e-3), ratio, (low, high), 9, failed)


def chosen(*ratios: tuple[float, float, float]) -> Choice:
    candidates = tuple(candidate(f"k{number}", 8) for number in range(len(ratios)))
    return choice_of(Task("", "", CUT, "p", ("a",), candidates), tuple(record(*each) for each in ratios))


@pytest.mark.parametrize(
    ("ratios", "kind", "kernel"),
    [
        ([(0.5, 0.4, 0.6), (0.3, 0.25, 0.35)], "kernel", "k1"),
        ([(0.5, 0.4, 0.6), (0.45, 0.35, 0.55)], "kernel", "k0"),  # equal within the noise: the first
        ([(0.9, 0.7, 1.1)], "no difference", None),
        ([(0.99, 0.985, 0.995)], "no difference", None),
        ([(1.5, 1.4, 1.6), (1.2, 1.1, 1.3)], "IREE", None),
        ([(1.5, 1.4, 1.6), (0.5, 0.4, 0.6)], "kernel", "k1"),
    ],
)
def test_differences_within_the_noise_decide_nothing(
    ratios: list[tuple[float, float, float]], kind: str, kernel: str | None
) -> None:
    found = chosen(*ratios)
    assert (found.kind, found.chosen and found.chosen.kernel) == (kind, kernel)


def test_beside_what_cannot_be_measured_nothing_is_decided() -> None:
    unknown, slow = record(0.0, 0.0, 0.0, measurements.NOT_ALONE), record(2.0, 1.9, 2.1)
    task = Task("", "", CUT, "p", ("a",), (candidate("k0", 8), candidate("k1", 8)))
    assert choice_of(task, (unknown, slow)).kind == "no difference"
    assert choice_of(task, (replace(unknown, failed="it crashes"), slow)).kind == "IREE"


def test_sizes_between_two_that_are_alike_become_a_range(tmp_path: Path) -> None:
    def at(m: int, kernel: str, ratio: float) -> Choice:
        task = Task("", "", CUT, f"p(m = {m})", ("a",), (candidate(kernel, m),))
        return choice_of(task, (record(ratio, ratio * 0.9, ratio * 1.1),))

    choices = [at(64, "k", 0.5), at(16, "k", 0.5), at(128, "k", 2.0), at(512, "k", 0.5), at(32, "k", 0.5)]
    text = spec_text("a CPU", ["a.splice"], choices, tmp_path)
    where = [line for line in text.splitlines() if " where " in line]
    assert where == [
        "replace p priority 1 where weight(w) or n > 1 and m >= 16 and m <= 64 and n == 64 with k(x)",
        "replace p priority 1 where weight(w) or n > 1 and m == 512 and n == 64 with k(x)",
        "keep p priority 1 where m == 128 and n == 64",
    ]


@pytest.mark.parametrize(
    ("places", "failed", "rule"),
    [(1, "", "keep p priority 1"), (3, "", "replace p priority 1"), (3, "numbers differ", "keep p priority 1")],
)
def test_sizes_in_two_layouts_have_the_rule_that_is_best_for_both_and_tells_of_both(
    places: int, failed: str, rule: str, tmp_path: Path
) -> None:
    def choice(ratio: float, places: int, failed: str = "") -> Choice:
        task = Task("", "", CUT, "p(m = 64)", ("a",) * places, (candidate("k", 64),))
        return choice_of(task, (replace(record(ratio, ratio * 0.9, ratio * 1.1), failed=failed),))

    both = [choice(0.5, places), choice(2.0, 1, failed)]
    lines = spec_text("a CPU", ["a.splice"], both, tmp_path).splitlines()
    assert [line.partition(" where ")[0] for line in lines if " where " in line] == [rule]
    told = " ".join(line.removeprefix("// ") for line in lines if line.startswith("// "))
    second = r".*k: numbers differ" if failed else r".*\(x0.50\) by"
    assert re.search(rf"\(x2.00\) by .* in another layout, which has the same rule: p\(m = 64\): {second}", told)


def test_matches_of_a_pattern_with_other_dims_are_rules_of_their_own(tmp_path: Path) -> None:
    def at(m: int, **more: int) -> Choice:
        found = replace(candidate("k", m), dims={"m": m, **more})
        return choice_of(Task("", "", CUT, "p", ("a",), (found,)), (record(0.5, 0.4, 0.6),))

    text = spec_text("a CPU", ["a.splice"], [at(64, rows=2), at(16), at(32)], tmp_path)
    assert [line.partition(" n > 1 and ")[2] for line in text.splitlines() if " where " in line] == [
        "m == 64 and rows == 2 with k(x)",
        "m >= 16 and m <= 32 with k(x)",
    ]


# ---- the database ----------------------------------------------------------------------------------------------------


def test_databases_join_and_damaged_lines_are_told(tmp_path: Path) -> None:
    one, other, both = (tmp_path / name for name in ("one", "other", "both"))
    Database(one).add(replace(record(0.5, 0.4, 0.6), key="a"))
    Database(other).add(replace(record(0.7, 0.4, 0.8), key="a"))
    Database(other).add(replace(record(0.8, 0.4, 0.9), key="b"))
    both.write_text(one.read_text() + other.read_text() + '{"key": 1}\n{"half')
    found = Database(both)
    assert {key: each.ratio for key, each in found.records.items()} == {"a": 0.7, "b": 0.8}
    assert "2 lines ignored that are not records, the first is line 4" in found.ignored
    found.add(replace(record(0.9, 0.4, 0.95), key="c"))  # behind what somebody left in the middle of a line
    assert set(Database(both).records) == {"a", "b", "c"}


# ---- what is measured ------------------------------------------------------------------------------------------------


def test_the_default_of_a_scalar_that_a_match_lacks_is_a_size_as_others_are(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("void k(const float *x, int mode, float *out, unsigned long n) {}")
    (tmp_path / "k.splice").write_text(
        """kernel k(x: f32[n], mode: i32) -> f32[n] { cpu "k.c" }
        pattern p<T in {f32, f64}>(x: tensor<n x T>, mode: i32 = 7) { y = negf(x)
          y | exp(only(y)) with mode = 2 }
        replace p where T in {f32} and (n < 9 or mode > 1) with k(x, mode)"""
    )
    text = """func.func @main(%x: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %a = arith.negf %x : tensor<4xf32>
      %b = arith.negf %z : tensor<4xf32>
      %e = math.exp %b : tensor<4xf32>
      return %a, %e : tensor<4xf32>, tensor<4xf32> }"""
    job = Job(frontends.load(text), resolve(tmp_path / "k.splice"), for_this_cpu(()))
    found = candidates.find(lambda _: None, job)
    dims = [each.candidates[0].dims for each in found.tasks]
    asked = {each.candidates[0].condition for each in found.tasks}
    assert asked == {"T in {f32} and (n < 9 or mode > 1)"}
    assert sorted(dims, key=lambda each: each["mode"]) == [{"n": 4, "mode": 2}, {"n": 4, "mode": 7}]


def test_matches_take_along_what_they_look_through() -> None:
    model = Path(__file__).parents[2] / "samples" / "measured" / "resnet.mlir"
    text = demo.with_weights(model.read_text(), 1)
    job = Job(frontends.load(text), resolve("opsplice_kernels:convolution"), for_this_cpu(()))
    found = candidates.find(lambda _: None, job)
    assert len(found.tasks) >= 4  # batch norms are of other ops than the convolutions
    assert found.left == ()
