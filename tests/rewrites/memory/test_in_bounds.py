"""Indices that lie outside of their arrays read the nearest element, and write none."""

import numpy as np
import pytest

import opsplice

MODEL = """
func.func @gather(%x: tensor<4x6xf32>, %i: tensor<?xi64>) -> tensor<?x6xf32> {
  %zero = arith.constant 0 : index
  %n = tensor.dim %i, %zero : tensor<?xi64>
  %empty = tensor.empty(%n) : tensor<?x6xf32>
  %rows = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a, b)>],
                          iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<?xi64>) outs(%empty : tensor<?x6xf32>) {
  ^bb0(%row: i64, %out: f32):
    %r = arith.index_cast %row : i64 to index
    %c = linalg.index 1 : index
    %v = tensor.extract %x[%r, %c] : tensor<4x6xf32>
    linalg.yield %v : f32
  } -> tensor<?x6xf32>
  return %rows : tensor<?x6xf32>
}
func.func @pick(%x: tensor<?x?xf32>, %i: tensor<8xi32>) -> tensor<8xf32> {
  %empty = tensor.empty() : tensor<8xf32>
  %picked = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>],
                            iterator_types = ["parallel"]}
      ins(%i : tensor<8xi32>) outs(%empty : tensor<8xf32>) {
  ^bb0(%at: i32, %out: f32):
    %r = arith.index_cast %at : i32 to index
    %one = arith.constant 1 : index
    %c = arith.addi %r, %one : index
    %v = tensor.extract %x[%r, %c] : tensor<?x?xf32>
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %picked : tensor<8xf32>
}
func.func @scatter(%x: tensor<4x6xf32>, %i: tensor<8x1xi64>, %u: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
      ins(%u, %i : tensor<8x6xf32>, tensor<8x1xi64>) outs(%x : tensor<4x6xf32>) {
  ^bb0(%new: f32, %old: f32):
    iree_linalg_ext.yield %new : f32
  } -> tensor<4x6xf32>
  return %r : tensor<4x6xf32>
}
func.func @add(%x: tensor<?x?xf32>, %i: tensor<?x2xi32>, %u: tensor<?xf32>) -> tensor<?x?xf32> {
  %r = iree_linalg_ext.scatter dimension_map = [1, 0] unique_indices(false)
      ins(%u, %i : tensor<?xf32>, tensor<?x2xi32>) outs(%x : tensor<?x?xf32>) {
  ^bb0(%new: f32, %old: f32):
    %sum = arith.addf %new, %old : f32
    iree_linalg_ext.yield %sum : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
func.func @flat(%x: tensor<24xf32>, %i: tensor<8xi32>, %u: tensor<8xf32>) -> tensor<24xf32> {
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
      ins(%u, %i : tensor<8xf32>, tensor<8xi32>) outs(%x : tensor<24xf32>) {
  ^bb0(%new: f32, %old: f32):
    iree_linalg_ext.yield %new : f32
  } -> tensor<24xf32>
  return %r : tensor<24xf32>
}
"""

AT = [0, 3, 4, -1, 2, 10**9, -(2**31), 5]


@pytest.fixture(scope="module")
def program():
    return opsplice.compile(MODEL)


@pytest.mark.parametrize("at", [AT, [2**62, -(2**63)], []])
def test_rows_outside_are_the_nearest(program, at):
    x, at = np.arange(24, dtype=np.float32).reshape(4, 6), np.array(at, np.int64)
    np.testing.assert_array_equal(program.run("gather", x, at), x[at.clip(0, 3)])


def test_each_index_is_held_by_itself_after_what_is_added_to_it(program):
    x, at = np.arange(24, dtype=np.float32).reshape(4, 6), np.array([*AT[:6], -7, 5], np.int32)
    np.testing.assert_array_equal(program.run("pick", x, at), x[at.clip(0, 3), (at.astype(np.int64) + 1).clip(0, 5)])


def test_updates_outside_are_left_out(program):
    x, at, updates = np.zeros((4, 6), np.float32), np.array(AT), np.arange(1, 49, dtype=np.float32).reshape(8, 6)
    wanted = x.copy()
    for row, update in zip(at, updates, strict=True):
        if 0 <= row < 4:
            wanted[row] = update
    np.testing.assert_array_equal(program.run("scatter", x, at[:, None], updates), wanted)
    flat = np.array([23, 24, -1, 0, 7, 10**9, -(2**31), 12], np.int32)
    wanted = np.zeros(24)
    wanted[flat[[0, 3, 4, 7]]] = updates[0, [0, 3, 4, 5]] * 0 + [1, 4, 5, 8]
    given = np.arange(1, 9, dtype=np.float32)
    np.testing.assert_array_equal(program.run("flat", np.zeros(24, np.float32), flat, given), wanted)


def test_an_update_with_one_index_outside_is_left_out(program):
    x, updates = np.zeros((3, 5), np.float32), np.arange(1, 8, dtype=np.float32)
    at = np.array([[4, 2], [5, 2], [4, 3], [0, -1], [-1, 0], [0, 0], [4, 2]], np.int32)  # columns first
    wanted = x.copy()
    wanted[2, 4], wanted[0, 0] = 1 + 7, 6
    np.testing.assert_array_equal(program.run("add", x, at, updates), wanted)


STABLEHLO = """
func.func @main(%x: tensor<10xf32>, %i: tensor<8x1xi32>) -> (tensor<10xf32>, tensor<8xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<8xf32>
  %s = "stablehlo.scatter"(%x, %i, %one) <{indices_are_sorted = false, unique_indices = false,
      scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
                                                     index_vector_dim = 1>}> ({
  ^bb0(%old: tensor<f32>, %new: tensor<f32>):
    %sum = stablehlo.add %old, %new : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }) : (tensor<10xf32>, tensor<8x1xi32>, tensor<8xf32>) -> tensor<10xf32>
  %g = "stablehlo.gather"(%x, %i) <{indices_are_sorted = false, slice_sizes = array<i64: 1>,
      dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}>
      : (tensor<10xf32>, tensor<8x1xi32>) -> tensor<8xf32>
  return %s, %g : tensor<10xf32>, tensor<8xf32>
}
"""


def test_a_file_of_stablehlo_computes_what_its_specification_says(tmp_path):
    path = tmp_path / "model.stablehlo"
    path.write_text(STABLEHLO)
    at = np.array([1, 1, 10, -1, 9, 2**31 - 1, -(2**31), 0], np.int32)
    added, read = opsplice.compile(path).run("main", np.arange(10, dtype=np.float32), at[:, None])
    np.testing.assert_array_equal(added, [1, 3, 2, 3, 4, 5, 6, 7, 8, 10])
    np.testing.assert_array_equal(read, at.clip(0, 9))
