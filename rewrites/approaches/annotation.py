"""Attributes set on the op at the root of a match: `annotate softmax with {my.tag = 1}`."""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.terms.attributes import parse_attribute
from opsplice.rewrites.plan.actions import Annotation
from opsplice.spec_lang.syntax import tree

# On ops while rules apply: the attributes that rules have set, each with the place of its rule.
SETTERS = "opsplice.set_by"


def annotate(annotation: Annotation, *, marked: bool) -> None:
    """Set attributes on the op that makes the first result of its match. Needs a current context.

    marked: leave a note of the rule on the op, for rules that are applied to what others write.
    """
    op = annotation.match.roots[0].owner.operation
    for attribute in annotation.attributes:
        op.attributes[attribute.name] = attribute_of(attribute)
    if not marked:
        return
    own = {attribute.name: str(annotation.rule.span) for attribute in annotation.attributes}
    op.attributes[SETTERS] = ir.DictAttr.get({n: ir.StringAttr.get(r) for n, r in (setters(op) | own).items()})


def setters(op: ir.Operation) -> dict[str, str]:
    """The attributes of an op that rules have set so far, each with the place of its rule."""
    if SETTERS not in op.attributes:
        return {}
    return {each.name: ir.StringAttr(each.attr).value for each in ir.DictAttr(op.attributes[SETTERS])}


def attribute_of(attribute: tree.Attribute) -> ir.Attribute:
    """What a rule sets. Integers are i64 and floats f64, lists of integers dense; a name alone is a unit attribute.

    Needs a current context. Raises OpspliceError for `mlir "..."` that MLIR cannot read.
    """
    value = attribute.value
    if isinstance(value, tree.MlirText):
        return parse_attribute(value, ir.Context.current, attribute.span)
    if value is None:
        return ir.UnitAttr.get()
    if isinstance(value, bool):
        return ir.BoolAttr.get(value)
    if isinstance(value, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    if isinstance(value, float):
        return ir.FloatAttr.get(ir.F64Type.get(), value)
    if isinstance(value, tuple):
        numbers = [item for item in value if not isinstance(item, tree.Bound)]
        if all(isinstance(item, int) for item in numbers):
            return ir.DenseI64ArrayAttr.get([int(item) for item in numbers])
        return ir.DenseF64ArrayAttr.get([float(item) for item in numbers])
    return ir.StringAttr.get(value)
