"""Sizes of tensors that PyTorch knows as expressions, such as `(h - 1) // 2 + 1`, in MLIR."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import add, mul
from typing import Any

import sympy
import torch
from iree.compiler import ir
from torch.utils._sympy import functions

# By a symbol, too, as in the maps that MLIR calls semi-affine. PyTorch makes a FloorDiv of what rounds up.
_OF_TWO: dict[type[sympy.Expr], Callable[[ir.AffineExpr, ir.AffineExpr], ir.AffineExpr]] = {
    functions.CleanDiv: ir.AffineExpr.get_floor_div,
    functions.FloorDiv: ir.AffineExpr.get_floor_div,
    functions.Mod: ir.AffineExpr.get_mod,
    functions.PythonMod: ir.AffineExpr.get_mod,
    sympy.Mod: ir.AffineExpr.get_mod,
}


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
