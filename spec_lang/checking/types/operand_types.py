"""Operands of elementwise ops: kinds of element types, conversions, and common shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opsplice.spec_lang.checking.types.inferred_values import Misfit, Number, Value, show
from opsplice.spec_lang.checking.types.signature_binding import merge_dims, possible_elements
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.spec_lang.syntax.tree import Dim, Expr, ScalarType, Span, TensorType, Type

_ELEMENT_KINDS: dict[str, tuple[str, Callable[[str], bool]]] = {
    **dict.fromkeys("FGH", ("floats", vocabulary.is_float)),
    **dict.fromkeys("IJ", ("integers", vocabulary.is_integer)),
    "B": ("i1", lambda element: element == "i1"),
    **dict.fromkeys("AZ", ("floats and integers", vocabulary.is_element)),
}


def check_operand(
    call: tree.Call,
    op: vocabulary.Op,
    arg: Expr,
    letter: str,
    value: Value,
    elements: dict[str, str],
    variables: tuple[tree.TypeVariable, ...],
    casts: bool,
) -> None:
    if value is None or isinstance(value, Number):
        return
    element = value.element.name
    check_kind(arg.span, call.callee, op, letter, element, f"{show(arg)} is {value}", variables)
    known = elements.setdefault(letter, element)
    if known == element or (casts and _are_floats(variables, known, element)):
        return
    found = f"{call.callee} takes one element type, found {known} and {element}"
    raise Misfit(call.span, found, _cast_advice(known, element, variables))


def check_mixed(call: tree.Call, op: vocabulary.Op, element: str, values: list[Value]) -> None:
    """Tensors of several float types, which `through cast` allows, make what is written behind the op."""
    kinds = sorted({v.element.name for v in values if isinstance(v, TensorType) and v.element.name != "i1"})
    if len(kinds) > 1 and call.type is None and op.result in op.operands:
        advice = f"write the type that it makes: {call.callee}(...) : {element}"
        raise Misfit(call.span, f"the operands are of types {' and '.join(kinds)}", advice)


def ascribed(written: Type, made: Type, variables: tuple[tree.TypeVariable, ...], casts: bool) -> Type:
    """The type that was inferred, with the sizes that a written one adds. casts: and with any float type."""
    element, wanted = made.element.name, written.element.name
    if element != wanted and not (casts and _are_floats(variables, element, wanted)):
        raise Misfit(written.span, f"this makes {element}, not {wanted}")
    of_wanted = ScalarType(made.span, wanted)
    if isinstance(made, ScalarType) and isinstance(written, ScalarType):
        return of_wanted
    dims = merge_dims(made.dims, written.dims) if isinstance(written, TensorType) else made.dims
    if dims is None:
        raise Misfit(written.span, f"this makes {made}, not {written}")
    return TensorType(made.span, dims, of_wanted)


def _are_floats(variables: tuple[tree.TypeVariable, ...], *elements: str) -> bool:
    possible = [possible_elements(element, variables) for element in elements]
    return all(choices is None or all(map(vocabulary.is_float, choices)) for choices in possible)


def _cast_advice(known: str, element: str, variables: tuple[tree.TypeVariable, ...]) -> str:
    if _are_floats(variables, known, element):
        return "convert one of them, for example with extf(x) : f32, or write `through cast` on the pattern"
    wider = max((known, element), key=lambda e: vocabulary.bits(e) or 0)
    if vocabulary.is_integer(known) and vocabulary.is_integer(element) and "index" not in (known, element):
        return f"convert one of them, for example with extsi(x) : {wider}"
    return "convert one of them"


def check_kind(
    span: Span,
    callee: str,
    op: vocabulary.Op,
    letter: str,
    element: str,
    found: str,
    variables: tuple[tree.TypeVariable, ...],
) -> None:
    kind, works = _ELEMENT_KINDS[letter]
    possible = possible_elements(element, variables)
    without_index = op.is_cast and op.name not in ("index_cast", "index_castui")
    if possible is None or all(works(e) and not (without_index and e == "index") for e in possible):
        return
    twin = vocabulary.INTEGER_TWINS.get(op.name) if kind == "floats" else vocabulary.FLOAT_TWINS.get(op.name)
    other = "integers" if kind == "floats" else "floats"
    twin_works = vocabulary.is_integer if other == "integers" else vocabulary.is_float
    advice = f"for {other} write {twin}" if twin and all(map(twin_works, possible)) else None
    raise Misfit(span, f"{callee} works on {kind}, but {found}", advice)


def common_dims(call: tree.Call, shaped: list[tuple[Expr, Type]]) -> tuple[Dim, ...]:
    ranked = [(arg, t.dims, t) for arg, t in shaped if t.dims]
    if not ranked:
        return ()
    first, dims, first_type = ranked[0]
    for arg, others, arg_type in ranked[1:]:
        merged = merge_dims(dims, others)
        if merged is None:
            message = f"the operands have different shapes: {show(first)} is {first_type}, {show(arg)} is {arg_type}"
            raise Misfit(call.span, message, _advise_shapes(first, dims, arg, others))
        dims = merged
    return dims


def cast_element(
    call: tree.Call, op: vocabulary.Op, elements: dict[str, str], variables: tuple[tree.TypeVariable, ...]
) -> str | None:
    if call.type is None:
        example = {"I": "i32", "J": "i32", "G": "f32", "F": "f32"}.get(op.result, "i32")
        if op.width == "narrower":
            example = "i8" if op.result == "J" else "f16"
        advice = f"write it after the op: {call.callee}(x) : {example}"
        raise Misfit(call.span, f"{call.callee} needs the type that it converts to", advice)
    target, source = call.type.element.name, elements.get(op.operands[0])
    check_kind(call.type.span, call.callee, op, op.result, target, f"this is {target}", variables)
    if source is not None and not _width_fits(op, source, target):
        wanted = "a type of equal width" if op.width == "equal" else f"a {op.width} type"
        if op.width is None:
            wanted = "index to an integer or back"
        raise Misfit(call.type.span, f"{call.callee} converts to {wanted}, and {source} to {target} is not that")
    return target


def _width_fits(op: vocabulary.Op, source: str, target: str) -> bool:
    if op.name in ("index_cast", "index_castui"):
        return (source == "index") != (target == "index")
    before, after = vocabulary.bits(source), vocabulary.bits(target)
    if op.width is None or before is None or after is None:
        return True
    return {"wider": after > before, "narrower": after < before, "equal": after == before}[op.width]


def _advise_shapes(left: Expr, left_dims: tuple[Dim, ...], right: Expr, right_dims: tuple[Dim, ...]) -> str:
    """broadcast where one shape lacks dims of the other, else one symbol for both sizes."""
    if len(left_dims) == len(right_dims):
        return "sizes that are equal have one symbol"
    narrow, small, large = (
        (left, left_dims, right_dims) if len(left_dims) < len(right_dims) else (right, right_dims, left_dims)
    )
    names = [str(d) for d in large]
    if all(d.name for d in (*small, *large)) and all(str(d) in names for d in small):
        before = " ".join(map(str, small))
        return f"repeat the smaller one: broadcast[{before} -> {' '.join(names)}]({show(narrow)})"
    return "repeat the smaller one with broadcast[m -> m n](...)"


def numbers_of_band(call: tree.Call, values: Sequence[Value]) -> list[tuple[Expr, Number, str]]:
    """The numbers of `band(low, high, inside, outside, start) : tensor<m x n x f32>`, each with its element type."""
    advice = "such as band(low, high, 1, 0) : tensor<m x n x i1>, which is 1 where low <= column - row <= high"
    if not isinstance(call.type, TensorType) or len(call.type.dims) != 2 or any(dim.pack for dim in call.type.dims):
        raise Misfit(call.span, "a band has the type of a matrix behind it", advice)
    elements = ("i32", "i32", *[call.type.element.name] * 2, "i64")
    if len(elements) - len(values) not in (0, 1):
        least = len(elements) - 1
        raise Misfit(call.span, f"band takes {least} or {least + 1} values, found {len(values)}", advice)
    for arg, value, wanted in zip(call.args, values, ("i32", "i32", "", "", ""), strict=False):
        if isinstance(value, TensorType) or (isinstance(value, ScalarType) and wanted not in ("", value.name)):
            raise Misfit(arg.span, f"{show(arg)} is {value}, and a band takes {wanted or 'numbers'} there", advice)
    known = zip(call.args, values, elements, strict=False)
    return [(arg, value, element) for arg, value, element in known if isinstance(value, Number)]
