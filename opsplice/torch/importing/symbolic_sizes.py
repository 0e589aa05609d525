"""Sizes of tensors that PyTorch knows as expressions, such as `(h - 1) // 2 + 1`, in MLIR.

    torch.bind_symbolic_shape %x, [%s0], affine_map<()[s0] -> (2, (s0 - 1) floordiv 2 + 1)>

So the compiler and the patterns see which sizes are equal, and what a size is at least.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add, mul
from typing import Any

import sympy
import torch
from iree.compiler import ir
from iree.compiler.extras.fx_importer import GraphNodeImporter, RangeConstraint
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._sympy import functions
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

# By a symbol, too, as in the maps that MLIR calls semi-affine. PyTorch makes a FloorDiv of what rounds up.
_OF_TWO: dict[type[sympy.Expr], Callable[[ir.AffineExpr, ir.AffineExpr], ir.AffineExpr]] = {
    functions.CleanDiv: ir.AffineExpr.get_floor_div,
    functions.FloorDiv: ir.AffineExpr.get_floor_div,
    functions.Mod: ir.AffineExpr.get_mod,
    functions.PythonMod: ir.AffineExpr.get_mod,
    sympy.Mod: ir.AffineExpr.get_mod,
}


class SizeImporter(GraphNodeImporter):
    """IREE's importer of nodes, which says more of their sizes."""

    def _create_bind_symbolic_shape_ops(self, loc: ir.Location, node: fx.Node) -> None:
        """Say what the sizes of a tensor are. Of those that it does not know, IREE's importer knows none at all."""
        value = node.meta.get("val")
        if not isinstance(value, FakeTensor) or all(isinstance(size, int) for size in value.shape):
            return
        with loc:
            found = shape_map(value.shape)
            if found is not None and all(name in self._symbol_to_value for name in found[1]):
                expressions, names = found
                operands = [self.resolve_node_value(node), *map(self.resolve_symbol_value, names)]
                attributes = {"shape_expressions": expressions}
                ir.Operation.create("torch.bind_symbolic_shape", [], operands, attributes)


def limits(graph: fx.Graph) -> dict[str, RangeConstraint]:
    """What PyTorch guards of the sizes of a graph's inputs, by the names of their symbols."""
    found = {}
    for node in graph.find_nodes(op="placeholder"):
        for size in getattr(node.meta.get("val"), "shape", ()):
            if isinstance(size, torch.SymInt) and isinstance(size.node.expr, sympy.Symbol):
                known = size.node.shape_env.var_to_range[size.node.expr]
                found[str(size.node.expr)] = RangeConstraint(*map(_integer, (known.lower, known.upper)))
    return found


def _integer(limit: Any) -> int:
    return int(min(limit, torch.iinfo(torch.int64).max))


def read_from_tensors(graph: fx.Graph) -> None:
    """Take sizes from the tensors that have them, where a graph is given both. Of a number alone nobody knows whose
    size it is, nor that it is not below 0."""
    given = graph.find_nodes(op="placeholder")
    numbers = {
        str(node.meta["val"].node.expr): node for node in given if isinstance(node.meta.get("val"), torch.SymInt)
    }
    with graph.inserting_after(given[-1] if given else graph._root):
        for node in given:
            for dim, size in enumerate(getattr(node.meta.get("val"), "shape", ())):
                number = numbers.pop(str(size.node.expr), None) if isinstance(size, torch.SymInt) else None
                if number is not None:
                    read = graph.call_function(torch.ops.aten.sym_size.int, (node, dim))
                    read.meta = dict(number.meta)
                    number.replace_all_uses_with(read)


class InputSizes:
    """Sizes as a graph computes them from those of its inputs.

    inputs: nodes of a graph that have values, and what stands for each in the graph that is written to.
    """

    def __init__(self, graph: fx.Graph, inputs: Mapping[fx.Node, fx.Node]) -> None:
        tracer = _ValueTracer(graph)
        self._symbols: dict[Any, fx.Proxy] = {}
        for node, given in inputs.items():
            value = node.meta.get("val")
            for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
                if isinstance(size, torch.SymInt) and size.node.expr not in self._symbols:
                    read = graph.call_function(torch.ops.aten.sym_size.int, (given, dim))
                    read.meta = {"val": size}
                    self._symbols[size.node.expr] = fx.Proxy(read, tracer)
        for node, given in inputs.items():
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt):
                self._symbols.setdefault(value.node.expr, fx.Proxy(given, tracer))

    def know(self, sizes: Sequence[int | torch.SymInt]) -> bool:
        """Whether the inputs say these sizes."""
        expressions = [each.node.expr for each in sizes if isinstance(each, torch.SymInt)]
        return all(symbol in self._symbols for each in expressions for symbol in each.free_symbols)

    def written(self, sizes: Sequence[int | torch.SymInt]) -> list[int | fx.Node]:
        """Nodes that compute the sizes, where the graph is written to; numbers stay as they are."""
        made = [
            sympy_interp(PythonReferenceAnalysis, self._symbols, each.node.expr)
            if isinstance(each, torch.SymInt)
            else each
            for each in sizes
        ]
        return [each.node if isinstance(each, fx.Proxy) else int(each) for each in made]


class _ValueTracer(fx.proxy.GraphAppendingTracer):
    """Has each node say which number it is, as PyTorch's own do."""

    def create_node(self, kind: str, target: Any, args: Any, kwargs: Any, *others: Any) -> fx.Node:
        node = super().create_node(kind, target, args, kwargs, *others)
        node.meta = {"val": target(*fx.node.map_arg(args, lambda each: each.meta["val"]))}
        return node


def shape_map(sizes: torch.Size) -> tuple[ir.AffineMapAttr, list[str]] | None:
    """The sizes of a tensor as a map of symbols, with their names; None where one of them has no form in MLIR."""
    expressions = [each.node.expr if isinstance(each, torch.SymInt) else sympy.Integer(each) for each in sizes]
    symbols = sorted({symbol for each in expressions for symbol in each.free_symbols}, key=str)
    known = {symbol: ir.AffineExpr.get_symbol(number) for number, symbol in enumerate(symbols)}
    made = [_affine(each, known) for each in expressions]
    if any(each is None for each in made):
        return None
    return ir.AffineMapAttr.get(ir.AffineMap.get(0, len(symbols), made)), [str(symbol) for symbol in symbols]


def _affine(size: Any, known: Mapping[Any, ir.AffineExpr]) -> ir.AffineExpr | None:
    if isinstance(size, sympy.Symbol):
        return known[size]
    if isinstance(size, sympy.Integer):
        return ir.AffineExpr.get_constant(int(size))
    if isinstance(size, sympy.Pow) and isinstance(size.exp, sympy.Integer) and size.exp > 0:
        parts, combine = [size.base] * int(size.exp), mul
    elif isinstance(size, (sympy.Add, sympy.Mul)):
        parts, combine = list(size.args), add if isinstance(size, sympy.Add) else mul
    elif type(size) in _OF_TWO:
        parts, combine = list(size.args), _OF_TWO[type(size)]
    else:
        return None
    made = [_affine(part, known) for part in parts]
    return None if any(each is None for each in made) else reduce(combine, made)
