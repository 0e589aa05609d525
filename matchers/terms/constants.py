"""Whether a number that a program holds is one that a pattern asks for.

A number is compared as the element type holds it. Floats: what a pattern writes is rounded to the type, and both signs
of zero are numbers of their own. Integers: by their bits, so that 200 and -56 are one i8.
"""

from __future__ import annotations

import math
from fractions import Fraction

from opsplice.spec_lang.syntax import vocabulary

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
        return vocabulary.holds(element, wanted) and (int(wanted) - int(found)) % (1 << width) == 0
    low, high = rounded(wanted, element), rounded(found, element)
    if identical(low, high):
        return math.isfinite(low) or identical(low, wanted)
    if 0 in (low, high) or not all(map(math.isfinite, (low, high))):
        return False
    computed = high != found
    if element not in _NEIGHBOURS:
        through = rounded(rounded(wanted, "f32"), element) if element in vocabulary.FLOAT_FORMATS else low
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
    return identical(held, rounded(found, element)) and (math.isfinite(held) or identical(held, end))


def identical(left: float | None, right: float | None) -> bool:
    """Whether two numbers are one and the same, sign of zero included; so is NaN."""
    if left is None or right is None:
        return left is right
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return left == right and math.copysign(1, left) == math.copysign(1, right)


def rounded(value: float, element: str) -> float:
    """A number as a float type holds it, to the nearest or the even one; as it is for a type that is not known here."""
    if element not in vocabulary.FLOAT_FORMATS:
        return value
    try:
        exact = float(value)
    except OverflowError:
        return _too_large(value, element)
    if not math.isfinite(exact) or exact == 0:
        return exact if math.isnan(exact) else _too_large(exact, element) if exact else _zero(exact, element)
    unit = _unit(exact, element)
    result = round(exact / unit if exact == value else Fraction(value) / Fraction(unit)) * unit
    if abs(result) > vocabulary.FLOAT_FORMATS[element][2]:
        return _too_large(exact, element)
    return math.copysign(result, exact) if result else _zero(exact, element)


def lowest(element: str) -> float | None:
    """The lowest finite number of a float type, None for a type that is not known here."""
    return -vocabulary.FLOAT_FORMATS[element][2] if element in vocabulary.FLOAT_FORMATS else None


def is_normal(value: float, element: str) -> bool:
    """Whether a float type holds a number with all of its bits: neither zero, nor infinity, nor a denormal."""
    if element not in vocabulary.FLOAT_FORMATS:
        return False
    precision, least, largest = vocabulary.FLOAT_FORMATS[element]
    return math.ldexp(1.0, least + precision - 1) <= abs(rounded(value, element)) <= largest


def has_infinity(element: str) -> bool:
    """Whether a float type has infinities; one that has none makes NaN of what is too large for it."""
    return not element.endswith(("FN", "FNUZ"))


def _too_large(value: float, element: str) -> float:
    return math.nan if not has_infinity(element) else math.inf if value > 0 else -math.inf


def _zero(value: float, element: str) -> float:
    """Zero with the sign of a number, where the type has zeros of both signs."""
    return 0.0 if element.endswith("UZ") else math.copysign(0.0, value)


def held(value: float, element: str) -> float | int | None:
    """A number as a type holds it: rounded, or wrapped round to one with a sign; None for types not known here."""
    width = _width(element)
    if width is None:
        return rounded(value, element) if element in vocabulary.FLOAT_FORMATS else None
    if not math.isfinite(value) or value != int(value):
        return None
    return _signed(int(value), width)


def unsigned(value: int, element: str) -> int:
    """The bits of an integer as a number without a sign."""
    return value % (1 << (_width(element) or 0))


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
    if element not in vocabulary.FLOAT_FORMATS:
        return math.ulp(value)
    precision, least, _ = vocabulary.FLOAT_FORMATS[element]
    return math.ldexp(1.0, max(math.frexp(value)[1] - precision, least))


def _width(element: str) -> int | None:
    if element == "index":
        return 64
    return vocabulary.bits(element) if vocabulary.is_integer(element) else None


def _signed(value: int, width: int) -> int:
    return (value + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))
