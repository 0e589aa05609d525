"""Chains of one associative and commutative op, such as a product of three factors, in any grouping and order.

A pattern's chain has as many operands as it is written with. A program's may be grouped otherwise, and longer: then
some of its parts stand for one operand of the pattern. `groupings` gives the ways to see a program's chain as one of a
given number of operands, `pairings` the ways to pair those with the pattern's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from iree.compiler import ir

from opsplice.matchers.terms.canonical import ASSOCIATIVE
from opsplice.matchers.terms.terms import Access, Apply, Reduce, Term
from opsplice.matchers.terms.views import Views

_Part = TypeVar("_Part")
MAX_OPERANDS = 6
# No more ways than this are looked at: of four operands there are 5 groupings and 24 orders.
_MAX_GROUPINGS = 64
_MAX_PAIRINGS = 64


# A term without what stands around the op that makes it, and the ops that were read on the way.
Unwrap = Callable[[Term], tuple[Term, tuple[ir.Operation, ...]]]


@dataclass(frozen=True)
class Grouping:
    """The operands of a program's chain. seen: the ops that were read to come to them."""

    operands: tuple[Term, ...]
    seen: tuple[ir.Operation, ...]


def operands(node: Apply[_Part]) -> tuple[_Part, ...]:
    """The operands of the chain that starts at an op of a pattern; those of the op itself if it starts none.

    A chain of more than MAX_OPERANDS is looked for in its own grouping only.
    """
    if node.op not in ASSOCIATIVE:
        return node.args
    pending, found = list(reversed(node.args)), list[_Part]()
    while pending:
        arg = pending.pop()
        if isinstance(arg, Apply) and (arg.op, arg.type, arg.attributes) == (node.op, node.type, node.attributes):
            pending.extend(reversed(arg.args))
        else:
            found.append(arg)
        if len(pending) + len(found) > MAX_OPERANDS:
            return node.args
    return tuple(found)


def read_between(views: Views, term: Term, reading: Apply) -> tuple[ir.Operation, ...]:
    """The ops that a term is made by, down to what it is read as being made of."""
    ends, pending = set[Access](), list[Any](reading.args)
    while pending:
        part = pending.pop()
        ends |= {part} if isinstance(part, Access) else set()
        pending += _made_of(part)
    seen, pending = dict[ir.Operation, None](), [term]
    while pending:
        part = pending.pop()
        step = views.expand(part) if isinstance(part, Access) and part not in ends else None
        if step is not None and views.constant(part) is None:
            seen.update(dict.fromkeys(step.ops))
            pending.append(step.term)
        pending += _made_of(part)
    return tuple(seen)


def _made_of(part: Any) -> tuple[Any, ...]:
    return part.args if isinstance(part, Apply) else (part.body,) if isinstance(part, Reduce) else ()


def groupings(
    views: Views, op: str, spellings: tuple[Apply, ...], count: int, unwrap: Unwrap | None = None
) -> Iterator[Grouping]:
    """The ways to see a term, given in its spellings as `op`, as a chain of `count` operands.

    unwrap: what is looked through between the ops of a chain; views without it.
    """
    # Operands left of `start` stay as they are, so that each grouping is made once.
    pending = [(s.args, (), 0) for s in reversed(spellings)]
    looked = 0
    while pending and looked < _MAX_GROUPINGS:
        looked += 1
        terms, seen, start = pending.pop()
        if len(terms) == count:
            yield Grouping(terms, seen)
            continue
        for place in range(len(terms) - 1, start - 1, -1):
            inner, read = unwrapped(views, terms[place]) if unwrap is None else unwrap(terms[place])
            source = views.unchanged(inner)
            if source is not None:
                pending.append(((*terms[:place], source, *terms[place + 1 :]), (*seen, *read), place))
            for spelling in views.readings(inner, op):
                pending.append(((*terms[:place], *spelling.args, *terms[place + 1 :]), (*seen, *read), place))


def pairings(
    wanted: tuple[Any, ...], found: tuple[Term, ...], may_hold: Callable[[Any, Term], bool]
) -> list[list[tuple[Any, Term]]]:
    """The ways to pair the operands of two chains, without those that cannot hold."""
    able = [[may_hold(node, term) for term in found] for node in wanted]
    if len({id(node) for node in wanted}) == 1 and all(map(all, able)):
        return [list(zip(wanted, found, strict=True))]
    order = sorted(range(len(wanted)), key=lambda i: sum(able[i]))
    result: list[list[tuple[Any, Term]]] = []

    def place(number: int, taken: dict[int, int]) -> None:
        if len(result) >= _MAX_PAIRINGS:
            return
        if number == len(order):
            result.append([(wanted[i], found[taken[i]]) for i in range(len(wanted))])
            return
        i = order[number]
        tried: set[Term] = set()
        for j, term in enumerate(found):
            twin = any(
                wanted[k] is wanted[i] and taken[k] > j for k in order[:number]
            )  # an order of equals tried before
            if able[i][j] and j not in taken.values() and term not in tried and not twin:
                tried.add(term)
                place(number + 1, {**taken, i: j})

    place(0, {})
    return result


def unwrapped(views: Views, term: Term) -> tuple[Term, tuple[ir.Operation, ...]]:
    """A term without its views, and the ops that were read on the way."""
    seen: list[ir.Operation] = []
    while isinstance(term, Access):
        step = views.expand(term)
        if step is None:
            break
        seen += step.ops
        term = step.term
    return term, tuple(seen)
