"""Static function on CPU: a C function, linked into the program.

    %r = negf(absf(mulf(%a, %b)))       =>      %r = flow.dispatch @opsplice_k[...](%a, %b, ...)

    stream.executable @opsplice_k {               the shim: turns IREE's bindings into the plain C ABI
      func @k(bindings...) { call @k_symbol(pointers, scalars, dims, workgroup ids) }
    }

The C function gets `const T *` for each input buffer, scalars by value, `T *` for each fresh result, `size_t` for each
dim in order of first appearance (a pack is one, the product of its dims) and a `size_t` for each workgroup id of the
grid. Buffers are dense and row-major; one executable serves all calls with the same kernel, types and static dims. Dims
that are known when compiling are constants in the shim, so bitcode is specialised for them.

Scalars of i1, i8 and i16 arrive widened to 32 bits, as C's calling conventions want them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from iree.compiler import ir

from opsplice.matchers.match import Size
from opsplice.matchers.terms import DimSize
from opsplice.rewrites import emit
from opsplice.rewrites.calls import Buffer, KernelCall, Output, Scalar
from opsplice.spec_lang import tree

_BYTES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8}
_WIDENED = {"i1": "arith.extui", "i8": "arith.extsi", "i16": "arith.extsi"}
_GRID_OPS = {
    "+": "arith.addi",
    "-": "arith.subi",
    "*": "arith.muli",
    "%": "arith.remui",
    "ceildiv": "arith.ceildivui",
    "floordiv": "arith.divui",
    "min": "arith.minui",
    "max": "arith.maxui",
}


def apply(module: ir.Module, calls: Iterable[KernelCall]) -> None:
    """Put each call in the place of its match, in program order, and remove what is then dead.

    The payload values that the calls hold must be of this very module, unchanged since they were found.
    """
    emit.load_dialects(module.context)
    with module.context, ir.Location.unknown():
        writer = _Writer(module)
        for call in calls:
            writer.splice(call)
        writer.sweep()


@dataclass
class _Writer:
    module: ir.Module
    executables: dict[Any, str] = field(default_factory=dict)
    replaced: dict[ir.Value, ir.Value] = field(default_factory=dict)
    dead: list[ir.Operation] = field(default_factory=list)

    # ---- the call -------------------------------------------------------------------------------------------------

    def splice(self, call: KernelCall) -> None:
        anchor = _last(call.match.roots)
        with ir.InsertionPoint(anchor), anchor.location:
            sizes = {name: self._size(size) for name, size in call.dims.items()}
            operands = [v for v in (self._operand(a) for a in call.arguments) if v is not None]
            positions = {a.name: i for i, a in enumerate(a for a in call.arguments if not _is_baked(a))}
            dynamic = [v for v in sizes.values() if isinstance(v, ir.Value)]
            results = [self._axes(o.sizes) for o in call.outputs]
            dispatch = self._dispatch(call, operands, positions, dynamic, results)
        for output, new in zip(call.outputs, dispatch.results, strict=True):
            output.root.replace_all_uses_with(new)
            self.replaced[output.root] = new
        self.dead.extend(call.match.ops)

    def _dispatch(
        self,
        call: KernelCall,
        operands: list[ir.Value],
        positions: Mapping[str, int],
        dynamic: list[ir.Value],
        results: list[list[ir.Value]],
    ) -> ir.Operation:
        operand_dims = [d for v in operands for d in _dynamic_dims(v)]
        result_dims = [d for dims in results for d in dims]
        tied = [-1 if o.alias is None else positions[o.alias] for o in call.outputs]
        segments = [len(dynamic), len(operands) + len(dynamic), len(operand_dims), len(result_dims)]
        index = ir.IndexType.get()
        name = self._executable(call)
        return emit.op(
            "flow.dispatch",
            [*dynamic, *operands, *dynamic, *operand_dims, *result_dims],
            [o.root.type for o in call.outputs],
            {
                "entry_points": ir.ArrayAttr.get([emit.symbol(name, name)]),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get(segments),
                "tied_operands": ir.ArrayAttr.get([ir.IntegerAttr.get(index, t) for t in tied]),
            },
        )

    def _current(self, value: ir.Value) -> ir.Value:
        """A payload value as it is now: what an earlier splice put in its place, if any."""
        while value in self.replaced:
            value = self.replaced[value]
        return value

    def _operand(self, argument: Buffer | Scalar) -> ir.Value | None:
        return None if _is_baked(argument) else self._current(argument.value)

    def _size(self, size: Size | tuple[Size, ...]) -> int | ir.Value:
        """A dim as a number or, when some of it is dynamic, as a value."""
        parts = size if isinstance(size, tuple) else (size,)
        known, values = 1, []
        for part in parts:
            if isinstance(part, int):
                known *= part
            else:
                values.append(self._axis(part))
        if not values:
            return known
        if known != 1:
            values.append(emit.index(known))
        product = values[0]
        for factor in values[1:]:
            product = emit.value("arith.muli", [product, factor], ir.IndexType.get())
        return product

    def _axes(self, sizes: tuple[Size, ...]) -> list[ir.Value]:
        return [self._axis(s) for s in sizes if isinstance(s, DimSize)]

    def _axis(self, size: DimSize) -> ir.Value:
        value: Any = size.value
        return emit.value("tensor.dim", [self._current(value), emit.index(size.axis)], ir.IndexType.get())

    # ---- the executable -------------------------------------------------------------------------------------------

    def _executable(self, call: KernelCall) -> str:
        key = _signature(call)
        if key not in self.executables:
            name = _unused_symbol(self.module, f"opsplice_{call.kernel.name}")
            _build_executable(self.module, name, call)
            self.executables[key] = name
        return self.executables[key]

    # ---- the sweep ------------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Erase the matched ops that nothing uses any more, users before producers."""
        pending = list(dict.fromkeys(self.dead))
        erased = True
        while erased:
            erased = False
            for op in reversed(pending):
                if all(not list(r.uses) for r in op.results):
                    pending.remove(op)
                    op.erase()
                    erased = True


