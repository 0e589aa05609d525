"""Where elements lie: a tensor as the memory of another value, by an offset and a stride for each of its dims.

What a program reads through transposes, slices, reshapes and broadcasts lies in the memory of the value that these
start from, as long as its place there is a sum: an offset, and each index times a stride. `layouts` follows a tensor up
through such ops, `results` follows it down through those that only arrange it again.

Nothing here knows of patterns. Sizes that are known at run time only are products of what the program computes them
from (`extents`), so offsets and strides are sums of such products.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from iree.compiler import ir

from opsplice.matchers.dims.extents import ONE, ZERO, Extent, groups, product
from opsplice.matchers.dims.layouts import Layout, Runs, refined, row_major
from opsplice.matchers.ir.tensor_values import defining_op, is_tensor
from opsplice.matchers.terms.ops.parts_of_dims import places_in_source, sizes_along, sizes_in
from opsplice.matchers.terms.terms import (
    UNIT,
    Access,
    Flat,
    Index,
    Loop,
    Part,
    Sized,
    Sum,
    flatten,
    moved,
    split,
)
from opsplice.matchers.terms.views import Views

# How many views are followed.
_MOST_VIEWS = 64

# A sum over indices; None stands for what is added.
_Form = dict[Index | None, Extent]

# A value, and how a tensor lies in its memory.
Place = tuple[ir.Value, Layout]


def places(views: Views, access: Access, sizes: tuple[Extent, ...], indices: tuple[Index, ...]) -> Sequence[Place]:
    """The values in whose memory a tensor lies that is read by an access at its indices, nearest first."""
    found: Sequence[Place] = views.remembered(
        access, (sizes, indices), lambda: list(Tensor(views, sizes, indices).places(access))
    )
    return found


def layouts(views: Views, value: ir.Value, sizes: Sequence[Extent]) -> Iterator[Place]:
    """The values in whose memory a tensor lies that has the elements of `value` in dims of `sizes`, nearest first."""
    tensor = Tensor(views, sizes)
    at = tensor.access(value, sizes_of(views, value))
    return iter(()) if at is None else tensor.places(at)


def turned(views: Views, value: ir.Value, order: tuple[int, ...]) -> Sequence[Place]:
    """The values in whose memory a tensor lies whose dims are those of `value` in an order, nearest first.

    Axes that `value` has not are of size one.
    """
    own = sizes_of(views, value)
    tensor = Tensor(views, [own[axis] if axis < len(own) else ONE for axis in order])
    at = Access(value, tuple(tensor.indices[order.index(axis)] for axis in range(len(own))))
    return list(tensor.places(at))


def results(
    views: Views,
    root: ir.Value,
    own: Sequence[Sequence[Extent]],
    sizes: Sequence[Extent],
    order: tuple[int, ...] | None = None,
) -> Iterator[Place]:
    """`root`, and the values that only arrange its elements again, each the only use of the one before it.

    own: the sizes of the dims that each axis of the root stands for; sizes: those of the dims that its elements are
    written in, in order. order: the dims of the root in the order of these.
    """
    tensor = Tensor(views, sizes)
    apart = tensor.access(root, [size for axis in own for size in axis], order)
    at = None if apart is None else Access(root, _merged(apart.indices, own))
    first = None if at is None else tensor.layout(at)
    if first is None:
        return
    yield root, first
    while at is not None:
        view = _only_view(at.value)
        step = None if view is None else views.expand(views.whole(view))
        if view is None or step is None or not isinstance(step.term, Access) or step.term.value != at.value:
            return
        count = product(sizes_of(views, view))
        indices = solved(views.whole(view).indices, step.term.indices, at.indices)
        if indices is None or count != product(sizes_of(views, at.value)):
            return
        at = Access(view, indices)
        found = tensor.layout(at)
        if found is not None:
            yield view, found


def _merged(indices: Sequence[Index], own: Sequence[Sequence[Extent]]) -> tuple[Index, ...]:
    """The index of each axis, from those of the dims that it stands for."""
    rest = iter(indices)
    return tuple(flatten(tuple(next(rest) for _ in axis), tuple(map(_sized, axis))) for axis in own)


def _only_view(value: ir.Value) -> ir.Value | None:
    """The tensor that the single use of a value makes, in the same block."""
    users = [use.owner.operation for use in value.uses]
    maker = defining_op(value)
    if len(users) != 1 or maker is None or users[0].block != maker.block or len(users[0].results) != 1:
        return None
    made: ir.Value = users[0].results[0]
    return made if is_tensor(made) else None


def _source(views: Views, access: Access) -> Access | None:
    """The element that a view reads: one level up."""
    op = defining_op(access.value)
    views.reads[access.value] = None
    if op is not None and op.name == "tensor.extract_slice":
        return _sliced(views, op, access.indices)
    step = views.expand(access)
    return step.term if step is not None and isinstance(step.term, Access) else None


def _sliced(views: Views, op: ir.Operation, indices: tuple[Index, ...]) -> Access | None:
    """The element of its source that an element of a slice is. None where the step is known at run time only."""
    places = places_in_source(op, indices)
    if places is None:
        return None
    found: list[Index] = []
    for (index, start, step), given, own in zip(places, sizes_in(op), sizes_of(views, op.operands[0]), strict=True):
        size = views.extent(given)
        if start == 0 and step == 1 and size == own:
            found.append(index)
            continue
        filled = _filled(index.sizes, size) if isinstance(index, Flat) else None  # the size is the slice's alone
        cut = Flat(index.parts, tuple(map(_sized, filled))) if isinstance(index, Flat) and filled else index
        found.append(moved(cut, step, start))
    return Access(op.operands[0], tuple(found))


def sizes_of(views: Views, value: ir.Value) -> list[Extent]:
    return [views.extent(size) for size in sizes_along(value)]


class Tensor:
    """A tensor of some sizes, and where its elements lie in a value that is read at its indices.

    indices: one loop for each dim, `UNIT` for one of size one; by default new ones.
    """

    def __init__(self, views: Views, sizes: Sequence[Extent], indices: tuple[Index, ...] | None = None) -> None:
        self.views = views
        self.sizes = sizes
        numbers = [size.factor if not size.atoms else None for size in sizes]
        fresh = (UNIT if number == 1 else Loop(-1 - at, number) for at, number in enumerate(numbers))
        self.indices: tuple[Index, ...] = tuple(fresh) if indices is None else indices

    def places(self, at: Access | None) -> Iterator[Place]:
        """The values in whose memory it lies that is read by an access, nearest first."""
        for _ in range(_MOST_VIEWS):
            if at is None or not is_tensor(at.value):
                return
            found = self.layout(at)
            if found is not None:
                yield at.value, found
            at = _source(self.views, at)

    def access(self, value: ir.Value, own: Sequence[Extent], order: tuple[int, ...] | None = None) -> Access | None:
        """The element of a value of some sizes that has the tensor's elements in order. None if it cannot be told.

        order: the axes of the value in the tensor's order.
        """
        if order is not None:
            turned = self.access(value, [own[axis] for axis in order])
            return turned and Access(value, tuple(turned.indices[order.index(axis)] for axis in range(len(order))))
        paired = groups(tuple(self.sizes), tuple(own))
        if paired is None:
            return None
        found: list[Index] = []
        for mine, other in paired:
            whole = flatten(tuple(self.indices[i] for i in mine), tuple(_sized(self.sizes[i]) for i in mine))
            found += split(whole, tuple(_sized(own[i]) for i in other))
        return Access(value, tuple(found) if paired else (UNIT,) * len(own))

    def layout(self, access: Access) -> Layout | None:
        """None where the place of an element is not a sum over the tensor's indices."""
        sizes = sizes_of(self.views, access.value)
        pairs = zip(access.indices, sizes, strict=True)
        if any(isinstance(index, Loop) and size != ONE and index not in self.indices for index, size in pairs):
            return None  # it lies elsewhere for each value of that index
        base = row_major(sizes)
        total: _Form | None = {}
        for index, size, runs in zip(access.indices, sizes, base.dims, strict=True):
            form = self._form(index, size)
            if form is None or total is None:
                return None
            if size != ONE:
                total = _plus(total, form, runs[0][1])
        alike = None if total is None else self._in_same_parts(total)
        joined = None if alike is None else self._joined(alike)
        if joined is None:
            return None
        offset = joined.pop(None, ZERO)
        dims = tuple(self._runs(joined, i, size) for i, size in zip(self.indices, self.sizes, strict=True))
        return None if joined or any(runs is None for runs in dims) else Layout(base.count, offset, _told(dims))

    def _form(self, index: Index, size: Extent | None) -> _Form | None:
        """An index as a sum, in which a part of an index stands for itself. size: that of its dim."""
        if index == UNIT:
            return {}
        if isinstance(index, Sum):
            start = self.views.extent(index.constant)
            total: _Form | None = {None: start} if start != ZERO else {}
            for factor, part in index.terms:
                form = self._form(part, None)
                total = None if form is None or total is None else _plus(total, form, Extent(factor))
            return total
        if isinstance(index, Flat):
            return self._flat(index, size)
        if isinstance(index, Part):
            regrouped = self._part_of_flat(index)
            if regrouped is not None:
                return self._form(regrouped, _extent(index.sizes[index.position]))
            return {_of_whole(index): ONE}
        return {index: ONE} if isinstance(index, Loop) else None

    def _flat(self, index: Flat, size: Extent | None) -> _Form | None:
        sizes = _filled(index.sizes, size)
        if sizes is None:
            return None
        total: _Form = {}
        for part, own, runs in zip(index.parts, sizes, row_major(sizes).dims, strict=True):
            form = self._form(part, own)
            if form is None:
                return None
            total = _plus(total, form, runs[0][1] if runs else ZERO)
        return total

    def _part_of_flat(self, part: Part) -> Index | None:
        """A part of a flattened index as the indices that it flattens itself, where these fall on its borders."""
        whole = part.whole
        outer = self._all_sizes(whole) if isinstance(whole, Flat) else None
        inner = None if outer is None else _filled(part.sizes, product(outer))
        if outer is None or inner is None or not isinstance(whole, Flat):
            return None
        paired = groups(tuple(outer), tuple(inner)) or ()
        own = next((old for old, new in paired if list(new) == [part.position]), None)
        if own is None:
            return None
        return flatten(tuple(whole.parts[i] for i in own), tuple(_sized(outer[i]) for i in own))

    def _all_sizes(self, index: Flat) -> list[Extent] | None:
        """The sizes that an index flattens, those of the tensor's own dims included."""
        own = dict(zip(self.indices, self.sizes, strict=True))
        pairs = zip(index.parts, index.sizes, strict=True)
        return _filled([own.get(part) if size is None else size for part, size in pairs], None)

    def _in_same_parts(self, form: _Form) -> _Form | None:
        """A sum in which each index is split into the same parts wherever it is. None where that cannot be."""
        splits: dict[Index, dict[tuple[Sized, ...], list[Part]]] = {}
        for each in form:
            if isinstance(each, Part):
                splits.setdefault(each.whole, {}).setdefault(each.sizes, []).append(each)
        for whole, several in splits.items():
            if len(several) == 1:
                continue
            all_runs: list[Runs] = []
            for sizes, parts in several.items():
                filled = self._part_sizes(parts[0])
                if filled is None:
                    return None
                strides = [form.pop(Part(whole, at, sizes), ZERO) for at in range(len(sizes))]
                all_runs.append(tuple(zip(filled, strides, strict=True)))
            common = refined(all_runs)
            if common is None:
                return None
            shared = tuple(_sized(size) for size, _ in common[0])
            for at, runs in enumerate(zip(*common, strict=True)):
                for _, stride in runs:
                    form = _plus(form, {Part(whole, at, shared): stride}, ONE)
        return form

    def _joined(self, form: _Form) -> _Form | None:
        """A sum in which all parts of one index, in order, are that index again."""
        for part in form:
            if not isinstance(part, Part):
                continue
            sizes = self._part_sizes(part)
            runs = () if sizes is None else row_major(sizes).dims
            parts = {Part(part.whole, i, part.sizes): run[0][1] for i, run in enumerate(runs) if run}
            if sizes is None or not parts or any(each not in form for each in parts):
                continue
            last = form[list(parts)[-1]]
            if all(form[each] == stride * last for each, stride in parts.items()):
                of_one = {Part(part.whole, i, part.sizes) for i, run in enumerate(runs) if not run}
                rest = {each: amount for each, amount in form.items() if each not in parts and each not in of_one}
                whole = self._form(part.whole, product(sizes))
                return None if whole is None else self._joined(_plus(rest, whole, last))
        return form

    def _part_sizes(self, part: Part) -> list[Extent] | None:
        whole = part.whole
        return _filled(part.sizes, self.sizes[self.indices.index(whole)] if whole in self.indices else None)

    def _runs(self, form: _Form, index: Index, size: Extent) -> Runs | None:
        """What a dim runs over, taken out of a sum."""
        if index == UNIT:
            return ()
        parts = [each for each in form if isinstance(each, Part) and each.whole == index]
        if not parts:
            return ((size, form.pop(index, ZERO)),)
        sizes = self._part_sizes(parts[0])
        if index in form or sizes is None or any(part.sizes != parts[0].sizes for part in parts):
            return None
        strides = [form.pop(Part(index, position, parts[0].sizes), ZERO) for position in range(len(sizes))]
        return merged(run for run in zip(sizes, strides, strict=True) if run[0] != ONE)


