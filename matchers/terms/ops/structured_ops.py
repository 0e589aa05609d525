"""Structured ops, read once: their maps, their operands and the ops of their bodies.

A search looks at an op at many indices. What does not depend on them is kept here, so that another look asks nothing
of MLIR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iree.compiler import ir
from iree.compiler._mlir_libs._mlirDialectsLinalg import get_indexing_maps

from opsplice.matchers.ir.tensor_values import defining_op, element_type, indexing_maps, is_structured, shape_of
from opsplice.matchers.terms.attributes import IGNORED, payload_text, rounds_to_nearest
from opsplice.matchers.terms.terms import UNIT, Access, Affine, DimSize, Index, Sum, summed

# What an operand is read at along each of its dims: the number of a loop, or an expression over loops.
Map = tuple[int | ir.AffineExpr, ...]
Attributes = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Operand:
    """A value that an op takes. shape: None for a scalar."""

    value: ir.Value
    shape: tuple[int | None, ...] | None
    map: Map

    @staticmethod
    def of(value: ir.Value, affine_map: ir.AffineMap) -> Operand:
        shape = shape_of(value) if isinstance(value.type, ir.RankedTensorType) else None
        return Operand(value, shape, tuple(map(_position, affine_map.results)))

    def at(self, loops: Mapping[int, Index]) -> Access:
        """The element with loops set to indices; a scalar's has none."""
        if self.shape is None:
            return Access(self.value, ())
        pairs = zip(self.map, self.shape, strict=True)
        return Access(self.value, tuple(UNIT if size == 1 else _index_of(each, loops, size) for each, size in pairs))


@dataclass(frozen=True)
class Scalar:
    """An op in a body. types: its results' element types; attributes: those that change its meaning."""

    op: ir.Operation
    name: str
    operands: tuple[ir.Value, ...]
    results: tuple[ir.Value, ...]
    types: tuple[str, ...]
    attributes: Attributes
    rounds_to_nearest: bool

    @staticmethod
    def of(op: ir.Operation) -> Scalar:
        results = tuple(op.results)
        types = tuple(map(element_type, results))
        return Scalar(op, op.name, tuple(op.operands), results, types, attributes_of(op), rounds_to_nearest(op))


@dataclass(frozen=True)
class Structured:
    """A structured op. dims: how many loops it has; inputs: how many operands are not outputs.

    sizes: of the loops that run over a dim of an operand. arguments: those of the body, with the numbers of operands.
    inside: what the body makes. yielded: what it ends with.
    """

    op: ir.Operation
    dims: int
    operands: tuple[Operand, ...]
    inputs: int
    sizes: Mapping[int, int | DimSize]
    arguments: Mapping[ir.Value, int]
    scalars: tuple[Scalar, ...]
    inside: frozenset[ir.Value]
    yielded: tuple[ir.Value, ...]

    @staticmethod
    def of(op: ir.Operation) -> Structured | None:
        """None for an op without maps or a body."""
        if not is_structured(op):
            return None
        maps = indexing_maps(op)
        operands = tuple(map(Operand.of, op.operands, maps))
        block = op.regions[0].blocks[0]
        *inner, last = block.operations
        scalars = tuple(Scalar.of(each.operation) for each in inner)
        return Structured(
            op,
            maps[0].n_dims,
            operands,
            len(maps) - len(op.results),
            loop_sizes(operands),
            {value: number for number, value in enumerate(block.arguments)},
            scalars,
            frozenset(value for each in scalars for value in each.results),
            tuple(last.operands),
        )

    def yielded_op(self, number: int) -> ir.Operation | None:
        """The op of the body that makes what result `number` is."""
        value = self.yielded[number]
        return defining_op(value) if value in self.inside else None

    def accumulator(self, number: int) -> ir.Value | None:
        """The argument of the body that holds what result `number` is so far."""
        position = self.inputs + number
        return next((value for value, at in self.arguments.items() if at == position), None)


