"""The shim of a C function: a function that turns IREE's bindings into plain pointers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from iree.compiler import ir

from opsplice.rewrites.approaches import dynamic_function
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.placing import Placer, builtin_type
from opsplice.rewrites.layouts import strides
from opsplice.rewrites.layouts.strides import Moves
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


def fill_counts(export: ir.Operation, call: KernelCall, before: Sequence[ir.Type], most: Sequence[int]) -> None:
    """Write the region of an export, which makes the workgroup counts from the dynamic dims.

    before: the types of what it is given before these.
    """
    dynamic = dynamic_names(call)
    block = emit.block(export, [*before, *[ir.IndexType.get()] * len(dynamic)])
    with ir.InsertionPoint(block):
        sizes = dim_values(call, dict(zip(dynamic, list(block.arguments)[len(before) :], strict=True)))
        counts = workgroups.counts(call.kernel.name, call.kernel.grid, sizes, most)
        emit.op(f"{export.name.partition('.')[0]}.return", counts)


class Shim:
    """The functions inside the executable: bindings in, plain C arguments out.

    given, sizes: the arguments and the dims, by name; results: their bindings; moves: of strided buffers. All of these
    are set by `open`.
    """

    given: Mapping[str, Any]
    sizes: Mapping[str, ir.Value]
    results: Sequence[Any]
    moves: Moves

    def __init__(self, call: KernelCall, is_imported: bool | None = None) -> None:
        """is_imported: whether a plugin has the function, by default if it has it for any target."""
        self.call = call
        self.is_imported = bool(call.imported) if is_imported is None else is_imported
        self.index = ir.IndexType.get()
        self.pointer = ir.Type.parse("!llvm.ptr")
        self.binding = ir.Type.parse("!stream.binding")
        self.fresh = [output for output in call.outputs if output.alias is None]

    def build_call(self, name: str) -> None:
        function = self.open(name)
        # The declaration's types are those of the call, so the body comes first and the declaration is put before it.
        with ir.InsertionPoint(function.regions[0].blocks[0]):
            operands = list(map(self._argument, self.call.arguments))
            operands += list(map(self._address, self.results, self.fresh))
            operands += [*self.sizes.values(), *self.moves.strides]
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
            self.function(self.call.symbol, [v.type for v in operands], "private", external)

    def open(self, name: str) -> ir.Operation:
        """A function with an empty body."""
        passed = [argument for argument in self.call.arguments if not is_baked(argument)]
        dynamic, amounts = dynamic_names(self.call), strides.passed(self.call)
        words = [self.index] * (len(dynamic) + len(amounts))
        kinds = [*map(self._kind, passed), *words, *[self.binding] * len(self.fresh)]
        function = self.function(name, kinds)
        block = emit.block(function, kinds)
        values = iter(block.arguments)
        self.given = {argument.name: next(values) for argument in passed}
        with ir.InsertionPoint(block):
            self.sizes = dim_values(self.call, {name: next(values) for name in dynamic})
            self.moves = strides.moves(self.call, {amount: next(values) for amount in amounts}, self.workgroup)
        self.results = list(values)
        return function

    def function(
        self,
        name: str,
        inputs: list[ir.Type],
        visibility: str = "public",
        extra: Mapping[str, ir.Attribute] | None = None,
    ) -> ir.Operation:
        attributes = emit.named(name, visibility, function_type=emit.type_of(inputs), **(extra or {}))
        return emit.op("func.func", attributes=attributes, regions=1)

    def _kind(self, argument: Buffer | Scalar) -> ir.Type:
        kind = builtin_type(argument.value)
        return self.binding if isinstance(kind, ir.RankedTensorType) else kind

    def _argument(self, argument: Buffer | Scalar) -> ir.Value:
        if isinstance(argument, Buffer) and argument.value is None:
            return emit.value("llvm.mlir.zero", [], self.pointer)
        if isinstance(argument, Buffer):
            return self._address(self.given[argument.name], argument)
        found = self.scalar(argument)
        if argument.element == "bf16":
            # IREE would pass it as an integer. C passes it in the register in which it passes an f16.
            return emit.value("arith.bitcast", [found], ir.F16Type.get())
        widen = _WIDENED.get(argument.element)
        return found if widen is None else emit.value(widen, [found], ir.IntegerType.get_signless(32))

    def scalar(self, argument: Scalar) -> ir.Value:
        """A scalar of its own type."""
        kind = ir.Type.parse(argument.element)
        if argument.number is not None:
            return emit.constant(argument.number, kind)
        if argument.dim is not None:
            return cast_dim(self.sizes[argument.dim], kind)
        given: ir.Value = self.given[argument.name]
        return self._load(given, argument.element) if given.type == self.binding else given

    def _length(self, shape: tuple[tree.Dim, ...]) -> ir.Value:
        """How many elements a buffer has."""
        length = emit.index(1)
        for dim in shape:
            if dim.sum is not None:
                size = workgroups.arithmetic(dim.sum, self.sizes)
            else:
                size = emit.index(dim.size) if dim.size is not None else self.sizes[dim.name or ""]
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

    def _address(self, binding: Any, buffer: Buffer | Output) -> ir.Value:
        """The address of a buffer's first element. Upstream's strided metadata would lose the binding's offset."""
        element = buffer.element
        number = next((at for at, each in enumerate(self.call.strided) if each is buffer), None)
        length = self._length(buffer.shape) if number is None else self.moves.counts[number]
        if element == "i4":
            length = emit.value("arith.ceildivui", [length, emit.index(2)], self.index)
        memref = self.subspan(binding, element, length)
        base, offset, _, _ = emit.op(
            "iree_codegen.extract_strided_metadata",
            [memref],
            [ir.MemRefType.get([], stored(element)), self.index, self.index, self.index],
        ).results
        start = emit.value("memref.extract_aligned_pointer_as_index", [base], self.index)
        if number is not None:
            offset = emit.plus(offset, self.moves.offsets[number])
        address = emit.plus(start, emit.times(offset, emit.index(max(vocabulary.bits(element) or 0, 8) // 8)))
        whole = emit.value("arith.index_cast", [address], ir.IntegerType.get_signless(64))
        return emit.value("llvm.inttoptr", [whole], self.pointer)

    def workgroup(self, dimension: int) -> ir.Value:
        return emit.value("stream.dispatch.workgroup.id", [], self.index, dimension=emit.ordinal(dimension))


def stored(element: str) -> ir.Type:
    """The type in memory: i1 tensors have a byte for an element, i4 tensors one for two."""
    return ir.Type.parse("i8" if element in ("i1", "i4") else element)
