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


def as_sum(term: Apply[Node]) -> Apply[Node]:
    """A sum or a difference of sums without differences in it; any other op as it is."""
    if term.op == _PLUS:
        return dataclasses.replace(term, args=tuple(map(_without_difference, term.args)))
    if term.op == _MINUS and any(map(_is_sum, term.args)):
        return _difference(term)
    return term


def _without_difference(arg: Node) -> Node:
    return _difference(arg) if isinstance(arg, Apply) and arg.op == _MINUS else arg


def _difference(term: Apply[Node]) -> Apply[Node]:
    left, right = term.args
    return dataclasses.replace(term, op=_PLUS, args=(_without_difference(left), _negated(right, {})))


def _negated(node: Node, known: dict[int, Node]) -> Node:
    """known: what shared parts of the same node are, by identity."""
    if id(node) in known:
        return known[id(node)]
    made: Node
    match node:
        case Apply(op="arith.negf", args=(inner,)):
            made = inner
        case Apply(op="arith.addf"):
            made = dataclasses.replace(node, args=tuple(_negated(arg, known) for arg in node.args))
        case Apply(op="arith.subf", args=(left, right)):
            made = dataclasses.replace(node, op=_PLUS, args=(_without_difference(right), _negated(left, known)))
        case Number(low=tree.Literal() as number, high=None):
            made = Number(dataclasses.replace(number, value=-number.value))
        case _:
            made = Apply("arith.negf", (node,))
    known[id(node)] = made
    return made


def _is_sum(node: Node) -> bool:
    return isinstance(node, Apply) and node.op in (_PLUS, _MINUS)
