"""Static function on CPU: a C function, linked into the program.

    %r = negf(absf(mulf(%a, %b)))       =>      %r = flow.dispatch @opsplice_k[...](%a, %b, ...)

    stream.executable @opsplice_k {               the shim: turns IREE's bindings into the plain C ABI
      func @k(bindings...) { call @k_symbol(pointers, scalars, dims, workgroup ids) }
    }

The C function gets `const T *` for each input buffer, scalars by value, `T *` for each fresh result, `size_t` for each
dim in order of first appearance (a pack is one, the product of its dims) and a `size_t` for each workgroup id of the
grid. Buffers are dense and row-major, or strided (`strides.py`). One executable serves all calls with the same kernel,
types, static dims and strides. Dims that are known when compiling are constants in the shim, so bitcode is specialised
for them.

A dynamic function is called by the same shim: there the declaration has no `hal.import.static`, nothing is linked, and
IREE's runtime finds the function in a plugin by its name. See `dynamic_function.py` and `targets/plugins.py`.

Scalars of i1, i8 and i16 arrive widened to 32 bits, and those of bf16 as f16, as C's calling conventions want them.

A buffer that the C function overwrites is always a copy, which a dispatch of its own makes:

    %c = flow.dispatch @opsplice_k::@opsplice_k$copy_a(%a, %b)
    %r = flow.dispatch @opsplice_k::@opsplice_k(%c, %b) -> %c

Without it IREE 3.13 overwrites the caller's array, and values that a loop needs again; and `flow.tensor.clone` it drops
where it sees no other use. The copy takes all operands of the call though it reads one: so whatever merges or moves one
of the two dispatches does the same to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from opsplice.rewrites.approaches.approach import Approach
from opsplice.rewrites.approaches.c_function_shim import Shim, dim_values, dynamic_names, is_baked, known_size
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.placing import Placer, result_type
from opsplice.rewrites.memory import strides
from opsplice.rewrites.plan import workgroups
from opsplice.rewrites.plan.actions import Buffer, KernelCall, Scalar
from opsplice.spec_lang.syntax import tree

# In the names of entry points that copy what a kernel overwrites.
COPY = "$copy_"


class Writer:
    """Writes kernel calls, and an executable for each kernel, into the module of a placer."""

    def __init__(self, placer: Placer) -> None:
        self.placer = placer
        self.executables: dict[Any, str] = {}

    # ---- the call -------------------------------------------------------------------------------------------------

    def results(self, call: KernelCall) -> Sequence[ir.Value]:
        """Build a call at the current point. The results are of the builtin types of the match's roots."""
        passed = [a for a in call.arguments if not is_baked(a)]
        operands = self.operands(passed)
        sizes = [self.placer.size(size) for size in call.dims.values()]
        dynamic = [v for v in sizes if isinstance(v, ir.Value)]
        amounts = [self.placer.amount(amount) for amount in strides.passed(call)]
        site = Site(
            executable=self._executable(call),
            operands=operands,
            workload=dynamic,
            others=[*dynamic, *amounts],
        )
        return self.dispatch(call, [a.name for a in passed], site)

    def operands(self, passed: Sequence[Buffer | Scalar]) -> list[ir.Value]:
        """The values of arguments as they are now, which IREE is kept from computing when it compiles."""
        return self.placer.unfolded([self.placer.given(a) for a in passed])

    def dispatch(self, call: KernelCall, names: Sequence[str], site: Site) -> Sequence[ir.Value]:
        """The results of a call, after copies of what it overwrites. names: the parameters of the site's operands."""
        copies = {at: site.emit_copy(at, names[at]) for at in map(names.index, call.overwritten)}
        operands = [copies.get(at, value) for at, value in enumerate(site.operands)]
        result_dims = [self.placer.axes(o.sizes) for o in call.outputs]
        return site.emit(
            site.executable, operands, [result_type(o) for o in call.outputs], result_dims, call.tied(names)
        )

    def _executable(self, call: KernelCall) -> str:
        key = signature(call)
        if key not in self.executables:
            name = self.placer.unused_symbol(f"opsplice_{call.kernel.name}", call.symbol)
            _build_executable(self.placer.module, name, call)
            self.executables[key] = name
        return self.executables[key]


