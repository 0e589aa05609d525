"""Strided buffers: a kernel reads and writes values as they lie in the program's memory, and nothing is copied for it.

    %t = linalg.transpose(tensor.extract_slice %x ...)
    %r = contract(%t, ...)                                =>      %r = flow.dispatch @opsplice_k(%x, ...)

`laid_out` chooses what is bound in the place of a tensor: the furthest value in whose memory it lies. Behind the
result, it chooses the furthest view that the kernel can write. In the shim, `moves` adds the offset to each
address, and what a workgroup's place in a pack amounts to, so that a kernel never sees how many dims a pack is made of.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from iree.compiler import ir

from opsplice.matchers.dims.extents import ZERO, Extent
from opsplice.matchers.dims.layouts import Layout, Runs, refined, row_major
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.search.matches import Size, flat, paired
from opsplice.matchers.terms import address
from opsplice.matchers.terms.views import Views
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.placing import needs
from opsplice.rewrites.layouts.dense_copies import nested
from opsplice.rewrites.plan import layout_words
from opsplice.rewrites.plan.actions import Action, Buffer, KernelCall, Output, Scalar
from opsplice.spec_lang.dims import dim_conditions, judge
from opsplice.spec_lang.syntax import tree


def dense(views: Views, sizes: Sequence[Size | tuple[Size, ...]]) -> Layout:
    """The layout of a dense buffer. sizes: of its dims, a pack's in a tuple."""
    extents = [_extents(views, size) for size in sizes]
    return _grouped(row_major(list(chain(*extents))), extents, extents)


def nearest(views: Views, call: KernelCall) -> KernelCall | None:
    """The call, reading the nearest values. None where it is not known how a pack goes together."""

    def placed(buffer: Buffer | Scalar) -> Buffer | Scalar:
        bound = call.match.inputs.get(getattr(call.rule_args.get(buffer.name), "name", ""))
        if not isinstance(buffer, Buffer) or bound is None:
            return buffer
        if not bound.places and buffer.copy is None and _fits(call, buffer, buffer.layout):
            return buffer
        candidates = _candidates(views, call, buffer)
        fitting = [each for each in candidates if _fits(call, buffer, each[1])]
        best = [each for each in fitting if buffer.copy is not None and each[1].is_dense] or fitting or candidates
        return _at(buffer, *best[0]) if best else buffer

    outputs = call.outputs
    if call.match.order is not None and call.made[0].root is not None and call.made[0].layout is not None:
        written = next(_results(views, call), None)
        if written is None:
            return None
        outputs = _with_result(call, dataclasses.replace(call.made[0], layout=written[1]))
    return _refined(dataclasses.replace(call, arguments=tuple(map(placed, call.arguments)), outputs=outputs))


def _with_result(call: KernelCall, output: Output) -> tuple[Output, ...]:
    """The outputs of a call with another one for the only result that is not its own memory."""
    return tuple(each if each.is_scratch else output for each in call.outputs)


def _at(buffer: Buffer, value: ir.Value, layout: Layout, passed: Sequence[ir.Operation] = ()) -> Buffer:
    """A buffer that lies in the memory of a value, or is copied from there. passed: the ops between."""
    strided, copied = (layout, None) if buffer.copy is None else (None, layout)
    return dataclasses.replace(buffer, value=value, views=tuple(passed), layout=strided, copy=copied)


def ordered(views: Views, split: Sequence[tuple[Size, ...]], order: tuple[int, ...]) -> Layout:
    """How the axes of a result lie in a dense buffer that has their dims in another order. split: the dims of each."""
    own = [views.extent(size) for size in flat(split)]
    written = row_major([own[dim] for dim in order])
    dims = iter([written.dims[order.index(dim)] for dim in range(len(order))])
    return dataclasses.replace(written, dims=tuple(tuple(chain(*(next(dims) for _ in axis))) for axis in split))


