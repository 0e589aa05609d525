"""What stands for an operator that no rule took takes its place.

%y = torch.operator "onnx.LSTM"(%x) {opsplice.stand_in, ...} {      =>      %z = func.call @loop(%x)
  %z = func.call @loop(%x)
  torch.operator_terminator %z
}                                                                           and %z for %y

Other operators with a region are left as they are: those of ONNX that branch or go around, for one.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.op_names import last_op, ops_in
from opsplice.rewrites.ir import emit

MARK = "opsplice.stand_in"


def put_in(module: ir.Module) -> None:
    """Change a module as it was read, after the rules that take such operators whole."""
    for whole in ops_in(module.operation, "torch.operator"):
        if MARK not in whole.attributes:
            continue
        [block] = whole.regions[0].blocks
        end = last_op(block)
        for op in [op.operation for op in block if op.operation != end]:
            op.move_before(whole)
        emit.replace(whole, *end.operands)
