"""Depthwise convolutions of bytes against exact sums, and how numbers become bytes against divisions."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.kernels.conftest import depthwise_groups, of_bytes
from tests.kernels.test_convolution import windows

# Channels, places, filter, strides, dilations, zeros before and behind.
CASES = [
    (5, (9, 14), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (37, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),  # small planes, a vector of channels at once
    (35, (14, 13), (5, 5), (2, 2), (1, 1), (2, 1, 2, 2)),
    (20, (4, 9), (1, 5), (1, 3), (2, 1), (0, 2, 0, 1)),
    (3, (120, 130), (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),  # strips of a plane
    (2, (9, 2000), (3, 3), (1, 1), (1, 2), (1, 2, 1, 2)),  # a strip is a row or two
    (2, (40, 33), (20, 25), (1, 1), (1, 1), (3, 30, 9, 0)),  # more taps than planes are turned for; rows of zeros alone
    (2, (3, 5), (3, 3), (1, 1), (9, 1), (19, 1, 20, 1)),  # taps outside of the image
]


@of_bytes
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("c", "place", "size", "stride", "dilation", "zeros"), CASES)
def test_byte_depthwise(kernel, guarded, c, place, size, stride, dilation, zeros, signed):
    """To f32, to bytes of the other kind, and the sums, in both layouts; what is outside is the zero point."""
    random, (top, left, bottom, right) = np.random.default_rng(0), zeros
    kind, other = (np.int8, np.uint8) if signed else (np.uint8, np.int8)
    zero, middle = (-7, 3) if signed else (201, -9)
    x = guarded(random.integers(0, 256, (2, c, *place), np.uint8).view(kind))
    f = guarded(random.integers(-128, 128, (c, *size)).astype(np.int8))
    padded = np.pad(x.astype(int) - zero, ((0, 0), (0, 0), (top, bottom), (left, right)))
    sums = np.einsum("ncyzij,cij->ncyz", windows(padded, size, stride, dilation), f.astype(int))
    columns, bias = 2.0 ** random.integers(-1, 2, c).astype(np.float32), random.integers(-99, 99, c)
    exact = sums * columns[:, None, None] + bias[:, None, None]
    step = 2.0 ** np.round(np.log2(np.abs(exact).max() / 200))
    columns, floats = map(guarded, (columns, (bias / 8).astype(np.float32)))
    least, limits = (0, -np.inf) if signed else (-np.inf, 0), np.iinfo(other)
    wanted = {
        "f32": np.maximum(exact, least[0]) * 0.125,
        "i8": np.clip(np.round(np.maximum(exact, least[1]) / step) + middle, limits.min, limits.max),
        "i32": sums,
    }
    for axis in (1, 3):  # where the channels of the result lie
        for name, result, positive in (("f32", np.float32, signed), ("i8", other, not signed), ("i32", np.int32, 0)):
            out = np.moveaxis(guarded(np.full(np.moveaxis(exact, 1, axis).shape, 77, result)), axis, 1)
            scales = (columns, floats, 0.5, 0.25) if name != "i32" else (None, None, 1.0, 1.0)
            integers = [ctypes.c_int32(each) for each in (zero, signed, positive)]
            form = (step / 8, float(middle), ctypes.c_int32(not signed), *stride, *dilation, top, left)
            n, c_step, y, z = (each // out.itemsize for each in out.strides)
            views = [*x.strides[:2], 0, *x.strides[2:], n, c_step, 0, 0, y, z]
            dims = (2, c, 1, *place, c, 1, 1, 1, *size, 1, *out.shape[2:])
            for at in np.ndindex(depthwise_groups(c, *out.shape[2:]), 2):
                kernel("quantised/depthwise.c", f"opsplice_byte_depthwise_{name}")(
                    x, f, *scales, *integers, *form, out, *dims, *views, *at
                )
            np.testing.assert_array_equal(out, wanted[name], err_msg=f"{name}, channels {axis}")


@of_bytes
@pytest.mark.parametrize("step", [0.0371, 1 / 3, 1.7e-30, 3e-39, 2.9e34, 1.9999999])
def test_quotients_are_those_of_a_division(kernel, guarded, step):
    """Also next to ties and to the limits, of what is infinite, and of steps whose inverse is none or not normal."""
    step, random = np.float32(step), np.random.default_rng(0)
    ties = (random.integers(-300, 300, 20000) + 0.5).astype(np.float32) * step
    near = np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(-np.inf))
    far = np.array([np.inf, -np.inf, 3e38, -3e38, 0.0, -0.0], np.float32)
    x = guarded(np.concatenate([ties, *near, far, random.standard_normal(40000).astype(np.float32) * 90 * step]))
    out = guarded(np.zeros(x.shape, np.uint8))
    for place in range(-(-x.size // 32768)):
        kernel("quantised/activation.c", "opsplice_quantise_linear")(
            x, float(step), 117.0, ctypes.c_int32(0), out, x.size, place
        )
    with np.errstate(over="ignore"):
        wanted = np.clip(np.rint(x / step) + 117, 0, 255)
    np.testing.assert_array_equal(out, wanted)
