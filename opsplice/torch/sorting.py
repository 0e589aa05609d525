"""Sorts as IREE 3.13 takes them.

IREE sorts in place, and lets the sorts of a program share the numbers 0, 1, 2, ... that become their indices: all but
one then give wrong ones. So each sort of a graph gets rows of another length; what is added is last, and is cut off.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten


def keep_sorts_apart(graph: fx.Graph) -> None:
    """Write the sorts of a graph such that they share nothing."""
    for number, node in enumerate(graph.find_nodes(op="call_function", target=aten.sort.stable)):
        # Every sort of IREE's is stable, and it knows no other by name.
        node.target = aten.sort.default
        node.args = (node.args[0], node.kwargs.get("dim", -1), node.kwargs.get("descending", False))
        node.kwargs = {}
        if number:
            _lengthen(node, number)


def _lengthen(node: fx.Node, by: int) -> None:
    tensor, dim, descending = node.args
    given = tensor.meta["val"]
    amounts = [0] * (2 * (given.dim() - 1 - dim % given.dim()) + 1) + [by]
    parts = [(part, part.args[1]) for part in node.users]
    with node.graph.inserting_before(node):
        longer = _call(node, aten.constant_pad_nd.default, tensor, amounts, _last(given.dtype, descending))
        sort = _call(node, aten.sort.default, longer, dim, descending)
        for part, number in parts:
            whole = _call(node, operator.getitem, sort, number)
            cut = _call(node, aten.slice.Tensor, whole, dim, 0, given.shape[dim])
            part.replace_all_uses_with(cut)
            node.graph.erase_node(part)
            cut.name = part.name  # by which signatures of programs know it
    node.graph.erase_node(node)


def _last(dtype: torch.dtype, descending: bool) -> float:
    """What a stable sort has after all else."""
    if dtype.is_floating_point:
        return -torch.inf if descending else torch.inf
    return torch.iinfo(dtype).min if descending else torch.iinfo(dtype).max


def _call(like: fx.Node, target: Any, *args: Any) -> fx.Node:
    """A node at the place of another one that comes from the same line."""
    node = like.graph.call_function(target, args)
    values = [arg.meta["val"] if isinstance(arg, fx.Node) else arg for arg in args]
    node.meta = {"val": target(*values), "stack_trace": like.meta.get("stack_trace")}
    return node
