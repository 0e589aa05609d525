"""A module whose first inputs become parameters: weights that a program reads when it is loaded, not at each call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from opsplice.frontends.parameters import take_inputs
from opsplice.matchers.ir.op_names import symbol_of
from opsplice.rewrites.ir import emit


def with_parameters(module: Any, names: Sequence[str]) -> bytes:
    """A module of JAX's as bytecode of IREE's, in which the first inputs of `main` are parameters of these names."""
    text = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True  # JAX notes how arrays could be spread over devices
        ours = ir.Module.parse(text)
        if names:
            (main,) = (op for op in ours.body.operations if symbol_of(op.operation) == "main")
            take_inputs(main.operation, dict(enumerate(names)))
        return emit.bytecode(ours.operation)
