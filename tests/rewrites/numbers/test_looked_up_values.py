"""Elements that are looked up, masked and summed up, in tensors of several open dims."""

import numpy as np
from iree.compiler import ir

import opsplice
from opsplice.rewrites.numbers import looked_up_values

# Rows from the last to the first, where a mask holds, and their sums.
MASKED = """
func.func @main(%x: tensor<?x8x?x?xf32>, %mask: tensor<?x?xi1>) -> {result} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %m = tensor.dim %x, %c0 : tensor<?x8x?x?xf32>
  %n = tensor.dim %x, %c2 : tensor<?x8x?x?xf32>
  %k = tensor.dim %x, %c3 : tensor<?x8x?x?xf32>
  %last = arith.subi %n, %c1 : index
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty(%m, %n, %k) : tensor<?x8x?x?xf32>
  %turned = linalg.generic {{indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} outs(%empty : tensor<?x8x?x?xf32>) {{
  ^bb0(%out: f32):
    %a = linalg.index 0 : index
    %b = linalg.index 1 : index
    %c = linalg.index 2 : index
    %d = linalg.index 3 : index
    %row = arith.subi %last, %c : index
    %found = tensor.extract %x[%a, %b, %row, %d] : tensor<?x8x?x?xf32>
    linalg.yield %found : f32
  }} -> tensor<?x8x?x?xf32>
  %kept = linalg.generic {{indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>,
      affine_map<(a, b, c, d) -> (c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%turned, %mask : tensor<?x8x?x?xf32>, tensor<?x?xi1>) outs(%empty : tensor<?x8x?x?xf32>) {{
  ^bb0(%value: f32, %holds: i1, %out: f32):
    %chosen = arith.select %holds, %value, %zero : f32
    linalg.yield %chosen : f32
  }} -> tensor<?x8x?x?xf32>
  {end}
}}
"""
SUMMED = """
  %sums = tensor.empty(%m, %n) : tensor<?x8x?xf32>
  %start = linalg.fill ins(%zero : f32) outs(%sums : tensor<?x8x?xf32>) -> tensor<?x8x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>,
      affine_map<(a, b, c, d) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%kept : tensor<?x8x?x?xf32>) outs(%start : tensor<?x8x?xf32>) {
  ^bb0(%value: f32, %sum: f32):
    %more = arith.addf %value, %sum : f32
    linalg.yield %more : f32
  } -> tensor<?x8x?xf32>
  return %r : tensor<?x8x?xf32>
"""


def test_what_is_summed_is_looked_up_in_memory():
    """For AVX-512 the compiler does not come to an end without."""
    text = MASKED.format(result="tensor<?x8x?xf32>", end=SUMMED)
    with ir.Context():
        module = ir.Module.parse(text)
        looked_up_values.mend(module)
        assert str(module).count("util.optimization_barrier") == 1
    x, mask = np.arange(3 * 8 * 5 * 6, dtype=np.float32).reshape(3, 8, 5, 6), np.tri(5, 6, dtype=bool)
    sums = opsplice.compile(text).run("main", x, mask)
    np.testing.assert_array_equal(sums, np.where(mask, x[:, :, ::-1], 0).sum(3))


def test_what_is_not_summed_needs_no_memory():
    with ir.Context():
        module = ir.Module.parse(MASKED.format(result="tensor<?x8x?x?xf32>", end="return %kept : tensor<?x8x?x?xf32>"))
        looked_up_values.mend(module)
        assert "util.optimization_barrier" not in str(module)
