"""What branches of the virtual machine hand over has one width, and no reference is handed over twice.

    vm.br ^bb1(%a, %n : i64, i32)      =>      %w = vm.ext.i32.i64.u %n
    ^bb1(%x: i64, %y: i32):                    vm.br ^bb1(%a, %w : i64, i64)
                                               ^bb1(%x: i64, %z: i64):
                                                 %y = vm.trunc.i64.i32 %z

A number of 64 bits is in two registers. IREE 3.13 orders the moves of a branch as if each had one: a number of 32 bits
that lies in the second register of another is overwritten before it is read, or overwrites that one.

    vm.br ^bb1(%a, %a)      =>      %b = vm.assign.ref %a
                                    vm.br ^bb1(%a, %b)

Where a branch is the last that reads a reference, it takes it away from its register. IREE 3.13 may do so before it
reads it a second time, as when a loop has made several values in one buffer: one of them is then null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iree.compiler import ir

from opsplice.matchers.ir.op_names import last_op, ops_in
from opsplice.rewrites.ir import emit

# When no more blocks are made.
PHASE = "vm"

_NARROW, _WIDE = ("i32", "f32"), ("i64", "f64")
_BRANCHES = ("vm.br", "vm.cond_br")


def widen(module: ir.Module) -> None:
    """Change a module at `PHASE` such that no block is given numbers of 32 bits beside those of 64."""
    with module.context, ir.Location.unknown():
        for function in ops_in(module.operation, "vm.func"):
            for block in list(function.regions[0].blocks)[1:]:
                branches = [last_op(before) for before in dict.fromkeys(block.predecessors)]
                if _is_mixed(block) and all(branch.name in _BRANCHES for branch in branches):
                    _widen(block, branches)


def part(module: ir.Module) -> None:
    """Change a module at `PHASE` such that no branch hands over a reference twice."""
    with module.context:
        for branch in ops_in(module.operation, *_BRANCHES):
            handed = list(branch.operands)
            for at, value in enumerate(handed):
                if str(value.type).startswith("!vm.ref") and value in handed[:at]:
                    with branch.location, ir.InsertionPoint(branch):
                        branch.operands[at] = emit.value("vm.assign.ref", [value], value.type)


def _is_mixed(block: ir.Block) -> bool:
    kinds = {str(argument.type) for argument in block.arguments}
    return bool(kinds.intersection(_NARROW) and kinds.intersection(_WIDE))


def _widen(block: ir.Block, branches: Sequence[ir.Operation]) -> None:
    narrow, wide = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(64)
    for argument in block.arguments:
        kind = argument.type
        if str(kind) not in _NARROW:
            continue
        is_float = str(kind) == "f32"
        for branch in branches:
            with ir.InsertionPoint(branch):
                for at in _handed(branch, block, argument.arg_number):
                    given = branch.operands[at]
                    bits = emit.value("vm.bitcast.f32.i32", [given], narrow) if is_float else given
                    branch.operands[at] = emit.value("vm.ext.i32.i64.u", [bits], wide)
        argument.set_type(wide)
        with ir.InsertionPoint.at_block_begin(block):
            bits = emit.value("vm.trunc.i64.i32", [argument], narrow)
            number = emit.value("vm.bitcast.i32.f32", [bits], kind) if is_float else bits
        argument.replace_all_uses_except(number, bits.owner.operation)


def _handed(branch: ir.Operation, block: ir.Block, number: int) -> Iterator[int]:
    """Which operands of a branch are a block's argument of a number."""
    if branch.name == "vm.br":
        yield number
        return
    sizes = list(ir.DenseI32ArrayAttr(branch.attributes["operandSegmentSizes"]))
    for successor, target in enumerate(branch.successors):
        if target == block:
            yield sum(sizes[: 1 + successor]) + number
