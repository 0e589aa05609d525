"""A call by DLPack leaves its arrays as they are, although IREE computes in place where it can."""

import numpy as np
import pytest

import opsplice

MODEL = """
func.func @scatter(%x: tensor<32x8xf32>, %i: tensor<4x1xi64>, %u: tensor<4x8xf32>) -> tensor<32x8xf32> {
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
      ins(%u, %i : tensor<4x8xf32>, tensor<4x1xi64>) outs(%x : tensor<32x8xf32>) {
  ^bb0(%new: f32, %old: f32):
    iree_linalg_ext.yield %new : f32
  } -> tensor<32x8xf32>
  return %r : tensor<32x8xf32>
}
func.func @insert(%x: tensor<32x8xf32>, %i: tensor<4x1xi64>, %u: tensor<4x8xf32>) -> tensor<32x8xf32> {
  %r = tensor.insert_slice %u into %x[4, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<32x8xf32>
  return %r : tensor<32x8xf32>
}
func.func @product(%x: tensor<32x8xf32>, %i: tensor<4x1xi64>, %u: tensor<4x8xf32>) -> tensor<4x4xf32> {
  %rows = tensor.extract_slice %x[0, 0] [4, 4] [1, 1] : tensor<32x8xf32> to tensor<4x4xf32>
  %other = tensor.extract_slice %u[0, 0] [4, 4] [1, 1] : tensor<4x8xf32> to tensor<4x4xf32>
  %r = linalg.matmul ins(%other, %other : tensor<4x4xf32>, tensor<4x4xf32>) outs(%rows : tensor<4x4xf32>)
      -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
func.func @sum(%x: tensor<?x8xf32>, %i: tensor<4x1xi64>, %u: tensor<4x8xf32>) -> tensor<?x?xf32> {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?x8xf32>
  %flat = tensor.collapse_shape %x [[0, 1]] : tensor<?x8xf32> into tensor<?xf32>
  %line = tensor.extract_slice %u[0, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<8xf32>
  %k = arith.constant 8 : index
  %m = arith.muli %n, %k : index
  %two = tensor.expand_shape %flat [[0, 1]] output_shape [%n, %k] : tensor<?xf32> into tensor<?x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (b)>, affine_map<(a, b) -> (a, b)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%line : tensor<8xf32>) outs(%two : tensor<?x?xf32>) {
  ^bb0(%new: f32, %old: f32):
    %s = arith.addf %new, %old : f32
    linalg.yield %s : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""


@pytest.fixture(scope="module")
def program():
    return opsplice.compile(MODEL)


def aligned(array):
    """At a multiple of 64 bytes, where IREE takes memory as it is."""
    memory = np.zeros(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    placed = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    placed[...] = array
    return placed


@pytest.mark.parametrize("function", ["scatter", "insert", "product", "sum"])
def test_what_a_program_computes_in_place_leaves_its_input(program, function):
    given = [np.ones((32, 8), np.float32), np.array([[1], [5], [2], [31]]), np.full((4, 8), 2, np.float32)]
    arrays = list(map(aligned, given))
    call = program.direct(function)
    first, second = (np.array(call(arrays)[0]) for _ in range(2))
    for array, before in zip(arrays, given, strict=True):
        np.testing.assert_array_equal(array, before)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, program.run(function, *given))
