"""Conditions and dim arithmetic as structures: comparisons, what they are made of, and how they are written."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from opsplice.spec_lang.syntax import tree

_Node = TypeVar("_Node")

# In the order of MLIR's predicates for parameters, MatchCmpIPredicateAttr.
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# The comparison that holds where the first does not, and the one with its sides swapped.
NEGATED = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
# What is undefined where its second operand is zero.
DIVISIONS = frozenset({"/", "%", "ceildiv", "floordiv"})


def conjuncts(condition: tree.Condition | None) -> list[tree.Condition]:
    """The parts that all have to hold."""
    if condition is None:
        return []
    if isinstance(condition, tree.Logical) and condition.op == "and":
        return [part for operand in condition.operands for part in conjuncts(operand)]
    return [condition]


def fixed(where: tree.Condition | None) -> dict[str, int]:
    """The dims that a condition gives one size: `n == 64`, alone or joined by `and`."""
    equal = (p for p in conjuncts(where) if isinstance(p, tree.Comparison) and p.op == "==")
    return {
        name.name: size.value
        for part in equal
        for name, size in ((part.left, part.right), (part.right, part.left))
        if isinstance(name, tree.DimRef) and isinstance(size, tree.Literal) and isinstance(size.value, int)
    }


def listed(condition: tree.Condition | None) -> tuple[tree.DimExpr, tuple[tree.Literal, ...]] | None:
    """What `n in {64, 128}`, and `n == 64 or n == 128`, which is the same, speaks of, and the numbers."""
    parts = condition.operands if isinstance(condition, tree.Logical) and condition.op == "or" else ()
    equal = [part for part in parts if isinstance(part, tree.Comparison) and part.op == "=="]
    numbers = tuple(part.right for part in equal if isinstance(part.right, tree.Literal))
    one = len({key(part.left) for part in equal}) == 1
    return (equal[0].left, numbers) if one and len(numbers) == len(parts) else None


def told(where: tree.Condition | None) -> frozenset[str]:
    """The names of which a condition lists the numbers: `kind == 1`, `kind in {0, 1}`, alone or joined by `and`."""
    lists = [listed(part) for part in conjuncts(where)]
    return frozenset({*fixed(where), *(each[0].name for each in lists if each and isinstance(each[0], tree.DimRef))})


def without(condition: Any, left_out: Callable[[Any], bool]) -> Any:
    """A condition without those of its parts that are left out, None if these are all. left_out: not for Logical."""
    if not isinstance(condition, tree.Logical):
        return None if left_out(condition) else condition
    operands = tuple(part for c in condition.operands if (part := without(c, left_out)) is not None)
    if len(operands) == len(condition.operands) and all(map(operator.is_, operands, condition.operands)):
        return condition
    return dataclasses.replace(condition, operands=operands) if operands else None


def equality(left: tree.DimExpr, right: tree.DimExpr) -> tree.Comparison:
    return tree.Comparison(left.span, "==", left, right)


def product(span: tree.Span, sizes: Iterable[tree.DimExpr]) -> tree.DimExpr:
    """Sizes multiplied, 1 for none."""
    first, *others = [*sizes] or [tree.Literal(span, 1)]
    return functools.reduce(partial(tree.Arithmetic, span, "*"), others, first)


def names_in(node: object) -> frozenset[str]:
    """The dims that a condition or dim arithmetic speaks of."""
    return frozenset(part.name for part in tree.parts(node) if isinstance(part, tree.DimRef))


def numbers_in(node: object) -> frozenset[str]:
    """The dims and the properties, as they are written, that a condition or dim arithmetic speaks of."""
    return names_in(node) | {str(part) for part in tree.parts(node) if isinstance(part, tree.Property)}


def strides_in(node: object) -> list[tree.Property]:
    """The strides that a condition or dim arithmetic speaks of."""
    return [part for part in tree.parts(node) if isinstance(part, tree.Property) and part.kind == "stride"]


def divides_by_dim(node: object) -> bool:
    """Whether something in a condition is undefined for some sizes."""
    divisions = (p for p in tree.parts(node) if isinstance(p, tree.Arithmetic) and p.op in DIVISIONS)
    return any(names_in(division.right) for division in divisions)


def substituted(node: _Node, values: Mapping[str, tree.DimExpr]) -> _Node:
    """A condition or dim arithmetic with dims replaced by what `values` has for them."""
    return tree.rebuilt(node, lambda part: values.get(part.name, part) if isinstance(part, tree.DimRef) else part)


def key(node: object) -> Hashable:
    """What is equal for equal conditions, numbers and attributes, wherever they are written.

    A number is equal to one of the same kind only: 1, 1.0 and true are three, and so are zeros of both signs.
    """
    if isinstance(node, tuple):
        return tuple(map(key, node))
    if isinstance(node, (int, float)):
        return type(node).__name__, repr(node)
    if not dataclasses.is_dataclass(node) or isinstance(node, type):
        return node
    values = (getattr(node, f.name) for f in dataclasses.fields(node))
    return (type(node).__name__, *(key(v) for v in values if not isinstance(v, tree.Span)))
