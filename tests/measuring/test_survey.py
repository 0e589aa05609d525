"""What a survey says of a program: the largest patterns, ops that are in none, kernels, times."""

from __future__ import annotations

from pathlib import Path

import opsplice

MODEL = """
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %y: tensor<8x8xf32>) -> (tensor<8x4xf32>, tensor<8x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x4xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x4xf32>) -> tensor<8x4xf32>
  %p = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x4xf32>) outs(%fill : tensor<8x4xf32>) -> tensor<8x4xf32>
  %q = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x4xf32>) outs(%p : tensor<8x4xf32>) -> tensor<8x4xf32>
  %e = math.atan %y : tensor<8x8xf32>
  %n = arith.negf %e : tensor<8x8xf32>
  return %q, %n : tensor<8x4xf32>, tensor<8x8xf32>
}
"""
SPEC = """
kernel right(x: f32[m, n]) -> f32[m, n] {
  grid (m)
  cpu "wrong.c"
}
pattern p(x: tensor<m x n x f32>) { negf(x) }
replace p with right(x)
"""


def test_what_a_program_computes(tmp_path: Path) -> None:
    (tmp_path / "wrong.c").write_text((Path(__file__).parent / "wrong.c").read_text())
    (tmp_path / "replace.splice").write_text(SPEC)
    found = opsplice.survey(MODEL, [tmp_path / "replace.splice"])
    states = {item.name: item.state for item in found.items}
    assert states["math.atan"] == "no pattern"
    assert states["arith.negf"] == "kernel right"
    product = next(item for item in found.items if item.is_pattern)
    assert "m = 8" in product.dims
    assert product.operations == 2 * 8 * 16 * 4
    # IREE does not take the result's buffer where sums go on in it.
    assert all(item.seconds for item in found.items if item.name != "linalg.matmul"), found
    assert abs(sum(map(found.share, found.items)) - 1) < 1e-9
    assert "no pattern" in str(found)
    assert "arith.negf" in found._repr_html_()


def test_without_times_shares_are_of_operations() -> None:
    found = opsplice.survey(MODEL, timed=False)
    assert all(item.seconds is None for item in found.items)
    assert "of the operations" in str(found)
    assert max(found.items, key=found.share).is_pattern
