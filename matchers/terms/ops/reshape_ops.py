"""Reshapes: which element of the source an element of the result is."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from iree.compiler import ir

from opsplice.matchers.dims.extents import Extent, groups
from opsplice.matchers.ir.tensor_values import defining_op, shape_of
from opsplice.matchers.terms.terms import UNIT, Access, DimSize, Index, Sized, flatten, split

# Ops that make several dims of one; the second where several sizes are known at run time only.
SPLITS = ("tensor.expand_shape", "tensor.reshape")
TRANSPOSE = "linalg.transpose"
_RESHAPES = (*SPLITS, "tensor.collapse_shape")
_SEVERAL = 2


def before_reshapes(value: ir.Value) -> ir.Value:
    """What is reshaped to a value, once or several times."""
    op = defining_op(value)
    while op is not None and op.name in _RESHAPES:
        value, op = op.operands[0], defining_op(op.operands[0])
    return value


def _sizes(value: ir.Value, axes: Iterable[int], extent: Callable[[DimSize], Extent]) -> tuple[Sized, ...]:
    """The sizes of some dims. One that is known at run time only is None, and follows from the others.

    Where there are several such, each says what it is computed from: equal indices mean equal sizes then.
    """
    shape = shape_of(value)
    assert shape is not None
    sizes = {axis: shape[axis] for axis in axes}
    if list(sizes.values()).count(None) < _SEVERAL:
        return tuple(sizes.values())
    return tuple(extent(DimSize(value, axis)) if size is None else size for axis, size in sizes.items())


def regrouped(op: ir.Operation, indices: tuple[Index, ...], extent: Callable[[DimSize], Extent]) -> Access:
    """The element of the source that an element of an expanded or a collapsed tensor is."""
    written = ir.ArrayAttr(op.attributes["reassociation"])
    several = [[ir.IntegerAttr(i).value for i in ir.ArrayAttr(g)] for g in written]
    source = op.operands[0]
    if op.name == "tensor.expand_shape":
        made = op.results[0]
        return Access(source, tuple(flatten(tuple(indices[i] for i in g), _sizes(made, g, extent)) for g in several))
    pieces = [split(index, _sizes(source, g, extent)) for g, index in zip(several, indices, strict=True)]
    if not several:
        pieces = [(UNIT,) * len(shape_of(source) or ())]
    return Access(source, tuple(index for piece in pieces for index in piece))


def reshaped(op: ir.Operation, indices: tuple[Index, ...], extent: Callable[[DimSize], Extent]) -> Access | None:
    """The same for a reshape, where it can be told which dims become which; None where it cannot."""
    source, made = op.operands[0], op.results[0]
    if not isinstance(source.type, ir.RankedTensorType) or not isinstance(made.type, ir.RankedTensorType):
        return None
    sides = [tuple(extent(DimSize(v, a)) for a in range(v.type.rank)) for v in (source, made)]
    found: list[Index] = []
    regrouped = groups(*sides)
    if regrouped is None:
        return None
    for old, new in regrouped:
        whole = flatten(tuple(indices[i] for i in new), _sizes(made, new, extent))
        found.extend(split(whole, _sizes(source, old, extent)))
    return Access(source, tuple(found) if regrouped else (UNIT,) * source.type.rank)
