"""Logarithms and powers of complex numbers, by the logarithms of sizes and by angles.

    complex.log %z    =>    log of the size of %z, math.atan2 of its parts

IREE 3.13 makes the angle itself later: it is not a number at 0, and not negative below the line of negative numbers,
at -4-0i. So too `complex.log1p`, and `complex.pow`, which becomes the exponential of a product.
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
    width, height = real.of("absf"), imaginary.of("absf")
    large, small = width.larger(height), width.smaller(height)
    one = large.like(1)
    # Near a size of 1 by how much more its square is.
    more = (large - one) * (large + one) + small * small
    share = large.where("==", 0, small)(small / large)
    share = small.where("==", float("inf"), one)(share)
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


_FORMS: dict[str, Callable[..., _Parts]] = {
    "complex.log": _logarithm,
    "complex.log1p": _of_one_more,
    "complex.pow": _power,
}


@emit.of_each(*_FORMS)
def mend(op: ir.Operation) -> None:
    """Change an op on single numbers, where inputs are converted."""
    kind = op.results[0].type
    element = ir.ComplexType(kind).element_type
    parts = [
        _Number(emit.value(name, [each], element)) for each in op.operands for name in ("complex.re", "complex.im")
    ]
    made = _FORMS[op.name](*parts)
    emit.replace(op, emit.value("complex.create", [each.value for each in made], kind))
