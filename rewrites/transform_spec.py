"""A transform-dialect spec, run by IREE's own interpreter: what `--iree-preprocessing-transform-spec-filename` does.

The interpreter says nothing of what it changed. What the spec put in is found afterwards by looking for calls and
dispatches of symbols that the module did not have before.

Artifacts that the spec names (`#hal.executable.object<{path = "..."}>`) are looked for beside the spec first. A source
among them (`functions.c`) is built, as for a kernel of our own language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from iree.compiler import ir
from iree.compiler.dialects.transform import interpreter

from opsplice.errors import OpspliceError
from opsplice.matchers.search import location_text

_ENTRY = "__transform_main"
_EXECUTABLES = ("stream.executable", "flow.executable", "hal.executable", "hal.executable.source")
_TARGET = re.compile(r"#hal\.executable\.target<")
_PATH = re.compile(r'(path = )"((?:[^"\\]|\\.)*)"')

# Given the path of an artifact as the spec writes it, the symbols wanted of it, and the text of its target: the file.
ObjectResolver = Callable[[str, str], Path | None]


@dataclass(frozen=True)
class Change:
    """One place that a spec changed: the symbol that it put in, where, and in which function."""

    symbol: str
    function: str
    location: str


@dataclass(frozen=True)
class Outcome:
    """What a spec did. `changed` is also True when it changed the module in another way than by calls."""

    changed: bool
    changes: tuple[Change, ...]
    actions: tuple[tuple[str, str], ...]


def apply(module: ir.Module, path: Path, resolve: ObjectResolver) -> Outcome:
    """Run a spec on a module.

    Raises OpspliceError when the spec cannot be read, is no transform spec, or fails, and ir.MLIRError (with the place)
    when it does not parse or verify.
    """
    spec = _parsed(module.context, path)
    entry = _entry(spec, path)
    before = _symbols(module)
    fingerprint = _fingerprint(module)
    # The interpreter may run passes; their threads must not wait for the lock that this thread holds.
    module.context.enable_multithreading(False)
    try:
        interpreter.apply_named_sequence(module.operation, entry, spec.operation)
    except RuntimeError as error:
        raise OpspliceError(f"the transform spec {path} failed", details=str(error)) from None
    finally:
        module.context.enable_multithreading(True)
    new = _symbols(module) - before
    _resolve_objects(module, new, resolve)
    changes = tuple(_changes(module, new))
    return Outcome(bool(changes) or fingerprint != _fingerprint(module), changes, tuple(_pairs(spec)))


# ---- the spec -----------------------------------------------------------------------------------------------------------


def _parsed(context: ir.Context, path: Path) -> ir.Module:
    if not path.is_file():
        raise OpspliceError(f"no such file: {path}", hint="--spec takes a .splice or .mlir file")
    return ir.Module.parseFile(str(path), context=context)


def _entry(spec: ir.Module, path: Path) -> ir.Operation:
    for op in spec.body.operations:
        if op.operation.name == "transform.named_sequence" and _name(op.operation) == _ENTRY:
            return op.operation
    raise OpspliceError(
        f"{path} is no transform spec: it has no sequence @{_ENTRY}",
        hint="a spec is a module with `transform.with_named_sequence` and `transform.named_sequence @__transform_main`",
    )


def _pairs(spec: ir.Module) -> Iterator[tuple[str, str]]:
    """The (matcher, action) pairs of each foreach_match."""
    found: list[tuple[str, str]] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "transform.foreach_match":
            matchers, actions = ir.ArrayAttr(op.attributes["matchers"]), ir.ArrayAttr(op.attributes["actions"])
            found.extend((_last(m), _last(a)) for m, a in zip(matchers, actions, strict=True))
        return ir.WalkResult.ADVANCE

    spec.operation.walk(visit)
    return iter(found)


# ---- the module -----------------------------------------------------------------------------------------------------


def _name(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value


def _symbols(module: ir.Module) -> set[str]:
    return {_name(op.operation) for op in module.body.operations if "sym_name" in op.operation.attributes}


def _fingerprint(module: ir.Module) -> str:
    return str(module)


def _last(symbol: ir.Attribute) -> str:
    return str(symbol).rpartition("@")[2].strip('"')


def _root(symbol: ir.Attribute) -> str:
    return str(symbol).split("::")[0].removeprefix("@").strip('"')


def _changes(module: ir.Module, new: set[str]) -> Iterator[Change]:
    """Calls and dispatches of new symbols in functions that were there before."""
    for function in module.body.operations:
        op = function.operation
        if not op.name.endswith(".func") or _name(op) in new:
            continue
        for user in _users(op):
            for symbol in _callees(user):
                if symbol in new:
                    yield Change(symbol, _name(op), location_text(user))


def _users(function: ir.Operation) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in ("util.call", "func.call", "flow.dispatch"):
            found.append(op)
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return found


def _callees(op: ir.Operation) -> list[str]:
    if op.name == "flow.dispatch":
        return list(dict.fromkeys(_root(s) for s in ir.ArrayAttr(op.attributes["entry_points"])))
    return [_root(op.attributes["callee"])]


# ---- artifacts ----------------------------------------------------------------------------------------------------------


def _resolve_objects(module: ir.Module, new: set[str], resolve: ObjectResolver) -> None:
    """Put absolute paths in the place of those that the spec's executables name."""
    for top in module.body.operations:
        if top.operation.name in _EXECUTABLES and _name(top.operation) in new:
            _resolve_in(top.operation, resolve)


def _resolve_in(executable: ir.Operation, resolve: ObjectResolver) -> None:
    def visit(op: ir.Operation) -> ir.WalkResult:
        for name in ("hal.executable.objects", "objects"):
            if name in op.attributes:
                text = str(op.attributes[name])
                found = _resolved(text, resolve)
                if found != text:
                    op.attributes[name] = ir.Attribute.parse(found, context=op.context)
        return ir.WalkResult.ADVANCE

    executable.walk(visit)


def _resolved(text: str, resolve: ObjectResolver) -> str:
    """The text of an attribute with its paths resolved, each for the target that stands before it."""
    targets = [m.start() for m in _TARGET.finditer(text)]

    def path(match: re.Match[str]) -> str:
        start = max((t for t in targets if t < match.start()), default=0)
        found = resolve(match[2].replace('\\"', '"').replace("\\\\", "\\"), text[start : match.start()])
        if found is None:
            return match[0]
        return match[1] + '"' + str(found).replace("\\", "\\\\").replace('"', '\\"') + '"'

    return _PATH.sub(path, text)
