"""Single elements whose places are read, beside a sum, in one dispatch of a loop."""

from __future__ import annotations

import numpy as np

import opsplice

MODEL = """
func.func @main(%x: tensor<4x4xf32>, %places: tensor<4x2xi32>, %y: tensor<4xf32>) -> tensor<f32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c4 = stablehlo.constant dense<4> : tensor<i32>
  %read = "stablehlo.gather"(%x, %places) {
    dimension_numbers = #stablehlo.gather<
      collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 1>, indices_are_sorted = false
  } : (tensor<4x4xf32>, tensor<4x2xi32>) -> tensor<4xf32>
  %r:2 = stablehlo.while(%i = %c0, %c = %one) : tensor<i32>, tensor<f32>
    cond {
      %go = stablehlo.compare LT, %i, %c4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %n = stablehlo.add %i, %c1 : tensor<i32>
      %part = stablehlo.dynamic_slice %read, %i, sizes = [1] : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
      %e = stablehlo.reshape %part : (tensor<1xf32>) -> tensor<f32>
      %all = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<4xf32>
      %p = stablehlo.multiply %y, %all : tensor<4xf32>
      %sum = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [0]
          : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
      %d = stablehlo.subtract %sum, %e : tensor<f32>
      stablehlo.return %n, %d : tensor<i32>, tensor<f32>
    }
  return %r#1 : tensor<f32>
}
"""


def test_they_are_read_without_loops() -> None:
    # In a process of its own: IREE ends the process without the change.
    program = opsplice.compile(MODEL, isolate=True)
    x, y = np.arange(16, dtype=np.float32).reshape(4, 4), np.float32([1, -1, 0.5, 0.5])
    places, wanted = np.array([[0, 1], [3, 2], [1, 1], [2, 0]], np.int32), 1.0
    for row, column in places:
        wanted = (y * wanted).sum() - x[row, column]
    assert program.run("main", x, places, y) == wanted
