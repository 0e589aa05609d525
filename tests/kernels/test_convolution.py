"""Convolutions against numpy in float64: filters, strides, dilations, both layouts, ragged channels and places."""

from __future__ import annotations

import numpy as np
import pytest

# Channels, height and width, channels out, filter, strides, dilations.
CASES = [
    (3, 9, 17, 5, (3, 3), (1, 1), (1, 1)),
    (4, 12, 31, 33, (3, 3), (2, 2), (1, 1)),
    (7, 15, 15, 70, (1, 1), (1, 1), (1, 1)),
    (5, 7, 7, 32, (1, 1), (1, 1), (1, 1)),
    (3, 9, 9, 40, (3, 3), (1, 1), (1, 1)),
    (2, 20, 40, 16, (5, 2), (2, 3), (2, 1)),
    (2, 16, 16, 8, (1, 1), (2, 2), (1, 1)),
]


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


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(("c", "h", "w", "o", "size", "stride", "dilation"), CASES)
def test_convolution(kernel, guarded, channels_last, c, h, w, o, size, stride, dilation):
    random = np.random.default_rng(0)
    f, bias = random.standard_normal((o, c, *size)).astype(np.float32), random.standard_normal(o).astype(np.float32)

    def image(*shape: int) -> np.ndarray:
        value = random.standard_normal(shape).astype(np.float32)
        return guarded(value.transpose(0, 2, 3, 1).copy()).transpose(0, 3, 1, 2) if channels_last else guarded(value)

    x = image(2, c, h, w)
    plain = np.einsum("ncyzij,ocij->noyz", windows(x.astype(float), size, stride, dilation), f)
    rest, out = image(*plain.shape), image(*plain.shape)
    panels = packed(f)
    sizes = [2, c, h, w, len(panels), *size, o, *plain.shape[2:]]
    wide = plain + bias[:, None, None]
    infinity = float("inf")
    for given, limits, wanted in (
        ((None, None), (-infinity, infinity), plain),
        ((bias, rest), (0.0, infinity), np.maximum(wide + rest, 0)),
        ((bias, None), (0.0, 6.0), np.clip(wide, 0, 6)),
    ):
        out[...] = np.nan
        views = [stride for value in (x, given[1], out) for stride in strides(value)]
        for place in np.ndindex(len(panels), -(-plain.shape[2] // 8), 2):
            kernel("convolution/convolution.c", "opsplice_convolution")(
                x, panels, *given, *limits, *stride, *dilation, out, *sizes, *views, *place
            )
        np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("oh", "ow"), [(1, 1), (3, 7), (4, 14), (7, 16), (9, 35)])
def test_depthwise(kernel, guarded, size, stride, oh, ow):
    random = np.random.default_rng(0)
    h, w = ((count - 1) * stride + size for count in (oh, ow))
    x, f, bias = (
        guarded(random.standard_normal(shape).astype(np.float32)) for shape in ((2, 6, h, w), (6, size, size), (6,))
    )
    wanted = np.einsum("ncyzij,cij->ncyz", windows(x.astype(float), (size, size), (stride, stride), (1, 1)), f)
    out = guarded(np.full(wanted.shape, np.nan, np.float32))
    for given, limits, result in (
        (None, (-float("inf"), float("inf")), wanted),
        (bias, (0.0, 6.0), np.clip(wanted + bias[:, None, None], 0, 6)),
    ):
        out[...] = np.nan
        for place in np.ndindex(2, 2):
            kernel("convolution/depthwise.c", "opsplice_depthwise")(
                x, f, given, *limits, stride, out, 2, 6, h, w, size, size, oh, ow, *place
            )
        np.testing.assert_allclose(out, result, rtol=1e-4, atol=1e-5)