def _candidates(views: Views, call: KernelCall, buffer: Buffer | Scalar) -> list[tuple[ir.Value, Layout, Any]]:
    """The values that a buffer may be read from, nearest first: how it lies there, and the ops between."""
    arg = call.rule_args.get(buffer.name)
    if not isinstance(arg, tree.Name) or not isinstance(buffer, Buffer) or buffer.value is None:
        return []
    if buffer.layout is None and buffer.copy is None:
        return []
    kind = _kind(call, buffer)
    passed, found = tuple[ir.Operation, ...](), []
    own = [_extents(views, size) for _, size in paired(kind.dims, call.match.shapes[arg.name])]
    wanted = own if buffer.layout is None else _wanted(views, call, kind.dims)
    for value, layout in call.match.inputs[arg.name].places or address.layouts(views, buffer.value, list(chain(*own))):
        found.append((value, _grouped(layout, own, wanted).turned(kind.order), passed))
        maker = defining_op(value)
        passed += () if maker is None else (maker,)
    return found


def laid_out(views: Views, calls: Sequence[Action], covered: Mapping[Any, Action]) -> list[Action]:
    """The same calls, with what their strided buffers are bound to. covered: the actions that ops belong to."""
    launches = chain(*(call.launches for call in calls if isinstance(call, KernelCall)))
    if not any(launch.strided or launch.copied for launch in launches):
        return list(calls)
    roots = {root for call in calls for root in call.match.roots}
    needed = {call: frozenset(needs(call.match)) for call in calls}
    users = Counter(chain(*needed.values()))
    made: list[Action] = []
    hidden: set[ir.Value] = set()
    for call in calls:

        def is_needed(value: ir.Value, own: Collection[ir.Value] = needed[call]) -> bool:
            return users[value] > (value in own)

        made.append(_writing(views, call, is_needed, hidden) if isinstance(call, KernelCall) else call)

    def is_there(value: ir.Value) -> bool:
        maker = defining_op(value)
        return value not in hidden and (value in roots or maker is None or maker not in covered)

    return [_reading(views, call, is_there) if isinstance(call, KernelCall) else call for call in made]


def _writing(
    views: Views, call: KernelCall, is_needed: Callable[[ir.Value], bool], hidden: set[ir.Value]
) -> KernelCall:
    """The call, writing the furthest view of its result.

    is_needed: whether another call is made from a value. hidden: takes the values that are then not made.
    """
    output = call.made[0]
    if output.layout is None or call.is_split or len(call.made) > 1:
        return call
    known = {views.extent(size): size for size in output.sizes}
    found, passed = call, [output.root]
    for view, grouped in itertools.islice(_results(views, call), 1, None):
        if is_needed(passed[-1]):
            break
        sizes = [known.get(size) if size.atoms else size.factor for size in address.sizes_of(views, view)]
        told = tuple(size for size in sizes if size is not None)
        if len(told) == len(sizes) and _fits(call, output, grouped):
            ops = tuple(value.owner.operation for value in (*passed[1:], view))
            written = dataclasses.replace(output, root=view, sizes=told, layout=grouped, views=ops)
            found = _refined(dataclasses.replace(call, outputs=_with_result(call, written))) or found
        passed.append(view)
    if found is not call:
        hidden.update(passed[: passed.index(found.made[0].root)])
    return found


def _reading(views: Views, call: KernelCall, is_there: Callable[[ir.Value], bool]) -> KernelCall:
    """The call and those for its arguments, reading the furthest values that are there and that they can take."""
    call = call.mapped(lambda inner: _reading(views, inner, is_there))

    def furthest(buffer: Buffer | Scalar) -> Buffer | Scalar:
        found = buffer
        for value, layout, passed in _candidates(views, call, buffer):
            assert isinstance(buffer, Buffer), "only buffers lie in memory"
            assert isinstance(found, Buffer), "it is the same buffer"
            is_worse = found.copy is not None and found.copy.is_dense and not layout.is_dense
            if is_there(value) and _fits(call, buffer, layout) and not is_worse:
                found = _at(buffer, value, layout, passed)
        return found

    return _refined(dataclasses.replace(call, arguments=tuple(map(furthest, call.arguments)))) or call


def _results(views: Views, call: KernelCall) -> Iterator[tuple[ir.Value, Layout]]:
    """The values that the only result of a call may be written as, by the dims of the kernel, nearest first."""
    (output,) = call.made
    wanted = _wanted(views, call, output.shape)
    split = call.match.split or [(size,) for size in output.sizes]
    own = [_extents(views, axis) for axis in split]
    for value, layout in address.results(views, output.root, own, list(chain(*wanted)), call.match.order):
        yield value, _grouped(layout, wanted, wanted)


