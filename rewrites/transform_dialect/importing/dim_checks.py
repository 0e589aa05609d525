"""Checks of one dim, which a template's values and those of ops by their names can have alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from iree.compiler import ir

from opsplice.rewrites.transform_dialect.importing.handles import Handle, Value
from opsplice.rewrites.transform_dialect.importing.not_importable import UnreadableError


def of(op: ir.Operation, dim_of: Callable[[int], str]) -> list[str]:
    """The conditions that an op asks for. dim_of: the name of a dim of the value that it checks, by its axis."""
    if op.name not in ("transform.iree.match.dim_bounds", "transform.iree.match.dim_is_multiple_of"):
        raise UnreadableError(op, "a check that patterns have no words for")
    dim = dim_of(ir.IntegerAttr(op.attributes["dim"]).value)
    found = []
    if op.name == "transform.iree.match.dim_is_multiple_of":
        found.append(f"{dim} % {ir.IntegerAttr(op.attributes['size']).value} == 0")
    for name, comparison in (("lower_bound", ">="), ("upper_bound", "<=")):
        if name in op.attributes:
            found.append(f"{dim} {comparison} {ir.IntegerAttr(op.attributes[name]).value}")
    return found


def value_of(op: ir.Operation, handles: Mapping[ir.Value, Handle]) -> Value:
    """The one value that a check is of."""
    values = handles.get(op.operands[0])
    if not isinstance(values, tuple) or len(values) != 1:
        raise UnreadableError(op, "a check of a handle that stands for nothing known")
    found: Value = values[0]
    return found
