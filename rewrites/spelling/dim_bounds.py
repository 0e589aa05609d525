"""Conditions on dims as what matchers of the transform dialect can ask: bounds of a dim, and what it is a multiple of.

A condition becomes alternatives, each of which is a list of checks that must all hold. IREE's checks hold only for dims
that are known when compiling, as ours do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from opsplice.rewrites.spelling.not_exportable import GapError, gathered
from opsplice.spec_lang.checking.contraction_query import asked_sizes
from opsplice.spec_lang.dims import dim_conditions, judge
from opsplice.spec_lang.syntax import tree

MAX_ALTERNATIVES = 16
_WHY = "matchers know only bounds of a dim and what it is a multiple of"


@dataclass(frozen=True)
class Axis:
    """A dim of an argument: the position of the argument, and the axis."""

    argument: int
    axis: int


# What a dim of a pattern is: a number, an axis, or (a pack) some of them.
Extent = int | Axis | tuple[int | Axis, ...]


@dataclass(frozen=True)
class Check:
    """That a dim lies in [low, high], where they are not None, and is a multiple of `factor`, where that is not 1."""

    axis: Axis
    low: int | None = None
    high: int | None = None
    factor: int = 1


@dataclass(frozen=True)
class Untuned:
    """That the op at the root has no lowering config."""


@dataclass(frozen=True)
class Contracts:
    """That the contraction at the root has dims of these sizes, by their kind; None for any size."""

    sizes: tuple[tuple[str, tuple[int | None, ...]], ...]


Alternative = tuple[Check | Untuned | Contracts, ...]
# In `dims` where the op at the root is asked whether it is a contraction.
CONTRACTS = "contracts()"


def alternatives(where: tree.Condition, dims: Mapping[str, Extent]) -> tuple[Alternative, ...]:
    """The ways in which a condition can hold; none if it never does.

    dims: what each name in it is. Raises GapError for a part that cannot be asked.
    """
    return _limited(where, _alternatives(where, dims, negated=False))


def all_of(wheres: Sequence[tuple[tree.Condition, Mapping[str, Extent]]]) -> tuple[Alternative, ...]:
    """The ways in which conditions, each with what its dims are, hold together. Raises what `alternatives` raises."""
    found = gathered(partial(alternatives, *each) for each in wheres)
    return _together((where, ways) for (where, _), ways in zip(wheres, found, strict=True))


def _together(parts: Iterable[tuple[tree.Condition, tuple[Alternative, ...]]]) -> tuple[Alternative, ...]:
    joined: tuple[Alternative, ...] = ((),)
    for where, ways in parts:
        joined = _limited(where, tuple((*a, *b) for a, b in itertools.product(joined, ways)))
    return joined


def _limited(where: tree.Condition, found: tuple[Alternative, ...]) -> tuple[Alternative, ...]:
    found = tuple(dict.fromkeys(found))
    if len(found) > MAX_ALTERNATIVES:
        why = f"it needs more than {MAX_ALTERNATIVES} matchers"
        raise GapError.at(where.span, f"`{where.span.written}`", why)
    return found


def _alternatives(where: tree.Condition, dims: Mapping[str, Extent], negated: bool) -> tuple[Alternative, ...]:
    if isinstance(where, tree.Predicate) and (where.name, where.value, negated) == ("lacks", "lowering_config", False):
        return ((Untuned(),),)
    if isinstance(where, tree.Predicate) and where.name == "contracts" and CONTRACTS in dims and not negated:
        return ((Contracts(tuple(asked_sizes(where.value).items())),),)
    if isinstance(where, tree.Comparison):
        return _comparison(where, dims, dim_conditions.NEGATED[where.op] if negated else where.op)
    if not isinstance(where, tree.Logical):
        raise GapError.at(where.span, "this condition", _WHY)
    if where.op == "not":
        return _alternatives(where.operands[0], dims, not negated)
    if where.op == "may" and _alternatives(where.operands[0], dims, negated) not in ((), ((),)):
        raise GapError.at(where.span, "`may` on a size that the matcher does not know", _WHY)
    parts = gathered(partial(_alternatives, operand, dims, negated) for operand in where.operands)
    if (where.op == "and") == negated:
        return tuple(itertools.chain.from_iterable(parts))
    return _together((where, part) for part in parts)


def _comparison(where: tree.Comparison, dims: Mapping[str, Extent], op: str) -> tuple[Alternative, ...]:
    numbers = {name: number_of(extent) for name, extent in dims.items()}
    known = judge.holds(tree.Comparison(where.span, op, where.left, where.right), numbers)
    if known is not None:
        return ((),) if known else ()
    left, right = where.left, where.right
    if judge.evaluate(left, numbers) is not None:
        left, right, op = right, left, dim_conditions.MIRRORED[op]
    bound = judge.evaluate(right, numbers)
    if bound is None or (isinstance(bound, float) and not bound.is_integer()):
        raise _gap(where)
    if isinstance(left, tree.Arithmetic) and left.op == "%":
        return _remainder(where, left, dims, numbers, op, int(bound))
    axis = _axis(left, dims)
    if axis is None:
        raise _gap(where)
    return _range(axis, op, int(bound))


def _remainder(
    where: tree.Comparison,
    left: tree.Arithmetic,
    dims: Mapping[str, Extent],
    numbers: judge.Sizes,
    op: str,
    bound: int,
) -> tuple[Alternative, ...]:
    axis, factor = _axis(left.left, dims), judge.evaluate(left.right, numbers)
    # A remainder that is below 1, or at most 0, is 0.
    zero = (op, bound) in (("==", 0), ("<=", 0), ("<", 1))
    if axis is None or not isinstance(factor, int) or factor < 1 or not zero:
        raise _gap(where)
    return ((Check(axis, factor=factor),),)


def _range(axis: Axis, op: str, bound: int) -> tuple[Alternative, ...]:
    """Sizes are never negative, and IREE's bounds must not be."""
    if op == "!=":
        return _range(axis, "<", bound) + _range(axis, ">", bound)
    low = {"==": bound, ">=": bound, ">": bound + 1}.get(op)
    high = {"==": bound, "<=": bound, "<": bound - 1}.get(op)
    if high is not None and high < 0:
        return ()
    return ((Check(axis, None if low is None else max(low, 0), high),),)


def _axis(expr: tree.DimExpr, dims: Mapping[str, Extent]) -> Axis | None:
    extent = dims.get(expr.name) if isinstance(expr, tree.DimRef) else None
    if isinstance(extent, tuple):
        parts = [part for part in extent if part != 1]
        extent = parts[0] if len(parts) == 1 else None
    return extent if isinstance(extent, Axis) else None


def number_of(extent: Extent) -> int | None:
    """A size, of a pack the product, if it is known."""
    if isinstance(extent, tuple):
        numbers = [part for part in extent if isinstance(part, int)]
        return math.prod(numbers) if len(numbers) == len(extent) else None
    return extent if isinstance(extent, int) else None


def _gap(where: tree.Comparison) -> GapError:
    return GapError.at(where.span, f"the condition `{where.span.written}`", _WHY)