def _wanted(views: Views, call: KernelCall, dims: Sequence[tree.Dim]) -> list[list[Extent]]:
    """The sizes of a buffer's dims, as the kernel is told them."""
    return [_extents(views, call.dims[dim.name or ""] if dim.size is None else dim.size) for dim in dims]


def _kind(call: KernelCall, buffer: Buffer) -> tree.TensorType:
    """What the kernel declares a buffer as."""
    kind = next(parameter.type for parameter in call.kernel.parameters if parameter.name == buffer.name)
    assert isinstance(kind, tree.TensorType), "a buffer has dims"
    return kind


def _extents(views: Views, size: Size | tuple[Size, ...]) -> list[Extent]:
    return [views.extent(each) for each in (size if isinstance(size, tuple) else (size,))]


def _grouped(layout: Layout, own: Sequence[Sequence[Extent]], wanted: Sequence[Sequence[Extent]]) -> Layout:
    """A layout by the dims of a kernel, which may stand for several of a tensor.

    own: the sizes of the tensor's. wanted: those of the kernel's, which are the same where they are as many.
    """
    rest, dims = iter(layout.dims), []
    for mine, others in zip(own, wanted, strict=True):
        runs: list[tuple[Extent, Extent]] = []
        for size in others if len(mine) == len(others) else (None,) * len(mine):
            each = next(rest)
            runs += ((size, each[0][1]),) if size is not None and len(each) == 1 else each
        dims.append(address.merged(runs))
    return dataclasses.replace(layout, dims=tuple(dims))


def _fits(call: KernelCall, buffer: Buffer | Output, layout: Layout | None) -> bool:
    """Whether each dim has one stride, as the kernel's conditions want it. A pack may have several.

    What a kernel gets as a copy may lie in any way, and what it gets dense as its dims lie.
    """
    if isinstance(buffer, Buffer) and buffer.copy is not None and layout is not None:
        return _kind(call, buffer).copied or (layout.is_dense and nested(layout) is not None)
    if layout is None:
        return True
    single = all(dim.pack is not None or len(runs) <= 1 for dim, runs in zip(buffer.shape, layout.dims, strict=True))
    return single and not _unmet(call, buffer, layout)


def is_asked(condition: Any) -> bool:
    """Whether a condition is on strides, which are known once values are chosen."""
    return bool(dim_conditions.strides_in(condition))


def unmet(call: KernelCall) -> str:
    """The condition on strides that does not hold for a call, in words; "" for none."""
    present = (buffer for buffer in call.strided if isinstance(buffer, Output) or buffer.value is not None)
    return next(filter(None, (_unmet(call, buffer, buffer.layout) for buffer in present)), "")


def apart(call: KernelCall) -> str:
    """In words: which dense buffer's elements do not lie in its order, and where; "" for none."""
    found = (each for each in call.copied if isinstance(each, Buffer) and isinstance(each.value, ir.Value))
    bad = next((each for each in found if not _fits(call, each, each.copy)), None)
    if bad is None or bad.copy is None:
        return ""
    order = ", ".join(map(str, bad.shape))
    return f"{layout_words.in_words(bad, bad.copy, 'is')}, and kernel {call.kernel.name} takes it dense as [{order}]"


def _unmet(call: KernelCall, buffer: Buffer | Output, layout: Layout | None) -> str:
    if layout is None or not is_asked(call.kernel.where):
        return ""
    name = name_of(call, buffer)
    strides = {
        f"stride({name}, {dim})": runs[0][1].number if runs else 0
        for dim, runs in zip(buffer.shape, layout.dims, strict=True)
        if dim.pack is None
    }
    sizes = {dim: size if isinstance(size, int) else None for dim, size in call.dims.items()} | strides
    for asked in dim_conditions.conjuncts(call.kernel.where):
        if any(each.name == name for each in dim_conditions.strides_in(asked)) and not judge.holds(asked, sizes):
            shown = ", ".join(f"{n} = {judge.shown(sizes.get(n))}" for n in sorted(dim_conditions.numbers_in(asked)))
            return f"`{asked.span.written}` does not hold: {shown}"
    return ""


def name_of(call: KernelCall, buffer: Buffer | Output) -> str:
    """What the kernel calls a buffer."""
    if isinstance(buffer, Buffer):
        return buffer.name
    result = next(r for r, o in zip(call.kernel.results, call.outputs, strict=True) if o is buffer)
    return result.alias or result.name or "the result"


