"""Symbols that specs bring into a program: kept apart from those of other specs, which may have the same names.

spec a: @f = x + 100        program: @f (a's)
spec b: @f = x + 1000  =>   program: @f (a's), @f_1 (b's), and b calls @f_1
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from iree.compiler import ir

from opsplice.common.reaching import reachable
from opsplice.matchers.ir.op_names import ops_in, symbol_of

EXECUTABLES = ("stream.executable", "flow.executable", "hal.executable", "hal.executable.source")
_TEMPLATES = ("transform.iree.match.cast_compatible_dag_from_root", "transform.iree.match.regions")

# The new name of each symbol that gets one.
Names = Mapping[str, str]


@dataclass
class Brought:
    """The symbols that specs have brought into one program, with a digest of what each was; "" for what rules made.

    All others are the program's own.
    """

    digests: dict[str, str] = field(default_factory=dict)

    def add(self, names: Iterable[str], digests: Mapping[str, str] | None = None) -> None:
        known = digests or {}
        self.digests.update({name: known.get(name, "") for name in names})


def defined(module: ir.Operation) -> dict[str, ir.Operation]:
    """The ops at the top of a module that have symbols, by these."""
    tops = (op.operation for op in module.regions[0].blocks[0].operations)
    return {name: op for op in tops if (name := symbol_of(op))}


def symbols(module: ir.Module) -> set[str]:
    """The symbols at the top of a module."""
    return set(defined(module.operation))


def digest(op: ir.Operation) -> str:
    """What tells an op from others; the same wherever it stands in a file."""
    return hashlib.sha256(op.get_asm(enable_debug_info=False).encode()).hexdigest()[:16]


def rename(ops: Sequence[ir.Operation], names: Names, inner: Mapping[str, Names]) -> None:
    """Rename symbols of a module where they are defined and where they are referred to.

    ops: those at the top of the module. names: the new names of these; inner: by the (old) name of an executable the
    new names of its exports. What templates of matchers refer to belongs to the program, and stays.
    """
    for op in ops:
        name = symbol_of(op)
        if op.name in EXECUTABLES:
            exports = inner.get(name, {})
            for each in ops_in(op) if exports else ():
                if each != op:
                    _rename(each, exports, {})
        else:
            _visit(op, names, inner)
        if name in names:
            op.attributes["sym_name"] = ir.StringAttr.get(names[name], op.context)


def exports_of(executable: ir.Operation) -> list[str]:
    """The names of an executable's entry points; none for another op."""
    if executable.name not in EXECUTABLES:
        return []
    return [symbol_of(op) for op in ops_in(executable) if op.name.endswith(".executable.export")]


def unused(wanted: str, taken: Iterable[str]) -> str:
    """A name that is not taken: the wanted one with a number."""
    number = 1
    while f"{wanted}_{number}" in taken:
        number += 1
    return f"{wanted}_{number}"


def references(op: ir.Operation) -> set[str]:
    """The symbols at the top of a module that an op there refers to."""
    if op.name in EXECUTABLES:  # these have symbols of their own, and see no others
        return set()
    attributes = (each.attributes[name] for each in ops_in(op) for name in each.attributes)
    return {path[0] for attribute in attributes for path in _paths(attribute)}


def reached(op: ir.Operation, tops: Mapping[str, ir.Operation]) -> tuple[str, ...]:
    """The symbols of a module that an op at its top needs, those that they need among them."""

    def needed(by: ir.Operation) -> list[str]:
        return [name for name in sorted(references(by)) if name in tops]

    return tuple(reachable(needed(op), lambda name: needed(tops[name])))


def _visit(op: ir.Operation, names: Names, inner: Mapping[str, Names]) -> None:
    _rename(op, names, inner, own=False)
    if op.name in _TEMPLATES:
        return
    for region in op.regions:
        for block in region:
            for each in block.operations:
                _visit(each.operation, names, inner)


def _rename(op: ir.Operation, names: Names, inner: Mapping[str, Names], own: bool = True) -> None:
    """own: whether the op may be one that is renamed."""

    def renamed(path: list[str]) -> ir.Attribute:
        root, *rest = path
        exports = inner.get(root, {})
        return ir.SymbolRefAttr.get([names.get(root, root), *(exports.get(part, part) for part in rest)])

    with op.context:
        for name in list(op.attributes):
            found = op.attributes[name]
            new = _mapped(found, renamed)
            if own and name == "sym_name" and ir.StringAttr(found).value in names:
                new = ir.StringAttr.get(names[ir.StringAttr(found).value])
            if new != found:
                op.attributes[name] = new


def _path(attribute: ir.Attribute) -> list[str] | None:
    """The names in a reference to a symbol; None for another attribute."""
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        return [attribute.value]
    return list(attribute.value) if isinstance(attribute, ir.SymbolRefAttr) else None


def _paths(attribute: ir.Attribute) -> Iterator[list[str]]:
    path = _path(attribute)
    if path is not None:
        yield path
    elif isinstance(attribute, ir.ArrayAttr):
        for each in attribute:
            yield from _paths(each)
    elif isinstance(attribute, ir.DictAttr):
        for entry in attribute:
            yield from _paths(entry.attr)


def _mapped(attribute: ir.Attribute, change: Callable[[list[str]], ir.Attribute]) -> ir.Attribute:
    """An attribute with `change` applied to each reference in it. Needs a current context."""
    path = _path(attribute)
    if path is not None:
        return change(path)
    if isinstance(attribute, ir.ArrayAttr):
        return ir.ArrayAttr.get([_mapped(each, change) for each in attribute])
    if isinstance(attribute, ir.DictAttr):
        return ir.DictAttr.get({entry.name: _mapped(entry.attr, change) for entry in attribute})
    return attribute
