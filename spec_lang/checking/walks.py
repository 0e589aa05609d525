"""Walks over the expressions of patterns."""

from __future__ import annotations

from collections.abc import Iterator

from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.tree import Expr


def children(expr: Expr) -> tuple[Expr, ...]:
    """The operands of an expression."""
    if isinstance(expr, (tree.Call, tree.Contract)):
        return expr.args
    if isinstance(expr, tree.Alternatives):
        return expr.options
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


def pattern_factors(pattern: tree.Pattern) -> tuple[str, ...]:
    """The names of numbers in all windows of a pattern."""
    found: dict[str, None] = {}
    pending = [*(let.expr for let in pattern.body), *pattern.results]
    while pending:
        expr = pending.pop()
        found |= dict.fromkeys(factors(expr))
        pending += children(expr)
    return tuple(found)


def expressions(pattern: tree.Pattern) -> Iterator[Expr]:
    """Every expression of a pattern, those of its condition too, in no order that matters."""
    pending = [*(let.expr for let in pattern.body), *pattern.results, *(f.form for f in forms(pattern.where))]
    while pending:
        expr = pending.pop()
        yield expr
        pending += children(expr)
