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


def test_slices_beside_whole_tensors() -> None:
    program = opsplice.compile(PROGRAM)
    for batch, groups in ((2, 5), (3, 4)):
        random = np.random.default_rng(groups)
        shapes = (batch, 8, 4 * groups), (batch, 16, groups, 4)
        x, y = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
        flat = np.abs(y.reshape(batch, 16, -1))
        wanted = x + flat[:, :8] * flat[:, 8:]
        np.testing.assert_allclose(program.run("main", x, y), wanted, rtol=1e-6)
