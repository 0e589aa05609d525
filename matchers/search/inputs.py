"""How inputs of a pattern bind: to values whose dims are theirs, to scalars, and to where their elements lie."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import partial

from iree.compiler import ir

from opsplice.matchers.dims.extents import ONE, ZERO, Extent
from opsplice.matchers.dims.layouts import Layout, row_major
from opsplice.matchers.ir.tensor_values import defining_op, is_tensor
from opsplice.matchers.patterns.nodes import Input, Label, Window, is_place, labels_in
from opsplice.matchers.patterns.walk import has_windows, merges_dims, sums_windows
from opsplice.matchers.search.failures import Why
from opsplice.matchers.search.labels import Sizes, ones_last, only_term, sizes_of
from opsplice.matchers.search.matches import Binding, flat
from opsplice.matchers.search.merged_dims import ungrouped
from opsplice.matchers.search.reading import Reader
from opsplice.matchers.search.state import Branch, Goal, State
from opsplice.matchers.terms import address
from opsplice.matchers.terms.canonical import WIDENINGS
from opsplice.matchers.terms.terms import UNIT, Access, Apply, DimSize, Flat, Index, Loop, Part, Term
from opsplice.spec_lang.syntax import tree, vocabulary


class Inputs:
    """Binds inputs for a search.

    may_place: whether a dense input may be a value that is read through other dims. may_stride: whether a strided input
    was met that its address may bind, without one beside it that is read in windows, whose address tells nothing.
    """

    def __init__(self, state: State, reader: Reader) -> None:
        self.state = state
        self.reader = reader
        self.views = state.views
        self.graph = state.graph
        self.may_place = self.may_stride = False
        self._in_windows: dict[str, None] = {}
        self._has_windows = has_windows(state.graph)

    def branches(self, node: Input, term: Term) -> Iterator[Branch]:
        """The ways in which an input may be a term."""
        self.state.listener.met(term)
        parameter = self.reader.parameters[node.name]
        if isinstance(parameter.type, tree.ScalarType):
            yield lambda: self._scalar(node, parameter, term)
            return
        levels = list(self.reader.chain(term))
        in_windows = self._has_windows and _has_window(node)
        if in_windows:
            self.reader.meet(levels)
            if self.state.attempt.by_windows:
                yield from self._in_any_order(node, parameter, levels)
                return
        by_address = self.state.attempt.by_address and bool(levels)
        is_strided = node.name in self.graph.strided
        self.may_stride |= is_strided and not self._in_windows and not in_windows
        if by_address and is_strided and not in_windows:
            yield from self._placings(node, parameter, levels)
            return
        if not levels:
            yield lambda: self.state.fail(node, Why.INSIDE_FUSED) or None
        bound = self.state.inputs.get(node.name)
        own = [at for at, level in enumerate(levels) if bound is not None and level.value == bound.value]
        for position in own or range(len(levels)):  # what it is already is not compared with others
            yield partial(self._level, node, parameter, levels, position)
        if by_address:
            yield from self._placings(node, parameter, levels)

    def _level(self, node: Input, parameter: tree.Parameter, levels: list[Access], position: int) -> list[Goal] | None:
        """Bind an input to the value at one of some levels; where that fails, note whether its address may say more."""
        more = self._tensor(node, parameter, levels[position], levels[:position])
        bound = self.state.inputs.get(node.name)
        if more is None and not self.may_place:
            is_other = bound is not None and all(level.value != bound.value for level in levels)
            self.may_place = is_other or any(isinstance(i, (Flat, Part)) for level in levels for i in level.indices)
        return more

    def _scalar(self, node: Input, parameter: tree.Parameter, term: Term) -> list[Goal] | None:
        value = term.value if isinstance(term, Access) else None
        self.state.value = value if value is not None and defining_op(value) is None else None
        more = self._bound_scalar(node, parameter, term)
        self.state.value = None
        return more

    def _bound_scalar(self, node: Input, parameter: tree.Parameter, term: Term) -> list[Goal] | None:
        assert isinstance(parameter.type, tree.ScalarType)
        wanted = self._wanted_elements(parameter.type)
        levels = list(self._scalars(node, term))
        binding = next((b for b in levels if wanted is None or b.element in wanted), levels[0] if levels else None)
        if binding is None:
            self.state.fail(node, Why.NO_SCALAR, self.reader.look(node, term))
            return None
        return [] if self.state.bind(node, parameter.type.name, binding) else None

    def _scalars(self, node: Input, term: Term) -> Iterator[Binding]:
        """The constants that a term is, the values that hold it alone, and those that it is widened from."""
        at: Term | None = term
        while at is not None:
            found = self.reader.resolve(at)
            known = self.views.constant(found)
            if known is not None:
                yield Binding(constant=known.value, element=known.type)
            at = self.reader.passed(node, found)
        for access in self._alone(term):
            yield Binding(value=access.value, element=self.views.element_type(access.value))
        found = self.reader.resolve(term)
        if isinstance(found, Apply) and found.op in WIDENINGS:
            for access in self._alone(found.args[0]):
                yield Binding(value=access.value, element=found.type, widened=found.op)

    def _alone(self, term: Term) -> Iterator[Access]:
        """The values of one element that hold a term, from the nearest on."""
        return (each for each in self.reader.chain(term) if all(index == UNIT for index in each.indices))

    def _wanted_elements(self, kind: tree.ScalarType) -> tuple[str, ...] | None:
        """The element types that a scalar may have, None for any."""
        choices = self.graph.variables.get(kind.name)
        known = kind.name if choices is None else self.state.types.get(kind.name)
        return (choices or None) if known is None else (known,)

    def _tensor(self, node: Input, parameter: tree.Parameter, access: Access, above: list[Access]) -> list[Goal] | None:
        """Bind an input to the value of an access. above: the views of it that lie between."""
        self.state.value = access.value
        more = self._bound_tensor(node, parameter, access, above)
        self.state.value = None
        return more

    def _bound_tensor(
        self, node: Input, parameter: tree.Parameter, access: Access, above: list[Access]
    ) -> list[Goal] | None:
        for view in above:
            self._account(view)
        assert isinstance(parameter.type, tree.TensorType)
        value = access.value
        self.state.place = defining_op(value) or self.state.place
        if not is_tensor(value):
            self.state.fail(node, Why.SCALAR_FOR_TENSOR, value.type)
            return None
        if not self.state.bind(
            node, parameter.type.element.name, Binding(value=value, element=self.views.element_type(value))
        ):
            return None
        pairs = self.state.unify(node, node.labels, access.indices)
        if pairs is None or not self.state.bind_dims(node, parameter.type, pairs, access):
            return None
        if node.name in self.graph.strided and _has_window(node):
            self.state.set(self._in_windows, node.name)
        return []

    def _in_any_order(self, node: Input, parameter: tree.Parameter, levels: list[Access]) -> Iterator[Branch]:
        """The ways in which an input that is read in windows may be a value with its dims in another order."""
        orders = []
        for at, level in enumerate(levels):
            in_windows = self.reader.in_windows(level)
            if in_windows or self._may_have_windows_of_one(node, level.indices):
                indices, present = self.graph.with_ones(node.labels, level.indices), len(level.indices)
                ones = None if in_windows else ones_last(self.state.roots[0].indices)
                found = self.state.turns(node.labels, indices, len(indices) - present, ones=ones)
                orders += [(at, indices, order) for order in found]
        if merges_dims(self.graph) and any(at != orders[0][0] for at, *_ in orders):
            orders.sort(key=lambda each: self._loops_at_places(node, *each[1:]))  # a group's channels are no place
        if not orders:
            yield lambda: self.state.fail(node, Why.INSIDE_FUSED) or None
        for at, indices, order in orders:
            yield partial(self._turned, node, parameter, levels[at], levels[:at], indices, order)

    def _loops_at_places(self, node: Input, indices: tuple[Index, ...], order: tuple[int, ...]) -> int:
        """How many places would be dims that are reduced as a whole."""
        kept = (*ungrouped(self.state.roots[0].indices),)
        places = [indices[axis] for axis, label in zip(order, node.labels, strict=False) if is_place(label)]
        return sum(isinstance(index, Loop) and index not in kept for index in places)

    def _may_have_windows_of_one(self, node: Input, indices: tuple[Index, ...]) -> bool:
        """Whether a program with fewer dims has one of those that are read in windows, which are of size one.

        It is a dim of the result: one that is reduced is a window itself, as large as the image where the result has a
        dim of one for it.
        """
        plain, made = [label for label in node.labels if not is_place(label)], self.graph.results[0].labels
        if not self.graph.may_lack_dims or not len(plain) < len(indices) < len(node.labels):
            return False
        root = self.state.roots[0].indices
        kept = (UNIT, *ungrouped(root))
        reduced = sum(only_term(index) not in kept for index in indices)
        summed = sum(any(each not in made for each in labels_in(label)) for label in plain)
        wide = ones_last(root) if reduced > 1 and not sums_windows(self.graph) else 0
        return reduced <= summed + wide

    def _turned(
        self,
        node: Input,
        parameter: tree.Parameter,
        access: Access,
        above: list[Access],
        indices: tuple[Index, ...],
        order: tuple[int, ...],
    ) -> list[Goal] | None:
        """Bind an input to the value of an access whose dims are in an order, by where its elements lie.

        indices: its own, and those of dims that the program lacks.
        """
        assert isinstance(parameter.type, tree.TensorType)
        for view in above:
            self._account(view)
        self.state.place = defining_op(access.value) or self.state.place
        pairs = self.state.turn(node, node.labels, indices, order, len(access.indices))
        if pairs is None:
            return None
        own = address.sizes_of(self.views, access.value)
        sizes = tuple(own[axis] if axis < len(own) else ONE for axis in order)
        binding = self._at_places(node, address.turned(self.views, access.value, order), sizes)
        if binding is None:
            self.state.fail(node, Why.NO_STRIDES)
            return None
        if not self.state.bind(node, parameter.type.element.name, binding):
            return None
        return [] if self.state.bind_dims(node, parameter.type, pairs, access) else None

    def _placings(self, node: Input, parameter: tree.Parameter, levels: list[Access]) -> Iterator[Branch]:
        """How an input may be where its elements lie: at its own type, and at those that it is widened from.

        What a program rounds is not taken before it is: the product that rounds it has a kernel of its own.
        """
        least = math.inf
        for kind, own in itertools.groupby(range(len(levels)), lambda at: self.views.element_type(levels[at].value)):
            width = vocabulary.width(kind)
            if width > least:
                return
            least = width
            yield partial(self._placed, node, parameter, levels, tuple(own))

    def _placed(
        self, node: Input, parameter: tree.Parameter, levels: list[Access], own: Sequence[int]
    ) -> list[Goal] | None:
        """Bind an input to what holds its element: values in whose memory each of its dims has a stride.

        own: at which of the levels these begin.
        """
        assert isinstance(parameter.type, tree.TensorType)
        why = Why.NO_STRIDES
        for position, access in ((at, levels[at]) for at in own):
            bound = self._bound_labels(node, access)
            if bound is None or not is_tensor(access.value):
                continue
            sizes, indices = bound
            if not self._has_places(node, access):
                continue
            dims = zip(parameter.type.dims, sizes, strict=True)
            if not all(self.state.may_have_size(node, dim.name, size) for dim, size in dims):
                continue  # told sooner than where they lie
            extents = tuple(self.views.extent(size) for size in flat(sizes))
            held = address.places(self.views, access, extents, tuple(i for group in indices for i in group))
            places = [each for each in held if _has_strides(each[1], node.labels, indices)]
            if self.graph.may_lack_dims:  # a dim along which it is one and the same is one that it lacks
                places = [each for each in places if all(run[1] != ZERO for runs in each[1].dims for run in runs)]
            binding = self._at_places(node, places, extents)
            if binding is None:
                why = Why.OTHER_PLACES if places and node.name in self.state.inputs else why
                continue
            for index, extent in self.state.note_sizes(access).items():
                self.state.set(self.state.extents, index, extent)
            values = [level.value for level in levels]
            for view in levels[: values.index(binding.value) if binding.value in values else position]:
                self._account(view)
            if not self.state.bind(node, parameter.type.element.name, binding):
                return None
            self.state.set(self.state.shapes, node.name, tuple(sizes))
            for dim, size, found in zip(parameter.type.dims, sizes, indices, strict=True):
                if dim.size is not None and size != dim.size:
                    self.state.fail(node, Why.SIZE, dim.size, size)
                    return None
                if dim.name is not None and not self.state.bind_dim(node, dim.name, size, found):
                    return None
            return []
        self.state.fail(node, why, along=levels[-1].indices)
        return None

    def _has_places(self, node: Input, access: Access) -> bool:
        """Whether a filter has a dim of its own, even of size one, for each place that the image has."""
        if not self.graph.may_lack_dims or not any(label.windowed for label in node.labels):
            return True
        bound, lacking = self.state.labels, self.state.lacking
        least = [at for at in node.labels if bound[at] != (UNIT,) or (at.windowed and at not in lacking)]
        return len(least) <= len([*ungrouped(access.indices)])

    def _at_places(self, node: Input, places: Sequence[address.Place], extents: Sequence[Extent]) -> Binding | None:
        """What an input is that lies in memory at some places: what it is already, a dense value, or (strided) any."""
        bound = self.state.inputs.get(node.name)
        if bound is not None and bound.value is not None:
            known = bound.places or address.layouts(self.views, bound.value, extents)
            is_same = any(value == held and at.lies_as(layout) for held, at in known for value, layout in places)
            return bound if is_same else None
        dense, is_strided = row_major(extents), node.name in self.graph.strided
        whole = [each for each in places if each[1] == dense]
        value, layout = next(iter(whole or (places if is_strided else ())), (None, None))
        if value is None:
            return None
        apart = () if layout == dense else tuple(places)
        return Binding(value=value, element=self.views.element_type(value), places=apart)

    def _bound_labels(self, node: Input, access: Access) -> tuple[list[Sizes], list[tuple[Index, ...]]] | None:
        """The sizes and the loops of an input's labels, where all are bound, each to loops of its own."""
        known = sizes_of(access)
        sizes: list[Sizes] = []
        indices = [self.state.labels.get(label, ()) for label in node.labels]
        loops = [index for group in indices for index in group if index != UNIT]
        if any(not isinstance(index, Loop) for index in loops) or len(set(loops)) < len(loops):
            return None
        for label, group in zip(node.labels, indices, strict=True):
            if label not in self.state.labels:
                return None
            found = tuple(known.get(i, self.state.extent(i)) for i in group)
            if any(isinstance(size, DimSize) and not isinstance(size.value, ir.Value) for size in found):
                return None
            sizes.append(found if label.pack else found[0])
        return sizes, indices

    def _account(self, view: Access) -> None:
        step = self.views.expand(view)
        for op in () if step is None else step.ops:
            self.state.set(self.state.ops, op)


def _has_window(node: Input) -> bool:
    return any(isinstance(label, Window) for label in node.labels)


def _has_strides(layout: Layout, labels: tuple[Label, ...], indices: list[tuple[Index, ...]]) -> bool:
    """Whether each label that is no pack has one stride at most."""
    runs = iter(layout.dims)
    each = [[len(next(runs)) for _ in group] for group in indices]
    return all(label.pack or sum(counts) <= 1 for label, counts in zip(labels, each, strict=True))
