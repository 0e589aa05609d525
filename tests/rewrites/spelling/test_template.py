"""Patterns in the place of others, written out as ops: they compute what the pattern says."""

from __future__ import annotations

import numpy as np
import pytest

from opsplice.interpreter import evaluate
from opsplice.spec_lang.loading.loader import load_text
from tests.matchers.soundness.traps import Ask, parsed, replaced

SUMMED = """
func.func @f(%x: tensor<4xf32>, %y: tensor<4x5xf32>) -> tensor<4xf32> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x5xf32>
  %rows = linalg.broadcast ins(%x : tensor<4xf32>) outs(%e : tensor<4x5xf32>) dimensions = [1]
  %e1 = tensor.empty() : tensor<4xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.generic {{
    indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>],
    iterator_types = ["parallel", "reduction"]
  }} ins(%rows, %rows : tensor<4x5xf32>, tensor<4x5xf32>) outs(%start : tensor<4xf32>) {{
  ^bb0(%a: f32, %b: f32, %out: f32):
    %p = {product}
    %s = arith.addf %p, %out : f32
    linalg.yield %s : f32
  }} -> tensor<4xf32>
  %of_y = linalg.reduce ins(%y : tensor<4x5xf32>) outs(%start : tensor<4xf32>) dimensions = [1]
    (%in: f32, %out: f32) {{
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
    }}
  %r = arith.addf %sum, %of_y : tensor<4xf32>
  return %r : tensor<4xf32>
}}
"""


@pytest.mark.parametrize(
    ("product", "sum_of_x", "times"),
    [
        ("arith.negf %a : f32", "reduce addf[m n -> m](negf(broadcast[m -> m n](x)))", lambda x: -5 * x),
        ("arith.addf %a, %zero : f32", "reduce addf[m n -> m](broadcast[m -> m n](x))", lambda x: 5 * x),
        (
            "arith.mulf %a, %b : f32",
            "contract[m n, m n -> m](broadcast[m -> m n](x), broadcast[m -> m n](x))",
            lambda x: 5 * x * x,
        ),
    ],
)
def test_what_is_only_repeated_along_a_dim_is_summed_over_it(product: str, sum_of_x: str, times) -> None:
    """A loop needs an operand that has it as a dim."""
    spec = load_text(
        f"pattern p(x: tensor<m x f32>, y: tensor<m x n x f32>) {{ addf({sum_of_x}, reduce addf[m n -> m](y)) }}"
    )
    x, y = np.arange(4.0), np.arange(20.0).reshape(4, 5)
    module = replaced(parsed(SUMMED.format(product=product)), Ask.of(spec, "p"))
    assert module is not None
    assert "written_by" in str(module)
    np.testing.assert_array_equal(evaluate(module, "f", [x, y])[0], times(x) + y.sum(axis=1))