# ---- pieces of the call ------------------------------------------------------------------------------------------


def _is_baked(argument: Buffer | Scalar) -> bool:
    """Whether an argument is a number or dim, which the shim knows by itself."""
    return isinstance(argument, Scalar) and argument.value is None


def _dynamic_dims(value: ir.Value) -> list[ir.Value]:
    kind = value.type
    if not isinstance(kind, ir.RankedTensorType):
        return []
    axes = [i for i in range(kind.rank) if kind.is_dynamic_dim(i)]
    return [emit.value("tensor.dim", [value, emit.index(i)], ir.IndexType.get()) for i in axes]


def _last(roots: tuple[Any, ...]) -> ir.Operation:
    """The op of the root that comes last in its block."""
    found = roots[0].owner.operation
    for root in roots[1:]:
        op = root.owner.operation
        if found.is_before_in_block(op):
            found = op
    return found


def _unused_symbol(module: ir.Module, wanted: str) -> str:
    names = {
        ir.StringAttr(op.attributes["sym_name"]).value
        for op in module.body.operations
        if "sym_name" in op.operation.attributes
    }
    name, number = wanted, 1
    while name in names:
        name = f"{wanted}_{number}"
        number += 1
    return name


def _signature(call: KernelCall) -> Any:
    """What two calls must share to use one executable."""
    arguments = tuple(
        (type(a).__name__, a.element, *_scalar_kind(a)) if isinstance(a, Scalar) else ("Buffer", a.element)
        for a in call.arguments
    )
    dims = tuple(_static(size) for size in call.dims.values())
    outputs = tuple((o.element, o.alias) for o in call.outputs)
    return call.kernel.name, call.symbol, arguments, dims, outputs, tuple(sorted(call.objects.items()))


def _scalar_kind(scalar: Scalar) -> tuple[Any, ...]:
    return scalar.number, scalar.dim, None if scalar.value is None else str(scalar.value.type)


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
    attributes = {
        "sym_name": emit.text(name),
        "sym_visibility": emit.text("private"),
        "hal.executable.objects": _objects(call),
    }
    executable = emit.op("stream.executable", attributes=attributes, regions=1, at=at)
    body = executable.regions[0].blocks.append()
    with ir.InsertionPoint(body):
        _build_export(name, call)
        inner = emit.op("builtin.module", regions=1)
        emit.op("stream.executable.end")
    block = inner.regions[0].blocks.append()
    with ir.InsertionPoint(block):
        _Shim(name, call).build()


