"""Static function on CPU: a C function, linked into the program.

    %r = negf(absf(mulf(%a, %b)))       =>      %r = flow.dispatch @opsplice_k[...](%a, %b, ...)

    stream.executable @opsplice_k {               the shim: turns IREE's bindings into the plain C ABI
      func @k(bindings...) { call @k_symbol(pointers, scalars, dims, workgroup ids) }
    }

The C function gets `const T *` for each input buffer, scalars by value, `T *` for each fresh result, `size_t` for each
dim in order of first appearance (a pack is one, the product of its dims) and a `size_t` for each workgroup id of the
grid. Buffers are dense and row-major, or strided (`strides.py`). One executable serves all calls with the same kernel
and types (`shared_shims.py`). Of bitcode, which is specialised for them, dims and strides that are known when compiling
are constants in the shim: there one executable serves the calls with the same ones.

A dynamic function is called by the same shim: there the declaration has no `hal.import.static`, nothing is linked, and
IREE's runtime finds the function in a plugin by its name. See `dynamic_function.py` and `targets/plugins.py`.

Scalars of i1, i8 and i16 arrive widened to 32 bits, and those of bf16 as f16, as C's calling conventions want them.

A buffer that the C function overwrites is always a copy (`dense_copies.copied`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from iree.compiler import ir

from opsplice.rewrites.approaches.approach import Approach
from opsplice.rewrites.approaches.c_function_shim import Shim, fill_counts, is_baked
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.placing import Placer, result_type
from opsplice.rewrites.ir.shared_shims import Constants, with_values
from opsplice.rewrites.layouts import strides
from opsplice.rewrites.layouts.dense_copies import copied
from opsplice.rewrites.plan import workgroups
from opsplice.rewrites.plan.actions import Buffer, KernelCall, Scalar
from opsplice.rewrites.plan.known_sizes import product


class Writer:
    """Writes dispatches of kernels, and an executable for each kernel, into the module of a placer."""

    def __init__(self, placer: Placer) -> None:
        self.placer = placer
        self.executables: dict[Any, tuple[ir.Attribute, ...]] = {}
        self.constants = Constants()

    def results(self, call: KernelCall) -> Sequence[ir.Value]:
        """Build a call at the current point. The results are of the builtin types of the match's roots."""
        call = self.shared(call)
        placer, passed = self.placer, self.passed(call)
        operands = self.operands(call, passed)
        sizes = {name: placer.size(size) for name, size in call.dims.items()}
        others = self.others(call, sizes)
        return emit.dispatch(
            self.entries(call),
            self.workload(list(sizes.values())),
            placer.unfolded([*operands, *others]),
            list(map(emit.dynamic_dims, operands)),
            [result_type(o) for o in call.outputs],
            [placer.open_sizes(ir.RankedTensorType(result_type(o)), o.sizes) for o in call.outputs],
            call.tied([argument.name for argument in passed]),
        )

    def shared(self, call: KernelCall) -> KernelCall:
        """The call as the executable is to see it."""
        return with_values(call, self.constants.place())

    def passed(self, call: KernelCall) -> Sequence[Buffer | Scalar]:
        """The arguments that are operands of the dispatch."""
        return [argument for argument in call.arguments if not is_baked(argument)]

    def operands(self, call: KernelCall, passed: Sequence[Buffer | Scalar]) -> list[ir.Value]:
        """The values of arguments as they are now; copies of those that the kernel overwrites."""
        values = [(argument.name, self.placer.given(argument)) for argument in passed]
        return [copied(value) if name in call.overwritten else value for name, value in values]

    def workload(self, sizes: Sequence[int | ir.Value]) -> list[ir.Value]:
        """What the executable makes the workgroup counts from."""
        return [size for size in sizes if isinstance(size, ir.Value)]

    def others(self, call: KernelCall, sizes: Mapping[str, int | ir.Value]) -> list[ir.Value]:
        """What is passed after the operands: dims and strides that are known at run time only."""
        return [*self.workload(list(sizes.values())), *map(self.placer.amount, strides.passed(call))]

    def entries(self, call: KernelCall) -> Sequence[ir.Attribute]:
        """The entry points of the executable for a call, one for each variant."""
        key = signature(call)
        if (known := self.executables.get(key)) is None:
            name = self.placer.unused_symbol(f"opsplice_{call.kernel.name}", call.symbol)
            _build_executable(self.placer.module, name, call)
            known = self.executables[key] = (emit.symbol(name, name),)
        return known


# ---- pieces of the call ------------------------------------------------------------------------------------------


def signature(call: KernelCall, layouts: bool = True) -> Any:
    """What two calls must share to use one executable. layouts: whether that depends on strides."""
    arguments = tuple(
        (type(a).__name__, a.element, *_scalar_kind(a)) if isinstance(a, Scalar) else ("Buffer", a.element, is_baked(a))
        for a in call.arguments
    )
    dims = tuple(map(product, call.dims.values()))
    outputs = tuple((o.element, o.alias) for o in call.outputs)
    return (
        call.kernel.name,
        call.symbol,
        arguments,
        dims,
        outputs,
        tuple(sorted(call.objects.items())),
        call.imported,
        tuple(sorted(call.origins.items())),
        call.is_optional,
        strides.signature(call) if layouts else None,
    )


def _scalar_kind(scalar: Scalar) -> tuple[Any, ...]:
    # The text of a number tells -0.0 from 0.0.
    return repr(scalar.number), scalar.dim, None if scalar.value is None else str(scalar.value.type)


# ---- the shim ----------------------------------------------------------------------------------------------------


def _build_executable(module: ir.Module, name: str, call: KernelCall) -> None:
    at = ir.InsertionPoint.at_block_begin(module.body)
    attributes = emit.named(name)
    if not call.imported:
        attributes["hal.executable.objects"] = _objects(call)
    executable = emit.op("stream.executable", attributes=attributes, regions=1, at=at)
    with ir.InsertionPoint(emit.block(executable)):
        attributes = emit.named(name, "public", function_ref=emit.symbol(name))
        export = emit.op("stream.executable.export", attributes=attributes, regions=1)
        fill_counts(export, call, (), workgroups.MOST_ON_CPUS)
        inner = emit.op("builtin.module", regions=1)
        emit.op("stream.executable.end")
    with ir.InsertionPoint(emit.block(inner)):
        Shim(call).build_call(name)


def _objects(call: KernelCall) -> ir.Attribute:
    entries = ", ".join(f"{target} = [{emit.object_file(path)}]" for target, path in sorted(call.objects.items()))
    return ir.Attribute.parse(f"#hal.executable.objects<{{{entries}}}>")


class LinkedFunction(Approach):
    """A C function for each CPU, linked into the program or imported from a plugin."""

    title = "static function"
    writer = Writer

    def name(self, call: KernelCall) -> str:
        return "dynamic function" if call.imported else self.title

    def fits(self, call: KernelCall) -> bool:
        return not call.kept and all(c.is_function and not c.clause.is_provided for c in call.choices)
