"""The engine: find every place where a pattern holds, and change nothing.

`matchers.find.lookalikes` picks the ops that some pattern could start at, by `matchers.find.index`, and says what was
found where the program looked the same. Where it looks new, `matchers.find.prefilter` drops the patterns that cannot
hold for their first ops alone, and `matchers.search` tries each of the others.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from iree.compiler import ir

from opsplice.matchers.find.index import Index
from opsplice.matchers.find.lookalikes import Recall, Traits
from opsplice.matchers.find.prefilter import Groups, Sieve
from opsplice.matchers.find.relocation import Template
from opsplice.matchers.ir.op_names import function_around, location_text
from opsplice.matchers.patterns.nodes import Graph
from opsplice.matchers.search.matches import Found, Match, NearMiss
from opsplice.matchers.search.search import MAX_STEPS, Search
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang import garbage

MAX_NEAR_MISSES = 5
_LEAST_STEPS = 1000
# How many forms of a result tell how near a miss is: there are hundreds.
_FORMS = 6
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
        self._outlines: dict[Any, Any] = {}
        self._sieves: dict[tuple[Graph, ...], Sieve] = {}
        for name in self.index.names or ():
            for side in self.sides(self.index.starting_at((name, None))):
                self.sieve(side)

    def sides(self, graphs: tuple[Graph, ...]) -> tuple[tuple[Graph, ...], tuple[Graph, ...]]:
        """The local ones of some graphs, and the others."""
        if graphs not in self._sides:
            local = tuple(graph for graph in graphs if graph in self.traits.local)
            self._sides[graphs] = (local, tuple(graph for graph in graphs if graph not in self.traits.local))
        return self._sides[graphs]

    def sieve(self, graphs: tuple[Graph, ...]) -> Sieve:
        if graphs not in self._sieves:
            self._sieves[graphs] = Sieve(graphs, self._outlines)
        return self._sieves[graphs]


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
    """A value that a pattern could have its result at. number: its place in the program's order."""

    number: int
    value: ir.Value

    @functools.cached_property
    def function(self) -> str:
        return function_around(self.value.owner.operation)

    @functools.cached_property
    def location(self) -> str:
        """As text, which takes long to ask for."""
        return location_text(self.value.owner.operation)


@dataclass
class _Result:
    """What was found at one place for some graphs, in their order.

    told: those that were searched for, where near misses may be asked for. is_certain: whether every search came to an
    end.
    """

    graphs: tuple[Graph, ...]
    matches: list[tuple[int, Match]] = field(default_factory=list)
    missed: list[NearMiss] = field(default_factory=list)
    told: Set[Graph] = frozenset()
    is_certain: bool = True


