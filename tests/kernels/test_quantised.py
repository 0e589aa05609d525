"""Products of bytes against numpy: exact sums, so that only the scaling rounds."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest


def packed(w: np.ndarray) -> np.ndarray:
    k, n = w.shape
    panels = -(-n // 32)
    wide = np.zeros((k, panels * 32), np.int8)
    wide[:, :n] = w
    return wide.reshape(k // 4, 4, panels, 32).transpose(2, 0, 3, 1).copy()


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 4, 1), (1, 64, 33), (3, 32, 17), (15, 12, 70), (300, 48, 32)])
def test_byte_linear(kernel, guarded, m, k, n, signed):
    random = np.random.default_rng(0)
    x = random.integers(-128, 128, (m, k)).astype(np.int8) if signed else random.integers(0, 256, (m, k), np.uint8)
    w, zero = random.integers(-128, 128, (k, n)).astype(np.int8), (-7 if signed else 201)
    rows, columns, bias = (guarded(random.random(size).astype(np.float32)) for size in (m, n, n))
    panels, sums = packed(w), guarded(w.sum(0, dtype=np.int32))
    x, out = guarded(x), guarded(np.zeros((m, n), np.float32))
    exact = (x.astype(int) - zero) @ w.astype(int)
    for given, wanted in (
        ((None, None, None), exact * 0.5),
        ((rows, columns, bias), exact * 0.5 * rows[:, None] * columns + bias),
    ):
        out[...] = np.nan
        for place in np.ndindex(len(panels), -(-m // 252)):
            kernel("quantised/linear.c", "opsplice_byte_linear")(
                *(x, panels, sums, *given, ctypes.c_int8(np.int8(np.uint8(zero & 255).view(np.int8))), 0.5),
                *(ctypes.c_int32(signed), out, m, k, len(panels), k // 4, n, *place),
            )
        np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-4 * np.abs(wanted).max() * 1e-2)
