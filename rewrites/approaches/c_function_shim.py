"""The shim of a C function: a function that turns IREE's bindings into plain pointers."""

from __future__ import annotations

from collections.abc import Mapping

from iree.compiler import ir

from opsplice.matchers.dims.layouts import Amount
from opsplice.rewrites.approaches import dynamic_function
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.placing import Placer, builtin_type
from opsplice.rewrites.memory import strides
from opsplice.rewrites.memory.stride_words import ToldMoves
from opsplice.rewrites.plan import workgroups
from opsplice.rewrites.plan.actions import Buffer, KernelCall, Output, Scalar
from opsplice.rewrites.plan.known_sizes import product
from opsplice.spec_lang.syntax import tree, vocabulary

_WIDENED = {"i1": "arith.extui", "i8": "arith.extsi", "i16": "arith.extsi"}


def is_baked(argument: Buffer | Scalar) -> bool:
    """Whether an argument is a number, a dim or left out, which the shim knows by itself."""
    return argument.value is None


def dynamic_names(call: KernelCall) -> list[str]:
    """The kernel's dims of which the size is only known at run time."""
    return [n for n, size in call.dims.items() if product(size) is None]


def dim_values(call: KernelCall, dynamic: Mapping[str, ir.Value]) -> dict[str, ir.Value]:
    """The kernel's dims as values, those that are known as constants."""
    values = {}
    for name, size in call.dims.items():
        known = product(size)
        values[name] = dynamic[name] if known is None else emit.index(known)
    return values


def cast_dim(size: ir.Value, kind: ir.Type) -> ir.Value:
    """A dim as a scalar of another type."""
    if kind == size.type:
        return size
    whole = kind if isinstance(kind, ir.IntegerType) else ir.IntegerType.get_signless(64)
    number = emit.value("arith.index_cast", [size], whole)
    return number if whole == kind else emit.value("arith.sitofp", [number], kind)


def scalar_value(placer: Placer, scalar: Scalar, sizes: Mapping[str, int | ir.Value]) -> ir.Value:
    """A scalar of its own type, or the tensor that holds it, at the current point."""
    kind = ir.Type.parse(scalar.element)
    if scalar.number is not None:
        return emit.constant(scalar.number, kind)
    if scalar.dim is not None:
        return cast_dim(emit.size(sizes[scalar.dim]), kind)
    return without_dims(placer.current(scalar.value))


def without_dims(value: ir.Value) -> ir.Value:
    """A scalar as it is, and of a tensor of one element the tensor of rank 0."""
    if not isinstance(value.type, ir.RankedTensorType):
        return value
    return emit.reshape(value, ir.RankedTensorType.get([], value.type.element_type), [])


class Shim:
    """The functions inside the executable: bindings in, plain C arguments out."""

    def __init__(self, call: KernelCall, is_imported: bool | None = None) -> None:
        """is_imported: whether a plugin has the function, by default if it has it for any target."""
        self.call = call
        self.is_imported = bool(call.imported) if is_imported is None else is_imported
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
            if self.is_imported:
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

    def open(
        self, name: str, results: int
    ) -> tuple[ir.Operation, dict[str, ir.Value], dict[str, ir.Value], list[ir.Value]]:
        """A function with an empty body: itself, the arguments and the dims by name, and the results' bindings."""
        amounts = strides.passed(self.call)
        words = [self.index] * (len(self.dynamic) + len(amounts))
        kinds = [*map(self._kind, self.passed), *words, *[self.binding] * results]
        function = self.function(name, kinds, [])
        block = emit.block(function, kinds)
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
        attributes = emit.named(name, "private" if private else "public", function_type=emit.type_of(inputs, results))
        return emit.op("func.func", attributes={**attributes, **(extra or {})}, regions=1)

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
        if given[argument.name].type == self.binding:
            return self._load(given[argument.name], argument.element)
        return given[argument.name]

    def _length(self, shape: tuple[tree.Dim, ...], sizes: Mapping[str, ir.Value]) -> ir.Value:
        """How many elements a buffer has."""
        length = emit.index(1)
        for dim in shape:
            if dim.sum is not None:
                size = workgroups.arithmetic(dim.sum, sizes)
            else:
                size = emit.index(dim.size) if dim.size is not None else sizes[dim.name or ""]
            length = emit.times(length, size)
        return length

    def subspan(self, binding: ir.Value, element: str, length: ir.Value) -> ir.Value:
        kind = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], stored(element))
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
        if element == "i4":
            length = emit.value("arith.ceildivui", [length, emit.index(2)], self.index)
        memref = self.subspan(binding, element, length)
        base, offset, _, _ = emit.op(
            "iree_codegen.extract_strided_metadata",
            [memref],
            [ir.MemRefType.get([], stored(element)), self.index, self.index, self.index],
        ).results
        start = emit.value("memref.extract_aligned_pointer_as_index", [base], self.index)
        if layout is not None:
            offset = emit.plus(offset, moves.offset(buffer))
        address = emit.plus(start, emit.times(offset, emit.index(max(vocabulary.bits(element) or 0, 8) // 8)))
        number = emit.value("arith.index_cast", [address], ir.IntegerType.get_signless(64))
        return emit.value("llvm.inttoptr", [number], self.pointer)

    def workgroup(self, dimension: int) -> ir.Value:
        return emit.value("stream.dispatch.workgroup.id", [], self.index, dimension=emit.ordinal(dimension))


def stored(element: str) -> ir.Type:
    """The type in memory: i1 tensors have a byte for an element, i4 tensors one for two."""
    return ir.Type.parse("i8" if element in ("i1", "i4") else element)