@dataclass(frozen=True)
class Site:
    """The place of a call: its executable and operands, what the workgroup counts are made from, and what is passed
    after the operands."""

    executable: str
    operands: Sequence[ir.Value]
    workload: Sequence[ir.Value]
    others: Sequence[ir.Value]

    def emit_copy(self, at: int, name: str) -> ir.Value:
        """A copy of an operand."""
        export = copy_name(self.executable, name)
        value = self.operands[at]
        return self.emit(export, self.operands, [value.type], [emit.dynamic_dims(value)], [-1])[0]

    def emit(
        self,
        export: str,
        operands: Sequence[ir.Value],
        results: Sequence[ir.Type],
        result_dims: Sequence[Sequence[ir.Value]],
        tied: Sequence[int],
    ) -> Sequence[ir.Value]:
        """The results of a dispatch. tied: for each of them the operand whose buffer it takes, -1 for a fresh one."""
        return emit.dispatch(
            [emit.symbol(self.executable, export)],
            self.workload,
            [*operands, *self.others],
            list(map(emit.dynamic_dims, self.operands)),
            results,
            result_dims,
            tied,
        )


# ---- pieces of the call ------------------------------------------------------------------------------------------


def copy_name(executable: str, parameter: str) -> str:
    """The export that copies a buffer. No kernel's name has a `$`, so it is not an executable's name."""
    return f"{executable}{COPY}{parameter}"


def signature(call: KernelCall, layouts: bool = True) -> Any:
    """What two calls must share to use one executable. layouts: whether that depends on strides."""
    arguments = tuple(
        (type(a).__name__, a.element, *_scalar_kind(a)) if isinstance(a, Scalar) else ("Buffer", a.element, is_baked(a))
        for a in call.arguments
    )
    dims = tuple(known_size(size) for size in call.dims.values())
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
        attributes["hal.executable.objects"] = objects(call)
    executable = emit.op("stream.executable", attributes=attributes, regions=1, at=at)
    overwritten = call.overwritten
    with ir.InsertionPoint(emit.block(executable)):
        _build_export(name, call, call.kernel.grid)
        for parameter in overwritten:
            _build_export(copy_name(name, parameter), call, ())
        inner = emit.op("builtin.module", regions=1)
        emit.op("stream.executable.end")
    with ir.InsertionPoint(emit.block(inner)):
        shim = Shim(call)
        shim.build_call(name)
        for parameter in overwritten:
            shim.build_copy(copy_name(name, parameter), parameter)


def objects(call: KernelCall) -> ir.Attribute:
    entries = ", ".join(f"{target} = [{emit.object_file(path)}]" for target, path in sorted(call.objects.items()))
    return ir.Attribute.parse(f"#hal.executable.objects<{{{entries}}}>")


def _build_export(name: str, call: KernelCall, grid: Sequence[tree.DimExpr]) -> None:
    """An export, whose region makes the workgroup counts from the dynamic dims.

    Its name begins with the executable's: IREE links executables into one, where exports must not clash.
    """
    attributes = emit.named(name, "public", function_ref=emit.symbol(name))
    export = emit.op("stream.executable.export", attributes=attributes, regions=1)
    dynamic = dynamic_names(call)
    with ir.InsertionPoint(block := emit.block(export, [ir.IndexType.get()] * len(dynamic))):
        sizes = dim_values(call, dict(zip(dynamic, block.arguments, strict=True)))
        emit.op("stream.return", workgroups.counts(call.kernel.name, grid, sizes, workgroups.MOST_ON_CPUS))


class LinkedFunction(Approach):
    """A C function for each CPU, linked into the program or imported from a plugin."""

    title = "static function"
    writer = Writer

    def name(self, call: KernelCall) -> str:
        return "dynamic function" if call.imported else self.title

    def fits(self, call: KernelCall) -> bool:
        is_linked = all(choice.is_function and not choice.clause.is_provided for choice in call.choices)
        return is_linked and all(target.is_cpu for target in call.kept)
