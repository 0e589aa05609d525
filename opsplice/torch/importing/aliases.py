"""Results of graphs that share memory with inputs, or with other results.

PyTorch makes such a result again when a graph has run: it reads sizes, strides and offset off the tensor that the graph
gives. A program gives tensors without gaps, whose dims are in order in memory. So PyTorch makes these views of the
graph's inputs and results, and the program does not. What they are views of has its dims in the order that PyTorch has.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum, auto

import torch
from torch import fx
from torch._functorch._aot_autograd.schemas import OutputType
from torch._guards import TracingContext
from torch._prims_common import is_contiguous_or_false
from torch.fx.experimental.symbolic_shapes import statically_known_true

from opsplice.common.reaching import reachable
from opsplice.torch.decompositions.places_in_memory import order_in_memory
from opsplice.torch.importing.lines import location_of
from opsplice.torch.importing.refusals import UnsupportedError

aten = torch.ops.aten

_ALIASES = (
    OutputType.alias_of_input,
    OutputType.alias_of_intermediate,
    OutputType.alias_of_intermediate_save_as_output,
    OutputType.alias_of_intermediate_base_is_user_output,
)


class Memory(Enum):
    """What a result that leaves compiled code may share memory with."""

    READ = auto()  # what PyTorch says, which reads off the result how it lies there
    SHARED = auto()  # other results
    OWN = auto()  # nothing


def returned_tensors(part: str, module: fx.GraphModule) -> dict[int, Memory]:
    """The results of a part, `forward`, `backward` or `inference`, that leave compiled code, by number.

    Gradients have memory of their own: PyTorch adds up later ones there.
    """
    if part == "backward":
        return dict.fromkeys(range(len(module.graph.output_node().args[0])), Memory.OWN)
    context = TracingContext.try_get()
    known = context.fw_metadata if context else None
    if known is None:
        return {}
    first = known.num_mutated_inp_runtime_indices
    return {
        first + number: Memory.READ if each.output_type in _ALIASES else Memory.SHARED
        for number, each in enumerate(known.output_info)
    }


def bases_of(results: Sequence[tuple[fx.Node, Memory]]) -> dict[fx.Node, fx.Node]:
    """The inputs and the computed tensors of which results are to be views, by result.

    What is shared is a view where another result is one of the same tensor that the graph computes, or is that tensor:
    PyTorch leaves these to the program.

    Raises UnsupportedError as `base_of` does.
    """
    found = {node: base for node, memory in results if memory is Memory.READ and (base := base_of(node))}
    left = [node for node, memory in results if memory is not Memory.OWN and node not in found]
    others = {node: _base(_sources(node)) or node for node in left}
    sharing = Counter([*found.values(), *others.values()])
    shared = {base for base, number in sharing.items() if number > 1 and base.op != "placeholder"}
    dense = {base for base in shared if order_of(base) is not None}
    return found | {node: base for node, base in others.items() if base is not node and base in dense}


def order_of(node: fx.Node) -> list[int] | None:
    """The order in memory of a tensor that begins there, None where it does not or is not known to be dense."""
    value = node.meta["val"]
    begins = statically_known_true(value.storage_offset() == 0)
    return order_in_memory(value.shape, value.stride()) if begins else None


def base_of(node: fx.Node) -> fx.Node | None:
    """The input or the computed tensor that a node is a view of; None where it is none.

    Raises UnsupportedError for views of sizes that only the graph knows, and for `as_strided` of a computed tensor that
    a program would give other strides.
    """
    sources = _sources(node)
    base = _base(sources)
    if base is None:
        if len(sources) > 1 and not _is_in_order(node.meta["val"]):
            raise UnsupportedError(
                f"{location_of(node)}a result shares memory with another tensor, and has sizes of one that is computed",
                hint="return a copy: .clone()",
            )
        return None
    is_strided = base.op != "placeholder" and any(each.target is _STRIDED for each in _needed(node, base))
    if is_strided and order_of(base) is None:
        raise UnsupportedError(
            f"{location_of(base)}a result of as_strided shares memory with a tensor that has gaps there",
            hint="return a copy: .clone()",
        )
    return base


def view_module(
    module: torch.nn.Module,
    graph: fx.Graph,
    bases: Mapping[fx.Node, Sequence[int]],
    views: Sequence[tuple[fx.Node, bool]],
) -> fx.GraphModule:
    """What makes the views of the graph's inputs and of tensors that it computes, given both.

    bases: these tensors, with the dims of each in the order in which the program gives them, if that is another.
    views: with whether PyTorch makes each again, step by step, since gradients go back by these steps. The others are
    detached: PyTorch lets nobody who asks for gradients change a view that was made where none are.
    """
    apart = fx.Graph()
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    copied = {node: apart.placeholder(f"given_{number}") for number, node in enumerate((*inputs, *bases))}
    for node, order in bases.items():
        back = sorted(range(len(order)), key=order.__getitem__)
        if order:
            copied[node] = apart.call_function(aten.permute.default, (copied[node], back))
    nodes = [node for node, _ in views]
    needed = set(reachable(nodes, lambda node: () if node in copied else node.all_input_nodes))
    for node in graph.nodes:
        if node in needed and node not in copied:
            copied[node] = apart.node_copy(node, lambda source: copied[source])
    made = (copied[n] if is_again else apart.call_function(aten.detach.default, (copied[n],)) for n, is_again in views)
    apart.output(tuple(made))
    return fx.GraphModule(module, apart)


_STRIDED = aten.as_strided.default


def _sources(node: fx.Node) -> list[fx.Node]:
    """A node, what it is a view of, and so on."""
    sources = [node]
    while _is_view(sources[-1]):
        sources.append(sources[-1].all_input_nodes[0])
    return sources


def _base(sources: Sequence[fx.Node]) -> fx.Node | None:
    """What the first of some sources is a view of. A view may have sizes of a tensor that lies between it and where it
    comes from in the end: then it is one of that."""
    views = reversed(sources[1:])
    return next((each for each in views if _is_known(_needed(sources[0], each), each)), None)


def _needed(node: fx.Node, base: fx.Node) -> list[fx.Node]:
    return list(reachable([node], lambda each: () if each is base else each.all_input_nodes))


def _is_known(needed: Sequence[fx.Node], base: fx.Node) -> bool:
    return all(each is base or each.op == "placeholder" or _is_view(each) or _is_number(each) for each in needed)


def _is_in_order(value: torch.Tensor) -> bool:
    return is_contiguous_or_false(value) and statically_known_true(value.storage_offset() == 0)


def _is_view(node: fx.Node) -> bool:
    if node.target is operator.getitem:
        node = node.args[0]
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    returned = node.target._schema.returns
    return len(returned) == 1 and returned[0].alias_info is not None and not returned[0].alias_info.is_write


def _is_number(node: fx.Node) -> bool:
    return not isinstance(node.meta.get("val"), torch.Tensor) and (
        node.target is aten.sym_size.int
        or all(source.op == "placeholder" or _is_number(source) for source in node.all_input_nodes)
    )
