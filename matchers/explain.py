"""Why patterns do not match: near misses told in full, and the patterns tried at any op that is pointed at.

It searches on its own, beside `matchers.engine`, and changes no result: a search that failed is done again with notes
(`matchers.tracing`) and its reason put into words (`matchers.reasons`). What it returns holds no values of the module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from iree.compiler import ir

from opsplice.matchers.alignment import Alignment
from opsplice.matchers.attempt import Attempt, Part, Place, Reason, State
from opsplice.matchers.graph import Graph, Input
from opsplice.matchers.match import Kind, Match, NearMiss
from opsplice.matchers.places import function_of, outermost, place_of
from opsplice.matchers.reasons import children_of, nodes_below, reason_of, short
from opsplice.matchers.search import MAX_STEPS, Search
from opsplice.matchers.terms import Apply, Reduce
from opsplice.matchers.tracing import Stop, TracedViews, Tracer
from opsplice.spec_lang import tree

# An op that is pointed at may lie inside a match that ends further down: how many values below it are tried.
_MOST_BELOW = 256
_MAX_TEXT = 200
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*')
# What was given up once is not tried to its end again.
_FEW_STEPS = 1000
# How many places where a pattern's last op stands are compared with the whole of it.
_MOST_COMPARED = 60
# More than this part of a pattern must be alike for a place to count as near.
_ALIKE = 0.5


class Explainer:
    """Tells of one module why graphs do not match in it. patterns: all that the spec declares, by name."""

    def __init__(self, patterns: Mapping[str, tree.Pattern]) -> None:
        self.views = TracedViews()
        self.alignment = Alignment(self.views)
        self._names = {let.expr.span: ", ".join(let.names) for p in patterns.values() for let in p.body}

    def near_misses(self, misses: Iterable[NearMiss]) -> list[Attempt]:
        """Near misses that a search found, told in full; those that stopped for one reason at one place are one."""
        attempts = [a for miss in misses if (a := self._retraced(miss)) is not None]
        return sorted(_told_once(attempts), key=lambda a: -a.progress)

    def nearest(
        self, module: ir.Module, graphs: Sequence[Graph], matches: Sequence[Match], count: int
    ) -> list[Attempt]:
        """The places of a module where the graphs of one pattern come nearest, those that are most alike first.

        matches: of the pattern; what lies inside them is no place where it should have been. Where there are none, one
        place is given however far it is, if any op is what the pattern ends with.
        """
        inside = {op for match in matches for op in match.ops}
        candidates: list[tuple[bool, tuple[int, int], Graph, ir.Value]] = []
        for op in _ops_with_results(module):
            if op in inside:
                continue
            for value in op.results:
                for graph in graphs:
                    if not self._may_end(graph, value):
                        continue
                    search = Search(self.views, graph, "")
                    matched = search.run(value) is not None
                    failure = search.furthest
                    if matched or failure is None or (failure.kind is Kind.OP and failure.node is _ending(graph)):
                        continue
                    candidates.append((search.progress > 0, failure.held, graph, value))
        candidates.sort(key=lambda each: each[:2], reverse=True)
        ranked = [(self._similarity(g, v, inside), far, g, v) for far, _, g, v in candidates[:_MOST_COMPARED]]
        ranked.sort(key=lambda each: each[:2], reverse=True)
        # Many an op is like the last one of a pattern, and that alone says little.
        best = ranked[0][0] / 2 if ranked else 0.0
        near = [(g, v) for similarity, far, g, v in ranked if similarity >= best and (far or similarity > _ALIKE)]
        if not near and not matches:
            near = [(g, v) for _, _, g, v in ranked[:1]]
        attempts = [a for graph, value in near[: 2 * count] if (a := self._tried(graph, value)) is not None]
        return sorted(_told_once(attempts), key=lambda a: (-a.similarity, -a.progress))[:count]

    def _may_end(self, graph: Graph, value: ir.Value) -> bool:
        """False where another op than the pattern's last one makes a value."""
        node, found = _ending(graph), self.views.resolve(self.views.whole(value))
        if isinstance(node, Apply):
            return isinstance(found, Apply) and found.op == node.op
        return not isinstance(node, Reduce) or (isinstance(found, Reduce) and found.combiner == node.combiner)

    def _similarity(self, graph: Graph, value: ir.Value, inside: Set[ir.Operation] = frozenset()) -> float:
        """Which part of a pattern is alike. What is `inside` matches belongs there, and does not count."""
        score = self.alignment.score(graph.results[0], value)
        if inside:
            alike = self.alignment.alike(graph.results[0], value).values()
            score = min(score, sum(op is None or outermost(op) not in inside for op in alike))
        return score / max(1, graph.size)

    def at(self, graphs: Sequence[Graph], ops: Sequence[ir.Operation]) -> list[Attempt]:
        """Why the graphs of one pattern do not hold at ops, nor around them: for each op the attempt that got furthest.

        An op counts as the pattern's last one, or as any part that the pattern has before it.
        """
        tried: dict[tuple[Graph, ir.Value], Tracer | None] = {}

        def trace(graph: Graph, value: ir.Value) -> Tracer | None:
            if (graph, value) not in tried:
                tracer = Tracer(self.views, graph, function_of(value.owner.operation))
                tried[graph, value] = tracer if tracer.run(value) is None else None
            return tried[graph, value]

        found: dict[Any, Attempt] = {}
        for op in ops:
            best: tuple[float, Tracer, ir.Value] | None = None
            for value in [*op.results, *_below(op)]:
                for tracer in filter(None, (trace(graph, value) for graph in graphs)):
                    here = value.owner == op
                    if here or (tracer.progress > 0 and op in tracer.looked):
                        rank = _progress(tracer) + (0.001 if here else 0)
                        if best is None or rank > best[0]:
                            best = (rank, tracer, value)
            if best is not None:
                attempt = self._attempt(best[1], best[2])
                found.setdefault((attempt.location, attempt.reason), attempt)
        return list(found.values())

    # ---- attempts -------------------------------------------------------------------------------------------------

    def _retraced(self, miss: NearMiss) -> Attempt | None:
        return self._tried(miss.graph, miss.value, _FEW_STEPS if miss.kind is Kind.STEPS else MAX_STEPS)

    def _tried(self, graph: Graph, value: ir.Value, max_steps: int = MAX_STEPS) -> Attempt | None:
        tracer = Tracer(self.views, graph, function_of(value.owner.operation), max_steps)
        return self._attempt(tracer, value) if tracer.run(value) is None else None

    def _attempt(self, tracer: Tracer, value: ir.Value) -> Attempt:
        stop, graph = tracer.stop, tracer.graph
        assert stop is not None, "a search that failed has stopped somewhere"
        reason = reason_of(graph, stop, self.views)
        root = place_of(value)
        alike = self.alignment.alike(graph.results[0], value)
        return Attempt(
            pattern=graph.pattern.name,
            function=tracer.function,
            location=root.location,
            op=root,
            progress=_progress(tracer),
            similarity=self._similarity(graph, value),
            reason=reason,
            parts=tuple(_Drawing(graph, stop, reason, alike, self._names).parts()),
        )


