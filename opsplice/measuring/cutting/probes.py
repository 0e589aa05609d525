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
    emit.load_dialects(module.context)
    with module.context, ir.Location.unknown():
        kind = ir.Type.parse(emit.VIEW)
        names = [f"{PROBE}{number}" for number in range(count)]
        with ir.InsertionPoint.at_block_begin(module.body):
            for name in names:
                _global(name, kind)
        with ir.InsertionPoint(module.body):
            _reader(names, kind)
        for value, number in values:
            reference = ir.FlatSymbolRefAttr.get(names[number])
            with _at_end(value):
                emit.op("util.global.store", [emit.exported(value)], attributes={"global": reference})


def _global(name: str, kind: ir.Type) -> None:
    attributes = {
        "sym_name": emit.text(name),
        "sym_visibility": emit.text("private"),
        "type": ir.TypeAttr.get(kind),
        "is_mutable": ir.UnitAttr.get(),
    }
    emit.op("util.global", attributes=attributes)


def _reader(names: Sequence[str], kind: ir.Type) -> None:
    """One for all: what a function costs IREE is more than what a result does."""
    function = emit.op(
        "util.func",
        attributes={
            "sym_name": emit.text(READER),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [kind] * len(names))),
            "iree.abi.stub": ir.UnitAttr.get(),
        },
        regions=1,
    )
    with ir.InsertionPoint(function.regions[0].blocks.append()):
        held = [
            emit.value("util.global.load", [], kind, **{"global": ir.FlatSymbolRefAttr.get(name)}) for name in names
        ]
        emit.op("util.return", held)


def _at_end(value: ir.Value) -> ir.InsertionPoint:
    """Where a block ends. The program waits for what it notes, so noting all at once has it wait once."""
    block = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
    return ir.InsertionPoint.at_block_terminator(block)
