"""Files and bytes that `jax.export.Exported.serialize` writes, as modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
from jax._src.interpreters.mlir import refine_polymorphic_shapes

from opsplice.common.errors import OpspliceError
from opsplice.frontends.importing import MODULE, Request
from opsplice.frontends.source import load


def import_model(request: Request) -> dict[str, Any]:
    """See `frontends.importing`. A model of symbolic shapes is lowered anew for the sizes that its dims are given."""
    try:
        exported = jax.export.deserialize(bytearray(request.path.read_bytes()))
    except Exception as error:  # JAX checks nothing of what it reads
        raise OpspliceError(f"{request.name} is damaged, or of another version of JAX", details=str(error)) from error
    dims = {str(dim) for each in exported.in_avals for dim in each.shape if not isinstance(dim, int)}
    if unknown := sorted(request.dims.keys() - dims):
        raise OpspliceError(
            f"{request.name} has no dim '{unknown[0]}'", hint=f"its dims are {', '.join(sorted(dims)) or 'all known'}"
        )
    if missing := sorted(dims - request.dims.keys()):
        raise OpspliceError(
            f"the dim '{missing[0]}' of {request.name} is open, and IREE compiles no open sizes of StableHLO",
            hint=f"say how large it is: --dim {missing[0]}=8, or dims={{'{missing[0]}': 8}}",
        )
    source = load(_lowered(exported, request.dims) if dims else exported)
    (request.folder / MODULE).write_bytes(source.read())
    return {}


def _lowered(exported: jax.export.Exported, dims: Mapping[str, int]) -> Any:
    """The module with sizes alone: JAX works out those of all values from those of the inputs."""
    shapes = [
        jax.ShapeDtypeStruct([dims.get(str(dim), dim) for dim in each.shape], each.dtype) for each in exported.in_avals
    ]
    arguments, named = exported.in_tree.unflatten(shapes)
    traced = jax.jit(exported.call, keep_unused=True).trace(*arguments, **named)
    module = traced.lower(lowering_platforms=("cpu",)).compiler_ir("stablehlo")
    with module.context:
        return refine_polymorphic_shapes(module)
