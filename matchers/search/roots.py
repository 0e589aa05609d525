"""The results of a pattern: where they may be, how their dims are the pattern's, and the match that comes of them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from iree.compiler import ir

from opsplice.matchers.ir.op_names import location_text
from opsplice.matchers.ir.tensor_values import defining_op, is_structured, is_tensor, shape_of
from opsplice.matchers.patterns.nodes import Graph, Label
from opsplice.matchers.patterns.walk import has_windows, kept_by_reductions, told_apart
from opsplice.matchers.search.failures import Why
from opsplice.matchers.search.labels import Sizes, changes, ones_first, pair
from opsplice.matchers.search.matches import Match, Size, flat
from opsplice.matchers.search.merged_dims import leaves, ungrouped
from opsplice.matchers.search.state import Attempt, Goal, State
from opsplice.matchers.terms.terms import UNIT, Access, DimSize, Flat, Index, Loop, Part
from opsplice.spec_lang.syntax import tree, vocabulary

# How many orders of axes there may be, of which so many are tried: all of up to so many axes.
_MOST_LOOKED_AT, _MOST_ORDERS, _FEW = 5040, 24, 4


class Roots:
    """Binds results for a search."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.views = state.views
        self.graph = state.graph

    def bind(self, number: int, value: ir.Value) -> list[Goal] | None:
        result = self.graph.results[number]
        if not is_tensor(value):
            self.state.fail(result.node, Why.NO_TENSOR, value.type)
            return None
        if result.element and not self.state.bind_type(result.node, result.element, self.views.element_type(value)):
            return None
        form = self.state.attempt if number == 0 else Attempt()
        access = form.root or (self.views.root(value) if number == 0 else self.views.whole(value))
        self.state.set(self.state.roots, number, access)
        if form.by_windows:
            self.state.leave_open(result, access)
        elif not self.state.bind_whole(result, access, _arranged(access, form)):
            return None
        return [(result.node, access)]

    def has_written_sizes(self, value: ir.Value, form: Attempt) -> bool:
        """Whether the first result has the sizes that the pattern writes for its dims, as far as they are known."""
        wanted = {tie.labels: tie.size for tie in self.graph.ties if isinstance(tie.size, int)}
        labels = self.graph.results[0].labels
        pairs = pair(labels, _arranged(form.root or self.views.root(value), form), {}) if wanted else None
        found = ((wanted.get((label,)), self.state.extent(index)) for label, each in pairs or () for index in each)
        return not any(size != own for size, own in found if size is not None and isinstance(own, int))

    def others(self, number: int) -> list[ir.Value]:
        """Where a further result could be: beside the first root, or made from what is bound already."""
        taken = {access.value for access in self.state.roots.values()}
        seen: dict[ir.Value, None] = dict.fromkeys(self.state.roots[0].value.owner.operation.results)
        frontier = [b.value for b in self.state.inputs.values() if b.value is not None]
        frontier += [r for op in self.state.ops for r in op.results]
        for _ in range(8):
            users = [r for v in frontier for use in v.uses for r in use.owner.operation.results]
            frontier = [r for r in users if r not in seen]
            seen.update(dict.fromkeys(frontier))
            if len(seen) > 512 or not frontier:
                break
        return [v for v in seen if v not in taken and is_tensor(v)]

    def match(self, function: str) -> Match:
        roots = self.state.roots.values()
        own = {i: size for each in roots for i, size in zip(each.indices, self._sizes(each), strict=True)}
        sizes = [(name, _read(size, own)) for name, (size, _) in self.state.dims.items()]
        numbers = (*sizes, *self.state.integers.items(), *self._integers())
        order = self._order()
        return Match(
            pattern=self.graph.pattern,
            roots=tuple(self.state.roots[i].value for i in range(len(self.graph.results))),
            root_sizes=tuple(self._sizes(self.state.roots[i]) for i in range(len(self.graph.results))),
            inputs=dict(self.state.inputs),
            shapes=dict(self.state.shapes),
            dims={n: size for n, size in numbers if "." not in n},
            types={n: element for n, element in self.state.types.items() if "." not in n},
            ops=tuple(self.state.ops),
            held=len(self.state.held),
            function=function,
            location=location_text(self.state.roots[0].value.owner.operation),
            ones_first=self.state.attempt.ones_first,
            order=order,
            split=() if order is None else self._split(),
        )

    def _integers(self) -> Iterator[tuple[str, int]]:
        """The scalars that are integers and numbers here."""
        for parameter in self.graph.pattern.parameters:
            if isinstance(parameter.type, tree.ScalarType) and vocabulary.is_integer(parameter.type.name):
                bound = self.state.inputs.get(parameter.name)
                if bound is not None and isinstance(bound.constant, int):
                    yield parameter.name, bound.constant

    def _order(self) -> tuple[int, ...] | None:
        """The dims of the first root in the pattern's order, with neighbours where one of the pattern is several."""
        order = self.state.order_read() if self.state.attempt.by_windows else self.state.attempt.order
        dims: list[list[int]] = []
        lacks = self.state.attempt.lacks
        for at, index in enumerate((*[UNIT] * lacks, *leaves(self.state.roots[0].indices))):
            if isinstance(index, Part) and index.position > 0:
                dims[-1].append(at)
            else:
                dims.append([at])
        turned = None if order is None else tuple(dim for at in order for dim in dims[at])
        is_own = self.state.attempt.by_windows and not lacks and turned == tuple(range(len(turned or ())))
        return None if is_own else turned

    def _split(self) -> tuple[tuple[Size, ...], ...]:
        """The sizes of the dims that each axis of the first root stands for, where it is several: the first one's are
        also those that the program lacks."""
        access = self.state.roots[0]
        pairs = zip(access.indices, self._sizes(access), strict=True)
        found = [
            tuple(map(self.state.extent, index.parts)) if isinstance(index, Flat) else (size,) for index, size in pairs
        ]
        lacking = (1,) * self.state.attempt.lacks
        return tuple(own if at else lacking + own for at, own in enumerate(found))

    def _sizes(self, access: Access) -> tuple[Size, ...]:
        """The sizes of a root, axis by axis, read off the inputs rather than off what will be replaced."""
        return tuple(
            self._open_size(access.value, axis, index) if size is None else size
            for axis, (index, size) in enumerate(zip(access.indices, shape_of(access.value) or (), strict=True))
        )

    def _open_size(self, root: ir.Value, axis: int, index: Index) -> Size:
        """The size of a root's dim that is known at run time only."""
        if index in self.state.extents:
            return self.state.extents[index]
        size = DimSize(_shaped_by(root), axis)
        computed = self.views.extent(size)
        inputs = (known for known in self.state.extents.values() if isinstance(known, DimSize))
        same = (known for known in inputs if self.views.extent(known) == computed)
        return next(same, size) if size.value == root else size


