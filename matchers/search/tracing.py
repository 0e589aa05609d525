"""A search that takes notes: which payload op each part of the pattern held at, and all that is known where it stopped.

It finds what `matchers.search` finds, step by step the same; it only writes down more. So a search that failed is
simply done again with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from iree.compiler import ir

from opsplice.matchers.dims.equal_sizes import Classes
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.patterns.nodes import Graph, Input, Label, Number
from opsplice.matchers.search.matches import Binding, Kind, Match
from opsplice.matchers.search.search import MAX_STEPS, Search
from opsplice.matchers.terms.terms import Access, Apply, Constant, Index, Loop, Reduce, Term
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.syntax import tree

Thing: TypeAlias = ir.Operation | ir.Value


@dataclass(frozen=True, eq=False)
class Stop:
    """Where a search stopped that got furthest, and what was known there.

    node: the part of the pattern, or the part of a condition; term: what the program has there, if that was read;
    about: as for `_fail`. at: the payload op or value there.
    held: for each node that held, by its id, the op that it held at.
    seen: the ids of all nodes that were looked at on the way. looked: every payload op that was looked at.
    labels: what each label is bound to; asked, given: the labels and the indices that were being compared.
    loops: the loops of each reduction by the labels that the pattern has for them.
    """

    node: Any
    kind: Kind
    wanted: str
    found: str
    about: str
    at: Thing | None
    term: Any
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


class Tracer(Search):
    """A `Search` with notes. `stop` is set where it failed."""

    def __init__(self, views: Views, graph: Graph, function: str, max_steps: int = MAX_STEPS) -> None:
        super().__init__(views, graph, function, max_steps)
        self.stop: Stop | None = None
        self._places: dict[int, Thing | None] = {}
        self._within: dict[int, tuple[Term, ir.Operation]] = {}
        self._value: ir.Value | None = None
        self._term: Any = None  # what was read last
        self._asked: tuple[tuple[Label, ...], tuple[Index, ...]] = ((), ())
        self._binding: Binding | None = None
        self._quiet = False

    @property
    def looked(self) -> frozenset[ir.Operation]:
        """The payload ops that were looked at on the way that got furthest."""
        return frozenset() if self.stop is None else self.stop.looked

    def run(self, value: ir.Value, *, at_view: bool = False, as_it_is: bool = False) -> Match | None:
        match = super().run(value, at_view=at_view, as_it_is=as_it_is)
        if match is None and self.gave_up:
            self.stop = self._stop(self.graph.results[0].node, Kind.STEPS, "a decision", "one too large to decide")
        elif match is None and self.stop is None:
            # The search never began: what a view rearranges is looked for where it is made.
            self.place = defining_op(value)
            self.stop = self._stop(
                self.graph.results[0].node, Kind.VIEW, "an op that computes", "one that only passes on or rearranges"
            )
        return match

    def _set(self, table: dict[Any, Any], key: Any, value: Any = None) -> None:
        if table is self.held and key not in table:
            self._places[key] = self.place
        super()._set(table, key, value)

    def _resolve(self, term: Term) -> Term:
        found = self._term = super()._resolve(term)
        inner = self.views.maker(found)
        if inner is not None:
            self.place = inner
        elif found is term and id(term) in self._within:
            self.place = self._within[id(term)][1]
        if self.place is not None:
            children = found.args if isinstance(found, Apply) else (found.body,) if isinstance(found, Reduce) else ()
            for child in children:
                self._within.setdefault(id(child), (child, self.place))
        return found

    def _input_branches(self, node: Input, term: Term) -> Iterator[Any]:
        self.place = self.views.maker(term) or self.place
        return super()._input_branches(node, term)

    def _tensor(
        self, node: Input, parameter: tree.Parameter, access: Access, above: list[Access]
    ) -> list[tuple[Any, Any]] | None:
        self._value = access.value
        try:
            return super()._tensor(node, parameter, access, above)
        finally:
            self._value = None

    def _scalar(self, node: Input, parameter: tree.Parameter, term: Term) -> list[tuple[Any, Any]] | None:
        self._value = term.value if isinstance(term, Access) and defining_op(term.value) is None else None
        try:
            return super()._scalar(node, parameter, term)
        finally:
            self._value = None

    def _bind(self, node: Input, element: str, binding: Binding) -> bool:
        self._binding = binding
        try:
            return super()._bind(node, element, binding)
        finally:
            self._binding = None

    def _unify(self, node: Any, labels: tuple[Label, ...], indices: tuple[Index, ...]) -> Any:
        self._asked = (labels, indices)
        try:
            return super()._unify(node, labels, indices)
        finally:
            self._asked = ((), ())

    def _other_op(self, node: Any, wanted: str, found: Any) -> None:
        self._term = found
        if isinstance(found, Access):
            self._value = found.value
        super()._other_op(node, wanted, found)
        self._value = None

    def _fail(self, node: Any, wanted: str, found: str, kind: Kind = Kind.OTHER, about: str = "") -> bool:
        if self._quiet:
            return False
        before = self.furthest
        super()._fail(node, wanted, found, kind, about)
        if self.furthest is not before:
            self.stop = self._stop(node, kind, wanted, found, about)
        return False

    # ---- notes ----------------------------------------------------------------------------------------------------

    def _stop(self, node: Any, kind: Kind, wanted: str, found: str, about: str = "") -> Stop:
        held = {key: self._places.get(key) for key in self.held}
        term = self._term
        for (number, seen), place in self.numbers.items():
            if number is node:
                term = seen
            elif self._agrees(number, seen):
                held[id(number)] = place
        return Stop(
            node=node,
            kind=kind,
            wanted=wanted,
            found=found,
            about=about,
            at=self._at(node),
            term=term,
            held=held,
            seen=frozenset(key for key, _ in self.entered),
            looked=frozenset([*self.ops, *self._ops_of(held.values()), *self._ops_of([self.place])]),
            inputs=dict(self.inputs),
            dims={name: size for name, (size, _) in self.dims.items()},
            types=dict(self.types),
            binding=self._binding,
            labels=dict(self.labels),
            asked=self._asked[0],
            given=self._asked[1],
            loops=tuple((node.loops, loops) for node, loops in self.reductions.items()),
        )

    def _at(self, node: Any) -> Thing | None:
        if self._value is not None:
            return self._value
        if self.place is not None:
            return self.place
        if isinstance(node, Input) and node.name in self.inputs:
            return self.inputs[node.name].value
        return self._places.get(id(node)) or (self.roots[0].value if self.roots else None)

    def _agrees(self, number: Number, found: Term) -> bool:
        """Whether a number that is only judged at the end is the one that the pattern asks for."""
        if not isinstance(found, Constant):
            return False
        self._quiet = True
        try:
            return self._same_number(number, found, self._static_dims(), Classes(self.equal))
        finally:
            self._quiet = False

    @staticmethod
    def _ops_of(things: Any) -> list[ir.Operation]:
        found = []
        for thing in things:
            op = defining_op(thing) if isinstance(thing, ir.Value) else thing
            while op is not None:
                found.append(op)
                op = op.parent.operation if op.parent is not None and op.parent.name.startswith("linalg.") else None
        return found
