"""Writes what StableHLO broadcasts to dims of size one alone as what it is, a reshape.

JAX leaves batches of one out of products, and broadcasts results to have them again: `[h, m, n]` to `[1, h, m, n]`.
IREE would make a copy of that, and patterns see an op behind the product.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.rewrites.ir import emit


def reshape_broadcast(op: ir.Operation) -> None:
    """Make a reshape of a broadcast that repeats nothing and keeps the order of dims."""
    operand, result = (ir.RankedTensorType(value.type) for value in (op.operands[0], op.results[0]))
    dims = list(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"]))
    if not (operand.has_static_shape and result.has_static_shape) or dims != sorted(dims) or not dims:
        return
    kept = [result.get_dim_size(dim) for dim in dims]
    if kept == operand.shape and all(size == 1 for dim, size in enumerate(result.shape) if dim not in dims):
        emit.replace(op, emit.value("stablehlo.reshape", [op.operands[0]], result))
