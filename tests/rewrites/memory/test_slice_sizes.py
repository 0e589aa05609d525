"""Slices of a computed size beside whole tensors."""

from __future__ import annotations

import numpy as np

import opsplice

PROGRAM = """func.func @main(%x: tensor<?x8x?xf32>, %y: tensor<?x16x?x4xf32>) -> tensor<?x8x?xf32> {
  %zero = arith.constant 0 : index
  %two = arith.constant 2 : index
  %four = arith.constant 4 : i64
  %height = arith.constant 16 : index
  %batch = tensor.dim %y, %zero : tensor<?x16x?x4xf32>
  %groups = tensor.dim %y, %two : tensor<?x16x?x4xf32>
  %count = arith.index_cast %groups : index to i64
  %wide = arith.muli %count, %four : i64
  %width = arith.index_cast %wide : i64 to index
  %room = tensor.empty(%batch, %groups) : tensor<?x16x?x4xf32>
  %sizes = linalg.map { math.absf } ins(%y : tensor<?x16x?x4xf32>) outs(%room : tensor<?x16x?x4xf32>)
  %shape = tensor.from_elements %batch, %height, %width : tensor<3xindex>
  %flat = tensor.reshape %sizes(%shape) : (tensor<?x16x?x4xf32>, tensor<3xindex>) -> tensor<?x16x?xf32>
  %left = tensor.extract_slice %flat[0, 0, 0] [%batch, 8, %width] [1, 1, 1] : tensor<?x16x?xf32> to tensor<?x8x?xf32>
  %right = tensor.extract_slice %flat[0, 8, 0] [%batch, 8, %width] [1, 1, 1] : tensor<?x16x?xf32> to tensor<?x8x?xf32>
  %gated = arith.mulf %left, %right : tensor<?x8x?xf32>
  %sum = arith.addf %x, %gated : tensor<?x8x?xf32>
  return %sum : tensor<?x8x?xf32>
}"""

FROM_CONSTANTS = """#each = affine_map<(i, j) -> (i, j)>
func.func @main(%x: tensor<?x?xf32>, %y: tensor<?xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %zero = arith.constant 0 : index
  %numbers = arith.constant dense<[2, 3]> : tensor<2xi64>
  %few = tensor.empty() : tensor<2xi64>
  %squares = linalg.map { arith.muli } ins(%numbers, %numbers : tensor<2xi64>, tensor<2xi64>) outs(%few : tensor<2xi64>)
  %one = arith.constant 1 : index
  %four = tensor.extract %squares[%zero] : tensor<2xi64>
  %nine = tensor.extract %squares[%one] : tensor<2xi64>
  %left = arith.index_cast %four : i64 to index
  %right = arith.index_cast %nine : i64 to index
  %n = tensor.dim %y, %zero : tensor<?xf32>
  %part = tensor.extract_slice %x[0, %left] [%n, %n] [1, 3] : tensor<?x?xf32> to tensor<?x?xf32>
  %rest = tensor.extract_slice %x[0, %right] [%n, %n] [1, 3] : tensor<?x?xf32> to tensor<?x?xf32>
  %room = tensor.empty(%n, %n) : tensor<?x?xf32>
  %sums, %exps = linalg.generic
    {indexing_maps = [#each, #each, #each, #each], iterator_types = ["parallel", "parallel"]}
    ins(%part, %rest : tensor<?x?xf32>, tensor<?x?xf32>) outs(%room, %room : tensor<?x?xf32>, tensor<?x?xf32>) {
    ^bb0(%each: f32, %other: f32, %out: f32, %last: f32):
      %row = linalg.index 0 : index
      %added = tensor.extract %y[%row] : tensor<?xf32>
      %sum = arith.addf %each, %added : f32
      %exp = math.exp %other : f32
      linalg.yield %sum, %exp : f32, f32
  } -> (tensor<?x?xf32>, tensor<?x?xf32>)
  return %sums, %exps : tensor<?x?xf32>, tensor<?x?xf32>
}"""


def test_slices_beside_whole_tensors() -> None:
    program = opsplice.compile(PROGRAM)
    for batch, groups in ((2, 5), (3, 4)):
        random = np.random.default_rng(groups)
        shapes = (batch, 8, 4 * groups), (batch, 16, groups, 4)
        x, y = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
        flat = np.abs(y.reshape(batch, 16, -1))
        wanted = x + flat[:, :8] * flat[:, 8:]
        np.testing.assert_allclose(program.run("main", x, y), wanted, rtol=1e-6)


def test_places_that_are_made_from_constants() -> None:
    """IREE computes them once, at the start: boxes that Faster R-CNN moves are cut so."""
    program = opsplice.compile(FROM_CONSTANTS)
    for n in (3, 5):
        random = np.random.default_rng(n)
        x, y = (random.standard_normal(shape).astype(np.float32) for shape in ((n, 9 + 3 * n), (n,)))
        sums, exps = program.run("main", x, y)
        np.testing.assert_allclose(sums, x[:, 4 : 4 + 3 * n : 3] + y[:, None], rtol=1e-6)
        np.testing.assert_allclose(exps, np.exp(x[:, 9::3]), rtol=1e-5)
