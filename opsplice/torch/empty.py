"""Tensors without elements, taken out of a graph: IREE's compiler ends the process on some of them.

What computes one is a constant instead, and so is a product whose sums have no terms. What writes nothing into a tensor
is a copy of it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

# Products, and which argument has what is summed over as its last dim.
_PRODUCTS = {aten.mm.default: 0, aten.bmm.default: 0, aten.addmm.default: 1, aten.baddbmm.default: 1}

# What writes values to places of its first argument, at the indices that are another one.
_WRITES = (aten.scatter, aten.scatter_add, aten.scatter_reduce, aten.index_put)


def fill_empty(graph: fx.Graph) -> None:
    """Replace ops by constants where nothing is computed, or nothing is summed. Sizes that may be 0 do not count."""
    for node in list(graph.nodes):
        if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        with graph.inserting_before(node):
            instead = _instead_of(graph, node)
        if instead is not None:
            instead.meta = dict(node.meta)
            node.replace_all_uses_with(instead)


def _instead_of(graph: fx.Graph, node: fx.Node) -> fx.Node | None:
    value = node.meta["val"]
    if not all(isinstance(size, int) for size in value.shape):
        return None
    zeros: Any = (aten.full.default, (list(value.shape), 0), {"dtype": value.dtype, "device": value.device})
    if 0 in value.shape:
        return None if node.target is aten.full.default else graph.call_function(*zeros)
    given = [arg.meta["val"] for arg in node.all_input_nodes if isinstance(arg.meta.get("val"), torch.Tensor)]
    if getattr(node.target, "overloadpacket", None) in _WRITES and any(0 in each.shape for each in given):
        return graph.call_function(aten.clone.default, (node.args[0],))
    summed = _PRODUCTS.get(node.target)
    if summed is None or node.args[summed].meta["val"].shape[-1] != 0:
        return None
    if summed == 0:
        return graph.call_function(*zeros)
    scaled = graph.call_function(aten.mul.Scalar, (node.args[0], node.kwargs.get("beta", 1)))
    scaled.meta = dict(node.args[0].meta)
    return graph.call_function(aten.expand.default, (scaled, list(value.shape)))
