"""Dynamic dispatch: IREE schedules the call as any other, and the executable comes from a provider at run time.

    %r = negf(absf(mulf(%a, %b)))      =>      %r = flow.dispatch @provided$k::@provided$k[%n](%a, %b, %n_low, %n_high)

    hal.executable.source @provided$k {        the shim of `static_function.py`, behind an interface of its own
      func @provided$k() { call @k_symbol(pointers, scalars, dims, workgroup ids) }
    }

The interface is made from the kernel's signature alone, so that one executable serves every program: a binding for each
buffer in order, one for each result that is not written in place, and then the scalars and dims as words of 32 bits
(`words.py`), a dim as an index. IREE leaves the layout of such an executable as it is written; in a
`stream.executable` it merges bindings and folds constants. A scalar that the program holds in device memory is a
binding, in the place of a buffer; the executable's name then says so (`scale-factor`): it has another interface.

A file that is a whole dispatch, such as a shader, has the interface of `static_dispatch.py`: all scalars are constants.

What takes the code out of the program, and asks the provider for it, is in `late_binding.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from iree.compiler import ir

from opsplice.errors import OpspliceError
from opsplice.matchers.terms.terms import DimSize
from opsplice.rewrites.approaches import static_dispatch
from opsplice.rewrites.approaches.approach import Approach
from opsplice.rewrites.approaches.c_function_shim import scalar_value
from opsplice.rewrites.approaches.static_dispatch import DispatchCall
from opsplice.rewrites.approaches.static_function import Writer, objects
from opsplice.rewrites.ir import dispatch_words, emit
from opsplice.rewrites.ir.symbols import defined
from opsplice.rewrites.link.late_binding import PREFIX
from opsplice.rewrites.plan import interface
from opsplice.rewrites.plan.actions import Buffer, KernelCall, Scalar

_INTERFACE = "opsplice.interface"
_READ_ONLY, _INDIRECT = 1, 2
# Stands for a value of the program that is not known: an executable is the same for all of them.
_UNKNOWN: Any = object()


class LateWriter(Writer):
    """Writes calls of kernels that a provider has, and an executable for each of their interfaces."""

    def passed(self, call: KernelCall) -> Sequence[Buffer | Scalar]:
        return [argument for argument in call.arguments if is_binding(argument)]

    def workload(self, sizes: Sequence[int | ir.Value]) -> list[ir.Value]:
        """All dims, those that are known too: the executable knows none."""
        return list(map(emit.size, sizes))

    def others(self, call: KernelCall, sizes: Mapping[str, int | ir.Value]) -> list[ir.Value]:
        """The scalars and dims of a call as constants of 32 bits."""
        values = [(scalar_value(self.placer, each, sizes), each.element) for each in _pushed(call)]
        values += [(emit.size(size), "index") for size in sizes.values()]
        return [word for each in values for word in dispatch_words.pack(*each)]

    def entries(self, call: KernelCall) -> Sequence[ir.Attribute]:
        name = PREFIX + provided_name(call)
        if (interface := _new_interface(self.placer.module, name, call)) is not None:
            build_source(self.placer.module, name, call, interface)
        return [emit.symbol(name, name)]


class LateDispatches(static_dispatch.Writer):
    """Writes calls of whole dispatches that a provider has, such as shaders: one executable for all calls of a kernel.

    The executable holds the code, too, until `late_binding.py` makes the program ask for it.
    """

    workload = LateWriter.workload

    def entries(self, call: KernelCall) -> Sequence[ir.Attribute]:
        name, module = PREFIX + call.symbol, self.placer.module
        if (interface := _new_interface(module, name, call)) is not None:
            return static_dispatch.build(module, name, static_dispatch.prepared(_late(call)), {_INTERFACE: interface})
        return static_dispatch.entries_of(name, static_dispatch.prepared(call))


def _is_provided(call: KernelCall) -> bool:
    return all(choice.clause.is_provided for choice in call.choices)


def is_binding(argument: Buffer | Scalar) -> bool:
    """Whether an argument is a buffer, or a scalar that is held in one."""
    return isinstance(argument, Buffer) or isinstance(getattr(argument.value, "type", None), ir.RankedTensorType)


def provided_name(call: KernelCall) -> str:
    """What a provider knows the executable of a call as."""
    held = [a.name for a in call.arguments if isinstance(a, Scalar) and is_binding(a)]
    return "-".join([call.symbol, *held])


def _pushed(call: KernelCall) -> list[Scalar]:
    """The scalars that are passed by value."""
    return [a for a in call.arguments if isinstance(a, Scalar) and not is_binding(a)]


def _new_interface(module: ir.Module, name: str, call: KernelCall) -> ir.Attribute | None:
    """What executables of a name must agree on; None where there is one. Raises OpspliceError for one that differs."""
    known, wanted = defined(module.operation).get(name), emit.text(_interface_text(call))
    if known is None or known.attributes[_INTERFACE] == wanted:
        return wanted if known is None else None
    raise OpspliceError(
        f"two kernels that differ are provided as {name.removeprefix(PREFIX)}",
        hint='give each a symbol of its own; of a kernel with type variables it may be "name_{T}"',
        details=f"one of them is at {call.kernel.span}",
    )


def _interface_text(call: KernelCall) -> str:
    """What two calls must agree on to share an executable: all that its code is made from."""
    # In a whole dispatch it does not matter where the program has a scalar.
    externals = call.externals if isinstance(call, DispatchCall) else ()
    arguments = [(a.name, a.element, not externals and is_binding(a)) for a in call.arguments]
    outputs = [(o.element, o.alias) for o in call.outputs]
    code = sorted(map(str, call.objects.items())), externals, [target.text for target in call.kept]
    words = interface.words(call) if externals else ()
    return repr((call.kernel.name, arguments, outputs, list(call.dims), words, *code))


# ---- the executable ------------------------------------------------------------------------------------------------


def build_source(module: ir.Module, name: str, call: KernelCall, interface: ir.Attribute) -> None:
    """An executable whose code is the shim around the kernel's C function."""
    call = _late(call)
    at = ir.InsertionPoint.at_block_begin(module.body)
    attributes = {**emit.named(name, objects=objects(call)), _INTERFACE: interface}
    executable = emit.op("hal.executable.source", attributes=attributes, regions=1, at=at)
    layout = layout_of(call)
    with ir.InsertionPoint(emit.block(executable)):
        static_dispatch.export(name, layout, call)
        inner = emit.op("builtin.module", regions=1)
        emit.op("hal.executable.source_end")
    with ir.InsertionPoint(emit.block(inner)):
        _LateShim(call, layout).build_call(name)


