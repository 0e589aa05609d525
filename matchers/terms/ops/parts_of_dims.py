"""Slices of a dim, and tensors put together along a dim.

tensor.extract_slice %x[8] [8] [1] of 16     =>   take(reduce take over p of x[(p i)], 1), p of 2 and i of 8
tensor.extract_slice %x[1] [8] [2] of 16     =>   take(reduce take over p of x[(i p)], 1)
tensor.extract_slice %x[3] [8] [1] of 16     =>   x[i + 3]
... where a pattern has no take              =>   x[i + 8] or x[2 * i + 1]
tensor.concat %a, %b, or both inserted       =>   stack(p, a[i], b[i]) where the dim is (p i)
... of any sizes, at i + 3                   =>   a[i + 3] or b[i] or b[i + 1], where that lies in one of them
... a of n rows, at i + n                    =>   b[i], if i runs over no more than b has
bitcast of complex.create(a[i], b[i])        =>   stack(p, a[i], b[i]), p of 2, the last dim of the floats
reduce max over i of concat(a, b)[i]         =>   max(reduce max over i of a[i], reduce max over i of b[i])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from iree.compiler import ir

from opsplice.matchers.dims.extents import ONE, Extent
from opsplice.matchers.dims.size_reader import BITCAST
from opsplice.matchers.ir.tensor_values import (
    DYNAMIC,
    defining_op,
    element_type,
    is_structured,
    ranges_of,
    rests_on,
    shape_of,
)
from opsplice.matchers.terms.ops.index_reads import TAKE
from opsplice.matchers.terms.ops.structured_ops import reduces
from opsplice.matchers.terms.terms import (
    UNIT,
    Access,
    Apply,
    Constant,
    DimSize,
    Flat,
    Fresh,
    Index,
    Loop,
    LoopIndex,
    Reduce,
    Sized,
    Sum,
    Term,
    flatten,
    mentions,
    moved,
    split,
)

SLICE, CONCAT, INSERT = "tensor.extract_slice", "tensor.concat", "tensor.insert_slice"
_COMPLEX = "complex.create"
OF_PARTS = (SLICE, CONCAT, INSERT, BITCAST)
# The op of a term that is the element of one of several tensors: of the one whose number its first operand is.
STACK = "stack"
# How many terms of a reduction are looked at for tensors that are put together along what it runs over.
_MOST_TERMS = 24


def part_read(
    op: ir.Operation,
    indices: tuple[Index, ...],
    fresh: Fresh,
    note: Callable[[ir.Value], None],
    extent: Callable[[Any], Extent],
    expand: Callable[[Access], Any],
) -> tuple[Term | None, tuple[ir.Operation, ...]]:
    """What the element of an op of `OF_PARTS` is, None where that cannot be told, and the ops read besides."""
    if op.name == BITCAST:
        return paired(op, indices, expand)
    return (sliced(op, indices, fresh, extent) if op.name == SLICE else joined(op, indices, note, extent)), ()


def sliced(
    op: ir.Operation,
    indices: tuple[Index, ...],
    fresh: Fresh,
    extent: Callable[[Any], Extent],
) -> Term | None:
    """The element of its source that an element of a slice is, None where a step is known at run time only."""
    places = places_in_source(op, indices)
    if places is None:
        return None
    source, read = op.operands[0], list[Index]()
    whole, sizes = shape_of(source) or (), sizes_in(op)
    numbers: list[tuple[Index, int]] = []
    for axis, (index, given, step) in enumerate(places):
        start, size, dim = (extent(each) for each in (given, sizes[axis], sizes_along(source)[axis]))
        offset, count, most = start.number, size.number, dim.number
        if (step == 1 or most == 1) and size == dim:
            read.append(index)
        elif offset is None or count is None or most is None or len(whole) != len(indices):
            read.append(moved(index, step, given if offset is None else offset))
        elif count and step == 1 and not offset % count and not most % count:
            part = fresh(most // count)
            numbers.append((part, offset // count))
            read.append(flatten((part, index), (most // count, count)))
        elif most == count * step and offset < step:
            part = fresh(step)
            numbers.append((part, offset))
            read.append(flatten((index, part), (count, step)))
        else:
            read.append(moved(index, step, offset))
    kind = element_type(source)
    made: Term = Access(source, tuple(read))
    for part, number in numbers:
        assert isinstance(part, Loop), "a part is not all of a dim"
        made = Apply(TAKE, (Reduce(TAKE, (part,), made), Constant(number, "index")), (), kind)
    return made


def cut_from(term: Apply) -> Access | None:
    """The element of the whole that one of a part is, as for parts of other sizes; None where it is no slice."""
    every, at = term.args
    assert isinstance(every, Reduce), "what is taken is one of all elements along a dim"
    inner = cut_from(every.body) if isinstance(every.body, Apply) and every.body.op == TAKE else every.body
    if not isinstance(at, Constant) or not isinstance(at.value, int) or not isinstance(inner, Access):
        return None
    (part,), number, found = every.loops, at.value, list[Index]()
    for index in inner.indices:
        if isinstance(index, Flat) and index.parts[0] == part and (count := _count(index.sizes[1:])) is not None:
            found.append(moved(flatten(index.parts[1:], index.sizes[1:]), 1, number * count))
        elif isinstance(index, Flat) and index.parts[-1] == part and (count := _count(index.sizes[-1:])) is not None:
            found.append(moved(flatten(index.parts[:-1], index.sizes[:-1]), count, number))
        elif mentions(index, part):
            return None
        else:
            found.append(index)
    return Access(inner.value, tuple(found))


def _count(sizes: Sequence[Sized]) -> int | None:
    """The product of sizes, None where one is known at run time only."""
    numbers = [size for size in sizes if isinstance(size, int)]
    return math.prod(numbers) if len(numbers) == len(sizes) else None


def places_in_source(op: ir.Operation, indices: tuple[Index, ...]) -> list[tuple[Index, Any, int]] | None:
    """For each dim of what is sliced the slice's index, where it starts and its step. None if a step is not known.

    A start that is known at run time only is a value of the program. Dims of size one may be left out of the slice.
    """
    ranges = ranges_of(op)
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    if any(step == DYNAMIC for _, _, step in ranges):
        return None
    dynamic = iter(list(op.operands)[1 : 1 + segments[1]])
    shape = list(shape_of(op.results[0]) or ())
    left, spare, found = list(indices), len(ranges) - len(shape), []
    for offset, size, step in ranges:
        if spare and size == 1 and shape[:1] != [1]:
            spare -= 1
            left.insert(0, UNIT)
        else:
            shape.pop(0)
        found.append((left.pop(0), next(dynamic) if offset == DYNAMIC else offset, step))
    return found


def joined(
    op: ir.Operation,
    indices: tuple[Index, ...],
    note: Callable[[ir.Value], None],
    extent: Callable[[Any], Extent],
) -> Term | None:
    """The element that tensors put together along one dim have at indices. note: told what is read.

    None where it may lie in several that are of different sizes.
    """
    axis, parts = _joined(op, note)
    sizes, start = [extent(sizes_along(part)[axis]) for part in parts], Extent(0)
    for part, size in zip(parts, sizes, strict=True):
        inside = _inside(indices[axis], start, size, extent)
        if inside is not None:
            return Access(part, (*indices[:axis], inside, *indices[axis + 1 :]))
        start += size
    each = sizes[0].number if len(parts) > 1 and len(set(sizes)) == 1 else None
    if each is None:
        return None
    number, inside = split(indices[axis], (len(parts), each))
    at = (*indices[:axis], inside, *indices[axis + 1 :])
    return Apply(STACK, (LoopIndex(number), *(Access(part, at) for part in parts)), (), element_type(op.results[0]))


def paired(
    op: ir.Operation, indices: tuple[Index, ...], expand: Callable[[Access], Any]
) -> tuple[Term | None, tuple[ir.Operation, ...]]:
    """The float that pairs have at indices, where they are complex numbers that the program makes of two floats.

    None for another bitcast. expand: what makes an element; the ops that it reads are the second result.
    """
    source, made = op.operands[0], op.results[0]
    if (*(shape_of(source) or ()), 2) != shape_of(made) or not element_type(source).startswith("complex"):
        return None, ()
    step = expand(Access(source, indices[:-1]))
    number = None if step is None else step.term
    if step is None or not isinstance(number, Apply) or number.op != _COMPLEX:
        return None, ()
    return Apply(STACK, (LoopIndex(indices[-1]), *number.args), (), element_type(made)), step.ops


def _inside(index: Index, start: Extent, size: Extent, extent: Callable[[Any], Extent]) -> Index | None:
    """An index counted from `start`, in a dim of `size` there; None where it may lie outside, as far as is known."""
    found = index if isinstance(index, Sum) else moved(index, 1, 0)
    first = last = extent(found.constant) - start
    for factor, loop in found.terms:
        runs = loop.size if isinstance(loop, Loop) and loop.size is not None else getattr(loop, "dim", None)
        if factor < 0 or runs is None:
            return None
        last += (extent(runs) - ONE) * Extent(factor)
    if not first.is_natural or not (size - last - ONE).is_natural:
        return None
    if size == ONE:
        return UNIT
    ((factor, loop), *more) = found.terms or ((0, UNIT),)
    is_all = factor == 1 and not more and last == size - ONE and first == Extent(0)
    return loop if is_all else Sum(found.terms, first if first.number is None else first.number)


def sizes_along(value: ir.Value) -> list[int | DimSize]:
    """The size of a tensor along each axis, or where it is read if it is known at run time only."""
    return [DimSize(value, axis) if size is None else size for axis, size in enumerate(shape_of(value) or ())]


def is_apart(value: ir.Value, known: dict[ir.Value, bool]) -> bool:
    """Whether no tensors are put together above a value, up to what is reduced. known: what is known so far."""
    return rests_on(value, _above, known)


def _above(value: ir.Value) -> Sequence[ir.Value] | None:
    """What each element of a value is made of, nothing where it is reduced; None for tensors that are put together."""
    op = defining_op(value)
    if op is None:
        return ()
    if op.name in (CONCAT, INSERT):
        return None
    return () if is_structured(op) and reduces(op, value.result_number) else list(op.operands)


def joints(
    above: Term,
    loop: Loop,
    expand: Callable[[Access], Any],
    note: Callable[[ir.Value], None],
    apart: dict[ir.Value, bool],
) -> list[int | DimSize]:
    """The sizes of what is put together along a loop, none if nothing is that the first terms read at it.

    expand: what makes an element. note: told what is read. apart: see `is_apart`; above such values nothing is read.
    """
    pending: list[Term] = [above]
    for _ in range(_MOST_TERMS):
        if not pending:
            break
        term = pending.pop(0)
        if isinstance(term, Apply):
            pending += term.args
        if not isinstance(term, Access) or not any(mentions(index, loop) for index in term.indices):
            continue
        if is_apart(term.value, apart):
            continue
        op = defining_op(term.value)
        if op is not None and op.name in (CONCAT, INSERT):
            axis, parts = _joined(op, note)
            if term.indices[axis] == loop:
                return [sizes_along(part)[axis] for part in parts]
        step = expand(term)
        pending += () if step is None else (step.term,)
    return []


def _joined(op: ir.Operation, note: Callable[[ir.Value], None]) -> tuple[int, list[ir.Value]]:
    if op.name != CONCAT:
        return _inserted(op, note)
    return ir.IntegerAttr(op.attributes["dim"]).value, list(op.operands)


def _inserted(op: ir.Operation | None, note: Callable[[ir.Value], None]) -> tuple[int, list[ir.Value]]:
    """The dim along which tensors are inserted one behind another until no room is left, and these; none otherwise."""
    shape = shape_of(op.results[0]) if op is not None else None
    found: dict[int, ir.Value] = {}
    axes: set[int] = set()
    while op is not None and op.name == INSERT and shape is not None:
        source, into = op.operands[0], op.operands[1]
        ranges, own = ranges_of(op), shape_of(source)
        if own is None or len(own) != len(shape) or any(DYNAMIC in each for each in ranges):
            return 0, []
        short = [axis for axis, (_, size, _) in enumerate(ranges) if size != shape[axis]]
        if len(short) != 1 or any(step != 1 for _, _, step in ranges) or ranges[short[0]][0] in found:
            return 0, []
        axes.update(short)
        found[ranges[short[0]][0]] = source
        note(into)
        op = defining_op(into)
    if op is None or op.name != "tensor.empty" or len(axes) != 1 or shape is None:
        return 0, []
    axis, whole = axes.pop(), 0
    offsets = sorted(found)
    for offset in offsets:
        if offset != whole:
            return axis, []
        whole += (shape_of(found[offset]) or ())[axis] or 0
    return axis, [found[offset] for offset in offsets] if whole == shape[axis] else []


def sizes_in(op: ir.Operation) -> list[int | ir.Value]:
    """The size of a slice along each dim of what it is cut from."""
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    dynamic = iter(list(op.operands)[1 + segments[1] :])
    return [next(dynamic) if size == DYNAMIC else size for _, size, _ in ranges_of(op)]
