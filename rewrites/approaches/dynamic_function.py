"""Dynamic function on CPU: the program imports a C function by its name, and a plugin has it at run time.

    stream.executable @opsplice_k {                               the shim of `static_function.py`, nothing linked
      func.func private @k_symbol(pointers, scalars, dims, ids)   IREE's runtime looks for "k_symbol" in its plugins
    }

What a program imports is noted on its public functions for each format of executables, where IREE keeps it:

    util.func public @main(...) attributes {iree.reflection = {opsplice.imports.embedded-elf-x86_64 = "a,b", ...}}

so that loading it can say what is missing; stock IREE says only that no loader takes the program. Beside it stands
what the functions are called with, `opsplice.types.embedded-elf-x86_64 = "aal a,adal b"`, which plugins of opsplice's
say too (`targets/plugins/call_types.py`). Nothing else depends on the notes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from iree.compiler import ir

from opsplice.rewrites.ir.executable_targets import parse_target
from opsplice.rewrites.ir.executables import executables, module_of, variants
from opsplice.rewrites.ir.reflection import add_notes, notes_of, public_functions
from opsplice.targets.plugins import call_types

# On a function's declaration: the formats of the targets that import it. Others keep the compiler's code.
IMPORTED = "opsplice.imported"
# Beside it: the program can do without the function (`optional_import.py`).
OPTIONAL = "opsplice.optional"

# Beside it: the file that the kernel names for the plugin of each target, for `linking.py`.
ORIGINS = "opsplice.origins"

# Where `note_imports` works: executables are variants for each target, and what lacks for a target was taken out.
NOTE_PHASE = "executable-configurations"

# Where `number_imports` works: code is in LLVM's dialect, and executables are not yet linked to each other.
NUMBER_PHASE = "executable-targets"

_NOTE, _OPTIONAL_NOTE = "opsplice.imports.", "opsplice.optional-imports."
_TYPES_NOTE = "opsplice.types."
_KEY, _WEAK = "hal.executable.import.key", "hal.executable.import.weak"


def note_imports(module: ir.Module) -> None:
    """Note what the module's executables import on its public functions. The module must be at `NOTE_PHASE`.

    What the declarations say is read for the last time: IREE links executables only where these are the same.
    """
    found = defaultdict[str, set[str]](set)
    for form, name, is_optional, called_with in _imports(module):
        found[f"{_OPTIONAL_NOTE if is_optional else _NOTE}{form}"].add(name)
        if called_with is not None:
            found[f"{_TYPES_NOTE}{form}"].add(f"{called_with} {name}")
    for key in [key for key in found if key.startswith(_OPTIONAL_NOTE)]:
        found[key] -= found.get(f"{_NOTE}{key.removeprefix(_OPTIONAL_NOTE)}", set())
    for variant in _variants(module):
        for op in _declarations(variant):
            for known in (IMPORTED, OPTIONAL, ORIGINS):
                if known in op.attributes:
                    del op.attributes[known]
    if not found:
        return
    notes = {key: ",".join(sorted(names)) for key, names in found.items()}
    for op in public_functions(module):
        add_notes(op, notes)


def weaken_imports(module: ir.Module) -> None:
    """Let executables load without the functions that were noted as optional. The module must be at `NUMBER_PHASE`."""
    optional = {
        (key.removeprefix(_OPTIONAL_NOTE), name)
        for op in public_functions(module)
        for key, names in notes_of(op).items()
        if key.startswith(_OPTIONAL_NOTE)
        for name in ir.StringAttr(names).value.split(",")
    }
    if not optional:
        return
    with module.context:
        for variant in _variants(module):
            form = parse_target(str(variant.attributes["target"])).format
            for op in _at_top(variant):
                if _KEY in op.attributes and (form, _text(op, _KEY)) in optional:
                    op.attributes[_WEAK] = ir.UnitAttr.get()


def number_imports(module: ir.Module) -> None:
    """Say for each import of an executable which of its imports it is. The module must be at `NUMBER_PHASE`.

    IREE does that when it links executables with each other. Where it does not (`--iree-hal-link-executables=false`)
    the code would look for its functions at a place that nobody has set.
    """
    with module.context, ir.Location.unknown():
        for variant in _variants(module):
            places: dict[str, list[ir.Operation]] = {}
            for op in _at_top(variant):
                if op.name == "llvm.mlir.global" and _KEY in op.attributes:
                    places.setdefault(_text(op, _KEY), []).append(op)
            if places:
                _number(variant, places)


def _number(variant: ir.Operation, places: dict[str, list[ir.Operation]]) -> None:
    """places: the globals that hold the number of an import, by its name."""
    pairs = []
    for number, name in enumerate(sorted(places)):
        is_weak = all(_WEAK in place.attributes for place in places[name])
        pairs.append(ir.ArrayAttr.get([ir.StringAttr.get(name), ir.BoolAttr.get(is_weak)]))
        for place in places[name]:
            for known in (_KEY, _WEAK):
                if known in place.attributes:
                    del place.attributes[known]
            place.attributes["constant"] = ir.UnitAttr.get()
            place.attributes["value"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), number)
    variant.attributes["hal.executable.imports"] = ir.ArrayAttr.get(pairs)


def parameters_of(declaration: ir.Operation) -> list[str]:
    """What a function of C is called with: elements, and `ADDRESS`."""
    return list(map(element_of, ir.FunctionType(ir.TypeAttr(declaration.attributes["function_type"]).value).inputs))


def element_of(kind: ir.Type | None) -> str:
    """What is passed for a type of MLIR's, `void` for none; a memref goes by its address (`llvm.bareptr`)."""
    if kind is None:
        return "void"
    return call_types.ADDRESS if str(kind).startswith(("!llvm.ptr", "memref")) else str(kind)


def _imports(module: ir.Module) -> Iterator[tuple[str, str, bool, str | None]]:
    """The format of each variant of the executables, each name that it is given at run time, if it may lack, and what
    it is called with where that is a call of ours.
    """
    for variant in _variants(module):
        target = parse_target(str(variant.attributes["target"]))
        for op in _declarations(variant) if target.backend == "llvm-cpu" else ():
            if "hal.import.static" not in op.attributes and "hal.import.bitcode" not in op.attributes:
                name = "hal.import.name" if "hal.import.name" in op.attributes else "sym_name"
                types = call_types.encoded(parameters_of(op)) if IMPORTED in op.attributes else None
                yield target.format, _text(op, name), OPTIONAL in op.attributes, types


def _declarations(variant: ir.Operation) -> Iterator[ir.Operation]:
    """Functions without a body."""
    return (op for op in _at_top(variant) if op.name == "func.func" and not op.regions[0].blocks)


def _variants(module: ir.Module) -> Iterator[ir.Operation]:
    return (variant for executable in executables(module) for variant in variants(executable))


def _at_top(variant: ir.Operation) -> Iterator[ir.Operation]:
    """The ops at the top of a variant's module, where its functions and globals stand: nothing else is walked."""
    inner = module_of(variant)
    if inner is not None:
        for top in inner.regions[0].blocks[0].operations:
            yield top.operation


def _text(op: ir.Operation, name: str) -> str:
    return str(ir.StringAttr(op.attributes[name]).value)
