"""Convolutions against numpy in float64: filters, strides, dilations, both layouts, ragged channels and places."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.kernels.conftest import depthwise_groups

# Channels, height and width, channels out, filter, strides, dilations, zeros above, left, below and right.
CASES = [
    (3, 9, 17, 5, (3, 3), (1, 1), (1, 1), (0, 0, 0, 0)),
    (4, 12, 31, 33, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
    (7, 15, 15, 70, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    (5, 7, 7, 32, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    (170, 5, 9, 34, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    (165, 23, 23, 9, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    (260, 32, 16, 5, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    (3, 9, 9, 40, (3, 3), (1, 1), (1, 1), (0, 0, 0, 0)),
    (3, 7, 7, 40, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (2, 4, 150, 4, (3, 3), (1, 1), (1, 2), (1, 2, 1, 2)),
    (3, 9, 61, 7, (5, 8), (2, 1), (2, 3), (3, 9, 4, 2)),
    (25, 12, 13, 33, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (24, 19, 15, 32, (3, 3), (1, 1), (1, 1), (0, 2, 1, 1)),
    (24, 2, 130, 32, (3, 3), (1, 1), (1, 1), (1, 0, 1, 1)),
    (2, 20, 40, 16, (5, 2), (2, 3), (2, 1), (3, 1, 0, 2)),
    (270, 23, 25, 37, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    (2, 16, 16, 8, (1, 1), (2, 2), (1, 1), (0, 0, 0, 0)),
    (2, 6, 10, 8, (1, 1), (1, 1), (1, 1), (1, 2, 0, 1)),
    (3, 30, 37, 9, (7, 7), (2, 2), (1, 1), (3, 3, 3, 3)),
    (2, 5, 40, 9, (3, 3), (1, 1), (36, 36), (36, 36, 36, 36)),
    (2, 3, 300, 9, (1, 3), (1, 70), (1, 1), (0, 5, 0, 0)),
    (2, 2, 3, 9, (5, 5), (1, 1), (1, 1), (4, 6, 5, 4)),
    (3, 16, 96, 33, (16, 16), (16, 16), (1, 1), (0, 0, 0, 0)),
    (2, 18, 150, 9, (16, 16), (3, 4), (1, 8), (2, 3, 5, 4)),
    (2, 4, 144, 9, (1, 128), (1, 3), (1, 1), (1, 1, 1, 1)),
    (26, 7, 6, 33, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (260, 9, 15, 37, (1, 1), (2, 2), (1, 1), (0, 0, 0, 0)),
    (29, 40, 41, 37, (3, 3), (2, 2), (1, 1), (1, 1, 0, 1)),
    (43, 2, 230, 9, (2, 3), (1, 1), (1, 2), (1, 2, 0, 1)),
    # Products of packed places: one part and several, full groups of panels and others, short rows and long ones.
    (65, 17, 15, 70, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    (170, 16, 14, 165, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    (66, 32, 25, 40, (1, 1), (2, 2), (1, 1), (0, 0, 0, 0)),
    (20, 33, 55, 135, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
    (9, 21, 60, 40, (5, 7), (2, 1), (1, 1), (3, 0, 2, 6)),
    (19, 40, 41, 37, (3, 3), (1, 1), (2, 3), (2, 3, 2, 3)),
    (25, 19, 26, 150, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    # The same of small images; rows of three places are the shortest.
    (140, 7, 7, 135, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    (64, 31, 5, 40, (1, 1), (2, 2), (1, 1), (0, 0, 0, 0)),
    (70, 5, 10, 135, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    (40, 17, 5, 70, (3, 1), (1, 1), (1, 1), (1, 0, 1, 0)),
    (20, 14, 14, 70, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
    (5, 16, 3, 40, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (5, 19, 7, 6, (3, 3), (2, 1), (1, 1), (1, 1, 1, 1)),
    # Few products for each of many channels, in rows that tiles divide and others; one row of the image.
    (3, 7, 33, 37, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (1, 6, 28, 70, (3, 3), (1, 1), (1, 2), (1, 2, 0, 2)),
    (7, 3, 64, 32, (1, 4), (1, 1), (1, 1), (0, 2, 0, 1)),
    # Few channels of the output and long rows of a filter.
    (3, 12, 61, 3, (9, 11), (1, 1), (1, 2), (4, 10, 4, 10)),
    (2, 20, 70, 2, (16, 16), (1, 2), (1, 1), (3, 5, 3, 7)),
    # More taps than there is room for at the edges; patches.
    (1, 38, 75, 37, (32, 30), (1, 2), (1, 1), (7, 9, 8, 10)),
    (2, 30, 21, 5, (17, 20), (3, 3), (2, 3), (9, 21, 8, 20)),
    (2, 70, 3, 34, (70, 2), (1, 1), (1, 1), (2, 1, 1, 0)),
    (1, 64, 99, 70, (32, 33), (32, 33), (1, 1), (0, 0, 0, 0)),
]


def activation(number: int, x: np.ndarray) -> np.ndarray:
    """NOTHING, RELU, SILU, RELU6 and HARD_SWISH of vector.h."""
    made = {0: x, 1: np.maximum(x, 0), 4: x / (1 + np.exp(-x)), 5: np.clip(x, 0, 6), 6: x * np.clip(x + 3, 0, 6) / 6}
    return made[number]


def packed(f: np.ndarray) -> np.ndarray:
    o, *others = f.shape
    panels = -(-o // 32)
    wide = np.zeros((panels * 32, *others), np.float32)
    wide[:o] = f
    return np.moveaxis(wide.reshape(panels, 32, *others), 1, -1).copy()


def strides(value: np.ndarray | None) -> list[int]:
    return [0] * 4 if value is None else [stride // value.itemsize for stride in value.strides]


def windows(x: np.ndarray, kernel, stride, dilation) -> np.ndarray:
    reach = [dilation[i] * (kernel[i] - 1) + 1 for i in range(2)]
    every = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))
    return every[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


def lying(guarded, value: np.ndarray, is_last: bool, channels: int = 1) -> np.ndarray:
    """In memory with its channels last, or as it is."""
    if not is_last:
        return guarded(value)
    return np.moveaxis(guarded(np.moveaxis(value, channels, -1).copy()), -1, channels)


# With which of image and result have channels last.
@pytest.mark.parametrize("last", ["", "xr", "r"])
@pytest.mark.parametrize(("c", "h", "w", "o", "size", "stride", "dilation", "zeros"), CASES)
def test_convolution(kernel, guarded, forms, last, c, h, w, o, size, stride, dilation, zeros):
    random = np.random.default_rng(0)
    f, bias = random.standard_normal((o, c, *size)).astype(np.float32), random.standard_normal(o).astype(np.float32)

    def image(name: str, *shape: int) -> np.ndarray:
        return lying(guarded, random.standard_normal(shape).astype(np.float32), name in last)

    x = image("x", 2, c, h, w)
    top, left, bottom, right = zeros
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (top, bottom), (left, right)))
    plain = np.einsum("ncyzij,ocij->noyz", windows(padded, size, stride, dilation), f, optimize=True)
    rest, out = image("r", *plain.shape), image("r", *plain.shape)
    panels = packed(f)
    sizes = [2, c, h, w, len(panels), *size, o, *plain.shape[2:]]
    wide = plain + bias[:, None, None]
    for given, function, wanted in forms(
        ((None, None), 0, plain),
        ((bias, rest), 1, wide + rest),
        ((bias, rest), 4, wide + rest),
        ((bias, None), 5, wide),
        ((None, rest), 6, plain + rest),
    ):
        out[...] = np.nan
        views = [stride for value in (x, given[1], out) for stride in strides(value)]
        for place in np.ndindex(len(panels), -(-plain.shape[2] // 16), 2):
            kernel("convolution/convolution.c", "opsplice_convolution")(
                x, panels, *given, function, *stride, *dilation, 1, 1, top, left, out, *sizes, *views, *place
            )
        np.testing.assert_allclose(out, activation(function, wanted), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kernel", ["baseline", "avx2"], indirect=True)
@pytest.mark.parametrize("size", [1, 3])
def test_sums_of_many_channels_are_exact(kernel, size):
    random = np.random.default_rng(0)
    c, o, place, pad, step = 2048 // size**2, 32, (9, 5), size // 2, 1 + size // 2
    x = random.uniform(0.5, 1.5, (1, c, *place)).astype(np.float32)
    f = random.uniform(0.5, 1.5, (o, c, size, size)).astype(np.float32)
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    wanted = np.einsum("ncyzij,ocij->noyz", windows(padded, (size, size), (step, step), (1, 1)), f.astype(float))
    out = np.full(wanted.shape, np.nan, np.float32)
    sizes, views = [1, c, *place, 1, size, size, *wanted.shape[1:]], [*strides(x), *strides(None), *strides(out)]
    function = kernel("convolution/convolution.c", "opsplice_convolution")
    function(x, packed(f), None, None, 0, step, step, 1, 1, 1, 1, pad, pad, out, *sizes, *views, 0, 0, 0)
    assert np.abs(out / wanted - 1).max() < 6e-7  # 1.5e-6 and more where each is added to all before it


# Of each group: channels in, channels out. The image, filter, stride, dilation, zeros.
GROUPS = [
    (4, 4, (9, 56), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (3, 4, (12, 75), (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
    (5, 8, (8, 29), (3, 5), (2, 2), (2, 1), (2, 0, 0, 3)),
    (2, 13, (5, 14), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (2, 16, (7, 40), (2, 3), (1, 2), (1, 3), (0, 7, 1, 4)),
    # Rows of a vector, several at once: rows of zeros above and below some of them.
    (8, 8, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (3, 5, (14, 13), (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
    (2, 7, (16, 8), (5, 3), (1, 1), (3, 1), (6, 1, 6, 1)),
    (2, 3, (2, 6), (5, 3), (1, 1), (1, 1), (4, 1, 4, 1)),
    (2, 16, (10, 11), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    # Rows of a large image, whose next places are fetched.
    (128, 1, (4, 260), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (128, 2, (4, 260), (3, 3), (2, 2), (1, 1), (0, 2, 1, 1)),
    # A vector of channels: long rows of vectors of places, others of tiles as equal as can be; with a stride of 3 none.
    (9, 16, (3, 64), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (9, 16, (3, 22), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (9, 14, (3, 17), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (9, 13, (3, 91), (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
    (9, 12, (3, 30), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (9, 16, (4, 28), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (9, 11, (5, 23), (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
    (8, 9, (3, 10), (3, 5), (1, 1), (1, 3), (1, 6, 1, 6)),
    (8, 16, (17, 15), (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
    (20, 10, (6, 7), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (60, 13, (3, 22), (3, 1), (1, 3), (1, 1), (1, 0, 1, 0)),
    # Taps that lie outside of the image for all places of a tile, or of a row.
    (9, 20, (5, 14), (3, 3), (1, 1), (12, 12), (12, 12, 12, 12)),
    (3, 18, (6, 40), (3, 3), (2, 2), (9, 33), (9, 33, 9, 33)),
    (4, 24, (3, 6), (1, 5), (1, 1), (1, 7), (0, 14, 0, 14)),
    # Products of copied lines: several parts, several strips, places between rows; a column is a row.
    (16, 16, (14, 14), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (24, 20, (33, 57), (3, 3), (2, 2), (1, 1), (1, 1, 0, 2)),
    (11, 12, (23, 30), (5, 7), (2, 1), (1, 2), (3, 9, 2, 4)),
    (3, 9, (15, 300), (3, 3), (3, 1), (2, 1), (2, 0, 2, 0)),
    (24, 24, (49, 1), (128, 1), (1, 1), (1, 1), (64, 0, 63, 0)),
    (5, 13, (961, 1), (3, 1), (2, 1), (2, 1), (2, 0, 1, 0)),
]


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(("c", "o", "place", "size", "stride", "dilation", "zeros"), GROUPS)
def test_groups_of_channels(kernel, guarded, channels_last, c, o, place, size, stride, dilation, zeros):
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 3 * c, *place)).astype(np.float32)
    x = guarded(x.transpose(0, 2, 3, 1).copy()).transpose(0, 3, 1, 2) if channels_last else guarded(x)
    f, bias = random.standard_normal((3, o, c, *size)).astype(np.float32), random.standard_normal((3, o))
    top, left, bottom, right = zeros
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (top, bottom), (left, right)))
    every = windows(padded, size, stride, dilation)
    every = every.reshape(2, 3, c, *every.shape[2:])
    wanted = np.einsum("ngcyzij,gocij->ngoyz", every, f) + bias.astype(np.float32)[..., None, None]
    out, panels = guarded(np.full(wanted.shape, np.nan, np.float32)), np.stack([packed(group) for group in f])
    views = [step // 4 for value in (x[:, :, None], out[:, :, :, None]) for step in value.strides]
    views[5:5] = [0] * 6
    for at in np.ndindex(1, -(-wanted.shape[3] // 16), 6):
        kernel("convolution/convolution.c", "opsplice_convolution_any")(
            *(
                x,
                panels,
                guarded(bias.astype(np.float32)),
                None,
                1,
                1,
                *stride,
                1,
                *dilation,
                1,
                1,
                1,
                0,
                top,
                left,
                out,
            ),
            *(2, 3 * c, 1, *place, 3, 1, 1, c, *size, o, 1, *wanted.shape[3:], *views, *at),
        )
    np.testing.assert_allclose(out, activation(1, wanted), rtol=1e-4, atol=1e-4)


def test_what_is_infinite_or_nan_stays_where_it_is_in_blocks_of_3x3(kernel, guarded):
    random = np.random.default_rng(0)
    x, f = random.standard_normal((1, 24, 20, 24)).astype(np.float32), random.standard_normal((32, 24, 3, 3))
    x[0, 3, 5, 8], x[0, 4, 17, 21], x[0, 1, 11, 4], x[0, 2, 13, 9] = np.inf, np.nan, -np.inf, 3e38
    f = np.abs(f.astype(np.float32))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    wanted = np.einsum("ncyzij,ocij->noyz", windows(padded.astype(float), (3, 3), (1, 1), (1, 1)), f)
    with np.errstate(over="ignore"):
        wanted = wanted.astype(np.float32)
    assert [np.isnan(wanted).any(), np.isposinf(wanted).any(), np.isneginf(wanted).any()] == [True] * 3
    out = guarded(np.full(wanted.shape, np.nan, np.float32))
    views = [step for value in (x, None, out) for step in strides(value)]
    for at in range(2):
        kernel("convolution/convolution.c", "opsplice_convolution")(
            *(guarded(x), packed(f), None, None, 0, 1, 1, 1, 1, 1, 1, 1, 1, out, 1, 24, 20, 24, 1, 3, 3, 32, 20, 24),
            *(*views, 0, at, 0),
        )
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


# OIHW, HWIO, OHWI and IWHO.
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 3, 1, 0), (0, 2, 3, 1), (1, 3, 2, 0)])
@pytest.mark.parametrize(
    ("o", "c", "size"), [(70, 7, (3, 3)), (32, 70, (1, 1)), (5, 3, (7, 5)), (40, 2, (1, 9)), (33, 1, (4, 1))]
)
@pytest.mark.parametrize(("g", "kd"), [(1, 1), (3, 2)])
def test_filters_are_packed_and_scaled(kernel, guarded, g, o, c, kd, size, order):
    random = np.random.default_rng(0)
    f, factor = (guarded(random.standard_normal(shape).astype(np.float32)) for shape in ((g, kd, o, c, *size), (g, o)))
    scaled = f * factor[:, None, :, None, None, None]
    lying = guarded(np.ascontiguousarray(f.transpose(0, 1, *(axis + 2 for axis in order))))
    views = [step // 4 for step in lying.transpose(0, 1, *(axis + 2 for axis in np.argsort(order))).strides]
    views = [views[axis] for axis in (0, 2, 3, 1, 4, 5)]
    for given, whole in ((None, f), (factor, scaled)):
        panels = np.stack([np.stack([packed(part) for part in group], 1) for group in whole])
        out = guarded(np.full(panels.shape, np.nan, np.float32))
        for at in np.ndindex(panels.shape[1], kd, g):
            numbers = (g, o, c, kd, *size, *views, *at)
            kernel("convolution/convolution.c", "opsplice_pack_filter")(lying, given, out, *numbers)
        np.testing.assert_array_equal(out, panels)


# Height and width, filter, how far rows and places lie apart, zeros above and left, size of the output.
SPREAD = [
    ((6, 15), (4, 4), (2, 2), (2, 2), (12, 30)),
    ((7, 7), (2, 2), (2, 2), (1, 1), (14, 14)),
    ((9, 5), (3, 2), (2, 3), (1, 0), (19, 14)),
    ((4, 6), (2, 5), (3, 1), (4, 2), (15, 7)),
    ((18, 20), (7, 3), (1, 2), (3, 6), (20, 48)),
    ((2, 131), (3, 1), (2, 2), (1, 1), (5, 263)),
]


@pytest.mark.parametrize("c", [3, 90])
@pytest.mark.parametrize(("place", "size", "apart", "before", "result"), SPREAD)
def test_images_with_zeros_between_their_rows_and_places(kernel, guarded, forms, c, place, size, apart, before, result):
    random = np.random.default_rng(0)
    f, bias = random.standard_normal((40, c, *size)).astype(np.float32), random.standard_normal(40).astype(np.float32)
    x = guarded(random.standard_normal((2, c, *place)).astype(np.float32))
    whole = np.zeros((2, c, *(result[i] + size[i] - 1 for i in range(2))))
    there = whole[:, :, before[0] :: apart[0], before[1] :: apart[1]][:, :, : place[0], : place[1]]
    there[...] = x[:, :, : there.shape[2], : there.shape[3]]
    plain = np.einsum("ncyzij,ocij->noyz", windows(whole, size, (1, 1), (1, 1)), f) + bias[:, None, None]
    rest = guarded(random.standard_normal(plain.shape).astype(np.float32))
    out, panels = guarded(np.full(plain.shape, np.nan, np.float32)), packed(f)
    for more, wanted in forms((None, plain), (rest, plain + rest)):
        views = [stride for value in (x, more, out) for stride in strides(value)]
        for at in np.ndindex(2, -(-result[0] // 16), 2):
            kernel("convolution/convolution.c", "opsplice_convolution")(
                *(x, panels, bias, more, 1, 1, 1, 1, 1, *apart, *before, out, 2, c, *place, 2, *size, 40, *result),
                *(*views, *at),
            )
        np.testing.assert_allclose(out, activation(1, wanted), rtol=1e-4, atol=1e-4)


def test_long_rows_with_zeros_between_their_places(kernel, guarded):
    random = np.random.default_rng(0)
    f, x = random.standard_normal((5, 2, 1, 7)).astype(np.float32), random.standard_normal((1, 2, 200))
    x, out = guarded(x.astype(np.float32)), guarded(np.full((1, 5, 597), np.nan, np.float32))
    whole = np.zeros((1, 2, 1, 603))
    whole[:, :, 0, 4::3] = x
    wanted = np.einsum("ncyzij,ocij->noz", windows(whole, (1, 7), (1, 1), (1, 1)), f)
    for at in range(2):
        kernel("convolution/convolution.c", "opsplice_convolution_row")(
            *(x, packed(f), None, None, 0, 1, 1, 3, 4, out, 1, 2, 200, 1, 7, 5, 597),
            *(400, 200, 1, 0, 0, 0, 2985, 597, 1, 0, at, 0),
        )
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


# Depth, height and width, filter, strides, dilations, how far places lie apart, zeros in front and behind, above and
# below, left and right.
VOLUMES = [
    ((5, 6, 17), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), ((1, 1), (1, 1), (1, 1))),
    ((3, 14, 12), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), ((1, 1), (1, 1), (1, 1))),
    ((7, 4, 9), (2, 1, 3), (2, 1, 2), (3, 1, 1), (1, 1, 1), ((0, 2), (0, 0), (2, 0))),
    ((2, 18, 3), (1, 3, 2), (1, 2, 1), (1, 1, 2), (1, 1, 1), ((2, 1), (1, 0), (0, 2))),
    ((3, 4, 9), (2, 2, 2), (1, 1, 1), (1, 1, 1), (2, 2, 2), ((1, 1), (1, 1), (1, 1))),
    ((3, 10, 9), (4, 4, 4), (1, 1, 1), (1, 1, 1), (2, 2, 2), ((2, 3), (2, 2), (2, 3))),
    ((2, 3, 6), (3, 2, 2), (1, 1, 1), (1, 1, 1), (3, 3, 3), ((2, 4), (1, 3), (1, 1))),
    ((4, 3, 20), (3, 3, 2), (1, 1, 1), (1, 1, 1), (1, 2, 1), ((5, 1), (2, 0), (1, 1))),
    ((3, 5, 4), (1, 3, 5), (1, 1, 1), (1, 1, 1), (2, 1, 3), ((0, 0), (1, 1), (4, 6))),
]


@pytest.mark.parametrize(("channels_last", "groups"), [(False, 1), (True, 1), (False, 2)])
@pytest.mark.parametrize(("place", "size", "stride", "dilation", "apart", "zeros"), VOLUMES)
def test_volumes(kernel, guarded, forms, channels_last, groups, place, size, stride, dilation, apart, zeros):
    random = np.random.default_rng(0)

    def volume(*shape: int) -> np.ndarray:
        value = random.standard_normal(shape).astype(np.float32)
        return guarded(np.moveaxis(value, 1, -1).copy()).transpose(0, 4, 1, 2, 3) if channels_last else guarded(value)

    x, f = volume(2, 3 * groups, *place), random.standard_normal((groups, 40, 3, *size)).astype(np.float32)
    bias = random.standard_normal(40 * groups).astype(np.float32)
    reach = [dilation[i] * (size[i] - 1) + 1 for i in range(3)]
    spread = np.zeros((2, 3 * groups, *(step * (count - 1) + 1 for step, count in zip(apart, place, strict=True))))
    spread[:, :, :: apart[0], :: apart[1], :: apart[2]] = x
    every = np.lib.stride_tricks.sliding_window_view(np.pad(spread, ((0, 0), (0, 0), *zeros)), reach, (2, 3, 4))
    every = every[:, :, :: stride[0], :: stride[1], :: stride[2], :: dilation[0], :: dilation[1], :: dilation[2]]
    every = every.reshape(2, groups, 3, *every.shape[2:])
    plain = np.einsum("ngctyzaij,gocaij->ngotyz", every, f).reshape(2, 40 * groups, *every.shape[3:6])
    rest, out = volume(*plain.shape), volume(*plain.shape)
    panels = np.stack([packed(np.moveaxis(group, 2, 1)) for group in f])
    for given, function, wanted in forms(
        ((None, None), 0, plain),
        ((bias, rest), 1, plain + bias[:, None, None, None] + rest),
        ((bias, None), 4, plain + bias[:, None, None, None]),
    ):
        out[...] = np.nan
        views = [step // 4 for step in x.strides]
        for value in (given[1], out):
            own = [0] * 5 if value is None else [step // 4 for step in value.strides]
            views += [own[0], 40 * own[1], *own[1:]]
        rows = 1 if plain.shape[3] == 1 else -(-plain.shape[3] // 16)
        # The last one first: none writes what another does.
        for at in reversed([*np.ndindex(2, rows, 2 * groups * plain.shape[2])]):
            kernel("convolution/convolution.c", "opsplice_convolution_any")(
                *(x, panels, *given, function, *stride, *dilation, *apart, *(low for low, _ in zeros), out),
                *(2, 3 * groups, *place, groups, 2, size[0], 3, *size[1:], 40, *plain.shape[2:], *views, *at),
            )
        np.testing.assert_allclose(out, activation(function, wanted), rtol=1e-4, atol=1e-4)


# Strides, dilations, zeros left and right.
ROWS = [(1, 1, (0, 0)), (1, 3, (4, 2)), (2, 1, (1, 1)), (3, 2, (0, 5))]


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(("stride", "dilation", "zeros"), ROWS)
def test_rows_longer_than_a_workgroup_does(kernel, guarded, channels_last, stride, dilation, zeros):
    random = np.random.default_rng(0)

    def rows(*shape: int) -> np.ndarray:
        value = random.standard_normal(shape).astype(np.float32)
        return guarded(value.transpose(0, 2, 1).copy()).transpose(0, 2, 1) if channels_last else guarded(value)

    x, f = rows(2, 3, 1400), random.standard_normal((40, 3, 1, 3)).astype(np.float32)
    bias = random.standard_normal(40).astype(np.float32)
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), zeros))[:, :, None]
    plain = np.einsum("ncyzij,ocij->noz", windows(padded, (1, 3), (1, stride), (1, dilation)), f)
    rest, out, panels = rows(*plain.shape), rows(*plain.shape), packed(f)
    views = [step // 4 for value in (x, rest, out) for step in value.strides]
    out[...] = np.nan
    for place in np.ndindex(2, -(-plain.shape[2] // 448), 2):
        kernel("convolution/convolution.c", "opsplice_convolution_row")(
            *(x, panels, bias, rest, 1, stride, dilation, 1, zeros[0], out),
            *(2, 3, 1400, 2, 3, 40, plain.shape[2], *views, *place),
        )
    np.testing.assert_allclose(out, activation(1, plain + bias[:, None] + rest), rtol=1e-4, atol=1e-4)


# Height and width, filter, strides, dilations, zeros above, left, below and right.
DEPTHWISE = [
    *(
        (place, (size, size), (stride, stride), (1, 1), zeros)
        for place in ((7, 7), (9, 18), (12, 40))
        for size in (3, 5, 7)
        for stride in (1, 2)
        for zeros in ((0, 0, 0, 0), (size // 2,) * 4, (1, 0, 2, 3))
    ),
    # Seven rows at once, and some of these again.
    *(((rows, 20), (size, size), (1, 1), (1, 1), (size // 2,) * 4) for rows in (14, 13, 22) for size in (3, 5, 7)),
    # Channels side by side: all of an image at once, and parts of it.
    *(((3, 3), size, (1, 1), (1, 1), (size[0] // 2, size[1] // 2) * 2) for size in ((1, 5), (5, 1), (3, 3))),
    ((14, 14), (1, 5), (1, 1), (1, 1), (0, 2, 0, 2)),
    ((14, 14), (5, 5), (2, 2), (1, 1), (2, 2, 2, 2)),
    ((28, 9), (7, 4), (2, 3), (1, 1), (6, 1, 3, 2)),
    ((31, 6), (3, 2), (1, 1), (4, 3), (9, 0, 0, 2)),
    ((16, 16), (2, 2), (3, 1), (1, 1), (0, 0, 0, 0)),
    ((27, 20), (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
    ((3, 4), (5, 5), (1, 1), (1, 1), (3, 4, 3, 3)),
    ((9, 40), (3, 3), (1, 1), (2, 3), (2, 3, 2, 3)),
    ((9, 40), (2, 4), (1, 3), (1, 1), (0, 1, 1, 5)),
    ((1, 600), (1, 8), (1, 1), (1, 3), (0, 30, 0, 4)),
    ((3, 300), (1, 5), (2, 1), (1, 1), (1, 2, 0, 3)),
    ((300, 1), (5, 1), (1, 1), (1, 1), (2, 0, 2, 0)),
    ((1, 50), (1, 31), (1, 1), (1, 1), (0, 15, 0, 15)),
    ((9, 9), (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    ((1, 200), (1, 9), (1, 1), (1, 2), (0, 8, 0, 8)),
    ((70, 1), (9, 1), (2, 1), (1, 1), (4, 0, 4, 0)),
    ((30, 3), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    ((2, 2), (5, 5), (1, 1), (1, 1), (2, 2, 2, 2)),
    # More than one block, along both dims; rows further apart than a block is high.
    ((45, 530), (7, 7), (2, 2), (1, 1), (3, 3, 3, 3)),
    ((50, 270), (3, 3), (1, 1), (9, 5), (9, 5, 9, 5)),
    ((20, 20), (5, 5), (1, 1), (18, 18), (36, 36, 36, 36)),
]


def wide_views(x: np.ndarray, f: np.ndarray, out: np.ndarray) -> list[int]:
    """The strides of an image, a filter and a result of channels by themselves, with all dims that there may be.

    Those of dims of one are 0, as programs give them.
    """
    values = x[:, :, None], f[:, None, None, None], out[:, :, None, None]
    pairs = [pair for value in values for pair in zip(value.shape, value.strides, strict=True)]
    return [0 if size == 1 else step // 4 for size, step in pairs]


# With which of image, filter and result have channels last.
@pytest.mark.parametrize(
    ("place", "size", "stride", "dilation", "zeros", "last"),
    [
        *((*case, last) for case in DEPTHWISE for last in ("", "xfr", "r")),
        *((*case, last) for case in DEPTHWISE[:6] + DEPTHWISE[-7:-2] for last in ("xr", "fr", "xf")),
    ],
)
def test_depthwise(kernel, guarded, forms, place, size, stride, dilation, zeros, last):
    random = np.random.default_rng(0)
    c = (77 if np.prod(place) < 100 else 21) if np.prod(place) <= 256 or {*"xr"} & {*last} else 6
    x = lying(guarded, random.standard_normal((2, c, *place)).astype(np.float32), "x" in last)
    f = lying(guarded, random.standard_normal((c, *size)).astype(np.float32), "f" in last, 0)
    bias = guarded(random.standard_normal(c).astype(np.float32))
    top, left, bottom, right = zeros
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (top, bottom), (left, right)))
    wanted = np.einsum("ncyzij,cij->ncyz", windows(padded, size, stride, dilation), f)
    out = lying(guarded, np.full(wanted.shape, np.nan, np.float32), "r" in last)
    views = wide_views(x, f, out)
    for given, function in forms((None, 0), (bias, 1), (bias, 5), (None, 4), (None, 6)):
        out[...] = np.nan
        for at in np.ndindex(depthwise_groups(c, *wanted.shape[2:]), 2):
            kernel("convolution/depthwise.c", "opsplice_depthwise")(
                *(x, f, given, function, *stride, *dilation, top, left, out),
                *(2, c, 1, *place, c, 1, 1, 1, *size, 1, *wanted.shape[2:], *views, *at),
            )
        plain = wanted if given is None else wanted + given[:, None, None]
        np.testing.assert_allclose(out, activation(function, plain), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(("o", "size", "place"), [(40, 1, 9), (5, 3, 40), (40, 5, 9), (40, 3, 40)])
def test_a_large_bias_is_added_last(kernel, o, size, place):
    """Else each product next to it is rounded as it is."""
    random = np.random.default_rng(0)
    x = random.standard_normal((1, 100, place, place)).astype(np.float32) * np.float32(1e-3)
    f, bias = random.standard_normal((o, 100, size, size)).astype(np.float32), random.uniform(1, 2, o)
    panels, bias = packed(f), bias.astype(np.float32)
    by = windows(x.astype(float), (size, size), (1, 1), (1, 1))
    wanted = np.einsum("ncyzij,ocij->noyz", by, f) + bias[:, None, None]
    out = np.empty(wanted.shape, np.float32)
    sizes = [1, 100, place, place, len(panels), size, size, *out.shape[1:], *strides(x), *strides(None), *strides(out)]
    for at in np.ndindex(len(panels), -(-out.shape[2] // 16), 1):
        kernel("convolution/convolution.c", "opsplice_convolution")(
            *(x, panels, bias, None, 0, 1, 1, 1, 1, 1, 1, 0, 0, out, *sizes, *at)
        )
    np.testing.assert_allclose(out, wanted, rtol=3e-7)


@pytest.mark.parametrize(("dilation", "width"), [(1, 20), (2, 20), (1, 12)])
def test_zeros_outside_are_multiplied_in_depthwise_convolutions(kernel, dilation, width):
    x, f = np.ones((1, 1, 9, width), np.float32), np.ones((1, 3, 3), np.float32)
    f[0, 0, 1], f[0, 2, 2] = np.inf, np.nan
    out = np.zeros_like(x)
    sizes = (1, 1, 1, 9, width, 1, 1, 1, 1, 3, 3, 1, 9, width, *wide_views(x, f, out))
    kernel("convolution/depthwise.c", "opsplice_depthwise")(
        *(x, f, None, 0, 1, 1, dilation, dilation, dilation, dilation, out, *sizes, 0, 0)
    )
    assert np.isnan(out).all()
    f[0, 2, 2] = 1
    kernel("convolution/depthwise.c", "opsplice_depthwise")(
        *(x, f, None, 0, 1, 1, dilation, dilation, dilation, dilation, out, *sizes, 0, 0)
    )
    assert np.isnan(out[0, 0, :dilation]).all()
    assert (out[0, 0, dilation:] == np.inf).all()


@pytest.mark.parametrize(
    ("place", "size", "stride", "dilation", "zeros"),
    [
        ((1, 112, 40), (1, 3, 3), (1, 2, 2), (1, 1, 1), ((0, 0), (1, 1), (1, 1))),
        ((1, 9, 13), (1, 3, 3), (1, 2, 2), (1, 1, 1), ((0, 0), (0, 1), (0, 1))),
        ((1, 8, 37), (1, 2, 2), (1, 1, 1), (1, 1, 1), ((0, 0), (0, 0), (0, 0))),
        ((1, 13, 13), (1, 5, 5), (1, 1, 1), (1, 1, 1), ((0, 0), (2, 2), (2, 2))),
        ((1, 9, 30), (1, 2, 3), (1, 3, 3), (1, 2, 4), ((0, 0), (1, 0), (2, 3))),
        ((1, 3, 1100), (1, 3, 64), (1, 1, 5), (1, 1, 8), ((0, 0), (2, 2), (3, 5))),
        ((1, 1, 7), (1, 1, 7), (1, 1, 1), (1, 1, 1), ((0, 0), (0, 0), (0, 0))),
        ((6, 8, 20), (2, 2, 2), (2, 2, 2), (1, 1, 1), ((0, 0), (0, 0), (0, 0))),
        ((5, 7, 19), (3, 2, 3), (1, 2, 3), (1, 1, 2), ((1, 2), (0, 1), (2, 1))),
        ((2, 3, 5), (3, 3, 1), (1, 1, 1), (2, 1, 1), ((2, 3), (1, 1), (0, 0))),
    ],
)
@pytest.mark.parametrize("last", ["", "xr", "x", "r"])
def test_pooling(kernel, guarded, forms, place, size, stride, dilation, zeros, last):
    """The largest elements, which is 2, and means, also with a factor for each place."""
    c = 77 if "x" in last else 6
    x = np.random.default_rng(0).standard_normal((2, c, *place)).astype(np.float32) - 3
    x = lying(guarded, x, "x" in last)
    x[0, 1, 0, 0, 3], x[1, 2] = np.nan, -np.inf
    reach = [dilation[i] * (size[i] - 1) + 1 for i in range(3)]
    steps = (slice(None), slice(None), *(slice(None, None, step) for step in (*stride, *dilation)))

    def windows_in(value: float) -> np.ndarray:
        around = np.pad(x.astype(float), ((0, 0), (0, 0), *zeros), constant_values=value)
        return np.lib.stride_tricks.sliding_window_view(around, reach, (2, 3, 4))[steps]

    largest, means = windows_in(-np.inf).max((-3, -2, -1)), windows_in(0).sum((-3, -2, -1)) / 7
    shares = guarded(np.random.default_rng(1).uniform(1, 4, means.shape[2:]).astype(np.float32))
    for which, factor, wanted in forms((2, None, largest), (0, None, means), (0, shares, means * shares)):
        out = lying(guarded, np.full(wanted.shape, 7, np.float32), "r" in last)
        views = [step // 4 for value in (x, out) for step in value.strides]
        for at in np.ndindex(-(-c // 4), 2):
            kernel("convolution/pooling.c", "opsplice_pooling")(
                *(x, factor, ctypes.c_int32(which), 7.0, *size, *stride, *dilation, *(low for low, _ in zeros), out),
                *(2, c, *place, *wanted.shape[2:], *views, *at),
            )
        np.testing.assert_allclose(out, wanted, rtol=0 if which else 3e-6, atol=0 if which else 1e-6)


def test_pooling_of_one_of_several_channels_that_lie_side_by_side(kernel, guarded):
    """As of a slice of an open number of channels, which is 1."""
    every = guarded(np.random.default_rng(0).standard_normal((1, 6, 9, 3)).astype(np.float32))
    x, out = np.moveaxis(every, -1, 1)[:, :1], guarded(np.full((1, 1, 5, 8), 7, np.float32))
    wanted = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3)).max((-2, -1))
    views = [step // 4 for value in (x[:, :, None], out[:, :, None]) for step in value.strides]
    kernel("convolution/pooling.c", "opsplice_pooling")(
        *(x, None, ctypes.c_int32(2), 1.0, 1, 2, 2, *(1,) * 6, 0, 0, 0, out, 1, 1, 1, 6, 9, 1, 5, 8, *views, 0, 0)
    )
    np.testing.assert_array_equal(out, wanted)
