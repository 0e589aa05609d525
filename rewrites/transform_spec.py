"""A transform-dialect spec, run by IREE's own interpreter: what `--iree-preprocessing-transform-spec-filename` does.

The interpreter says nothing of what it changed. What the spec put in is found afterwards by looking for calls and
dispatches of symbols that the module did not have before. What a spec brings along gets another name where an earlier
spec has brought another symbol of that name; a symbol of the program's own is what `import_symbol ... if undefined`
takes.

Artifacts that the spec names (`#hal.executable.object<{path = "..."}>`) are looked for beside the spec first. A source
among them (`functions.c`) is built, as for a kernel of our own language.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from iree.compiler import ir
from iree.compiler.dialects.transform import interpreter

from opsplice.errors import OpspliceError
from opsplice.files import LARGEST_TEXT, check_file
from opsplice.matchers.ir_names import location_text, ops_in, symbol_of
from opsplice.rewrites import inlined, objects, outside, symbols
from opsplice.rewrites.export.sequences import RULE
from opsplice.rewrites.objects import ObjectResolver
from opsplice.rewrites.static_function import COPY
from opsplice.rewrites.symbols import EXECUTABLES, Brought

_ENTRY = "__transform_main"
_SEQUENCE = "transform.named_sequence"
_TOLD = re.compile(r'.*\bat loc\("(.*)":(\d+):(\d+)\): (.*)')
_LOCATION = re.compile(r'loc\("(.*)":(\d+):(\d+)\)')


@dataclass(frozen=True)
class Change:
    """One place that a spec changed: the symbol (as the spec calls it) that it put in, where, and in which function."""

    symbol: str
    function: str
    location: str


@dataclass(frozen=True)
class Pair:
    """A matcher and the action that `foreach_match` takes for it.

    symbols: what the action puts in. rule: the rule that an exported spec says the matcher is for, or both names.
    """

    matcher: str
    action: str
    symbols: frozenset[str]
    rule: str


@dataclass(frozen=True)
class Outcome:
    """What a spec did.

    changes:   the places where it put in a call or a dispatch.
    unmatched: pairs whose action put in nothing, one for each rule of which that holds for all.
    otherwise: whether actions that put in no calls (annotations, passes) changed the module.
    """

    changes: tuple[Change, ...]
    unmatched: tuple[Pair, ...]
    otherwise: bool


def apply(module: ir.Module, path: Path, resolve: ObjectResolver, brought: Brought | None = None) -> Outcome:
    """Run a spec on a module.

    brought: what earlier specs have brought into the module, to which this adds what the spec brings.
    Raises OpspliceError when the spec cannot be read, does not parse, is no transform spec, or fails.
    """
    spec = _parsed(module.context, path)
    entry = _entry(spec, path)
    brought = Brought() if brought is None else brought
    names = _keep_apart(spec, module, brought)
    pairs = tuple(_pairs(spec))
    # A pass behind the matching may inline what was put in.
    inlining = _passes_after_matching(entry)
    others = ops_in(entry, "transform.annotate", "transform.include")
    silent = not pairs or inlining or bool(others) or any(not p.symbols for p in pairs)
    before = symbols.symbols(module)
    digests = {symbol_of(op): symbols.digest(op) for op in _own(spec)}
    bodies = inlined.bodies(spec)
    # Nothing says of the program's own functions that they were inlined but the ops that there are then.
    there = bodies.keys() & before
    silent = silent or bool(there)
    plain = _plain(spec, bodies)
    order = inlined.order(module, spec)
    calls = Counter(_changes(module, before & digests.keys(), set(), str(path), plain))
    content = _content(module) if silent else Counter()
    # The interpreter may run passes; their threads must not wait for the lock that this thread holds.
    module.context.enable_multithreading(False)
    try:
        interpreter.apply_named_sequence(module.operation, entry, spec.operation)
    except (RuntimeError, ValueError) as error:
        raise OpspliceError(f"the transform spec {path} failed", details=_told(str(error))) from None
    finally:
        module.context.enable_multithreading(True)
    new = symbols.symbols(module) - before
    brought.add(new, digests)
    _resolve_objects(module, new, resolve)
    found = Counter(_changes(module, new | set(digests), new, str(path), plain, order))
    changes = tuple((found - calls).elements())
    # An action that inlines a function has imported it before.
    used = {c.symbol for c in changes} | (bodies.keys() & new)
    called = {new: old for old, new in names.items()}
    changes = tuple(replace(c, symbol=called.get(c.symbol, c.symbol)) for c in changes)
    # What a pass only removes (dead code, duplicates) is no change that the spec was written for.
    otherwise = silent and bool(_content(module) - content)
    done = {
        p.rule for p in pairs if p.symbols & used or (otherwise and (inlining or not p.symbols or p.symbols & there))
    }
    unmatched = {p.rule: p for p in reversed(pairs) if p.rule not in done}
    return Outcome(changes, tuple(reversed(unmatched.values())), otherwise)


# ---- the spec ----------------------------------------------------------------------------------------------------


def parse(context: ir.Context, path: Path) -> ir.Module:
    """The module of a spec. Raises OpspliceError when it cannot be read, does not parse, or is no transform spec."""
    spec = _parsed(context, path)
    _entry(spec, path)
    return spec


def _parsed(context: ir.Context, path: Path) -> ir.Module:
    check_file(path, LARGEST_TEXT, hint="a transform-dialect spec is an .mlir file")
    try:
        spec = ir.Module.parseFile(str(path), context=context)
    except ir.MLIRError as error:
        raise OpspliceError(f"cannot read the transform spec {path}", details=_text(error)) from None
    outside.check_module(spec, str(path))
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


def _entry(spec: ir.Module, path: Path) -> ir.Operation:
    for op in spec.body.operations:
        is_entry = op.operation.name == _SEQUENCE and symbol_of(op.operation) == _ENTRY
        if is_entry and len(op.operation.regions[0].blocks):
            return op.operation
    raise OpspliceError(
        f"{path} is no transform spec: it has no sequence @{_ENTRY} with a body",
        hint="a spec is a module with `transform.with_named_sequence` and `transform.named_sequence @__transform_main`",
    )


def _pairs(spec: ir.Module) -> list[Pair]:
    """The pairs of each foreach_match, in order."""
    sequences = {
        symbol_of(op.operation): op.operation for op in spec.body.operations if "sym_name" in op.operation.attributes
    }
    found: list[Pair] = []
    for op in ops_in(spec.operation, "transform.foreach_match"):
        matchers, actions = ir.ArrayAttr(op.attributes["matchers"]), ir.ArrayAttr(op.attributes["actions"])
        for matcher, action in zip(map(_last, matchers), map(_last, actions), strict=True):
            imports = ops_in(sequences[action], "transform.util.import_symbol") if action in sequences else []
            put_in = frozenset(_root(i.attributes["symbol"]) for i in imports)
            known = sequences[matcher].attributes if matcher in sequences else {}
            rule = ir.StringAttr(known[RULE]).value if RULE in known else f"@{matcher} -> @{action}"
            found.append(Pair(matcher, action, put_in, rule))
    return found


def _passes_after_matching(entry: ir.Operation) -> bool:
    names = [op.name for op in ops_in(entry)]
    matching = names.index("transform.foreach_match") if "transform.foreach_match" in names else len(names)
    return "transform.apply_registered_pass" in names[matching:]


def _own(spec: ir.Module) -> list[ir.Operation]:
    """The functions and executables that a spec has for programs."""
    tops = (op.operation for op in spec.body.operations)
    return [op for op in tops if symbol_of(op) and op.name != _SEQUENCE]


def _plain(spec: ir.Module, bodies: inlined.Bodies) -> inlined.Bodies:
    """Of the functions that a spec inlines those that call and dispatch nothing of it, which would tell of them."""
    own = {symbol_of(op): op for op in _own(spec)}
    return {
        name: body for name, body in bodies.items() if name in own and not symbols.references(own[name]) & own.keys()
    }


def _keep_apart(spec: ir.Module, module: ir.Module, brought: Brought) -> symbols.Names:
    """Rename the spec's symbols that are others than what earlier specs have brought into the module by their names.

    Returns the new names.
    """
    own = {symbol_of(op): op for op in _own(spec)}
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
    found: Counter[str] = Counter()

    def visit(op: ir.Operation) -> ir.WalkResult:
        attributes = ", ".join(f"{name} = {op.attributes[name]}" for name in op.attributes)
        found[f"{op.name} {{{attributes}}} {op.location}"] += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _last(symbol: ir.Attribute) -> str:
    return str(symbol).rpartition("@")[2].strip('"')


def _root(symbol: ir.Attribute) -> str:
    return str(symbol).split("::")[0].removeprefix("@").strip('"')


def _changes(
    module: ir.Module,
    called: set[str],
    new: set[str],
    spec: str,
    plain: inlined.Bodies,
    order: inlined.Order | None = None,
) -> Iterator[Change]:
    """Calls and dispatches, other than copies, of some symbols in functions that were there before the new ones.

    plain: functions that are inlined, of which each copy counts. order: the ops from before the spec, where it inlines
    calls.
    """
    for function in module.body.operations if called or plain else ():
        op = function.operation
        if not op.name.endswith(".func") or symbol_of(op) in new:
            continue
        users = [
            (u, s) for u in ops_in(op, "util.call", "func.call", "flow.dispatch") for s in _callees(u) if s in called
        ]
        users += inlined.copies(op, plain)
        ops = [user for user, _ in users]
        before = (order or {}).get(symbol_of(op), ())
        places = inlined.places(op, ops, before, spec) if before and ops else map(location_text, ops)
        for (_, symbol), place in zip(users, places, strict=True):
            yield Change(symbol, symbol_of(op), place)


def _callees(op: ir.Operation) -> list[str]:
    if op.name == "flow.dispatch":
        entries = [str(entry) for entry in ir.ArrayAttr(op.attributes["entry_points"])]
        return list(dict.fromkeys(_root(entry) for entry in entries if COPY not in entry))
    return [_root(op.attributes["callee"])]


def _resolve_objects(module: ir.Module, new: set[str], resolve: ObjectResolver) -> None:
    """Put absolute paths in the place of those that the spec's executables name."""
    for top in module.body.operations:
        if top.operation.name in EXECUTABLES and symbol_of(top.operation) in new:
            objects.resolve_in(top.operation, resolve)
