"""The functions of vector.h, over all of their range, against float64."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

SOURCE = str(Path(__file__).with_name("vector_math.c"))
RANDOM = np.random.default_rng(0)


def values(kernel, name: str, x: np.ndarray) -> np.ndarray:
    out = np.full_like(x, np.nan)
    kernel(SOURCE, name)(x, out, x.size)
    return out


@pytest.mark.parametrize(("name", "most"), [("exponential", 88.3), ("exponential_below", 0.0)])
def test_exponentials_are_within_two_units_in_the_last_place(kernel, name, most):
    x = RANDOM.uniform(-87.3, most, 200_001).astype(np.float32)
    exact = np.exp(x.astype(float))
    unit = np.spacing(exact.astype(np.float32)).astype(float)
    assert (np.abs(values(kernel, f"opsplice_{name}", x) - exact) / unit).max() < 2


def test_exponentials_at_the_ends(kernel):
    x = np.array([-np.inf, -1e30, -0.0, 0.0, 88.3, 88.4, np.inf, np.nan], np.float32)
    got = values(kernel, "opsplice_exponential", x)
    np.testing.assert_allclose(got[2:5], [1, 1, np.exp(float(x[4]))], rtol=2e-7)
    assert (got[:2] < 1.3e-38).all()
    assert np.isinf(got[5:7]).all()
    assert np.isnan(got[7])


def test_erf(kernel):
    """Within what it promises; near zero, where it is small, as a part of it."""
    x = np.concatenate([RANDOM.uniform(-6, 6, 50_001), RANDOM.uniform(-0.1, 0.1, 50_000)]).astype(np.float32)
    exact = np.vectorize(math.erf)(x.astype(float))
    error = np.abs(values(kernel, "opsplice_error_function", x) - exact)
    assert error.max() < 4e-7
    assert (error <= 4e-7 * np.abs(exact))[np.abs(x) < 0.1].all()
