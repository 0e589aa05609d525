"""Bytes and truths that meet numbers of other types: IREE's importer takes the highest bit of the former for a sign.

    %r = torch.aten.mul.Scalar %x, 0.5 : tensor<4xui8> -> tensor<4xf32>

        =>

    %y = torch.prims.convert_element_type %x, f32
    %r = torch.aten.mul.Scalar %y, 0.5 : tensor<4xf32> -> tensor<4xf32>

By itself it multiplies -56 where a byte is 200. Truths have this fate in comparisons alone. It crashes where they meet
bytes in an op on bits, or in one that chooses the larger.
"""

from __future__ import annotations

import torch
from torch import fx

from opsplice.torch.importing.graph_edits import put_like

aten = torch.ops.aten

_CONVERT = torch.ops.prims.convert_element_type.default
_CONVERSIONS = (aten._to_copy.default, _CONVERT)
# Ops that convert what they are given, and are none on elements.
_OTHERS = (aten.cat.default, aten.stack.default)
# Ops at whose truths it crashes beside bytes.
_CRASHING = (
    *(aten.bitwise_and.Tensor, aten.bitwise_or.Tensor, aten.bitwise_xor.Tensor),
    *(aten.maximum.default, aten.minimum.default),
)


def widen_unsigned(graph: fx.Graph) -> None:
    """Convert such operands to the type in which their op computes."""
    for node in list(graph.nodes):
        is_on_elements = torch.Tag.pointwise in getattr(node.target, "tags", ()) or node.target in _OTHERS
        if not is_on_elements or node.target in _CONVERSIONS or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        kind = _computed_in(node)
        for given in node.all_input_nodes:
            if kind != torch.bool and _is_misread(node, given, kind):
                with graph.inserting_before(node):
                    value = given.meta["val"]
                    wide = put_like(node, _CONVERT, value.new_empty(value.shape, dtype=kind), given, kind)
                node.replace_input_with(given, wide)


def _computed_in(node: fx.Node) -> torch.dtype:
    """The type of an op's result, or that in which it compares two tensors, of which a number is no less."""
    kind = node.meta["val"].dtype
    given = [value for each in node.all_input_nodes if isinstance(value := each.meta.get("val"), torch.Tensor)]
    is_compared = kind == torch.bool and len(given) == 2
    return torch.promote_types(given[0].dtype, given[1].dtype) if is_compared else kind


def _is_misread(node: fx.Node, given: fx.Node, kind: torch.dtype) -> bool:
    own = getattr(given.meta.get("val"), "dtype", None)
    is_read = own == torch.bool and (node.target in _CRASHING or node.meta["val"].dtype == torch.bool)
    return own != kind and (is_read or own == torch.uint8)
