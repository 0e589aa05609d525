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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from opsplice.matchers.search.matches import Size
from opsplice.matchers.terms.address import Amount
from opsplice.rewrites.approaches import dynamic_function
from opsplice.rewrites.approaches.approach import Approach
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.placing import Placer, builtin_type, result_type
from opsplice.rewrites.memory import strides
from opsplice.rewrites.memory.stride_words import ToldMoves
from opsplice.rewrites.plan import workgroups
from opsplice.rewrites.plan.actions import Buffer, KernelCall, Output, Scalar
from opsplice.spec_lang.syntax import tree

# In the names of entry points that copy what a kernel overwrites.
COPY = "$copy_"
_BYTES = {"i1": 1, "i4": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8}
_WIDENED = {"i1": "arith.extui", "i8": "arith.extsi", "i16": "arith.extsi"}


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
            operand_dims=[dynamic_dims(v) for v in operands],
            workload=dynamic,
            others=[*dynamic, *amounts],
        )
        return self.dispatch(call, [a.name for a in passed], site)

    def operands(self, passed: Sequence[Buffer | Scalar]) -> list[ir.Value]:
        """The values of arguments as they are now, which IREE is kept from computing when it compiles."""
        operands = [self.placer.given(a) for a in passed]
        if operands and not any(map(self.placer.varies, operands)):
            operands[0] = emit.op("util.optimization_barrier", operands[:1], [operands[0].type]).results[0]
        return operands

    def dispatch(self, call: KernelCall, names: Sequence[str], site: Site) -> Sequence[ir.Value]:
        """The results of a call, after copies of what it overwrites. names: the parameters of the site's operands."""
        tied = [-1 if o.alias is None else names.index(o.alias) for o in call.outputs]
        copies = {at: site.emit_copy(at, names[at]) for at in tied if at >= 0}
        operands = [copies.get(at, value) for at, value in enumerate(site.operands)]
        result_dims = [self.placer.axes(o.sizes) for o in call.outputs]
        return site.emit(site.executable, operands, [result_type(o) for o in call.outputs], result_dims, tied)

    def _executable(self, call: KernelCall) -> str:
        key = signature(call)
        if key not in self.executables:
            name = self.placer.unused_symbol(f"opsplice_{call.kernel.name}", call.symbol)
            _build_executable(self.placer.module, name, call)
            self.executables[key] = name
        return self.executables[key]


@dataclass(frozen=True)
class Site:
    """The place of a call: its executable and operands, the dynamic dims of each operand, what the workgroup counts are
    made from, and what is passed after the operands."""

    executable: str
    operands: Sequence[ir.Value]
    operand_dims: Sequence[Sequence[ir.Value]]
    workload: Sequence[ir.Value]
    others: Sequence[ir.Value]

    def emit_copy(self, at: int, name: str) -> ir.Value:
        """A copy of an operand."""
        export = copy_name(self.executable, name)
        return self.emit(export, self.operands, [self.operands[at].type], [self.operand_dims[at]], [-1])[0]

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
            self.operand_dims,
            results,
            result_dims,
            tied,
        )


# ---- pieces of the call ------------------------------------------------------------------------------------------


def is_baked(argument: Buffer | Scalar) -> bool:
    """Whether an argument is a number, a dim or left out, which the shim knows by itself."""
    return argument.value is None


def dynamic_dims(value: ir.Value) -> list[ir.Value]:
    """The sizes of a tensor's dims that are only known at run time."""
    kind = value.type
    if not isinstance(kind, ir.RankedTensorType):
        return []
    return [emit.dim(value, axis) for axis in range(kind.rank) if kind.is_dynamic_dim(axis)]


def copy_name(executable: str, parameter: str) -> str:
    """The export that copies a buffer. No kernel's name has a `$`, so it is no executable's name."""
    return f"{executable}{COPY}{parameter}"


def signature(call: KernelCall, layouts: bool = True) -> Any:
    """What two calls must share to use one executable. layouts: whether that depends on strides."""
    arguments = tuple(
        (type(a).__name__, a.element, *_scalar_kind(a)) if isinstance(a, Scalar) else ("Buffer", a.element, is_baked(a))
        for a in call.arguments
    )
    dims = tuple(_static(size) for size in call.dims.values())
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