def _of_whole(part: Part) -> Part:
    """A part of a part as one of the whole index, where the sizes tell: b of 12 as 2x6, of which 6 is 2x3, is 2x2x3."""
    outer = part.whole
    if not isinstance(outer, Part) or None in (*part.sizes, outer.sizes[outer.position]):
        return part
    if product(map(_extent, part.sizes)) != _extent(outer.sizes[outer.position]):
        return part  # what is split is not all of the part
    before, behind = outer.sizes[: outer.position], outer.sizes[outer.position + 1 :]
    return _of_whole(Part(outer.whole, outer.position + part.position, (*before, *part.sizes, *behind)))


def merged(runs: Iterable[tuple[Extent, Extent]]) -> Runs:
    """Neighbours that lie one behind the other as one."""
    found: list[tuple[Extent, Extent]] = []
    for size, stride in runs:
        if found and found[-1][1] == size * stride:
            found[-1] = (found[-1][0] * size, stride)
        else:
            found.append((size, stride))
    return tuple(found)


def _told(dims: Iterable[Runs | None]) -> tuple[Runs, ...]:
    return tuple(runs for runs in dims if runs is not None)


def _plus(form: Mapping[Index | None, Extent], other: Mapping[Index | None, Extent], factor: Extent) -> _Form:
    """A sum and another one, `factor` times."""
    found = dict(form)
    for index, amount in other.items():
        found[index] = found.get(index, ZERO) + amount * factor
    return {index: amount for index, amount in found.items() if amount != ZERO}


