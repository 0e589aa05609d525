"""Elements of slices that do not lie side by side are read."""

import numpy as np
import pytest

import opsplice

MODEL = """
#one = affine_map<(a) -> (a)>
func.func @column(%x: tensor<?x4x6xf32>, %at: tensor<?xi64>, %start: index, %size: index) -> tensor<?xf32> {
  %zero = arith.constant 0 : index
  %n = tensor.dim %at, %zero : tensor<?xi64>
  %s = tensor.extract_slice %x[%start, 1, 4] [%size, 1, 1] [2, 1, 1] : tensor<?x4x6xf32> to tensor<?x1xf32>
  %empty = tensor.empty(%n) : tensor<?xf32>
  %read = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%at : tensor<?xi64>) outs(%empty : tensor<?xf32>) {
  ^bb0(%i: i64, %out: f32):
    %row = arith.index_cast %i : i64 to index
    %v = tensor.extract %s[%row, %zero] : tensor<?x1xf32>
    linalg.yield %v : f32
  } -> tensor<?xf32>
  return %read : tensor<?xf32>
}
func.func @reshaped(%x: tensor<5x4x6xf32>, %at: tensor<8xi64>) -> tensor<8xf32> {
  %zero = arith.constant 0 : index
  %s = tensor.extract_slice %x[1, 0, 5] [3, 4, 1] [1, 1, 1] : tensor<5x4x6xf32> to tensor<3x4x1xf32>
  %flat = tensor.collapse_shape %s [[0], [1, 2]] : tensor<3x4x1xf32> into tensor<3x4xf32>
  %wide = tensor.expand_shape %flat [[0, 1], [2]] output_shape [1, 3, 4] : tensor<3x4xf32> into tensor<1x3x4xf32>
  %empty = tensor.empty() : tensor<8xf32>
  %read = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%at : tensor<8xi64>) outs(%empty : tensor<8xf32>) {
  ^bb0(%i: i64, %out: f32):
    %column = arith.index_cast %i : i64 to index
    %two = arith.constant 2 : index
    %v = tensor.extract %wide[%zero, %two, %column] : tensor<1x3x4xf32>
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %read : tensor<8xf32>
}
func.func @single(%x: tensor<5x4xf32>) -> tensor<3xf32> {
  %s = tensor.extract_slice %x[2, 1] [1, 1] [1, 1] : tensor<5x4xf32> to tensor<1x1xf32>
  %scalar = tensor.collapse_shape %s [] : tensor<1x1xf32> into tensor<f32>
  %v = tensor.extract %scalar[] : tensor<f32>
  %empty = tensor.empty() : tensor<3xf32>
  %three = linalg.fill ins(%v : f32) outs(%empty : tensor<3xf32>) -> tensor<3xf32>
  return %three : tensor<3xf32>
}
"""


@pytest.fixture(scope="module")
def program():
    return opsplice.compile(MODEL)


def test_a_column_of_some_rows(program):
    x = np.arange(168, dtype=np.float32).reshape(7, 4, 6)
    found = program.run("column", x, np.array([2, 0, 9]), 1, 3)
    np.testing.assert_array_equal(found, x[1::2, 1, 4][[2, 0, 2]])


def test_a_column_with_dims_of_one_element(program):
    x = np.arange(120, dtype=np.float32).reshape(5, 4, 6)
    found = program.run("reshaped", x, np.array([3, 0, 1, 2, 4, -1, 0, 3]))
    np.testing.assert_array_equal(found, x[3, [3, 0, 1, 2, 3, 0, 0, 3], 5])


def test_the_only_element_of_a_slice(program):
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    np.testing.assert_array_equal(program.run("single", x), [9, 9, 9])
