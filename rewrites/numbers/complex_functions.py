"""Functions of complex numbers, written out with their parts.

    complex.log %z    =>    log of the size of %z, math.atan2 of its parts

IREE 3.13 does so later, behind what mends functions of single numbers (`scalar_forms`): nothing of the sine of a small
negative number is right then. It squares sizes that are too large for that, or too small: the size of 1e20 is infinite
for it, and 1 / 1e-25 is no number. And it makes the angle otherwise: that of 0 is no number, and that below the line
of negative numbers, at -4-0i, is not negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from iree.compiler import ir

from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.number_ops import Number, choose

_Parts = tuple[Number, Number]


def _logarithm(real: Number, imaginary: Number) -> _Parts:
    large, small, share = _by_the_larger(real, imaginary)
    # Near a size of 1 by how much more its square is.
    more = (large - 1) * (large + 1) + small * small
    far = large.of("log") + (share * share).of("log1p") * 0.5
    size = choose(more.of("absf") < 0.5, more.of("log1p") * 0.5, far)
    return size, imaginary.of("atan2", real)


def _of_one_more(real: Number, imaginary: Number) -> _Parts:
    more = real * (real + 2) + imaginary * imaginary
    size, angle = _logarithm(real + 1, imaginary)
    return choose(more.of("absf") < 0.5, more.of("log1p") * 0.5, size), angle


def _power(real: Number, imaginary: Number, times: Number, turns: Number) -> _Parts:
    size, angle = _logarithm(real, imaginary)
    radius = (times * size - turns * angle).of("exp")
    turn = times * angle + turns * size
    of_zero = choose(times.of("absf").larger(turns.of("absf")) == 0, 1, real.like(0))
    is_zero = real.of("absf").larger(imaginary.of("absf")) == 0
    return choose(is_zero, of_zero, radius * turn.of("cos")), choose(is_zero, 0, radius * turn.of("sin"))


def _size(real: Number, imaginary: Number) -> Number:
    large, _, share = _by_the_larger(real, imaginary)
    return large * (share * share + 1).of("sqrt")


def _by_the_larger(real: Number, imaginary: Number) -> tuple[Number, Number, Number]:
    """The larger one of the sides, the smaller one, and the share that it is of the larger one."""
    width, height = real.of("absf"), imaginary.of("absf")
    large, small = width.larger(height), width.smaller(height)
    share = choose(large == 0, small, small / large)
    return large, small, choose(small == math.inf, 1, share)


def _quotient(real: Number, imaginary: Number, right: Number, up: Number) -> _Parts:
    """Divided by the larger part of the divisor first. What is divided by 0 has no end, as numbers have it."""
    scale = right.of("absf").larger(up.of("absf"))
    # Of infinite parts the signs are left.
    width, height = (
        choose(each.of("absf") == math.inf, each.like(1).of("copysign", each), each / scale) for each in (right, up)
    )
    size = width * width + height * height
    endless, is_zero = right.like(math.inf).of("copysign", right), scale == 0
    return (
        choose(is_zero, real * endless, (real * width + imaginary * height) / size / scale),
        choose(is_zero, imaginary * endless, (imaginary * width - real * height) / size / scale),
    )


def _exponential(real: Number, imaginary: Number) -> _Parts:
    """By half of the exponent twice, as the sine may be small where the whole is too large."""
    half = (real * 0.5).of("exp")
    turned = choose(imaginary == 0, imaginary, half * imaginary.of("sin") * half)
    return half * imaginary.of("cos") * half, turned


def _exponential_less_one(real: Number, imaginary: Number) -> _Parts:
    sine = (imaginary * 0.5).of("sin")
    less = real.of("expm1") * imaginary.of("cos") - (sine + sine) * sine
    return less, _exponential(real, imaginary)[1]


def _sine(real: Number, imaginary: Number) -> _Parts:
    return real.of("sin") * imaginary.of("cosh"), real.of("cos") * imaginary.of("sinh")


def _cosine(real: Number, imaginary: Number) -> _Parts:
    return real.of("cos") * imaginary.of("cosh"), -real.of("sin") * imaginary.of("sinh")


def _hyperbolic_tangent(real: Number, imaginary: Number) -> _Parts:
    """Divided by e to the |real part|, which may be too large for its type."""
    size = real.of("absf")
    small, less = ((size * -2).of(name) for name in ("exp", "expm1"))
    sine, cosine = imaginary.of("sin"), imaginary.of("cos")
    below = less * less * 0.25 + cosine * cosine * small
    above = (size * -4).of("expm1") * -0.25
    return above.of("copysign", real) / below, sine * cosine * small / below


def _tangent(real: Number, imaginary: Number) -> _Parts:
    width, height = _hyperbolic_tangent(imaginary, real)
    return height, width


def _root(real: Number, imaginary: Number) -> _Parts:
    """The part without cancellation first, the other one from it; by an eighth, whose size fits into its type."""
    size = _size(real * 0.125, imaginary * 0.125) + real.of("absf") * 0.125
    larger = size.of("sqrt") * 2
    smaller = choose(larger == 0, larger, imaginary.of("absf") / (larger + larger))
    above = choose(real < 0, larger, smaller)
    return choose(real < 0, smaller, larger), above.of("copysign", imaginary)


def _inverse_root(real: Number, imaginary: Number) -> _Parts:
    width, height = _quotient(real.like(1), real.like(0), *_root(real, imaginary))
    return width, height.of("copysign", -imaginary)


_FORMS: dict[str, Callable[..., Number | _Parts]] = {
    "complex.abs": _size,
    "complex.cos": _cosine,
    "complex.div": _quotient,
    "complex.exp": _exponential,
    "complex.expm1": _exponential_less_one,
    "complex.log": _logarithm,
    "complex.log1p": _of_one_more,
    "complex.pow": _power,
    "complex.rsqrt": _inverse_root,
    "complex.sin": _sine,
    "complex.tan": _tangent,
    "complex.tanh": _hyperbolic_tangent,
}


@emit.of_each(*_FORMS)
def mend(op: ir.Operation) -> None:
    """Change an op on single numbers, where inputs are converted."""
    element = ir.ComplexType(op.operands[0].type).element_type
    parts = [Number(emit.value(name, [each], element)) for each in op.operands for name in ("complex.re", "complex.im")]
    made = _FORMS[op.name](*parts)
    if isinstance(made, Number):
        emit.replace(op, made.value)
    else:
        emit.replace(op, emit.value("complex.create", [each.value for each in made], op.results[0].type))
