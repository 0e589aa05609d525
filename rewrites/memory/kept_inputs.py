"""Keeps a program from writing into the arrays that it is called with.

    %x = hal.tensor.import %arg0                           %x = hal.tensor.import %arg0
    %r = flow.dispatch @scatter(%u, %x) -> %x      =>      %r = flow.dispatch @scatter(%u, %x) -> %x
                                                           util.optimization_barrier %x

IREE 3.13 copies what a dispatch overwrites, and then drops the copy where nothing reads the value afterwards. For an
input that is its caller's memory: arrays reach programs without copies. So something reads it afterwards.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.op_names import ops_in
from opsplice.rewrites.ir import emit
from opsplice.rewrites.memory.aligned_buffers import SAME_BYTES, Dispatch

# When it is known what is written in place.
PHASE = "flow"

_READING = ("flow.tensor.slice", "hal.tensor.export", "tensor.dim")


def keep_inputs(module: ir.Module) -> None:
    """Let each input that may be overwritten live until its function returns. The module must be at `PHASE`."""
    with module.context:
        for op in ops_in(module.operation, "hal.tensor.import"):
            if _may_be_written(op.results[0]):
                for end in ops_in(op.parent, "util.return"):
                    with op.location, ir.InsertionPoint(end):
                        emit.op("util.optimization_barrier", [op.results[0]], [op.results[0].type])


def _may_be_written(value: ir.Value) -> bool:
    """Whether a value, or one with the same bytes, is given to anything but what only reads it."""
    for use in value.uses:
        user = use.owner.operation
        if user.name in SAME_BYTES:
            if _may_be_written(user.results[0]):
                return True
        elif user.name == "flow.dispatch":
            dispatch = Dispatch(user)
            if any(argument == value and n in dispatch.tied for n, argument in enumerate(dispatch.arguments)):
                return True
        elif user.name not in _READING:
            return True
    return False
