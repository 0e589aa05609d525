"""Arithmetic and conditions on dims, judged with the sizes of a match.

Three-valued: None means that it cannot be told before run time.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from opsplice.spec_lang import tree

Sizes = Mapping[str, int | tuple[int | None, ...] | None]

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
_COMPARISONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(expr: tree.DimExpr, sizes: Sizes) -> int | float | None:
    """The value of dim arithmetic, or None if it needs a dynamic dim. A pack counts as the product of its dims."""
    if isinstance(expr, tree.Literal):
        return expr.value
    if isinstance(expr, tree.DimRef):
        return _size(sizes.get(expr.name))
    left, right = evaluate(expr.left, sizes), evaluate(expr.right, sizes)
    if left is None or right is None:
        return None
    if right == 0 and expr.op in ("/", "%", "ceildiv", "floordiv"):
        return None
    return _ARITHMETIC[expr.op](left, right)


def holds(condition: tree.Condition, sizes: Sizes) -> bool | None:
    """Whether a condition holds, or None if that depends on a dynamic dim."""
    if isinstance(condition, tree.Comparison):
        left, right = evaluate(condition.left, sizes), evaluate(condition.right, sizes)
        return None if left is None or right is None else _COMPARISONS[condition.op](left, right)
    verdicts = [holds(c, sizes) for c in condition.operands]
    if condition.op == "not":
        return None if verdicts[0] is None else not verdicts[0]
    decisive = condition.op == "or"
    if decisive in verdicts:
        return decisive
    return None if None in verdicts else not decisive


def first_failure(condition: tree.Condition, sizes: Sizes) -> tree.Condition:
    """The smallest part of a condition that keeps it from holding."""
    if isinstance(condition, tree.Logical) and condition.op == "and":
        for part in condition.operands:
            if holds(part, sizes) is not True:
                return first_failure(part, sizes)
    return condition


def names_in(node: tree.DimExpr | tree.Condition) -> set[str]:
    """The dims that a condition or dim arithmetic speaks of."""
    if isinstance(node, tree.DimRef):
        return {node.name}
    if isinstance(node, tree.Literal):
        return set()
    if isinstance(node, tree.Logical):
        return set().union(*map(names_in, node.operands))
    return names_in(node.left) | names_in(node.right)


def text(node: tree.DimExpr | tree.Condition) -> str:
    """How a condition or dim arithmetic is written."""
    if isinstance(node, tree.Literal):
        return str(node.value)
    if isinstance(node, tree.DimRef):
        return node.name
    if isinstance(node, tree.Logical):
        if node.op == "not":
            return f"not {text(node.operands[0])}"
        return f" {node.op} ".join(map(text, node.operands))
    if isinstance(node, tree.Arithmetic) and node.op.isalpha():
        return f"{node.op}({text(node.left)}, {text(node.right)})"
    return f"{text(node.left)} {node.op} {text(node.right)}"


def _size(size: int | tuple[int | None, ...] | None) -> int | None:
    if not isinstance(size, tuple):
        return size
    return None if None in size else math.prod(s for s in size if s is not None)
