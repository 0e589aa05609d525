"""Softmax, norms and activations against numpy in float64, for rows of every length around the vectors'."""

from __future__ import annotations

from math import erf

import numpy as np
import pytest

LENGTHS = (1, 3, 15, 16, 17, 33, 64, 65, 100, 191)
ROWS = 18


def rows(n: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((ROWS, n)) * 3).astype(np.float32)


@pytest.mark.parametrize("n", LENGTHS)
def test_softmax(kernel, guarded, n):
    x, out = guarded(rows(n)), guarded(np.full((ROWS, n), np.nan, np.float32))
    softmax = kernel("rows/softmax.c", "opsplice_softmax")
    for group in range(2):
        softmax(x, out, ROWS, n, group)
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=3e-6, atol=1e-12)


def test_softmax_of_special_values(kernel):
    x = np.zeros((4, 20), np.float32)
    x[0, 3], x[1, 2], x[2, 5], x[3, 1:] = np.nan, -np.inf, 1e30, -1e30
    out = np.empty_like(x)
    kernel("rows/softmax.c", "opsplice_softmax")(x, out, 4, 20, 0)
    assert np.isnan(out[0]).all()
    np.testing.assert_allclose(out[1], np.where(np.arange(20) == 2, 0, 1 / 19), rtol=1e-6, atol=1e-30)
    np.testing.assert_allclose(out[2], np.arange(20) == 5, atol=1e-30)
    np.testing.assert_allclose(out[3], np.arange(20) == 0, atol=1e-30)


@pytest.mark.parametrize("n", LENGTHS)
def test_norms(kernel, guarded, n):
    x, gain, bias = (guarded(value) for value in (rows(n) + 5, rows(n, 1)[0], rows(n, 2)[0]))
    wide = x.astype(float)
    centred = wide - wide.mean(1, keepdims=True)
    standard = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-3)
    out = guarded(np.full((ROWS, n), np.nan, np.float32))
    layernorm = kernel("rows/norm.c", "opsplice_layernorm")
    for given, wanted in (((gain, bias), standard * gain + bias), ((None, None), standard)):
        out[...] = np.nan
        for group in range(2):
            layernorm(x, *given, 1e-3, out, ROWS, n, group)
        np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=2e-5)
    for group in range(2):
        kernel("rows/norm.c", "opsplice_rmsnorm")(x, gain, 1e-3, out, ROWS, n, group)
    np.testing.assert_allclose(out, wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-3) * gain, rtol=2e-6)


@pytest.mark.parametrize("n", [1, 17, 4096, 4100])
def test_activations(kernel, guarded, n):
    x = guarded(np.linspace(-12, 12, n, dtype=np.float32))
    factor, out = guarded(rows(n)[0]), guarded(np.full(n, np.nan, np.float32))
    wide = x.astype(float)
    silu = wide / (1 + np.exp(-wide))
    inner = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
    for name, given, wanted in (
        ("gelu", (x,), wide / 2 * (1 + np.vectorize(erf)(wide / np.sqrt(2)))),
        ("gelu_tanh", (x,), wide / 2 * (1 + np.tanh(inner))),
        ("silu", (x, None), silu),
        ("silu", (x, factor), silu * factor),
    ):
        out[...] = np.nan
        for group in range(-(-n // 4096)):
            kernel("rows/activation.c", f"opsplice_{name}")(*given, out, n, group)
        np.testing.assert_allclose(out, wanted, rtol=1e-6, atol=1e-6, err_msg=name)


def test_silu_of_large_numbers(kernel):
    x = np.array([-1e30, -200, -88.5, 200, 1e30, np.nan, np.inf], np.float32)
    out = np.empty_like(x)
    kernel("rows/activation.c", "opsplice_silu")(x, None, out, len(x), 0)
    np.testing.assert_allclose(out, [0, 0, 0, 200, 1e30, np.nan, np.inf], atol=1e-30)


def test_tanh_gelu_is_zero_where_its_tanh_is_minus_one(kernel):
    """What it is multiplied by may be infinite: the product is then NaN, as that of the formula is in f64."""
    x = np.array([-1e30, -20, -8, -5, 3, np.inf, np.nan], np.float32)
    out = np.empty_like(x)
    kernel("rows/activation.c", "opsplice_gelu_tanh")(x, out, len(x), 0)
    assert list(out[:3]) == [0, 0, 0]
    np.testing.assert_allclose(out[3:], [-2.29e-7, 2.9963627, np.inf, np.nan], rtol=1e-2)
