"""Each elementwise op of the language as a C expression on scalars.

Halves (f16, bf16) are computed in float and rounded after each op, as the program does it. Integers wrap.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from opsplice.spec_lang.syntax import vocabulary

_TYPES = {
    "f16": "_Float16", "bf16": "__bf16", "f32": "float", "f64": "double", "i1": "bool", "i8": "int8_t",
    "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "index": "size_t",
}  # fmt: skip
# Numbers and names; calls, elements and what is in parentheses, if nothing in them is.
_SIMPLE = re.compile(r"[\w.]+(?:e-\d+f?)?|\w*\([^()]*\)|\w+\[[^\[\]]*\]")
# Ops on floats, whose operands are {0} to {2}; {f} stands behind the name of a function of floats.
_FLOATS = {
    "addf": "{0} + {1}", "subf": "{0} - {1}", "mulf": "{0} * {1}", "divf": "{0} / {1}", "negf": "-{0}",
    "absf": "fabs{f}({0})", "sqrt": "sqrt{f}({0})", "rsqrt": "1.0{f} / sqrt{f}({0})",
    "copysign": "copysign{f}({0}, {1})",
}  # fmt: skip
# Those that only bitcode may call.
_IN_BITCODE = {
    "floor": "floor{f}({0})", "round": "round{f}({0})", "trunc": "copysign{f}(floor{f}(fabs{f}({0})), {0})",
    "ceil": "-floor{f}(-{0})", "fma": "fma{f}({0}, {1}, {2})", "roundeven": "rint{f}({0})",
    "powf": "pow{f}({0}, {1})", "remf": "fmod{f}({0}, {1})",
}  # fmt: skip
# Functions of doubles that C has by the same names. IREE has some, the library of mathematics all.
_DOUBLES = frozenset({
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf", "erfc", "exp", "exp2",
    "expm1", "log", "log10", "log1p", "log2", "sin", "sinh", "tan", "tanh",
})  # fmt: skip
# What the expressions call, so no variable may be called so.
RESERVED = _DOUBLES
# Ops on integers, by how they see these: as they are, in the unsigned type of 64 bits (where what wraps is defined),
# with their sign, or without.
_INTEGERS = {
    "andi": "{0} & {1}", "ori": "{0} | {1}", "xori": "{0} ^ {1}",
    "addi": "(uint64_t){0} + (uint64_t){1}", "subi": "(uint64_t){0} - (uint64_t){1}",
    "muli": "(uint64_t){0} * (uint64_t){1}", "shli": "(uint64_t){0} << {1}",
    "divsi": "{s0} / {s1}", "remsi": "{s0} % {s1}", "shrsi": "{s0} >> {s1}",
    "divui": "{u0} / {u1}", "remui": "{u0} % {u1}", "shrui": "{u0} >> {u1}",
}  # fmt: skip
_BITWISE = ("andi", "ori", "xori")
_COMPARE_FLOATS = {
    "false": "0", "oeq": "{a} == {b}", "ogt": "{a} > {b}", "oge": "{a} >= {b}", "olt": "{a} < {b}",
    "ole": "{a} <= {b}", "one": "({a} < {b} || {a} > {b})", "ord": "({a} == {a} && {b} == {b})",
    "ueq": "!({a} < {b} || {a} > {b})", "ugt": "!({a} <= {b})", "uge": "!({a} < {b})", "ult": "!({a} >= {b})",
    "ule": "!({a} > {b})", "une": "{a} != {b}", "uno": "({a} != {a} || {b} != {b})", "true": "1",
}  # fmt: skip
_COMPARE_INTEGERS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_EXTREMA = {"maximumf": ">", "minimumf": "<", "maxsi": ">", "minsi": "<", "maxui": ">", "minui": "<"}
# Bodies of functions of integers a and b: of the signed type, or of the unsigned one.
_INTEGER_HELPERS = {
    "absi": "return a < 0 ? 0 - a : a;",
    "floordivsi": "return a / b - (a % b != 0 && (a < 0) != (b < 0));",
    "ceildivsi": "return a / b + (a % b != 0 && (a < 0) == (b < 0));",
    "ceildivui": "return a == 0 ? 0 : (a - 1) / b + 1;",
}


class NoCodeError(Exception):
    """What is asked for has no plain C; the message says what."""


@dataclass
class Needs:
    """What expressions need around them: helpers by name, and whether they call what only bitcode may."""

    helpers: dict[str, str] = field(default_factory=dict)
    bitcode: bool = False


def type_of(element: str) -> str:
    """The C type of an element. Raises NoCodeError for one that kernels do not take."""
    if element not in _TYPES:
        raise NoCodeError(f"C has no type for {element}")
    return _TYPES[element]


def literal(value: int | float, element: str, digits: str | None = None) -> str:
    """A constant of an element type. digits: how to write it."""
    if not vocabulary.is_float(element):
        if element == "i1":
            return "true" if value else "false"
        return f"({value + 1} - 1)" if value == -(2**63) else f"{int(value)}{'LL' if abs(value) >= 2**31 else ''}"
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    text = digits or repr(float(value))
    if not any(mark in text for mark in ".e"):
        text += ".0"
    return text if element == "f64" else f"{text}f"


def apply(
    op: str,
    args: Sequence[str],
    kinds: Sequence[str],
    element: str,
    attributes: Mapping[str, str],
    needs: Needs,
) -> str:
    """The expression of an op (by its full name) on expressions of the types `kinds`.

    Raises NoCodeError for an op that has none.
    """
    known = vocabulary.find(op)
    assert known is not None, "only ops of the language are lifted"
    name, dialect = known.name, known.dialect
    operands = [_operand(arg) for arg in args]
    if known.is_cast:
        return _cast(name, operands[0], kinds[0], element)
    if name == "select":
        return f"({operands[0]} ? {operands[1]} : {operands[2]})"
    if name == "cmpf":
        a, b = (_widened(x, kinds[0]) for x in operands)
        return f"({_COMPARE_FLOATS[vocabulary.CMPF_PREDICATES[int(attributes['predicate'])]].format(a=a, b=b)})"
    if name == "cmpi":
        return _compare_integers(vocabulary.CMPI_PREDICATES[int(attributes["predicate"])], operands, kinds[0])
    if name in _EXTREMA:
        return f"{_extremum(name, element, needs)}({', '.join(args)})"
    if name in _INTEGER_HELPERS and element != "i1":
        return f"({type_of(element)}){_integer_helper(name, element, needs)}({', '.join(args)})"
    if vocabulary.is_float(element):
        return _rounded(
            _float(name, [_widened(x, k) for x, k in zip(operands, kinds, strict=True)], element, needs), element
        )
    if dialect == "arith":
        return _integer(name, operands, element)
    raise NoCodeError(f"there is no plain C for {op}")


# ---- floats ------------------------------------------------------------------------------------------------------


def _float(name: str, x: Sequence[str], element: str, needs: Needs) -> str:
    """An op on floats or doubles."""
    double = element == "f64"
    f = "" if double else "f"
    if name in _FLOATS:
        return _FLOATS[name].format(*x, f=f)
    needs.bitcode = True
    if name in _IN_BITCODE:
        return _IN_BITCODE[name].format(*x, f=f)
    if name not in _DOUBLES:
        raise NoCodeError(f"there is no plain C for {name} without a library")
    if double:
        return f"{name}({', '.join(x)})"
    return f"(float){name}({', '.join(f'(double){each}' for each in x)})"


def _extremum(name: str, element: str, needs: Needs) -> str:
    helper = f"{name}_{element}"
    kind, sign = type_of(element), _EXTREMA[name]
    # maximumf and its like give NaN where one is NaN; maxnumf, which gives the other one, is read as maximumf.
    test = {"maximumf": " || a != a", "minimumf": " || a != a"}
    seen = _unsigned if name.endswith("ui") else _signed
    a, b = (seen(side, element) for side in "ab")
    body = f"return {a} {sign} {b}{test.get(name, '')} ? a : b;"
    needs.helpers.setdefault(helper, f"static inline {kind} {helper}({kind} a, {kind} b) {{ {body} }}")
    return helper


def _widened(x: str, kind: str) -> str:
    return f"(float){x}" if kind in ("f16", "bf16") else x


def _rounded(text: str, element: str) -> str:
    return f"({type_of(element)})({text})" if element in ("f16", "bf16") else text


# ---- integers ----------------------------------------------------------------------------------------------------


def _integer(name: str, x: Sequence[str], element: str) -> str:
    if element == "i1" and name not in _BITWISE:
        raise NoCodeError(f"there is no plain C for {name} on i1")
    if name not in _INTEGERS:
        raise NoCodeError(f"there is no plain C for {name}")
    signed = {f"s{number}": _signed(each, element) for number, each in enumerate(x)}
    unsigned = {f"u{number}": _unsigned(each, element) for number, each in enumerate(x)}
    return f"({type_of(element)})({_INTEGERS[name].format(*x, **signed, **unsigned)})"


def _integer_helper(name: str, element: str, needs: Needs) -> str:
    helper = f"{name}_{element}"
    kind = type_of(element).removeprefix("size_t") or "ptrdiff_t"
    if name.endswith("ui"):
        kind = type_of(element) if element == "index" else f"u{type_of(element)}"
    # In the unsigned type of 64 bits, what wraps is defined.
    body = _INTEGER_HELPERS[name].replace("0 - a", f"({kind})(0 - (uint64_t)a)")
    parameters = ", ".join(f"{kind} {side}" for side in ("a" if name == "absi" else "ab"))
    needs.helpers.setdefault(helper, f"static inline {kind} {helper}({parameters}) {{ {body} }}")
    return helper


def _compare_integers(predicate: str, x: Sequence[str], kind: str) -> str:
    sign = _COMPARE_INTEGERS[predicate[-2:]]
    if predicate.startswith("u"):
        return f"({_unsigned(x[0], kind)} {sign} {_unsigned(x[1], kind)})"
    if kind == "i1" and predicate.startswith("s"):
        raise NoCodeError("there is no plain C for signed comparisons of i1")
    return f"({_signed(x[0], kind)} {sign} {_signed(x[1], kind)})"


def _unsigned(x: str, element: str) -> str:
    return x if element in ("i1", "index") else f"(u{type_of(element)}){x}"


def _signed(x: str, element: str) -> str:
    return f"(ptrdiff_t){x}" if element == "index" else x


def _cast(name: str, x: str, source: str, element: str) -> str:
    kind = type_of(element)
    if name == "bitcast" or name.startswith("scaling"):
        raise NoCodeError(f"there is no plain C for {name}")
    if source == "i1" and name in ("sitofp", "extsi"):
        return f"({kind})-(int){x}"
    if name in ("uitofp", "extui", "index_castui"):
        return f"({kind}){_unsigned(x, source)}"
    if name == "fptoui":
        return f"({kind}){_unsigned(f'(float){x}' if source in ('f16', 'bf16') else x, element)}"
    if name == "trunci" and element == "i1":
        return f"(({x} & 1) != 0)"
    if source in ("f16", "bf16"):
        return f"({kind})(float){x}"
    return f"({kind}){x}"


def _operand(text: str) -> str:
    """An expression that binds tighter than any operator around it."""
    return text if _SIMPLE.fullmatch(text) else f"({text})"
