"""Random numbers are PyTorch's: they are drawn before a program runs, in the order of the graph, and handed to it.

So a seed gives what it gives in eager, and no distribution is anyone else's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import fx
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from opsplice.common.reaching import reachable
from opsplice.torch.importing.graph_edits import is_tensor
from opsplice.torch.importing.lines import location_of
from opsplice.torch.importing.refusals import UnsupportedError
from opsplice.torch.importing.symbolic_sizes import InputSizes

aten = torch.ops.aten

# What a checkpoint draws with a state of the generator, to draw the same again in the backward pass.
_WITH_STATES = (run_and_save_rng_state, run_with_rng_state)


def take_draws(module: torch.nn.Module, graph: fx.Graph) -> fx.GraphModule | None:
    """Make inputs, behind the others, of the values that a graph draws; what draws them from the inputs is returned.

    None where the graph draws nothing. Raises UnsupportedError where a distribution depends on what the graph computes.
    """
    drawing = [node for node in graph.nodes if _draws(node)]
    drawn = [part for node in drawing for part in ([node] if is_tensor(node) else node.users)]
    if not drawn:
        return None
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    needed = dict.fromkeys(reachable(drawn, lambda node: () if _is_computed_size(node) else node.all_input_nodes))
    for node in needed:
        _check(node)
    apart = fx.Graph()
    copied: dict[fx.Node, Any] = {node: apart.node_copy(node) for node in inputs}
    sizes = InputSizes(apart, copied if any(map(_is_computed_size, needed)) else {})
    for node in graph.nodes:
        if node in needed and _is_computed_size(node):
            (copied[node],) = sizes.written([node.meta["val"]])
        elif node in needed and node not in copied:
            copied[node] = apart.node_copy(node, lambda source: copied[source])
    apart.output(tuple(copied[node] for node in drawn))
    for number, node in enumerate(drawn):
        with graph.inserting_after(inputs[-1] if inputs else graph._root):
            given = graph.placeholder(f"drawn_{number}")
        given.meta = dict(node.meta)
        node.replace_all_uses_with(given)
        graph.erase_node(node)
        inputs.append(given)
    for node in drawing:
        if node in graph.nodes and not node.users:
            graph.erase_node(node)
    return fx.GraphModule(module, apart)


def refuse_draws(functions: Iterable[fx.Graph]) -> None:
    """Raise UnsupportedError where functions draw: how often is known when a program runs only."""
    for node in (node for graph in functions for node in graph.nodes if _draws(node)):
        raise UnsupportedError(
            f"{location_of(node)}a branch or a loop draws random numbers with {node.target}",
            hint="draw them before it, and let it use them",
        )


def _is_computed_size(node: fx.Node) -> bool:
    """Whether a node is a size of a tensor that the graph computes, which sizes of its inputs say as well."""
    if node.target is not aten.sym_size.int or node.args[0].op == "placeholder":
        return False
    return not any(free_unbacked_symbols(node.meta["val"]))


def _draws(node: fx.Node) -> bool:
    if node.target in _WITH_STATES:
        return True
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def _check(node: fx.Node) -> None:
    """Raise UnsupportedError for a node that computes what a distribution depends on; new memory has no numbers."""
    if node.op != "call_function" or _draws(node) or not is_tensor(node):
        return
    if any(is_tensor(source) and source.target != aten.empty.memory_format for source in node.all_input_nodes):
        raise UnsupportedError(
            f"{location_of(node)}the graph draws random numbers with what {node.target} computes",
            hint="compare torch.rand_like(p) with p, or put the call into a function with @torch.compiler.disable",
        )
