"""Arithmetic and conditions on dims, judged with the sizes of a match.

Three-valued: None means that it cannot be told before run time.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from opsplice.spec_lang.dims.decide import COMPARISONS
from opsplice.spec_lang.syntax import tree


@dataclass(frozen=True)
class Bounds:
    """A number that is only known to be a multiple of `divisor` from `low` to `high` (None: to any)."""

    low: int
    high: int | None
    divisor: int


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
    left, right = _value(expr.left, sizes), _value(expr.right, sizes)
    if left is None or right is None:
        return None
    if isinstance(left, Bounds) or isinstance(right, Bounds):
        return _bounded(expr.op, left, right)
    if right == 0 and expr.op in ("/", "%", "ceildiv", "floordiv"):
        return None
    try:
        result: int | float = _ARITHMETIC[expr.op](left, right)
        overflows = math.isfinite(left) and math.isfinite(right) and not math.isfinite(result)
    except OverflowError:
        return None
    return None if overflows else result  # infinity is a number of its own


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
    if not isinstance(condition, tree.Logical):
        return judge(condition)
    verdicts = [holds(c, sizes, judge) for c in condition.operands]
    if condition.op == "not":
        return None if verdicts[0] is None else not verdicts[0]
    decisive = condition.op == "or"
    if decisive in verdicts:
        return decisive
    return None if None in verdicts else not decisive


def asked(condition: Any, left_out: Callable[[Any], bool]) -> Any:
    """A condition without those of its parts that are left out, None if these are all. left_out: not for Logical."""
    if not isinstance(condition, tree.Logical):
        return None if left_out(condition) else condition
    operands = tuple(part for c in condition.operands if (part := asked(c, left_out)) is not None)
    return dataclasses.replace(condition, operands=operands) if operands else None


def first_failure(condition: Any, sizes: Sizes, judge: Judge = _unknown) -> Any:
    """The smallest part of a condition that keeps it from holding."""
    if isinstance(condition, tree.Logical) and condition.op == "and":
        for part in condition.operands:
            if holds(part, sizes, judge) is not True:
                return first_failure(part, sizes, judge)
    return condition


def names_in(node: Any) -> set[str]:
    """The dims, and properties as they are written, that a condition or dim arithmetic speaks of."""
    if isinstance(node, tree.DimRef):
        return {node.name}
    if isinstance(node, tree.Property):
        return {str(node)}
    if isinstance(node, tree.Logical):
        return set().union(*map(names_in, node.operands))
    if isinstance(node, (tree.Comparison, tree.Arithmetic)):
        return names_in(node.left) | names_in(node.right)
    return set()


def written(node: Any) -> str:
    """How the spec itself writes a condition or dim arithmetic, in the names of its own pattern."""
    span = node.span
    return " ".join(span.source.text[span.start : span.end].split())


# ---- numbers that are known by their bounds --------------------------------------------------------------------------

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def _bounded(op: str, left: int | float | Bounds, right: int | float | Bounds) -> int | Bounds | None:
    """Arithmetic on bounds: with a number, where that keeps them."""
    if isinstance(right, Bounds):
        return _bounded(op, right, left) if op in ("+", "*") and not isinstance(left, Bounds) else None
    if not isinstance(left, Bounds) or not isinstance(right, int):
        return None
    if op in ("+", "-"):
        shift = right if op == "+" else -right
        return Bounds(left.low + shift, _scaled(left.high, lambda h: h + shift), math.gcd(left.divisor, right))
    if right <= 0:
        return None
    if op == "*":
        return Bounds(left.low * right, _scaled(left.high, lambda h: h * right), left.divisor * right)
    if op == "%" and left.divisor % right == 0:
        return 0
    if op == "floordiv" or (op == "ceildiv" and left.divisor % right == 0):
        divisor = left.divisor // right if left.divisor % right == 0 else 1
        return Bounds(left.low // right, _scaled(left.high, lambda h: h // right), divisor)
    return None


def _scaled(high: int | None, scale: Callable[[int], int]) -> int | None:
    return None if high is None else scale(high)


def _compared(op: str, left: int | float | Bounds, right: int | float | Bounds) -> bool | None:
    """A comparison of bounds with a number, None where it may go either way."""
    if isinstance(right, Bounds):
        return None if isinstance(left, Bounds) else _compared(_TURNED[op], right, left)
    if not isinstance(left, Bounds):
        return None
    low, high = left.low, math.inf if left.high is None else left.high
    if op in ("==", "!="):
        apart = not low <= right <= high or right % left.divisor != 0
        return (op == "!=") if apart else (op == "==") if low == high else None
    always, never = {
        "<": (high < right, low >= right),
        "<=": (high <= right, low > right),
        ">": (low > right, high <= right),
        ">=": (low >= right, high < right),
    }[op]
    return True if always else False if never else None


def _size(size: Known | tuple[Known, ...]) -> Known:
    """One size, or the product of a pack's."""
    if not isinstance(size, tuple):
        return size
    total: Known = 1
    for part in size:
        if part is None or total is None:
            return None
        if isinstance(part, Bounds) or isinstance(total, Bounds):
            total = _bounded("*", total, part)
        else:
            total *= part
    return total
