"""Names for ops that come without a place, as those of bytecode without locations: messages say them instead."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iree.compiler import ir


def number_ops(module: ir.Module) -> None:
    """Let an op that has no location be `arith.negf number 3`: the third of its name in the module as it is given."""
    from iree.compiler import ir

    if not any(isinstance(op.location, ir.UnknownLoc) for op in module.body.operations):
        return
    seen: Counter[str] = Counter()

    def visit(op: ir.Operation) -> ir.WalkResult:
        seen[op.name] += 1
        if isinstance(op.location, ir.UnknownLoc):
            op.location = ir.Location.name(f"{op.name} number {seen[op.name]}", context=module.context)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
