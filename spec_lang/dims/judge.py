"""Arithmetic and conditions on dims, judged with the sizes of a match.

Three-valued: None means that it cannot be told before run time.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from opsplice.spec_lang.dims.dim_conditions import COMPARISONS, DIVISIONS, MIRRORED, names_in, numbers_in
from opsplice.spec_lang.syntax import tree


@dataclass(frozen=True)
class Bounds:
    """A number that is only known to be a multiple of `divisor` from `low` to `high` (None: to any)."""

    low: int
    high: int | None
    divisor: int

    def __str__(self) -> str:
        reach = f"at least {self.low}" if self.high is None else f"{self.low} to {self.high}"
        return f"dynamic ({reach}{f', a multiple of {self.divisor}' if self.divisor > 1 else ''})"


Known = int | Bounds | None
# Sizes of dims and packs, integers bound to attributes, and properties as they are written: `rank(m)`, `bits(T)`.
Sizes = Mapping[str, Known | tuple[Known, ...]]
# What decides a condition that is not about numbers, or says None where it cannot be told.
Judge = Callable[[Any], bool | None]

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
    "ceildiv": lambda a, b: -(-a // b),
    "floordiv": operator.floordiv,
    "min": min,
    "max": max,
}


def evaluate(expr: tree.DimExpr, sizes: Sizes) -> int | float | None:
    """The value of dim arithmetic, or None if it needs a dynamic dim. A pack counts as the product of its dims."""
    value = _value(expr, sizes)
    return None if isinstance(value, Bounds) else value


def _value(expr: tree.DimExpr, sizes: Sizes) -> int | float | Bounds | None:
    if isinstance(expr, tree.Literal):
        return expr.value
    if isinstance(expr, tree.DimRef):
        return _size(sizes.get(expr.name))
    if isinstance(expr, tree.Property):
        return _size(sizes.get(str(expr)))
    found: int | float | Bounds | None = computed(expr.op, _value(expr.left, sizes), _value(expr.right, sizes))
    return found


def computed(op: str, left: int | float | Bounds | None, right: int | float | Bounds | None) -> Any:
    """Arithmetic on what is known of two numbers: a number, its bounds, or None where nothing is known."""
    if left is None or right is None:
        return None
    if isinstance(left, Bounds) or isinstance(right, Bounds):
        return _bounded(op, left, right)
    if right == 0 and op in DIVISIONS:
        return None
    try:
        result: int | float = _ARITHMETIC[op](left, right)
        overflows = math.isfinite(left) and math.isfinite(right) and not math.isfinite(result)
    except OverflowError:
        return None
    return None if overflows else result  # infinity is a number of its own


def both(left: Known, right: Known) -> Known:
    """What is known of one number of which two things are known."""
    if not (isinstance(left, Bounds) and isinstance(right, Bounds)):
        return next((each for each in (left, right) if isinstance(each, int)), right if left is None else left)
    highs = [high for high in (left.high, right.high) if high is not None]
    return between(max(left.low, right.low), min(highs, default=None), math.lcm(left.divisor, right.divisor))


def between(low: int, high: int | None, divisor: int = 1) -> Known:
    """Bounds, or the number that they leave."""
    return low if low == high else Bounds(low, high, divisor)


def shown(size: Known | tuple[Known, ...]) -> str:
    """A size, or a pack's, for messages."""
    if isinstance(size, tuple):
        return " x ".join(map(shown, size)) or "nothing"
    return "dynamic" if size is None else str(size)


def _unknown(_condition: Any) -> bool | None:
    return None