# ---- packs ----------------------------------------------------------------------------------------------------------


def _refined(call: KernelCall) -> KernelCall | None:
    """The call with each pack in the same sizes for all buffers. None where it is not known how they go together."""
    made: dict[int, list[Runs]] = {}
    for pack in dict.fromkeys(dim.pack for buffer in call.strided for dim in buffer.shape if dim.pack is not None):
        places = [(b, at) for b in call.strided for at, dim in enumerate(b.shape) if dim.pack == pack]
        runs = refined([b.layout.dims[at] for b, at in places if b.layout is not None])
        if runs is None:
            return None
        for (buffer, at), own in zip(places, runs, strict=True):
            dims = made.setdefault(id(buffer), list(buffer.layout.dims) if buffer.layout is not None else [])
            dims[at] = own

    def renewed(buffer: Any) -> Any:
        if id(buffer) not in made:
            return buffer
        return dataclasses.replace(buffer, layout=dataclasses.replace(buffer.layout, dims=tuple(made[id(buffer)])))

    arguments, outputs = tuple(map(renewed, call.arguments)), tuple(map(renewed, call.outputs))
    return dataclasses.replace(call, arguments=arguments, outputs=outputs)


# ---- in the shim ----------------------------------------------------------------------------------------------------


def passed(call: KernelCall) -> list[Extent]:
    """The amounts that are known at run time only, which a dispatch is given."""
    amounts = chain(*(buffer.layout.amounts() for buffer in call.strided if buffer.layout is not None))
    return [amount for amount in dict.fromkeys(amounts) if amount.number is None]


def signature(call: KernelCall) -> Any:
    """What two calls must share to use one executable: numbers, and which of the given amounts stands where."""
    given = passed(call)
    layouts = (buffer.layout for buffer in call.strided if buffer.layout is not None)

    def told(amount: Extent) -> tuple[str, int]:
        return ("given", given.index(amount)) if amount.number is None else ("", amount.number)

    return tuple((tuple(map(len, layout.dims)), *map(told, layout.amounts())) for layout in layouts)


@dataclass(frozen=True)
class Moves:
    """How the strided buffers of a call lie, as values: of each how many elements its memory has, and its first one.

    strides: those of each dim that is not a pack, buffer by buffer.
    """

    counts: list[ir.Value]
    offsets: list[ir.Value]
    strides: list[ir.Value]


def moves(call: KernelCall, given: Mapping[Extent, ir.Value], workgroup: Callable[[int], ir.Value]) -> Moves:
    """What a call's buffers lie like in a workgroup, at the current point.

    given: the amounts that are passed. workgroup: makes the number of the workgroup in a dim of the grid.
    """

    def value(amount: Extent) -> ir.Value:
        return given[amount] if amount.number is None else emit.index(amount.number)

    def taken_apart(number: ir.Value, runs: Runs) -> list[ir.Value]:
        """A number as the indices that it flattens."""
        found: list[ir.Value] = []
        for size, _ in reversed(runs[1:]):
            along = value(size)
            found.insert(0, emit.value("arith.remui", [number, along], number.type))
            number = emit.value("arith.divui", [number, along], number.type)
        return [number, *found]

    layouts = [buffer.layout for buffer in call.strided if buffer.layout is not None]
    dims = [list(zip(b.shape, layout.dims, strict=True)) for b, layout in zip(call.strided, layouts, strict=True)]
    grid = [size.name if isinstance(size, tree.DimRef) else None for size in call.kernel.grid]
    places: dict[str, list[ir.Value]] = {}
    for dim, runs in chain(*dims):
        if dim.pack is not None and dim.pack not in places:
            places[dim.pack] = taken_apart(workgroup(grid.index(dim.pack)), runs)

    def first(layout: Layout, own: Sequence[tuple[tree.Dim, Runs]]) -> ir.Value:
        total = value(layout.offset)
        for dim, runs in own:
            for place, (_, stride) in zip(places[dim.pack], runs, strict=True) if dim.pack is not None else ():
                if stride != ZERO:
                    total = emit.plus(total, emit.times(place, value(stride)))
        return total

    return Moves(
        [value(layout.count) for layout in layouts],
        list(map(first, layouts, dims)),
        [value(runs[0][1] if runs else ZERO) for dim, runs in chain(*dims) if dim.pack is None],
    )
