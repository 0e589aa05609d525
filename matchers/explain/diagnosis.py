"""Why patterns do not match: near misses told in full, and the patterns tried at any op that is pointed at.

It searches on its own, beside `matchers.find.engine`, and changes no result: a search that failed is done again with
notes (`matchers.search.tracing`) and its reason put into words (`matchers.explain.reasons`). What it returns holds no
values of the module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from iree.compiler import ir

from opsplice.matchers.explain.alignment import Alignment
from opsplice.matchers.explain.drawing import Drawing
from opsplice.matchers.explain.failure_words import op_text
from opsplice.matchers.explain.near_miss import Attempt
from opsplice.matchers.explain.places import function_of, outermost, place_of
from opsplice.matchers.explain.reasons import reason_of
from opsplice.matchers.find.index import Index
from opsplice.matchers.find.lookalikes import Recall, Traits
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.patterns.nodes import Graph, Whole
from opsplice.matchers.patterns.walk import endings
from opsplice.matchers.search.failures import Kind
from opsplice.matchers.search.matches import Match, NearMiss
from opsplice.matchers.search.search import MAX_STEPS, Search
from opsplice.matchers.search.tracing import Tracer
from opsplice.matchers.terms.canonical import names_of
from opsplice.matchers.terms.terms import Apply, Reduce, Started
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.syntax import tree

# An op that is pointed at may lie inside a match that ends further down: how many values below it are tried.
_MOST_BELOW = 256
# What was given up once is not tried to its end again.
_FEW_STEPS = 1000
# How many places where a pattern's last op stands are compared with the whole of it.
_MOST_COMPARED = 60
# More than this part of a pattern must be alike for a place to count as near.
_ALIKE = 0.5
# How many other patterns are named that match at a place.
_MOST_OTHERS = 3


# Whether a search made progress, how much held, and of which graph.
_Reached = tuple[bool, tuple[int, int], Graph]


@dataclass(eq=False)
class _Alike:
    """How far graphs get at places that look alike, and how many of these were met."""

    reached: tuple[_Reached, ...]
    count: int = 0


def _given(known: _Alike, _numbers: Mapping[ir.Value, int]) -> _Alike:
    return known


class Others:
    """Which patterns match at a value, beside the one that is explained. graphs: by what the user calls them."""

    def __init__(self, views: Views, graphs: Mapping[str, Sequence[Graph]]) -> None:
        self._views = views
        self._names = {graph: name for name, of_name in graphs.items() for graph in of_name}
        self._index = Index(list(self._names))
        self._known: dict[ir.Value, dict[str, int]] = {}

    def at(self, value: ir.Value, name: str, least: int) -> tuple[str, ...]:
        """The largest patterns that match at a value, but for the one of that name. least: how many ops they are of."""
        if value not in self._known:
            self._known[value] = self._found(value)
        sizes = {other: held for other, held in self._known[value].items() if other != name}
        most = max(sizes.values(), default=0)
        return tuple(other for other, held in sizes.items() if held == most >= least)[:_MOST_OTHERS]

    def _found(self, value: ir.Value) -> dict[str, int]:
        op = defining_op(value)
        if op is None:
            return {}
        found = {}
        for graph in self._index.starting_at_value(value):
            at_view = self._index.is_at_view(graph, value)
            match = Search(self._views, graph, "", _FEW_STEPS).run(value, at_view=at_view)
            if match is not None:
                found[self._names[graph]] = match.held
        return found


class Explainer:
    """Tells of one module why graphs do not match in it.

    patterns: all that the spec declares, by name. others: makes the patterns to look for where one does not match.
    views: of the module, where it was searched before.
    """

    def __init__(
        self,
        patterns: Mapping[str, tree.Pattern],
        others: Callable[[], Mapping[str, Sequence[Graph]]] = dict,
        views: Views | None = None,
    ) -> None:
        self.views = Views() if views is None else views
        self._others = cache(lambda: Others(self.views, others()))
        self.alignment = Alignment(self.views)
        self._splits: dict[tuple[Graph, ir.Value], bool] = {}
        self._names = {let.expr.span: ", ".join(let.names) for p in patterns.values() for let in p.body}

    def near_misses(self, misses: Iterable[NearMiss], *, drawn: bool = True) -> list[Attempt]:
        """Near misses that a search found, told in full; those that stopped for one reason at one place are one.

        drawn: False leaves out the IR of places and the parts of patterns, which take most of the time.
        """
        attempts = [a for miss in misses if (a := self._retraced(miss, drawn)) is not None]
        return sorted(_told_once(attempts), key=lambda a: -a.progress)

    def nearest(
        self, module: ir.Module, graphs: Sequence[Graph], matches: Sequence[Match], count: int
    ) -> list[Attempt]:
        """The places of a module where the graphs of one pattern come nearest, those that are most alike first.

        matches: of the pattern; places inside of them are left out. If there are none, one place is
        given however far it is, if any op is what the pattern ends with.
        """
        inside = {op for match in matches for op in match.ops}
        candidates = [
            (*reached, value) for value, found in self._places(module, graphs, inside, 2 * count) for reached in found
        ]
        candidates.sort(key=lambda each: each[:2], reverse=True)
        ranked = [(self._similarity(g, v, inside), far, g, v) for far, _, g, v in candidates[:_MOST_COMPARED]]
        ranked.sort(key=lambda each: each[:2], reverse=True)
        # Many an op is like the last one of a pattern, and that alone says little.
        best = ranked[0][0] / 2 if ranked else 0.0
        near = [(g, v) for similarity, far, g, v in ranked if similarity >= best and (far or similarity > _ALIKE)]
        if not near and not matches:
            near = [(g, v) for _, _, g, v in ranked[:1]]
        # What is split fails for its rank alone, and says less than what is made of it.
        split = {(g, v.owner.operation.operands[0]) for g, v in near if self._is_for_split(g, v)}
        near = [each for each in near if each not in split]
        attempts = [a for graph, value in near[: 2 * count] if (a := self._tried(graph, value)) is not None]
        return sorted(_told_once(attempts), key=lambda a: (-a.similarity, -a.progress))[:count]

    def _places(
        self, module: ir.Module, graphs: Sequence[Graph], inside: Set[ir.Operation], most: int
    ) -> Iterator[tuple[ir.Value, tuple[_Reached, ...]]]:
        """The values at which graphs could have their result, and how far they get there. most: of those alike."""
        traits = Traits.of(graphs)
        local = [graph for graph in graphs if graph in traits.local]
        others = [graph for graph in graphs if graph not in traits.local]
        recall = Recall(traits, Index(graphs).names, self.views)
        for _, value, known in recall.places(module):
            if value.owner.operation in inside:
                continue
            if others:
                yield value, self._reached(others, value)
            if known is None:
                self.views.reads.clear()
                self.views.reads[value] = None
                known = _Alike(self._reached(local, value))
                recall.learn(value, self.views.reads, partial(_given, known))
            known.count += 1
            yield value, known.reached
            if not others and known.count == most:
                recall.hush(known)

    def _reached(self, graphs: Sequence[Graph], value: ir.Value) -> tuple[_Reached, ...]:
        """How far each graph gets at a value that it may end with and does not hold at."""
        found: list[_Reached] = []
        for graph in graphs:
            if self._may_end(graph, value):
                search = Search(self.views, graph, "")
                matched = search.run(value, at_view=self._is_for_split(graph, value)) is not None
                failure = search.furthest
                if matched or failure is None:
                    continue
                found.append((search.progress > 0, failure.held, graph))
        return tuple(found)

    def _is_for_split(self, graph: Graph, value: ir.Value) -> bool:
        """Whether a value only splits or turns dims of another, and a graph wants the rank that it has."""
        key = (graph, value)
        if key not in self._splits:
            index = Index([graph])
            is_made = isinstance(value.owner, ir.OpView | ir.Operation)
            self._splits[key] = is_made and index.is_at_view(graph, value) and graph in index.starting_at_value(value)
        return self._splits[key]

    def _may_end(self, graph: Graph, value: ir.Value) -> bool:
        """False where another op than the pattern's last one makes a value."""
        found = self.views.resolve(self.views.whole(value))
        for node in endings(graph):
            if not isinstance(node, (Apply, Reduce)):
                return True
            if isinstance(node, Apply) and isinstance(found, Apply) and node.op in names_of(found.op):
                return True
            if isinstance(node, Reduce) and isinstance(found, Reduce) and found.combiner == node.combiner:
                return True
            if isinstance(node, Reduce) and isinstance(found, Started) and found.op == node.combiner:
                return True
        return not endings(graph)

    def _similarity(self, graph: Graph, value: ir.Value, inside: Set[ir.Operation]) -> float:
        """Which part of a pattern is alike. What is `inside` matches belongs there, and does not count."""
        like = self.alignment.compare(graph.results[0], value)
        outside = sum(op is None or outermost(op) not in inside for op in like.ops.values())
        return min(like.score, outside) / max(1, graph.size)

    def at(self, graphs: Sequence[Graph], ops: Sequence[ir.Operation]) -> list[Attempt]:
        """Why the graphs of one pattern do not hold at ops, nor around them: for each op the attempt that got furthest.

        An op counts as the pattern's last one, or as any part that the pattern has before it.
        """
        tried: dict[tuple[Graph, ir.Value], Tracer | None] = {}

        def trace(graph: Graph, value: ir.Value) -> Tracer | None:
            if (graph, value) not in tried:
                tracer = Tracer(self.views, graph, function_of(value.owner.operation))
                matched = tracer.run(value, at_view=self._is_for_split(graph, value)) is not None
                tried[graph, value] = None if matched else tracer
            return tried[graph, value]

        found: dict[Any, Attempt] = {}
        for op in ops:
            best: tuple[float, Tracer, ir.Value] | None = None
            for value in [*op.results, *_below(op)]:
                for tracer in filter(None, (trace(graph, value) for graph in graphs)):
                    here = value.owner == op
                    if here or (tracer.search.progress > 0 and op in tracer.looked):
                        rank = _progress(tracer) + (0.001 if here else 0)
                        if best is None or rank > best[0]:
                            best = (rank, tracer, value)
            if best is not None:
                attempt = self._attempt(best[1], best[2])
                found.setdefault((attempt.location, attempt.reason), attempt)
        return list(found.values())

    # ---- attempts -------------------------------------------------------------------------------------------------

    def _retraced(self, miss: NearMiss, drawn: bool) -> Attempt | None:
        max_steps = _FEW_STEPS if miss.why.kind is Kind.STEPS else MAX_STEPS
        return self._tried(miss.graph, miss.value, max_steps, drawn=drawn)

    def _tried(
        self, graph: Graph, value: ir.Value, max_steps: int = MAX_STEPS, *, drawn: bool = True
    ) -> Attempt | None:
        tracer = Tracer(self.views, graph, function_of(value.owner.operation), max_steps)
        matched = tracer.run(value, at_view=self._is_for_split(graph, value)) is not None
        return None if matched else self._attempt(tracer, value, drawn=drawn)

    def _attempt(self, tracer: Tracer, value: ir.Value, *, drawn: bool = True) -> Attempt:
        stop, graph = tracer.stop, tracer.graph
        assert stop is not None, "a search that failed has stopped somewhere"
        reason = reason_of(graph, stop, self.views, text=drawn)
        root = place_of(value, text=drawn)
        attempt = Attempt(
            pattern=graph.pattern.name,
            function=tracer.search.function,
            location=root.location,
            op=root,
            progress=_progress(tracer),
            similarity=0.0,
            reason=reason,
            parts=(),
        )
        if not drawn:
            return attempt
        like = self.alignment.compare(graph.results[0], value)
        return dataclasses.replace(
            attempt,
            similarity=like.score / max(1, graph.size),
            parts=Drawing(graph, stop, reason, like.ops, self._names).parts(),
            others=self._others().at(value, graph.pattern.name, len(stop.held) // 2),
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


def ending_text(graph: Graph) -> str:
    """What a pattern ends with, in words: `mulf`, `a reduction by addf`."""
    texts = (op_text(node) if isinstance(node, (Apply, Reduce, Whole)) else "an input" for node in endings(graph))
    return " or ".join(dict.fromkeys(texts)) or "anything"


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
