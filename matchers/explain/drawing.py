"""A pattern drawn against a payload: its parts as a tree of rows, with what became of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from iree.compiler import ir

from opsplice.common.errors import printable
from opsplice.matchers.explain.near_miss import Part, Place, Reason, State
from opsplice.matchers.explain.places import place_of
from opsplice.matchers.patterns.nodes import Choice, Graph, Input, Node
from opsplice.matchers.patterns.walk import children_of, heads, is_judged, nodes_below
from opsplice.matchers.search.failures import Kind
from opsplice.matchers.search.tracing import Stop
from opsplice.spec_lang.syntax import tree

_MAX_TEXT = 200


@dataclass
class Drawing:
    """The parts of a pattern as a tree of rows, with what became of each.

    alike: the payload op that each node is alike, by the node's id; names: what lets call the expression at a span.
    """

    graph: Graph
    stop: Stop
    reason: Reason
    alike: Mapping[int, ir.Operation | None]
    names: Mapping[tree.Span, str]
    rows: list[Part] = field(default_factory=list, init=False)
    drawn: set[tuple[tree.Span, State]] = field(default_factory=set, init=False)

    def parts(self) -> tuple[Part, ...]:
        """The rows, in depth-first order, shared parts once. Call it once."""
        for result in self.graph.results:
            self._draw(result.node, None, 0)
        self._mark_stop()
        where = self.reason.span
        if self.stop.kind is Kind.CONDITION and where is not None:
            text = f"where {_source(where)}"
            self.rows.append(Part(text, text, where, 0, State.FAILED, False, None))
        return tuple(self.rows)

    def _mark_stop(self) -> None:
        """Mark where the search stopped, also where another node of that part has its row."""
        if self.stop.kind in (Kind.CONDITION, Kind.STEPS) or any(row.state is State.FAILED for row in self.rows):
            return
        span = self.reason.span
        at = next((n for n in reversed(range(len(self.rows))) if self.rows[n].span == span), None)
        if at is not None:
            self.rows[at] = dataclasses.replace(self.rows[at], state=State.FAILED, place=self.reason.at)

    @cached_property
    def absent(self) -> frozenset[int]:
        return _absent(self.graph, self.stop)

    def _draw(self, node: Node, above: tree.Span | None, depth: int) -> None:
        span = self.graph.spans.get(id(node))
        if span is not None and span != above:
            state = self._state(node, span)
            if (span, state) in self.drawn:
                if span in self.names:
                    self.rows.append(self._row(node, span, depth, state, open_=False, again=True))
                return
            again = any(span == s for s, _ in self.drawn)
            self.drawn.add((span, state))
            inner = [] if again and not self._fails_below(node) else children_of(node)
            self.rows.append(self._row(node, span, depth, state, open_=bool(inner), again=again))
        else:
            inner = children_of(node)
        for child in {id(c): c for c in inner}.values():
            self._draw(child, span or above, depth if span is None or span == above else depth + 1)

    def _row(self, node: Node, span: tree.Span, depth: int, state: State, *, open_: bool, again: bool) -> Part:
        name, source = self.names.get(span), _source(span)
        text, whole = _head(source) if open_ or again else source, source
        if name is not None:
            text, whole = name if again and not open_ else f"{name} = {text}", f"{name} = {whole}"
        place = self._place(node, state)
        is_named = again and not open_
        return Part(text[:_MAX_TEXT], whole[:_MAX_TEXT], span, depth, state, isinstance(node, Input), place, is_named)

    def _state(self, node: Node, span: tree.Span) -> State:
        """A part that the graph has several nodes for is as its outermost node, unless one of the others failed."""
        same = [node, *(n for n in children_of(node) if self.graph.spans.get(id(n)) == span)]
        failed = self.stop.kind not in (Kind.CONDITION, Kind.STEPS)
        if failed and any(n is self.stop.node for n in same):
            return State.FAILED
        unjudged = State.ABSENT if id(node) in self.absent else State.OPEN
        if isinstance(node, Input):
            return State.HELD if id(node) in self.stop.seen and node.name in self.stop.inputs else unjudged
        if unjudged is State.OPEN and not is_judged(node) and id(node) in self.stop.seen:
            return State.HELD
        if id(node) in self.stop.held:
            return State.HELD
        return State.ALIKE if id(node) in self.alike and unjudged is State.OPEN else unjudged

    def _place(self, node: Node, state: State) -> Place | None:
        if state is State.FAILED:
            return self.reason.at
        if state in (State.OPEN, State.ABSENT):
            return None
        if isinstance(node, Input):
            value = self.stop.inputs[node.name].value
            constant = self.stop.inputs[node.name].constant
            return Place(f"the constant {constant:g}", "", "") if value is None else place_of(value, text=False)
        thing = (self.alike if state is State.ALIKE else self.stop.held).get(id(node))
        return None if thing is None else place_of(thing, text=False)

    def _fails_below(self, node: Node) -> bool:
        return any(n is self.stop.node for n in nodes_below(children_of(node)))


def _absent(graph: Graph, stop: Stop) -> frozenset[int]:
    """The ids of optional ops that the program does without, with what only they have."""
    found: set[int] = set()
    for node in nodes_below([result.node for result in graph.results]):
        if not isinstance(node, Choice):
            continue
        whole, *others = node.options
        parts = {id(part) for part in nodes_below([whole])}
        if len(others) == 1 and id(others[0]) in parts and _holds(others[0], stop) and not _holds(whole, stop):
            found |= {id(node), *parts} - {id(part) for part in nodes_below(others)}
    return frozenset(found)


def _holds(node: Node, stop: Stop) -> bool:
    """Whether a node held, or is where the search stopped behind what held."""
    ends = heads(node)
    return any(id(end) in stop.held or (isinstance(end, Input) and end.name in stop.inputs) for end in ends)


def _source(span: tree.Span) -> str:
    """What a spec writes, in one line and without comments."""
    text = span.written.replace("( ", "(").replace(" )", ")")
    return printable(text)


def _head(text: str) -> str:
    """An expression without its arguments: `cmpf {predicate = ugt}` for `cmpf(x, 0.0) {predicate = ugt}`."""
    kept, depth, labels = [], 0, 0
    for character in text:
        labels += (character == "[") - (character == "]")
        depth += character == "(" and not labels
        if not depth:
            kept.append(character)
        depth -= character == ")" and not labels
    return "".join(kept).strip()
