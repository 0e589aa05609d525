"""Axes that are the same dim because an op reads or writes them at one loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir
from iree.compiler._mlir_libs._mlirDialectsLinalg import get_indexing_maps

from opsplice.matchers.capture.expressions import Axes
from opsplice.matchers.ir.tensor_values import shape_of
from opsplice.matchers.terms.terms import Access, Loop
from opsplice.spec_lang.syntax import vocabulary


def join_alike(op: ir.Operation, whole: Callable[[ir.Value], Access], axes: Axes) -> None:
    """Make axes one that an op reads or writes at one loop; the ops that say so are structured or on elements."""
    known: dict[str, Loop] = {}
    values = [*op.operands, *op.results]
    for reads, value in zip(_reads(op), values, strict=False):
        for read, axis in zip(reads, whole(value).indices, strict=False):
            if isinstance(axis, Loop):
                axes.join(known.setdefault(str(read), axis), axis)


def _reads(op: ir.Operation) -> list[Sequence[object]]:
    """The loops, or sums of them, that the operands and results of an op are read or written at."""
    if vocabulary.is_elementwise(op.name):
        return [range(len(shape_of(value) or ())) for value in (*op.operands, *op.results)]
    written = get_indexing_maps(op) if op.name.startswith("linalg.") else op.attributes.get("indexing_maps", None)
    maps = [list(ir.AffineMapAttr(each).value.results) for each in written or ()]
    return [*maps, *maps[len(maps) - len(op.results) :]] if len(maps) == len(op.operands) else []