def _static(size: Size | tuple[Size, ...]) -> int | None:
    """The size as a number, None if some of it is dynamic."""
    total = 1
    for part in size if isinstance(size, tuple) else (size,):
        if not isinstance(part, int):
            return None
        total *= part
    return total


# ---- the shim ----------------------------------------------------------------------------------------------------


def _build_executable(module: ir.Module, name: str, call: KernelCall) -> None:
    at = ir.InsertionPoint.at_block_begin(module.body)
    attributes = {"sym_name": emit.text(name), "sym_visibility": emit.text("private")}
    if not call.imported:
        attributes["hal.executable.objects"] = objects(call)
    executable = emit.op("stream.executable", attributes=attributes, regions=1, at=at)
    body = executable.regions[0].blocks.append()
    overwritten = [o.alias for o in call.outputs if o.alias is not None]
    with ir.InsertionPoint(body):
        _build_export(name, call, call.kernel.grid)
        for parameter in overwritten:
            _build_export(copy_name(name, parameter), call, ())
        inner = emit.op("builtin.module", regions=1)
        emit.op("stream.executable.end")
    block = inner.regions[0].blocks.append()
    with ir.InsertionPoint(block):
        shim = Shim(call)
        shim.build_call(name)
        for parameter in overwritten:
            shim.build_copy(copy_name(name, parameter), parameter)


def objects(call: KernelCall) -> ir.Attribute:
    entries = ", ".join(
        f'{target} = [#hal.executable.object<{{path = "{escaped(str(path))}"}}>]'
        for target, path in sorted(call.objects.items())
    )
    return ir.Attribute.parse(f"#hal.executable.objects<{{{entries}}}>")


def escaped(path: str) -> str:
    """A path as MLIR's strings have it."""
    return path.replace("\\", "\\\\").replace('"', '\\"')


def _build_export(name: str, call: KernelCall, grid: Sequence[tree.DimExpr]) -> None:
    """An export, whose region makes the workgroup counts from the dynamic dims.

    Its name begins with the executable's: IREE links executables into one, where exports must not clash.
    """
    attributes = {
        "sym_name": emit.text(name),
        "sym_visibility": emit.text("public"),
        "function_ref": ir.FlatSymbolRefAttr.get(name),
    }
    export = emit.op("stream.executable.export", attributes=attributes, regions=1)
    index = ir.IndexType.get()
    dynamic = dynamic_names(call)
    block = export.regions[0].blocks.append(*[index] * len(dynamic), arg_locs=[ir.Location.unknown()] * len(dynamic))
    with ir.InsertionPoint(block):
        sizes = dim_values(call, dict(zip(dynamic, block.arguments, strict=True)))
        emit.op("stream.return", workgroups.counts(call.kernel.name, grid, sizes, workgroups.MOST_ON_CPUS))


def dynamic_names(call: KernelCall) -> list[str]:
    """The kernel's dims of which the size is only known at run time."""
    return [n for n, size in call.dims.items() if _static(size) is None]


def dim_values(call: KernelCall, dynamic: Mapping[str, ir.Value]) -> dict[str, ir.Value]:
    """The kernel's dims as values, those that are known as constants."""
    values = {}
    for name, size in call.dims.items():
        known = _static(size)
        values[name] = dynamic[name] if known is None else emit.index(known)
    return values


def cast_dim(size: ir.Value, kind: ir.Type) -> ir.Value:
    """A dim as a scalar of another type."""
    if kind == size.type:
        return size
    whole = kind if isinstance(kind, ir.IntegerType) else ir.IntegerType.get_signless(64)
    number = emit.value("arith.index_cast", [size], whole)
    return number if whole == kind else emit.value("arith.sitofp", [number], kind)


