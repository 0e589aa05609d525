"""Ops of a captured program that a pattern only knows by their names."""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir import effects
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.terms import bodies
from opsplice.spec_lang.formatting.one_line import quote

# Attributes that say how to compute an op and not what.
_UNREAD_ATTRIBUTES = frozenset(
    ["operandSegmentSizes", "resultSegmentSizes", "lowering_config", "compilation_info", "fastmath", "overflowFlags"]
)


def unreadable(op: ir.Operation) -> str:
    """Why no expression says what an op makes."""
    own = " and holds code of its own, which its name does not tell" if effects.has_own_region(op) else ""
    return f"{op.name} has no expression{own}"


def nameable(value: ir.Value, with_body: bool) -> bool:
    """Whether a pattern can look for the op that makes a value by its name, or by its name and body."""
    op = defining_op(value)
    if op is None or not isinstance(value.type, ir.RankedTensorType) or op.name == "tensor.empty":
        return False
    if effects.has_own_region(op) and (not with_body or body_of(op) is None):
        return False
    return not effects.has_effects(op)


def body_of(op: ir.Operation) -> str | None:
    """The body of a generic op, if it needs nothing from outside; None for other ops."""
    if op.name != "linalg.generic" or bodies.outside(op):
        return None
    inner = op.regions[0].blocks[0].operations
    return None if any(len(each.operation.regions) for each in inner) else bodies.text(op)


def written(op: ir.Operation) -> tuple[tuple[str, str], ...]:
    """The attributes of an op as a pattern writes them."""
    known = [
        (name, op.attributes[name]) for name in op.attributes if name not in _UNREAD_ATTRIBUTES and "." not in name
    ]
    return tuple(sorted((name, attribute_text(each)) for name, each in known if not isinstance(each, ir.UnitAttr)))


def results_written(op: ir.Operation) -> int:
    """How many operands at the end of an op are what it writes its results to."""
    of_all = "indexing_maps" in op.attributes and len(ir.ArrayAttr(op.attributes["indexing_maps"])) == len(op.operands)
    return len(op.results) if of_all or op.name.startswith("linalg.") else 0


def attribute_text(value: ir.Attribute, *, exactly: bool = False) -> str:
    """An attribute as patterns write it. exactly: with its type, as MLIR writes it."""
    if not exactly and isinstance(value, ir.BoolAttr):
        return "true" if value.value else "false"
    if not exactly and isinstance(value, ir.IntegerAttr):
        return str(value.value)
    if not exactly and isinstance(value, ir.FloatAttr):
        return repr(value.value)
    return quote(value.value) if not exactly and isinstance(value, ir.StringAttr) else f"mlir {quote(str(value))}"
