"""Calls in the place of the marks that `scalar_function.py` leaves, once IREE has made an executable for each target.

At `executable-sources` marks become ops that IREE makes vectors of, as far as there are such, and functions for SPIR-V
move into their variants. At `executable-targets` the code is made, and every mark becomes a call, of a vector one for
each lane: in LLVM's dialect of a function that the variant's objects define, in SPIR-V of the one that moved in, or of
an import. At `hal` files in SPIR-V are linked with the code, and that for CUDA is looked at: what was not linked IREE
would leave to the driver. A variant without the function's code never runs the mark (`fallback.py`).

C's calling conventions want i1, i8 and i16 widened to 32 bits, and bf16 in the register of an f16. Functions for GPUs
take them as they are.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.matchers.ir.op_names import ops_in, symbol_of
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir import executables as hal
from opsplice.rewrites.ir.executable_targets import parse_target
from opsplice.rewrites.link import remainder_mark, spirv_function
from opsplice.targets.link import function_link, spirv_link
from opsplice.targets.plugins import call_types

# No assembler knows the word, so that a mark that is left over is an error.
WORD = "opsplice.call "
# The backend whose functions have C's calling conventions.
_IN_C = "llvm-cpu"
_WIDENED = {"i1": "llvm.zext", "i8": "llvm.sext", "i16": "llvm.sext"}


@dataclass(frozen=True)
class Function:
    """A function that marks stand for.

    inputs, output: its types, as MLIR writes them.
    objects: for each executable target of the program, as MLIR writes it, the file with the function's code.
    harmless: those of these targets for which LLVM may inline it and run it on any numbers.
    imported: such targets for which the function comes when the program is loaded.
    origins: the files that the kernel names for these.
    """

    kernel: str
    symbol: str
    inputs: tuple[str, ...]
    output: str
    objects: tuple[tuple[str, Path], ...]
    harmless: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()
    origins: tuple[tuple[str, Path], ...] = ()

    @property
    def name(self) -> str:
        """A name that no other function has, made of letters and digits."""
        code = (*(f"{target}{path}" for target, path in (*self.objects, *self.origins)), *self.imported)
        parts = (self.symbol, *self.inputs, self.output, *code)
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
        return f"{self.stem}_{digest}"

    @property
    def stem(self) -> str:
        """What the names of all functions of this symbol begin with."""
        return re.sub(r"[^A-Za-z0-9_]", "_", self.symbol)

    def file(self, target: str) -> Path | None:
        """The file for a target given as MLIR writes it, None where there is none."""
        found = dict(self.objects)
        return next((found[key] for key in _keys(target) if key in found), None)

    def imported_as(self, target: str) -> str | None:
        """What SPIR-V for a target, as MLIR writes it, imports the function as; None where it does not."""
        path = self.file(target)
        if path is not None:
            return f"{_prefix(path)}{self.symbol}" if path.suffix == spirv_function.LINKED else None
        return self.symbol if self.is_imported(target) else None

    def is_harmless(self, target: str) -> bool:
        """Whether the function may run on any numbers where the code for a target, as MLIR writes it, has it."""
        return any(key in self.harmless for key in _keys(target))

    def is_imported(self, target: str) -> bool:
        """Whether the function comes later for a target given as MLIR writes it."""
        return any(key in self.imported for key in _keys(target))


Functions = Mapping[str, Function]


def _prefix(path: Path) -> str:
    """What tells the functions of a file from those of others."""
    return f"f{hashlib.sha256(str(path).encode()).hexdigest()[:12]}_"


def _keys(target: str) -> tuple[str, str]:
    """What a target may be known as: in full, or by its backend and format alone."""
    parsed = parse_target(target)
    return target, f'#hal.executable.target<"{parsed.backend}", "{parsed.format}">'


def leave_mark(function: Function, values: Sequence[ir.Value], result: ir.Type) -> ir.Value:
    """Write a mark at the current point."""
    attributes = {
        "asm_string": emit.text(WORD + function.name),
        "constraints": emit.text(",".join(["=r", *["r"] * len(values)])),
    }
    return emit.op("llvm.inline_asm", values, [result], attributes).results[0]


def prepare(module: ir.Module, functions: Functions) -> None:
    """Check the marks, and make those of SPIR-V variants ops that survive. At `executable-sources`.

    Raises OpspliceError for a mark outside of generated code, and for one whose types the compiler has changed.
    """
    with emit.building(module):
        _check_names(module, functions)
        inside = 0
        for variant in _variants(module):
            marks = _marks(variant.op, functions)
            inside += len(marks)
            for mark, function in marks:
                _check_types(mark, function)
            if spirv_function.is_for(variant.backend):
                _prepare(variant, marks)
            elif variant.backend == _IN_C:
                _widen(marks, variant.target)
        if len(_marks(module.operation, functions)) > inside:
            raise OpspliceError("a function on elements would be called outside of generated code")


def link(module: ir.Module, functions: Functions) -> None:
    """Put calls in the place of the marks. At `executable-targets`."""
    with emit.building(module):
        for variant in _variants(module):
            if spirv_function.is_for(variant.backend):
                names = {f.name: f.imported_as(variant.target) for f in functions.values()}
                called = {f.name: (names[f.name] or f.symbol, len(f.inputs)) for f in functions.values()}
                spirv_function.link(variant.op, called)
                spirv_function.open_holes(variant.op, set(filter(None, names.values())))
                continue
            for mark, function in _marks(variant.op, functions):
                with ir.InsertionPoint(mark), mark.location:
                    made = _call(list(mark.operands), mark.results[0].type, function, variant)
                emit.replace(mark, made)
            if variant.backend == _IN_C:
                _link_wide(variant, functions)


def link_binaries(module: ir.Module, functions: Functions) -> None:
    """Link files in SPIR-V with code for Vulkan. Raise OpspliceError if code for CUDA calls what nothing has linked.

    At `hal`.
    """
    files = {path: function.kernel for function in functions.values() for _, path in function.objects}
    libraries = [
        spirv_link.Library(f"the file of kernel {kernel}", path.read_bytes(), _prefix(path))
        for path, kernel in files.items()
        if path.suffix == spirv_function.LINKED
    ]
    for binary in (binary for executable in hal.executables(module) for binary in hal.binaries(executable)):
        form = ir.StringAttr(binary.attributes["format"]).value
        if libraries and form == function_link.SPIRV and function_link.imports(hal.code_of(binary), form, "a dispatch"):
            with module.context, ir.Location.unknown():
                linked = function_link.with_functions(hal.code_of(binary), symbol_of(binary), libraries)
                binary.attributes["data"] = hal.data_of(linked)
        if "cuda" not in form:
            continue
        names = set(function_link.imports(hal.code_of(binary), form, symbol_of(binary)))
        names -= {function.symbol for function in functions.values() if function.imported}
        if names:
            raise OpspliceError(
                f"the code for CUDA calls {', '.join(sorted(names))}, which nothing has linked",
                details=f"kernels with functions in it: {', '.join(sorted({f.kernel for f in functions.values()}))}",
            )


# The phases at which there is something to do, and what.
EDITS: tuple[tuple[str, str, Callable[..., None]], ...] = (
    ("executable-sources", "marks of functions on elements", prepare),
    ("executable-targets", "calls of functions on elements", link),
    ("hal", "functions on elements are linked", link_binaries),
)


@dataclass(frozen=True)
class _Variant:
    """An executable's code for one target: the op, the target as MLIR writes it, and the module with the code."""

    op: ir.Operation
    target: str
    backend: str
    inner: ir.Operation


