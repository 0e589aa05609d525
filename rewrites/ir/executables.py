"""The executables of a module in IREE's HAL: what holds the code for each target, at phases from `executable-sources`.

hal.executable @k { hal.executable.variant @v { builtin.module { ... } } }      until code is made
hal.executable @k { hal.executable.binary @v <format = ..., data = ...> }       at `hal`
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from iree.compiler import ir

from opsplice.rewrites.ir import emit


def executables(module: ir.Module) -> list[ir.Operation]:
    """They stand at the top of a module, so that nothing else is walked."""
    return [op.operation for op in module.body.operations if op.operation.name == "hal.executable"]


def variants(executable: ir.Operation) -> list[ir.Operation]:
    """An executable's code for each target, before it is made."""
    return _inside(executable, "hal.executable.variant")


def add_object(variant: ir.Operation, path: Path) -> None:
    """Have IREE link a file with a variant's code, before it is made. Needs a current context."""
    wanted = emit.object_file(path)
    known = list(ir.ArrayAttr(variant.attributes["objects"])) if "objects" in variant.attributes else []
    if wanted not in known:
        variant.attributes["objects"] = ir.ArrayAttr.get([*known, wanted])


def binaries(executable: ir.Operation) -> list[ir.Operation]:
    """An executable's code for each target, made."""
    return _inside(executable, "hal.executable.binary")


def module_of(variant: ir.Operation) -> ir.Operation | None:
    """The module with the code of a variant; None for one that is nothing but a file."""
    return next(iter(_inside(variant, "builtin.module")), None)


def code_of(binary: ir.Operation) -> bytes:
    """The bytes of a binary."""
    return bytes(memoryview(ir.DenseElementsAttr(binary.attributes["data"])))


def data_of(code: bytes) -> ir.Attribute:
    """The attribute that holds the bytes of a binary. Needs a current context."""
    numbers = np.frombuffer(code, dtype=np.int8)
    kind = ir.VectorType.get([len(numbers)], ir.IntegerType.get_signless(8))
    return ir.DenseIntElementsAttr.get(numbers, type=kind)


def _inside(op: ir.Operation, name: str) -> list[ir.Operation]:
    return [inner.operation for inner in op.regions[0].blocks[0].operations if inner.operation.name == name]
