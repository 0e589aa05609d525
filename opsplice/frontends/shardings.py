"""Takes out of a module of JAX's how its arrays are spread over devices, where there is only one."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING

from opsplice.common.errors import OpspliceError

if TYPE_CHECKING:
    from iree.compiler import ir

# `#sdy.mesh<["data"=2, "model"=4]>`: an axis and its size.
_AXIS = re.compile(r'"=(\d+)')


def drop_shardings(module: ir.Module) -> None:
    """Remove the ops of Shardy, which IREE does not know. Raises OpspliceError where they name several devices."""
    from opsplice.matchers.ir.op_names import ops_in

    meshes = [op for op in module.body.operations if op.operation.name == "sdy.mesh"]
    if not meshes:
        return
    devices = max(prod(map(int, _AXIS.findall(str(mesh.attributes["mesh"])))) for mesh in meshes)
    if devices > 1:
        raise OpspliceError(
            f"the module is sharded over {devices} devices, but a program runs on one",
            hint="export the function without a mesh, for arrays of one device",
        )
    constraints = ops_in(module.operation, "sdy.sharding_constraint")
    for op in constraints:
        op.results[0].replace_all_uses_with(op.operands[0])
    for op in [*constraints, *(mesh.operation for mesh in meshes)]:
        op.erase()
