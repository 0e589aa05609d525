"""Holds the indices of gathers within their arrays, as StableHLO says: IREE 3.13 reads whatever lies outside."""

from __future__ import annotations

import re

from iree.compiler import ir

from opsplice.matchers.ir_names import ops_in

_MAP = re.compile(r"start_index_map = \[([\d, ]*)\]")
_VECTOR = re.compile(r"index_vector_dim = (\d+)")


def clamp_gathers(module: ir.Module) -> None:
    """Clamp the indices of each `stablehlo.gather`. It needs a location and a context, as making ops does."""
    for op in ops_in(module.operation, "stablehlo.gather"):
        _clamp(op)


def _clamp(op: ir.Operation) -> None:
    source, indices = op.operands[0], op.operands[1]
    sizes, kind = ir.RankedTensorType(source.type), ir.RankedTensorType(indices.type)
    numbers = str(op.attributes["dimension_numbers"])
    mapped, vector = _MAP.search(numbers), _VECTOR.search(numbers)
    dims = [int(dim) for dim in mapped[1].split(",")] if mapped and mapped[1] else []
    if not dims or not (sizes.has_static_shape and kind.has_static_shape):
        return
    slices = list(ir.DenseI64ArrayAttr(op.attributes["slice_sizes"]))
    last = [sizes.get_dim_size(dim) - slices[dim] for dim in dims]
    at = int(vector[1]) if vector else kind.rank
    text = f"tensor<{len(last)}x{kind.element_type}>" if at < kind.rank else f"tensor<{kind.element_type}>"
    values = str(last) if at < kind.rank else str(last[0])

    def made(name: str, operands: list[ir.Value], **attributes: ir.Attribute) -> ir.Value:
        result = attributes["value"].type if "value" in attributes else kind
        made = ir.Operation.create(name, [result], operands, attributes, loc=op.location, ip=ir.InsertionPoint(op))
        return made.results[0]

    limits = made("stablehlo.constant", [], value=ir.Attribute.parse(f"dense<{values}> : {text}"))
    dims_of = ir.DenseI64ArrayAttr.get([at] if at < kind.rank else [])
    upper = made("stablehlo.broadcast_in_dim", [limits], broadcast_dimensions=dims_of)
    lower = made("stablehlo.constant", [], value=ir.Attribute.parse(f"dense<0> : {kind}"))
    op.operands[1] = made("stablehlo.clamp", [lower, indices, upper])
