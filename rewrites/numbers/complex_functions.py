"""Functions of complex numbers, written out with their parts.

    complex.log %z    =>    log of the size of %z, math.atan2 of its parts

IREE 3.13 does so later, behind what mends functions of single numbers (`scalar_forms`): nothing of the sine of a small
negative number is right then. It squares sizes that are too large for that, or too small: the size of 1e20 is infinite
for it, and 1 / 1e-25 is no number. And it makes the angle otherwise: that of 0 is no number, and that below the line
of negative numbers, at -4-0i, is not negative.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from iree.compiler import ir

from opsplice.rewrites.ir import emit


@dataclasses.dataclass(frozen=True)
class _Number:
    """Operators write ops."""

    value: ir.Value

    def __add__(self, other: _Number) -> _Number:
        return self._with("arith.addf", other)

    def __sub__(self, other: _Number) -> _Number:
        return self._with("arith.subf", other)

    def __mul__(self, other: _Number) -> _Number:
        return self._with("arith.mulf", other)

    def __truediv__(self, other: _Number) -> _Number:
        return self._with("arith.divf", other)

    def of(self, function: str, *others: _Number) -> _Number:
        return self._with(f"math.{function}", *others)

    def larger(self, other: _Number) -> _Number:
        return self._with("arith.maximumf", other)

    def smaller(self, other: _Number) -> _Number:
        return self._with("arith.minimumf", other)

    def like(self, number: float) -> _Number:
        return _Number(emit.constant(number, self.value.type))

    def where(self, comparison: str, bound: float, other: _Number) -> Callable[[_Number], _Number]:
        """`x.where("<", 2, y)(z)`: y where x is less than 2, and z elsewhere."""
        holds = emit.compared(comparison, self.value, self.like(bound).value)
        kind = other.value.type
        return lambda rest: _Number(emit.value("arith.select", [holds, other.value, rest.value], kind))

    def _with(self, name: str, *others: _Number) -> _Number:
        return _Number(emit.value(name, [self.value, *(each.value for each in others)], self.value.type))


_Parts = tuple[_Number, _Number]


def _logarithm(real: _Number, imaginary: _Number) -> _Parts:
    large, small, share = _by_the_larger(real, imaginary)
    one = large.like(1)
    # Near a size of 1 by how much more its square is.
    more = (large - one) * (large + one) + small * small
    far = large.of("log") + (share * share).of("log1p") * large.like(0.5)
    near = more.of("log1p") * large.like(0.5)
    size = more.of("absf").where("<", 0.5, near)(far)
    return size, imaginary.of("atan2", real)


def _of_one_more(real: _Number, imaginary: _Number) -> _Parts:
    one = real.like(1)
    more = real * (real + real.like(2)) + imaginary * imaginary
    size, angle = _logarithm(real + one, imaginary)
    return more.of("absf").where("<", 0.5, more.of("log1p") * real.like(0.5))(size), angle


def _power(real: _Number, imaginary: _Number, times: _Number, turns: _Number) -> _Parts:
    size, angle = _logarithm(real, imaginary)
    radius = (times * size - turns * angle).of("exp")
    turn = times * angle + turns * size
    none, one = real.like(0), real.like(1)
    of_zero = times.of("absf").larger(turns.of("absf")).where("==", 0, one)(none)
    is_zero = real.of("absf").larger(imaginary.of("absf"))
    return is_zero.where("==", 0, of_zero)(radius * turn.of("cos")), is_zero.where("==", 0, none)(
        radius * turn.of("sin")
    )


def _size(real: _Number, imaginary: _Number) -> _Number:
    large, _, share = _by_the_larger(real, imaginary)
    return large * (large.like(1) + share * share).of("sqrt")


def _by_the_larger(real: _Number, imaginary: _Number) -> tuple[_Number, _Number, _Number]:
    """The larger one of the sides, the smaller one, and the share that it is of the larger one."""
    width, height = real.of("absf"), imaginary.of("absf")
    large, small = width.larger(height), width.smaller(height)
    share = large.where("==", 0, small)(small / large)
    return large, small, small.where("==", _INF, small.like(1))(share)


def _quotient(real: _Number, imaginary: _Number, right: _Number, up: _Number) -> _Parts:
    """Divided by the larger part of the divisor first. What is divided by 0 has no end, as numbers have it."""
    scale = right.of("absf").larger(up.of("absf"))
    # Of infinite parts the signs are left.
    width, height = (
        each.of("absf").where("==", _INF, each.like(1).of("copysign", each))(each / scale) for each in (right, up)
    )
    size = width * width + height * height
    endless = right.like(_INF).of("copysign", right)
    return (
        scale.where("==", 0, real * endless)((real * width + imaginary * height) / size / scale),
        scale.where("==", 0, imaginary * endless)((imaginary * width - real * height) / size / scale),
    )


def _exponential(real: _Number, imaginary: _Number) -> _Parts:
    """By half of the exponent twice, as the sine may be small where the whole is too large."""
    half = (real * real.like(0.5)).of("exp")
    turned = imaginary.where("==", 0, imaginary)(half * imaginary.of("sin") * half)
    return half * imaginary.of("cos") * half, turned


def _exponential_less_one(real: _Number, imaginary: _Number) -> _Parts:
    sine = (imaginary * imaginary.like(0.5)).of("sin")
    less = real.of("expm1") * imaginary.of("cos") - real.like(2) * sine * sine
    return less, _exponential(real, imaginary)[1]


def _sine(real: _Number, imaginary: _Number) -> _Parts:
    return real.of("sin") * imaginary.of("cosh"), real.of("cos") * imaginary.of("sinh")


def _cosine(real: _Number, imaginary: _Number) -> _Parts:
    return real.of("cos") * imaginary.of("cosh"), real.like(-1) * real.of("sin") * imaginary.of("sinh")


def _hyperbolic_tangent(real: _Number, imaginary: _Number) -> _Parts:
    """Divided by e to the |real part|, which may be too large for its type."""
    size = real.of("absf")
    small, less = ((size * size.like(times)).of(name) for times, name in ((-2, "exp"), (-2, "expm1")))
    sine, cosine = imaginary.of("sin"), imaginary.of("cos")
    below = less * less * size.like(0.25) + cosine * cosine * small
    above = (size * size.like(-4)).of("expm1") * size.like(-0.25)
    return above.of("copysign", real) / below, sine * cosine * small / below


def _tangent(real: _Number, imaginary: _Number) -> _Parts:
    width, height = _hyperbolic_tangent(imaginary, real)
    return height, width


def _root(real: _Number, imaginary: _Number) -> _Parts:
    """The part without cancellation first, the other one from it; by an eighth, whose size fits into its type."""
    eighth = real.like(0.125)
    size = _size(real * eighth, imaginary * eighth) + real.of("absf") * eighth
    larger = size.of("sqrt") * size.like(2)
    smaller = larger.where("==", 0, larger)(imaginary.of("absf") / (larger + larger))
    above = real.where("<", 0, larger)(smaller)
    return real.where("<", 0, smaller)(larger), above.of("copysign", imaginary)


def _inverse_root(real: _Number, imaginary: _Number) -> _Parts:
    one = real.like(1)
    width, height = _quotient(one, one.like(0), *_root(real, imaginary))
    return width, height.of("copysign", one.like(-1) * imaginary)


_INF = float("inf")
_FORMS: dict[str, Callable[..., _Number | _Parts]] = {
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
    parts = [
        _Number(emit.value(name, [each], element)) for each in op.operands for name in ("complex.re", "complex.im")
    ]
    made = _FORMS[op.name](*parts)
    if isinstance(made, _Number):
        emit.replace(op, made.value)
    else:
        emit.replace(op, emit.value("complex.create", [each.value for each in made], op.results[0].type))
