"""Products of complex numbers whose parts are all that a graph looks at: written by these parts.

Rotary embeddings are such products in many models: pairs of numbers become complex ones, are multiplied, and become
pairs again. Patterns see what is computed of each of a pair, and the compiler sees ops on floats alone.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from opsplice.torch.importing.graph_edits import put_like

aten = torch.ops.aten


def write_parts(graph: fx.Graph) -> None:
    """Write by its parts each product of two complex tensors of one type that becomes pairs of floats."""
    for node in graph.find_nodes(op="call_function", target=aten.view_as_real.default):
        product = node.args[0]
        if product.target is not aten.mul.Tensor or not all(map(_is_complex, product.args)):
            continue
        if len({each.meta["val"].dtype for each in (product, *product.args)}) == 1:  # else one becomes narrower in it
            with graph.inserting_before(node):
                node.replace_all_uses_with(_by_parts(node, *product.args))


def part_constants(module: torch.nn.Module, graph: fx.Graph) -> None:
    """Make complex constants of their parts: IREE makes no code of several complex numbers."""
    for node in graph.find_nodes(op="get_attr"):
        whole = getattr(module, str(node.target), None)
        if not isinstance(whole, torch.Tensor) or not whole.is_complex():
            continue
        with unset_fake_temporarily():
            parts = {f"{node.target}_{part}": getattr(whole, part).contiguous() for part in ("real", "imag")}
        with graph.inserting_before(node):
            for name, part in parts.items():
                module.register_buffer(name, part, persistent=False)
            made = put_like(node, aten.complex.default, node.meta.get("val", whole), *map(graph.get_attr, parts))
        node.replace_all_uses_with(made)
        graph.erase_node(node)


def _is_complex(arg: Any) -> bool:
    value = arg.meta.get("val") if isinstance(arg, fx.Node) else None
    return isinstance(value, torch.Tensor) and value.is_complex()


def _by_parts(node: fx.Node, left: fx.Node, right: fx.Node) -> fx.Node:
    """The pairs of floats that a product of two factors comes to. Sizes are those of the product: none is computed."""
    product = node.args[0]
    assert isinstance(product, fx.Node)
    whole = product.meta["val"]
    kind = whole.dtype.to_real()
    put = partial(put_like, node)

    def parts(factor: fx.Node) -> tuple[fx.Node, ...]:
        value = factor.meta["val"]
        is_pairs = factor.target is aten.view_as_complex.default
        both = value.new_empty((*value.shape, 2), dtype=kind)
        pairs = factor.args[0] if is_pairs else put(aten.view_as_real.default, both, factor)
        return tuple(put(aten.select.int, value.new_empty(value.shape, dtype=kind), pairs, -1, at) for at in (0, 1))

    floats = whole.new_empty(whole.shape, dtype=kind)
    (a, b), (c, d) = parts(left), parts(right)
    products = [put(aten.mul.Tensor, floats, *each) for each in ((a, c), (b, d), (b, c), (a, d))]
    real = put(aten.sub.Tensor, floats, *products[:2])
    imaginary = put(aten.add.Tensor, floats, *products[2:])
    return put(aten.view_as_real.default, node.meta["val"], put(aten.complex.default, whole, real, imaginary))
