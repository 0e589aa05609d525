"""Contractions by the kinds of their dims, however their operands lie, as `contracts("m 32")` asks for them."""

from __future__ import annotations

from collections.abc import Mapping

from iree.compiler import ir
from iree.compiler.dialects import linalg

from opsplice.spec_lang.checking.contraction_query import KINDS, asked_sizes


def sizes_of(op: ir.Operation) -> Mapping[str, tuple[int | None, ...]] | None:
    """The sizes of a contraction's dims by kind, None for a size known at run time; None for an op that is none."""
    if not linalg.isa_contraction_op(op):
        return None
    sizes: dict[int, int | None] = {}
    for attribute, operand in zip(linalg.get_indexing_maps(op), op.operands, strict=True):
        kind = ir.RankedTensorType(operand.type)
        for axis, read in enumerate(ir.AffineMapAttr(attribute).value.results):
            loop = ir.AffineDimExpr(read).position
            sizes[loop] = sizes.get(loop) or (None if kind.is_dynamic_dim(axis) else kind.get_dim_size(axis))
    dims = linalg.infer_contraction_dimensions(op)
    loops = (dims.batch, dims.m, dims.n, dims.k)
    return {kind: tuple(sizes[loop] for loop in each) for kind, each in zip(KINDS, loops, strict=True)}


def holds(op: ir.Operation, text: str) -> bool:
    """Whether an op is a contraction of the sizes that are asked for."""
    found = sizes_of(op)
    return found is not None and all(
        len(sizes) == len(found[kind]) and all(a in (None, b) for a, b in zip(sizes, found[kind], strict=True))
        for kind, sizes in asked_sizes(text).items()
    )
