"""All steps of recurrent layers against numpy in float64."""

from __future__ import annotations

import numpy as np
import pytest


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(("d", "t", "m", "k", "n"), [(1, 5, 7, 3, 16), (2, 3, 1, 9, 48), (2, 4, 11, 40, 32)])
def test_lstm(kernel, guarded, d, t, m, k, n):
    """One direction and two, of one row, and of more than a workgroup does; and gates that are far from 0."""
    random, g = np.random.default_rng(0), 4 * n
    shapes = {"x": (t, m, k), "w": (d, g, k), "r": (d, g, n), "b": (d, 2 * g), "h": (d, m, n), "c": (d, m, n)}
    x, w, r, b, h, c = (guarded(random.standard_normal(shape).astype(np.float32) / 2) for shape in shapes.values())
    b[:, ::7] *= 300
    given, y, last_h, last_c = (
        guarded(np.full(shape, np.nan, np.float32)) for shape in ((d, t, m, g), (t, d, m, n), (d, m, n), (d, m, n))
    )
    panels = guarded(w.reshape(d, g // 32, 32, k).swapaxes(2, 3))
    for at in np.ndindex(g // 32, 1, d):
        kernel("recurrent/lstm.c", "opsplice_lstm_input")(x, panels, given, t, m, k, d, g // 32, *at)
    wanted = np.einsum("tmk,dgk->dtmg", *(value.astype(float) for value in (x, w)))
    np.testing.assert_allclose(given, wanted, rtol=1e-5, atol=1e-5)

    panels = guarded(r.reshape(d, g // 16, 16, n).swapaxes(2, 3))
    for at in np.ndindex(-(-m // 5), d):
        kernel("recurrent/lstm.c", "opsplice_lstm")(
            given, panels, b, h, c, y, last_h, last_c, d, t, m, g, g // 16, n, 2 * g, *at
        )
    for way in range(d):
        state, cell = h[way].astype(float), c[way].astype(float)
        for number in range(t)[:: -1 if way else 1]:
            gates = wanted[way, number] + state @ r[way].T + b[way, :g] + b[way, g:]
            i, o, f, new = np.split(gates, 4, axis=1)
            cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(new)
            state = sigmoid(o) * np.tanh(cell)
            np.testing.assert_allclose(y[number, way], state, rtol=1e-5, atol=2e-6)
        np.testing.assert_allclose(last_h[way], state, rtol=1e-5, atol=2e-6)
        np.testing.assert_allclose(last_c[way], cell, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(("d", "t", "m", "k", "n"), [(1, 5, 7, 3, 16), (2, 3, 1, 9, 48), (2, 4, 10, 40, 32)])
def test_gru(kernel, guarded, d, t, m, k, n):
    """One direction and two, of one row, and of more than a workgroup does; columns that no whole panel is of."""
    random, g, wide = np.random.default_rng(0), 3 * n, -(-3 * n // 32) * 32
    shapes = {"given": (d, t, m, wide), "r": (d, g, n), "b": (d, 2 * g), "h": (d, m, n)}
    given, r, b, h = (guarded(random.standard_normal(shape).astype(np.float32) / 2) for shape in shapes.values())
    y, last_h = (guarded(np.full(shape, np.nan, np.float32)) for shape in ((t, d, m, n), (d, m, n)))
    panels = guarded(r.reshape(d, g // 16, 16, n).swapaxes(2, 3))
    for at in np.ndindex(-(-m // 4), d):
        kernel("recurrent/gru.c", "opsplice_gru")(given, panels, b, h, y, last_h, d, t, m, wide, g // 16, n, 2 * g, *at)
    for way in range(d):
        state = h[way].astype(float)
        for number in range(t)[:: -1 if way else 1]:
            of_input = np.split(given[way, number, :, :g] + b[way, :g], 3, axis=1)
            of_state = np.split(state @ r[way].T + b[way, g:], 3, axis=1)
            update, reset = (sigmoid(of_input[gate] + of_state[gate]) for gate in range(2))
            state = update * state + (1 - update) * np.tanh(of_input[2] + reset * of_state[2])
            np.testing.assert_allclose(y[number, way], state, rtol=1e-5, atol=2e-6)
        np.testing.assert_allclose(last_h[way], state, rtol=1e-5, atol=2e-6)
