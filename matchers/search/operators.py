"""Ops on elements, numbers and reductions: which of them the program has, and how their operands pair up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from iree.compiler import ir

from opsplice.matchers.patterns.nodes import Label, Node, Number, Place, Product
from opsplice.matchers.patterns.walk import nodes_below, places
from opsplice.matchers.search.failures import Why
from opsplice.matchers.search.labels import permuted
from opsplice.matchers.search.merged_dims import Finer, coarser, finer
from opsplice.matchers.search.reading import Reader
from opsplice.matchers.search.roots import placings
from opsplice.matchers.search.state import Branch, Goal, State
from opsplice.matchers.terms import chains
from opsplice.matchers.terms.canonical import COMPARISONS, FACTORED, turned
from opsplice.matchers.terms.recomputation import Again
from opsplice.matchers.terms.terms import UNIT, Apply, Constant, Index, LoopIndex, Reduce, Started, Term
from opsplice.spec_lang.dims import dim_conditions
from opsplice.spec_lang.syntax import vocabulary

_Pair = tuple[Node, Term]


class Operators:
    """Matches what computes elements for a search."""

    def __init__(self, state: State, reader: Reader) -> None:
        self.state = state
        self.reader = reader
        self.views = state.views
        self.graph = state.graph
        self.reduced: dict[Reduce[Node, Label], Reduce] = {}
        self._finer: dict[Reduce[Node, Label], Finer] = {}  # goals are told apart by identity

    def apply_branches(self, node: Apply[Node], found: Term) -> Iterator[Branch]:
        spellings = self.views.readings(found, node.op)
        if not spellings or len(spellings[0].args) != len(node.args):
            yield lambda: self.reader.other_op(node, found)
            return
        if node.op in COMPARISONS:
            spellings = self._compared(node, spellings[0])
        given = dict(spellings[0].attributes)
        wrong = next(((n, v) for n, v in node.attributes if given.get(n) != v), None)
        if wrong is not None:
            name, value = wrong
            yield lambda: self.state.fail(node, Why.ATTRIBUTE, name, value, given.get(name)) or None
            return
        if node.type and not self.state.bind_type(node, node.type, spellings[0].type):
            yield lambda: None
            return
        straight = list(zip(node.args, spellings[0].args, strict=True))
        respelled = not (isinstance(found, Apply) and found.op == node.op)
        wanted = chains.operands(node)
        if len(wanted) > len(node.args):
            pairings = self._chain_pairings(node.op, wanted, spellings)
        else:
            pairings = [(list(zip(node.args, s.args, strict=True)), ()) for s in spellings]
            if vocabulary.commutes(node.op) and node.args[0] is not node.args[1]:
                pairings += [(list(zip(node.args, reversed(s.args), strict=True)), ()) for s in spellings]
            if len(pairings) > 1 or respelled:  # what cannot hold is not tried, so that choices do not multiply
                pairings = [p for p in pairings if all(self.reader.may_hold(*pair) for pair in p[0])]
            if not pairings and self.state.attempt.by_windows:
                # What cannot hold comes first: so the many orders of what is read in windows are not tried.
                straight.sort(key=lambda pair: self.reader.may_hold(*pair))
        if respelled and not pairings:
            yield lambda: self.reader.other_op(node, found)
            return
        if isinstance(node, Product) and self.reader.is_one_element(*spellings[0].args):
            yield lambda: self.state.fail(node, Why.TWICE) or None
            return
        if isinstance(node, Product) and self.state.attempt.by_windows:
            pairings = [each for each in pairings or [(straight, ())] if self.reader.may_filter(each[0])]
            if not pairings:
                yield lambda: self.state.fail(node, Why.WINDOW, places(self.graph)[-1]) or None
                return
        if self.state.attempt.order is not None and self._fails_again(pairings or [(straight, ())]):
            yield lambda: None
            return
        self.state.hold(node)
        in_parts = isinstance(found, Reduce) and found.combiner == node.op  # read anew, part by part
        between = chains.read_between(self.views, found, spellings[0]) if respelled and not in_parts else ()
        for goals, seen in pairings or [(straight, ())]:
            yield partial(self._pairing, goals, (*between, *seen))

    def _fails_again(self, pairings: Sequence[tuple[Sequence[_Pair], tuple[ir.Operation, ...]]]) -> bool:
        """Whether the input that attempts before failed at is known not to hold here either."""
        failed = self.state.furthest.node if self.state.furthest is not None else None
        return all(
            any(node is failed and self.reader.is_read_otherwise(node, term) for node, term in pairs)
            for pairs, _ in pairings
        )

    def _compared(self, node: Apply[Node], found: Apply) -> tuple[Apply, ...]:
        """A comparison as it is and with its sides swapped: those that have the predicate that is wanted."""
        wanted = dict(node.attributes).get("predicate", "")
        other = turned(found, wanted)
        same = dict(found.attributes).get("predicate") == wanted
        return (found,) if other is None else (found, other) if same else (other,)

    def _pairing(self, goals: Sequence[_Pair], seen: tuple[ir.Operation, ...]) -> Sequence[Goal]:
        for op in seen:
            self.state.set(self.state.ops, op)
        return goals

    def _chain_pairings(
        self, op: str, wanted: tuple[Node, ...], spellings: tuple[Apply, ...]
    ) -> list[tuple[Sequence[_Pair], tuple[ir.Operation, ...]]]:
        """Each way in which the operands of a chain may pair up, with the payload ops that the chain goes through."""
        return [
            (pairs, grouping.seen)
            for grouping in chains.groupings(self.views, op, spellings, len(wanted), self.reader.inside)
            for pairs in chains.pairings(wanted, grouping.operands, self.reader.may_hold)
        ]

    def reduce_branches(self, node: Reduce[Node, Label], term: Term) -> Iterator[Branch]:
        """The ways in which a reduction may match: as it is, or over as many dims as the pattern has, in any order."""
        yield from self._in_orders(node, term, None)
        if self._has_other_loops(node, self.reader.peek(node, term)):
            finer = self._finer.setdefault(node, Finer(node))
            yield lambda: [(finer, term)]  # it is looked for where the reduction does not match as it is

    def finer_branches(self, node: Reduce[Node, Label], term: Term) -> Iterator[Branch]:
        """The ways in which a reduction over fewer dims than the pattern has, or more, may match over as many."""
        for each in self._over_as_many(node, self.reader.peek(node, term)):
            yield from self._in_orders(node, term, each)

    def _in_orders(self, node: Reduce[Node, Label], term: Term, finer: Reduce | None) -> Iterator[Branch]:
        for loops in self._loop_orders(node, finer or self.reader.peek(node, term)):
            yield partial(self._reduce, node, term, finer, loops)

    def _loop_orders(self, node: Reduce[Node, Label], found: Term) -> Iterator[tuple[Index, ...]]:
        """The loops of a reduction in the orders that its labels may have them; none where what reads them tells."""
        told = not self.state.attempt.by_address or any(label.windowed for label in node.loops)
        if told or not isinstance(found, Reduce) or len(node.loops) < len(found.loops):
            yield ()
        elif self.graph.may_lack_dims:
            loops: tuple[Index, ...] = (*[UNIT] * self.graph.lacked(node.loops, found.loops), *found.loops)
            yield from (tuple(loops[at] for at in order) for order in placings(self.graph, node.loops, loops))
        elif len(node.loops) != len(found.loops):
            yield ()
        else:
            yield from permuted(found.loops, len(found.loops))

    def _reduce(
        self, node: Reduce[Node, Label], term: Term, finer: Reduce | None = None, order: tuple[Index, ...] = ()
    ) -> Sequence[Goal] | None:
        """finer: what the reduction is over as many dims as the pattern has. order: its loops, label by label."""
        found = self.reader.look(node, term)
        found = found if finer is None else finer
        if isinstance(found, Started) and found.op == node.combiner:
            self.state.hold(node)
            start = self.views.constant(found.args[0])
            self.state.fail(node, Why.START, start)
            return None
        single = self.reader.single_place(node, found)
        if single is not None:
            self.state.hold(node)
            self.state.set(self.state.reductions, node, ())
            for label in node.loops:
                self.state.set(self.state.scopes, label, node)
            return [(node.body, single)]
        if not isinstance(found, Reduce) or found.combiner != node.combiner:
            self.reader.other_op(node, found)
            return None
        packs = any(label.pack for label in node.loops)
        if len(node.loops) < len(found.loops) and not packs:
            self.state.fail(node, Why.REDUCED_DIMS, len(found.loops))
            return None
        before = self.reduced.get(node)
        if before is not None and before.loops != found.loops:
            casts = "cast" in self.graph.through
            again = Again(self.views, self.reader.chain, self.reader.inside, casts=casts).seen(before, found)
            if again is None:
                self.state.fail(node, Why.REDUCED_AGAIN)
                return None
            return self._pairing([], again)
        if self.views.readings(found, FACTORED):
            if self.state.wants_factors:
                self.state.fail(node, Why.ALTERNATIVE)
                return None
            self.state.set(self.state.scaled, found)
        self.state.hold(node)
        self.state.set(self.state.reductions, node, found.loops)
        self.state.set(self.reduced, node, found)
        for label in node.loops:
            self.state.set(self.state.scopes, label, node)
        for label, loop in zip(node.loops, order, strict=False):
            self.state.set(self.state.labels, label, (loop,))
            if loop != UNIT:
                self.state.set(self.state.used, (node, loop))
        return [(node.body, found.body)]

    def _has_other_loops(self, node: Reduce[Node, Label], found: Term) -> bool:
        is_one = isinstance(found, Reduce) and found.combiner == node.combiner and len(node.loops) != len(found.loops)
        return is_one and not any(label.pack or label.windowed for label in node.loops)

    def _over_as_many(self, node: Reduce[Node, Label], found: Term) -> Iterator[Reduce]:
        """A reduction that the program has over fewer dims, or more, over as many as the pattern has."""
        assert isinstance(found, Reduce), "no other has other loops"
        count = len(node.loops)
        if count < len(found.loops):
            return coarser(self.views, found, count)
        size = sum(isinstance(each, (Apply, Reduce)) for each in nodes_below([node.body]))
        least = count - self.graph.lacked(node.loops, found.loops)
        return finer(self.views, found, range(least, count + 1), size)

    def number(self, node: Number, term: Term) -> list[Goal] | None:
        found = self.reader.look(node, term)
        found = self.views.constant(found) or found
        if isinstance(found, Constant) or dim_conditions.numbers_in(node.low):
            # Dims may be bound by a later goal, so numbers are compared at the end.
            self.state.set(self.state.numbers, (node, found), self.state.place)
            return []
        self.reader.other_op(node, found)
        return None

    def place(self, node: Place, term: Term) -> list[Goal] | None:
        """An index as a number: that of the label's dim."""
        if not isinstance(term, LoopIndex):
            self.reader.other_op(node, term)
            return None
        return None if self.state.unify(node, (node.label,), (term.index,)) is None else []
