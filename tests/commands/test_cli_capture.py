"""`opsplice capture` as a user meets it: files, output, JSON and errors."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.command_line import opsplice

MODEL = """func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>) -> tensor<4x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x16xf32>) -> tensor<4x16xf32>
  %m = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x16xf32>) outs(%f : tensor<4x16xf32>) -> tensor<4x16xf32>
  %s = linalg.broadcast ins(%b : tensor<16xf32>) outs(%e : tensor<4x16xf32>) dimensions = [0]
  %a = arith.addf %m, %s : tensor<4x16xf32>
  %r = math.tanh %a : tensor<4x16xf32>
  return %r : tensor<4x16xf32>
}
"""
SPEC = """\
kernel layer_kernel(x: f32[m, k], w: f32[k, n], bias: f32[n]) -> f32[m, n] {
  cpu "layer.c" as bitcode
}

pattern layer(x: tensor<m x k x f32>, w: tensor<k x n x f32>, bias: tensor<n x f32>) {
  sum = addf(contract[m k, k n -> m n](x, w), broadcast[n -> m n](bias))
  tanh(sum)
}

replace layer with layer_kernel(x, w, bias)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.mlir").write_text(MODEL)
    return tmp_path


def capture(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return opsplice("capture", *arguments, cwd=folder)


def test_it_prints_the_spec(folder: Path) -> None:
    done = capture(folder, "model.mlir", "--at", "model.mlir:8", "--name", "layer")
    assert done.returncode == 0, done.stderr
    assert done.stdout == SPEC
    assert done.stderr.startswith("captured layer at model.mlir:8:8 in @main\n")
    assert "  w     hal.tensor.import#2 (model.mlir:1:1)\n" in done.stderr
    assert "as well" not in done.stderr
    assert [path.name for path in folder.iterdir()] == ["model.mlir"]


def test_files_far_away_are_told_in_short(folder: Path) -> None:
    (folder / "here").mkdir()
    done = capture(folder / "here", str(folder / "model.mlir"), "--at", "model.mlir:8")
    assert done.stderr.startswith(f"captured at .../{folder.name}/model.mlir:8:8 in @main\n")
    assert f"hal.tensor.import#2 (.../{folder.name}/model.mlir:1:1)\n" in done.stderr


def test_it_writes_the_spec_and_the_kernel_and_both_work(folder: Path) -> None:
    done = capture(folder, "model.mlir", "--at=:8", "-o", "layer.splice")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert (folder / "layer.splice").read_text() == SPEC
    assert "wrote layer.splice\nwrote layer.c\n" in done.stderr
    assert "layer.c computes it in plain loops" in done.stderr
    inputs = ("--input=4x8xf32=0.25", "--input=8x16xf32=0.5", "--input=16xf32=-0.5")
    ran = opsplice("run", "model.mlir", "--spec=layer.splice", *inputs, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    assert "1 replacement" in ran.stderr
    assert "0.462117" in ran.stdout  # tanh(8 * 0.25 * 0.5 - 0.5)


def test_a_kernel_that_is_there_is_left_alone(folder: Path) -> None:
    (folder / "layer.c").write_text("// mine\n")
    done = capture(folder, "model.mlir", "--at=:8", "-o", "layer.splice")
    assert done.returncode == 0, done.stderr
    assert (folder / "layer.c").read_text() == "// mine\n"
    assert "left layer.c as it is" in done.stderr


def test_json(folder: Path) -> None:
    done = capture(folder, "model.mlir", "--at=:8", "--name=layer", "--json", "--packs")
    found = json.loads(done.stdout)
    assert done.stderr == ""
    assert found["name"] == "layer"
    assert "tensor<...m x k x f32>" in found["spec"]
    assert found["code"].startswith("//")
    assert found["reference"] is True
    assert found["function"] == "main"
    assert found["matches"] == [found["location"]]
    assert list(found["inputs"]) == ["x", "w", "bias"]
    assert found["written"] == []


def test_without_a_place_it_lists_the_ops(folder: Path) -> None:
    done = capture(folder, "model.mlir")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "@main"
    row = next(line for line in lines if "linalg.matmul#1" in line)
    assert "model.mlir:5:8" in row
    assert row.endswith(": tensor<4x16xf32>")
    listed = json.loads(capture(folder, "model.mlir", "--json").stdout)["ops"]
    assert [op["handle"] for op in listed if not op["handle"].startswith("hal.")] == [
        "linalg.matmul#1",
        "linalg.broadcast#1",
        "arith.addf#1",
        "math.tanh#1",
    ]


GENERICS = """
#same = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%y : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.generic {indexing_maps = [#same, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.mulf %a, %a : f32
    %1 = arith.addf %0, %b : f32
    linalg.yield %1 : f32
  } -> tensor<4xf32>
  %wide = linalg.generic {indexing_maps = [#rows, #same], iterator_types = ["parallel", "parallel"]}
      ins(%sum : tensor<4xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<4x8xf32>
  return %wide : tensor<4x8xf32>
}
"""


def test_the_list_says_what_generic_ops_do(folder: Path) -> None:
    (folder / "generics.mlir").write_text(GENERICS)
    done = capture(folder, "generics.mlir")
    assert done.returncode == 0, done.stderr
    does = [line.split("generics.mlir")[0].split(maxsplit=1) for line in done.stdout.splitlines() if "generic#" in line]
    assert [[each.strip() for each in row] for row in does] == [
        ["linalg.generic#1", "reduce mulf, addf"],
        ["linalg.generic#2", "rearranges"],
    ]


def test_inputs_are_split_at_commas(folder: Path) -> None:
    done = capture(folder, "model.mlir", "--at=:8", "--inputs=linalg.matmul#1,linalg.broadcast#1")
    assert "tanh(addf(x, y))" in done.stdout, done.stderr


def test_the_only_line_with_ops_is_named(folder: Path) -> None:
    kind = "tensor<4xf32>"
    text = f"func.func @main(%x: {kind}) -> {kind} {{ %y = math.tanh %x : {kind} return %y : {kind} }}"
    (folder / "small.mlir").write_text(text)
    done = capture(folder, "small.mlir", "--at=:99")
    assert "the only line with ops is 1" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--at=:99"], ["there is no op at line 99", "the nearest lines with ops are"]),
        (["--at=nowhere"], ["cannot tell what 'nowhere' points at", "linalg.generic#3"]),
        (["--at=linalg.matmul#2"], ["there is no linalg.matmul#2", "the program has 1 op called linalg.matmul"]),
        (["--at=:1"], ["nothing at line 1 computes a tensor: hal.tensor.import", "capture lists them"]),
        (["--at=:8", "--name=2x"], ["'2x' cannot be a pattern's name"]),
        (["--at=:8", "--name=tanh"], ["'tanh' is the name of an op", "tanh_pattern"]),
        (["--at=:8", "-o", "layer.mlir"], ["a spec ends in .splice"]),
        (["--at=:8", "-o", "no/such/layer.splice"], ["there is no folder no/such"]),
        (["-o", "layer.splice"], ["say what to capture, with --at"]),
        (["--at=:8", "--inputs=%99"], ["there is no value %99"]),
    ],
)
def test_errors(folder: Path, arguments: list[str], wanted: list[str]) -> None:
    done = capture(folder, "model.mlir", *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    for text in wanted:
        assert text in done.stderr
    assert not (folder / "layer.splice").exists()


def test_a_phase_that_is_none(folder: Path) -> None:
    done = capture(folder, "model.mlir", "--at=:8", "--phase=flow")
    assert done.returncode == 2
    assert "invalid choice: 'flow'" in done.stderr
