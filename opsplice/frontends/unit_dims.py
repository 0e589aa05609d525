"""Writes what StableHLO broadcasts to dims of size one alone as what it is, a reshape.

JAX leaves batches of one out of products, and broadcasts results to have them again: `[h, m, n]` to `[1, h, m, n]`.
IREE would make a copy of that, and patterns see an op behind the product.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.op_names import ops_in
from opsplice.rewrites.ir import emit


def reshape_broadcasts(module: ir.Module) -> None:
    """Make reshapes of the broadcasts in a module that repeat nothing and keep the order of dims."""
    for op in ops_in(module.operation, "stablehlo.broadcast_in_dim"):
        operand, result = (ir.RankedTensorType(value.type) for value in (op.operands[0], op.results[0]))
        dims = list(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"]))
        kept = [result.get_dim_size(dim) for dim in dims]
        if not (operand.has_static_shape and result.has_static_shape) or dims != sorted(dims) or not dims:
            continue
        if kept == operand.shape and all(size == 1 for dim, size in enumerate(result.shape) if dim not in dims):
            with ir.InsertionPoint(op), op.location:
                made = ir.Operation.create("stablehlo.reshape", [result], [op.operands[0]])
            emit.replace(op, made.result)
