"""Kernels get buffers that start at a multiple of 64 bytes, wherever IREE would place them.

    %s = flow.tensor.slice %x[%at for %n]              IREE passes the address inside of %x
    %r = flow.dispatch @k(%s)                          and writes the result where it goes in %y
    flow.tensor.update %r, %y[%to]

        =>

    %e = flow.tensor.empty
    %r:2 = flow.dispatch @k(%s, %e) -> (%e, %s)        as if written in place

IREE 3.13 makes slices and results that are overwritten in buffers of their own, and copies them from and to where they
belong. That is done only where an offset is not known to be a multiple. The bindings of the executable stay as they
are: a dispatch has none for a result that is tied to an operand, and what is tied here comes in the results' order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from iree.compiler import ir

from opsplice.matchers.extents import extent_of_number
from opsplice.matchers.ir_names import ops_in, symbol_of
from opsplice.rewrites import emit
from opsplice.spec_lang import ops

# When slices and updates are explicit, and nothing of them is put into dispatches yet.
PHASE = "flow"

_OWN = "flow.executable"  # what the compiler makes code for itself
# They give the bytes that they take.
_SAME_BYTES = frozenset(f"flow.tensor.{n}" for n in ("bitcast", "clone", "reshape", "tie_shape", "transfer"))


def align(module: ir.Module, alignment: int) -> None:
    """Give kernels buffers of their own where those that IREE would choose may start at no multiple of so many bytes.

    The module must be at `PHASE`.
    """
    own = {symbol_of(top.operation) for top in module.body.operations if top.operation.name == _OWN}
    with module.context, ir.Location.unknown():
        for op in ops_in(module.operation, "flow.dispatch"):
            if _executable(op) not in own:
                _align(_Dispatch(op), 8 * alignment)


def _executable(dispatch: ir.Operation) -> str:
    return ir.SymbolRefAttr(ir.ArrayAttr(dispatch.attributes["entry_points"])[0]).value[0]


class _Dispatch:
    """A dispatch's operands, each kind apart, and to which of its arguments its results are tied."""

    def __init__(self, op: ir.Operation) -> None:
        self.op = op
        self.workload, self.arguments, self.argument_dims, self.result_dims = _segments(op)
        tied = ir.ArrayAttr(op.attributes["tied_operands"]) if "tied_operands" in op.attributes else ()
        self.tied = [ir.IntegerAttr(at).value for at in tied] or [-1] * len(op.results)


def _align(dispatch: _Dispatch, bits: int) -> None:
    # IREE places no result behind one that is tied.
    fresh = list(itertools.takewhile(lambda n: dispatch.tied[n] < 0, range(len(dispatch.tied))))
    placed = [n for n in fresh if any(_is_off(update, bits) for update in _updates(dispatch.op.results[n]))]
    moved = fresh[: placed[-1] + 1] if placed else []
    sliced = [n for n, a in enumerate(dispatch.arguments) if n not in dispatch.tied and _is_slice_off(a, bits)]
    if moved or sliced:
        _tie(dispatch, moved, sliced)


def _tie(dispatch: _Dispatch, moved: Sequence[int], sliced: Sequence[int]) -> None:
    """Tie these results to new buffers, and these arguments to further results."""
    op = dispatch.op
    with ir.InsertionPoint(op), op.location:
        dims = _dims_of([r.type for r in op.results], dispatch.result_dims)
        empties = [emit.value("flow.tensor.empty", dims[n], op.results[n].type) for n in moved]
        held = _dims_of([a.type for a in dispatch.arguments], dispatch.argument_dims)
        tied = dispatch.tied + list(sliced)
        for at, n in enumerate(moved):
            tied[n] = len(dispatch.arguments) + at
        made = emit.dispatch(
            list(ir.ArrayAttr(op.attributes["entry_points"])),
            dispatch.workload,
            [*dispatch.arguments, *empties],
            [*held, *(dims[n] for n in moved)],
            [*(r.type for r in op.results), *(dispatch.arguments[n].type for n in sliced)],
            [*dims, *(held[n] for n in sliced)],
            tied,
        )
    for name in set(op.attributes) - {"entry_points", "operandSegmentSizes", "tied_operands"}:
        made[0].owner.attributes[name] = op.attributes[name]
    for old, new in zip(op.results, made, strict=False):
        old.replace_all_uses_with(new)
    op.erase()


def _segments(op: ir.Operation) -> list[list[ir.Value]]:
    """The operands of an op, each group of them apart."""
    found, at = [], 0
    for size in ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]):
        found.append(list(op.operands)[at : at + size])
        at += size
    return found


def _dims_of(kinds: Sequence[ir.Type], dims: Sequence[ir.Value]) -> list[list[ir.Value]]:
    """The dynamic dims of each type, out of those of all."""
    left = iter(dims)
    return [[next(left) for _ in range(_dynamic(kind))] for kind in kinds]


def _dynamic(kind: ir.Type) -> int:
    return sum(map(kind.is_dynamic_dim, range(kind.rank))) if isinstance(kind, ir.RankedTensorType) else 0


# ---- offsets ---------------------------------------------------------------------------------------------------------


def _updates(result: ir.Value) -> Iterator[ir.Operation]:
    """The ops that put a result into a larger tensor."""
    for use in result.uses:
        user = use.owner.operation
        if user.name in _SAME_BYTES:
            yield from _updates(user.results[0])
        elif user.name == "flow.tensor.update" and _segments(user)[3][0] == result:
            yield user


def _is_slice_off(value: ir.Value, bits: int) -> bool:
    """Whether a value may be part of a larger tensor that starts at no multiple of so many bits."""
    while isinstance(value, ir.OpResult):
        op = value.owner.operation
        if op.name == "flow.tensor.slice" and _is_off(op, bits):
            return True
        if op.name != "flow.tensor.slice" and op.name not in _SAME_BYTES:
            return False
        value = op.operands[0]
    return False


def _is_off(op: ir.Operation, bits: int) -> bool:
    """Whether the part of a tensor that an op reads or writes may start at no multiple of so many bits."""
    (whole,), sizes, starts, *_ = _segments(op)
    kind, dims = ir.RankedTensorType(whole.type), list(sizes)
    step = ops.bits(str(kind.element_type)) or 8
    step = 8 if step == 1 else step
    for axis in reversed(range(kind.rank)):
        if (step * _factor(starts[axis])) % bits:
            return True
        step *= _factor(dims.pop()) if kind.is_dynamic_dim(axis) else kind.get_dim_size(axis)
    return False


def _factor(number: ir.Value) -> int:
    """What a number is known to be a multiple of; 0 for zero."""
    maker = number.owner.operation if isinstance(number, ir.OpResult) else None
    if maker is not None and maker.name == "arith.constant":
        return abs(ir.IntegerAttr(maker.attributes["value"]).value)
    if maker is not None and maker.name in ("arith.addi", "arith.subi"):
        return math.gcd(*map(_factor, maker.operands))
    return extent_of_number(number, {}).factor
