"""Softmax, norms and activations against numpy in float64, for rows of every length around the vectors'."""

from __future__ import annotations

import ctypes
from math import erf

import ml_dtypes
import numpy as np
import pytest

LENGTHS = (1, 3, 15, 16, 17, 33, 64, 65, 100, 191)
ROWS = 18
# Each with half the distance of its numbers from 1 on: what rounding adds.
TYPES = {"f32": (np.float32, 0), "f16": (np.float16, 2.0**-11), "bf16": (ml_dtypes.bfloat16, 2.0**-8)}


def rows(n: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((ROWS, n)) * 3).astype(np.float32)


@pytest.mark.parametrize("n", LENGTHS)
def test_softmax(kernel, guarded, n):
    x, out = guarded(rows(n)), guarded(np.full((ROWS, n), np.nan, np.float32))
    softmax = kernel("rows/softmax.c", "opsplice_softmax")
    for group in range(2):
        softmax(x, out, ROWS, n, group)
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("m", LENGTHS)
def test_softmax_of_columns(kernel, guarded, m):
    """Of rows that lie further apart than they are long, in x and in what is written."""
    n, apart = 7, m + 3
    x = guarded(rows(apart)[:n])
    x[2, 0], x[3, m // 2] = np.nan, -np.inf
    out = guarded(np.full((n, m), np.nan, np.float32))
    softmax = kernel("rows/softmax.c", "opsplice_softmax_columns")
    for part in range(2):
        softmax(x, out, 1, m, n, 1, apart, 1, m, 0, part)
    e = np.exp(x[:, :m].astype(float) - x[:, :m].max(0))
    np.testing.assert_allclose(out, e / e.sum(0), rtol=1e-6, atol=1e-12)


def test_softmax_of_special_values(kernel):
    x = np.zeros((4, 20), np.float32)
    x[0, 3], x[1, 2], x[2, 5], x[3, 1:] = np.nan, -np.inf, 1e30, -1e30
    out = np.empty_like(x)
    kernel("rows/softmax.c", "opsplice_softmax")(x, out, 4, 20, 0)
    assert np.isnan(out[0]).all()
    np.testing.assert_allclose(out[1], np.where(np.arange(20) == 2, 0, 1 / 19), rtol=1e-6)
    np.testing.assert_allclose(out[2], np.arange(20) == 5)
    np.testing.assert_allclose(out[3], np.arange(20) == 0)


@pytest.mark.parametrize("n", LENGTHS)
def test_log_softmax(kernel, guarded, n):
    x, out = guarded(rows(n)), guarded(np.full((ROWS, n), np.nan, np.float32))
    x[1, n // 2] = -np.inf if n > 1 else 0
    x[2, 0] = np.nan
    for group in range(2):
        kernel("rows/softmax.c", "opsplice_log_softmax")(x, out, ROWS, n, group)
    shifted = x.astype(float) - x.max(1, keepdims=True)
    np.testing.assert_allclose(out, shifted - np.log(np.exp(shifted).sum(1, keepdims=True)), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("element", TYPES)
def test_norms(kernel, guarded, element, n):
    kind, unit = TYPES[element]
    x, gain, bias = (guarded(value.astype(kind)) for value in (rows(n) + 5, rows(n, 1)[0], rows(n, 2)[0]))
    wide, by, shift = (value.astype(float) for value in (x, gain, bias))
    centred = wide - wide.mean(1, keepdims=True)
    standard = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-3)
    out = guarded(np.full((ROWS, n), np.nan, kind))
    layernorm = kernel("rows/norm.c", f"opsplice_layernorm_{element}")
    for given, wanted in (((gain, bias), standard * by + shift), ((None, None), standard)):
        out[...] = np.nan
        for group in range(2):
            layernorm(x, *given, 1e-3, out, ROWS, n, group)
        np.testing.assert_allclose(out.astype(float), wanted, rtol=1e-5 + unit, atol=2e-5)
    for group in range(2):
        kernel("rows/norm.c", f"opsplice_rmsnorm_{element}")(x, gain, 1e-3, out, ROWS, n, group)
    wanted = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-3) * by
    np.testing.assert_allclose(out.astype(float), wanted, rtol=2e-6 + unit)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("element", TYPES)
def test_norms_of_one_row(kernel, guarded, element, n):
    """With a gain and a bias for each element, for the row, or without."""
    kind, unit = TYPES[element]
    x, gain, bias = (guarded(value.astype(kind)) for value in (rows(n)[0] + 5, rows(n, 1)[0], rows(n, 2)[0]))
    wide, by, shift = (value.astype(float) for value in (x, gain, bias))
    standard = (wide - wide.mean()) / np.sqrt(wide.var() + 1e-3)
    norm = kernel("rows/norm.c", f"opsplice_norm_row_{element}")
    for given, steps, wanted in (
        ((gain, bias), (1, 1), standard * by + shift),
        ((gain, bias), (0, 1), standard * by[0] + shift),
        ((gain, bias), (0, 0), standard * by[0] + shift[0]),
        ((gain, None), (1, 0), standard * by),
        ((None, None), (0, 0), standard),
    ):
        out = guarded(np.full(n, np.nan, kind))
        norm(x, *given, 1e-3, out, 1, n, 1, *steps, 1, 0)
        np.testing.assert_allclose(out.astype(float), wanted, rtol=1e-5 + unit, atol=2e-5)


@pytest.mark.parametrize("depth", [1, 4])
@pytest.mark.parametrize(
    "order", [(0, 1, 2, 3, 4, 5), (0, 3, 4, 5, 1, 2), (4, 0, 1, 3, 5, 2)], ids=["second", "last", "other"]
)
@pytest.mark.parametrize("element", TYPES)
def test_norms_of_groups(kernel, guarded, element, order, depth):
    """In any order of the dims in memory, with gains that lie side by side or apart."""
    kind, unit = TYPES[element]
    random = np.random.default_rng(0)
    wide = random.standard_normal((2, 3, 21, depth, 5, 7)) * 3 + 5
    x = wide.astype(kind)
    memory = guarded(np.ascontiguousarray(x.transpose(order)))
    steps = [memory.strides[order.index(dim)] // memory.itemsize for dim in range(6)]
    centred = x - x.mean((2, 3, 4, 5), keepdims=True, dtype=float)
    standard = centred / np.sqrt((centred**2).mean((2, 3, 4, 5), keepdims=True) + 1e-3)
    gains = guarded(random.standard_normal((2, 3, 21)).astype(kind))
    by = gains.astype(float)[..., None, None, None]
    norm = kernel("rows/norm.c", f"opsplice_groupnorm_{element}")
    for gain, bias, wanted in ((gains[0], gains[1], standard * by[0] + by[1]), (None, None, standard)):
        out = guarded(np.full(memory.shape, np.nan, kind))
        for image, group in np.ndindex(2, -(-3 // -(-4096 // x[0, 0].size))):
            norm(memory, gain, bias, 1e-3, out, *x.shape, *steps, 21, 1, 21, 1, *steps, group, image)
        np.testing.assert_allclose(out.astype(float), wanted.transpose(order), rtol=1e-5 + unit, atol=2e-5)


def test_reductions(kernel, guarded):
    """Of rows and columns, with NaN in some: sums, sums of squares, largest and smallest elements."""
    combine = (np.sum, lambda x, axis: np.sum(x * x, axis), np.max, np.min)
    few = ((50, 4), (65, 2), (32, 15), (100, 20), (77, 31))
    for m, n in ((1, 1), (3, 5), (17, 16), (70, 33), (20, 100), (130, 9), (300, 3), (259, 18), (2, 1000), *few):
        x = guarded((np.random.default_rng(n).standard_normal((2, m, n)) * 3).astype(np.float32))
        x[0, m // 2, n // 3] = np.nan
        for which, function in enumerate(combine):
            number = ctypes.c_int32(which)
            rows, columns = guarded(np.full((2, m), 7, np.float32)), guarded(np.full((2, n), 7, np.float32))
            for group in range(-(-2 * m // 64)):
                kernel("rows/reduction.c", "opsplice_reduced_rows")(x, number, 0.5, 3.0, rows, 2 * m, n, group)
            for batches, group in np.ndindex(-(-2 // -(-4096 // (m * n))), -(-n // 256)):
                kernel("rows/reduction.c", "opsplice_reduced_columns")(
                    x, number, 0.5, 3.0, columns, 2, m, n, batches, group
                )
            for axis, found in ((2, rows), (1, columns)):
                wanted = function(x.astype(float), axis) / 6
                np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6, err_msg=f"{m} {n} {which} {axis}")


GELU, GELU_TANH, SILU, MISH, SOFTPLUS, ERF, SINE, COSINE = 2, 3, 4, 7, 8, 9, 10, 11


@pytest.mark.parametrize(("element", "n"), [*(("f32", n) for n in (1, 17, 4096, 4100)), ("f16", 4100), ("bf16", 4100)])
def test_activations(kernel, guarded, element, n):
    kind, unit = TYPES[element]
    x = guarded(np.linspace(-12, 12, n).astype(kind))
    factor, out = guarded(rows(n)[0].astype(kind)), guarded(np.full(n, np.nan, kind))
    wide = x.astype(float)
    inner = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
    softplus = np.log1p(np.exp(wide))
    for which, wanted in {
        GELU: wide / 2 * (1 + np.vectorize(erf)(wide / np.sqrt(2))),
        GELU_TANH: wide / 2 * (1 + np.tanh(inner)),
        SILU: wide / (1 + np.exp(-wide)),
        MISH: wide * np.tanh(softplus),
        SOFTPLUS: softplus,
        ERF: np.vectorize(erf)(wide),
        SINE: np.sin(wide),
        COSINE: np.cos(wide),
    }.items():
        for given in (None, factor):
            out[...] = np.nan
            for group in range(-(-n // 4096)):
                function = kernel("rows/activation.c", f"opsplice_activation_{element}")
                function(x, given, ctypes.c_int32(which), out, n, group)
            scale = np.ones(1) if given is None else given.astype(float)
            np.testing.assert_allclose(
                out.astype(float), wanted * scale, rtol=1e-6 + unit, atol=1e-6 * abs(scale).max(), err_msg=str(which)
            )


@pytest.mark.parametrize(
    ("which", "x", "wanted"),
    [
        (SILU, [-1e30, -200, -88.5, 200, 1e30, np.nan, np.inf], [0, 0, -3.24999e-37, 200, 1e30, np.nan, np.inf]),
        # 0 where its tanh is -1: what it is multiplied by may be infinite, and the product is NaN as it is in f64.
        (GELU_TANH, [-1e30, -20, -8, 3, np.inf, np.nan], [0, 0, 0, 2.9963627, np.inf, np.nan]),
        (MISH, [-1e30, -200, 200, np.inf, -np.inf, np.nan], [0, 0, 200, np.inf, np.nan, np.nan]),
        (SOFTPLUS, [-np.inf, -1e30, -40, 60, 1e30, np.inf, np.nan], [0, 0, 4.248354e-18, 60, 1e30, np.inf, np.nan]),
    ],
)
def test_activations_of_special_values(kernel, which, x, wanted):
    out = np.full(len(x), 7, np.float32)
    kernel("rows/activation.c", "opsplice_activation_f32")(
        np.array(x, np.float32), None, ctypes.c_int32(which), out, len(x), 0
    )
    np.testing.assert_allclose(out, wanted, rtol=1e-4)
