"""Static dispatch: a whole dispatch that a file holds, such as a shader or a PTX entry, in the place of a match.

    %r = negf(absf(mulf(%a, %b)))    =>    %r = flow.dispatch {@k::@v0::@main, @k::@v1::@k}[...](%a, %b, words...)

    hal.executable @k {
      variant @v0 objects("k.spv") { export @main }                 a file for one target
      variant @v1 objects("k.o") { export @k; func @k { ... } }     for a CPU a plain C function, with a shim around it
    }

The ABI is the same for all targets. Bindings: the buffers in the order of the parameters, then the results (one that
is written in place is its parameter's). Constants, words of 32 bits: the scalars in the order of the parameters, then
the dims in the order in which the signature names them first; a pack is one. `dispatch_words.py` says how a scalar is
packed, `stride_words.py` what is passed for strided and optional buffers.
On a CPU the file may also hold the dispatch in IREE's own ABI for executables (`as dispatch`).

For Metal the function is empty, until `metal_link.py` puts the shader in its place; so it is for an executable of
IREE's for a CPU that a file holds (`elf_link.py`).

IREE 3.13 crashes on linking executables of which only some variants have a body, so a program for CPUs and others
besides is compiled with `--iree-hal-link-executables=false`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from iree.compiler import ir

from opsplice.rewrites.approaches import c_function_shim, dispatch_files
from opsplice.rewrites.approaches import static_function as plain
from opsplice.rewrites.approaches.approach import Approach, Later
from opsplice.rewrites.approaches.dispatch_files import External
from opsplice.rewrites.ir import dispatch_words, emit
from opsplice.rewrites.ir.executable_targets import parse_target
from opsplice.rewrites.layouts import stride_words
from opsplice.rewrites.layouts.strides import Moves
from opsplice.rewrites.link import elf_link, metal_link
from opsplice.rewrites.plan import interface, workgroups
from opsplice.rewrites.plan.actions import Buffer, KernelCall, Scalar

_ENTRY = "opsplice.entry"


@dataclass(frozen=True, eq=False)
class DispatchCall(KernelCall):
    """A call of one dispatch for all targets. externals: those that files hold."""

    externals: tuple[External, ...] = ()

    @property
    def functions(self) -> list[tuple[str, Path | None]]:
        """The CPUs that call a function: each with the file to link, None where a plugin has it."""
        functions = [choice for choice in self.choices if choice.is_function]
        functions.sort(key=lambda choice: (choice.artifact is None, choice.target.text))
        return [(c.target.text, None if c.artifact is None else c.artifact.path) for c in functions]


def prepared(call: KernelCall) -> DispatchCall:
    """A call whose files were read."""
    assert isinstance(call, DispatchCall), "it was prepared"
    return call


class Writer(plain.Writer):
    """Writes dispatches, and an executable for each kernel, into the module of a placer."""

    def shared(self, call: KernelCall) -> KernelCall:
        return call

    def passed(self, call: KernelCall) -> Sequence[Buffer | Scalar]:
        return [argument for argument in call.arguments if isinstance(argument, Buffer)]

    def operands(self, call: KernelCall, passed: Sequence[Buffer | Scalar]) -> list[ir.Value]:
        there = iter(super().operands(call, [buffer for buffer in passed if buffer.value is not None]))
        found = [stride_words.left_out(b.element) if b.value is None else next(there) for b in passed]
        return found + [stride_words.first_elements(call, self.placer)] * bool(stride_words.packs(call))

    def others(self, call: KernelCall, sizes: Mapping[str, int | ir.Value]) -> list[ir.Value]:
        """Words: the scalars, the dims, and what is told of strides."""
        constants = [w for a in call.arguments if isinstance(a, Scalar) for w in self._words(a, sizes)]
        constants += [_word(size) for size in sizes.values()]
        return constants + [_word(self.placer.amount(word.amount)) for word in stride_words.words(call)]

    def _words(self, scalar: Scalar, sizes: Mapping[str, int | ir.Value]) -> list[ir.Value]:
        value = c_function_shim.scalar_value(self.placer, scalar, sizes)
        return dispatch_words.pack(_on_host(value, scalar.element), scalar.element)

    def entries(self, call: KernelCall) -> Sequence[ir.Attribute]:
        call = prepared(call)
        key = (plain.signature(call, layouts=False), call.externals, call.kept)
        if (known := self.executables.get(key)) is None:
            name = self.placer.unused_symbol(f"opsplice_{call.kernel.name}", call.symbol)
            known = self.executables[key] = build(self.placer.module, name, call)
        return known


def _on_host(value: ir.Value, element: str) -> ir.Value:
    """A scalar as a value that the program has outside of tensors; 16-bit floats as their bits."""
    if not isinstance(value.type, ir.RankedTensorType):
        return value
    if element in ("f16", "bf16"):
        value = emit.bitcast(value, ir.IntegerType.get_signless(16))
    return emit.value("tensor.extract", [value], value.type.element_type)


def _word(size: int | ir.Value) -> ir.Value:
    word = ir.IntegerType.get_signless(32)
    return emit.constant(size, word) if isinstance(size, int) else emit.value("arith.index_cast", [size], word)


# ---- the executable --------------------------------------------------------------------------------------------------


def build(
    module: ir.Module, name: str, call: DispatchCall, extra: Mapping[str, ir.Attribute] | None = None
) -> tuple[ir.Attribute, ...]:
    """Build the executable. Returns the entry points, one for each variant."""
    attributes, at = {**emit.named(name), **(extra or {})}, ir.InsertionPoint.at_block_begin(module.body)
    executable = emit.op("hal.executable", attributes=attributes, regions=1, at=at)
    shaders = {f"v{n}": each for n, each in enumerate(call.externals) if each.form == "metal"}
    metal_link.note(executable.operation, shaders)
    layout = _layout(call)
    with ir.InsertionPoint(emit.block(executable)):
        for number, external in enumerate(call.externals):
            with _variant(number, external.target, None if external.is_late else external.path):
                _export(_export_name(name, external), layout, call, external)
                if external.is_late:
                    _build_nothing(_export_name(name, external))
                elif external.on_cpu:
                    _hand_on(name, external.entry)
        for number, (target, path) in enumerate(call.functions, len(call.externals)):
            with _variant(number, target, path):
                _export(name, layout, call)
                with ir.InsertionPoint(emit.block(emit.op("builtin.module", regions=1))):
                    _Shim(call, layout, path is None).build_call(name)
        for number, kept in enumerate(call.kept, len(call.choices)):
            with _variant(number, kept.text):
                _export(name, layout, call)
                _build_nothing(name)
        emit.op("hal.executable_end")
    return entries_of(name, call)


def entries_of(name: str, call: DispatchCall) -> tuple[ir.Attribute, ...]:
    """The entry points of the executable of this name for a call: of its variants in order."""
    others = len(call.functions) + len(call.kept)
    exports = [*(_export_name(name, external) for external in call.externals), *[name] * others]
    return tuple(emit.symbol(name, f"v{number}", export) for number, export in enumerate(exports))


def _export_name(name: str, external: External) -> str:
    if external.form == "library":
        return f"{elf_link.STAND_IN}{external.entry}${name}"
    return name if external.on_cpu else external.entry


def _layout(call: KernelCall) -> ir.Attribute:
    """The interface. Indirect bindings let IREE record commands once and submit them again."""
    kinds = ["Indirect" if is_written else '"ReadOnly|Indirect"' for *_, is_written in interface.bindings(call)]
    bindings = ", ".join(f"#hal.pipeline.binding<storage_buffer, {kind}>" for kind in kinds)
    constants = len(interface.words(call))
    held = f"constants = {constants}, " if constants else ""
    return ir.Attribute.parse(f"#hal.pipeline.layout<{held}bindings = [{bindings}], flags = Indirect>")


@contextmanager
def _variant(number: int, target: str, path: Path | None = None) -> Iterator[None]:
    """The inside of the variant of a number, to its end."""
    attributes = emit.named(f"v{number}", "public", target=ir.Attribute.parse(target))
    if path is not None:
        attributes["objects"] = ir.ArrayAttr.get([emit.object_file(path)])
    with ir.InsertionPoint(emit.block(emit.op("hal.executable.variant", attributes=attributes, regions=1))):
        yield
        emit.op("hal.executable.variant_end")


def _export(name: str, layout: ir.Attribute, call: KernelCall, external: External | None = None) -> None:
    """An export, whose region makes the workgroup counts from the dynamic dims."""
    more: dict[str, ir.Attribute] = {}
    if external is not None:
        # IREE makes one of executables that differ in nothing but names, such as those for two entries of one file.
        more[_ENTRY] = emit.text(external.entry)
    on_gpu = external is not None and not external.on_cpu
    if external is not None and on_gpu:
        more["workgroup_size"] = ir.ArrayAttr.get(list(map(emit.ordinal, external.workgroup)))
        more |= {"workgroup_local_memory": emit.ordinal(external.shared)} if external.shared else {}
    attributes = emit.named(name, "public", ordinal=emit.ordinal(0), layout=layout, **more)
    made = emit.op("hal.executable.export", attributes=attributes, regions=2)
    most = workgroups.MOST if on_gpu else workgroups.MOST_ON_CPUS
    c_function_shim.fill_counts(made, call, [ir.Type.parse("!hal.device")], most)


def _hand_on(name: str, entry: str) -> None:
    """A function in IREE's ABI for executables on CPUs that calls another."""
    function = "(!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32"
    text = f"""
      llvm.func @"{entry}"(!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32 attributes {{hal.import.static}}
      llvm.func @"{name}"(%environment: !llvm.ptr, %dispatch: !llvm.ptr, %workgroup: !llvm.ptr) -> i32 {{
        %0 = llvm.call @"{entry}"(%environment, %dispatch, %workgroup) : {function}
        llvm.return %0 : i32
      }}"""
    inner = emit.block(emit.op("builtin.module", regions=1))
    for op in ir.Module.parse(text).body.operations:
        inner.append(op.operation.clone())


