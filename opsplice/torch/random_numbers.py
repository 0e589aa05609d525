"""Random numbers are PyTorch's: they are drawn before a program runs, in the order of the graph, and handed to it.

So a seed gives what it gives in eager, and no distribution is anyone else's.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import fx
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state

from opsplice.torch.lines import location_of
from opsplice.torch.refusals import UnsupportedError

_Nodes = dict[fx.Node, None]

# What a checkpoint draws with a state of the generator, to draw the same again in the backward pass.
_WITH_STATES = (run_and_save_rng_state, run_with_rng_state)


def take_draws(module: torch.nn.Module, graph: fx.Graph) -> fx.GraphModule | None:
    """Make inputs, behind the others, of the values that a graph draws; what draws them from the inputs is returned.

    None where the graph draws nothing. Raises UnsupportedError where a distribution depends on what the graph computes.
    """
    drawing = [node for node in graph.nodes if _draws(node)]
    drawn = [part for node in drawing for part in ([node] if _is_tensor(node) else node.users)]
    if not drawn:
        return None
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    needed = _needed(drawn)
    for node in needed:
        _check(node)
    apart = fx.Graph()
    copied: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        if node.op == "placeholder" or node in needed:
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


def _is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _draws(node: fx.Node) -> bool:
    if node.target in _WITH_STATES:
        return True
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def _needed(nodes: Iterable[fx.Node]) -> _Nodes:
    found: _Nodes = {}
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node not in found:
            found[node] = None
            pending += node.all_input_nodes
    return found


def _check(node: fx.Node) -> None:
    """Raise UnsupportedError for a node that computes what a distribution depends on."""
    if node.op != "call_function" or _draws(node) or not _is_tensor(node):
        return
    if any(_is_tensor(source) for source in node.all_input_nodes):
        raise UnsupportedError(
            f"{location_of(node)}the graph draws random numbers with what {node.target} computes",
            hint="compare torch.rand_like(p) with p, or put the call into a function with @torch.compiler.disable",
        )
