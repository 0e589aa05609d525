"""A pattern's differences within sums, as sums of negated operands, which match in any grouping (`terms.chains`).

So `subf(addf(x, y), z)` is the chain of x, y and -z, which `addf(x, subf(y, z))` is, too. A difference of two values
that are no sums stays what it is.
"""

from __future__ import annotations

import dataclasses

from opsplice.matchers.patterns.nodes import Node, Number
from opsplice.matchers.terms.terms import Apply
from opsplice.spec_lang.syntax import tree

_PLUS, _MINUS = "arith.addf", "arith.subf"
# Nodes with those in whose place they are made.
Made = list[tuple[Node, Node]]


def as_sum(term: Apply[Node], made: Made) -> Apply[Node]:
    """A sum or a difference of sums without differences in it; any other op as it is."""
    if term.op == _PLUS:
        return dataclasses.replace(term, args=tuple(_without_difference(arg, made) for arg in term.args))
    if term.op == _MINUS and any(map(_is_sum, term.args)):
        return _difference(term, made)
    return term


def _without_difference(arg: Node, made: Made) -> Node:
    return _difference(arg, made) if isinstance(arg, Apply) and arg.op == _MINUS else arg


def _difference(term: Apply[Node], made: Made) -> Apply[Node]:
    left, right = term.args
    whole = dataclasses.replace(term, op=_PLUS, args=(_without_difference(left, made), _negated(right, {}, made)))
    made.append((whole, term))
    return whole


def _negated(node: Node, known: dict[int, Node], made: Made) -> Node:
    """known: what shared parts of the same node are, by identity."""
    if id(node) in known:
        return known[id(node)]
    whole: Node
    match node:
        case Apply(op="arith.negf", args=(inner,)):
            whole = inner
        case Apply(op="arith.addf"):
            whole = dataclasses.replace(node, args=tuple(_negated(arg, known, made) for arg in node.args))
        case Apply(op="arith.subf", args=(left, right)):
            others = _without_difference(right, made), _negated(left, known, made)
            whole = dataclasses.replace(node, op=_PLUS, args=others)
        case Number(low=tree.Literal() as number, high=None):
            whole = Number(dataclasses.replace(number, value=-number.value))
        case _:
            whole = Apply("arith.negf", (node,))
    if isinstance(node, (Apply, Number)):
        made.append((whole, node))
    known[id(node)] = whole
    return whole


def _is_sum(node: Node) -> bool:
    return isinstance(node, Apply) and node.op in (_PLUS, _MINUS)
