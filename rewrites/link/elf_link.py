"""Whole executables for CPUs, which files hold, in the place of the empty functions that stand for them.

    hal.executable @linked { ... elf$scale$k() {} }    IREE links all that it makes for a CPU into one executable
    hal.executable @elf$... { binary "k.so" }          dispatches of it go to `scale` of this one in its place

The dispatch is compiled around an empty function, whose layout IREE needs; at `PHASE` each dispatch on it is turned to
an executable with the file's bytes, as `late_binding.py` turns others to what a provider has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from iree.compiler import ir

from opsplice.matchers.ir.op_names import ops_in
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir import executables as hal
from opsplice.rewrites.link.late_binding import Binder, Provided, symbols_in

PHASE = "hal"
# What the names of empty functions begin with that stand for dispatches of executables in files; no kernel's has a `$`.
STAND_IN = "elf$"
# The file of a dispatch by its name and the format of executables.
Files = Mapping[tuple[str, str], Path]


def link(module: ir.Module, files: Files) -> None:
    """Turn dispatches to executables that files hold. The module must be at `PHASE`."""
    names = {name for name, _ in files}
    found = [(op, _entry(op)) for op in ops_in(module.operation, "hal.executable.lookup.function")]
    lookups = [(op, entry) for op, entry in found if entry in names]
    if not lookups:
        return
    with emit.building(module):
        embedder = _Embedder(module, {key: path.read_bytes() for key, path in files.items()})
        apart = [(lookup, entry) for lookup, entry in lookups if _is_apart(lookup)]
        embedder.put_in({(_symbols(lookup)[0], entry) for lookup, entry in apart})
        embedder.turn_all([each for each in lookups if each not in apart])
        for lookup, entry in lookups:
            executable, *_ = _symbols(lookup)
            lookup.attributes["entry_point"] = emit.symbol(executable, entry)  # by the name alone it is looked up


def _entry(lookup: ir.Operation) -> str:
    """The dispatch of a file that a function stands for, "" for any other."""
    name = _symbols(lookup)[-1]
    return name.removeprefix(STAND_IN).partition("$")[0] if name.startswith(STAND_IN) else ""


def _is_apart(lookup: ir.Operation) -> bool:
    """Whether IREE has linked an executable with no other: it still has the name that it was given."""
    executable, *_, name = _symbols(lookup)
    return name.rpartition("$")[2] == executable


def _symbols(lookup: ir.Operation) -> tuple[str, ...]:
    return symbols_in(lookup.attributes["entry_point"])


class _Embedder(Binder):
    """`embedded`: the executables that hold files."""

    def __init__(self, module: ir.Module, provided: Provided) -> None:
        super().__init__(module, provided)
        self.embedded: set[str] = set()

    def put(self, create: ir.Operation, name: str, form: str) -> None:
        code = self.provided[name, form]
        symbol = f"{STAND_IN}{form}${hashlib.sha256(code).hexdigest()[:12]}"
        if symbol not in self.embedded:
            self.embedded.add(symbol)
            self._embed(symbol, code, form)
        create.attributes["executable_target"] = emit.symbol(symbol, "elf")

    def _embed(self, symbol: str, code: bytes, form: str) -> None:
        """An executable of one binary, which holds a file."""
        executable = emit.op(
            "hal.executable",
            attributes=emit.named(symbol),
            regions=1,
            at=ir.InsertionPoint.at_block_begin(self.module.body),
        )
        with ir.InsertionPoint(emit.block(executable)):
            kind, data = emit.text("application/x-elf"), hal.data_of(code)
            attributes = emit.named("elf", "public", format=emit.text(form), data=data, mime_type=kind)
            emit.op("hal.executable.binary", attributes=attributes)
            emit.op("hal.executable_end")
