"""Functions in MLIR's spirv dialect, for Vulkan and Metal: read from a file, checked, and put into SPIR-V modules.

    spirv.func @fast_gelu(%x: f32) -> f32 "None" { ... }

The file holds functions, by themselves or in a `spirv.module`. IREE works out which capabilities they need.

While code is made, SPIR-V has no op that stands for a call and has no effects; `leave_mark` writes some that survive,
and `link` puts calls in their place. Where types are not all one (`remainder_mark.py`), the name of a struct says which
function is meant:

    %0 = spirv.Undef : !spirv.struct<f_1f2e, (f32, f32, i32)>
    %1 = spirv.CompositeInsert %x, %0[1 : i32]
    %2 = spirv.CompositeInsert %k, %1[2 : i32]
    %r = spirv.CompositeExtract %2[0 : i32]              =>       %r = spirv.FunctionCall @f(%x, %k)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.matchers.ir.op_names import ops_in, symbol_of
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.rewrites.ir import emit
from opsplice.rewrites.link import remainder_mark
from opsplice.spec_lang.syntax import tree
from opsplice.targets.backends.backend_table import named
from opsplice.targets.link import spirv_link

SUFFIX = ".mlir"
# What is linked with the code once it is made.
LINKED = ".spv"
_ELEMENTS = ("f16", "f32", "f64", "i32", "i64")
_ERROR = re.compile(r'error: "?[^":]*"?:(\d+):(\d+): (.*)')
_STRUCT = re.compile(r"!spirv\.struct<(\w+), ")


def is_for(backend: str) -> bool:
    """Whether IREE makes SPIR-V for a backend, which takes functions as MLIR."""
    found = named(backend)
    return found is not None and SUFFIX in found.functions


def check(path: Path, symbol: str, inputs: Sequence[str], output: str, needed_by: tree.Span) -> None:
    """Raise OpspliceError unless a file defines a function of this name and these types. Needs a current context."""
    details = f"needed by the kernel at {needed_by}"
    for element in (*inputs, output):
        if element not in _ELEMENTS:
            raise OpspliceError(
                f"no function of {element} can be put into SPIR-V",
                hint=f"there it takes {', '.join(_ELEMENTS)}",
                details=details,
            )
    if path.suffix == SUFFIX:
        ops = _functions(read(path), details)
        functions = {symbol_of(op): str(ir.TypeAttr(op.attributes["function_type"]).value) for op in ops}
    else:
        functions = spirv_link.Library(path.name, path.read_bytes()).functions()
    if symbol not in functions:
        found = ", ".join(f"@{name}" for name in functions) or "none"
        raise OpspliceError(f"no spirv.func @{symbol} is in the kernel's file", hint=f"it has {found}", details=details)
    wanted = f"({', '.join(inputs)}) -> {output}"
    if functions[symbol] != wanted:
        raise OpspliceError(f"spirv.func @{symbol} is {functions[symbol]}, and the kernel is {wanted}", details=details)


def read(path: Path) -> str:
    """The text of a file, which `check` has judged."""
    return path.read_text(encoding="utf-8", errors="replace")


def hole(symbol: str, inputs: Sequence[str], output: str) -> str:
    """A function that is there to be called, until `open_holes` makes an import of it."""
    parameters = ", ".join(f"%{number}: {element}" for number, element in enumerate(inputs))
    body = f"%result = spirv.Undef : {output} spirv.ReturnValue %result : {output}"
    return f'spirv.func @{symbol}({parameters}) -> {output} "None" {{ {body} }}'


def open_holes(variant: ir.Operation, symbols: Collection[str]) -> None:
    """Make imports of functions below an op, once the code is made: IREE allows none before."""
    for function in ops_in(variant, "spirv.func"):
        symbol = symbol_of(function)
        if symbol not in symbols:
            continue
        kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        head = f"spirv.func @{symbol}({', '.join(f'%{n}: {each}' for n, each in enumerate(kind.inputs))})"
        linkage = f'#spirv.linkage_attributes<linkage_name = "{symbol}", linkage_type = <Import>>'
        text = f'{head} -> {kind.results[0]} "None" attributes {{linkage_attributes = {linkage}}}'
        ir.Module.parse(text).body.operations[0].operation.clone(ir.InsertionPoint(function))
        function.erase()


def insert(text: str, module: ir.Operation) -> None:
    """Put functions into the module inside an executable, from where IREE takes them into its own."""
    block = module.regions[0].blocks[0]
    known = {symbol_of(op.operation): str(op) for op in block.operations}
    for function in _functions(text, ""):
        name = symbol_of(function)
        if known.get(name) == str(function):
            continue  # another spec's kernel has it, too
        if name in known:
            raise OpspliceError(
                f"two functions are called @{name} in one executable", hint="give each a name of its own"
            )
        function.clone(ir.InsertionPoint.at_block_begin(block))


def leave_mark(name: str, operands: Sequence[ir.Value], result: ir.Type) -> ir.Value:
    """Write a mark at the current point. name: says which function is meant, in letters and digits."""
    made = remainder_mark.leave(name, operands, result)
    if made is not None:
        return made
    kinds = ", ".join(str(value.type) for value in operands)
    holder = ir.Type.parse(f"!spirv.struct<{name}, ({result}, {kinds})>")
    held = emit.value("spirv.Undef", [], holder)
    for position, operand in enumerate(operands, 1):
        held = emit.value("spirv.CompositeInsert", [operand, held], holder, indices=_indices(position))
    return emit.value("spirv.CompositeExtract", [held], result, indices=_indices(0))


def link(variant: ir.Operation, functions: Mapping[str, tuple[str, int]]) -> None:
    """Put calls in the place of the marks below an op.

    functions: by the name that their marks have, the symbol and how many operands there are.
    """

    def call(name: str, operands: Sequence[ir.Value], kind: ir.Type) -> ir.Value:
        return _call(functions[name][0], operands, kind)

    remainder_mark.replace(variant, {name: count for name, (_, count) in functions.items()}, call)
    for mark in ops_in(variant, "spirv.CompositeExtract"):
        named = _STRUCT.match(str(mark.operands[0].type))
        if named is not None and named[1] in functions:
            with ir.InsertionPoint(mark), mark.location:
                made = call(named[1], _inserted(mark), mark.results[0].type)
            mark.results[0].replace_all_uses_with(made)
            _erase_with_makers(mark)


def _inserted(extract: ir.Operation) -> list[ir.Value]:
    operands: list[ir.Value] = []
    held = defining_op(extract.operands[0])
    while held is not None and held.name == "spirv.CompositeInsert":
        operands.insert(0, held.operands[0])
        held = defining_op(held.operands[1])
    return operands


def _call(symbol: str, operands: Sequence[ir.Value], kind: ir.Type) -> ir.Value:
    """A call at the current point; of vectors one for each lane."""
    called = {"callee": ir.FlatSymbolRefAttr.get(symbol)}
    if not isinstance(kind, ir.VectorType):
        return emit.op("spirv.FunctionCall", operands, [kind], called).results[0]
    element = kind.element_type
    lanes = []
    for lane in range(kind.shape[0]):
        values = [emit.value("spirv.CompositeExtract", [o], element, indices=_indices(lane)) for o in operands]
        lanes.append(emit.op("spirv.FunctionCall", values, [element], called).results[0])
    return emit.value("spirv.CompositeConstruct", lanes, kind)


def _erase_with_makers(op: ir.Operation) -> None:
    """Erase an op, and those of its mark that nothing else needs."""
    pending = [op]
    while pending:
        at = pending.pop()
        if next(iter(at.results[0].uses), None) is not None:
            continue
        makers = [
            maker
            for maker in map(defining_op, at.operands)
            if maker is not None and maker.name == "spirv.CompositeInsert"
        ]
        at.erase()
        pending += dict.fromkeys(makers)


def _indices(position: int) -> ir.Attribute:
    return ir.ArrayAttr.get([ir.IntegerAttr.get(ir.IntegerType.get_signless(32), position)])


def _functions(text: str, details: str) -> Iterator[ir.Operation]:
    """The functions of a file's text, which are gone when the last one was taken.

    Raises OpspliceError for a file that is not MLIR, and for one that holds other ops.
    """
    try:
        module = ir.Module.parse(text)
    except ir.MLIRError as failure:
        found = _ERROR.search(str(failure))
        message = found[3] if found else str(failure).strip()
        line = int(found[1]) if found else 1
        shown = text.splitlines()[line - 1].strip() if line <= len(text.splitlines()) else ""
        where = f"line {line}: {message}\n  {shown}"
        raise OpspliceError(
            "the kernel's file is not valid MLIR", details="\n".join(filter(None, [where, details]))
        ) from None
    for op in module.body.operations:
        inner = op.operation.regions[0].blocks[0].operations if op.operation.name == "spirv.module" else [op]
        for each in inner:
            if each.operation.name != "spirv.func":
                what = f"the kernel's file holds a {each.operation.name}"
                raise OpspliceError(what, hint="only spirv.func can stand in it", details=details)
            yield each.operation
