"""Results of graphs that share memory with inputs, or with other results.

PyTorch makes such a result again when a graph has run: it reads sizes, strides and offset off the tensor that the graph
gives. A program gives tensors without gaps, of other strides. So PyTorch makes these views of the graph's inputs and
results, and the program does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx
from torch._functorch._aot_autograd.schemas import OutputType
from torch._guards import TracingContext
from torch._prims_common import is_contiguous_or_false
from torch.fx.experimental.symbolic_shapes import statically_known_true

from opsplice.common.reaching import reachable
from opsplice.torch.importing.lines import location_of
from opsplice.torch.importing.refusals import UnsupportedError

_ALIASES = (
    OutputType.alias_of_input,
    OutputType.alias_of_intermediate,
    OutputType.alias_of_intermediate_save_as_output,
    OutputType.alias_of_intermediate_base_is_user_output,
)


def aliases() -> frozenset[int]:
    """Which results of the forward graph that PyTorch has compiled now are aliases, by number."""
    context = TracingContext.try_get()
    known = context.fw_metadata if context else None
    if known is None:
        return frozenset()
    first = known.num_mutated_inp_runtime_indices
    return frozenset(first + i for i, each in enumerate(known.output_info) if each.output_type in _ALIASES)


def base_of(node: fx.Node) -> fx.Node | None:
    """The input or the computed tensor that a node is a view of; None where it is none.

    A view may have sizes of a tensor that lies between it and where it comes from in the end: then it is one of that.

    Raises UnsupportedError for views of sizes that only the graph knows, and for `as_strided` of a computed tensor that
    a program would give other strides.
    """
    sources = [node]
    while _is_view(sources[-1]):
        sources.append(sources[-1].all_input_nodes[0])
    base = next((each for each in reversed(sources[1:]) if _is_known(_needed(node, each), each)), None)
    if base is None:
        if len(sources) > 1 and not _is_in_order(node.meta["val"]):
            raise UnsupportedError(
                f"{location_of(node)}a result shares memory with another tensor, and has sizes of one that is computed",
                hint="return a copy: .clone()",
            )
        return None
    is_strided = base.op != "placeholder" and any(each.target is _STRIDED for each in _needed(node, base))
    if is_strided and not base.meta["val"].is_contiguous():
        raise UnsupportedError(
            f"{location_of(base)}a result of as_strided shares memory with a tensor that does not lie there in order",
            hint="return a copy: .clone()",
        )
    return base


def view_module(
    module: torch.nn.Module, graph: fx.Graph, bases: Sequence[fx.Node], views: Sequence[fx.Node]
) -> fx.GraphModule:
    """What makes the views of the graph's inputs and of tensors that it computes, given both."""
    apart = fx.Graph()
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    copied = {node: apart.placeholder(f"given_{number}") for number, node in enumerate((*inputs, *bases))}
    needed = set(reachable(views, lambda node: () if node in copied else node.all_input_nodes))
    for node in graph.nodes:
        if node in needed and node not in copied:
            copied[node] = apart.node_copy(node, lambda source: copied[source])
    apart.output(tuple(copied[node] for node in views))
    return fx.GraphModule(module, apart)


_STRIDED = torch.ops.aten.as_strided.default


def _needed(node: fx.Node, base: fx.Node) -> list[fx.Node]:
    return list(reachable([node], lambda each: () if each is base else each.all_input_nodes))


def _is_known(needed: Sequence[fx.Node], base: fx.Node) -> bool:
    return all(each is base or each.op == "placeholder" or _is_view(each) or _is_number(each) for each in needed)


def _is_in_order(value: torch.Tensor) -> bool:
    return is_contiguous_or_false(value) and statically_known_true(value.storage_offset() == 0)


def _is_view(node: fx.Node) -> bool:
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    returned = node.target._schema.returns
    return len(returned) == 1 and returned[0].alias_info is not None and not returned[0].alias_info.is_write


def _is_number(node: fx.Node) -> bool:
    return not isinstance(node.meta.get("val"), torch.Tensor) and (
        node.target is torch.ops.aten.sym_size.int
        or all(source.op == "placeholder" or _is_number(source) for source in node.all_input_nodes)
    )
