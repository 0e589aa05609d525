"""Contractions of a type variable that say what they make: elements are widened where they are not of that type."""

from __future__ import annotations

import pytest

PROGRAM = """
func.func @main(%a: tensor<8x4xELEMENT>, %b: tensor<4x6xELEMENT>) -> tensor<8x6xMADE> {
  %zero = arith.constant 0.0 : MADE
  %e = tensor.empty() : tensor<8x6xMADE>
  %f = linalg.fill ins(%zero : MADE) outs(%e : tensor<8x6xMADE>) -> tensor<8x6xMADE>
  %r = linalg.matmul ins(%a, %b : tensor<8x4xELEMENT>, tensor<4x6xELEMENT>) outs(%f : tensor<8x6xMADE>)
      -> tensor<8x6xMADE>
  return %r : tensor<8x6xMADE>
}
"""


@pytest.mark.parametrize(
    ("choices", "element", "made", "count"),
    [
        ("f16, f32", "f16", "f32", 1),
        ("f16, f32", "f32", "f32", 1),
        ("f16, f32", "f16", "f16", 0),
        ("f16, bf16", "f32", "f32", 0),
    ],
)
def test_a_type_variable_that_may_be_what_is_made(find, choices, element, made, count):
    for factor in ("a", "negf(a) | a", "a | negf(a)"):
        spec = f"""
        pattern p<T in {{{choices}}}>(a: tensor<m x k x T>, b: tensor<k x n x T>) {{
          contract[m k, k n -> m n]({factor}, b) : tensor<m x n x f32>
        }}
        """
        assert find(PROGRAM.replace("ELEMENT", element).replace("MADE", made), spec).count == count
