"""Heads that share a key, where a program has merged batches and heads into one dim, as JAX's einsum does."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.rewrites.plan.test_strided_buffers import CODE, SPEC, dots, filled, spliced

# Head h of 8 has the keys of group h / 4, as jnp.repeat makes them, or of group h % 2, as jnp.tile does.
MERGED = """
func.func @merged(%q: tensor<{b}x5x8x4xf32>, %keys: tensor<{b}x7x2x4xf32>) -> tensor<{all}x5x7xf32> {{
  {sizes}
  %many = tensor.empty({open}) : tensor<{b}x7x{split}x4xf32>
  %apart = linalg.broadcast ins(%keys : tensor<{b}x7x2x4xf32>) outs(%many : tensor<{b}x7x{split}x4xf32>)
    dimensions = [{repeated}]
  %heads = tensor.collapse_shape %apart [[0], [1], [2, 3], [4]] : tensor<{b}x7x{split}x4xf32> into tensor<{b}x7x8x4xf32>
  %kt = tensor.empty({open}) : tensor<{b}x8x7x4xf32>
  %turned = linalg.transpose ins(%heads : tensor<{b}x7x8x4xf32>) outs(%kt : tensor<{b}x8x7x4xf32>)
    permutation = [0, 2, 1, 3]
  %r = tensor.collapse_shape %turned [[0, 1], [2], [3]] : tensor<{b}x8x7x4xf32> into tensor<{all}x7x4xf32>
  %qt = tensor.empty({open}) : tensor<{b}x8x5x4xf32>
  %rows = linalg.transpose ins(%q : tensor<{b}x5x8x4xf32>) outs(%qt : tensor<{b}x8x5x4xf32>) permutation = [0, 2, 1, 3]
  %l = tensor.collapse_shape %rows [[0, 1], [2], [3]] : tensor<{b}x8x5x4xf32> into tensor<{all}x5x4xf32>
  {dots}
  return %c : tensor<{all}x5x7xf32>
}}
"""
SIZES = """%c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %b = tensor.dim %q, %c0 : tensor<?x5x8x4xf32>
  %all = arith.muli %b, %c8 : index"""


def merged(batch: int | None, split: str, repeated: int) -> str:
    own, all_heads = ("?", "?") if batch is None else (str(batch), str(8 * batch))
    kinds = [f"tensor<{all_heads}x{rest}xf32>" for rest in ("5x4", "7x4", "5x7")]
    words = {"sizes": SIZES, "open": "%b"} if batch is None else {"sizes": "", "open": ""}
    made = dots(*kinds, sizes="%all" if batch is None else "")
    return MERGED.format(b=own, all=all_heads, split=split, repeated=repeated, dots=made, **words)


@pytest.mark.parametrize("batch", [3, None])
@pytest.mark.parametrize(("split", "repeated"), [("2x4", 3), ("4x2", 2)])
def test_keys_are_read_where_they_lie_once(tmp_path, pairs, batch, split, repeated):
    program = merged(batch, split, repeated)
    (call,) = re.findall(r"flow\.dispatch @opsplice_dots::@opsplice_dots.*?\((.*?)\) :", spliced(program, tmp_path))
    assert call.split(", ")[:2] == ["%arg0", "%arg1"]
    q, keys = filled(3, 5, 8, 4), filled(3, 7, 2, 4)
    heads = keys.repeat(4, axis=2) if repeated == 3 else np.tile(keys, (1, 1, 4, 1))
    (found,) = pairs(program, SPEC, {"dots.c": CODE}).run("merged", q, keys)
    np.testing.assert_array_equal(found, np.einsum("bmhk,bnhk->bhmn", q, heads).reshape(24, 5, 7))
