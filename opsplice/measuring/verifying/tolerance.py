"""How far a result may be from the exact one, and whether it is further.

    |result - exact|  <=  limit * the largest exact number of the row

Types narrower than f32 are only what numbers are kept in, and sums of them are in f32: their limit is that of f32, and
4 times their own eps for rounding results and what is between ops; what moved inputs say counts twice, not 16 times.

The limit is eps * (32 + 4 * sqrt(n)), where eps is the spacing of the element type at 1 and n how many numbers the
longest sum adds. Twice what IREE's own code is off is never too much, up to 64 limits; nor is 16 times what the exact
row moves by when each input moves by eps, as the softmax of large numbers does. Integers are to be IREE's or
the exact ones. NaN and infinities are to be where both the f64 oracle and IREE's own code have them; where these differ
nothing is judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_STEPS, _STEPS_OF_SUMS = 32, 4
_OF_REFERENCE, _MOST_LIMITS, _OF_MOVED = 2, 64, 16
# Of types in which numbers are only kept: how many roundings a result may see, and how often an input may move.
_ROUNDINGS, _OF_MOVED_KEPT = 4, 2
# How often inputs are moved.
MOVES = 4
# How many elements are compared at a time: what is made of them stays in the core's cache.
_BLOCK = 1 << 14
# A row of almost nothing is compared with this part of the largest number anywhere.
_OF_ALL = 1e-3


@dataclass(frozen=True)
class Judgement:
    """off, reference_off: how far a result and IREE's own are from the exact one, as a part of the largest of the row.

    reason: what is wrong with the result, "" if nothing is.
    """

    off: float
    reference_off: float | None
    limit: float
    reason: str = ""


def limit_of(dtype: np.dtype, longest_sum: int, given: float | None = None) -> float:
    """The most that results of a type may be off. given: what the user says instead."""
    if not is_float(dtype):
        return 0.0
    if given is not None:
        return given
    computed = np.dtype(np.float32) if is_narrow(dtype) else dtype
    limit = float(_limits(computed).eps) * (_STEPS + _STEPS_OF_SUMS * math.sqrt(longest_sum))
    return limit + rounding(dtype)


def rounding(dtype: np.dtype) -> float:
    """What rounding may put off results that are only kept in a type, 0 for types in which numbers are computed."""
    return _ROUNDINGS * float(_limits(dtype).eps) if is_narrow(dtype) else 0.0


def is_float(dtype: np.dtype) -> bool:
    return dtype.kind not in "biu"


def is_narrow(dtype: np.dtype) -> bool:
    """Whether numbers of a type are floats that are computed in f32."""
    return is_float(dtype) and dtype.itemsize < np.dtype(np.float32).itemsize


def moved(array: np.ndarray, seed: int) -> np.ndarray:
    """Floats that are off by the spacing of their type, up or down by chance, in f64."""
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), array.shape)
    return array.astype(np.float64) * (1 + float(_limits(array.dtype).eps) * signs)


def _limits(dtype: np.dtype) -> Any:
    """What numpy calls `finfo`; bf16 and other floats of kind V are those of ml_dtypes."""
    if dtype.kind == "f":
        return np.finfo(dtype)
    import ml_dtypes

    finfo: Any = ml_dtypes.finfo
    return finfo(dtype)


def judge(
    result: np.ndarray,
    reference: np.ndarray,
    exact: np.ndarray | None,
    limit: float,
    longest_sum: int = 1,
    of_moved: Sequence[np.ndarray] = (),
) -> Judgement:
    """Compare a result with the exact one (None: with the reference, which is IREE's own code).

    of_moved: what is exact for inputs that are `moved`, each time. Each number of a sum may be flushed to zero if it is
    denormal.
    """
    if result.shape != reference.shape:
        return Judgement(math.inf, None, limit, f"its shape is {result.shape}, wanted {reference.shape}")
    if not is_float(result.dtype):
        wrong = result != reference
        if exact is not None:
            wrong &= result != exact.astype(result.dtype)
        return Judgement(float(wrong.any()), None, limit, _first(wrong, result, reference))
    least = _least(result.dtype, longest_sum)
    rows = (math.prod(result.shape[:-1]), result.shape[-1] if result.ndim else 1)
    right = reference if exact is None else exact
    got, own, wanted, *others = (array.reshape(rows) for array in (result, reference, right, *of_moved))
    step = max(1, _BLOCK // max(1, rows[1]))
    blocks = [slice(at, at + step) for at in range(0, rows[0], step)]
    errors, misplaced, moves = np.zeros(rows), np.zeros(rows, np.bool_), np.zeros((rows[0], 1))
    reference_off = 0.0
    with np.errstate(all="ignore"):
        largest = max((_most(_sizes(*_known(wanted[block], own[block]))) for block in blocks), default=0.0)
        for block in blocks:
            known, judged = _known(wanted[block], own[block])
            scale = np.maximum(_sizes(known, judged).max(axis=-1, keepdims=True, initial=0.0), largest * _OF_ALL)
            found, other = got[block].astype(np.float64), own[block].astype(np.float64)
            misplaced[block] = judged & ~_alike(found, known)
            errors[block] = _errors(found, known, judged & ~misplaced[block], scale, least)
            reference_off = max(reference_off, _most(_errors(other, known, judged, scale, least)))
            for each in (array[block] for array in others):
                off = _errors(each, known, judged & np.isfinite(each), scale, least)
                moves[block] = np.maximum(moves[block], off.max(axis=-1, keepdims=True, initial=0.0))
    allowed = limit if exact is None else max(limit, min(_OF_REFERENCE * reference_off, _MOST_LIMITS * limit))
    limits = np.maximum(allowed, (_OF_MOVED_KEPT if is_narrow(result.dtype) else _OF_MOVED) * moves)
    wrong = (errors > limits).reshape(result.shape)
    reason = _first(misplaced.reshape(result.shape), result, right) or _first(wrong, result, right)
    return Judgement(_most(errors), None if exact is None else reference_off, max(allowed, _most(limits)), reason)


def difference(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference as a part of the largest number, or of 1; infinite where one has NaN or infinity."""
    if one.dtype.kind == "u" and other.dtype.kind == "i":  # MLIR's integers have no signs
        other = other.astype(one.dtype)
    off, largest = 0.0, 1.0
    one, other = one.reshape(-1), other.reshape(-1)
    for block in (slice(at, at + _BLOCK) for at in range(0, one.size, _BLOCK)):
        a, b = one[block].astype(np.float64), other[block].astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        largest = max(largest, float(np.abs(b[np.isfinite(b)]).max(initial=0.0)))
        apart = np.abs(np.where(same, 0.0, a) - np.where(same, 0.0, b))
        off = max(off, _most(np.nan_to_num(apart, nan=np.inf, posinf=np.inf)))
    return off / largest


def _least(dtype: np.dtype, longest_sum: int) -> float:
    """What flushing denormals to zero may put off: the result, and each number of a sum."""
    added = np.dtype(np.float32) if is_narrow(dtype) else dtype
    return float(_limits(dtype).tiny) + float(_limits(added).tiny) * longest_sum


def _alike(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Where both are finite, or the same otherwise."""
    both = np.isfinite(one) & np.isfinite(other)
    return np.asarray(both | (one == other) | (np.isnan(one) & np.isnan(other)))


def _known(wanted: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What results are to be, in f64, infinite where IREE's type cannot hold it; where IREE's own code has the like."""
    rounded = wanted.astype(other.dtype).astype(np.float64)
    known = np.where(np.isfinite(rounded), wanted.astype(np.float64), rounded)
    return known, _alike(known, other.astype(np.float64))


def _sizes(known: np.ndarray, judged: np.ndarray) -> np.ndarray:
    return np.where(judged & np.isfinite(known), np.abs(known), 0.0)


def _errors(found: np.ndarray, wanted: np.ndarray, judged: np.ndarray, scale: np.ndarray, least: float) -> np.ndarray:
    valid = judged & np.isfinite(wanted)
    distance = np.where(valid, np.abs(np.where(valid, found, 0.0) - np.where(valid, wanted, 0.0)), 0.0)
    return np.asarray(np.where(distance <= least, 0.0, distance / np.maximum(scale, least)))


def _most(errors: np.ndarray) -> float:
    return float(errors.max(initial=0.0))


def _first(wrong: np.ndarray, result: np.ndarray, wanted: np.ndarray) -> str:
    """The first wrong element in words, "" if there is none."""
    if not wrong.any():
        return ""
    place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    at = f" at [{', '.join(map(str, place))}]" if place else ""
    count = int(np.count_nonzero(wrong))
    more = f", and {count - 1} more of {wrong.size} are wrong" if count > 1 else ""
    with np.errstate(all="ignore"):
        right = wanted[place].astype(result.dtype)
    return f"{result[place]:.6g}{at}, wanted {right:.6g}{more}"
