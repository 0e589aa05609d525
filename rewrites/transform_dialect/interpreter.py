"""A transform-dialect spec, run by IREE's own interpreter: what `--iree-preprocessing-transform-spec-filename` does.

The interpreter says nothing of what it changed; `transform_pairs` has the spec's actions tell. What a spec brings along
gets another name where an earlier spec has brought another symbol of that name; a symbol of the program's own is what
`import_symbol ... if undefined` takes.

Artifacts that the spec names (`#hal.executable.object<{path = "..."}>`) are looked for beside the spec first. A source
among them (`functions.c`) is built, as for a kernel of our own language.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from iree.compiler import ir
from iree.compiler.dialects.transform import interpreter

from opsplice.common.errors import OpspliceError
from opsplice.common.files import LARGEST_TEXT, check_file, check_name
from opsplice.matchers.ir.op_names import ops_in, symbol_of
from opsplice.rewrites.ir import symbols
from opsplice.rewrites.ir.symbols import EXECUTABLES, Brought
from opsplice.rewrites.link import object_files
from opsplice.rewrites.link.object_files import ObjectResolver
from opsplice.rewrites.plan import forbidden_passes
from opsplice.rewrites.transform_dialect import pairs as transform_pairs
from opsplice.rewrites.transform_dialect.pairs import Pair

_ENTRY, _TUNING = "__transform_main", "__kernel_config"
# What the sequence is called that is run: in a spec for the program, and in one for the code of its dispatches.
ENTRIES = (_ENTRY, _TUNING)
_SEQUENCE = "transform.named_sequence"
# Ops that change no program, by how their names begin, and those of whose changes marks tell.
_READING = tuple(f"transform.{name}" for name in ("match.", "iree.match.", "get_", "param.", "type_conversion."))
_TOLD_OF = frozenset(
    {
        *transform_pairs.CALLS,
        *(f"transform.{name}" for name in ("annotate", "apply_dce", "collect_matching", "foreach", "foreach_match")),
        *(f"transform.{name}" for name in ("include", "merge_handles", "named_sequence", "print", "yield")),
        *(f"transform.util.{name}" for name in ("get_nearest_symbol_table", "import_symbol")),
        "transform.structured.match",
    }
)
_IDLE = frozenset({"transform.named_sequence", "transform.print", "transform.structured.match", "transform.yield"})
_TOLD = re.compile(r'.*\bat loc\("(.*)":(\d+):(\d+)\): (.*)')
_LOCATION = re.compile(r'loc\("(.*)":(\d+):(\d+)\)')


@dataclass(frozen=True)
class Change:
    """One place that a spec changed: in which function, and where.

    rule: the pair that was taken, or the attribute that was set. symbol: what was put in, as the spec calls it; "" for
    what sets attributes, `@action` for an action that does neither.
    """

    rule: str
    symbol: str
    function: str
    location: str

    @property
    def action(self) -> str:
        """What was done, as a report says it."""
        if self.symbol.startswith("@"):
            return "other"
        return "transform dialect" if self.symbol else "annotate"


@dataclass(frozen=True)
class Outcome:
    """What a spec did.

    changes:   the places where pairs were taken, or attributes set.
    unmatched: pairs that were taken nowhere, one for each rule of which that holds for all.
    otherwise: whether anything else than calls and annotations changed the module. idle: whether the spec has nothing
    but what leaves a program as it is.
    """

    changes: tuple[Change, ...]
    unmatched: tuple[Pair, ...]
    otherwise: bool
    idle: bool


def apply(module: ir.Module, path: Path, resolve: ObjectResolver, brought: Brought | None = None) -> Outcome:
    """Run a spec on a module.

    brought: what earlier specs have brought into the module, to which this adds what the spec brings.
    Raises OpspliceError when the spec cannot be read, does not parse, is not a transform spec, or fails.
    """
    spec = _parsed(module.context, path)
    entry = _entry(spec, path, _ENTRY)
    brought = Brought() if brought is None else brought
    names = {new: old for old, new in _keep_apart(spec, module, brought).items()}
    digests = {name: symbols.digest(op) for name, op in _own(spec).items()}
    idle = all(op.name in _IDLE for op in ops_in(entry))
    others = any(_is_silent(op) for op in ops_in(spec.operation))
    pairs = transform_pairs.instrument(spec, module)
    setting = transform_pairs.set_besides(spec, pairs)
    before, marked = symbols.symbols(module), transform_pairs.marked(module, setting)
    content = _content(module) if others else Counter()
    # The interpreter may run passes; their threads must not wait for the lock that this thread holds.
    module.context.enable_multithreading(False)
    try:
        interpreter.apply_named_sequence(module.operation, entry, spec.operation)
    except (RuntimeError, ValueError) as error:
        raise OpspliceError(f"the transform spec {path} failed", details=_told(str(error))) from None
    finally:
        module.context.enable_multithreading(True)
    found = transform_pairs.places(module, pairs)
    new = symbols.symbols(module) - before
    brought.add(new, digests)
    _resolve_objects(module, new, resolve)
    changes = [
        Change(each.pair.rule, names.get(symbol, symbol), each.function, each.location)
        for each in found
        for symbol in each.pair.calls or ("" if each.pair.sets else f"@{each.pair.action}",)
    ]
    annotated = transform_pairs.marked(module, setting) - marked
    changes += [Change(setting[name], "", *where) for (name, *where) in annotated.elements()]
    # What a pass only removes (dead code, duplicates) is not a change that the spec was written for.
    otherwise = others and bool(_content(module) - content)
    done = {each.pair.rule for each in found} | {pair.rule for pair in pairs if not pair.traced}
    unmatched = {pair.rule: pair for pair in reversed(pairs) if pair.rule not in done}
    return Outcome(tuple(changes), tuple(reversed(unmatched.values())), otherwise, idle)


# ---- the spec ----------------------------------------------------------------------------------------------------


def parse(context: ir.Context, path: Path) -> ir.Module:
    """The module of a spec. Raises OpspliceError when it cannot be read, does not parse, or is not a transform spec."""
    spec = _parsed(context, path)
    _entry(spec, path, *ENTRIES)
    return spec


def _parsed(context: ir.Context, path: Path) -> ir.Module:
    check_file(path, LARGEST_TEXT, hint="a transform-dialect spec is an .mlir file")
    check_name(path)
    try:
        spec = ir.Module.parseFile(str(path), context=context)
    except ir.MLIRError as error:
        raise OpspliceError(f"cannot read the transform spec {path}", details=_text(error)) from None
    forbidden_passes.check_module(spec, str(path))
    return spec


def _text(error: ir.MLIRError) -> str:
    """The parser's own messages, as `file:line:column: error: message`."""
    return "\n".join(
        f"{_place(d.location)}: {str(d.severity).rpartition('.')[2].lower()}: {d.message}"
        for d in error.error_diagnostics
    )


