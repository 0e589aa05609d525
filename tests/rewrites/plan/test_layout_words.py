"""Views in words: the part of a value that a layout reads, against numpy's own slices."""

import numpy as np
import pytest

from opsplice.matchers.dims.extents import Extent
from opsplice.matchers.dims.layouts import Layout
from opsplice.rewrites.plan.layout_words import part_of


def layout_of(view: np.ndarray, base: np.ndarray) -> Layout:
    offset = (view.ctypes.data - base.ctypes.data) // base.itemsize
    runs = [(size, stride // base.itemsize) for size, stride in zip(view.shape, view.strides, strict=True)]
    dims = tuple(((Extent(size), Extent(stride)),) if size > 1 else () for size, stride in runs)
    return Layout(Extent(base.size), Extent(offset), dims)


def read(base: np.ndarray, part: str) -> set[int]:
    found = eval(f"base{part}") if part else base
    return set(np.ravel(found).tolist())


@pytest.mark.parametrize("seed", range(200))
def test_a_part_is_what_numpy_reads(seed):
    """Slices with steps, dims in another order, dims split and merged, elements read again, windows."""
    random = np.random.default_rng(seed)
    shape = tuple(int(size) for size in random.integers(1, 12, size=random.integers(1, 5)))
    base = np.arange(np.prod(shape)).reshape(shape)
    steps = random.integers(1, 4, size=len(shape))
    starts = [int(random.integers(0, size)) for size in shape]
    cut = base[tuple(slice(start, None, int(step)) for start, step in zip(starts, steps, strict=True))]
    view = cut.transpose(random.permutation(len(shape)))
    if seed % 3 == 0:
        view = np.broadcast_to(view, (2, *view.shape))
    if seed % 3 == 1 and view.shape[-1] > 2:
        view = np.lib.stride_tricks.sliding_window_view(view, 2, axis=-1)
    part = part_of(shape, layout_of(view, base))
    assert part is not None
    assert read(base, part) == set(view.ravel().tolist()), part


@pytest.mark.parametrize(
    ("shape", "view", "wanted"),
    [
        ((16, 96), lambda base: base[:, 32:64].T, "[:, 32:64]"),
        ((16, 96), lambda base: base.reshape(16, 12, 8)[:, 4:8], "[:, 32:64]"),
        ((4, 3, 6), lambda base: base.reshape(12, 6)[:, 1::2], "[:, :, 1::2]"),
        ((4, 3, 6), lambda base: base[2], "[2, :, :]"),
        ((4, 3, 6), lambda base: base.reshape(72), ""),
        ((4, 4), lambda base: np.lib.stride_tricks.as_strided(base, (4,), (5 * base.itemsize,)), None),
        ((4, 6), lambda base: base.reshape(24)[3:15], None),
    ],
    ids=["columns", "heads", "steps", "one", "all", "diagonal", "over the end"],
)
def test_parts(shape, view, wanted):
    base = np.arange(np.prod(shape)).reshape(shape)
    assert part_of(shape, layout_of(view(base), base)) == wanted


def test_a_part_of_an_open_size_is_said_where_all_of_it_is_read():
    """Of `?` rows of 96, all rows: the columns are known. Of some rows it is not known which."""
    rows, half = Extent.of("rows"), Extent.of("half of the rows")
    count = rows * Extent(96)

    def columns(size: Extent) -> Layout:
        return Layout(count, Extent(32), (((size, Extent(96)),), ((Extent(32), Extent(1)),)))

    assert part_of((None, 96), columns(rows)) == "[:, 32:64]"
    assert part_of((None, 96), columns(half)) is None
