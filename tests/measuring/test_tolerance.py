"""What is taken of a result, and what is not."""

from __future__ import annotations

import math
import tracemalloc

import ml_dtypes
import numpy as np
import pytest

from opsplice.measuring.verifying.tolerance import MOVES, difference, judge, limit_of, moved

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


def test_integers_are_those_of_the_oracle_where_ours_and_irees_differ() -> None:
    """As of indices of sorts, where IREE leaves NaN anywhere."""
    result, reference, exact = (np.array(each, np.int32) for each in ([1, 2], [2, 1], [1, 2]))
    assert not judge(result, reference, exact, 0.0).reason
    assert judge(result, reference, reference, 0.0).reason


def test_long_sums_may_be_off_by_more() -> None:
    assert limit_of(np.dtype(np.float32), 10_000) > 10 * LIMIT
    assert limit_of(np.dtype(np.float16), 1) > 900 * LIMIT
    assert limit_of(np.dtype(np.int8), 10_000) == 0
    assert limit_of(np.dtype(np.float32), 1, 0.5) == 0.5


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_a_number_of_a_sum_that_is_missing_shows_in_narrow_types_and_roundings_do_not(dtype: type) -> None:
    """Products of 64 and of 1024 numbers: rounded after each of three ops, and without the last number."""
    random = np.random.default_rng(0)
    for n in (64, 1024):
        x, w = random.normal(size=(8, n)).astype(dtype), random.normal(size=(n, 96)).astype(dtype)
        x[:, -1] = 3  # what is missing is no less than usual
        wide, other = x.astype(np.float64), w.astype(np.float64)
        exact, limit = np.maximum(wide @ other + 1, 0), limit_of(np.dtype(dtype), n)
        of_moved = [np.maximum(moved(x, seed) @ moved(w, seed + 9) + 1, 0) for seed in range(MOVES)]
        rounded = (np.float32(x) @ np.float32(w)).astype(dtype)
        rounded = np.maximum(rounded + dtype(1), dtype(0)).astype(dtype)
        short = np.maximum(wide[:, :-1] @ other[:-1] + 1, 0).astype(dtype)
        reference = exact.astype(dtype)
        assert judge(rounded, reference, exact, limit, n).reason == ""
        assert judge(short, reference, exact, limit, n, of_moved).reason


def test_what_depends_on_the_last_bits_of_its_inputs_may_be_off_by_more() -> None:
    """A softmax of large numbers in f32; not one that is off in a row where the inputs tell, nor one with a NaN."""

    def softmax(x: np.ndarray) -> np.ndarray:
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    x = np.array([[9e3, 9e3 + 0.25, 5e2], [1.0, 2.0, 3.0]], np.float32)
    exact, of_moved = softmax(x.astype(np.float64)), [softmax(moved(x, seed)) for seed in range(MOVES)]
    off = np.array([[2e-3, -2e-3, 0.0], [0.0, 0.0, 0.0]])
    for change, is_taken in ((off, True), (off[::-1], False), (100 * off, False), (np.nan * off, False)):
        result = (exact + change).astype(np.float32)
        assert judge(result, exact.astype(np.float32), exact, LIMIT).reason
        assert (judge(result, exact.astype(np.float32), exact, LIMIT, 1, of_moved).reason == "") == is_taken


def test_the_same_byte_with_a_sign_and_without_does_not_differ() -> None:
    assert difference(np.array([255, 3], np.uint8), np.array([-1, 3], np.int8)) == 0
    assert difference(np.array([254], np.uint8), np.array([-1], np.int8)) > 0


def test_large_results_are_compared_by_rows_in_little_memory() -> None:
    """All at a time would take a dozen arrays of f64, which no core's cache holds."""
    exact = np.random.default_rng(0).normal(size=(256, 4096))
    exact[0, 0] = 1e4  # the scale of all rows, though it is in the first
    reference = exact.astype(np.float32)
    wrong = reference.copy()
    wrong[-1, -2:] += 1e-2
    tracemalloc.start()
    of_all = judge(wrong, reference, exact, 1e-5)
    apart = difference(wrong, reference)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "[255, 4094]" in of_all.reason
    assert "1 more of 1048576" in of_all.reason
    assert of_all.off == pytest.approx(1e-2 / 10, rel=1e-3)
    assert apart == pytest.approx(1e-6, rel=1e-3)
    assert peak < 3 * exact.nbytes, peak