def _objects(call: KernelCall) -> ir.Attribute:
    entries = ", ".join(
        f'{target} = [#hal.executable.object<{{path = "{_escaped(str(path))}"}}>]'
        for target, path in sorted(call.objects.items())
    )
    return ir.Attribute.parse(f"#hal.executable.objects<{{{entries}}}>")


def _escaped(path: str) -> str:
    return path.replace("\\", "\\\\").replace('"', '\\"')


def _build_export(name: str, call: KernelCall) -> None:
    """The export, whose region makes the workgroup counts from the dynamic dims.

    It has the executable's name: IREE links executables into one, where exports must not clash.
    """
    attributes = {
        "sym_name": emit.text(name),
        "sym_visibility": emit.text("public"),
        "function_ref": ir.FlatSymbolRefAttr.get(name),
    }
    export = emit.op("stream.executable.export", attributes=attributes, regions=1)
    index = ir.IndexType.get()
    dynamic = [n for n, size in call.dims.items() if _static(size) is None]
    block = export.regions[0].blocks.append(*[index] * len(dynamic), arg_locs=[ir.Location.unknown()] * len(dynamic))
    with ir.InsertionPoint(block):
        sizes = _dim_values(call, dict(zip(dynamic, block.arguments, strict=True)))
        counts = [_arithmetic(e, sizes) for e in call.kernel.grid]
        counts += [emit.index(1)] * (3 - len(counts))
        emit.op("stream.return", counts)


def _dim_values(call: KernelCall, dynamic: Mapping[str, ir.Value]) -> dict[str, ir.Value]:
    values = {}
    for name, size in call.dims.items():
        known = _static(size)
        values[name] = dynamic[name] if known is None else emit.index(known)
    return values


def _arithmetic(expr: tree.DimExpr, sizes: Mapping[str, ir.Value]) -> ir.Value:
    if isinstance(expr, tree.Literal):
        return emit.index(int(expr.value))
    if isinstance(expr, tree.DimRef):
        return sizes[expr.name]
    operands = [_arithmetic(expr.left, sizes), _arithmetic(expr.right, sizes)]
    return emit.value(_GRID_OPS[expr.op], operands, ir.IndexType.get())


