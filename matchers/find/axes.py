"""Along which axes of a pattern's first result its inputs are read, and which of them are weights."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from opsplice.matchers.patterns.nodes import Asked, Graph, Input, Label
from opsplice.matchers.patterns.walk import has_windows, most_along, only_reduces
from opsplice.matchers.search.labels import ones_first, pair
from opsplice.matchers.terms.terms import UNIT, Index, Loop
from opsplice.spec_lang.syntax import tree


@functools.cache
def _axis(position: int, pack: bool) -> Label:
    """The label at a position of a result: one for all graphs."""
    return Label(position, "", pack)


@dataclass(frozen=True)
class Axes:
    """The labels of a graph's first result by their positions, and those of them that a tensor has.

    own: those that it has, along of them those that it is read along by itself and in full, not in windows: in memory
    of any strides that may be one place. may_turn: whether they may come in any order; fewer: also where fewer dims
    than labels are larger than one, as always but with a pack and one more label; ones_first: whether those of dims of
    size one may come first. most: see `most_along`.
    """

    labels: tuple[Label, ...]
    own: frozenset[Label]
    along: frozenset[Label]
    may_turn: bool
    fewer: bool
    ones_first: bool
    is_weight: bool
    most: float

    @staticmethod
    def of(graph: Graph, node: Input) -> Axes:
        labels = graph.results[0].labels
        own = {each for each in tree.parts(node.labels) if isinstance(each, Label)}
        along = set() if node.name in graph.strided else {each for each in node.labels if isinstance(each, Label)}
        numbered = {label: _axis(at, label.pack) for at, label in enumerate(labels)}
        return Axes(
            tuple(numbered.values()),
            frozenset(axis for label, axis in numbered.items() if label in own),
            frozenset(axis for label, axis in numbered.items() if label in along),
            graph.reordered,
            has_windows(graph) or graph.may_lack_dims,
            only_reduces(graph),
            any(isinstance(c, Asked) and (c.kind, c.name) == ("weight", node.name) for c in graph.conditions),
            most_along(graph)[node],
        )

    def told(self, indices: tuple[Index, ...]) -> tuple[tuple[Loop, ...], tuple[Loop, ...]]:
        """The loops of a result's indices along which the tensor is not read, and those along which it is; none where
        that cannot be told. A tensor that has all labels is read along all loops, however these are the labels."""
        if len(self.along) == len(self.labels):
            return (), tuple(index for index in indices if isinstance(index, Loop))
        singles = sum(not label.pack for label in self.labels)
        is_any = self.fewer or singles == len(self.labels) or singles > 1
        is_turned = self.may_turn and (is_any or sum(index != UNIT for index in indices) >= singles)
        if is_turned or (self.ones_first and ones_first(indices) != indices):
            return (), ()
        # Dims that the program splits below may be several labels', and move those before a pack.
        may_split = self.may_turn and singles < len(self.labels)
        apart: list[Loop] = []
        along: list[Loop] = []
        for axis, group in pair(self.labels, indices, {}) or ():
            loops = (index for index in group if isinstance(index, Loop))
            (apart if axis not in self.own else along if axis in self.along and not may_split else []).extend(loops)
        return tuple(apart), tuple(along)