def _filled(sizes: Sequence[Sized], total: Extent | None) -> list[Extent] | None:
    """Sizes with what the one is that is known at run time only, where all of them make `total`."""
    known = product(_extent(size) for size in sizes if size is not None)
    left = None if total is None else total.divided(known)
    if None in sizes and (left is None or list(sizes).count(None) > 1):
        return None
    return [_extent(size if size is not None else left) for size in sizes]


def _extent(size: Any) -> Extent:
    return Extent(size) if isinstance(size, int) else size


def _sized(size: Extent) -> Sized:
    return size if size.atoms else size.factor


def solved(view: tuple[Index, ...], source: tuple[Index, ...], wanted: tuple[Index, ...]) -> tuple[Index, ...] | None:
    """The indices at which a view holds the element of its source at `wanted`.

    view: the loops of the view, one for each dim, `UNIT` for one of size one; source: the indices of its source, in
    terms of these. None where several elements of the view are that element, or where it cannot be told.
    """
    known: dict[Index, Index] = {}
    pending = list(zip(source, wanted, strict=True))
    parts: dict[tuple[Index, tuple[Sized, ...]], dict[int, Index]] = {}
    while pending:
        index, given = pending.pop()
        if isinstance(index, Flat):
            pending.extend(zip(index.parts, split(given, index.sizes), strict=True))
        elif isinstance(index, Part):
            found = parts.setdefault((index.whole, index.sizes), {})
            if found.setdefault(index.position, given) != given:
                return None
            if len(found) == len(index.sizes):
                found_all = tuple(found[position] for position in range(len(index.sizes)))
                pending.append((index.whole, flatten(found_all, index.sizes)))
        elif index == UNIT or isinstance(index, Loop):
            if known.setdefault(index, given) != given or (index == UNIT) != (given == UNIT):
                return None
        else:
            return None
    if any(index not in known for index in view if index != UNIT):
        return None
    return tuple(UNIT if index == UNIT else known[index] for index in view)
