"""Dynamic dispatch: IREE schedules the call as any other, and the executable comes from a provider at run time.

    %r = negf(absf(mulf(%a, %b)))    =>    %r = flow.dispatch {@provided$k::@v0::@provided$k}[%n](%a, %b, %n_word)

The interface is that of `static_dispatch.py`, for C functions, too. The executable is made from the kernel's signature
alone, so that one serves every program. It holds the code until `late_binding.py` takes it out of the program and has
that ask the provider.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.matchers.terms.terms import DimSize
from opsplice.rewrites.approaches import static_dispatch
from opsplice.rewrites.approaches.approach import Approach
from opsplice.rewrites.approaches.static_dispatch import DispatchCall, prepared
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.symbols import defined
from opsplice.rewrites.link.late_binding import PREFIX
from opsplice.rewrites.plan import interface
from opsplice.rewrites.plan.actions import Buffer, KernelCall, Scalar

_INTERFACE = "opsplice.interface"
# Stands for a value of the program that is not known: an executable is the same for all of them.
_UNKNOWN: Any = object()


class LateDispatches(static_dispatch.Writer):
    """Writes calls of what a provider has: one executable for all calls of a kernel."""

    def workload(self, sizes: Sequence[int | ir.Value]) -> list[ir.Value]:
        """All dims, those that are known too: the executable knows none."""
        return list(map(emit.size, sizes))

    def entries(self, call: KernelCall) -> Sequence[ir.Attribute]:
        name, made, late = PREFIX + call.symbol, self.placer.module, prepared(_late(call))
        known, wanted = defined(made.operation).get(name), emit.text(_interface_text(late))
        if known is None:
            return static_dispatch.build(made, name, late, {_INTERFACE: wanted})
        if known.attributes[_INTERFACE] == wanted:
            return static_dispatch.entries_of(name, late)
        raise OpspliceError(
            f"two kernels that differ are provided as {call.symbol}",
            hint='give each a symbol of its own; of a kernel with type variables it may be "name_{T}"',
            details=f"one of them is at {call.kernel.span}",
        )


def _late(call: KernelCall) -> KernelCall:
    """A call of which nothing is known but the signature."""

    def late(argument: Buffer | Scalar) -> Buffer | Scalar:
        if isinstance(argument, Buffer):
            return argument
        return dataclasses.replace(argument, number=None, dim=None, value=_UNKNOWN)

    dims = {name: DimSize(_UNKNOWN, 0) for name in call.dims}
    return dataclasses.replace(call, arguments=tuple(map(late, call.arguments)), dims=dims)


def _interface_text(call: DispatchCall) -> str:
    """What two calls must agree on to share an executable: all that its code is made from."""
    passed = call.kernel.name, interface.bindings(call), interface.words(call)
    return repr((*passed, call.functions, call.externals, [target.text for target in call.kept]))


class ProvidedDispatch(static_dispatch.StaticDispatch):
    """Whole dispatches, and functions with a shim, that a provider has."""

    title = "dynamic dispatch"
    writer = LateDispatches
    shares_names = False
    name = Approach.name

    def fits(self, call: KernelCall) -> bool:
        return all(choice.clause.is_provided for choice in call.choices)