def _told_once(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Attempts without those that stopped for one reason at one place.

    Of these the last is kept: a pattern's result is made last.
    """
    told: dict[Any, Attempt] = {}
    for attempt in attempts:
        why = attempt.reason
        key = (attempt.pattern, why.kind, why.wanted, why.found, why.span, why.at)
        if key not in told or attempt.progress >= told[key].progress:
            told[key] = attempt
    return list(told.values())


def ending_of(graph: Graph) -> str:
    """What a pattern ends with, in words: `mulf`, `a reduction by addf`."""
    node = _ending(graph)
    if isinstance(node, Apply):
        return short(node.op)
    return f"a reduction by {short(node.combiner)}" if isinstance(node, Reduce) else getattr(node, "op", "an input")


def _ending(graph: Graph) -> Any:
    return graph.results[0].node


def covers(match: Match, op: ir.Operation) -> bool:
    """Whether a match accounts for an op."""
    return op in match.ops or any(root.owner == op for root in match.roots)


def _progress(tracer: Tracer) -> float:
    """How far a search got, also where it hardly began."""
    held = 0 if tracer.stop is None else len(tracer.stop.held)
    return held / max(1, tracer.graph.size)


def _below(op: ir.Operation) -> list[ir.Value]:
    """The values that are made from an op's results, the nearest first."""
    seen: dict[ir.Value, None] = {}
    frontier = list(op.results)
    while frontier and len(seen) < _MOST_BELOW:
        made = [r for v in frontier for use in v.uses for r in use.owner.operation.results]
        frontier = [r for r in dict.fromkeys(made) if r not in seen]
        seen.update(dict.fromkeys(frontier))
    return [v for v in list(seen)[:_MOST_BELOW] if v.owner != op]


def _ops_with_results(module: ir.Module) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if len(op.results):
            found.append(op)
        return ir.WalkResult.SKIP if op.name.startswith(("linalg.", "flow.", "stream.", "hal.")) else _ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


_ADVANCE = ir.WalkResult.ADVANCE


# ---- drawing -----------------------------------------------------------------------------------------------------


class _Drawing:
    """The parts of a pattern as a tree of rows, with what became of each."""

    def __init__(
        self,
        graph: Graph,
        stop: Stop,
        reason: Reason,
        alike: Mapping[int, ir.Operation | None],
        names: Mapping[tree.Span, str],
    ) -> None:
        self.graph = graph
        self.stop = stop
        self.reason = reason
        self.alike = alike
        self.names = names
        self.rows: list[Part] = []
        self.drawn: set[tuple[tree.Span, State]] = set()

    def parts(self) -> list[Part]:
        for result in self.graph.results:
            self._draw(result.node, None, 0)
        where = self.reason.span
        if self.stop.kind is Kind.CONDITION and where is not None:
            text = f"where {_source(where)}"
            self.rows.append(Part(text, text, where, 0, State.FAILED, False, None))
        return self.rows

    def _draw(self, node: Any, above: tree.Span | None, depth: int) -> None:
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

    def _row(self, node: Any, span: tree.Span, depth: int, state: State, *, open_: bool, again: bool) -> Part:
        name, source = self.names.get(span), _source(span)
        text, whole = _head(source) if open_ or again else source, source
        if name is not None:
            text, whole = name if again and not open_ else f"{name} = {text}", f"{name} = {whole}"
        place = self._place(node, state)
        return Part(text[:_MAX_TEXT], whole[:_MAX_TEXT], span, depth, state, isinstance(node, Input), place)

    def _state(self, node: Any, span: tree.Span) -> State:
        """A part that the graph has several nodes for is as its outermost node, unless one of the others failed."""
        same = [node, *(n for n in children_of(node) if self.graph.spans.get(id(n)) == span)]
        failed = self.stop.kind not in (Kind.CONDITION, Kind.STEPS)
        if failed and any(n is self.stop.node for n in same):
            return State.FAILED
        if isinstance(node, Input):
            return State.HELD if id(node) in self.stop.seen and node.name in self.stop.inputs else State.OPEN
        if id(node) in self.stop.held:
            return State.HELD
        return State.ALIKE if id(node) in self.alike else State.OPEN

    def _place(self, node: Any, state: State) -> Place | None:
        if state is State.FAILED:
            return self.reason.at
        if state is State.OPEN:
            return None
        if isinstance(node, Input):
            value = self.stop.inputs[node.name].value
            constant = self.stop.inputs[node.name].constant
            return Place(f"the constant {constant:g}", "", "") if value is None else place_of(value, text=False)
        thing = (self.alike if state is State.ALIKE else self.stop.held).get(id(node))
        return None if thing is None else place_of(thing, text=False)

    def _fails_below(self, node: Any) -> bool:
        return any(n is self.stop.node for n in nodes_below(children_of(node)))


def _source(span: tree.Span) -> str:
    """What a spec writes, in one line and without comments."""
    text = _COMMENT.sub(
        lambda found: found[0] if found[0].startswith('"') else " ", span.source.text[span.start : span.end]
    )
    text = " ".join(text.split()).replace("( ", "(").replace(" )", ")")
    return "".join(c for c in text if c.isprintable())


def _head(text: str) -> str:
    """An expression without its arguments: `cmpf {predicate = ugt}` for `cmpf(x, 0.0) {predicate = ugt}`."""
    kept, depth = [], 0
    for character in text:
        depth += character == "("
        if not depth:
            kept.append(character)
        depth -= character == ")"
    return "".join(kept).strip()
