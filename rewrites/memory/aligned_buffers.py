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

from opsplice.matchers.dims.size_reader import SizeReader
from opsplice.matchers.ir.op_names import ops_in, symbol_of
from opsplice.rewrites.ir import emit
from opsplice.spec_lang.syntax import vocabulary

# When slices and updates are explicit, and nothing of them is put into dispatches yet.
PHASE = "flow"

_OWN = "flow.executable"  # what the compiler makes code for itself
_SLICES = ("flow.tensor.slice", "tensor.extract_slice")
# They give the bytes that they take.
SAME_BYTES = frozenset(f"flow.tensor.{n}" for n in ("bitcast", "clone", "reshape", "tie_shape", "transfer"))
SAME_BYTES |= {f"tensor.{n}" for n in ("cast", "collapse_shape", "expand_shape", "reshape")}


def align(module: ir.Module, alignment: int) -> None:
    """Give kernels buffers of their own where those that IREE would choose may start at no multiple of so many bytes.

    The module must be at `PHASE`.
    """
    for dispatch in _of_kernels(module):
        # IREE places no result behind one that is tied.
        placed = [n for n in dispatch.fresh if any(_is_off(u, 8 * alignment) for u in _updates(dispatch.op.results[n]))]
        sliced = [n for n, a in enumerate(dispatch.arguments) if _is_slice_off(a, 8 * alignment)]
        _tie(dispatch, placed[-1] + 1 if placed else 0, sliced)


def align_early(module: ir.Module) -> None:
    """The same for a module that somebody else compiles on from an earlier phase: there no offset is known.

    What it has no slices of by then may still start anywhere.
    """
    for dispatch in _of_kernels(module):
        sliced = [n for n, a in enumerate(dispatch.arguments) if _is_early_slice(a)]
        _tie(dispatch, len(dispatch.fresh), sliced)


def _of_kernels(module: ir.Module) -> Iterator[Dispatch]:
    own = {symbol_of(top.operation) for top in module.body.operations if top.operation.name == _OWN}
    with module.context, ir.Location.unknown():
        for op in ops_in(module.operation, "flow.dispatch"):
            if _executable(op) not in own:
                yield Dispatch(op)


def _executable(dispatch: ir.Operation) -> str:
    return str(ir.SymbolRefAttr(ir.ArrayAttr(dispatch.attributes["entry_points"])[0]).value[0])


class Dispatch:
    """A dispatch's operands, each kind apart, and to which of its arguments its results are tied."""

    def __init__(self, op: ir.Operation) -> None:
        self.op = op
        self.workload, self.arguments, self.argument_dims, self.result_dims = segments(op)
        tied = ir.ArrayAttr(op.attributes["tied_operands"]) if "tied_operands" in op.attributes else ()
        self.tied = [ir.IntegerAttr(at).value for at in tied] or [-1] * len(op.results)
        self.fresh = list(itertools.takewhile(lambda n: self.tied[n] < 0, range(len(self.tied))))


def _tie(dispatch: Dispatch, moved: int, sliced: Sequence[int]) -> None:
    """Tie so many results to new buffers, and these arguments, as far as they are not, to further results."""
    op, sliced = dispatch.op, [n for n in sliced if n not in dispatch.tied]
    if not (moved or sliced):
        return
    with ir.InsertionPoint(op), op.location:
        dims = _dims_of([r.type for r in op.results], dispatch.result_dims)
        empties = [emit.value("flow.tensor.empty", dims[n], op.results[n].type) for n in range(moved)]
        held = _dims_of([a.type for a in dispatch.arguments], dispatch.argument_dims)
        tied = [len(dispatch.arguments) + n for n in range(moved)] + dispatch.tied[moved:] + sliced
        made = emit.dispatch(
            list(ir.ArrayAttr(op.attributes["entry_points"])),
            dispatch.workload,
            [*dispatch.arguments, *empties],
            [*held, *dims[:moved]],
            [*(r.type for r in op.results), *(dispatch.arguments[n].type for n in sliced)],
            [*dims, *(held[n] for n in sliced)],
            tied,
        )
    for name in set(op.attributes) - {"entry_points", "operandSegmentSizes", "tied_operands"}:
        made[0].owner.attributes[name] = op.attributes[name]
    emit.replace(op, *made[: len(op.results)])


def segments(op: ir.Operation) -> list[list[ir.Value]]:
    """The operands of an op, each group of them apart."""
    found, at = [], 0
    for size in ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]):
        found.append(list(op.operands)[at : at + size])
        at += size
    return found


def _dims_of(kinds: Sequence[ir.Type], dims: Sequence[ir.Value]) -> list[list[ir.Value]]:
    """The dynamic dims of each type, out of those of all."""
    left = iter(dims)
    return [[next(left) for _ in range(open_dims(kind))] for kind in kinds]


def open_dims(kind: ir.Type) -> int:
    """How many sizes of a tensor its type does not say; none of another value's."""
    return sum(map(kind.is_dynamic_dim, range(kind.rank))) if isinstance(kind, ir.RankedTensorType) else 0


# ---- offsets ---------------------------------------------------------------------------------------------------------


def _updates(result: ir.Value) -> Iterator[ir.Operation]:
    """The ops that put a result into a larger tensor."""
    for use in result.uses:
        user = use.owner.operation
        if user.name in SAME_BYTES:
            yield from _updates(user.results[0])
        elif user.name == "flow.tensor.update" and segments(user)[3][0] == result:
            yield user


def _is_slice_off(value: ir.Value, bits: int) -> bool:
    """Whether a value may be part of a larger tensor that starts at no multiple of so many bits."""
    return any(op.name == "flow.tensor.slice" and _is_off(op, bits) for op in _views(value))


def _is_early_slice(value: ir.Value) -> bool:
    return any(op.name == "tensor.extract_slice" for op in _views(value))


def _views(value: ir.Value) -> Iterator[ir.Operation]:
    """The ops through which a value is seen, the last one first, to the one that makes it."""
    while isinstance(value, ir.OpResult):
        op = value.owner.operation
        yield op
        if op.name not in _SLICES and op.name not in SAME_BYTES:
            return
        value = op.operands[0]


def _is_off(op: ir.Operation, bits: int) -> bool:
    """Whether the part of a tensor that an op reads or writes may start at no multiple of so many bits."""
    (whole,), sizes, starts, *_ = segments(op)
    kind, dims = ir.RankedTensorType(whole.type), list(sizes)
    step = vocabulary.bits(str(kind.element_type)) or 8
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
        return abs(int(ir.IntegerAttr(maker.attributes["value"]).value))
    if maker is not None and maker.name in ("arith.addi", "arith.subi"):
        return math.gcd(*map(_factor, maker.operands))
    return SizeReader().number(number).factor
