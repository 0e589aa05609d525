"""Names and attributes of ops, as patterns write them and as programs have them."""

from __future__ import annotations

import functools
import re

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.matchers.terms import constants
from opsplice.spec_lang.syntax import tree, vocabulary

# Attributes that never change which computation an op is; `rounds_to_nearest` says when a rounding mode does.
IGNORED = frozenset({"fastmath", "overflowFlags", "operandSegmentSizes", "isExact", "exact", "nonNeg", "roundingmode"})
# Ops that may be told how to round.
ROUNDING = frozenset(
    f"arith.{name}" for name in ("addf", "subf", "mulf", "divf", "truncf", "convertf", "scaling_truncf")
)

_ARRAYS = {
    "i64": ir.DenseI64ArrayAttr,
    "i32": ir.DenseI32ArrayAttr,
    "f32": ir.DenseF32ArrayAttr,
    "f64": ir.DenseF64ArrayAttr,
}


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
    listed = _numbers_of(found)
    return str(found) if listed is None else attribute_text(tuple(number for number, _ in listed))


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
        return bool(found.value == value)
    if isinstance(found, ir.BoolAttr):
        return isinstance(value, bool) and found.value == value
    if isinstance(found, (ir.IntegerAttr, ir.FloatAttr)):
        return _is_number(value, found.value, str(found.type))
    if isinstance(value, tuple):
        listed = _numbers_of(found)
        if listed is None or len(listed) != len(value):
            return False
        return all(_is_number(item, *each) for item, each in zip(value, listed, strict=True))
    return str(found) == str(value)


def is_as_wanted(wanted: tree.Attribute, found: ir.Attribute | None) -> bool:
    """Whether an attribute of a program, None for none, is as a pattern writes it that binds nothing to it."""
    if wanted.absent or found is None:
        return wanted.absent and found is None
    choices = wanted.choices or (() if wanted.value is None else (wanted.value,))
    return not choices or any(same_attribute(choice, found, wanted.span) for choice in choices)


def integers(found: ir.Attribute, is_list: bool) -> tuple[int | None, ...] | None:
    """The integers of a list, or the only one, None for one known at run time only; None for anything else."""
    if not is_list:
        return (int(found.value),) if isinstance(found, (ir.IntegerAttr, ir.BoolAttr)) else None
    listed = _numbers_of(found)
    if listed is None or any(not isinstance(number, int) for number, _ in listed):
        return None
    return tuple(None if number == ir.ShapedType.get_dynamic_size() else int(number) for number, _ in listed)


def _is_number(wanted: tree.AttributeValue, found: float, element: str) -> bool:
    """Whether a number of a type is the one that a pattern writes: of integers the type says nothing."""
    if isinstance(wanted, bool) or not isinstance(wanted, (int, float)):
        return False
    return constants.same(wanted, found, element) if vocabulary.is_float(element) else found == wanted


def _numbers_of(found: ir.Attribute) -> list[tuple[int | float, str]] | None:
    """The numbers of a list, however it is kept, with their types; None if it is not a list of numbers."""
    if isinstance(found, ir.ArrayAttr):
        items = [(item.value, str(item.type)) for item in found if isinstance(item, (ir.IntegerAttr, ir.FloatAttr))]
        return items if len(items) == len(found) else None
    if isinstance(found, (ir.DenseIntElementsAttr, ir.DenseFPElementsAttr)):
        kind = ir.ShapedType(found.type)
        return [(number, str(kind.element_type)) for number in found] if kind.rank == 1 else None
    element = next((name for name, array in _ARRAYS.items() if isinstance(found, array)), None)
    return None if element is None else [(number, element) for number in found]