def _build_nothing(name: str) -> None:
    """A module with an empty function."""
    attributes = emit.named(name, "public", function_type=emit.type_of([]))
    with ir.InsertionPoint(emit.block(emit.op("builtin.module", regions=1))):
        function = emit.op("func.func", attributes=attributes, regions=1)
    with ir.InsertionPoint(emit.block(function)):
        emit.op("func.return")


class _Shim(c_function_shim.Shim):
    """The function inside the variant of a CPU: bindings by number and words in order in, plain C arguments out."""

    def __init__(self, call: KernelCall, layout: ir.Attribute, is_imported: bool) -> None:
        super().__init__(call, is_imported)
        self.layout = layout
        self.words = 0  # that were taken

    def take(self, element: str) -> ir.Value:
        """The next scalar."""
        found = dispatch_words.unpack(self.layout, self.words, element)
        self.words += dispatch_words.count(element)
        return found

    def subspan(self, binding: Any, element: str, length: ir.Value) -> ir.Value:
        kind = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], c_function_shim.stored(element))
        attributes = {
            "layout": self.layout,
            "binding": emit.ordinal(binding),
            "alignment": emit.ordinal(64),
        }
        groups = [[emit.index(0)], [length]]
        return emit.grouped("hal.interface.binding.subspan", groups, [kind], attributes).results[0]

    def workgroup(self, dimension: int) -> ir.Value:
        return emit.value("hal.interface.workgroup.id", [], self.index, dimension=emit.ordinal(dimension))

    def open(self, name: str) -> ir.Operation:
        block = emit.block(function := self.function(name, []))
        buffers = [a for a in self.call.arguments if isinstance(a, Buffer)]
        with ir.InsertionPoint(block):
            given: dict[str, Any] = {a.name: number for number, a in enumerate(buffers)}
            self.given = given | {a.name: self.take(a.element) for a in self.call.arguments if isinstance(a, Scalar)}
            self.sizes = c_function_shim.dim_values(self.call, {name: self._word() for name in self.call.dims})
            told = [(word.kind, self._word()) for word in stride_words.words(self.call)]
            packs = stride_words.packs(self.call)
            first = self._first_elements(len(buffers), packs) if packs else [v for kind, v in told if kind == "first"]
            # Nothing depends on how many elements a value has, so it need not be known.
            layouts = [buffer.layout for buffer in self.call.strided if buffer.layout is not None]
            counts = [emit.index(layout.count.number or 1) for layout in layouts]
        self.moves = Moves(counts, first, [value for kind, value in told if kind == "stride"])
        self.results = [len(buffers) + bool(packs) + number for number in range(len(self.fresh))]
        return function

    def _word(self) -> ir.Value:
        """The next word, without a sign."""
        return emit.value("arith.index_castui", [self.take("i32")], self.index)

    def _first_elements(self, table: int, packs: Sequence[str]) -> list[ir.Value]:
        """The first element of each strided buffer, out of the table that a binding is."""
        grid = [getattr(size, "name", None) for size in self.call.kernel.grid]
        count = length = emit.index(len(self.call.strided))
        row, first = emit.index(0), []
        for pack in packs:
            row = emit.plus(emit.times(row, self.sizes[pack]), self.workgroup(grid.index(pack)))
            length = emit.times(length, self.sizes[pack])
        held = self.subspan(table, "i32", length)
        for number in range(len(self.call.strided)):
            at = emit.plus(emit.times(row, count), emit.index(number))
            word = emit.value("memref.load", [held, at], ir.IntegerType.get_signless(32))
            first.append(emit.value("arith.index_castui", [word], self.index))
        return first

    def scalar(self, argument: Scalar) -> ir.Value:
        found: ir.Value = self.given[argument.name]
        return found


class StaticDispatch(Approach):
    """Whole dispatches for some targets, and functions with a shim for others."""

    title = "static dispatch"
    writer = Writer

    def name(self, call: KernelCall) -> str:
        is_function = all(choice.is_function for choice in call.choices)
        return plain.LinkedFunction().name(call) if is_function else self.title

    def fits(self, call: KernelCall) -> bool:
        return not any(choice.clause.is_command or choice.clause.is_provided for choice in call.choices)

    def prepared(self, call: KernelCall) -> KernelCall:
        externals = tuple(dispatch_files.of(call, choice) for choice in call.choices if not choice.is_function)
        return DispatchCall(**{**vars(call), "externals": externals})

    def later(self, calls: Sequence[KernelCall]) -> Sequence[Later]:
        externals = [external for call in calls for external in prepared(call).externals]
        libraries = {(e.entry, parse_target(e.target).format): e.path for e in externals if e.form == "library"}
        put_in = partial(elf_link.link, files=libraries)
        shaders = [Later(metal_link.PHASE, "shaders for Metal", metal_link.link)]
        files = [Later(elf_link.PHASE, "executables for CPUs", put_in)]
        return [*shaders * any(e.form == "metal" for e in externals), *files * bool(libraries)]
