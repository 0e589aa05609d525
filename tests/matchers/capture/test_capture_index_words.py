"""Captures of what depends on indices: elements at computed ones (`take`), masks (`band`), parts of rows (`stack`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplice

ROWS, BOTH = "affine_map<(m, n) -> (m)>", "affine_map<(m, n) -> (m, n)>"
TAKE = f"""
func.func @rows(%w: tensor<9x4xf32>, %ids: tensor<5xi32>) -> tensor<5x4xf32> {{
  %e = tensor.empty() : tensor<5x4xf32>
  %big = math.exp %w : tensor<9x4xf32>
  %r = linalg.generic {{indexing_maps = [{ROWS}, {BOTH}], iterator_types = ["parallel", "parallel"]}}
      ins(%ids : tensor<5xi32>) outs(%e : tensor<5x4xf32>) {{
  ^bb0(%i: i32, %o: f32):
    %one = arith.constant 1 : i32
    %next = arith.addi %i, %one : i32
    %row = arith.index_cast %next : i32 to index
    %n = linalg.index 1 : index
    %x = tensor.extract %big[%row, %n] : tensor<9x4xf32>
    linalg.yield %x : f32
  }} -> tensor<5x4xf32>
  return %r : tensor<5x4xf32>
}}"""
PAIRS = f"""
func.func @pairs(%w: tensor<9x4xf32>, %i: tensor<5xi32>, %j: tensor<5xi32>) -> tensor<5xf32> {{
  %e = tensor.empty() : tensor<5xf32>
  %r = linalg.generic {{indexing_maps = [{", ".join(["affine_map<(m) -> (m)>"] * 3)}], iterator_types = ["parallel"]}}
      ins(%j, %i : tensor<5xi32>, tensor<5xi32>) outs(%e : tensor<5xf32>) {{
  ^bb0(%column: i32, %row: i32, %o: f32):
    %m = arith.index_cast %row : i32 to index
    %n = arith.index_cast %column : i32 to index
    %x = tensor.extract %w[%m, %n] : tensor<9x4xf32>
    linalg.yield %x : f32
  }} -> tensor<5xf32>
  return %r : tensor<5xf32>
}}"""
MASK = f"""
func.func @{{name}}(%x: tensor<6x7xf32>, %t: tensor<i32>) -> tensor<6x7xf32> {{{{
  %e = tensor.empty() : tensor<6x7xi1>
  %start = tensor.extract %t[] : tensor<i32>
  %keep = linalg.generic {{{{indexing_maps = [{BOTH}], iterator_types = ["parallel", "parallel"]}}}}
      outs(%e : tensor<6x7xi1>) {{{{
  ^bb0(%o: i1):
    %m = linalg.index 0 : index
    %n = linalg.index 1 : index
    %row = arith.index_cast %m : index to i32
    %column = arith.index_cast %n : index to i32
    %two = arith.constant 2 : i32
    %least = arith.subi %row, %two : i32
    %most = arith.addi %row, {{most}} : i32
    %late = arith.cmpi sge, %column, {{least}} : i32
    %early = arith.cmpi sle, %column, %most : i32
    %both = arith.andi %late, %early : i1
    linalg.yield %both : i1
  }}}} -> tensor<6x7xi1>
  %low = arith.constant dense<-1.0e+09> : tensor<6x7xf32>
  %r = arith.select %keep, %x, %low : tensor<6x7xi1>, tensor<6x7xf32>
  return %r : tensor<6x7xf32>
}}}}"""
ROTATED = """
func.func @rotated(%x: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %a = tensor.extract_slice %x[0, 0] [3, 4] [1, 1] : tensor<3x8xf32> to tensor<3x4xf32>
  %b = tensor.extract_slice %x[0, 4] [3, 4] [1, 1] : tensor<3x8xf32> to tensor<3x4xf32>
  %c = arith.negf %b : tensor<3x4xf32>
  %e = tensor.empty() : tensor<3x8xf32>
  %0 = tensor.insert_slice %c into %e[0, 0] [3, 4] [1, 1] : tensor<3x4xf32> into tensor<3x8xf32>
  %1 = tensor.insert_slice %a into %0[0, 4] [3, 4] [1, 1] : tensor<3x4xf32> into tensor<3x8xf32>
  {more}
  return %r : tensor<3x8xf32>
}"""
ROPE = ROTATED.replace("@rotated(", "@rope(").replace("{more}", "%r = arith.addf %x, %1 : tensor<3x8xf32>")
GATE = """
func.func @gate(%x: tensor<3x8xf32>) -> tensor<3x4xf32> {
  %a = tensor.extract_slice %x[0, 0] [3, 4] [1, 2] : tensor<3x8xf32> to tensor<3x4xf32>
  %b = tensor.extract_slice %x[0, 1] [3, 4] [1, 2] : tensor<3x8xf32> to tensor<3x4xf32>
  %e = math.exp %a : tensor<3x4xf32>
  %r = arith.mulf %e, %b : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}"""
CAUSAL = {"name": "causal", "most": "%two", "least": "%least"}
CACHED = {"name": "cached", "most": "%start", "least": "%column"}
# What is captured, from which op, what its pattern says, and what it is called with.
PROGRAMS = {
    "rows": (TAKE, "linalg.generic", "take[k n, m -> m n](exp(x), addi(y, 1))", ["9x4", [0, 7, 3, 3, 1]]),
    "pairs": (PAIRS, "linalg.generic", "take[m n, k, k -> k](x, y, z)", ["9x4", [0, 8, 3, 3, 1], [3, 0, 2, 1, 1]]),
    "causal": (MASK.format(**CAUSAL), "arith.select", "select(band(-2, 2, 1, 0) : tensor<m x n x i1>, x, ", ["6x7", 9]),
    "cached": (
        MASK.format(**CACHED),
        "arith.select",
        "select(band(-2147483648, 0, 1, 0, s) : tensor<m x n x i1>, x, ",
        ["6x7", 3],
    ),
    "rotated": (
        ROTATED.replace("  {more}\n", "").replace("%1", "%r"),
        "tensor.insert_slice#2",
        "stack[h n, h n -> h i n](negf(take[h m n, -> h n](x, 1)), take[h m n, -> h n](x, 0))",
        ["3x8"],
    ),
    "rope": (ROPE, "arith.addf", "negf(take[h m n, -> h n](x, 1)), take[h m n, -> h n](x, 0)", ["3x8"]),
    "gate": (GATE, "arith.mulf", "mulf(exp(take[h m n, -> h m](x, 0)), take[h m n, -> h m](x, 1))", ["3x8"]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_pattern_has_the_word_and_the_c_computes_it(name: str, tmp_path: Path) -> None:
    model, at, written, given = PROGRAMS[name]
    capture = opsplice.capture(model, at, name=name)
    assert written in " ".join(capture.spec.split())
    assert capture.reference
    assert not capture.notes
    program = opsplice.compile(model, [capture.save(tmp_path / f"{name}.splice")[0]], require_match=True)
    draw = np.random.default_rng(1)
    inputs = [
        draw.standard_normal([int(n) for n in each.split("x")]).astype(np.float32)
        if isinstance(each, str)
        else np.array(each, np.int32)
        for each in given
    ]
    np.testing.assert_allclose(program.run(name, *inputs), opsplice.compile(model).run(name, *inputs), rtol=1e-6)


def test_a_mask_that_is_an_input_is_not_read() -> None:
    capture = opsplice.capture(MASK.format(**CAUSAL), "arith.select", inputs="linalg.generic#1")
    assert "band(" not in capture.spec
    assert "i1[m, n]" in capture.spec


def test_tensors_of_unequal_sizes_are_no_stack() -> None:
    unequal = """
func.func @joined(%a: tensor<3x3xf32>, %b: tensor<3x5xf32>) -> tensor<3x8xf32> {
  %r = tensor.concat dim(1) %a, %b : (tensor<3x3xf32>, tensor<3x5xf32>) -> tensor<3x8xf32>
  return %r : tensor<3x8xf32>
}"""
    assert '"tensor.concat"(' in opsplice.capture(unequal, "tensor.concat").spec
