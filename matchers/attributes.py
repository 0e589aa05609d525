"""Names and attributes of ops, as patterns write them and as programs have them."""

from __future__ import annotations

import functools
import re

from iree.compiler import ir

from opsplice.errors import OpspliceError
from opsplice.matchers import numbers
from opsplice.spec_lang import tree

# Attributes that never change which computation an op is; `rounds_to_nearest` says when a rounding mode does.
IGNORED = frozenset({"fastmath", "overflowFlags", "operandSegmentSizes", "isExact", "exact", "nonNeg", "roundingmode"})
# Ops that may be told how to round.
ROUNDING = frozenset(f"arith.{name}" for name in ("addf", "subf", "mulf", "divf", "truncf", "convertf"))


def is_named(name: str, wanted: str) -> bool:
    """Whether an op's name is the one that a pattern wants, in which `*` stands for any letters."""
    return name == wanted or ("*" in wanted and _letters(wanted).fullmatch(name) is not None)


def rounds_to_nearest(op: ir.Operation) -> bool:
    """Whether an op on elements rounds as such ops do unless they are told otherwise."""
    mode = op.attributes.get("roundingmode", None) if op.name in ROUNDING else None
    return mode is None or ir.IntegerAttr(mode).value == 0


@functools.cache
def _letters(wanted: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, wanted.split("*"))))


def attribute_text(value: tree.AttributeValue) -> str:
    """A value as patterns write it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def payload_text(found: ir.Attribute) -> str:
    """An attribute of a program as `attribute_text` has it; what patterns have no words for, as MLIR prints it."""
    if isinstance(found, (ir.StringAttr, ir.IntegerAttr, ir.FloatAttr)):
        return str(found.value)
    if isinstance(found, ir.BoolAttr):
        return "true" if found.value else "false"
    listed = _numbers_of(found)
    return str(found) if listed is None else attribute_text(tuple(listed))


def parse_attribute(value: tree.MlirText, context: ir.Context, span: tree.Span) -> ir.Attribute:
    """The attribute that a spec writes at `span` as MLIR does. Raises OpspliceError for what MLIR cannot read."""
    try:
        return ir.Attribute.parse(value.text, context=context)
    except ir.MLIRError as failure:
        message = failure.error_diagnostics[0].message if failure.error_diagnostics else str(failure)
        raise OpspliceError(f"not an attribute of MLIR: {value.text}", details=f"{span}: {message}") from None


def same_attribute(value: tree.AttributeValue, found: ir.Attribute, span: tree.Span) -> bool:
    """Whether an attribute of a program has the value that a pattern writes at `span`, whatever its width.

    Raises OpspliceError as `parse_attribute`.
    """
    if isinstance(value, tree.MlirText):
        return bool(found == parse_attribute(value, found.context, span))
    if isinstance(found, ir.StringAttr):
        return found.value == value
    if isinstance(found, ir.BoolAttr):
        return isinstance(value, bool) and found.value == value
    if isinstance(found, ir.IntegerAttr):
        return not isinstance(value, bool) and found.value == value
    if isinstance(found, ir.FloatAttr):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return numbers.same(value, found.value, str(found.type))
    if isinstance(value, tuple):
        return list(value) == _numbers_of(found)
    return str(found) == str(value)


def _numbers_of(found: ir.Attribute) -> list[int | float] | None:
    """The numbers of a list attribute, however it is kept; None if it is no list of numbers."""
    if isinstance(found, ir.ArrayAttr):
        items = [item.value for item in found if isinstance(item, (ir.IntegerAttr, ir.FloatAttr))]
        return items if len(items) == len(found) else None
    kinds = (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr, ir.DenseF32ArrayAttr, ir.DenseF64ArrayAttr)
    if isinstance(found, (*kinds, ir.DenseIntElementsAttr, ir.DenseFPElementsAttr)):
        return list(found)
    return None
