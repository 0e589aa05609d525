"""Arithmetic and conditions on dims, judged with the sizes of a match.

Three-valued: None means that it cannot be told before run time.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from opsplice.spec_lang import tree

# Sizes of dims and packs, integers bound to attributes, and properties under their own text: `rank(m)`, `bits(T)`.
Sizes = Mapping[str, int | tuple[int | None, ...] | None]
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
    if isinstance(expr, tree.Property):
        return _size(sizes.get(text(expr)))
    left, right = evaluate(expr.left, sizes), evaluate(expr.right, sizes)
    if left is None or right is None:
        return None
    if right == 0 and expr.op in ("/", "%", "ceildiv", "floordiv"):
        return None
    return _ARITHMETIC[expr.op](left, right)


def _unknown(_condition: Any) -> bool | None:
    return None


def holds(condition: Any, sizes: Sizes, judge: Judge = _unknown) -> bool | None:
    """Whether a condition holds, or None if that depends on a dynamic dim.

    judge: decides what is neither a comparison nor made of other conditions.
    """
    if isinstance(condition, tree.Comparison):
        left, right = evaluate(condition.left, sizes), evaluate(condition.right, sizes)
        return None if left is None or right is None else _COMPARISONS[condition.op](left, right)
    if not isinstance(condition, tree.Logical):
        return judge(condition)
    verdicts = [holds(c, sizes, judge) for c in condition.operands]
    if condition.op == "not":
        return None if verdicts[0] is None else not verdicts[0]
    decisive = condition.op == "or"
    if decisive in verdicts:
        return decisive
    return None if None in verdicts else not decisive


def first_failure(condition: Any, sizes: Sizes, judge: Judge = _unknown) -> Any:
    """The smallest part of a condition that keeps it from holding."""
    if isinstance(condition, tree.Logical) and condition.op == "and":
        for part in condition.operands:
            if holds(part, sizes, judge) is not True:
                return first_failure(part, sizes, judge)
    return condition


def names_in(node: Any) -> set[str]:
    """The dims, and properties by their text, that a condition or dim arithmetic speaks of."""
    if isinstance(node, tree.DimRef):
        return {node.name}
    if isinstance(node, tree.Property):
        return {text(node)}
    if isinstance(node, tree.Logical):
        return set().union(*map(names_in, node.operands))
    if isinstance(node, (tree.Comparison, tree.Arithmetic)):
        return names_in(node.left) | names_in(node.right)
    return set()


def text(node: Any) -> str:
    """How a condition or dim arithmetic is written."""
    if isinstance(node, tree.Literal):
        return str(node.value)
    if isinstance(node, tree.DimRef):
        return node.name
    if isinstance(node, tree.Property):
        return f"{node.kind}({node.name})"
    if isinstance(node, tree.Logical):
        if node.op == "not":
            return f"not {text(node.operands[0])}"
        return f" {node.op} ".join(map(text, node.operands))
    if isinstance(node, tree.Arithmetic) and node.op.isalpha():
        return f"{node.op}({text(node.left)}, {text(node.right)})"
    if isinstance(node, (tree.Arithmetic, tree.Comparison)):
        return f"{text(node.left)} {node.op} {text(node.right)}"
    return written(node)


def written(node: Any) -> str:
    """How the spec itself writes it, in the names of its own pattern."""
    span = node.span
    return " ".join(span.source.text[span.start : span.end].split())


def _size(size: int | tuple[int | None, ...] | None) -> int | None:
    if not isinstance(size, tuple):
        return size
    return None if None in size else math.prod(s for s in size if s is not None)
