"""Ops on elements: one row for each. Floats are computed in f64 and then rounded once to the type of the result.

For the four operations and the square root that is IEEE's result in f32 and narrower types. An fma in f32 may be
off by one bit where f64 rounds it to a tie.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[..., Any]


def _maximum(x: Any, y: Any) -> Any:
    return np.where((x == 0) & (y == 0), x + y, np.maximum(x, y))  # +0 is above -0


def _minimum(x: Any, y: Any) -> Any:
    return -_maximum(-x, -y)


def _unless_nan(choose: Function) -> Function:
    return lambda x, y: np.where(np.isnan(x), y, np.where(np.isnan(y), x, choose(x, y)))


def _each(function: Callable[[float], float]) -> Function:
    return np.vectorize(function, otypes=[np.float64])


def _away_from_zero(x: Any) -> Any:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole)


def _power_of(x: Any, y: Any) -> Any:
    """numpy takes a square root for an exponent of 0.5, which differs for -0 and -inf."""
    return np.where((y == 0.5) & ((x == 0) | np.isinf(x)), np.abs(x), np.power(x, y))


# In f64.
FLOATS: dict[str, Function] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.remf": np.fmod,
    "arith.negf": np.negative,
    "arith.maximumf": _maximum,
    "arith.minimumf": _minimum,
    "arith.maximumnumf": _unless_nan(_maximum),
    "arith.minimumnumf": _unless_nan(_minimum),
    "arith.maxnumf": _unless_nan(_maximum),
    "arith.minnumf": _unless_nan(_minimum),
    "math.absf": np.abs,
    "math.acos": np.arccos,
    "math.acosh": np.arccosh,
    "math.asin": np.arcsin,
    "math.asinh": np.arcsinh,
    "math.atan": np.arctan,
    "math.atan2": np.arctan2,
    "math.atanh": np.arctanh,
    "math.cbrt": np.cbrt,
    "math.ceil": np.ceil,
    "math.clampf": lambda x, low, high: _minimum(_maximum(x, low), high),
    "math.copysign": np.copysign,
    "math.cos": np.cos,
    "math.cosh": np.cosh,
    "math.erf": _each(math.erf),
    "math.erfc": _each(math.erfc),
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.expm1": np.expm1,
    "math.floor": np.floor,
    "math.fma": lambda x, y, z: x * y + z,
    "math.fpowi": _power_of,
    "math.log": np.log,
    "math.log10": np.log10,
    "math.log1p": np.log1p,
    "math.log2": np.log2,
    "math.powf": _power_of,
    "math.round": _away_from_zero,
    "math.roundeven": np.rint,
    "math.rsqrt": lambda x: 1 / np.sqrt(x),
    "math.sin": np.sin,
    "math.sinh": np.sinh,
    "math.sqrt": np.sqrt,
    "math.tan": np.tan,
    "math.tanh": np.tanh,
    "math.trunc": np.trunc,
}
TESTS: dict[str, Function] = {
    "math.isfinite": np.isfinite,
    "math.isinf": np.isinf,
    "math.isnan": np.isnan,
}


def unsigned(x: np.ndarray) -> np.ndarray:
    """The same bits without a sign."""
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def _on_unsigned(function: Function) -> Function:
    return lambda *args: function(*map(unsigned, args))


def _divided(rounding: Function) -> Function:
    """A division of integers: `rounding(floor quotient, remainder, x, y)`; 0 where it is by zero."""

    def run(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        by = np.where(y == 0, 1, y).astype(y.dtype)
        quotient = np.floor_divide(x, by)
        return np.where(y == 0, 0, rounding(quotient, x - quotient * by, x, by))

    return run


_TRUNCATED = _divided(lambda q, r, x, y: q + ((r != 0) & ((x < 0) != (y < 0))))
_FLOORED = _divided(lambda q, r, x, y: q)
_CEILED = _divided(lambda q, r, x, y: q + (r != 0))


def _remainder(divided: Function) -> Function:
    return lambda x, y: np.where(y == 0, 0, x - divided(x, y) * y)


def _shifted(function: Function) -> Function:
    """A shift by less than the width; 0 where it is by more."""

    def run(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        width = 8 * x.dtype.itemsize
        by = np.where(unsigned(y) < width, y, 0).astype(x.dtype)
        return np.where(unsigned(y) < width, function(x, by), 0)

    return run


def _bits(count: Callable[[str], int]) -> Function:
    def run(x: np.ndarray) -> np.ndarray:
        width = 8 * x.dtype.itemsize
        counted = np.vectorize(lambda number: count(f"{int(number):0{width}b}"), otypes=[x.dtype])
        return np.asarray(counted(unsigned(x)))

    return run


# On integers, i1 as 0 and -1 of 8 bits; the result is wrapped to its type.
INTEGERS: dict[str, Function] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.divsi": _TRUNCATED,
    "arith.divui": _on_unsigned(_FLOORED),
    "arith.ceildivsi": _CEILED,
    "arith.ceildivui": _on_unsigned(_CEILED),
    "arith.floordivsi": _FLOORED,
    "arith.remsi": _remainder(_TRUNCATED),
    "arith.remui": _on_unsigned(_remainder(_FLOORED)),
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": _shifted(np.left_shift),
    "arith.shrsi": _shifted(np.right_shift),
    "arith.shrui": _on_unsigned(_shifted(np.right_shift)),
    "arith.maxsi": np.maximum,
    "arith.maxui": _on_unsigned(np.maximum),
    "arith.minsi": np.minimum,
    "arith.minui": _on_unsigned(np.minimum),
    "math.absi": np.abs,
    "math.ctlz": _bits(lambda bits: len(bits) - len(bits.lstrip("0"))),
    "math.cttz": _bits(lambda bits: len(bits) - len(bits.rstrip("0"))),
    "math.ctpop": _bits(lambda bits: bits.count("1")),
    "math.ipowi": lambda x, y: np.vectorize(_power, otypes=[np.uint64])(x, y),
}


def _power(x: int, y: int) -> int:
    if y < 0:
        return {1: 1, -1: 1 if y % 2 == 0 else 2**64 - 1}.get(int(x), 0)
    return pow(int(x), int(y), 2**64)


def _ordered(compare: Function) -> Function:
    return lambda x, y: compare(x, y) & ~(np.isnan(x) | np.isnan(y))


def _unordered(compare: Function) -> Function:
    return lambda x, y: compare(x, y) | np.isnan(x) | np.isnan(y)


_SIX: tuple[Function, ...] = (np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal)
# By the number of the predicate.
FLOAT_PREDICATES: tuple[Function, ...] = (
    lambda x, y: np.zeros(np.broadcast(x, y).shape, np.bool_),
    *map(_ordered, _SIX),
    lambda x, y: ~(np.isnan(x) | np.isnan(y)),
    *map(_unordered, _SIX),
    lambda x, y: np.isnan(x) | np.isnan(y),
    lambda x, y: np.ones(np.broadcast(x, y).shape, np.bool_),
)
_FOUR: tuple[Function, ...] = (np.less, np.less_equal, np.greater, np.greater_equal)
INTEGER_PREDICATES: tuple[Function, ...] = (np.equal, np.not_equal, *_FOUR, *map(_on_unsigned, _FOUR))


def to_integer(x: np.ndarray, dtype: np.dtype, is_signed: bool) -> np.ndarray:
    """A float as an integer, toward zero; 0 where the type cannot hold it.

    Of shorter integers the low bits are taken, as CPUs do: IREE's importer writes zero points of bytes up to 255 so.
    """
    bits = 1 if dtype == np.bool_ else 8 * dtype.itemsize
    if bits in (8, 16):
        return to_integer(x, np.dtype(np.int32), True).astype(dtype)
    low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if is_signed else (0.0, 2.0**bits)
    whole = np.trunc(x)
    kept = np.where((whole >= low) & (whole < high), whole, 0.0)
    return kept.astype(np.int64 if is_signed else np.uint64).astype(dtype)
