"""Whether a number that a program holds is one that a pattern asks for.

A number is compared as the element type holds it. Floats: what a pattern writes is rounded to the type, and both signs
of zero are numbers of their own. Integers: by their bits, so that 200 and -56 are one i8.
"""

from __future__ import annotations

import math

from opsplice.spec_lang import ops

# Bits of the significand, the exponent of the smallest number, and the largest one.
_FORMATS = {
    "f32": (24, -149, 3.4028234663852886e38),
    "f16": (11, -24, 65504.0),
    "bf16": (8, -133, 3.3895313892515355e38),
    "f8E4M3FN": (4, -9, 448.0),
    "f8E5M2": (3, -16, 57344.0),
    "f8E4M3FNUZ": (4, -10, 240.0),
    "f8E5M2FNUZ": (3, -17, 57344.0),
}
# In these, where not all of a number is written or it was computed, its neighbours in the type count as it.
_NEIGHBOURS = {"f64": "f32", "f32": "f32"}
_MOST_DIGITS = 17


def same(wanted: float, found: float, element: str) -> bool:
    """Whether the constant `found` of type `element` is the number that a pattern writes as `wanted`.

    In f32 and f64 a unit in the last place is let pass for a number that the type does not hold (f64: that f32 does
    not hold), such as a third: programs compute it. In shorter types it may have been rounded to f32 first.
    """
    width = _width(element)
    if width is not None:
        return _is_whole(wanted, width) and _is_whole(found, width) and (int(wanted) - int(found)) % (1 << width) == 0
    low, high = rounded(wanted, element), rounded(found, element)
    if identical(low, high):
        return math.isinf(wanted) or not math.isinf(low)
    if 0 in (low, high) or not all(map(math.isfinite, (low, high))):
        return False
    computed = high != found
    if element not in _NEIGHBOURS:
        through = rounded(rounded(wanted, "f32"), element) if element in _FORMATS else low
        return high == through or (computed and _same_reciprocal(wanted, found, element))
    if rounded(wanted, _NEIGHBOURS[element]) == wanted and not computed:
        return element == "f64" and _same_reciprocal(wanted, found, element) and not float(found).is_integer()
    return abs(low - high) <= max(_unit(low, element), _unit(high, element))


def within(low: float, high: float, found: float, element: str) -> bool:
    """Whether the constant `found` lies in a range, ends included as the type holds them. It has zero in both signs."""
    width = _width(element)
    if width is not None:
        unsigned = high >= 1 << (width - 1)
        return low <= (int(found) % (1 << width) if unsigned else _signed(int(found), width)) <= high
    return low <= found <= high or any(_is_end(end, found, element) for end in (low, high))


def _is_end(end: float, found: float, element: str) -> bool:
    """Whether a number is the end of a range as the type holds it; one too large for the type it does not hold."""
    held = rounded(end, element)
    return identical(held, rounded(found, element)) and (math.isfinite(held) or math.isinf(end))


def identical(left: float | None, right: float | None) -> bool:
    """Whether two numbers are one and the same, sign of zero included; so is NaN."""
    if left is None or right is None:
        return left is right
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return left == right and math.copysign(1, left) == math.copysign(1, right)


def rounded(value: float, element: str) -> float:
    """A number as a float type holds it; as it is for a type that is not known here."""
    try:
        exact = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    if element not in _FORMATS or exact == 0 or not math.isfinite(exact):
        return exact if element in ("f64", *_FORMATS) else value
    unit = _unit(exact, element)
    result = round(exact / unit) * unit
    return math.copysign(result if abs(result) <= _FORMATS[element][2] else math.inf, exact)


def text(value: float, element: str) -> str:
    """A number as a pattern would write it, in as many digits as tell it from its neighbours; six or less will do."""
    if isinstance(value, int) or not math.isfinite(value):
        return str(value)
    for digits in range(6, _MOST_DIGITS):
        written = f"{value:.{digits}g}"
        if rounded(float(written), element) == rounded(value, element):
            return f"{written}.0" if written.lstrip("-").isdigit() else written
    return repr(value)


def _same_reciprocal(wanted: float, found: float, element: str) -> bool:
    """Whether `found` is 1 / r, computed from the r that a program holds for 1 / wanted."""
    return bool(wanted and found) and rounded(1 / wanted, element) == rounded(1 / found, element)


def _unit(value: float, element: str) -> float:
    """The distance from a number to the next one of its type."""
    if element not in _FORMATS:
        return math.ulp(value)
    precision, least, _ = _FORMATS[element]
    return math.ldexp(1.0, max(math.frexp(value)[1] - precision, least))


def _width(element: str) -> int | None:
    if element == "index":
        return 64
    return ops.bits(element) if ops.is_integer(element) else None


def _is_whole(value: float, width: int) -> bool:
    return math.isfinite(value) and value == int(value) and -(1 << (width - 1)) <= value < 1 << width


def _signed(value: int, width: int) -> int:
    return (value + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))