def _read(size: Sizes, own: Mapping[Any, Size]) -> Sizes:
    """A dim's size, for one that only results have read where theirs are. own: the sizes of the results' indices."""
    if isinstance(size, tuple):
        return tuple(each for part in size for each in flat([_read(part, own)]))
    is_index = isinstance(size, DimSize) and isinstance(size.value, Loop)
    return own.get(size.value, size) if is_index else size  # type: ignore[union-attr]


def _arranged(access: Access, form: Attempt) -> tuple[Index, ...]:
    """The indices of the first result in the order in which its labels are to have them."""
    lacking = () if form.by_windows else (UNIT,) * form.lacks
    indices = (*lacking, *ungrouped(access.indices))
    indices = indices if form.order is None else tuple(indices[axis] for axis in form.order)
    return ones_first(indices) if form.ones_first else indices


def orders(graph: Graph, indices: tuple[Index, ...]) -> Sequence[tuple[int, ...]]:
    """The orders of the first result's axes, those first that change least: a pack takes what other labels leave, and
    axes of size one, of which one of several other labels may be, as of an only query. Of many axes those go before
    that keep neighbours together."""
    labels = graph.results[0].labels
    if UNIT in indices and not has_windows(graph) and not any(label.pack for label in labels):
        return placings(graph, labels, indices)[:_MOST_ORDERS]
    axes = tuple(axis for axis, index in enumerate(indices) if index != UNIT)
    singles = sum(not label.pack for label in labels)
    pack = next((at for at, label in enumerate(labels) if label.pack), None)
    if pack is None and len(indices) != singles:
        return ()
    found = _orders(axes, singles, pack, len(indices))
    if pack is not None and singles > 1 and UNIT in indices:
        one, behind = indices.index(UNIT), pack + len(indices) - singles
        others = _orders((*axes, one), singles, pack, len(indices))
        found += tuple(order for order in others if one in (*order[:pack], *order[behind:]))
    return found[:_MOST_ORDERS]


