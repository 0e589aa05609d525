"""What a contraction makes elements of, and whether what is taken is said by whole numbers."""

from __future__ import annotations

from collections.abc import Sequence

from opsplice.common.errors import counted
from opsplice.spec_lang.checking.types.inferred_values import Misfit, Number, Value, show
from opsplice.spec_lang.checking.types.signature_binding import possible_elements
from opsplice.spec_lang.syntax import tree, vocabulary


def contracted_element(
    expr: tree.Contract, values: Sequence[Value], variables: tuple[tree.TypeVariable, ...]
) -> str | None:
    """The element type of the result, None where it is not known. values: of the operands."""
    if len(expr.args) < 2:
        other = "for one operand write reduce addf[...](x)" if expr.kind == "contract" else "what is read, and where"
        raise Misfit(expr.span, f"{expr.kind} takes two operands", other)
    if expr.kind == "take":
        _check_indices(expr, values, variables)
        values = values[:1]
    elements = {value.element.name for value in values if value is not None and not isinstance(value, Number)}
    if len(elements) > 1 and expr.type is None:
        advice = "write the type that it makes: contract[...](a, b) : f32"
        raise Misfit(expr.span, f"the operands are of types {' and '.join(sorted(elements))}", advice)
    if not elements:
        return None
    return expr.type.element.name if expr.type else elements.pop()


def _check_indices(expr: tree.Contract, values: Sequence[Value], variables: tuple[tree.TypeVariable, ...]) -> None:
    """Each label that the result lacks is said by one of the other operands, which have no labels but the result's."""
    subscripts = expr.subscripts
    if subscripts.windows:
        raise Misfit(subscripts.span, "take reads no sums of labels", "only contract and reduce do")
    left_out = [str(label) for label in subscripts.operands[0] if label not in subscripts.result]
    if any(label.startswith("...") for label in left_out) or len(left_out) != len(expr.args) - 1:
        missing = " ".join(left_out) or "no label"
        message = f"the result lacks {missing}, and {counted(len(expr.args) - 1, 'value')} say where"
        raise Misfit(subscripts.span, message, "write one value for each label, as in take[v n, m -> m n](w, i)")
    for labels, arg, value in zip(subscripts.operands[1:], expr.args[1:], values[1:], strict=False):
        new = next((str(label) for label in labels if label not in subscripts.result), None)
        if new is not None:
            raise Misfit(subscripts.span, f"the result lacks {new}, which {show(arg)} has")
        if isinstance(value, Number) and not isinstance(getattr(value.constant.value, "value", 0), int):
            raise Misfit(arg.span, f"{show(arg)} is not an integer, and indices are")
        known = None if value is None or isinstance(value, Number) else possible_elements(value.element.name, variables)
        if known is not None and not all(map(vocabulary.is_integer, known)):
            raise Misfit(arg.span, f"{show(arg)} is {value}, and indices are integers")
