"""What is taken of a result, and what is not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opsplice.measuring.verifying.tolerance import judge, limit_of

LIMIT = limit_of(np.dtype(np.float32), 1)


def judged(result: list[float], reference: list[float], exact: list[float] | None = None, sums: int = 1) -> str:
    both = np.array(result, np.float32), np.array(reference, np.float32)
    return judge(*both, None if exact is None else np.array(exact), LIMIT, sums).reason


@pytest.mark.parametrize(
    ("result", "reference", "exact", "words"),
    [
        ([1.0, 2.0], [1.0, 2.0], [1.0, 2.0], ""),
        ([1.0, 2.0001], [1.0, 2.0], [1.0, 2.0], "2.0001 at [1], wanted 2"),
        ([math.nan, 2.0], [1.0, 2.0], [1.0, 2.0], "nan at [0], wanted 1"),
        ([0.0, 2.0], [math.nan, 2.0], [math.nan, 2.0], "0 at [0], wanted nan"),
        ([math.inf], [-math.inf], [-math.inf], "inf at [0], wanted -inf"),
        ([5.0, 2.0], [math.nan, 2.0], [1.0, 2.0], ""),  # IREE and f64 differ: nothing is judged
        ([math.inf], [math.inf], [1e39], ""),  # more than f32 holds
        ([1.00002], [1.00002], [1.0], ""),  # no worse than IREE's own code
        ([1.0, 2.0001], [1.0, 2.0], None, "2.0001 at [1], wanted 2"),
    ],
)
def test_floats(result: list[float], reference: list[float], exact: list[float] | None, words: str) -> None:
    assert judged(result, reference, exact) == words


def test_denormals_may_be_flushed_to_zero_each_number_of_a_sum() -> None:
    assert judged([0.0], [5e-38], [5e-38], sums=8) == ""
    assert judged([0.0], [5e-38], [5e-38], sums=1) != ""


def test_integers_are_equal() -> None:
    same, other = np.array([1, 2], np.int32), np.array([1, 3], np.int32)
    assert judge(same, same, None, 0.0).reason == ""
    assert judge(other, same, None, 0.0).reason == "3 at [1], wanted 2"


def test_long_sums_may_be_off_by_more() -> None:
    assert limit_of(np.dtype(np.float32), 10_000) > 10 * LIMIT
    assert limit_of(np.dtype(np.float16), 1) > 1000 * LIMIT
    assert limit_of(np.dtype(np.int8), 10_000) == 0
    assert limit_of(np.dtype(np.float32), 1, 0.5) == 0.5
