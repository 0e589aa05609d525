"""Dynamic function on CPU: the program imports a C function by its name, and a plugin has it at run time.

    stream.executable @opsplice_k {                               the shim of `static_function.py`, nothing linked
      func.func private @k_symbol(pointers, scalars, dims, ids)   IREE's runtime looks for "k_symbol" in its plugins
    }

What a program imports is noted on its public functions, where IREE keeps it through the compile:

    util.func public @main(...) attributes {iree.reflection = {opsplice.imports = "a,b", ...}}

so that loading it can say what is missing; stock IREE says only that no loader takes the program. Nothing else depends
on the note.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from iree.compiler import ir

# Where `note_imports` works: the executables that specs brought are there still, and those of IREE are not made yet.
NOTE_PHASE = "flow"

_KEY = "opsplice.imports"
_REFLECTION = "iree.reflection"


def note_imports(module: ir.Module) -> None:
    """Note what the module's executables import on its public functions. The module must be at `NOTE_PHASE`."""
    names = sorted(set(_imports(module)))
    if not names:
        return
    with module.context:
        note = ir.StringAttr.get(",".join(names))
        for top in module.body.operations:
            op = top.operation
            if op.name != "util.func" or (
                "sym_visibility" in op.attributes and _text(op, "sym_visibility") != "public"
            ):
                continue
            known = ir.DictAttr(op.attributes[_REFLECTION]) if _REFLECTION in op.attributes else ()
            noted = {entry.name: entry.attr for entry in known}
            op.attributes[_REFLECTION] = ir.DictAttr.get({**noted, _KEY: note})


def _imports(module: ir.Module) -> Iterator[str]:
    """The names that the executables of a module have to be given at run time."""
    for top in module.body.operations:
        executable = top.operation
        if executable.name != "stream.executable":
            continue
        for op in _declarations(executable):
            if "hal.import.static" not in op.attributes and "hal.import.bitcode" not in op.attributes:
                yield _text(op, "hal.import.name" if "hal.import.name" in op.attributes else "sym_name")


def _declarations(executable: ir.Operation) -> Iterable[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "func.func" and not op.regions[0].blocks:
            found.append(op)
        return ir.WalkResult.ADVANCE

    executable.walk(visit)
    return found


def _text(op: ir.Operation, name: str) -> str:
    return ir.StringAttr(op.attributes[name]).value