class Shim:
    """The functions inside the executable: bindings in, plain C arguments out; and copies of bindings."""

    def __init__(self, call: KernelCall) -> None:
        self.call = call
        self.index = ir.IndexType.get()
        self.pointer = ir.Type.parse("!llvm.ptr")
        self.binding = ir.Type.parse("!stream.binding")
        self.passed = [a for a in call.arguments if not is_baked(a)]
        self.dynamic = dynamic_names(call)
        self.amounts: dict[Amount, ir.Value] = {}

    def build_call(self, name: str) -> None:
        fresh = [o for o in self.call.outputs if o.alias is None]
        function, given, sizes, results = self.open(name, len(fresh))
        # The declaration's types are those of the call, so the body comes first and the declaration is put before it.
        with ir.InsertionPoint(function.regions[0].blocks[0]):
            moves = self.moves()
            operands = [self._argument(a, given, sizes, moves) for a in self.call.arguments]
            operands += [self._address(b, output, sizes, moves) for output, b in zip(fresh, results, strict=True)]
            operands += [*sizes.values(), *moves.strides()]
            operands += [self.workgroup(i) for i in range(len(self.call.kernel.grid))]
            emit.op("func.call", operands, attributes={"callee": ir.FlatSymbolRefAttr.get(self.call.symbol)})
            emit.op("func.return")
        with ir.InsertionPoint(function):
            external: dict[str, ir.Attribute] = {"llvm.bareptr": ir.BoolAttr.get(True)}
            if self.call.imported:
                external[dynamic_function.IMPORTED] = ir.ArrayAttr.get([emit.text(f) for f in self.call.imported])
                origins = {target: emit.text(str(path)) for target, path in sorted(self.call.origins.items())}
                external[dynamic_function.ORIGINS] = ir.DictAttr.get(origins)
                if self.call.is_optional:
                    external[dynamic_function.OPTIONAL] = ir.UnitAttr.get()
            else:
                external["hal.import.static"] = ir.UnitAttr.get()
            self.function(self.call.symbol, [v.type for v in operands], [], private=True, extra=external)

    def moves(self) -> strides.Moves | ToldMoves:
        """Offsets and strides, at the current point."""
        return strides.Moves(self.call, self.amounts, self.workgroup)

    def build_copy(self, name: str, parameter: str) -> None:
        """A function that copies the buffer of a parameter, in a single workgroup."""
        buffer = next(a for a in self.passed if isinstance(a, Buffer) and a.name == parameter)
        function, given, sizes, (target,) = self.open(name, 1)
        with ir.InsertionPoint(function.regions[0].blocks[0]):
            length = self._length(buffer.shape, sizes)
            source = self.subspan(given[parameter], buffer.element, length)
            target = self.subspan(target, buffer.element, length)
            loop = emit.op("scf.for", [emit.index(0), length, emit.index(1)], regions=1)
            emit.op("func.return")
        body = loop.regions[0].blocks.append(self.index, arg_locs=[ir.Location.unknown()])
        with ir.InsertionPoint(body):
            at = body.arguments[0]
            element = emit.value("memref.load", [source, at], ir.MemRefType(source.type).element_type)
            emit.op("memref.store", [element, target, at])
            emit.op("scf.yield")

    def open(
        self, name: str, results: int
    ) -> tuple[ir.Operation, dict[str, ir.Value], dict[str, ir.Value], list[ir.Value]]:
        """A function with an empty body: itself, the arguments and the dims by name, and the results' bindings."""
        amounts = strides.passed(self.call)
        words = [self.index] * (len(self.dynamic) + len(amounts))
        kinds = [*map(self._kind, self.passed), *words, *[self.binding] * results]
        function = self.function(name, kinds, [])
        block = function.regions[0].blocks.append(*kinds, arg_locs=[ir.Location.unknown()] * len(kinds))
        values = list(block.arguments)
        given = {a.name: values.pop(0) for a in self.passed}
        dims = {n: values.pop(0) for n in self.dynamic}
        self.amounts = {amount: values.pop(0) for amount in amounts}
        with ir.InsertionPoint(block):
            return function, given, dim_values(self.call, dims), values

    def function(
        self,
        name: str,
        inputs: list[ir.Type],
        results: list[ir.Type],
        private: bool = False,
        extra: dict[str, ir.Attribute] | None = None,
    ) -> ir.Operation:
        attributes: dict[str, ir.Attribute] = {
            "sym_name": emit.text(name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(inputs, results)),
            **(extra or {}),
        }
        if private:
            attributes["sym_visibility"] = emit.text("private")
        return emit.op("func.func", attributes=attributes, regions=1)

    def _kind(self, argument: Buffer | Scalar) -> ir.Type:
        kind = builtin_type(argument.value)
        return self.binding if isinstance(kind, ir.RankedTensorType) else kind

    def _argument(
        self,
        argument: Buffer | Scalar,
        given: Mapping[str, ir.Value],
        sizes: Mapping[str, ir.Value],
        moves: strides.Moves | ToldMoves,
    ) -> ir.Value:
        if isinstance(argument, Buffer) and argument.value is None:
            return emit.value("llvm.mlir.zero", [], self.pointer)
        if isinstance(argument, Buffer):
            return self._address(given[argument.name], argument, sizes, moves)
        found = self.scalar(argument, given, sizes)
        if argument.element == "bf16":
            # IREE would pass it as an integer. C passes it in the register in which it passes an f16.
            return emit.value("arith.bitcast", [found], ir.F16Type.get())
        widen = _WIDENED.get(argument.element)
        return found if widen is None else emit.value(widen, [found], ir.IntegerType.get_signless(32))

    def scalar(self, argument: Scalar, given: Mapping[str, ir.Value], sizes: Mapping[str, ir.Value]) -> ir.Value:
        """A scalar of its own type."""
        kind = ir.Type.parse(argument.element)
        if argument.number is not None:
            return emit.constant(argument.number, kind)
        if argument.dim is not None:
            return cast_dim(sizes[argument.dim], kind)
        if self._is_binding(given[argument.name]):
            return self._load(given[argument.name], argument.element)
        return given[argument.name]

    def _is_binding(self, value: Any) -> bool:
        return bool(value.type == self.binding)

    def _length(self, shape: tuple[tree.Dim, ...], sizes: Mapping[str, ir.Value]) -> ir.Value:
        """How many elements a buffer has."""
        length = emit.index(1)
        for dim in shape:
            size = emit.index(dim.size) if dim.size is not None else sizes[dim.name or ""]
            length = emit.value("arith.muli", [length, size], self.index)
        return length

    def subspan(self, binding: ir.Value, element: str, length: ir.Value) -> ir.Value:
        kind = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], stored(element))
        if element == "i4":
            length = emit.value("arith.ceildivui", [length, emit.index(2)], self.index)
        return emit.value("stream.binding.subspan", [binding, emit.index(0), length], kind)

    def _load(self, binding: ir.Value, element: str) -> ir.Value:
        memref = self.subspan(binding, element, emit.index(1))
        loaded = emit.value("memref.load", [memref, emit.index(0)], stored(element))
        if element != "i1":
            return loaded
        return emit.value("arith.trunci", [loaded], ir.IntegerType.get_signless(1))

    def _address(
        self,
        binding: ir.Value,
        buffer: Buffer | Output,
        sizes: Mapping[str, ir.Value],
        moves: strides.Moves | ToldMoves,
    ) -> ir.Value:
        """The address of a buffer's first element. Upstream's strided metadata would lose the binding's offset."""
        element, layout = buffer.element, buffer.layout
        length = self._length(buffer.shape, sizes) if layout is None else moves.value(layout.count)
        memref = self.subspan(binding, element, length)
        base, offset, _, _ = emit.op(
            "iree_codegen.extract_strided_metadata",
            [memref],
            [ir.MemRefType.get([], stored(element)), self.index, self.index, self.index],
        ).results
        start = emit.value("memref.extract_aligned_pointer_as_index", [base], self.index)
        if layout is not None:
            offset = emit.value("arith.addi", [offset, moves.offset(buffer)], self.index)
        skipped = emit.value("arith.muli", [offset, emit.index(_BYTES[element])], self.index)
        address = emit.value("arith.addi", [start, skipped], self.index)
        number = emit.value("arith.index_cast", [address], ir.IntegerType.get_signless(64))
        return emit.value("llvm.inttoptr", [number], self.pointer)

    def workgroup(self, dimension: int) -> ir.Value:
        return emit.value(
            "stream.dispatch.workgroup.id", [], self.index, dimension=ir.IntegerAttr.get(self.index, dimension)
        )


def supported_elements() -> frozenset[str]:
    """The element types that a static function can take."""
    return frozenset(_BYTES)


def stored(element: str) -> ir.Type:
    """The type in memory: i1 tensors have a byte for an element, i4 tensors one for two."""
    return ir.Type.parse("i8" if element in ("i1", "i4") else element)


class LinkedFunction(Approach):
    """A C function for each CPU, linked into the program or imported from a plugin."""

    title = "static function"
    writer = Writer

    def name(self, call: KernelCall) -> str:
        return "dynamic function" if call.imported else self.title

    def fits(self, call: KernelCall) -> bool:
        is_linked = all(choice.is_function and not choice.clause.is_provided for choice in call.choices)
        return is_linked and all(target.is_cpu for target in call.kept)