def holds(condition: Any, sizes: Sizes, judge: Judge = _unknown) -> bool | None:
    """Whether a condition holds, or None if that depends on a dynamic dim.

    judge: decides what is neither a comparison nor made of other conditions.
    """
    if isinstance(condition, tree.Comparison):
        left, right = _value(condition.left, sizes), _value(condition.right, sizes)
        if left is None or right is None:
            return None
        if isinstance(left, Bounds) or isinstance(right, Bounds):
            return _compared(condition.op, left, right)
        return COMPARISONS[condition.op](left, right)
    if isinstance(condition, tree.Dynamic):  # a part that the match lacks has sizes of no kind
        return evaluate(condition.size, sizes) is None if names_in(condition) <= sizes.keys() else None
    if not isinstance(condition, tree.Logical):
        return judge(condition)
    if condition.op in ("not", "may"):
        verdict = holds(condition.operands[0], sizes, judge)
        if condition.op == "not":
            return None if verdict is None else not verdict
        return True if verdict is None and _is_open(condition, sizes) else verdict
    decisive, is_told = condition.op == "or", True
    for operand in condition.operands:
        verdict = holds(operand, sizes, judge)
        if verdict == decisive:
            return decisive
        is_told = is_told and verdict is not None
    return not decisive if is_told else None


def _is_open(condition: tree.Condition, sizes: Sizes) -> bool:
    """Whether a condition speaks of a size that is known at run time only, and of none that the match lacks."""
    names = numbers_in(condition)
    return names <= sizes.keys() and not all(isinstance(_size(sizes[name]), int) for name in names)


def first_failure(condition: Any, sizes: Sizes, judge: Judge = _unknown) -> Any:
    """The smallest part of a condition that keeps it from holding."""
    if isinstance(condition, tree.Logical) and condition.op == "and":
        for part in condition.operands:
            if holds(part, sizes, judge) is not True:
                return first_failure(part, sizes, judge)
    return condition


# ---- numbers that are known by their bounds --------------------------------------------------------------------------


def _bounded(op: str, left: int | float | Bounds, right: int | float | Bounds) -> Known:
    """Arithmetic on bounds, where that keeps them."""
    if isinstance(left, float) or isinstance(right, float):
        return None
    if op == "-":
        less: Known = computed("*", right, -1)
        return None if less is None else _bounded("+", left, less)
    if not isinstance(left, Bounds):
        return _bounded(op, right, left) if op in ("+", "*") else None
    if op == "+":
        other = right if isinstance(right, Bounds) else Bounds(right, right, abs(right))
        return between(left.low + other.low, _of_highs(op, left, other), math.gcd(left.divisor, other.divisor))
    if isinstance(right, Bounds):
        if op != "*" or left.low < 0 or right.low < 0:
            return None
        return between(left.low * right.low, _of_highs(op, left, right), left.divisor * right.divisor)
    return _by_number(op, left, right)


def _of_highs(op: str, left: Bounds, right: Bounds) -> int | None:
    return None if left.high is None or right.high is None else _ARITHMETIC[op](left.high, right.high)


def _by_number(op: str, left: Bounds, right: int) -> Known:
    """Bounds times, or divided by, a number."""
    if op == "*" and right <= 0:  # what was the lowest is the highest
        turned = None if left.high is None else between(left.high * right, left.low * right, left.divisor * -right)
        return turned if right else 0
    if right <= 0 or op not in ("*", "%", "floordiv", "ceildiv"):
        return None
    is_multiple = left.divisor % right == 0
    if op == "%":
        return 0 if is_multiple else None
    divisor = left.divisor * right if op == "*" else left.divisor // right if is_multiple else 1
    high = None if left.high is None else _ARITHMETIC[op](left.high, right)
    return between(_ARITHMETIC[op](left.low, right), high, divisor)


def _compared(op: str, left: int | float | Bounds, right: int | float | Bounds) -> bool | None:
    """A comparison of bounds with a number, None where it may go either way."""
    if isinstance(right, Bounds):
        return None if isinstance(left, Bounds) else _compared(MIRRORED[op], right, left)
    if not isinstance(left, Bounds):
        return None
    low, high = left.low, math.inf if left.high is None else left.high
    if op in ("==", "!="):
        apart = not low <= right <= high or right % left.divisor != 0
        return (op == "!=") if apart else (op == "==") if low == high else None
    at_ends = {COMPARISONS[op](end, right) for end in (low, high)}
    return at_ends.pop() if len(at_ends) == 1 else None


def _size(size: Known | tuple[Known, ...]) -> Known:
    """One size, or the product of a pack's."""
    if not isinstance(size, tuple):
        return size
    return functools.reduce(lambda total, part: computed("*", total, part), size, 1)
