"""Notes that IREE keeps with the functions that a program exports, for whoever loads it.

util.func public @main(...) attributes {iree.reflection = {opsplice.kernels = "...", ...}}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from iree.compiler import ir

from opsplice.matchers.ir.op_names import symbol_of

_REFLECTION = "iree.reflection"
_ASYNC = "$async"


def public_functions(module: ir.Module) -> Iterator[ir.Operation]:
    for top in module.body.operations:
        op = top.operation
        if op.name == "util.func" and (
            "sym_visibility" not in op.attributes or ir.StringAttr(op.attributes["sym_visibility"]).value == "public"
        ):
            yield op


def notes_of(function: ir.Operation) -> dict[str, ir.Attribute]:
    known = ir.DictAttr(function.attributes[_REFLECTION]) if _REFLECTION in function.attributes else ()
    return {entry.name: entry.attr for entry in known}


def texts(module: ir.Module, key: str) -> list[str]:
    """What functions that the program exports have been noted as."""
    found = (notes_of(function).get(key) for function in public_functions(module))
    return [text.value for text in found if isinstance(text, ir.StringAttr)]


def add_notes(function: ir.Operation, notes: Mapping[str, str]) -> None:
    with function.context:
        texts = {key: ir.StringAttr.get(text) for key, text in notes.items()}
        function.attributes[_REFLECTION] = ir.DictAttr.get({**notes_of(function), **texts})


def add_to_first(module: ir.Module, notes: Mapping[str, str]) -> None:
    """Add notes on the program as a whole to the first function that it exports; a program without one exports none."""
    functions = list(public_functions(module))
    named = [f for f in functions if not symbol_of(f).endswith(_ASYNC)]
    for function in (named or functions)[:1]:
        add_notes(function, notes)
