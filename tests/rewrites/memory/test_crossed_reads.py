"""Elementwise ops that read one reduction at two places: right numbers, and barriers nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice
from opsplice.frontends import ModuleSource
from opsplice.matchers.ir.op_names import ops_in
from opsplice.pipeline.compiler import Compilation, Step, run
from opsplice.rewrites.memory import crossed_reads

T = "tensor<7x7xf32>"
SOFTMAX = f"""  %e = tensor.empty() : {T}
  %s = linalg.softmax dimension(1) ins(%x : {T}) outs(%e : {T}) -> {T}
"""
SUM = """  %zero = arith.constant 0.0 : f32
  %v = tensor.empty() : tensor<7xf32>
  %z = linalg.fill ins(%zero : f32) outs(%v : tensor<7xf32>) -> tensor<7xf32>
  %s = linalg.reduce { arith.addf } ins(%x : tensor<7x7xf32>) outs(%z : tensor<7xf32>) dimensions = [1]
  %e = tensor.empty() : tensor<7x7xf32>
"""


def joined(name: str, one: str, other: str, kind: str) -> str:
    """`%name`: what is read from `%s` by one map, plus twice what is read by another."""
    return f"""  %{name} = linalg.generic {{
    indexing_maps = [affine_map<(i, j) -> ({one})>, affine_map<(i, j) -> ({other})>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  }} ins(%s, %s : {kind}, {kind}) outs(%e : {T}) {{
  ^bb0(%a: f32, %b: f32, %o: f32):
    %twice = arith.addf %b, %b : f32
    %sum = arith.addf %a, %twice : f32
    linalg.yield %sum : f32
  }} -> {T}
"""


def function(name: str, body: str, result: str = "r") -> str:
    return f"func.func @{name}(%x: {T}) -> {T} {{\n{body}  return %{result} : {T}\n}}\n"


# Read through an op between, at its place and elsewhere.
THROUGH = f"""  %d = linalg.generic {{
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  }} ins(%x, %s : {T}, tensor<7xf32>) outs(%e : {T}) {{
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  }} -> {T}
  %r = linalg.generic {{
    indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  }} ins(%d, %s : {T}, tensor<7xf32>) outs(%e : {T}) {{
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.subf %a, %b : f32
    linalg.yield %m : f32
  }} -> {T}
"""
# Both reads are reshapes of the sums.
RESHAPED = f"""  %c = tensor.expand_shape %s [[0, 1]] output_shape [7, 1] : tensor<7xf32> into tensor<7x1xf32>
  %l = tensor.expand_shape %s [[0, 1]] output_shape [1, 7] : tensor<7xf32> into tensor<1x7xf32>
  %r = linalg.generic {{
    indexing_maps = [affine_map<(i, j) -> (i, 0)>, affine_map<(i, j) -> (0, j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  }} ins(%c, %l : tensor<7x1xf32>, tensor<1x7xf32>) outs(%e : {T}) {{
  ^bb0(%a: f32, %b: f32, %o: f32):
    %twice = arith.addf %b, %b : f32
    %sum = arith.addf %a, %twice : f32
    linalg.yield %sum : f32
  }} -> {T}
"""
# One number, read without dims.
SCALAR = f"""  %zero = arith.constant 0.0 : f32
  %row = tensor.extract_slice %x[0, 0] [1, 7] [1, 1] : {T} to tensor<1x7xf32>
  %column = tensor.extract_slice %x[0, 0] [7, 1] [1, 1] : {T} to tensor<7x1xf32>
  %v = tensor.empty() : tensor<1x1xf32>
  %z = linalg.fill ins(%zero : f32) outs(%v : tensor<1x1xf32>) -> tensor<1x1xf32>
  %p = linalg.matmul ins(%row, %column : tensor<1x7xf32>, tensor<7x1xf32>) outs(%z : tensor<1x1xf32>) -> tensor<1x1xf32>
  %s = tensor.collapse_shape %p [] : tensor<1x1xf32> into tensor<f32>
  %e = tensor.empty() : {T}
"""
CROSSED = (
    function("transposed", SOFTMAX + joined("r", "i, j", "j, i", T))
    + function("both_ways", SUM + joined("r", "i", "j", "tensor<7xf32>"))
    + function("through", SUM + THROUGH)
    + function("reshaped", SUM + RESHAPED)
)
# Rows are read from where others are written to, by numbers and by addition.
SCATTER = """
func.func @{name}(%y: tensor<512x64xf32>, %i: tensor<{rows}x1xi32>) -> tensor<512x64xf32> {{
  %x = arith.addf %y, %y : tensor<512x64xf32>
  %u = tensor.extract_slice %{source}[0, 0] [{rows}, 64] [1, 1] : tensor<512x64xf32> to tensor<{rows}x64xf32>
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
      ins(%u, %i : tensor<{rows}x64xf32>, tensor<{rows}x1xi32>) outs(%x : tensor<512x64xf32>) {{
  ^bb0(%new: f32, %old: f32):
    %s = arith.addf %new, %old : f32
    iree_linalg_ext.yield %{value} : f32
  }} -> tensor<512x64xf32>
  return %r : tensor<512x64xf32>
}}
"""
# The sum starts from one of its factors, or its transpose.
ADDED = """
func.func @{name}(%y: tensor<64x64xf32>) -> tensor<64x64xf32> {{
  %x = arith.addf %y, %y : tensor<64x64xf32>
  %e = tensor.empty() : tensor<64x64xf32>
  %t = linalg.transpose ins(%x : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) permutation = [1, 0]
  %r = linalg.matmul ins(%{factor}, %y : tensor<64x64xf32>, tensor<64x64xf32>) outs(%x : tensor<64x64xf32>)
      -> tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}}
"""
# Rows of an open number are added to what they are a reshape of.
REGROUPED = """
func.func @regrouped(%x: tensor<?x?xf32>, %i: tensor<?x1xi32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %sizes = tensor.from_elements %m, %c1, %n : tensor<3xindex>
  %u = tensor.reshape %x(%sizes) : (tensor<?x?xf32>, tensor<3xindex>) -> tensor<?x1x?xf32>
  %c = tensor.collapse_shape %u [[0], [1, 2]] : tensor<?x1x?xf32> into tensor<?x?xf32>
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
      ins(%c, %i : tensor<?x?xf32>, tensor<?x1xi32>) outs(%x : tensor<?x?xf32>) {
  ^bb0(%new: f32, %old: f32):
    %s = arith.addf %new, %old : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""
OVERWRITTEN = (
    SCATTER.format(name="moved", rows=256, source="x", value="new")
    + SCATTER.format(name="summed", rows=512, source="x", value="s")
    + ADDED.format(name="product", factor="x")
    + ADDED.format(name="turned", factor="t")
    + REGROUPED
)
INSERTED = """
func.func @inserted(%x: tensor<8x16xf32>, %row: index) -> tensor<8x16xf32> {
  %s = tensor.extract_slice %x[0, 0] [2, 9] [1, 1] : tensor<8x16xf32> to tensor<2x9xf32>
  %r = tensor.insert_slice %s into %x[%row, 2] [2, 9] [1, 1] : tensor<2x9xf32> into tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}
"""
OPEN = """
func.func @open(%x: tensor<?x8x16xf32>, %row: index) -> tensor<?x8x16xf32> {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?x8x16xf32>
  %s = tensor.extract_slice %x[0, 0, 0] [%n, 2, 9] [1, 1, 1] : tensor<?x8x16xf32> to tensor<?x2x9xf32>
  %r = tensor.insert_slice %s into %x[0, %row, 2] [%n, 2, 9] [1, 1, 1] : tensor<?x2x9xf32> into tensor<?x8x16xf32>
  return %r : tensor<?x8x16xf32>
}
"""
# What is padded is written into more dims.
PADDED = """
func.func @padded(%x: tensor<3x5xf32>) -> tensor<3x9x1xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x9x1xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<3x9x1xf32>) -> tensor<3x9x1xf32>
  %a = math.absf %x : tensor<3x5xf32>
  %p = tensor.pad %a low[0, 0] high[0, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<3x5xf32> to tensor<3x6xf32>
  %r = tensor.insert_slice %p into %zeros[0, 2, 0] [3, 6, 1] [1, 1, 1] : tensor<3x6xf32> into tensor<3x9x1xf32>
  return %r : tensor<3x9x1xf32>
}
"""
# Rows are added to some of the columns.
SLICED = """
func.func @{name}(%y: tensor<{rows}x96xf32>, %i: tensor<512x1xi32>, %u: tensor<512x64xf32>) -> tensor<{rows}x64xf32> {{
  %c0 = arith.constant 0 : index
  {size}
  %x = tensor.extract_slice %y[0, 8] [{n}, 64] [1, 1] : tensor<{rows}x96xf32> to tensor<{rows}x64xf32>
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
      ins(%u, %i : tensor<512x64xf32>, tensor<512x1xi32>) outs(%x : tensor<{rows}x64xf32>) {{
  ^bb0(%new: f32, %old: f32):
    %s = arith.addf %new, %old : f32
    iree_linalg_ext.yield %s : f32
  }} -> tensor<{rows}x64xf32>
  return %r : tensor<{rows}x64xf32>
}}
"""
COLUMNS = SLICED.format(name="large", rows=512, n=512, size="") + SLICED.format(
    name="open", rows="?", n="%n", size="%n = tensor.dim %y, %c0 : tensor<?x96xf32>"
)
# Numbers are added to a single element, which got more dims than what it is cut from.
ELEMENT = """
func.func @element(%y: tensor<3xf32>, %i: tensor<2x1xi32>, %u: tensor<2x1xf32>) -> tensor<1x1xf32> {
  %s = tensor.extract_slice %y[2] [1] [1] : tensor<3xf32> to tensor<1xf32>
  %x = tensor.expand_shape %s [[0, 1]] output_shape [1, 1] : tensor<1xf32> into tensor<1x1xf32>
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
      ins(%u, %i : tensor<2x1xf32>, tensor<2x1xi32>) outs(%x : tensor<1x1xf32>) {
  ^bb0(%new: f32, %old: f32):
    %s1 = arith.addf %new, %old : f32
    iree_linalg_ext.yield %s1 : f32
  } -> tensor<1x1xf32>
  return %r : tensor<1x1xf32>
}
"""
ONE_ELEMENT = """
func.func @matrix(%x: tensor<7xf32>, %y: tensor<2x1xf32>) -> tensor<2x1xf32> {
  %e = tensor.empty() : tensor<7xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]}
      ins(%x : tensor<7xf32>) outs(%e : tensor<7xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<7xf32>
  %cut = tensor.extract_slice %t[6] [1] [1] : tensor<7xf32> to tensor<1xf32>
  %matrix = tensor.expand_shape %cut [[0, 1]] output_shape [1, 1] : tensor<1xf32> into tensor<1x1xf32>
  %b = tensor.empty() : tensor<2x1xf32>
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%b : tensor<2x1xf32>) -> tensor<2x1xf32>
  %m = linalg.matmul ins(%y, %matrix : tensor<2x1xf32>, tensor<1x1xf32>) outs(%f : tensor<2x1xf32>) -> tensor<2x1xf32>
  return %m : tensor<2x1xf32>
}
func.func @widened(%x: tensor<2x3xi8>, %y: tensor<8xi32>) -> tensor<8xi32> {
  %e = tensor.empty() : tensor<2x3xi32>
  %t = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2x3xi8>) outs(%e : tensor<2x3xi32>) {
  ^bb0(%a: i8, %o: i32):
    %s = arith.extui %a : i8 to i32
    linalg.yield %s : i32
  } -> tensor<2x3xi32>
  %row = tensor.collapse_shape %t [[0, 1]] : tensor<2x3xi32> into tensor<6xi32>
  %cut = tensor.extract_slice %row[0] [1] [1] : tensor<6xi32> to tensor<i32>
  %b = tensor.empty() : tensor<8xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> ()>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%cut, %y : tensor<i32>, tensor<8xi32>) outs(%b : tensor<8xi32>) {
  ^bb0(%a: i32, %c: i32, %o: i32):
    %p = arith.muli %a, %c : i32
    linalg.yield %p : i32
  } -> tensor<8xi32>
  return %r : tensor<8xi32>
}
"""
ELSEWHERE = SCATTER.format(name="apart", rows=256, source="y", value="new") + ADDED.format(name="other", factor="y")
STRAIGHT = (
    function("softmax", SOFTMAX + joined("r", "i, j", "i, j", T))
    + function("rows", SUM + joined("r", "i", "i", "tensor<7xf32>"))
    + function("scalar", SCALAR + joined("r", "", "", "tensor<f32>"))
)


def test_numbers() -> None:
    program = opsplice.compile(CROSSED)
    x = np.random.default_rng(0).standard_normal((7, 7), np.float32)
    power = np.exp(x)
    soft, sums = power / power.sum(1, keepdims=True), x.sum(1)
    expected = {
        "transposed": soft + 2 * soft.T,
        "both_ways": sums[:, None] + 2 * sums,
        "through": (x * sums[:, None]).T - sums[:, None],
        "reshaped": sums[:, None] + 2 * sums,
    }
    for name, numbers in expected.items():
        np.testing.assert_allclose(program.run(name, x), numbers, rtol=1e-4, atol=1e-5, err_msg=name)


def test_ops_read_what_they_write_into() -> None:
    program = opsplice.compile(OVERWRITTEN)
    random = np.random.default_rng(1)
    y, square = random.standard_normal((512, 64), np.float32), random.standard_normal((64, 64), np.float32)
    for turn in (1, 255):
        rows = np.roll(np.arange(256, dtype=np.int32), turn)
        moved = 2 * y
        moved[rows] = 2 * y[:256]
        np.testing.assert_array_equal(program.run("moved", y, rows[:, None]), moved, err_msg=f"by {turn}")
    order = np.roll(np.arange(512, dtype=np.int32), -1)
    summed = 2 * y
    summed[order] += 2 * y
    np.testing.assert_allclose(program.run("summed", y, order[:, None]), summed, rtol=1e-6)
    rows = y[:5]
    last_first = np.arange(5, dtype=np.int32)[::-1, None]
    np.testing.assert_array_equal(program.run("regrouped", rows, last_first), rows + rows[::-1])
    exact = square.astype(np.float64)
    for name, factor in (("product", exact), ("turned", exact.T)):
        np.testing.assert_allclose(program.run(name, square), 2 * exact + 2 * factor @ exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("row", [0, 1, 2, 6])
def test_a_part_of_a_value_is_written_over_another_part(row: int) -> None:
    x = np.arange(128, dtype=np.float32).reshape(8, 16)
    moved = x.copy()
    moved[row : row + 2, 2:11] = x[:2, :9]
    np.testing.assert_array_equal(opsplice.compile(INSERTED).run("inserted", x, row), moved)
    batch = np.stack([x, 2 * x, 3 * x])
    scaled = np.stack([moved, 2 * moved, 3 * moved])
    np.testing.assert_array_equal(opsplice.compile(OPEN).run("open", batch, row), scaled)


def test_what_is_padded_is_written_into_more_dims() -> None:
    x = np.arange(-7, 8, dtype=np.float32).reshape(3, 5)
    padded = np.pad(np.abs(x), ((0, 0), (2, 2)))[..., None]
    np.testing.assert_array_equal(opsplice.compile(PADDED).run("padded", x), padded)


def test_numbers_are_added_to_an_element_with_more_dims() -> None:
    y, numbers = np.array([1, 2, 3], np.float32), np.array([[10], [20]], np.float32)
    given = y, np.zeros((2, 1), np.int32), numbers
    np.testing.assert_array_equal(opsplice.compile(ELEMENT).run("element", *given), [[33]])


def test_rows_are_added_to_columns() -> None:
    program = opsplice.compile(COLUMNS)
    random = np.random.default_rng(2)
    y, rows = random.standard_normal((512, 96), np.float32), random.standard_normal((512, 64), np.float32)
    order = np.roll(np.arange(512, dtype=np.int32), 5)
    expected = y[:, 8:72].copy()
    expected[order] += rows
    for name in ("large", "open"):
        np.testing.assert_allclose(program.run(name, y, order[:, None], rows), expected, rtol=1e-6)


COUNTS = {CROSSED: 5, STRAIGHT: 0, OVERWRITTEN: 5, COLUMNS: 2, INSERTED: 1, OPEN: 1, PADDED: 1, ELSEWHERE: 0}


@pytest.mark.parametrize(("model", "count"), COUNTS.items())
def test_only_crossed_reads_go_through_memory(model: str, count: int) -> None:
    with Compilation(("--iree-hal-target-backends=llvm-cpu",)) as compilation:
        compilation.load(ModuleSource(content=model))
        run(compilation, [Step(crossed_reads.PHASE, "apart", crossed_reads.separate)], to=crossed_reads.PHASE)
        assert len(list(ops_in(compilation.module.operation, "util.optimization_barrier"))) == count


SKIPPING = """
func.func @main(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x3xf32>) {
  %e = tensor.empty() : tensor<4x6xf32>
  %h = tensor.empty() : tensor<4x3xf32>
  %all = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x : tensor<4x6xf32>) outs(%e : tensor<4x6xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.addf %a, %a : f32
    linalg.yield %m : f32
  } -> tensor<4x6xf32>
  %some = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j * 2)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%all : tensor<4x6xf32>) outs(%h : tensor<4x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = math.absf %a : f32
    linalg.yield %m : f32
  } -> tensor<4x3xf32>
  return %all, %some : tensor<4x6xf32>, tensor<4x3xf32>
}
"""


def test_elements_that_an_op_skips_are_computed():
    """As those of a feature map that a pool of windows of one element, with strides, reads beside others."""
    x = np.arange(24, dtype=np.float32).reshape(4, 6) - 9
    whole, part = opsplice.compile(SKIPPING).run("main", x)
    np.testing.assert_array_equal(whole, 2 * x)
    np.testing.assert_array_equal(part, abs(2 * x[:, ::2]))


# Windows of three by three, and the elements in their corners, as a strided depthwise convolution beside one tap.
BESIDE_A_REDUCTION = """
func.func @main(%x: tensor<8x33x33xf32>) -> tensor<8x16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16x16xf32>) -> tensor<8x16x16xf32>
  %w = tensor.empty() : tensor<3x3xf32>
  %s = linalg.generic {
    indexing_maps = [
      affine_map<(c, i, j, k, l) -> (c, i * 2 + k, j * 2 + l)>, affine_map<(c, i, j, k, l) -> (k, l)>,
      affine_map<(c, i, j, k, l) -> (c, i, j)>
    ],
    iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]
  } ins(%x, %w : tensor<8x33x33xf32>, tensor<3x3xf32>) outs(%z : tensor<8x16x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.addf %o, %a : f32
    linalg.yield %m : f32
  } -> tensor<8x16x16xf32>
  %d = linalg.generic {
    indexing_maps = [affine_map<(c, i, j) -> (c, i * 2, j * 2)>, affine_map<(c, i, j) -> (c, i, j)>],
    iterator_types = ["parallel", "parallel", "parallel"]
  } ins(%x : tensor<8x33x33xf32>) outs(%e : tensor<8x16x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.addf %a, %a : f32
    linalg.yield %m : f32
  } -> tensor<8x16x16xf32>
  %r = linalg.generic {
    indexing_maps = [
      affine_map<(c, i, j) -> (c, i, j)>, affine_map<(c, i, j) -> (c, i, j)>, affine_map<(c, i, j) -> (c, i, j)>
    ],
    iterator_types = ["parallel", "parallel", "parallel"]
  } ins(%s, %d : tensor<8x16x16xf32>, tensor<8x16x16xf32>) outs(%e : tensor<8x16x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.subf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<8x16x16xf32>
  return %r : tensor<8x16x16xf32>
}
"""


def test_a_reduction_beside_elements_that_an_op_skips():
    x = np.random.default_rng(0).integers(-9, 9, (8, 33, 33)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))[:, ::2, ::2]
    found = opsplice.compile(BESIDE_A_REDUCTION).run("main", x)
    np.testing.assert_array_equal(found, windows.sum((3, 4)) - 2 * x[:, :32:2, :32:2])


SHORTENED = """
func.func @main(%x: tensor<?x?x8xf32>, %y: tensor<?x?x8xf32>, %cut: index) -> tensor<?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x8xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?x8xf32>
  %m = arith.subi %n, %cut : index
  %p = arith.addf %x, %y : tensor<?x?x8xf32>
  %s = tensor.extract_slice %p[PART] : tensor<?x?x8xf32> to KIND
  %v = tensor.empty(SIZES) : tensor<?x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%v : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.reduce { arith.maximumf } ins(%s : KIND) outs(%z : tensor<?x?xf32>) dimensions = [2]
  return %r : tensor<?x?xf32>
}
"""
# Which part, its type, its open sizes, and whether it is cut from memory.
PARTS = {
    "inside": ("0, 0, 0] [%b, %m, 8] [1, 1, 1", "tensor<?x?x8xf32>", "%b, %m", True),
    "rows": ("0, 0, 0] [%m, %n, 8] [1, 1, 1", "tensor<?x?x8xf32>", "%m, %n", False),
    "columns": ("0, 0, 4] [%b, %n, 4] [1, 1, 1", "tensor<?x?x4xf32>", "%b, %n", False),
}


@pytest.mark.parametrize("part", PARTS)
def test_what_is_shorter_than_the_sum_that_it_is_cut_from(part: str) -> None:
    text, kind, sizes, is_held = PARTS[part]
    model = SHORTENED.replace("PART", text).replace("KIND", kind).replace("SIZES", sizes)
    with Compilation() as compilation:
        compilation.load(ModuleSource(content=model))
        compilation.run_to(crossed_reads.PHASE)
        crossed_reads.separate(compilation.module)
        assert ("util.optimization_barrier" in str(compilation.module)) == is_held
    if is_held:
        x, y = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
        np.testing.assert_array_equal(
            opsplice.compile(model).run("main", x, y, 3), np.maximum((x + y)[:, :5].max(2), 0)
        )


def test_one_element_is_cut_from_memory() -> None:
    """IREE's compiler crashed where it becomes a matrix, and did not end where it is made wider."""
    program = opsplice.compile(ONE_ELEMENT, isolate=True)
    x, y = np.arange(7, dtype=np.float32), np.array([[1], [-3]], np.float32)
    np.testing.assert_array_equal(program.run("matrix", x, y), [[12], [-36]])
    bytes_, numbers = np.full((2, 3), 200, np.uint8), np.arange(8, dtype=np.int32)
    np.testing.assert_array_equal(program.run("widened", bytes_.view(np.int8), numbers), 200 * numbers)