@dataclass(frozen=True, eq=False)
class _Known:
    """What was found at places that look alike.

    matches: for each graph that holds, by its position, what its matches are made of. graphs: those that were tried.
    missed: the near misses at the first place of those that were searched for there, which are `told`; others may have
    come near, too. places: the first of these places, as many as near misses are kept. is_all: whether no other graphs
    start there.
    """

    matches: tuple[tuple[int, Template], ...]
    graphs: tuple[Graph, ...]
    missed: tuple[NearMiss, ...]
    told: Set[Graph]
    places: list[_Place]
    is_all: bool


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

    @garbage.kept()
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

    @garbage.kept()
    def near_misses(self, names: Collection[str]) -> tuple[NearMiss, ...]:
        """The nearest misses of patterns with some names, once all matches are found and before the module changes."""
        nearest, groups = _Nearest(self.most_misses), dict[Sieve, Groups]()
        for known in self.known if names else ():
            first = known.places[0]
            sieve = self.patterns.sieve(known.graphs)
            if sieve not in groups:
                groups[sieve] = sieve.grouped(names)
            begun = sieve.begun(self.views, first.value, groups[sieve])
            judged = (self._missed(first, graph) for graph in begun if graph not in known.told)
            missed = [miss for miss in (*known.missed, *judged) if miss is not None and miss.pattern in names]
            for miss, place in itertools.product(missed, known.places):
                nearest.add(self.patterns.position[miss.graph], place, miss)
        found = nearest.in_order(self.patterns.graphs)
        misses = (miss if miss.value == place.value else self._missed(place, miss.graph) for place, miss in found)
        return tuple(miss for miss in misses if miss is not None)

    # ---- one place ------------------------------------------------------------------------------------------------

    def _met(self, place: _Place, known: _Known | None) -> list[Match]:
        """The matches at a place that looks new, or that not all graphs can be remembered for."""
        graphs = self.patterns.index.starting_at_value(place.value)
        local, others = self.patterns.sides(graphs)
        matches = self._learned(place, local, not others) if known is None else self._recalled(place, known)
        if others:
            result = self._searched(place, others)
            self._note(place, result, is_all=False)
            matches = sorted([*matches, *result.matches], key=lambda entry: entry[0])
        return [match for _, match in matches]

    def _recalled(self, place: _Place, known: _Known) -> list[tuple[int, Match]]:
        if len(known.places) < self.most_misses:
            known.places.append(place)
        self._hush(known)
        values = self.recall.values() if known.matches else ()
        return [(at, template.match(values, place.function, place.location)) for at, template in known.matches]

    def _hush(self, known: _Known) -> None:
        """Places that look as these need no more than this where nothing else is to be found, nor to be noted."""
        noted = self.most_misses and (known.missed or len(known.told) < len(known.graphs))
        if known.is_all and not known.matches and not (noted and len(known.places) < self.most_misses):
            self.recall.hush(known)

    def _learned(self, place: _Place, graphs: tuple[Graph, ...], is_all: bool) -> list[tuple[int, Match]]:
        result = self._searched(place, graphs)

        def made(numbers: Mapping[ir.Value, int]) -> _Known | None:
            templates = [(at, Template.of(match, numbers)) for at, match in result.matches]
            kept = tuple((at, template) for at, template in templates if template is not None)
            return None if len(kept) < len(templates) else self._note(place, result, kept, is_all=is_all)

        learned = self.recall.learn(place.value, self.views.reads, made) if result.is_certain else None
        if learned is not None:
            self._hush(learned)
        else:
            self._note(place, result, is_all=is_all)
        return result.matches

    def _note(
        self, place: _Place, result: _Result, kept: tuple[tuple[int, Template], ...] = (), *, is_all: bool
    ) -> _Known:
        """Keep what was found at a place, and that place if near misses may be asked for."""
        places = [place] if self.most_misses else []
        known = _Known(kept, result.graphs, tuple(result.missed), result.told, places, is_all)
        if places and (known.missed or len(known.told) < len(known.graphs)):
            self.known.append(known)
        return known

    def _searched(self, place: _Place, graphs: tuple[Graph, ...]) -> _Result:
        """Try each graph. What it depends on is in the reads of the views afterwards."""
        self.views.reads.clear()
        self.views.reads[place.value] = None
        result = _Result(graphs)
        if not graphs:
            return result
        tried = self.patterns.sieve(graphs).fitting(self.views, place.value)
        if self.most_misses:
            result.told = {*tried}
        for graph in tried:
            search = self._search(graph, place)
            match = search.run(place.value, at_view=self.patterns.index.is_at_view(graph, place.value))
            if match is not None:
                result.matches.append((self.patterns.position[graph], match))
                continue
            if self.most_misses and search.progress > 0:
                result.missed.append(search.near_miss(place.value))
            if search.gave_up:  # a pattern that is too large everywhere must not cost the full price each time
                result.is_certain = False
                self.max_steps[graph] = max(self.max_steps[graph] // 2, _LEAST_STEPS)
        return result

    def _search(self, graph: Graph, place: _Place) -> Search:
        return Search(self.views, graph, place.function, self.max_steps[graph])

    # ---- near misses ----------------------------------------------------------------------------------------------

    def _missed(self, place: _Place, graph: Graph) -> NearMiss | None:
        search, at_view = self._search(graph, place), self.patterns.index.is_at_view(graph, place.value)
        if search.run(place.value, at_view=at_view, forms=_FORMS) is None and search.progress > 0:
            return search.near_miss(place.value)
        return None


class _Nearest:
    """The places where the searches for each pattern got furthest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of_pattern: dict[str, list[tuple[tuple[float, int, int], _Place, NearMiss]]] = {}

    def add(self, position: int, place: _Place, miss: NearMiss) -> None:
        """miss: what was found at the first of the places that look as this one. position: that of its graph."""
        nearest = self._of_pattern.setdefault(miss.pattern, [])
        order = (-miss.progress, place.number, position)
        if len(nearest) == self._most and nearest[-1][0] < order:
            return
        nearest.append((order, place, miss))
        nearest.sort(key=lambda entry: entry[0])
        del nearest[self._most :]

    def in_order(self, graphs: Sequence[Graph]) -> Iterator[tuple[_Place, NearMiss]]:
        """By pattern, in the order of the graphs: places, and what was found at the first ones that look so."""
        for name in dict.fromkeys(graph.pattern.name for graph in graphs):
            for _, place, miss in self._of_pattern.get(name, ()):
                yield place, miss
