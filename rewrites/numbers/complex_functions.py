"""Functions of complex numbers, written out with their parts.

    complex.log %z    =>    log of the size of %z, math.atan2 of its parts

IREE 3.13 does so later, behind what mends functions of single numbers (`scalar_forms`): nothing of the sine of a small
negative number is right then. It squares sizes that are too large for that, or too small: the size of 1e20 is infinite
for it, and 1 / 1e-25 is no number. And it makes the angle otherwise: that of 0 is no number, and that below the line
of negative numbers, at -4-0i, is not negative.

The formulas are those of PyTorch's complex tensors, too. `on` is what has functions of numbers by PyTorch's names:
`number_ops.FUNCTIONS` for those of a program, and PyTorch itself for tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from iree.compiler import ir

from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.number_ops import FUNCTIONS, Number

# A number of a program, or a tensor of them; what is real, and what is imaginary.
Real = Any
Parts = tuple[Real, Real]


def size(on: Any, real: Real, imaginary: Real) -> Real:
    """By the larger side, whose square may be too large for its type. With an infinite side it is infinite."""
    large, _, share = _by_the_larger(on, real, imaginary)
    return on.where(_is_endless(on, real, imaginary), math.inf, large * on.sqrt(share * share + 1))


def _by_the_larger(on: Any, real: Real, imaginary: Real) -> tuple[Real, Real, Real]:
    """The larger one of the sides, the smaller one, and the share that it is of the larger one."""
    width, height = on.abs(real), on.abs(imaginary)
    large, small = on.maximum(width, height), on.minimum(width, height)
    share = on.where(large == 0, small, small / large)
    return large, small, on.where(small == math.inf, 1, share)


def _is_endless(on: Any, real: Real, imaginary: Real) -> Real:
    return (on.abs(real) == math.inf) | (on.abs(imaginary) == math.inf)


def logarithm(on: Any, real: Real, imaginary: Real) -> Parts:
    large, small, share = _by_the_larger(on, real, imaginary)
    # Near a size of 1 by how much more its square is.
    more = (large - 1) * (large + 1) + small * small
    far = on.log(large) + on.log1p(share * share) * 0.5
    near = on.where(on.abs(more) < 0.5, on.log1p(more) * 0.5, far)
    return on.where(_is_endless(on, real, imaginary), math.inf, near), on.atan2(imaginary, real)


def logarithm_of_more(on: Any, real: Real, imaginary: Real) -> Parts:
    """log(1 + z), near one by how much more than one the square of its size is."""
    more = real * (real + 2) + imaginary * imaginary
    size, angle = logarithm(on, real + 1, imaginary)
    return on.where(on.abs(more) < 0.5, on.log1p(more) * 0.5, size), angle


def power(on: Any, real: Real, imaginary: Real, times: Real, turns: Real) -> Parts:
    size, angle = logarithm(on, real, imaginary)
    radius = on.exp(times * size - turns * angle)
    turn = times * angle + turns * size
    of_zero = on.where(on.maximum(on.abs(times), on.abs(turns)) == 0, 1, on.full_like(real, 0))
    is_zero = on.maximum(on.abs(real), on.abs(imaginary)) == 0
    return on.where(is_zero, of_zero, radius * on.cos(turn)), on.where(is_zero, 0, radius * on.sin(turn))


def quotient(on: Any, real: Real, imaginary: Real, right: Real, up: Real) -> Parts:
    """Divided by the larger part of the divisor first. What is divided by 0 has no end, as numbers have it."""
    scale = on.maximum(on.abs(right), on.abs(up))
    # Of infinite parts the signs are left.
    width, height = (
        on.where(on.abs(each) == math.inf, on.copysign(on.full_like(each, 1), each), each / scale)
        for each in (right, up)
    )
    size = width * width + height * height
    endless, is_zero = on.copysign(on.full_like(right, math.inf), right), scale == 0
    return (
        on.where(is_zero, real * endless, (real * width + imaginary * height) / size / scale),
        on.where(is_zero, imaginary * endless, (imaginary * width - real * height) / size / scale),
    )


def reciprocal(on: Any, real: Real, imaginary: Real) -> Parts:
    return quotient(on, on.full_like(real, 1), on.full_like(real, 0), real, imaginary)


def exponential(on: Any, real: Real, imaginary: Real) -> Parts:
    """By half of the exponent twice, as the sine may be small where the whole is too large."""
    half = on.exp(real * 0.5)
    turned = on.where(imaginary == 0, imaginary, half * on.sin(imaginary) * half)
    return half * on.cos(imaginary) * half, turned


def exponential_less_one(on: Any, real: Real, imaginary: Real) -> Parts:
    sine = on.sin(imaginary * 0.5)
    less = on.expm1(real) * on.cos(imaginary) - (sine + sine) * sine
    return less, exponential(on, real, imaginary)[1]


def sine(on: Any, real: Real, imaginary: Real) -> Parts:
    return on.sin(real) * on.cosh(imaginary), on.cos(real) * on.sinh(imaginary)


def cosine(on: Any, real: Real, imaginary: Real) -> Parts:
    return on.cos(real) * on.cosh(imaginary), -on.sin(real) * on.sinh(imaginary)


def hyperbolic_sine(on: Any, real: Real, imaginary: Real) -> Parts:
    return on.sinh(real) * on.cos(imaginary), on.cosh(real) * on.sin(imaginary)


def hyperbolic_cosine(on: Any, real: Real, imaginary: Real) -> Parts:
    return on.cosh(real) * on.cos(imaginary), on.sinh(real) * on.sin(imaginary)


def hyperbolic_tangent(on: Any, real: Real, imaginary: Real) -> Parts:
    """Divided by e to the |real part|, which may be too large for its type."""
    size = on.abs(real)
    small, less = on.exp(size * -2), on.expm1(size * -2)
    sine, cosine = on.sin(imaginary), on.cos(imaginary)
    below = less * less * 0.25 + cosine * cosine * small
    above = on.expm1(size * -4) * -0.25
    return on.copysign(above, real) / below, sine * cosine * small / below


def tangent(on: Any, real: Real, imaginary: Real) -> Parts:
    height, width = hyperbolic_tangent(on, imaginary, real)
    return width, height


def root(on: Any, real: Real, imaginary: Real) -> Parts:
    """The part without cancellation first, the other one from it; by an eighth, whose size fits into its type."""
    eighth = size(on, real * 0.125, imaginary * 0.125) + on.abs(real) * 0.125
    larger = on.sqrt(eighth) * 2
    smaller = on.where(larger == 0, larger, on.abs(imaginary) / (larger + larger))
    above = on.where(real < 0, larger, smaller)
    return on.where(real < 0, smaller, larger), on.copysign(above, imaginary)


def inverse_root(on: Any, real: Real, imaginary: Real) -> Parts:
    width, height = reciprocal(on, *root(on, real, imaginary))
    return width, on.copysign(height, -imaginary)


def logistic(on: Any, real: Real, imaginary: Real) -> Parts:
    """1 / (1 + e to the -z), or what it is with e to the z, whichever is small."""
    is_right, small = real > 0, on.exp(-on.abs(real))
    width, height = small * on.cos(imaginary), small * on.sin(on.where(is_right, -imaginary, imaginary))
    return quotient(on, on.where(is_right, 1, width), on.where(is_right, 0, height), width + 1, height)


# What follows are the formulas of Kahan, by the roots of what is more and less than one.


def inverse_hyperbolic_sine(on: Any, real: Real, imaginary: Real) -> Parts:
    width, height = root(on, 1 + imaginary, -real)
    right, up = root(on, 1 - imaginary, real)
    return on.asinh(width * up - right * height), on.atan2(imaginary, width * right - height * up)


def inverse_sine(on: Any, real: Real, imaginary: Real) -> Parts:
    width, height = inverse_hyperbolic_sine(on, -imaginary, real)
    return height, -width


def inverse_cosine(on: Any, real: Real, imaginary: Real) -> Parts:
    width, height = root(on, 1 - real, -imaginary)
    right, up = root(on, 1 + real, imaginary)
    return on.atan2(width, right) * 2, on.asinh(right * height - up * width)


def inverse_hyperbolic_cosine(on: Any, real: Real, imaginary: Real) -> Parts:
    width, height = root(on, real - 1, imaginary)
    right, up = root(on, real + 1, imaginary)
    return on.asinh(width * right + height * up), on.atan2(height, right) * 2


def inverse_hyperbolic_tangent(on: Any, real: Real, imaginary: Real) -> Parts:
    """Where a square is infinite, the quotient by it is 0, which it is nearly."""
    size = on.abs(real)
    less, square = 1 - size, imaginary * imaginary
    grown = on.log1p(4 * size / (less * less + square)) * 0.25
    turn = on.atan2(imaginary + imaginary, less * (1 + size) - square) * 0.5
    return on.copysign(grown, real), turn


def inverse_tangent(on: Any, real: Real, imaginary: Real) -> Parts:
    width, height = inverse_hyperbolic_tangent(on, -imaginary, real)
    return height, -width


_FORMS: dict[str, Callable[..., Real | Parts]] = {
    "complex.abs": size,
    "complex.cos": cosine,
    "complex.div": quotient,
    "complex.exp": exponential,
    "complex.expm1": exponential_less_one,
    "complex.log": logarithm,
    "complex.log1p": logarithm_of_more,
    "complex.pow": power,
    "complex.rsqrt": inverse_root,
    "complex.sin": sine,
    "complex.tan": tangent,
    "complex.tanh": hyperbolic_tangent,
}


@emit.of_each(*_FORMS)
def mend(op: ir.Operation) -> None:
    """Change an op on single numbers, where inputs are converted."""
    element = ir.ComplexType(op.operands[0].type).element_type
    parts = [Number(emit.value(name, [each], element)) for each in op.operands for name in ("complex.re", "complex.im")]
    made = _FORMS[op.name](FUNCTIONS, *parts)
    if isinstance(made, Number):
        emit.replace(op, made.value)
    else:
        emit.replace(op, emit.value("complex.create", [each.value for each in made], op.results[0].type))
