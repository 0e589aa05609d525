"""Ops that are numbers, and values that may come to be numbers."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from opsplice.matchers.ir.tensor_values import rests_on, signless
from opsplice.matchers.terms.canonical import DECIDING
from opsplice.matchers.terms.terms import Constant

# Frontends' own constants, and the attribute that holds the number.
FRONTEND_CONSTANTS = {
    "flow.tensor.constant": "value",
    "stablehlo.constant": "value",
    "torch.constant.float": "value",
    "torch.constant.int": "value",
    "torch.vtensor.literal": "value",
    "tosa.const": "values",
}

_ALL = slice(None)


def constant_of(op: ir.Operation, name: str = "value") -> Constant | None:
    """The number that an op is, or that all elements of it are."""
    kind = op.results[0].type
    if isinstance(kind, ir.RankedTensorType) and isinstance(kind.element_type, ir.ComplexType):
        return None  # IREE's bindings raise TypeError where they are asked for such elements
    attribute = op.attributes[name]
    if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
        attribute = attribute.get_splat_value()
    if isinstance(attribute, ir.FloatAttr):
        return Constant(attribute.value, str(attribute.type))
    if isinstance(attribute, ir.BoolAttr):
        return Constant(int(attribute.value), "i1")
    if isinstance(attribute, ir.IntegerAttr):
        return Constant(int(attribute.value), signless(str(attribute.type)))
    return None


def may_be_number(value: ir.Value, known: dict[ir.Value, bool]) -> bool:
    """Whether a value is made of numbers that the program writes alone. known: what is known so far."""
    return rests_on(value, _deciding, known)


def _deciding(value: ir.Value) -> Sequence[ir.Value] | None:
    """What says whether a value is a number: nothing for a constant, None for what is none."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        holder = owner.owner.operation
        return [holder.operands[value.arg_number]] if holder.name.startswith("linalg.") else None
    op = owner.operation
    name = op.name
    if name == "arith.constant" or name in FRONTEND_CONSTANTS:
        return None if constant_of(op, FRONTEND_CONSTANTS.get(name, "value")) is None else ()
    if name.startswith(("arith.", "math.")):
        return list(op.operands)[DECIDING.get(name, _ALL)]
    if name.startswith("linalg.") and len(op.regions):
        body = op.regions[0].blocks[0].operations
        return [body[len(body) - 1].operands[value.result_number]]
    return list(op.operands)[:1] or None  # a view, or nothing that comes to a number
