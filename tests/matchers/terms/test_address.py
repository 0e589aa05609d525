"""Where elements lie: offsets and strides of tensors in the memory of what views start from."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from iree.compiler import ir

from opsplice.matchers.dims.extents import ZERO, Extent
from opsplice.matchers.dims.layouts import Layout, Runs, row_major
from opsplice.matchers.terms import address
from opsplice.matchers.terms.terms import DimSize
from opsplice.matchers.terms.views import Views
from tests.effort import examples
from tests.matchers.soundness.programs import Program, run, told

QKV = """
func.func @f(%x: tensor<1x16x96xf32>) -> tensor<1x4x16x8xf32> {
  %k = tensor.extract_slice %x[0, 0, 32] [1, 16, 32] [1, 1, 1] : tensor<1x16x96xf32> to tensor<1x16x32xf32>
  %h = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [1, 16, 4, 8]
    : tensor<1x16x32xf32> into tensor<1x16x4x8xf32>
  %e = tensor.empty() : tensor<1x4x16x8xf32>
  %t = linalg.transpose ins(%h : tensor<1x16x4x8xf32>) outs(%e : tensor<1x4x16x8xf32>) permutation = [0, 2, 1, 3]
  return %t : tensor<1x4x16x8xf32>
}"""
# Slices of slices, with steps, of which some drop a dim.
SLICES = """
func.func @f(%x: tensor<3x10x12xf32>) -> tensor<2x5xf32> {
  %a = tensor.extract_slice %x[1, 2, 3] [1, 8, 9] [1, 1, 1] : tensor<3x10x12xf32> to tensor<8x9xf32>
  %b = tensor.extract_slice %a[1, 0] [2, 5] [4, 2] : tensor<8x9xf32> to tensor<2x5xf32>
  return %b : tensor<2x5xf32>
}"""
# Queries of heads that have their queries, keys and values side by side: the first of three.
FIRST = """
func.func @f(%x: tensor<5x24xf32>) -> tensor<5x2x4xf32> {
  %h = tensor.expand_shape %x [[0], [1, 2, 3]] output_shape [5, 2, 3, 4] : tensor<5x24xf32> into tensor<5x2x3x4xf32>
  %q = tensor.extract_slice %h[0, 0, 0, 0] [5, 2, 1, 4] [1, 1, 1, 1] : tensor<5x2x3x4xf32> to tensor<5x2x4xf32>
  return %q : tensor<5x2x4xf32>
}"""
REPEATED = """
func.func @f(%x: tensor<2x4x6x8xf32>) -> tensor<2x8x6x8xf32> {
  %e = tensor.empty() : tensor<2x4x2x6x8xf32>
  %t = linalg.broadcast ins(%x : tensor<2x4x6x8xf32>) outs(%e : tensor<2x4x2x6x8xf32>) dimensions = [2]
  %c = tensor.collapse_shape %t [[0], [1, 2], [3], [4]] : tensor<2x4x2x6x8xf32> into tensor<2x8x6x8xf32>
  return %c : tensor<2x8x6x8xf32>
}"""
# Batch and heads merged, apart, and merged with another.
MERGED = """
func.func @f(%x: tensor<2x6x4x8xf32>) -> tensor<8x48xf32> {
  %e = tensor.empty() : tensor<2x4x6x8xf32>
  %t = linalg.transpose ins(%x : tensor<2x6x4x8xf32>) outs(%e : tensor<2x4x6x8xf32>) permutation = [0, 2, 1, 3]
  %c = tensor.collapse_shape %t [[0, 1], [2, 3]] : tensor<2x4x6x8xf32> into tensor<8x48xf32>
  return %c : tensor<8x48xf32>
}"""
# A reshape between dims that have no border in common but the ends.
ACROSS = """
func.func @f(%x: tensor<4x6xf32>) -> tensor<3x8xf32> {
  %c = tensor.collapse_shape %x [[0, 1]] : tensor<4x6xf32> into tensor<24xf32>
  %e = tensor.expand_shape %c [[0, 1]] output_shape [3, 8] : tensor<24xf32> into tensor<3x8xf32>
  return %e : tensor<3x8xf32>
}"""
# Windows of 4x4 pixels back to an image of 8x8, where the 64 pixels are one dim.
WINDOWS = """
func.func @f(%x: tensor<4x16xf32>) -> tensor<64xf32> {
  %c = tensor.collapse_shape %x [[0, 1]] : tensor<4x16xf32> into tensor<64xf32>
  %s = tensor.expand_shape %c [[0, 1, 2, 3]] output_shape [2, 2, 4, 4] : tensor<64xf32> into tensor<2x2x4x4xf32>
  %e = tensor.empty() : tensor<2x4x2x4xf32>
  %t = linalg.transpose ins(%s : tensor<2x2x4x4xf32>) outs(%e : tensor<2x4x2x4xf32>) permutation = [0, 2, 1, 3]
  %r = tensor.collapse_shape %t [[0, 1, 2, 3]] : tensor<2x4x2x4xf32> into tensor<64xf32>
  return %r : tensor<64xf32>
}"""
DYNAMIC = """
func.func @f(%x: tensor<?x?x3x4x8xf32>, %at: index) -> tensor<?x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x3x4x8xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x3x4x8xf32>
  %k = tensor.extract_slice %x[0, 0, %at, 0, 0] [%b, %s, 1, 4, 8] [1, 1, 1, 1, 1]
    : tensor<?x?x3x4x8xf32> to tensor<?x?x4x8xf32>
  %e = tensor.empty(%b, %s) : tensor<?x4x?x8xf32>
  %t = linalg.transpose ins(%k : tensor<?x?x4x8xf32>) outs(%e : tensor<?x4x?x8xf32>) permutation = [0, 2, 1, 3]
  %c = tensor.collapse_shape %t [[0, 1], [2], [3]] : tensor<?x4x?x8xf32> into tensor<?x?x8xf32>
  return %c : tensor<?x?x8xf32>
}"""
MASKED = """
func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, MAP)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4x4xf32>
  return %d : tensor<4x4xf32>
}"""


def found(text: str) -> list[tuple[ir.Value, Layout]]:
    """Where the result of a function lies, nearest first."""
    with ir.Context():
        module = ir.Module.parse(text)
        (function,) = module.body.operations
        value = list(function.regions[0].blocks[0].operations)[-1].operands[0]
        views = Views()
        return list(address.layouts(views, value, address.sizes_of(views, value)))


def elements(runs: Runs, at: int) -> int:
    """What the index `at` of a dim adds to an address."""
    total = 0
    for size, stride in reversed(runs):
        at, part = divmod(at, size.factor)
        total += part * (stride.number or 0)
    return total


def memory(layout: Layout, base: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The tensor that a layout says, read from a value's memory."""
    taken = base.reshape(-1)
    offset = layout.offset.number or 0
    places = itertools.product(*(range(size) for size in shape))
    each = [taken[offset + sum(map(elements, layout.dims, place))] for place in places]
    return np.array(each).reshape(shape)