def _variants(module: ir.Module) -> Iterator[_Variant]:
    for executable in hal.executables(module):
        for op in hal.variants(executable):
            target, holder = str(op.attributes["target"]), hal.module_of(op)
            if holder is not None:
                yield _Variant(op, target, parse_target(target).backend, holder)


def _marks(op: ir.Operation, functions: Functions) -> list[tuple[ir.Operation, Function]]:
    """The marks below an op, each with its function. Those of other specs are left to these."""
    found = ((each, functions.get(name_in(each) or "")) for each in ops_in(op))
    return [(each, function) for each, function in found if function is not None]


def _check_names(module: ir.Module, functions: Functions) -> None:
    """Raise OpspliceError if the program links or imports another function of the same name, for another spec.

    One of them would be called for both. What one spec links is looked at before it is applied (`linking.py`).
    """
    marked = {name for op in ops_in(module.operation) if (name := name_in(op)) is not None}
    of_name = {function.stem: function for function in functions.values()}
    names = {each.name for each in functions.values()}
    for other in sorted(marked - names):
        function = of_name.get(other.rpartition("_")[0])
        if function is not None:
            raise _clash(function)
    for variant in _variants(module):
        objects = str(variant.op.attributes["objects"]) if "objects" in variant.op.attributes else ""
        linked = {symbol_of(op) for op in ops_in(variant.inner) if "hal.import.static" in op.attributes}
        for function in functions.values():
            if function.symbol in linked and f'path = "{emit.escaped(function.file(variant.target))}"' not in objects:
                raise _clash(function)


def _clash(function: Function) -> OpspliceError:
    return OpspliceError(
        f"{function.symbol} is the name of two functions in one program",
        hint=f"give kernel {function.kernel} a symbol that nothing else has",
    )


def _check_types(mark: ir.Operation, function: Function) -> None:
    found = [str(value.type) for value in (*mark.operands, *mark.results)]
    for wanted, now in zip((*function.inputs, function.output), found, strict=True):
        if wanted != now:
            hint = "f64 stays what it is with --iree-input-demote-f64-to-f32=false" if wanted == "f64" else None
            raise OpspliceError(
                f"kernel {function.kernel} is for {wanted}, which the compiler has made {now}", hint=hint
            )


# ---- SPIR-V ----------------------------------------------------------------------------------------------------------