def attributes_of(op: ir.Operation) -> Attributes:
    """The attributes that change what an op computes, as text."""
    names = [a for a in op.attributes if a not in IGNORED and "." not in a]
    return tuple((a, payload_text(op.attributes[a])) for a in sorted(names))


def loops_of_output(output: Map, indices: tuple[Index, ...]) -> dict[int, Index] | None:
    """Which index each loop has for the element of the result at `indices`; None if the map is not a permutation."""
    loops: dict[int, Index] = {}
    for each, index in zip(output, indices, strict=True):
        if isinstance(each, int):
            if each in loops:
                return None
            loops[each] = index
        elif not isinstance(each, ir.AffineConstantExpr) or index != UNIT:
            return None
    return loops


def reduces(op: ir.Operation, number: int) -> bool:
    """Whether a structured op makes an element of result `number` from several elements of an operand."""
    maps = get_indexing_maps(op)
    own = ir.AffineMapAttr(maps[len(maps) - len(op.results) + number]).value
    if own.n_dims == len(own.results):
        return False
    kept = {each.position for each in own.results if isinstance(each, ir.AffineDimExpr)}
    dims = (
        each
        for taken, value in zip(maps, op.operands, strict=True)
        for each in zip(ir.AffineMapAttr(taken).value.results, shape_of(value) or (), strict=False)
    )
    return any(isinstance(at, ir.AffineDimExpr) and at.position not in kept and size != 1 for at, size in dims)


def loop_sizes(operands: Sequence[Operand]) -> dict[int, int | DimSize]:
    """The sizes of loops that run over a dim of an operand: numbers where one of these says so."""
    sizes: dict[int, int | DimSize] = {}
    for operand in operands:
        for axis, (each, size) in enumerate(zip(operand.map, operand.shape or (), strict=False)):
            if isinstance(each, int) and (size is not None or each not in sizes):
                sizes[each] = DimSize(operand.value, axis) if size is None else size
    return sizes


def _position(expr: ir.AffineExpr) -> int | ir.AffineExpr:
    return expr.position if isinstance(expr, ir.AffineDimExpr) else expr


def _index_of(expr: int | ir.AffineExpr, loops: Mapping[int, Index], size: int | None) -> Index:
    if isinstance(expr, int):
        return loops[expr]
    terms: dict[Index, int] = {}
    if _add_up(expr, 1, loops, terms) == 0:
        return summed(terms, size)
    used = sorted(loops)
    return Affine(str(expr), tuple(loops[d] for d in used))


def _add_up(expr: ir.AffineExpr, factor: int, loops: Mapping[int, Index], terms: dict[Index, int]) -> int | None:
    """Add an expression, `factor` times, to `terms`; return the constant in it, None if it is no such sum."""
    if isinstance(expr, ir.AffineDimExpr):
        index = loops[expr.position]
        # The first elements of a dim are a sum, too: a window there is one of the loops themselves.
        own = index.terms if isinstance(index, Sum) and index.constant == 0 else ((1, index),)
        for times, part in own:
            terms[part] = terms.get(part, 0) + factor * times
        return 0
    if isinstance(expr, ir.AffineConstantExpr):
        return factor * int(expr.value)
    if isinstance(expr, ir.AffineAddExpr):
        parts = [_add_up(side, factor, loops, terms) for side in (expr.lhs, expr.rhs)]
        return None if None in parts else sum(part for part in parts if part is not None)
    if isinstance(expr, ir.AffineMulExpr):
        sides = (expr.lhs, expr.rhs)
        known = next((side.value for side in sides if isinstance(side, ir.AffineConstantExpr)), None)
        other = next((side for side in sides if not isinstance(side, ir.AffineConstantExpr)), None)
        if known is not None and known > 0 and other is not None:
            return _add_up(other, factor * known, loops, terms)
    return None
