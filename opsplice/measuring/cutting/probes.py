"""Probes: globals in which a program notes values as it runs, and functions that read them afterwards.

    %r = linalg.matmul(...)        =>      %r = linalg.matmul(...)
                                           util.global.store (hal.tensor.export %r), @opsplice_probe_0

What is put in the place of %r later is what the probe then notes. A value in a loop is noted as it was last.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.measuring.cutting.records import PROBE
from opsplice.rewrites.ir import emit


def place(module: ir.Module, value: ir.Value, number: int) -> None:
    """Have a tensor of a module at `preprocessing` noted as probe `number`."""
    name = f"{PROBE}{number}"
    emit.load_dialects(module.context)
    with module.context, ir.Location.unknown():
        kind = ir.Type.parse(emit.VIEW)
        is_private, reference = emit.text("private"), ir.FlatSymbolRefAttr.get(name)
        with ir.InsertionPoint.at_block_begin(module.body):
            emit.op(
                "util.global",
                attributes={
                    "sym_name": emit.text(name),
                    "sym_visibility": is_private,
                    "type": ir.TypeAttr.get(kind),
                    "is_mutable": ir.UnitAttr.get(),
                },
            )
        with ir.InsertionPoint(module.body):
            _reader(f"{name}_read", reference, kind)
        with _after(value):
            emit.op("util.global.store", [emit.exported(value)], attributes={"global": reference})


def _reader(name: str, reference: ir.Attribute, kind: ir.Type) -> None:
    function = emit.op(
        "util.func",
        attributes={
            "sym_name": emit.text(name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [kind])),
            "iree.abi.stub": ir.UnitAttr.get(),
        },
        regions=1,
    )
    with ir.InsertionPoint(function.regions[0].blocks.append()):
        held = emit.value("util.global.load", [], kind, **{"global": reference})
        emit.op("util.return", [held])


def _after(value: ir.Value) -> ir.InsertionPoint:
    if isinstance(value.owner, ir.Block):
        return ir.InsertionPoint.at_block_begin(value.owner)
    return ir.InsertionPoint.after(value.owner.operation)