def _late(call: KernelCall) -> KernelCall:
    """A call of which nothing is known but the signature."""

    def late(argument: Buffer | Scalar) -> Buffer | Scalar:
        if isinstance(argument, Buffer) or is_binding(argument):
            return argument
        return dataclasses.replace(argument, number=None, dim=None, value=_UNKNOWN)

    dims = {name: DimSize(_UNKNOWN, 0) for name in call.dims}
    return dataclasses.replace(call, arguments=tuple(map(late, call.arguments)), dims=dims)


def _constants(call: KernelCall) -> int:
    return sum(dispatch_words.count(a.element) for a in _pushed(call)) + dispatch_words.count("index") * len(call.dims)


def layout_of(call: KernelCall) -> ir.Attribute:
    """The layout of a call: its bindings and how many constants there are."""
    overwritten = {o.alias for o in call.outputs}
    bound = [a.name in overwritten for a in call.arguments if is_binding(a)]
    written = [*bound, *[True for o in call.outputs if o.alias is None]]
    return static_dispatch.layout_of(_constants(call), written)


class _LateShim(static_dispatch.InterfaceShim):
    """The functions inside the executable, which take their arguments from the interface's bindings and constants."""

    def __init__(self, call: KernelCall, layout: ir.Attribute) -> None:
        super().__init__(call, layout)
        written = {output.alias for output in call.outputs}
        self.bound = [a.name for a in self.passed if is_binding(a)]
        self.read_only = {number for number, bound in enumerate(self.bound) if bound not in written}

    def open(self, name: str, results: int) -> tuple[ir.Operation, dict[str, Any], dict[str, ir.Value], list[Any]]:
        function = self.function(name, [], [])
        with ir.InsertionPoint(emit.block(function)):
            given: dict[str, Any] = {bound: number for number, bound in enumerate(self.bound)}
            given |= {scalar.name: self.take(scalar.element) for scalar in _pushed(self.call)}
            sizes = {dim: self.take("index") for dim in self.call.dims}
        return function, given, sizes, [len(self.bound) + number for number in range(results)]

    def _is_binding(self, value: Any) -> bool:
        return isinstance(value, int)

    def flags(self, binding: Any) -> dict[str, ir.Attribute]:
        known = _INDIRECT | _READ_ONLY * (binding in self.read_only)
        return {"descriptor_flags": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), known)}


class ProvidedFunction(Approach):
    """A C function for each CPU, with a shim, in an executable that a provider has."""

    title = "dynamic dispatch"
    writer = LateWriter
    shares_names = False

    def fits(self, call: KernelCall) -> bool:
        return _is_provided(call) and any(choice.is_function for choice in call.choices)

    def check(self, call: KernelCall) -> None:
        super().check(call)
        cpu = next(choice for choice in call.choices if choice.is_function)
        other = next((target for target in call.targets if not target.is_cpu), None)
        if other is not None:
            raise OpspliceError(
                f"kernel '{call.kernel.name}' comes from a provider, and the program is for {cpu.target} and {other} "
                "at once",
                hint="compile a program for each, or link the kernel into the program: no `as provided`",
                details="a provider's kernel is called in another way on CPUs than elsewhere: "
                f"the clause at {cpu.clause.span}",
            )


class ProvidedDispatch(static_dispatch.StaticDispatch):
    """Whole dispatches that a provider has."""

    title = "dynamic dispatch"
    writer = LateDispatches
    shares_names = False

    def fits(self, call: KernelCall) -> bool:
        return _is_provided(call)
