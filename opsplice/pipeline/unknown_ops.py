"""Ops of dialects that IREE does not know, which a rule may take. IREE 3.13 crashes where one is left."""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.op_names import location_text, ops_in
from opsplice.pipeline.compiler import CompileError

# Behind the last rules for ops that are in no dispatch, and before IREE makes dispatches.
PHASE = "global-optimization"


def check(module: ir.Module) -> None:
    """Raise CompileError if an op is left that IREE does not know."""
    context = module.context
    named = {op.name: op for op in ops_in(module.operation)}
    for name, op in named.items():
        if not context.is_registered_operation(name):
            raise CompileError(
                f"IREE knows no op {name}, and no rule took the one at {location_text(op)}",
                hint="IREE takes ops of its own dialects; others have to be replaced by a rule",
            )
