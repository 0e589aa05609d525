"""What slices of open sizes are cut by is computed outside of dispatches.

    %n = arith.muli %a, %b                          %m = arith.muli %a, %b
    %s = tensor.extract_slice %x[0, 0] [%n, 8]  =>  %n = util.optimization_barrier %m
                                                    %s = tensor.extract_slice %x[0, 0] [%n, 8]

IREE 3.13 moves what computes a size or a place into the dispatch that reads the slice. Where an elementwise op there
reads a whole tensor, too, it makes one dim of all of them, of the slice as well, whose elements do not lie in one row:
it has to be copied, and that copy does not compile. A barrier stays outside. An assumption would not, where the number
is made from constants alone: IREE computes it at the start, and converts it to an index in the dispatch.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.op_names import ops_in
from opsplice.rewrites.ir import emit

_BARRIER = "util.optimization_barrier"
_STAYING = (_BARRIER, "util.assume.int", "arith.constant")


def keep_outside(module: ir.Module) -> None:
    """Change a module at `crossed_reads.PHASE`."""
    with emit.building(module):
        for op in ops_in(module.operation, "tensor.extract_slice"):
            for number in range(1, len(op.operands)):
                _hold(op.operands[number])


def _hold(number: ir.Value) -> None:
    if not isinstance(number.owner, ir.Block) and number.owner.name not in _STAYING:
        emit.put_behind(number, lambda each: emit.value(_BARRIER, [each], each.type))