def _prepare(variant: _Variant, marks: list[tuple[ir.Operation, Function]]) -> None:
    texts: dict[str, None] = {}
    for mark, function in marks:
        path = function.file(variant.target)
        kind = mark.results[0].type
        with ir.InsertionPoint(mark), mark.location:
            text, imported = None, function.imported_as(variant.target)
            if imported is not None:
                text = spirv_function.hole(imported, function.inputs, function.output)
            elif path is not None:
                text = spirv_function.read(path)
            if text is None:
                made = emit.value("spirv.Undef", [], kind)
            else:
                made = spirv_function.leave_mark(function.name, list(mark.operands), kind)
                texts[text] = None
        emit.replace(mark, made)
    for text in texts:
        spirv_function.insert(text, variant.inner)


# ---- LLVM ------------------------------------------------------------------------------------------------------------


def _widen(marks: list[tuple[ir.Operation, Function]], target: str) -> None:
    """Make marks that become vectors of those of functions that LLVM can inline, as far as there are such.

    The last vector of a row may hold more lanes than there are numbers: a function must not mind what these hold.
    """
    for mark, function in marks:
        if not function.is_harmless(target):
            continue
        with ir.InsertionPoint(mark), mark.location:
            made = remainder_mark.leave(function.name, list(mark.operands), mark.results[0].type)
        if made is not None:
            emit.replace(mark, made)


def _link_wide(variant: _Variant, functions: Functions) -> None:
    """Put calls, one for each lane, in the place of marks that have become vectors."""
    of_name = {function.name: function for function in functions.values()}

    def call(name: str, operands: Sequence[ir.Value], kind: ir.Type) -> ir.Value:
        function = of_name[name]
        if not isinstance(kind, ir.VectorType):
            return _call(operands, kind, function, variant)
        made = emit.value("llvm.mlir.poison", [], kind)
        for lane in range(kind.shape[0]):
            number = ir.IntegerType.get_signless(64)
            at = emit.value("llvm.mlir.constant", [], number, value=ir.IntegerAttr.get(number, lane))
            values = [emit.value("llvm.extractelement", [each, at], kind.element_type) for each in operands]
            called = _call(values, kind.element_type, function, variant)
            made = emit.value("llvm.insertelement", [made, called, at], kind)
        return made

    remainder_mark.replace(variant.op, {name: len(f.inputs) for name, f in of_name.items()}, call)


def _call(given: Sequence[ir.Value], result: ir.Type, function: Function, variant: _Variant) -> ir.Value:
    """The result of a call at the current point; of a trap where the variant has no code of the function."""
    path = function.file(variant.target)
    in_c = variant.backend == _IN_C
    if path is None and not function.is_imported(variant.target):
        emit.op("llvm.intr.trap")
        return emit.value("llvm.mlir.poison", [], result)
    operands = [_passed(v, e, in_c) for v, e in zip(given, function.inputs, strict=True)]
    kind = _passed_type(function.output, in_c)
    attributes = {"callee": ir.FlatSymbolRefAttr.get(function.symbol), "op_bundle_sizes": ir.DenseI32ArrayAttr.get([])}
    returned = emit.grouped("llvm.call", [operands, []], [kind], attributes).results[0]
    _declare(function, [str(value.type) for value in operands], str(kind), variant)
    if path is not None:
        hal.add_object(variant.op, path)
    return _returned(returned, result, function.output)


def _passed_type(element: str, in_c: bool) -> ir.Type:
    return ir.Type.parse(call_types.passed(element) if in_c else element)


def _passed(value: ir.Value, element: str, in_c: bool) -> ir.Value:
    """An argument as the function takes it. Code generation may have made a bf16 the integer of its bits."""
    kind = _passed_type(element, in_c)
    if value.type == kind:
        return value
    return emit.value(_WIDENED.get(element, "llvm.bitcast"), [value], kind)


def _returned(value: ir.Value, wanted: ir.Type, element: str) -> ir.Value:
    if value.type == wanted:
        return value
    return emit.value("llvm.trunc" if element in _WIDENED else "llvm.bitcast", [value], wanted)


def _declare(function: Function, inputs: list[str], output: str, variant: _Variant) -> None:
    block = variant.inner.regions[0].blocks[0]
    known = {symbol_of(op.operation): op.operation for op in block.operations}
    kind = f"!llvm.func<{output} ({', '.join(inputs)})>"
    if function.symbol in known:
        declared = known[function.symbol]
        if declared.name != "llvm.func" or str(ir.TypeAttr(declared.attributes["function_type"]).value) != kind:
            raise _clash(function)
        return
    text = f'llvm.func @"{function.symbol}"({", ".join(inputs)}) -> {output} attributes {{sym_visibility = "private"}}'
    ir.Module.parse(text).body.operations[0].operation.clone(ir.InsertionPoint.at_block_begin(block))


def name_in(mark: ir.Operation) -> str | None:
    """The name of the function that an op marks a call of, None if it is not a mark."""
    if mark.name != "llvm.inline_asm":
        return None
    text = ir.StringAttr(mark.attributes["asm_string"]).value
    return text.removeprefix(WORD) if text.startswith(WORD) else None
