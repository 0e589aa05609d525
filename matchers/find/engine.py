"""The engine: find every place where a pattern holds, and change nothing.

`matchers.find.lookalikes` picks the ops that some pattern could start at, by `matchers.find.index`, and says what was
found where the program looked the same. Where it looks new, `matchers.find.prefilter` drops the patterns that cannot
hold for their first ops alone, and `matchers.search` tries each of the others.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from iree.compiler import ir

from opsplice.matchers.find.index import SPLIT, Index, ends_of
from opsplice.matchers.find.lookalikes import Recall, Traits
from opsplice.matchers.find.prefilter import Sieve
from opsplice.matchers.find.relocation import Template
from opsplice.matchers.find.size_variants import LEAST_MEMBERS, family_key, sort
from opsplice.matchers.ir.op_names import function_around
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.patterns.nodes import Asked, Form, Graph
from opsplice.matchers.search.matches import Found, Match, NearMiss
from opsplice.matchers.search.search import MAX_STEPS, Search
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.syntax import tree

MAX_NEAR_MISSES = 5
_LEAST_STEPS = 1000
# How many terms are remembered before memory is given back: each takes 1.5 KB.
_MOST_REMEMBERED = 20_000


class Patterns:
    """Graphs made ready to be looked for together, in any number of modules."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self.graphs = tuple(graphs)
        self.position = {graph: number for number, graph in enumerate(graphs)}
        self.index = Index(graphs)
        self.traits = Traits.of(graphs)
        self._sides: dict[tuple[Graph, ...], tuple[tuple[Graph, ...], tuple[Graph, ...]]] = {}
        self._sieves: dict[tuple[Graph, ...], Sieve] = {}
        self._families: dict[Graph, Any] = {}
        for name in self.index.names or ():
            for side in self.sides(self.index.starting_at((name, None))):
                self.sieve(side)
        for graph in self.traits.local if len(graphs) >= LEAST_MEMBERS else ():
            self.family(graph)

    def sides(self, graphs: tuple[Graph, ...]) -> tuple[tuple[Graph, ...], tuple[Graph, ...]]:
        """The local ones of some graphs, and the others."""
        if graphs not in self._sides:
            local = tuple(graph for graph in graphs if graph in self.traits.local)
            self._sides[graphs] = (local, tuple(graph for graph in graphs if graph not in self.traits.local))
        return self._sides[graphs]

    def sieve(self, graphs: tuple[Graph, ...]) -> Sieve:
        if graphs not in self._sieves:
            self._sieves[graphs] = Sieve(graphs)
        return self._sieves[graphs]

    def family(self, graph: Graph) -> Any:
        """Equal for graphs that can be searched for together; None for one that cannot."""
        if graph not in self._families:
            asks = any(isinstance(part, (Asked, Form)) for part in tree.parts(graph.conditions))
            self._families[graph] = None if asks or graph not in self.traits.local else family_key(graph)
        return self._families[graph]


@functools.lru_cache(maxsize=8)
def ready(graphs: tuple[Graph, ...]) -> Patterns:
    """Graphs made ready, once for those of the specs that a process compiles with."""
    return Patterns(graphs)


def find(
    module: ir.Module,
    graphs: Sequence[Graph] | Patterns,
    near_misses: int = MAX_NEAR_MISSES,
    views: Views | None = None,
) -> Found:
    """Every match of every graph in the module, in program order, with the nearest misses of each pattern.

    Matches of different graphs may overlap; settling that is the planner's work. What is found holds values of the
    module, which are only good while the module is alive and unchanged. near_misses: how many to keep of each pattern;
    they change no match, and none cost nothing. views: of the module, where others share what they read.
    """
    patterns = graphs if isinstance(graphs, Patterns) else ready(tuple(graphs))
    finder = Finder(patterns, near_misses, views)
    return Found(finder.find(module), finder.near_misses({graph.pattern.name for graph in patterns.graphs}))


@dataclass(frozen=True)
class _Place:
    """A value that a pattern could have its result at. number: its place in the program's order.

    around: the values around it, by number, where it is one of several that look alike.
    """

    number: int
    value: ir.Value
    around: Sequence[ir.Value] = ()

    @functools.cached_property
    def function(self) -> str:
        return function_around(self.value.owner.operation)

    @functools.cached_property
    def makers(self) -> dict[ir.Operation, int]:
        """The ops that make the values around it, each with the number of one of these."""
        makers = ((defining_op(value), number) for number, value in enumerate(self.around))
        return {op: number for op, number in makers if op is not None}

    @property
    def is_split(self) -> bool:
        """Whether the value only splits dims of another: a pattern may still be for the rank that it has."""
        return bool(self.value.owner.operation.name == SPLIT)


