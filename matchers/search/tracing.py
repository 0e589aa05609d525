"""A search that takes notes: which payload op each part of the pattern held at, and all that is known where it stopped.

It listens to a search as `matchers.search` has it, and writes down more. So a search that failed is simply done again
with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from iree.compiler import ir

from opsplice.matchers.dims.equal_sizes import Classes
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.patterns.nodes import Asked, Graph, Input, Label, Number, Wanted
from opsplice.matchers.search.failures import Failure, Kind, Listener, Why
from opsplice.matchers.search.matches import Binding, Match
from opsplice.matchers.search.search import MAX_STEPS, Search
from opsplice.matchers.terms.terms import Apply, Constant, Index, Loop, Reduce, Term
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.syntax import tree

Thing: TypeAlias = ir.Operation | ir.Value


@dataclass(frozen=True, eq=False)
class Stop:
    """Where a search stopped that got furthest, and what was known there.

    node: the part of the pattern, or the part of a condition; term: what the program has there, if that was read;
    why, operands: as in `Failure`. at: the payload op or value there.
    held: for each node that held, by its id, the op that it held at.
    seen: the ids of all nodes that were looked at on the way. looked: every payload op that was looked at.
    labels: what each label is bound to; asked, given: the labels and the indices that were being compared.
    loops: the loops of each reduction by the labels that the pattern has for them. any_layout: whether the search goes
    further where the input that it stopped at may lie in memory in any way.
    """

    node: Wanted
    why: Why
    operands: tuple[Any, ...]
    at: Thing | None
    term: Term | None
    held: Mapping[int, Thing | None]
    seen: frozenset[int]
    looked: frozenset[ir.Operation]
    inputs: Mapping[str, Binding]
    dims: Mapping[str, Any]
    types: Mapping[str, str]
    binding: Binding | None
    labels: Mapping[Label, tuple[Index, ...]]
    asked: tuple[Label, ...]
    given: tuple[Index, ...]
    loops: tuple[tuple[tuple[Label, ...], tuple[Loop, ...]], ...]
    any_layout: bool = False

    @property
    def kind(self) -> Kind:
        return self.why.kind


class Tracer(Listener):
    """A search with notes. `stop` is set where it failed."""

    def __init__(self, views: Views, graph: Graph, function: str, max_steps: int = MAX_STEPS) -> None:
        self.views = views
        self.graph = graph
        self.search = Search(views, graph, function, max_steps, listener=self)
        self.state = self.search.state
        self.stop: Stop | None = None
        self._within: dict[int, tuple[Term, ir.Operation]] = {}

    @property
    def looked(self) -> frozenset[ir.Operation]:
        """The payload ops that were looked at on the way that got furthest."""
        return frozenset() if self.stop is None else self.stop.looked

    def run(self, value: ir.Value, *, at_view: bool = False) -> Match | None:
        match = self.search.run(value, at_view=at_view)
        first = self.graph.results[0].node
        if match is None and self.search.gave_up:
            self.stop = self._stop(first, Why.STEPS)
        elif match is None and self.stop is None:
            # The search never began: what a view rearranges is looked for where it is made.
            self.state.place = defining_op(value)
            self.stop = self._stop(first, Why.VIEW)
        elif match is None and (turned := self._turned(value)):
            self.state.place = defining_op(value)
            self.stop = dataclasses.replace(self._stop(first, Why.TURNED, turned), held={})
        elif match is None and self.stop is not None and self.stop.why is Why.RANK:
            self.stop = dataclasses.replace(self.stop, any_layout=self._goes_further_strided(value, self.stop.node))
        elif match is None and self.stop is not None and self.stop.why is Why.NO_STRIDES:
            self.stop = self._at_its_dims(value, self.stop)
        return match

    def _at_its_dims(self, value: ir.Value, stop: Stop) -> Stop:
        """A stop at an input whose elements lie nowhere: told by its dims, where these are what differs."""
        assert isinstance(stop.node, Input), "only inputs have strides"
        graph = dataclasses.replace(self.graph, strided=self.graph.strided - {stop.node.name})
        plain = Tracer(self.views, graph, self.search.function, self.search.max_steps)
        plain.run(value)
        is_same = plain.stop is not None and plain.stop.node is stop.node and plain.stop.why is Why.DIM
        return plain.stop if plain.stop is not None and is_same else stop

    def _goes_further_strided(self, value: ir.Value, node: Wanted) -> bool:
        reached = self.state.furthest
        all_inputs = frozenset(p.name for p in self.graph.pattern.parameters if isinstance(p.type, tree.TensorType))
        strided = self.graph.strided | ({node.name} if isinstance(node, Input) else all_inputs)
        if reached is None or (strided == self.graph.strided and (isinstance(node, Input) or self.graph.reordered)):
            return False
        reordered = self.graph.reordered or not isinstance(node, Input)
        graph = dataclasses.replace(self.graph, strided=strided, reordered=reordered)
        search = Search(self.views, graph, self.search.function, self.search.max_steps)
        match = search.run(value)
        return match is not None or (search.furthest is not None and search.furthest.held[0] > reached.held[0])

    def _turned(self, value: ir.Value) -> tuple[tuple[Label, ...], tuple[Label, ...]] | None:
        """The labels of the result, and these in the order in which the pattern holds; None if it does in none."""
        labels, graph = self.graph.results[0].labels, dataclasses.replace(self.graph, reordered=True)
        is_known = self.graph.reordered or len(self.graph.results) > 1 or any(label.pack for label in labels)
        if is_known or self.stop is None or self.stop.kind is not Kind.DIMS or self.stop.why is Why.TURNED:
            return None
        match = Search(self.views, graph, self.search.function, self.search.max_steps).run(value)
        if match is None or match.order is None or len(match.order) != len(labels):
            return None
        return labels, tuple(labels[at] for at in sorted(range(len(labels)), key=match.order.__getitem__))

    # ---- what the search tells ------------------------------------------------------------------------------------

    def resolved(self, term: Term, found: Term) -> None:
        inner = self.views.maker(found)
        if inner is not None:
            self.state.place = inner
        elif found is term and id(term) in self._within:
            self.state.place = self._within[id(term)][1]
        if self.state.place is not None:
            children = found.args if isinstance(found, Apply) else (found.body,) if isinstance(found, Reduce) else ()
            for child in children:
                self._within.setdefault(id(child), (child, self.state.place))

    def met(self, term: Term) -> None:
        self.state.place = self.views.maker(term) or self.state.place

    def failed(self, failure: Failure) -> None:
        assert failure.node is not None, "a search that is given up tells no failure"
        self.stop = self._stop(failure.node, failure.why, failure.operands)

    # ---- notes ----------------------------------------------------------------------------------------------------

    def _stop(self, node: Wanted, why: Why, operands: tuple[Any, ...] = ()) -> Stop:
        state = self.state
        held, term = dict(state.held), state.term
        for (number, seen), place in state.numbers.items():
            if number is node:
                term = seen
            elif self._agrees(number, seen):
                held[id(number)] = place
        return Stop(
            node=node,
            why=why,
            operands=operands,
            at=self._at(node),
            term=term,
            held=held,
            seen=frozenset(key for key, _ in self.search.entered),
            looked=frozenset([*state.ops, *self._ops_of(held.values()), *self._ops_of([state.place])]),
            inputs=dict(state.inputs),
            dims={name: size for name, (size, _) in state.dims.items()},
            types=dict(state.types),
            binding=state.binding,
            labels=dict(state.labels),
            asked=state.asked[0],
            given=state.asked[1],
            loops=tuple((node.loops, loops) for node, loops in state.reductions.items()),
        )

    def _at(self, node: Wanted) -> Thing | None:
        state = self.state
        if state.value is not None:
            return state.value
        if state.place is not None:
            return state.place
        if isinstance(node, Input | Asked) and node.name in state.inputs:
            return state.inputs[node.name].value
        return state.held.get(id(node)) or (state.roots[0].value if state.roots else None)

    def _agrees(self, number: Number, found: Term) -> bool:
        """Whether a number that is only judged at the end is the one that the pattern asks for."""
        if not isinstance(found, Constant):
            return False
        verdicts = self.search.verdicts
        return verdicts.same_number(number, found, verdicts.static_dims(), Classes(self.state.equal))

    @staticmethod
    def _ops_of(things: Any) -> list[ir.Operation]:
        found = []
        for thing in things:
            op = defining_op(thing) if isinstance(thing, ir.Value) else thing
            while op is not None:
                found.append(op)
                op = op.parent.operation if op.parent is not None and op.parent.name.startswith("linalg.") else None
        return found
