"""What an action calls as inserted MLIR: any function, with all that it refers to, and a call of it in each match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from iree.compiler import ir

from opsplice.matchers.ir.op_names import symbol_of
from opsplice.rewrites.ir.symbols import reached
from opsplice.rewrites.spelling.template_text import number_text
from opsplice.rewrites.transform_dialect.importing.not_importable import UnreadableError
from opsplice.rewrites.transform_dialect.importing.template import Draft, Input

_RESOURCE = "dense_resource<"


def symbols_text(names: Iterable[str], symbols: Mapping[str, ir.Operation]) -> str:
    """Functions and what they refer to as a block of raw MLIR."""
    found = set().union(*(_reached(name, symbols) for name in names))
    texts = [op.get_asm(use_local_scope=True) for name, op in symbols.items() if name in found]
    return "\n".join(["mlir {", *texts, "}"])


def check_symbols(name: str, symbols: Mapping[str, ir.Operation]) -> None:
    """Raises UnreadableError unless a function and what it refers to can stand in a block of raw MLIR."""
    for each in sorted(_reached(name, symbols)):
        if _RESOURCE in str(symbols[each]):
            raise UnreadableError(symbols[each], "a constant in a resource of the file, which a block of MLIR has not")


def _reached(name: str, symbols: Mapping[str, ir.Operation]) -> set[str]:
    return {name, *reached(symbols[name], symbols)}


def call_text(
    function: ir.Operation, template: Draft, inputs: Mapping[int, Input], passed: Sequence[int | None]
) -> str:
    """The `mlir { }` of a rule that calls a function.

    inputs: what the function's arguments are, as far as the pattern has them. passed: which arguments of the template
    they are, None for what is none. Raises UnreadableError for a function that cannot be called so.
    """
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    if len(kind.results) != 1:
        raise UnreadableError(function, "a function of other than one result")
    if len(kind.inputs) != len(passed):
        raise UnreadableError(function, f"a function of {len(kind.inputs)} arguments, called with {len(passed)}")
    lines, names = [], []
    for number, wanted in enumerate(kind.inputs):
        name = f"%a{number}"
        each = inputs.get(number)
        if each is None:
            lines += _unread(function, name, wanted, template, passed[number])
        elif isinstance(wanted, ir.RankedTensorType):
            lines.append(f"{name} = tensor.cast %{each.name} : ${each.name} to {wanted}")
        else:
            name = f"%{each.name}"
        names.append(name)
    call = "func.call" if function.name == "func.func" else "util.call"
    symbol = symbol_of(function)
    types = ", ".join(map(str, kind.inputs))
    lines.append(f"%r = {call} @{symbol}({', '.join(names)}) : ({types}) -> {kind.results[0]}")
    lines.append(f"yield %r : {kind.results[0]}")
    return "mlir {\n  " + "\n  ".join(lines) + "\n}"


def _unread(function: ir.Operation, name: str, wanted: ir.Type, template: Draft, position: int | None) -> list[str]:
    """A value for an argument that the pattern does not read: what reductions start from, or a tensor of no content."""
    dims = template.arguments[position] if position is not None and template.arguments else None
    if position is None or dims is None or not isinstance(wanted, ir.RankedTensorType) or len(dims) != wanted.rank:
        raise UnreadableError(function, f"its argument {name[2:]} is not a value of the pattern")
    named = {dim for each in template.inputs for dim in each.dims or ()}
    sizes = [dim for axis, dim in enumerate(dims) if wanted.is_dynamic_dim(axis)]
    if not named.issuperset(sizes):
        raise UnreadableError(function, f"its argument {name[2:]} has a dim that no input has")
    empty = f"tensor.empty({', '.join(f'%{dim}' for dim in sizes)}) : {wanted}"
    if position not in template.starts:
        return [f"{name} = {empty}"]
    element = str(wanted.element_type)
    start, filled = f"%n{name[2:]}", f"%e{name[2:]}"
    return [
        f"{start} = arith.constant {number_text(template.starts[position] or 0, element)}",
        f"{filled} = {empty}",
        f"{name} = linalg.fill ins({start} : {element}) outs({filled} : {wanted}) -> {wanted}",
    ]
