"""Products of bytes and of four bits against numpy. Sums of bytes are exact, so that only the scaling rounds."""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys

import numpy as np
import pytest

from tests.kernels.conftest import build, of_bytes

# 16 rows and more, of a k that 64 divides: AMX multiplies them, 32 rows at once, some of them again at the end.
MATRICES = [(16, 64, 33), (33, 128, 70), (285, 64, 32)]


def packed(w: np.ndarray) -> np.ndarray:
    k, n = w.shape
    panels = -(-n // 32)
    wide = np.zeros((-(-k // 4) * 4, panels * 32), np.int8)
    wide[:k, :n] = w
    return wide.reshape(-1, 4, panels, 32).transpose(2, 0, 3, 1).copy()


def numbers(*given: int) -> list[ctypes.c_int32]:
    return list(map(ctypes.c_int32, given))


@of_bytes
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 4, 1), (1, 64, 33), (3, 33, 17), (15, 12, 70), (300, 47, 32), (6, 515, 16), *MATRICES]
)
def test_byte_linear(kernel, guarded, m, k, n, signed):
    random = np.random.default_rng(0)
    x = random.integers(-128, 128, (m, k)).astype(np.int8) if signed else random.integers(0, 256, (m, k), np.uint8)
    w, zero = random.integers(-128, 128, (k, n)).astype(np.int8), (-7 if signed else 201)
    middles = guarded(random.integers(-128, 128, n).astype(np.int8))
    rows, columns, bias = (guarded(random.random(size).astype(np.float32)) for size in (m, n, n))
    panels, sums = packed(w), guarded(w.sum(0, dtype=np.int32))
    x, out = guarded(x), guarded(np.zeros((m, n), np.float32))
    weights = w.astype(int), w - middles.astype(int) - 3, w.astype(int) - 77
    exact, less, even = ((x.astype(int) - zero) @ each for each in weights)
    for given, middle, wanted in (
        ((None, None, None, None), 0, exact * 0.5),
        ((middles, rows, columns, bias), 3, less * 0.5 * rows[:, None] * columns + bias),
        ((None, None, None, None), 77, even * 0.5),
    ):
        out[...] = np.nan
        for place in np.ndindex(len(panels), -(-m // 252)):
            kernel("quantised/linear.c", "opsplice_byte_linear_f32")(
                *(x, panels, sums, *given, 0.5, 1.0, *numbers(middle, zero, signed, 0), 1.0, 0.0, *numbers(0)),
                *(out, m, k, *panels.shape[:2], n, *place),
            )
        np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-4 * np.abs(wanted).max() * 1e-2)


@of_bytes
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 5, 1), (15, 12, 70), (300, 47, 33), *MATRICES])
def test_byte_sums(kernel, guarded, m, k, n, signed):
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (m, k), np.uint8).view(np.int8 if signed else np.uint8)
    w, zero = random.integers(-128, 128, (k, n)).astype(np.int8), (-7 if signed else 201)
    panels, sums, x = packed(w), guarded(w.sum(0, dtype=np.int32)), guarded(x)
    middles, out = guarded(random.integers(-128, 128, n).astype(np.int8)), guarded(np.zeros((m, n), np.int32))
    for given, middle, weights in ((None, 0, w.astype(int)), (middles, 3, w - middles.astype(int) - 3)):
        out[...] = 0x55555555
        for place in np.ndindex(len(panels), -(-m // 252)):
            kernel("quantised/linear.c", "opsplice_byte_linear_i32")(
                *(x, panels, sums, given, None, None, None, 1.0, 1.0, *numbers(middle, zero, signed, 0)),
                *(1.0, 0.0, *numbers(0), out, m, k, *panels.shape[:2], n, *place),
            )
        np.testing.assert_array_equal(out, (x.astype(int) - zero) @ weights)


@of_bytes
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 66, 33), (15, 12, 70), (300, 47, 32), *MATRICES])
def test_byte_linear_with_fixed_scales(kernel, guarded, m, k, n, signed):
    """To f32, and to bytes of the other kind: rounded to even, and at most the largest byte; one of them positive."""
    random = np.random.default_rng(0)
    kind, other = (np.int8, np.uint8) if signed else (np.uint8, np.int8)
    x, (low, high) = random.integers(0, 256, (m, k), np.uint8).view(kind), (np.iinfo(other).min, np.iinfo(other).max)
    w, zero, middle = random.integers(-128, 128, (k, n)).astype(np.int8), (-7 if signed else 201), (3 if signed else -9)
    panels, sums = packed(w), guarded(w.sum(0, dtype=np.int32))
    exact = (x.astype(int) - zero) @ w.astype(int)
    columns, bias = guarded(2.0 ** random.integers(-1, 2, n).astype(np.float32)), random.integers(-99, 99, n)
    exact, bias = exact * columns + bias, guarded((bias / 8).astype(np.float32))
    out, result, x = guarded(np.full((m, n), np.nan, np.float32)), guarded(np.zeros((m, n), other)), guarded(x)
    # A step of a power of two, so that sums lie half way between bytes.
    step = 2.0 ** np.round(np.log2(np.abs(exact).max() / 200))
    for place in np.ndindex(len(panels), -(-m // 252)):
        sizes, given = (m, k, *panels.shape[:2], n, *place), (x, panels, sums, None, None, columns, bias, 0.5, 0.25)
        to = (step / 8, float(middle), *numbers(not signed))
        for name, positive, made in (("f32", signed, out), ("i8", not signed, result)):
            call = kernel("quantised/linear.c", f"opsplice_byte_linear_{name}")
            call(*given, *numbers(0, zero, signed, positive), *to, made, *sizes)
    np.testing.assert_array_equal(out, np.maximum(exact, 0 if signed else -np.inf) * 0.125)
    exact = np.maximum(exact, -np.inf if signed else 0)
    np.testing.assert_array_equal(result, np.clip(np.round(exact / step) + middle, low, high))


@of_bytes
def test_the_positive_part_of_nan_is_nan(kernel):
    x, w, sums = np.ones((3, 8), np.uint8), np.ones((8, 5), np.int8), np.full(5, 8, np.int32)
    out, scales = np.zeros((3, 5), np.float32), np.array([1, np.nan, -1], np.float32)
    kernel("quantised/linear.c", "opsplice_byte_linear_f32")(
        *(x, packed(w), sums, None, scales, None, None, 1.0, 1.0, *numbers(0, 0, 0, 1), 1.0, 0.0, *numbers(0)),
        *(out, 3, 8, 1, 2, 5, 0, 0),
    )
    np.testing.assert_array_equal(out, np.repeat([[8.0], [np.nan], [0.0]], 5, axis=1))


@of_bytes
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.002, 0.05, 1.0])
@pytest.mark.parametrize(("m", "k", "n"), [(8, 9, 20), (23, 700, 33), (254, 260, 48)])
def test_sums_of_two_products_that_do_not_fit_16_bits(kernel, guarded, m, k, n, share, signed):
    """The largest bytes by weights of which two side by side have a sum of 128 at most, but for a share of them."""
    random = np.random.default_rng(0)
    fitting, others = [[64, 64], [127, 1], [-128, 0], [-64, -64], [-128, 127]], [[64, 65], [127, 127], [-128, -1]]
    pairs = np.asarray(fitting)[random.integers(0, len(fitting), (-(-k // 2), n))]
    too_large = random.random(pairs.shape[:2]) < share
    pairs[too_large] = np.asarray(others)[random.integers(0, len(others), int(too_large.sum()))]
    w = pairs.transpose(0, 2, 1).reshape(-1, n)[:k].astype(np.int8)
    x = guarded(np.full((m, k), 127, np.int8) if signed else np.full((m, k), 255, np.uint8))
    x[::3] -= random.integers(0, 2, x[::3].shape).astype(x.dtype)
    panels, sums, out = packed(w), guarded(w.sum(0, dtype=np.int32)), guarded(np.full((m, n), np.nan, np.float32))
    for place in np.ndindex(len(panels), -(-m // 252)):
        kernel("quantised/linear.c", "opsplice_byte_linear_f32")(
            *(x, panels, sums, None, None, None, None, 1.0, 1.0, *numbers(0, 0, signed, 0)),
            *(1.0, 0.0, *numbers(0), out, m, k, *panels.shape[:2], n, *place),
        )
    np.testing.assert_array_equal(out, (x.astype(int) @ w.astype(int)).astype(np.float32))


WITHOUT_PERMISSION = """
import ctypes, sys
import numpy as np
libc, library = ctypes.CDLL(None), ctypes.CDLL(sys.argv[1])
class Stack(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
memory = ctypes.create_string_buffer(8192)
assert libc.sigaltstack(ctypes.byref(Stack(ctypes.addressof(memory), 0, len(memory))), None) == 0
assert libc.syscall(158, 0x1023, 18) != 0
x, w, sums = np.full((16, 64), 3, np.uint8), np.ones((1, 16, 32, 4), np.int8), np.full(32, 64, np.int32)
out = np.zeros((16, 32), np.float32)
at = lambda array: ctypes.c_void_p(array.ctypes.data)
sizes = map(ctypes.c_size_t, (16, 64, 1, 16, 32, 0, 0))
library.opsplice_byte_linear_f32(
    *(at(x), at(w), at(sums), None, None, None, None, ctypes.c_float(0.5), ctypes.c_float(1)),
    *(*map(ctypes.c_int32, (0, 1, 0, 0)), ctypes.c_float(1), ctypes.c_float(0), ctypes.c_int32(0), at(out), *sizes),
)
assert (out == 64).all(), out
"""


def test_a_process_that_may_not_use_amx():
    """Linux refuses its registers where a stack for signals is too small for them: other code multiplies then."""
    library = build("quantised/linear.c", "amx")
    subprocess.run([sys.executable, "-c", WITHOUT_PERMISSION, str(library)], check=True)


def packed_filter(f: np.ndarray) -> np.ndarray:
    """Of [g, o, c, kd, kh, kw]."""
    g, o, c, *window = f.shape
    panels, words = -(-o // 32), -(-c // 4)
    wide = np.zeros((g, panels * 32, words * 4, *window), np.int8)
    wide[:, :o, :c] = f
    return wide.reshape(g, panels, 32, words, 4, *window).transpose(0, 1, 5, 6, 7, 3, 2, 4).copy()


def convolved(x: np.ndarray, f: np.ndarray, strides, dilations, before, size) -> np.ndarray:
    """Exact sums of integers, of an image [n, g, c, d, h, w] with zeros around it."""
    out = np.zeros((len(x), *f.shape[:2], *size), int)
    reach = [s * (n - 1) + 1 for s, n in zip(strides, size, strict=True)]
    for place in np.ndindex(f.shape[3:]):
        at = [tap * step for tap, step in zip(place, dilations, strict=True)]
        ends = [a + r for a, r in zip(at, reach, strict=True)]
        wide = np.zeros((*x.shape[:3], *map(max, ends, map(sum, zip(before, x.shape[3:], strict=True)))), int)
        wide[:, :, :, *(slice(b, b + n) for b, n in zip(before, x.shape[3:], strict=True))] = x
        part = wide[:, :, :, *map(slice, at, ends, strides)]
        out += np.einsum("ngcdhw,goc->ngodhw", part, f[:, :, :, *place].astype(int))
    return out


# The shape of x, groups, channels out of each and filter, strides, dilations, zeros before and behind.
CONVOLUTIONS = [
    ((1, 3, 1, 11, 9), 1, (5, 1, 7, 3), (1, 2, 2), (1, 1, 1), (0, 3, 1, 0, 2, 1)),
    ((2, 20, 1, 9, 35), 1, (33, 1, 3, 3), (1, 1, 1), (1, 2, 3), (0, 2, 3, 0, 1, 4)),
    ((1, 64, 1, 7, 7), 1, (40, 1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 1, 1, 0, 1, 1)),
    ((1, 128, 1, 33, 20), 1, (33, 1, 1, 3), (1, 2, 1), (1, 1, 1), (0, 0, 1, 0, 0, 0)),
    ((1, 68, 1, 5, 13), 1, (260, 1, 1, 1), (1, 1, 1), (1, 1, 1), (0, 0, 0, 0, 0, 0)),
    ((1, 9, 1, 9, 13), 1, (8, 1, 1, 1), (1, 3, 2), (1, 1, 1), (0, 0, 0, 0, 0, 0)),
    ((1, 256, 1, 12, 40), 1, (33, 1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 1, 1, 0, 1, 1)),  # more than is copied at once
    ((1, 1024, 1, 3, 9), 1, (8, 1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 1, 1, 0, 1, 1)),
    ((2, 37, 1, 11, 70), 1, (36, 1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 0, 1, 0, 1, 2)),  # blocks of tiles, of odd sizes
    ((2, 10, 1, 9, 6), 2, (33, 1, 3, 3), (1, 2, 1), (1, 1, 1), (0, 1, 1, 0, 1, 1)),
    ((1, 32, 4, 7, 6), 2, (9, 3, 3, 2), (1, 1, 1), (2, 1, 1), (2, 1, 0, 2, 1, 1)),
    ((2, 5, 5, 3, 20), 1, (34, 2, 1, 3), (2, 1, 1), (1, 1, 2), (1, 0, 2, 1, 0, 2)),
]


def call_convolution(kernel, name, given, scalars, form, x, words, out, memory=None):
    """On [n, gc, d, h, w], for [n, g, o, od, oh, ow], which are views of `memory`."""
    image, result = memory or (x, out)
    dims = (*x.shape, words.shape[0], *words.shape[1:6], *out.shape[2:])
    views = [step // each.itemsize for each in (x, out) for step in each.strides]
    for place in np.ndindex(-(-words.shape[1] // 8), -(-out.shape[4] // 8), len(x) * len(words) * out.shape[3]):
        kernel("quantised/convolution.c", f"opsplice_byte_convolution_{name}")(
            *(image, words, *given, *scalars, *form, result, *dims, *views, *place)
        )


@of_bytes
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("shape", "groups", "filters", "strides", "dilations", "around"), CONVOLUTIONS)
def test_byte_convolution(kernel, guarded, shape, groups, filters, strides, dilations, around, signed):
    """To f32, to bytes of the other kind, and the sums, in both layouts; what is outside is the zero point."""
    random, c, (o, *window) = np.random.default_rng(0), shape[1] // groups, filters
    kind, other = (np.int8, np.uint8) if signed else (np.uint8, np.int8)
    zero, middle = (-7, 3) if signed else (201, -9)
    x = random.integers(0, 256, shape, np.uint8).view(kind)
    f = random.integers(-128, 128, (groups, o, c, *window)).astype(np.int8)
    f[:, :16, : c // 2 + 1] //= 2  # a sum of two is from -128 to 128
    sizes = zip(shape[2:], window, strides, dilations, around[:3], around[3:], strict=True)
    size = [(full + a + b - d * (taps - 1) - 1) // s + 1 for full, taps, s, d, a, b in sizes]
    grouped = x.astype(int).reshape(len(x), groups, c, *shape[2:]) - zero
    sums = convolved(grouped, f, strides, dilations, around[:3], size)
    columns, bias = 2.0 ** random.integers(-1, 2, (groups, o)).astype(np.float32), random.integers(-99, 99, (groups, o))
    exact = sums * columns[..., None, None, None] + bias[..., None, None, None]
    step = 2.0 ** np.round(np.log2(np.abs(exact).max() / 200))
    words, totals, columns, floats = map(
        guarded, (packed_filter(f), f.sum((2, 3, 4, 5), dtype=np.int32), columns, (bias / 8).astype(np.float32))
    )
    form = (*strides, *dilations, *around[:3])
    least, limits = (0, -np.inf) if signed else (-np.inf, 0), np.iinfo(other)
    wanted = {
        "f32": np.maximum(exact, least[0]) * 0.125,
        "i8": np.clip(np.round(np.maximum(exact, least[1]) / step) + middle, limits.min, limits.max),
        "i32": sums,
    }
    for axis in (1, 4):  # where the channels lie
        memory = guarded(np.moveaxis(x, 1, axis).copy())
        image = np.moveaxis(memory, axis, 1)
        for name, result, positive in (("f32", np.float32, signed), ("i8", other, not signed), ("i32", np.int32, 0)):
            flat = guarded(np.full(np.moveaxis(exact.reshape(len(x), -1, *size), 1, axis).shape, 77, result))
            out = np.moveaxis(flat, axis, 1)
            strided = [*out.strides[:1], out.strides[1] * o, out.strides[1], *out.strides[2:]]
            out = np.lib.stride_tricks.as_strided(out, exact.shape, strided)
            scales = (columns, floats, 0.5, 0.25) if name != "i32" else (None, None, 1.0, 1.0)
            scalars = (*(ctypes.c_int32(each) for each in (zero, signed, positive)), step / 8, float(middle))
            given, scalars = (totals, *scales), (*scalars, ctypes.c_int32(not signed))
            call_convolution(kernel, name, given, scalars, form, image, words, out, (memory, flat))
            np.testing.assert_array_equal(out, wanted[name], err_msg=f"{name}, channels {axis}")


@of_bytes
def test_sums_of_the_largest_bytes(kernel, guarded):
    """What Winograd's products add up to is four times as large on the way, and fits 32 bits."""
    random, (c, o, size) = np.random.default_rng(0), (1024, 8, 6)
    x = guarded(np.full((2, c, 1, size, size), 255, np.uint8))
    x[1] = random.choice(np.array([0, 255], np.uint8), (1, 1, size, size))
    f = np.full((1, o, c, 1, 3, 3), -128, np.int8)
    f[0, 1], f[0, 2:4] = 127, random.choice(np.array([-128, 127], np.int8), (2, 1, 1, 3, 3))
    f[0, 4:] = random.choice(np.array([-128, 127], np.int8), (4, c, 1, 3, 3))
    words, out = guarded(packed_filter(f)), guarded(np.zeros((2, 1, o, 1, size, size), np.float32))
    given = (guarded(f.sum((2, 3, 4, 5), dtype=np.int32)), None, None, 1.0, 1.0)
    scalars = (*map(ctypes.c_int32, (0, 0, 0)), 1.0, 0.0, ctypes.c_int32(0))
    call_convolution(kernel, "f32", given, scalars, (1,) * 6 + (0, 1, 1), x, words, out)
    exact = convolved(x[:, None], f, (1, 1, 1), (1, 1, 1), (0, 1, 1), (1, size, size))
    assert np.abs(exact).max() == 255 * 128 * 9 * c
    np.testing.assert_array_equal(out, exact.astype(np.float32))


ACTIVATIONS = {
    2: lambda x: x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))) / 2,
    3: lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
    4: lambda x: x / (1 + np.exp(-x)),
}


@of_bytes
@pytest.mark.parametrize("signed", [False, True])
def test_quantise_linear(kernel, guarded, signed):
    """More numbers than a workgroup takes, not a multiple of a vector, beyond what bytes hold, and ties to even."""
    kind, middle, step = (np.int8, -5, 0.0625) if signed else (np.uint8, 117, 0.0625)
    x = guarded((np.random.default_rng(0).standard_normal(32801) * 12).astype(np.float32))
    x[:40], x[40:44] = np.arange(40) * step / 2, [np.inf, -np.inf, 1e30, -1e30]
    out = guarded(np.zeros(x.shape, kind))
    for place in range(2):
        kernel("quantised/activation.c", "opsplice_quantise_linear")(
            x, step, float(middle), ctypes.c_int32(signed), out, x.size, place
        )
    limits = np.iinfo(kind)
    np.testing.assert_array_equal(out, np.clip(np.round(x.astype(float) / step) + middle, limits.min, limits.max))


@of_bytes
@pytest.mark.parametrize("signed", [False, True])
def test_dequantise_linear(kernel, guarded, signed):
    """All bytes, more than a workgroup takes, not a multiple of a vector."""
    zero, scale = (-7 if signed else 120), np.float32(0.37)
    x = guarded(np.resize(np.arange(256, dtype=np.uint8), 32803).view(np.int8 if signed else np.uint8))
    out = guarded(np.zeros(x.shape, np.float32))
    for place in range(2):
        kernel("quantised/activation.c", "opsplice_dequantise_linear")(
            *(x, float(scale), ctypes.c_int32(zero), ctypes.c_int32(signed), out, x.size, place)
        )
    np.testing.assert_array_equal(out, (x.astype(np.float32) - zero) * scale)


@of_bytes
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("signed", [False, True])
def test_byte_addition(kernel, guarded, signed, positive):
    """Every byte with every other one, not a multiple of a vector; no sum is rounded before the end."""
    kind, other = (np.int8, np.uint8) if signed else (np.uint8, np.int8)
    (zero, y_zero, middle), step = ((-7, 99, 20) if signed else (120, -30, -50)), 2**-4
    bytes_ = np.arange(256, dtype=np.uint8)
    x, y = (guarded(np.append(each, bytes_[:3])) for each in (np.tile(bytes_, 256), np.repeat(bytes_, 256)))
    x, y, out = x.view(kind), y.view(other), guarded(np.zeros(x.size, kind))
    for place in range(3):
        kernel("quantised/activation.c", "opsplice_byte_addition")(
            *(x, y, 2**-5, ctypes.c_int32(zero), ctypes.c_int32(signed)),
            *(2**-4, ctypes.c_int32(y_zero), ctypes.c_int32(not signed), ctypes.c_int32(positive)),
            *(step, float(middle), ctypes.c_int32(signed), out, x.size, place),
        )
    total = (x.astype(float) - zero) * 2**-5 + (y.astype(float) - y_zero) * 2**-4
    limits = np.iinfo(kind)
    wanted = np.round((np.maximum(total, 0) if positive else total) / step) + middle
    np.testing.assert_array_equal(out, np.clip(wanted, limits.min, limits.max))


@of_bytes
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("which", ACTIVATIONS)
def test_byte_activation(kernel, guarded, which, signed):
    """Of all bytes, more than a workgroup takes; a result may be off by one step where it lies half way between two."""
    kind, other = (np.int8, np.uint8) if signed else (np.uint8, np.int8)
    zero, middle, scale, step = (-7 if signed else 120), (9 if signed else -90), np.float32(0.05), np.float32(0.03)
    x = guarded(np.resize(np.arange(256, dtype=np.uint8), 33000).view(kind))
    out = guarded(np.zeros(33000, other))
    for place in range(2):
        kernel("quantised/activation.c", "opsplice_byte_activation")(
            *(x, float(scale), ctypes.c_int32(zero), ctypes.c_int32(signed), float(step), float(middle)),
            *(ctypes.c_int32(not signed), which, out, x.size, place),
        )
    exact = ACTIVATIONS[which]((x.astype(float) - zero) * scale) / step
    limits, is_tie = np.iinfo(other), np.abs(exact % 1 - 0.5) < 1e-3
    wanted = np.clip(np.round(exact) + middle, limits.min, limits.max)
    np.testing.assert_array_equal(out[~is_tie], wanted[~is_tie])
    assert np.abs(out - wanted)[is_tie].max(initial=0) <= 1


def packed_nibbles(w: np.ndarray) -> np.ndarray:
    n, blocks, block = w.shape
    panels = -(-n // 32)
    wide = np.zeros((panels * 32, blocks * block // 8, 8), np.uint8)
    wide[:n] = w.reshape(n, -1, 8)
    wide = wide.reshape(panels, 32, -1, 8).transpose(0, 2, 1, 3)
    return (wide[..., ::2] | wide[..., 1::2] << 4).copy()


def panelled(value: np.ndarray) -> np.ndarray:
    n, blocks = value.shape
    wide = np.zeros((-(-n // 32) * 32, blocks), value.dtype)
    wide[:n] = value
    return wide.reshape(-1, 32, blocks).transpose(0, 2, 1).copy()


@pytest.mark.parametrize(
    ("m", "blocks", "block", "n"),
    [(1, 1, 8, 1), (1, 5, 32, 33), (2, 3, 16, 17), (15, 3, 24, 70), (255, 5, 32, 40), (3, 1, 264, 32)],
)
def test_nibble_linear(kernel, guarded, m, blocks, block, n):
    random = np.random.default_rng(0)
    x = guarded(random.standard_normal((m, blocks * block), np.float32))
    w, zero = random.integers(0, 16, (n, blocks, block), np.uint8), random.integers(0, 17, (n, blocks)).astype(np.int8)
    w[0, 0, :2], zero[0, 0] = (0, 15), 16  # GPTQ adds one to its zero points
    scale, bias = random.random((n, blocks), np.float32), guarded(random.random(n, np.float32))
    words, scales, zeros = guarded(packed_nibbles(w)), guarded(panelled(scale)), guarded(panelled(zero))
    out = guarded(np.empty((m, n), np.float32))
    for given, start, middle in (((None, None), 0, 8), ((zeros, bias), bias, zero[..., None])):
        weight = (w.astype(np.float64) - middle) * scale[..., None]
        out[...] = np.nan
        for place in np.ndindex(len(words), -(-m // 252)):
            kernel("quantised/weight_only.c", "opsplice_nibble_linear")(
                *(x, words, scales, *given, out, m, blocks, block, len(words), block // 8, n, *place)
            )
        wanted = x.astype(np.float64) @ weight.reshape(n, -1).T + start
        np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("m", "blocks", "block", "n"), [(1, 1, 8, 1), (1, 3, 32, 33), (2, 3, 24, 70), (255, 1, 264, 40)]
)
def test_weights_of_bytes(kernel, guarded, m, blocks, block, n):
    """In blocks with zero points; and with one scale for a column."""
    random = np.random.default_rng(0)
    x = guarded(random.standard_normal((m, blocks * block), np.float32))
    w, zero = random.integers(-128, 128, (n, blocks, block)).astype(np.int8), random.integers(-128, 128, (n, blocks))
    scale, bias = random.random((n, blocks), np.float32), guarded(random.random(n, np.float32))
    panels = -(-n // 32)
    wide = np.zeros((panels * 32, blocks * block), np.int8)
    wide[:n] = w.reshape(n, -1)
    words = guarded(wide.reshape(panels, 32, -1).transpose(0, 2, 1).copy())
    scales, zeros = guarded(panelled(scale)), guarded(panelled(zero.astype(np.int8)))
    sizes = {"blocks": (m, blocks, block, panels, n), "columns": (m, block, panels, n)}
    cases = [("blocks", (scales, zeros, bias), bias, zero[..., None], scale)]
    cases += [("blocks", (scales, None, None), 0, 0, scale)]
    columns = [("columns", (scales, bias, 1.0), bias, 0, scale), ("columns", (None, None, 0.5), 0, 0, 0.5 * scale**0)]
    for name, given, start, middle, by in cases + columns * (blocks == 1):
        out = guarded(np.full((m, n), np.nan, np.float32))
        for place in np.ndindex(panels, -(-m // 252)):
            kernel("quantised/weight_only.c", f"opsplice_byte_{name}")(*(x, words, *given, out, *sizes[name], *place))
        weight = (w.astype(np.float64) - middle) * by[..., None]
        wanted = x.astype(np.float64) @ weight.reshape(n, -1).T + start
        np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("m", [1, 2])
def test_nibble_linear_keeps_what_is_not_finite(kernel, m):
    """As the program: infinity times a weight of 0 is NaN, and else an infinity with the weight's sign."""
    x, out = np.ones((m, 8), np.float32), np.zeros((m, 3), np.float32)
    x[:, 3] = np.inf
    w = np.full((3, 1, 8), 5, np.uint8)
    zero, scale = np.array([[5], [4], [6]], np.int8), np.ones((3, 1), np.float32)
    kernel("quantised/weight_only.c", "opsplice_nibble_linear")(
        *(x, packed_nibbles(w), panelled(scale), panelled(zero), None, out, m, 1, 8, 1, 1, 3, 0, 0)
    )
    np.testing.assert_array_equal(out, [[np.nan, np.inf, -np.inf]] * m)


@pytest.mark.parametrize("size", [1, 5, 63, 64, 1000])
@pytest.mark.parametrize("start", [-3.0, 0.5, -9.0])
def test_quantise_bytes(kernel, guarded, size, start):
    """As ONNX says: the bytes reach to 0, whatever the numbers."""
    x = guarded((np.random.default_rng(size).random(size, np.float32) * 6 + np.float32(start)).astype(np.float32))
    out, scale, zero = guarded(np.zeros(size, np.uint8)), np.zeros((), np.float32), np.zeros((), np.uint8)
    kernel("quantised/quantise.c", "opsplice_quantise_bytes")(x, out, scale, zero, size)
    low, high = np.minimum(x.min(), np.float32(0)), np.maximum(x.max(), np.float32(0))
    assert scale == (high - low) / np.float32(255)
    assert zero == np.round(-low / scale)
    np.testing.assert_array_equal(out, np.clip(np.round(x / scale) + zero, 0, 255))


def test_quantise_zeros(kernel):
    out, scale, zero = np.ones(3, np.uint8), np.ones((), np.float32), np.ones((), np.uint8)
    kernel("quantised/quantise.c", "opsplice_quantise_bytes")(np.zeros(3, np.float32), out, scale, zero, 3)
    assert (scale, zero) == (0, 0)


@pytest.mark.parametrize(("size", "at"), [(3, 1), (64, 63), (1000, 0), (1001, 1000)])
def test_nan_makes_the_scale_zero(kernel, size, at):
    """As IREE imports it: what is above 0 is infinite then, which is the largest byte."""
    x = np.where(np.arange(size) % 2, np.float32(-2), np.float32(2))
    x[at] = np.nan
    out, scale, zero = np.ones(size, np.uint8), np.ones((), np.float32), np.ones((), np.uint8)
    kernel("quantised/quantise.c", "opsplice_quantise_bytes")(x, out, scale, zero, size)
    assert (scale, zero) == (0, 0)
    np.testing.assert_array_equal(out, np.where(x > 0, 255, 0))
