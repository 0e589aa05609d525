"""Ops that are numbers."""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.tensor_values import signless
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


def constant_of(op: ir.Operation, name: str = "value") -> Constant | None:
    """The number that an op is, or that all elements of it are."""
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
