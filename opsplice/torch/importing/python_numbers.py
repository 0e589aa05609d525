"""What a graph computes with Python's numbers, as ops that IREE's importer takes.

Sizes such as `int(height * 1.5)` are computed with floats of 64 bits. A host that runs IREE's programs has none of
these, so tensors of one number compute them on the device.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from iree.compiler.extras.fx_importer import TENSOR_SCALAR_OP_CONVERTER
from torch import fx
from torch._guards import detect_fake_mode
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten

# Functions of integers.
_OF_INTEGERS = {torch.sym_max: torch.ops.prim.max.int, torch.sym_min: torch.ops.prim.min.int}

# Functions whose result is a size, of a float.
_ROUNDED = {
    math.ceil: aten.ceil.default,
    math.floor: aten.floor.default,
    math.trunc: aten.trunc.default,
    builtins.round: aten.round.default,
}

# Functions of floats.
_OF_FLOATS: dict[Callable[..., Any], Any] = {
    operator.abs: aten.abs.default,
    operator.add: aten.add.Tensor,
    operator.mul: aten.mul.Tensor,
    operator.neg: aten.neg.default,
    operator.pow: aten.pow.Tensor_Tensor,
    operator.sub: aten.sub.Tensor,
    operator.truediv: aten.div.Tensor,
    torch._sym_sqrt: aten.sqrt.default,
    torch.sym_max: aten.maximum.default,
    torch.sym_min: aten.minimum.default,
}

# Those of them that IREE's importer knows.
_KNOWN = (operator.add, operator.mul, operator.neg, operator.sub, operator.truediv)


def write_numbers(graph: fx.Graph) -> None:
    """Replace functions of Python's numbers that IREE's importer does not know, and numbers where it wants tensors."""
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if node.target is aten.sym_stride.int:
            _multiply_sizes(graph, node)
        elif isinstance(node.target, torch._ops.OpOverload):
            _give_tensors(graph, node)
        elif node.op != "call_function" or not isinstance(value, (torch.SymInt, torch.SymFloat)):
            continue
        elif isinstance(value, torch.SymInt) and node.target in _OF_INTEGERS and len(node.args) == 2:
            node.target = _OF_INTEGERS[node.target]
        elif node.target is torch.sym_sum:
            _add_up(graph, node)
        elif isinstance(value, torch.SymInt) and node.target is operator.pow and type(node.args[1]) is int:
            _multiply(graph, node)
        elif isinstance(value, torch.SymInt) and node.target is operator.mod:
            _divide(graph, node)
        elif node.target is torch.sym_float:
            node.target = aten.Float.Scalar
        elif node.target in _ROUNDED or (isinstance(value, torch.SymFloat) and node.target not in _KNOWN):
            _read_from_tensor(graph, node)
    graph.eliminate_dead_code()


def _give_tensors(graph: fx.Graph, node: fx.Node) -> None:
    """Numbers that IREE's importer has no other op for, such as what a tensor is divided by and rounded."""
    if f"torch.{node.target}" in TENSOR_SCALAR_OP_CONVERTER:
        return
    for number, (wanted, arg) in enumerate(zip(node.target._schema.arguments, node.args, strict=False)):
        value = arg.meta.get("val") if isinstance(arg, fx.Node) else None
        if isinstance(wanted.type, torch.TensorType) and isinstance(value, (torch.SymInt, torch.SymFloat)):
            kind = torch.int64 if isinstance(value, torch.SymInt) else torch.float64
            with graph.inserting_before(node):
                node.update_arg(number, _added(graph, aten.scalar_tensor.default, arg, dtype=kind))


def _add_up(graph: fx.Graph, node: fx.Node) -> None:
    """PyTorch joins the terms of long sums."""
    terms = [term for term in node.args[0] if isinstance(term, fx.Node)]
    number = sum(term for term in node.args[0] if not isinstance(term, fx.Node))
    total = terms[0]
    with graph.inserting_before(node):
        for term in terms[1:]:
            total = _added(graph, operator.add, total, term)
    node.target, node.args = operator.add, (total, number)


def _multiply_sizes(graph: fx.Graph, node: fx.Node) -> None:
    """How far elements lie apart in memory: a product of the sizes of other dims, where the tensor is dense."""
    tensor, dim = node.args
    value = tensor.meta["val"]
    left, stride, total = set(range(value.dim())) - {dim}, value.stride(dim), 1
    with graph.inserting_before(node):
        while not statically_known_true(stride == 1):
            inner = (each for each in left if statically_known_true(value.stride(each) * value.shape[each] == stride))
            dim = next(inner, None)
            if dim is None:
                return
            left.remove(dim)
            stride, size = value.stride(dim), _added(graph, aten.sym_size.int, tensor, dim)
            total = size if total == 1 else _added(graph, operator.mul, total, size)
    node.replace_all_uses_with(total)


def _multiply(graph: fx.Graph, node: fx.Node) -> None:
    """A power of a size, which PyTorch makes of products with itself."""
    number, exponent = node.args
    total = number
    with graph.inserting_before(node):
        for _ in range(exponent - 2):
            total = _added(graph, operator.mul, total, number)
    node.target, node.args = operator.mul, (total, number)


def _divide(graph: fx.Graph, node: fx.Node) -> None:
    """The rest of Python's division, which has the sign of the divisor: the importer takes C's."""
    number, divisor = node.args
    with graph.inserting_before(node):
        whole = _added(graph, operator.floordiv, number, divisor)
        node.target, node.args = operator.sub, (number, _added(graph, operator.mul, whole, divisor))


def _read_from_tensor(graph: fx.Graph, node: fx.Node) -> None:
    rounds = _ROUNDED.get(node.target)
    with graph.inserting_before(node):
        made = _tensor(graph, node if rounds is None else node.args[0])
        if made is None or (rounds and len(node.args) > 1):
            return
        if rounds:
            rounded = _added(graph, rounds, made)
            made = _added(graph, torch.ops.prims.convert_element_type.default, rounded, torch.int64)
        instead = graph.call_function(aten.item.default, (made,))
        instead.meta = dict(node.meta)
        node.replace_all_uses_with(instead)


def _tensor(graph: fx.Graph, number: Any) -> fx.Node | None:
    """A tensor of one float of 64 bits, computed as a number is; None where an op of it has no form on tensors."""
    if not isinstance(number, fx.Node) or isinstance(number.meta["val"], torch.SymInt):
        return _added(graph, aten.scalar_tensor.default, number, dtype=torch.float64)
    if number.target is aten.Float.Scalar:
        return _tensor(graph, number.args[0])
    if number.target in (aten.item.default, aten._local_scalar_dense.default):
        return _added(graph, torch.ops.prims.convert_element_type.default, number.args[0], torch.float64)
    if number.target not in _OF_FLOATS:
        return None
    parts = [_tensor(graph, part) for part in number.args]
    return None if None in parts else _added(graph, _OF_FLOATS[number.target], *parts)


def _added(graph: fx.Graph, op: Any, *args: Any, **options: Any) -> fx.Node:
    node = graph.call_function(op, args, options)
    given, named = fx.node.map_arg((args, options), lambda each: each.meta["val"])
    mode = detect_fake_mode([each.meta.get("val") for each in graph.nodes])
    assert mode is not None
    with mode:
        node.meta["val"] = op(*given, **named)
    return node
