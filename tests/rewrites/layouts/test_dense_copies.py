"""Layouts as reshapes, slices, transposes and broadcasts: they read what strides read."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from opsplice.matchers.dims.extents import Extent
from opsplice.matchers.dims.layouts import Layout
from opsplice.rewrites.layouts.dense_copies import nested


def layout_of(count: int, offset: int, runs: list[tuple[int, int]]) -> Layout:
    dims = tuple(((Extent(size), Extent(stride)),) for size, stride in runs)
    return Layout(Extent(count), Extent(offset), dims)


@pytest.mark.parametrize("seed", range(200))
def test_a_view_reads_what_strides_read(seed):
    draw = random.Random(seed)
    wholes = [draw.choice((1, 2, 3, 4)) for _ in range(draw.randint(1, 4))]
    starts = [draw.randrange(whole) for whole in wholes]
    sizes = [draw.randint(1, whole - start) for whole, start in zip(wholes, starts, strict=True)]
    strides = [math.prod(wholes[at + 1 :]) for at in range(len(wholes))]
    runs = [run for run in zip(sizes, strides, strict=True) if run[0] != 1] + [(3, 0)] * draw.randint(0, 1)
    draw.shuffle(runs)
    offset = sum(start * stride for start, stride in zip(starts, strides, strict=True))
    count = math.prod(wholes)
    found = nested(layout_of(count, offset, runs))
    assert found is not None
    base = np.arange(count)
    parts = tuple(slice(each.start, each.start + each.size.factor) for each in found)
    read = base.reshape([each.whole.factor for each in found])[parts]
    read = read.reshape([each.size.factor for each in found if each.axis is not None])
    axes = [each.axis for each in found if each.axis is not None]
    read = read.transpose(sorted(range(len(axes)), key=axes.__getitem__))
    read = np.expand_dims(read, [at for at in range(len(runs)) if at not in axes])
    wanted = np.lib.stride_tricks.as_strided(base[offset:], [s for s, _ in runs], [8 * stride for _, stride in runs])
    np.testing.assert_array_equal(np.broadcast_to(read, wanted.shape), wanted)


@pytest.mark.parametrize(
    ("count", "offset", "runs"),
    [
        (10, 0, [(4, 2), (3, 1)]),  # windows that overlap
        (10, 0, [(3, 4), (2, 1)]),  # whose stride does not divide the whole
        (12, 3, [(3, 4), (2, 1)]),  # a row that goes on in the next
        (12, 0, [(2, 4), (2, 4)]),  # a diagonal
    ],
)
def test_other_layouts_are_no_views(count, offset, runs):
    assert nested(layout_of(count, offset, runs)) is None
