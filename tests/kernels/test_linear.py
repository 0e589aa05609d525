"""Products with packed weights against numpy in float64: sizes around the tiles, and all that may follow."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

SIZES = [(1, 1, 1), (1, 65, 33), (2, 31, 17), (13, 64, 32), (15, 7, 70), (300, 50, 95)]


def packed(w: np.ndarray) -> np.ndarray:
    k, n = w.shape
    panels = -(-n // 32)
    wide = np.zeros((k, panels * 32), np.float32)
    wide[:, :n] = w
    return wide.reshape(k, panels, 32).transpose(1, 0, 2).copy()


@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_linear(kernel, guarded, m, k, n):
    random = np.random.default_rng(0)
    x, w, bias, factor, rest = (
        random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (n,), (m, n), (m, n))
    )
    panels, out = packed(w), guarded(np.zeros((m, n), np.float32))
    plain = x.astype(float) @ w
    silu = (plain + bias) / (1 + np.exp(-plain - bias))
    x, bias, factor, rest = (guarded(value) for value in (x, bias, factor, rest))
    # Weights are fetched ahead of the tile, which no access is: the guard behind them stays.
    w = guarded(panels)
    for given, activation, wanted in (
        ((None, None, None), 0, plain),
        ((bias, None, rest), 1, np.maximum(plain + bias, 0) + rest),
        ((bias, factor, None), 4, silu * factor),
        ((bias, factor, rest), 4, silu * factor + rest),
    ):
        out[...] = np.nan
        for group in range(-(-m // 252)):
            for panel in range(len(panels)):
                kernel("linear/linear.c", "opsplice_linear")(
                    x, w, *given, ctypes.c_int32(activation), out, m, k, len(panels), n, panel, group
                )
        np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("m", "k", "n"), [*SIZES, (2, 300, 40), (1, 300, 40)])
@pytest.mark.parametrize("order", ["kn", "nk"])
def test_weights_that_are_not_packed(kernel, guarded, m, k, n, order):
    """In either layout, through more than one part of k; and with all else in other strides, too."""
    random = np.random.default_rng(0)
    x, w, bias, rest = (random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (n,), (m, n)))
    wanted = np.maximum(x.astype(float) @ w + bias, 0) + rest
    x, bias, rest, out = guarded(x), guarded(bias), guarded(rest), guarded(np.full((m, n), np.nan, np.float32))
    strides = (n, 1) if order == "kn" else (1, k)
    weight = guarded(w if order == "kn" else np.ascontiguousarray(w.T))
    for panel, group in np.ndindex(-(-n // 32), -(-m // 252)):
        kernel("linear/linear.c", "opsplice_linear_unpacked")(
            *(x, weight, bias, None, rest, ctypes.c_int32(1), out, m, k, n, *strides, panel, group)
        )
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)
    turned, wide = guarded(np.ascontiguousarray(x.T)), np.full((m, n + 3), np.nan, np.float32)
    for panel, group in np.ndindex(-(-n // 32), -(-m // 252)):
        kernel("linear/linear.c", "opsplice_product")(
            *(turned, weight, wide, 1, m, k, n, 1, m, *strides, n + 3, 1, 0, panel, group)
        )
    np.testing.assert_allclose(wide[:, :n], x.astype(float) @ w, rtol=1e-4, atol=1e-4)
    assert np.isnan(wide[:, n:]).all()
