"""Scalar ops on constants: each result is rounded, or wrapped round, to its own element type, as a machine does it.

What is not certain is refused: types that are not known here, ops with a rounding mode, divisions by zero, and numbers
that are too large for a type without infinity.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from opsplice.matchers.terms import constants
from opsplice.matchers.terms.terms import Apply, Constant
from opsplice.spec_lang.syntax.vocabulary import CMPF_PREDICATES, CMPI_PREDICATES

_COMPARED = {
    "eq": operator.eq, "ne": operator.ne, "gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le,
}  # fmt: skip


def fold(term: Apply, args: Sequence[Constant]) -> Constant | None:
    """The number that an op makes of numbers, None where that is not certain."""
    values = [constants.held(arg.value, arg.type) for arg in args]
    if None in values:
        return None
    try:
        found = _computed(term, [arg.type for arg in args], values)
    except (ArithmeticError, ValueError):
        return None
    value = None if found is None else constants.held(found, term.type)
    if value is None or (math.isnan(value) and not constants.has_infinity(term.type)):
        return None
    return Constant(abs(value) if term.type == "i1" else value, term.type)  # a bool that is true is 1


def _computed(term: Apply, types: Sequence[str], args: Sequence[Any]) -> int | float | None:
    """What an op makes of the numbers of these types, before its type holds it."""
    known = dict(term.attributes)
    predicate = known.pop("predicate", None)
    if known:
        return None
    if term.op == "arith.cmpf" and predicate is not None:
        return int(_ordered(CMPF_PREDICATES[int(predicate)], *args))
    if term.op == "arith.cmpi" and predicate is not None:
        name = CMPI_PREDICATES[int(predicate)]
        if name.startswith("u"):
            args = [constants.unsigned(arg, kind) for arg, kind in zip(args, types, strict=True)]
        return int(_COMPARED[name[-2:]](*args))
    if term.op == "math.rsqrt":
        return 1 / constants.rounded(math.sqrt(args[0]), term.type)  # as MLIR does it, in two steps
    if term.op in _UNSIGNED:
        return constants.unsigned(args[0], types[0])
    compute = _OPS.get(term.op)
    return None if compute is None else compute(*args)


def _ordered(predicate: str, left: float, right: float) -> bool:
    if predicate in ("true", "false"):
        return predicate == "true"
    unordered = math.isnan(left) or math.isnan(right)
    if predicate in ("ord", "uno"):
        return unordered == (predicate == "uno")
    if unordered:
        return predicate.startswith("u")
    return bool(_COMPARED[predicate[1:]](left, right))


def _signed_order(value: float) -> tuple[float, float]:
    return value, math.copysign(1, value)


def _extremum(choose: Callable[..., float]) -> Callable[[float, float], float]:
    """The largest or the smallest of two numbers: NaN where one is, and zero is more than minus zero."""

    def compute(left: float, right: float) -> float:
        return math.nan if math.isnan(left) or math.isnan(right) else choose(left, right, key=_signed_order)

    return compute


def _same(value: float) -> float:
    return value


_UNSIGNED = frozenset({"arith.uitofp", "arith.index_castui", "arith.extui"})
_OPS: dict[str, Callable[..., int | float]] = {
    "arith.addf": operator.add,
    "arith.subf": operator.sub,
    "arith.mulf": operator.mul,
    "arith.divf": operator.truediv,
    "arith.negf": operator.neg,
    "arith.maximumf": _extremum(max),
    "arith.minimumf": _extremum(min),
    "arith.andi": operator.and_,
    "arith.ori": operator.or_,
    "arith.xori": operator.xor,
    "math.sqrt": math.sqrt,
    **dict.fromkeys((f"arith.{n}" for n in ("extf", "truncf", "sitofp", "index_cast", "extsi", "trunci")), _same),
}
# What may be folded.
FOLDED = frozenset({*_OPS, *_UNSIGNED, "math.rsqrt", "arith.cmpf", "arith.cmpi"})
