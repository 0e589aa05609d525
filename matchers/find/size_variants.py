"""Patterns that differ only in sizes and conditions: one search for all of them.

The search is for the pattern without its sizes and conditions, and goes on after each way in which that holds. A member
of the family can hold only where one of these ways has its sizes and meets its conditions, so the others need no
search. What is left is searched for in full, so nothing rests on this but time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from opsplice.matchers.patterns import walk
from opsplice.matchers.patterns.nodes import Graph
from opsplice.matchers.search.failures import Failure
from opsplice.matchers.search.matches import NearMiss, Size
from opsplice.matchers.search.search import Search
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.dims import judge
from opsplice.spec_lang.syntax import tree

# Fewer are searched for one by one.
LEAST_MEMBERS = 4
_MOST_WAYS = 32
# The fields of a graph that its family has in other ways, or not at all.
_OWN_FIELDS = ("pattern", "ties", "conditions", "spans", "size")


@dataclass(frozen=True)
class _Way:
    """The sizes of one way in which a family holds. written: those that the members write as numbers, in order."""

    dims: judge.Sizes
    written: tuple[Size | tuple[Size, ...] | None, ...]


def rough_key(graph: Graph) -> Any:
    """Equal for graphs of which `family_key` is, and told at once."""
    return len(graph.results), len(graph.ties), len(graph.pattern.parameters), tuple(graph.variables), graph.through


def family_key(graph: Graph) -> Any:
    """Equal for graphs that differ only in sizes written as numbers and in conditions."""
    fields = (getattr(graph, name) for name in graph.__dataclass_fields__ if name not in _OWN_FIELDS)
    ties = tuple(dataclasses.replace(tie, size=0) if isinstance(tie.size, int) else tie for tie in graph.ties)
    return walk.fingerprint(*fields, ties, _opened(graph.pattern.parameters, 0))


def sort(
    views: Views, family: Sequence[Graph], value: ir.Value, *, at_view: bool = False, misses_in: str | None = None
) -> tuple[list[Graph], list[NearMiss]]:
    """The members of a family that may hold with their result at a value, and near misses of others.

    at_view: as for a search. misses_in: the function that the value is in, None if near misses are not asked for.
    """
    ways = _Ways(views, family, misses_in)
    ways.search.run(value, at_view=at_view)
    if ways.search.gave_up:
        return list(family), []
    fitting = [graph for graph in family if any(_meets(graph, way) for way in ways.found)]
    others = (ways.near_miss_of(graph, value) for graph in family if graph not in fitting)
    return fitting, [miss for miss in others if miss is not None]


class _Ways:
    """A search for a graph without its sizes and conditions, that finds every way in which it holds."""

    def __init__(self, views: Views, family: Sequence[Graph], misses_in: str | None) -> None:
        graph = family[0]
        pattern = dataclasses.replace(graph.pattern, parameters=_opened(graph.pattern.parameters, None))
        ties = tuple(tie for tie in graph.ties if not isinstance(tie.size, int))
        opened = dataclasses.replace(graph, pattern=pattern, ties=ties, conditions=())
        self.search = Search(views, opened, misses_in or "", end=self._note)
        self.state = self.search.state
        self.member = graph
        self.found: list[_Way] = []
        # What members differ in only by their conditions: the one that keeps each from holding, where that is furthest.
        self.alike = [] if misses_in is None else [member for member in family if not _sizes(member)]
        self.failures: dict[Graph, Failure] = {}

    def near_miss_of(self, graph: Graph, value: ir.Value) -> NearMiss | None:
        """Why a member does not hold, if that is one of its conditions."""
        failure = self.failures.get(graph)
        furthest = self.state.furthest
        if failure is None or (furthest is not None and furthest.held > failure.held):
            return None
        return self.search.missed(graph, failure, value)

    def _note(self) -> bool:
        """Note a way in which the family holds, and ask for another."""
        if self.search.verdicts.holds():
            way = _Way(self.search.verdicts.static_dims(), tuple(self._written()))
            self.found.append(way)
            self._judge_members(way)
            if len(self.found) == _MOST_WAYS:
                self.search.max_steps = 0  # too many to tell
        return False

    def _judge_members(self, way: _Way) -> None:
        state, furthest = self.state, self.state.furthest
        for graph in self.alike:
            before = self.failures.get(graph)
            state.furthest = furthest if before is None or (furthest and furthest.held > before.held) else before
            self.search.verdicts.meets(graph.conditions, way.dims)
            if state.furthest is not None and state.furthest is not furthest:
                self.failures[graph] = state.furthest
        state.furthest = furthest

    def _written(self) -> Iterator[Size | tuple[Size, ...] | None]:
        for name, at, _ in _numbers(self.member):
            yield self.state.shapes[name][at] if name in self.state.shapes else None
        for tie in self.member.ties:
            if isinstance(tie.size, int):
                bound = [self.state.labels.get(label) for label in tie.labels]
                sizes = tuple(self.state.extent(index) for group in bound if group is not None for index in group)
                yield None if None in bound else sizes[0] if len(sizes) == 1 and not tie.pack else sizes


def _meets(graph: Graph, way: _Way) -> bool:
    return all(found is None or found == size for size, found in zip(_sizes(graph), way.written, strict=True)) and all(
        judge.holds(where, way.dims) is True for where in graph.conditions
    )


def _sizes(graph: Graph) -> list[int]:
    """The sizes that a graph has as numbers."""
    return [*(size for *_, size in _numbers(graph)), *(tie.size for tie in graph.ties if isinstance(tie.size, int))]


def _numbers(graph: Graph) -> Iterator[tuple[str, int, int]]:
    """The sizes that parameters have as numbers: the parameter, the position and the size."""
    for parameter in graph.pattern.parameters:
        for at, dim in enumerate(parameter.type.dims):
            if dim.size is not None:
                yield parameter.name, at, dim.size


def _opened(parameters: Sequence[tree.Parameter], size: int | None) -> tuple[tree.Parameter, ...]:
    """Parameters with another size in the place of those that are numbers."""

    def opened(kind: tree.Type) -> tree.Type:
        if not isinstance(kind, tree.TensorType):
            return kind
        dims = tuple(dim if dim.size is None else dataclasses.replace(dim, size=size) for dim in kind.dims)
        return dataclasses.replace(kind, dims=dims)

    return tuple(dataclasses.replace(parameter, type=opened(parameter.type)) for parameter in parameters)