def numbered(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape)


QKV_MADE = numbered(1, 16, 96)[:, :, 32:64].reshape(1, 16, 4, 8).transpose(0, 2, 1, 3)


@pytest.mark.parametrize(
    ("text", "base", "wanted", "levels"),
    [
        (QKV, numbered(1, 16, 96), QKV_MADE, 4),
        (SLICES, numbered(3, 10, 12), numbered(3, 10, 12)[1, 2:, 3:][1::4, :10:2][:2], 3),
        (FIRST, numbered(5, 24), numbered(5, 2, 3, 4)[:, :, 0], 3),
        (REPEATED, numbered(2, 4, 6, 8), numbered(2, 4, 6, 8).repeat(2, axis=1), 3),
        (MERGED, numbered(2, 6, 4, 8), numbered(2, 6, 4, 8).transpose(0, 2, 1, 3).reshape(8, 48), 3),
        (ACROSS, numbered(4, 6), numbered(4, 6).reshape(3, 8), 3),
        (WINDOWS, numbered(4, 16), numbered(2, 2, 4, 4).transpose(0, 2, 1, 3).reshape(64), 5),
        (MASKED.replace("MAP", "2"), numbered(4, 4), None, 1),
        (MASKED.replace("MAP", "j floordiv 2"), numbered(4, 4), None, 1),
    ],
)
def test_a_layout_is_where_the_elements_are(text, base, wanted, levels):
    known = found(text)
    assert len(known) == levels
    if wanted is None:
        return
    shape = wanted.shape
    np.testing.assert_array_equal(memory(known[0][1], wanted, shape), wanted)
    _, furthest = known[-1]
    assert furthest.count.number == base.size
    np.testing.assert_array_equal(memory(furthest, base, shape), wanted)


@pytest.mark.parametrize("block", range(4))
def test_layouts_of_random_views_are_where_the_elements_are(session, block):
    count, read = examples(60, 500), 0
    for seed in range(block * count, (block + 1) * count):
        rng = random.Random(seed)
        made = Program(rng)
        made.values = [made.argument(tuple(rng.choice([1, 2, 4, 6, 12]) for _ in range(rng.choice([1, 2, 3]))))]
        for _ in range(6):
            rng.choice([made.transpose, made.collapse, made.expand, made.slice, made.broadcast])()
        module, arrays, returned = run(session, made, seed)
        views = Views()
        for value in returned:
            for base, layout in address.layouts(views, value, address.sizes_of(views, value)):
                wanted, where = arrays[value], f"seed {seed}, {value} in {base}\n{module}"
                known = layout.renamed(lambda atom, arrays=arrays: told(atom, arrays))
                np.testing.assert_array_equal(memory(known, arrays[base], wanted.shape), wanted, where)
                read += base != value
    assert read > count


def test_sizes_that_are_known_at_run_time_make_sums_of_products():
    value, layout = found(DYNAMIC)[-1]
    batch, rows = (Extent.of(DimSize(value, axis)) for axis in (0, 1))
    at = layout.offset
    assert (at.factor, len(at.atoms)) == (32, 1)
    assert layout.count == Extent(96) * batch * rows
    heads, row, column = layout.dims
    assert heads == ((batch, Extent(96) * rows), (Extent(4), Extent(8)))
    assert row == ((rows, Extent(96)),)
    assert column == ((Extent(8), Extent(1)),)


def test_amounts_are_sums():
    one, n = Extent(1), Extent.of("n")
    assert (one + n) * n == n + n * n
    assert ((one + n) * (one + n)).divided(one + n) == one + n
    assert one + Extent(-1) == ZERO
    assert (ZERO.number, (one + one).number, n.number) == (0, 2, None)
    assert (n * n + one).renamed({"n": 3}.get) == Extent(10)


def test_dense_layouts_of_known_sizes_are_made_once():
    sizes = [Extent(4), Extent(1), Extent(6)]
    found = row_major(sizes)
    assert row_major(list(sizes)) is found
    assert found == Layout(Extent(24), ZERO, (((Extent(4), Extent(6)),), (), ((Extent(6), Extent(1)),)))
    unknown = Extent.of("n")  # an atom, which holds on to what it is
    assert row_major([Extent(4), unknown]) is not row_major([Extent(4), unknown])
    assert row_major([Extent(4), unknown]).dims[0] == ((Extent(4), unknown),)