def _told(message: str) -> str:
    """What the interpreter says, as `file:line:column: message`."""
    lines = [line for line in message.splitlines() if not line.startswith("Failed to apply")]
    return "\n".join(_TOLD.sub(r"\1:\2:\3: \4", line) for line in lines or [message])


def _place(location: ir.Location) -> str:
    return _LOCATION.sub(r"\1:\2:\3", str(location))


def _entry(spec: ir.Module, path: Path, *names: str) -> ir.Operation:
    """The first sequence of some names that has a body."""
    found = symbols.defined(spec.operation).items()
    entries = {name: op for name, op in found if op.name == _SEQUENCE and len(op.regions[0].blocks)}
    for name in names:
        if name in entries:
            return entries[name]
    hint = "a spec is a module with `transform.with_named_sequence` and `transform.named_sequence @__transform_main`"
    if _TUNING in entries:
        hint = f"it tunes the code of dispatches: pass it to IREE, --iree-codegen-tuning-spec-path={path}, or import it"
    raise OpspliceError(f"{path} is not a transform spec: it has no sequence @{_ENTRY} with a body", hint=hint)


def _is_silent(op: ir.Operation) -> bool:
    """Whether an op of a spec may change a program in a way that nothing else tells of."""
    if not op.name.startswith("transform."):
        return False
    return op.name not in _TOLD_OF and not op.name.startswith(_READING)


def _own(spec: ir.Module) -> dict[str, ir.Operation]:
    """The functions and executables that a spec has for programs."""
    return {name: op for name, op in symbols.defined(spec.operation).items() if op.name != _SEQUENCE}


def _keep_apart(spec: ir.Module, module: ir.Module, brought: Brought) -> symbols.Names:
    """Rename the spec's symbols that are others than what earlier specs have brought into the module by their names.

    Returns the new names.
    """
    own = _own(spec)
    there = symbols.symbols(module)
    taken = {name for name in own if name in there and name in brought.digests}
    apart = {name for name in taken if brought.digests[name] != symbols.digest(own[name])}
    while more := {name for name in taken - apart if symbols.references(own[name]) & apart}:
        apart |= more
    everything = there | symbols.symbols(spec)
    names: dict[str, str] = {}
    for name in own:
        if name in apart:
            names[name] = symbols.unused(name, everything)
            everything.add(names[name])
    inner: dict[str, dict[str, str]] = {}
    entries = {export for op in module.body.operations for export in symbols.exports_of(op.operation)}
    for name, op in own.items():
        if name in apart or name not in there:
            exports = symbols.exports_of(op)
            inner[name] = {e: symbols.unused(e, {*entries, *exports}) for e in exports if e in entries}
    symbols.rename([op.operation for op in spec.body.operations], names, inner)
    return names


# ---- the module --------------------------------------------------------------------------------------------------


def _content(module: ir.Module) -> Counter[str]:
    """Each op of a module by name, attributes and place, with how often it is there."""

    def text(op: ir.Operation) -> str:
        attributes = ", ".join(f"{name} = {op.attributes[name]}" for name in op.attributes)
        return f"{op.name} {{{attributes}}} {op.location}"

    return Counter(map(text, ops_in(module.operation)))


def _resolve_objects(module: ir.Module, new: set[str], resolve: ObjectResolver) -> None:
    """Put absolute paths in the place of those that the spec's executables name."""
    for top in module.body.operations:
        if top.operation.name in EXECUTABLES and symbol_of(top.operation) in new:
            object_files.resolve_in(top.operation, resolve)
