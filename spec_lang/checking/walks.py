"""Walks over the expressions of patterns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.tree import Expr


def children(expr: Expr) -> tuple[Expr, ...]:
    """The operands of an expression."""
    if isinstance(expr, (tree.Call, tree.Contract)):
        return expr.args
    if isinstance(expr, tree.Alternatives):
        return expr.options
    if isinstance(expr, tree.Setting):
        return expr.arg, expr.name
    if isinstance(expr, (tree.Reduce, tree.Rearrange, tree.Uses)):
        return (expr.arg,)
    return ()


def forms(condition: tree.Condition | None) -> tuple[tree.Is, ...]:
    """The conditions of the kind `x is f(y)` in a condition."""
    return tuple(part for part in tree.parts(condition) if isinstance(part, tree.Is))


def factors(expr: Expr) -> tuple[str, ...]:
    """The names of numbers that the windows of an expression itself are written with: strides and dilations."""
    if not isinstance(expr, (tree.Contract, tree.Reduce)):
        return ()
    terms = (term for window in expr.subscripts.windows for term in window.terms)
    return tuple(dict.fromkeys(factor for factor, _ in terms if isinstance(factor, str)))


def window_sizes(expr: Expr) -> tuple[str, ...]:
    """The places in the windows of a reduction itself, by label: how many there are is a size that no tensor has."""
    if not isinstance(expr, tree.Reduce):
        return ()
    labels = (label for window in expr.subscripts.windows for _, label in window.terms)
    return tuple(dict.fromkeys(label for label in labels if label not in expr.subscripts.result))


def pattern_factors(pattern: tree.Pattern) -> tuple[str, ...]:
    """The names of numbers in all windows of a pattern: strides and dilations, and the sizes of what is reduced."""
    found = (name for expr in reached(_values(pattern)) for name in (*factors(expr), *window_sizes(expr)))
    return tuple(dict.fromkeys(found))


def expressions(pattern: tree.Pattern) -> Iterator[Expr]:
    """Every expression of a pattern, those of its condition too, in no order that matters."""
    return reached([*_values(pattern), *(asked.form for asked in forms(pattern.where))])


def named_values(pattern: tree.Pattern) -> dict[str, Expr]:
    """What each name of a pattern's body is bound to."""
    return {name: let.expr for let in pattern.body for name in let.names}


def reached(
    exprs: Iterable[Expr],
    values: Mapping[str, Expr] = MappingProxyType({}),
    into: Callable[[Expr], Iterable[Expr]] = children,
) -> Iterator[Expr]:
    """Expressions with all that they are made of. values: what names are bound to, each looked behind once.

    into: what of an expression is looked at.
    """
    pending, seen = list(exprs), set[str]()
    while pending:
        expr = pending.pop()
        yield expr
        pending += into(expr)
        if isinstance(expr, tree.Name) and expr.name in values and expr.name not in seen:
            seen.add(expr.name)
            pending.append(values[expr.name])


def _values(pattern: tree.Pattern) -> list[Expr]:
    return [*(let.expr for let in pattern.body), *pattern.results]
