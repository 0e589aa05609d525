"""Ops that take functions, in ops that take none.

IREE 3.13 leaves the mask of flex_attention out. It is written out as PyTorch defines it: scores of all pairs, which its
functions then change. It has no scan and no map: these become a loop, and one call over all rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.flex_attention import math_attention
from torch._higher_order_ops.while_loop import while_loop_op
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree

from opsplice.torch.decompositions import places_in_memory
from opsplice.torch.decompositions.complex_numbers import conjugate
from opsplice.torch.decompositions.table import table


def functions(module: torch.nn.Module, graph: fx.Graph) -> list[fx.GraphModule]:
    """The functions that a graph of a module names, and those that these name."""
    found = _named(module, graph)
    return [*found, *(inner for part in found for inner in functions(part, part.graph))]


def _named(module: torch.nn.Module, graph: fx.Graph) -> list[fx.GraphModule]:
    named = {str(node.target): getattr(module, str(node.target)) for node in graph.find_nodes(op="get_attr")}
    return [part for part in named.values() if isinstance(part, fx.GraphModule)]


def write_out(module: torch.nn.Module, graph: fx.Graph) -> None:
    """Put what such ops compute in their place. module: what has the functions that the graph names."""
    _write_out_all(module, graph, _MEANINGS)


def write_out_places(module: torch.nn.Module, graph: fx.Graph) -> None:
    """Put reads of elements in the place of `as_strided`, once it is known which results are views."""
    _write_out_all(module, graph, _OF_PLACES)


def _write_out_all(module: torch.nn.Module, graph: fx.Graph, meanings: Mapping[Any, Callable[..., Any]]) -> None:
    for part in _named(module, graph):
        _write_out_all(part, part.graph, meanings)
        part.recompile()
    nodes = [node for node in graph.nodes if node.target in meanings]
    for node in nodes:
        _write_out(module, node, meanings[node.target])
    if nodes:
        graph.eliminate_dead_code()
        named = {node.target for node in graph.find_nodes(op="get_attr")}
        for name, part in list(module.named_children()):
            if isinstance(part, fx.GraphModule) and name not in named:
                delattr(module, name)


class _LeftToIreeError(Exception):
    """An op that nothing is put in the place of."""


def _write_out(module: torch.nn.Module, node: fx.Node, meaning: Callable[..., Any]) -> None:
    given, tree = _pytree.tree_flatten(node.args)
    values = [_value(module, each) for each in given]
    inputs = [n for n, value in enumerate(values) if isinstance(value, (torch.Tensor, torch.SymInt))]

    def computed(*arguments: Any) -> Any:
        for number, argument in zip(inputs, arguments, strict=True):
            values[number] = argument
        made = meaning(*_pytree.tree_unflatten(values, tree))
        if made is NotImplemented:
            raise _LeftToIreeError
        return made

    with next(value.fake_mode for value in values if isinstance(value, FakeTensor)):
        arguments = [_as_in_memory(values[number]) for number in inputs]
        try:
            traced = make_fx(computed, table(), _allow_non_fake_inputs=True)(*arguments)
        except _LeftToIreeError:
            return
    traced.graph.eliminate_dead_code()
    placed = dict(zip(traced.graph.find_nodes(op="placeholder"), (given[number] for number in inputs), strict=True))
    with node.graph.inserting_before(node):
        for inner in traced.graph.nodes:
            if inner.op == "get_attr":
                placed[inner] = node.graph.get_attr(_kept(module, getattr(traced, inner.target)))
                placed[inner].meta = dict(inner.meta)
        before = set(node.graph.nodes)
        results = node.graph.graph_copy(traced.graph, placed)
    for each in set(node.graph.nodes) - before:
        each.meta["stack_trace"] = node.meta.get("stack_trace")
    parts = [node] if isinstance(results, fx.Node) else list(node.users)
    for part in parts:
        result = results if part is node else results[part.args[1]]
        part.replace_all_uses_with(result)
        node.graph.erase_node(part)
        if result is not None:
            result.name = part.name  # by which signatures of programs know it
    if node not in parts:
        node.graph.erase_node(node)


def _as_in_memory(value: Any) -> Any:
    """The memory that a program gets has no lazy conjugates and negatives."""
    return value.resolve_conj().resolve_neg() if isinstance(value, torch.Tensor) else value


def _value(module: torch.nn.Module, given: Any) -> Any:
    """What an argument is: a function, a tensor without numbers, or itself."""
    if not isinstance(given, fx.Node):
        return given
    return getattr(module, str(given.target)) if given.op == "get_attr" else given.meta["val"]


def _kept(module: torch.nn.Module, part: torch.Tensor | torch.nn.Module) -> str:
    """The name that a constant or a function gets in a module."""
    name = next(each for number in itertools.count() if not hasattr(module, each := f"_written_out_{number}"))
    if isinstance(part, torch.nn.Module):
        module.add_module(name, part)
    else:
        module.register_buffer(name, part)
    return name


def _over_rows(function: Callable[..., Any], rows: Sequence[Any], read: Sequence[Any]) -> Any:
    return torch.vmap(function, (0,) * len(rows) + (None,) * len(read))(*rows, *read)


def _in_steps(combine: Callable[..., Any], first: Sequence[Any], rows: Sequence[Any], read: Sequence[Any]) -> Any:
    """A scan as a loop that counts, and writes a row of each result in a step."""
    shapes = combine(*first, *(each[0] for each in rows), *read)[len(first) :]
    written = [each.new_zeros([rows[0].shape[0], *each.shape]) for each in shapes]
    start = len(first) + len(written)

    def is_left(step: int, *others: Any) -> bool:
        return step < others[start].shape[0]

    def stepped(step: int, *others: Any) -> tuple[Any, ...]:
        state, so_far, rest = others[: len(first)], others[len(first) : start], others[start:]
        torch._check(step >= 0)
        torch._check(step < rest[0].shape[0])
        results = combine(*state, *(each.select(0, step) for each in rest[: len(rows)]), *rest[len(rows) :])
        made = zip(so_far, results[len(first) :], strict=True)
        return step + 1, *results[: len(first)], *(all_.select_scatter(row, 0, step) for all_, row in made)

    return while_loop_op(is_left, stepped, (0, *first, *written), (*rows, *read))[1:]


_MEANINGS: dict[Any, Callable[..., Any]] = {
    torch.ops.aten._conj.default: conjugate,  # of what is a lazy conjugate already
    torch.ops.aten._neg_view.default: torch.neg,
    torch.ops.higher_order.flex_attention: math_attention,
    torch.ops.higher_order.map_impl: _over_rows,
    torch.ops.higher_order.scan: _in_steps,
}

_OF_PLACES: dict[Any, Callable[..., Any]] = {torch.ops.aten.as_strided.default: places_in_memory.read}
