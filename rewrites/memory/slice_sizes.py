"""What slices of open sizes are cut by is computed outside of dispatches.

    %n = arith.muli %a, %b                          %m = arith.muli %a, %b
    %s = tensor.extract_slice %x[0, 0] [%n, 8]  =>  %n = util.assume.int %m<umin = 0, umax = 9007199254740991>
                                                    %s = tensor.extract_slice %x[0, 0] [%n, 8]

IREE 3.13 moves what computes a size or a place into the dispatch that reads the slice. Where an elementwise op there
reads a whole tensor, too, it makes one dim of all of them, of the slice as well, whose elements do not lie in one row:
it has to be copied, and that copy does not compile. An assumption stays outside.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.op_names import ops_in
from opsplice.rewrites.ir import emit

_ASSUMED = "util.assume.int"
_STAYING = (_ASSUMED, "arith.constant")
_ANY_SIZE = "[[#util.int.assumption<umin = 0, umax = 9007199254740991>]]"  # as IREE assumes of the inputs' sizes


def keep_outside(module: ir.Module) -> None:
    """Change a module at `crossed_reads.PHASE`."""
    with emit.building(module):
        for op in ops_in(module.operation, "tensor.extract_slice"):
            for number in range(1, len(op.operands)):
                _assume(op.operands[number])


def _assume(number: ir.Value) -> None:
    if isinstance(number.owner, ir.Block) or number.owner.name in _STAYING:
        return
    form = ir.Attribute.parse(_ANY_SIZE)
    emit.put_behind(number, lambda each: emit.value(_ASSUMED, [each], each.type, assumptions=form))
