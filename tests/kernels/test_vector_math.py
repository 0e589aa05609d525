"""The functions of vector_math.h against mpmath over all numbers of f32, and for special values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import mpmath
import numpy as np
import pytest

SOURCE = str(Path(__file__).with_name("vector_math.c"))
RANDOM = np.random.default_rng(0)
INF, NAN = np.inf, np.nan
# Name: the function, the interval that it is for, what it makes of some numbers.
FUNCTIONS: dict[str, tuple[Callable[[mpmath.mpf], mpmath.mpf], tuple[float, float], list[tuple[float, float]]]] = {
    "exponential": (mpmath.exp, (-INF, INF), [(-INF, 0), (INF, INF), (0.0, 1), (-0.0, 1), (88.75, INF), (-104, 0)]),
    "exponential_below": (mpmath.exp, (-87.3, 0), [(-0.0, 1), (-88.4, 0), (-1e30, 0), (-INF, 0)]),
    "hyperbolic_tangent": (mpmath.tanh, (-INF, INF), [(-INF, -1), (INF, 1), (0.0, 0.0), (-0.0, -0.0), (1e-40, 1e-40)]),
    "logarithm": (mpmath.log, (0, INF), [(0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN), (1.0, 0.0)]),
    "logarithm_above_one": (mpmath.log1p, (0, 1), [(0.0, 0.0)]),
    "error_function": (mpmath.erf, (-INF, INF), [(-INF, -1), (INF, 1), (0.0, 0.0), (-0.0, -0.0)]),
    "sine": (mpmath.sin, (-INF, INF), [(-INF, NAN), (INF, NAN), (0.0, 0.0), (-0.0, -0.0)]),
    "cosine": (mpmath.cos, (-INF, INF), [(-INF, NAN), (INF, NAN), (0.0, 1)]),
}


def values(kernel, name: str, x: np.ndarray) -> np.ndarray:
    out = np.full_like(x, np.nan)
    kernel(SOURCE, f"opsplice_{name}")(x, out, x.size)
    return out


@functools.cache
def samples(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of all sizes, some around 1, and multiples of pi / 4, with the function's values in f64."""
    function, (low, high), _ = FUNCTIONS[name]
    every = RANDOM.integers(0, 2**32, 1500, np.uint32).view(np.float32)
    common = RANDOM.standard_normal(700).astype(np.float32) * np.float32([[1], [30]])
    hard = (RANDOM.integers(-40_000, 40_000, 500) * (np.pi / 4)).astype(np.float32)
    x = np.concatenate([every, common.ravel(), hard])
    x = x[np.isfinite(x) & (x >= low) & (x <= high)]
    with mpmath.workprec(300 if "sine" in name else 64):  # sines of 1e38 need the bits before the point, too
        return x, np.array([float(function(mpmath.mpf(float(each)))) for each in x])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_two_units_in_the_last_place(kernel, name):
    x, wanted = samples(name)
    with np.errstate(over="ignore"):
        rounded = wanted.astype(np.float32)
    got, finite = values(kernel, name, x), np.isfinite(rounded)
    assert finite.sum() > 300
    unit = np.spacing(np.abs(rounded[finite])).astype(float)
    assert (np.abs(got[finite] - wanted[finite]) / unit).max() < 2
    np.testing.assert_array_equal(got[~finite], rounded[~finite])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(kernel, name):
    x, wanted = np.array([*FUNCTIONS[name][2], (NAN, NAN)], np.float32).T
    got = values(kernel, name, np.ascontiguousarray(x))
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.signbit(got[wanted == 0]), np.signbit(wanted[wanted == 0]))


def test_rough_erf(kernel):
    """Within what it promises; near zero, where it is small, as a part of it."""
    x, wanted = samples("error_function")
    error = np.abs(values(kernel, "error_function_roughly", x) - wanted)
    assert (error < 4e-7 * np.where(np.abs(x) < 0.1, np.maximum(np.abs(wanted), 1e-37), 1)).all()