@dataclass(frozen=True, eq=False)
class _Known:
    """What was found at places that look alike.

    matches: for each graph that holds, by its position, what its matches are made of. missed: the near misses at the
    first place. near: graphs that the sieve stopped, though not at the first ops. places: the first of these places,
    as many as near misses are kept. is_all: whether no other graphs start there.
    """

    matches: tuple[tuple[int, Template], ...]
    missed: tuple[NearMiss, ...]
    near: tuple[Graph, ...]
    places: list[_Place]
    is_all: bool


@dataclass
class _Result:
    """What was found at one place, in the order of the graphs. certain: whether every search came to an end."""

    matches: list[tuple[int, Match]] = field(default_factory=list)
    missed: list[NearMiss] = field(default_factory=list)
    near: list[Graph] = field(default_factory=list)
    certain: bool = True


class Finder:
    """Finds what `find` does, but near misses only of the patterns that are asked for. Use it once.

    near_misses: how many to keep of each pattern.
    """

    def __init__(self, patterns: Patterns, near_misses: int, views: Views | None = None) -> None:
        self.patterns = patterns
        self.most_misses = near_misses
        self.views = Views() if views is None else views
        self.recall = Recall(patterns.traits, patterns.index.names, self.views)
        self.max_steps = dict.fromkeys(patterns.graphs, MAX_STEPS)
        self.known: list[_Known] = []

    def find(self, module: ir.Module) -> tuple[Match, ...]:
        """All matches, in program order."""
        matches: list[Match] = []
        for number, value, known in self.recall.places(module):
            if len(self.views) > _MOST_REMEMBERED:
                self.views.forget()
            place = _Place(number, value)
            if known is not None and known.is_all:
                matches.extend(match for _, match in self._recalled(place, known))
            else:
                matches.extend(self._met(place, known))
        return tuple(matches)

    def near_misses(self, names: Collection[str]) -> tuple[NearMiss, ...]:
        """The nearest misses of patterns with some names, once all matches are found and before the module changes."""
        nearest = _Nearest(self.most_misses)
        for known in self.known if names else ():
            first = known.places[0]
            judged = (self._missed(first, graph) for graph in known.near if graph.pattern.name in names)
            missed = [miss for miss in (*known.missed, *judged) if miss is not None and miss.pattern in names]
            for miss, place in itertools.product(missed, known.places):
                nearest.add(self.patterns.position[miss.graph], place, miss, first)
        found = (self._moved(*each) for each in nearest.in_order(self.patterns.graphs))
        return tuple(miss for miss in found if miss is not None)

    # ---- one place ------------------------------------------------------------------------------------------------

    def _met(self, place: _Place, known: _Known | None) -> list[Match]:
        """The matches at a place that looks new, or that not all graphs can be remembered for."""
        index = self.patterns.index
        if place.is_split:
            graphs = index.starting_at_split(place.value.owner.operation)
        else:
            graphs = index.starting_at(ends_of(place.value))
        local, others = self.patterns.sides(graphs)
        matches = self._learned(place, local, not others) if known is None else self._recalled(place, known)
        if others:
            result = self._searched(place, others)
            self._note(place, result, is_all=False)
            matches = sorted([*matches, *result.matches], key=lambda entry: entry[0])
        return [match for _, match in matches]

    def _recalled(self, place: _Place, known: _Known) -> list[tuple[int, Match]]:
        if len(known.places) < self.most_misses:
            known.places.append(replace(place, around=self.recall.values()))
        self._hush(known)
        values = self.recall.values() if known.matches else ()
        return [(at, template.match(values, place.function)) for at, template in known.matches]

    def _hush(self, known: _Known) -> None:
        """Places that look as these need no more than this where nothing else is to be found, nor to be noted."""
        if known.is_all and not known.matches:
            noted = known.missed or known.near
            if not noted or len(known.places) >= self.most_misses:
                self.recall.hush(known)

    def _learned(self, place: _Place, graphs: tuple[Graph, ...], is_all: bool) -> list[tuple[int, Match]]:
        result = self._searched(place, graphs)

        def made(numbers: Mapping[ir.Value, int]) -> _Known | None:
            templates = [(at, Template.of(match, numbers)) for at, match in result.matches]
            kept = tuple((at, template) for at, template in templates if template is not None)
            if len(kept) < len(templates):
                return None
            return self._note(replace(place, around=self.recall.values()), result, kept, is_all=is_all)

        learned = self.recall.learn(place.value, self.views.reads, made) if result.certain else None
        if learned is not None:
            self._hush(learned)
        else:
            self._note(place, result, is_all=is_all)
        return result.matches

    def _note(
        self, place: _Place, result: _Result, kept: tuple[tuple[int, Template], ...] = (), *, is_all: bool
    ) -> _Known:
        """Keep what was found at a place, with its near misses if they are asked for."""
        places = [place] if self.most_misses else []
        known = _Known(kept, tuple(result.missed), tuple(result.near), places, is_all)
        if places and (known.missed or known.near):
            self.known.append(known)
        return known

    def _searched(self, place: _Place, graphs: tuple[Graph, ...]) -> _Result:
        """Try each graph. What it depends on is in the reads of the views afterwards."""
        self.views.reads.clear()
        self.views.reads[place.value] = None
        if not graphs:
            return _Result()
        fitting, near = self.patterns.sieve(graphs).sort(self.views, place.value)
        result = _Result(near=near)
        for graph in self._possible(fitting, place, result):
            search = self._search(graph, place)
            match = search.run(place.value, at_view=place.is_split)
            if match is not None:
                result.matches.append((self.patterns.position[graph], match))
                continue
            if self.most_misses and search.progress > 0:
                result.missed.append(search.near_miss(place.value))
            if search.gave_up:  # a pattern that is too large everywhere must not cost the full price each time
                result.certain = False
                self.max_steps[graph] = max(self.max_steps[graph] // 2, _LEAST_STEPS)
        return result

    def _possible(self, graphs: Sequence[Graph], place: _Place, result: _Result) -> Sequence[Graph]:
        """The graphs without those that their family's search rules out, which go to near misses or to `near`."""
        families: dict[Any, list[Graph]] = {}
        if len(graphs) >= LEAST_MEMBERS:
            for graph in graphs:
                families.setdefault(self.patterns.family(graph), []).append(graph)
        out: set[Graph] = set()
        for key, family in families.items():
            if key is not None and len(family) >= LEAST_MEMBERS:
                function = place.function if self.most_misses else None
                fitting, missed, near = sort(
                    self.views, family, place.value, at_view=place.is_split, misses_in=function
                )
                out.update(set(family).difference(fitting))
                result.missed += missed
                result.near += near
        return [graph for graph in graphs if graph not in out]

    def _search(self, graph: Graph, place: _Place) -> Search:
        return Search(self.views, graph, place.function, self.max_steps[graph])

    # ---- near misses ----------------------------------------------------------------------------------------------

    def _missed(self, place: _Place, graph: Graph) -> NearMiss | None:
        search = self._search(graph, place)
        if search.run(place.value, at_view=place.is_split, as_it_is=True) is None and search.progress > 0:
            return search.near_miss(place.value)
        return None

    def _moved(self, place: _Place, miss: NearMiss, first: _Place) -> NearMiss | None:
        """A near miss that was found at the first of places that look alike, as it is at another."""
        if place is first:
            return miss
        if any(isinstance(operand, ir.Operation) for operand in miss.operands):  # another user of a value
            return self._missed(place, miss.graph)
        op = None
        if miss.op is not None:
            if miss.op not in first.makers:
                return self._missed(place, miss.graph)
            op = defining_op(place.around[first.makers[miss.op]])
        return replace(miss, function=place.function, value=place.value, op=op)


class _Nearest:
    """The places where the searches for each pattern got furthest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of_pattern: dict[str, list[tuple[tuple[float, int, int], _Place, NearMiss, _Place]]] = {}

    def add(self, position: int, place: _Place, miss: NearMiss, first: _Place) -> None:
        """miss: what was found at the first of the places that look as this one. position: that of its graph."""
        nearest = self._of_pattern.setdefault(miss.pattern, [])
        order = (-miss.progress, place.number, position)
        if len(nearest) == self._most and nearest[-1][0] < order:
            return
        nearest.append((order, place, miss, first))
        nearest.sort(key=lambda entry: entry[0])
        del nearest[self._most :]

    def in_order(self, graphs: Sequence[Graph]) -> Iterator[tuple[_Place, NearMiss, _Place]]:
        """By pattern, in the order of the graphs: places, and what was found at the first ones that look so."""
        for name in dict.fromkeys(graph.pattern.name for graph in graphs):
            for _, place, miss, first in self._of_pattern.get(name, ()):
                yield place, miss, first