def placings(graph: Graph, labels: Sequence[Label], indices: Sequence[Index]) -> Sequence[tuple[int, ...]]:
    """The orders of axes, one for each label, where those of size one are one like the other.

    Of labels that are alike the first ones are of size one, and the others are in the order of their axes.
    """
    return _placings(graph, tuple(labels), tuple(index == UNIT for index in indices))


def placings_by_kept(graph: Graph, indices: Sequence[Index]) -> Mapping[frozenset[int], Sequence[tuple[int, ...]]]:
    """The placings of a result's axes that a graph allows, by which of these one of its reductions keeps.

    Where it has no reduction, all stand under no axes.
    """
    return _placings_by_kept(graph, tuple(index == UNIT for index in indices))


@functools.lru_cache(maxsize=256)
def _placings_by_kept(graph: Graph, units: tuple[bool, ...]) -> Mapping[frozenset[int], Sequence[tuple[int, ...]]]:
    labels, found = graph.results[0].labels, dict[frozenset[int], list[tuple[int, ...]]]()
    kept = {frozenset(map(labels.index, each)) for each in kept_by_reductions(graph)} or {frozenset[int]()}
    for order in _placings(graph, tuple(labels), units):
        if graph.reordered or changes([axis for axis in order if not units[axis]]) == 0:
            for axes in {frozenset(order[at] for at in each if not units[order[at]]) for each in kept}:
                found.setdefault(axes, []).append(order)
    return found


@functools.lru_cache(maxsize=256)
def _placings(graph: Graph, labels: tuple[Label, ...], units: tuple[bool, ...]) -> tuple[tuple[int, ...], ...]:
    if len(labels) != len(units) or any(label.pack for label in labels):
        return ()
    told, places, found = told_apart(graph), range(len(labels)), []
    groups: dict[object, list[int]] = {}
    for place, label in enumerate(labels):
        groups.setdefault(told.get(label, label), []).append(place)
    axes = [axis for axis, is_unit in enumerate(units) if not is_unit]
    for chosen in itertools.islice(itertools.permutations(places, len(axes)), _MOST_LOOKED_AT):
        axis_of = dict(zip(chosen, axes, strict=True))
        in_order = ([axis_of.get(place, -1) for place in group] for group in groups.values())
        if all(own == sorted(own) for own in in_order):
            ones = iter(axis for axis, is_unit in enumerate(units) if is_unit)
            found.append(tuple(axis_of[place] if place in axis_of else next(ones) for place in places))
    return tuple(sorted(found, key=lambda order: _distance([axis for axis in order if not units[axis]])))


@functools.cache
def _orders(axes: tuple[int, ...], singles: int, pack: int | None, rank: int) -> tuple[tuple[int, ...], ...]:
    """The orders of `rank` axes, so many of `axes` each for a label of its own. pack: where the others come."""
    found: list[tuple[int, ...]] = []
    for chosen in itertools.islice(itertools.permutations(axes, singles), _MOST_LOOKED_AT):
        rest = tuple(axis for axis in range(rank) if axis not in chosen)
        found.append(chosen if pack is None else (*chosen[:pack], *rest, *chosen[pack:]))
    return tuple(sorted(found, key=_distance)[:_MOST_ORDERS])


def _distance(order: Sequence[int]) -> tuple[int, int]:
    """How far an order is from the program's: of many axes, in how many runs they stay together as a rule."""
    runs = sum(after - axis != 1 for axis, after in itertools.pairwise(order))
    return runs if len(order) > _FEW else 0, changes(order)


def _shaped_by(root: ir.Value) -> ir.Value:
    """A value of a root's shape that is there before it: where a `linalg` op starts, or an operand of another."""
    op = defining_op(root)
    is_elementwise = op is not None and op.name.startswith(("arith.", "math.")) and len(op.operands) > 0
    if op is None or len(op.results) > 1 or not (is_structured(op) or is_elementwise):
        return root
    return op.operands[len(op.operands) - 1]
