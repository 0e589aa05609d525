"""Recorded command: a function that records commands of its own among those of the program.

    %r = linalg.matmul(%a, %b)      =>      %r = flow.call @blas.matmul(%a, %b, %m, %k, %n)

IREE schedules the call as it schedules its own dispatches, and makes it while it records them:

    util.call @blas.matmul(%command_buffer, %slot, %buffer, %offset, %length, ..., %m, %k, %n, ...)

with four values for each buffer. The slot is 0: it is for command buffers that are recorded once and run often, which
have buffers only when they are run. `record_anew` sees to it that those with calls are none, so that a function need
not tell one from the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from iree.compiler import ir

from opsplice.matchers.ir.op_names import ops_in
from opsplice.rewrites.approaches.approach import Later
from opsplice.rewrites.approaches.command import (
    Command,
    CommandWriter,
    is_binding,
    is_recorded,
    kernel_type,
)
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.placing import result_type
from opsplice.rewrites.plan.actions import Buffer, KernelCall, Scalar

# When IREE has formed the command buffers, and not yet decided how often each is recorded.
PHASE = "stream"
# How IREE's virtual machine passes things: the calling convention's letters (iree/vm/module.h).
_BUFFER = "IrII"  # slot, buffer, offset and length
_LETTERS = {"i64": "I", "index": "I", "f32": "f", "f64": "F"}


def convention(call: KernelCall) -> str:
    """The calling convention of the function that a call is of, as IREE's virtual machine writes it."""

    def letters(argument: Buffer | Scalar) -> str:
        return _BUFFER if is_binding(argument) else _LETTERS.get(argument.element, "i")

    given = "".join(map(letters, call.arguments))
    made = _BUFFER * sum(output.alias is None for output in call.outputs)
    return f"0r{given}{'I' * len(call.dims)}{made}_v"


def record_anew(module: ir.Module) -> None:
    """Have the command buffers that calls record into made for one run each."""
    for execute in ops_in(module.operation, "stream.cmd.execute"):
        if ops_in(execute, "stream.cmd.call"):
            execute.attributes["once"] = ir.UnitAttr.get(module.context)


class RecordedWriter(CommandWriter):
    """Writes calls that record commands."""

    def results(self, call: KernelCall) -> Sequence[ir.Value]:
        """Build a call at the current point. The results are of the builtin types of the match's roots."""
        bound = [a for a in call.arguments if is_binding(a)]
        own = self.placer.unfolded(self.operands(call, bound))
        # Functions are declared with one type each: sizes that the kernel does not write are dynamic there.
        sizes = {name: emit.size(self.placer.size(size)) for name, size in call.dims.items()}
        tensors = iter([self._shaped(v, a, sizes) for v, a in zip(own, bound, strict=True)])
        given = [next(tensors) if is_binding(a) else self._as_it_is(a, sizes) for a in call.arguments]
        given += sizes.values()
        results = [kernel_type(output.shape, result_type(output), sizes) for output in call.outputs]
        kinds, made_dims = [kind for kind, _ in results], [dims for _, dims in results]
        places = call.tied([argument.name for argument in call.arguments])
        tied = {"tied_operands": ir.ArrayAttr.get(list(map(emit.ordinal, places)))}
        name = self._declared(call, "flow.func", [value.type for value in given], kinds, tied)
        given_dims = [dim for value in given for dim in emit.dynamic_dims(value)]
        groups = [given, given_dims, list(itertools.chain.from_iterable(made_dims))]
        made = emit.grouped("flow.call", groups, kinds, {"callee": ir.FlatSymbolRefAttr.get(name), **tied}).results
        return list(map(self._as_root, made, call.outputs))


class RecordedCommand(Command):
    """A function that records commands among those of the program."""

    writer = RecordedWriter

    def fits(self, call: KernelCall) -> bool:
        return super().fits(call) and is_recorded(call.kernel)

    def later(self, calls: Sequence[KernelCall]) -> Sequence[Later]:
        return [Later(PHASE, "commands that are recorded", record_anew)]