class _Shim:
    """The function inside the executable: bindings in, plain C arguments out."""

    def __init__(self, name: str, call: KernelCall) -> None:
        self.name = name
        self.call = call
        self.index = ir.IndexType.get()
        self.pointer = ir.Type.parse("!llvm.ptr")
        self.binding = ir.Type.parse("!stream.binding")

    def build(self) -> None:
        passed = [a for a in self.call.arguments if not _is_baked(a)]
        dynamic = [n for n, size in self.call.dims.items() if _static(size) is None]
        fresh = [o for o in self.call.outputs if o.alias is None]
        kinds = [
            *(self._kind(a) for a in passed),
            *(self.index for _ in dynamic),
            *(self.binding for _ in fresh),
        ]
        # The declaration's types are those of the call, so the body comes first and the declaration is put before it.
        function = self._function(self.name, kinds, [])
        block = function.regions[0].blocks.append(*kinds, arg_locs=[ir.Location.unknown()] * len(kinds))
        with ir.InsertionPoint(block):
            given = dict(zip((a.name for a in passed), block.arguments, strict=False))
            rest = list(block.arguments)[len(passed) :]
            sizes = _dim_values(self.call, dict(zip(dynamic, rest, strict=False)))
            operands = [self._argument(a, given, sizes) for a in self.call.arguments]
            operands += [
                self._address(binding, output.element, output.shape, sizes)
                for output, binding in zip(fresh, rest[len(dynamic) :], strict=True)
            ]
            operands += sizes.values()
            operands += [self._workgroup(i) for i in range(len(self.call.kernel.grid))]
            emit.op("func.call", operands, attributes={"callee": ir.FlatSymbolRefAttr.get(self.call.symbol)})
            emit.op("func.return")
        with ir.InsertionPoint(function):
            external = {"hal.import.static": ir.UnitAttr.get(), "llvm.bareptr": ir.BoolAttr.get(True)}
            self._function(self.call.symbol, [v.type for v in operands], [], private=True, extra=external)

    def _function(
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
        kind = argument.value.type
        return self.binding if isinstance(kind, ir.RankedTensorType) else kind

    def _argument(
        self, argument: Buffer | Scalar, given: Mapping[str, ir.Value], sizes: Mapping[str, ir.Value]
    ) -> ir.Value:
        if isinstance(argument, Buffer):
            return self._address(given[argument.name], argument.element, argument.shape, sizes)
        kind = ir.Type.parse(argument.element)
        if argument.number is not None:
            found = emit.constant(argument.number, kind)
        elif argument.dim is not None:
            found = self._cast_dim(sizes[argument.dim], kind)
        elif given[argument.name].type == self.binding:
            found = self._load(given[argument.name], argument.element)
        else:
            found = given[argument.name]
        widen = _WIDENED.get(argument.element)
        return found if widen is None else emit.value(widen, [found], ir.IntegerType.get_signless(32))

    def _cast_dim(self, size: ir.Value, kind: ir.Type) -> ir.Value:
        if kind == self.index:
            return size
        whole = kind if isinstance(kind, ir.IntegerType) else ir.IntegerType.get_signless(64)
        number = emit.value("arith.index_cast", [size], whole)
        return number if whole == kind else emit.value("arith.sitofp", [number], kind)

    def _subspan(self, binding: ir.Value, element: str, length: ir.Value) -> ir.Value:
        # i1 tensors are stored one byte to an element.
        stored = ir.Type.parse("i8" if element == "i1" else element)
        kind = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], stored)
        return emit.value("stream.binding.subspan", [binding, emit.index(0), length], kind)

    def _load(self, binding: ir.Value, element: str) -> ir.Value:
        memref = self._subspan(binding, element, emit.index(1))
        stored = ir.Type.parse("i8" if element == "i1" else element)
        loaded = emit.value("memref.load", [memref, emit.index(0)], stored)
        if element != "i1":
            return loaded
        return emit.value("arith.trunci", [loaded], ir.IntegerType.get_signless(1))

    def _address(
        self, binding: ir.Value, element: str, shape: tuple[tree.Dim, ...], sizes: Mapping[str, ir.Value]
    ) -> ir.Value:
        """The address of a binding's first element. Upstream's strided metadata would lose the binding's offset."""
        length = emit.index(1)
        for dim in shape:
            size = emit.index(dim.size) if dim.size is not None else sizes[dim.name or ""]
            length = emit.value("arith.muli", [length, size], self.index)
        memref = self._subspan(binding, element, length)
        stored = ir.MemRefType(memref.type).element_type
        base, offset, _, _ = emit.op(
            "iree_codegen.extract_strided_metadata",
            [memref],
            [ir.MemRefType.get([], stored), self.index, self.index, self.index],
        ).results
        start = emit.value("memref.extract_aligned_pointer_as_index", [base], self.index)
        skipped = emit.value("arith.muli", [offset, emit.index(_BYTES[element])], self.index)
        address = emit.value("arith.addi", [start, skipped], self.index)
        number = emit.value("arith.index_cast", [address], ir.IntegerType.get_signless(64))
        return emit.value("llvm.inttoptr", [number], self.pointer)

    def _workgroup(self, dimension: int) -> ir.Value:
        return emit.value(
            "stream.dispatch.workgroup.id", [], self.index, dimension=ir.IntegerAttr.get(self.index, dimension)
        )


def supported_elements() -> frozenset[str]:
    """The element types that a static function can take."""
    return frozenset(_BYTES)


def fits(output: Output) -> bool:
    """Whether the sizes of a fresh result are known, as a number or from an input."""
    return all(isinstance(s, int) or s.value != output.root for s in output.sizes)
