"""Probes: globals in which a program notes values as it runs, and a function that reads them all afterwards.

    %r = linalg.matmul(...)        =>      %r = linalg.matmul(...)
    ...                                    ...
    return                                 util.global.store (hal.tensor.export %r), @opsplice_probe_0
                                           return

What is put in the place of %r later is what the probe then notes. A value in a loop is noted as it was last.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from opsplice.measuring.cutting.records import PROBE, READER
from opsplice.rewrites.ir import emit


def place(module: ir.Module, values: Sequence[tuple[ir.Value, int]], count: int) -> None:
    """Have tensors of a module at `preprocessing` noted, each as the probe of its number.

    count: how many the function that reads them gives, in the order of their numbers, with none for those not noted.
    """
    if not count:
        return
    with emit.building(module):
        kind = ir.Type.parse(emit.VIEW)
        names = [f"{PROBE}{number}" for number in range(count)]
        with ir.InsertionPoint.at_block_begin(module.body):
            for name in names:
                attributes = emit.named(name, type=ir.TypeAttr.get(kind), is_mutable=ir.UnitAttr.get())
                emit.op("util.global", attributes=attributes)
        with ir.InsertionPoint(module.body):
            _reader(names, kind)
        for value, number in values:
            reference = ir.FlatSymbolRefAttr.get(names[number])
            with _at_end(value):
                emit.op("util.global.store", [emit.exported(value)], attributes={"global": reference})


def _reader(names: Sequence[str], kind: ir.Type) -> None:
    """One for all: what a function costs IREE is more than what a result does."""
    attributes = emit.named(READER, "public", function_type=emit.type_of([], [kind] * len(names)))
    attributes["iree.abi.stub"] = ir.UnitAttr.get()
    with ir.InsertionPoint(emit.block(emit.op("util.func", attributes=attributes, regions=1))):
        held = [
            emit.value("util.global.load", [], kind, **{"global": ir.FlatSymbolRefAttr.get(name)}) for name in names
        ]
        emit.op("util.return", held)


def _at_end(value: ir.Value) -> ir.InsertionPoint:
    """Where a block ends. The program waits for what it notes, so noting all at once has it wait once."""
    block = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
    return ir.InsertionPoint.at_block_terminator(block)
