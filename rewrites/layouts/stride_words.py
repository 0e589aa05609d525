"""What whole dispatches and commands are told of buffers that are strided or may be left out.

A dispatch binds the values that strided buffers lie in from their beginning on. After scalars and dims it is given
words, for each such buffer in the order of the signature:

    optional    1, or 0 where it is left out; a buffer of two elements is then bound in its place
    strided     the number of its first element, and the stride of each dim that is not a pack, in elements

Where strided buffers have packs, first elements depend on the workgroup. They are not words then, but stand in one more
buffer behind those of the parameters, i32[packs..., strided buffers]. So a kernel never sees how many dims a pack has.

Of a command the program notes where each buffer lies (`noted`), and hands over what is known at run time only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from opsplice.matchers.dims.extents import ZERO, Extent
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.placing import Placer
from opsplice.rewrites.layouts import strides
from opsplice.rewrites.plan.actions import Buffer, KernelCall, Output


@dataclass(frozen=True)
class Word:
    """A word of 32 bits. kind: `flag`, `first` or `stride`. name: what it is of, as conditions call it."""

    kind: str
    name: str
    amount: Extent


def packs(call: KernelCall) -> list[str]:
    """The packs of strided buffers. A buffer of first elements has a dim for each."""
    return list(dict.fromkeys(dim.pack for buffer in call.strided for dim in buffer.shape if dim.pack is not None))


def words(call: KernelCall) -> list[Word]:
    """What a dispatch is given after scalars and dims."""
    found: list[Word] = []
    optional = {p.name for p in call.kernel.parameters if getattr(p.type, "optional", False)}
    inputs = [a for a in call.arguments if isinstance(a, Buffer)]
    buffers: list[Buffer | Output] = [*inputs, *call.outputs]
    for buffer in buffers:
        name = strides.name_of(call, buffer)
        if name in optional:
            assert isinstance(buffer, Buffer), "a result is always there"
            found.append(Word("flag", f"has({name})", Extent(int(buffer.value is not None))))
        if buffer.layout is None:
            continue
        if not packs(call):
            found.append(Word("first", f"first({name})", buffer.layout.offset))
        for dim, runs in zip(buffer.shape, buffer.layout.dims, strict=True):
            if dim.pack is None:
                found.append(Word("stride", f"stride({name}, {dim})", runs[0][1] if runs else ZERO))
    return found


def noted(call: KernelCall, buffer: Buffer | Output) -> dict[str, Any]:
    """Where a strided buffer lies, as data. An axis is its size, a number or a dim's name, and its stride.

    A pack has an axis for each dim that it is made of, the same for all buffers. What is known at run time only is its
    place among the amounts that are passed, {"given": 0}.
    """
    given = strides.passed(call)

    def told(amount: Extent) -> int | dict[str, int]:
        return {"given": given.index(amount)} if amount.number is None else amount.number

    layout = buffer.layout
    assert layout is not None, "it is strided"
    axes: list[list[Any]] = []
    for dim, runs in zip(buffer.shape, layout.dims, strict=True):
        if len(runs) > 1:
            axes += ([told(size), told(stride)] for size, stride in runs)
        else:
            axes.append([dim.name if dim.size is None else dim.size, told(runs[0][1]) if runs else 0])
    return {"count": told(layout.count), "offset": told(layout.offset), "axes": axes}


def first_elements(call: KernelCall, placer: Placer) -> ir.Value:
    """The table of first elements, at the current point."""
    named = packs(call)
    index, word = ir.IndexType.get(), ir.IntegerType.get_signless(32)
    sizes = [placer.size(call.dims[pack]) for pack in named]
    given = {amount: placer.amount(amount) for amount in strides.passed(call)}
    kind = emit.tensor_type([*sizes, len(call.strided)], word)
    empty = emit.value("tensor.empty", [size for size in sizes if isinstance(size, ir.Value)], kind)
    made, body = emit.loop([], [], empty)

    def at(axis: int) -> ir.Value:
        return emit.value("linalg.index", [], index, dim=ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis))

    with ir.InsertionPoint(body):
        grid = [getattr(size, "name", None) for size in call.kernel.grid]
        moves = strides.moves(call, given, lambda dim: at(named.index(grid[dim] or "")))
        buffer, found = at(len(named)), emit.index(0)
        for number, offset in enumerate(moves.offsets):
            is_it = emit.compared("==", buffer, emit.index(number))
            found = emit.value("arith.select", [is_it, offset, found], index)
        emit.op("linalg.yield", [emit.value("arith.index_cast", [found], word)])
    return made


def left_out(written: str) -> ir.Value:
    """What is bound in the place of a buffer that a match lacks. written: its elements.

    They are not equal: IREE fills a buffer of equal ones anew in each call, of others it keeps one with the program.
    """
    element = ir.Type.parse(written)
    numbers = [emit.number(each, element) for each in (0, 1)]
    held = ir.DenseElementsAttr.get(numbers, ir.RankedTensorType.get([len(numbers)], element))
    return emit.value("arith.constant", [], held.type, value=held)
