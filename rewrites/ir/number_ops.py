"""Numbers of a program, of which Python's operators write ops: `(x * 0.5 + y).of("exp")`."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from iree.compiler import ir

from opsplice.rewrites.ir import emit


def _arithmetic(name: str) -> Callable[[Number, Number | float], Number]:
    return lambda self, other: self.op(f"arith.{name}{'f' if isinstance(self.type, ir.FloatType) else 'i'}", other)


def _comparison(op: str) -> Callable[[Number, Number | float], Number]:
    return lambda self, other: Number(emit.compared(op, self.value, self.like(other).value))


class Number:
    """A float, an integer or a truth value; operators stand at the current insertion point.

    What is beside it has its type, and may be a number of Python's. `>>` shifts zeros in, and comparisons are those of
    `emit.compared`; as those of arrays, they are no answers.
    """

    def __init__(self, value: ir.Value) -> None:
        self.value = value
        self.type: ir.Type = value.type

    def op(self, name: str, *others: Number | float) -> Number:
        """What an op makes of it and others, in the same type."""
        return Number(emit.value(name, [self.value, *(self.like(each).value for each in others)], self.type))

    def of(self, function: str, *others: Number | float) -> Number:
        """A function of `math`."""
        return self.op(f"math.{function}", *others)

    def like(self, number: Number | float) -> Number:
        """A number as one of this type."""
        return number if isinstance(number, Number) else Number(emit.constant(number, self.type))

    def cast(self, name: str, kind: ir.Type) -> Number:
        """What an op makes of it in another type."""
        return Number(emit.value(name, [self.value], kind))

    def bitcast(self, kind: ir.Type) -> Number:
        """Its bits in another type."""
        return self.cast("arith.bitcast", kind)

    def to(self, kind: ir.Type) -> Number:
        """A float in another type, which holds it or is nearest to it."""
        if self.type == kind:
            return self
        return self.cast("arith.extf" if self.type.width < kind.width else "arith.truncf", kind)

    __add__, __sub__, __mul__ = map(_arithmetic, ("add", "sub", "mul"))
    __lt__, __gt__, __ge__ = map(_comparison, ("<", ">", ">="))
    __eq__, __ne__ = map(_comparison, ("==", "!="))  # type: ignore[assignment]

    def __rsub__(self, other: float) -> Number:
        return self.like(other) - self

    def __neg__(self) -> Number:
        return self.op("arith.negf")

    def __truediv__(self, other: Number) -> Number:
        return self.op("arith.divf", other)

    def __and__(self, other: Number | int) -> Number:
        return self.op("arith.andi", other)

    def __or__(self, other: Number | int) -> Number:
        return self.op("arith.ori", other)

    def __lshift__(self, count: int) -> Number:
        return self.op("arith.shli", count)

    def __rshift__(self, count: int) -> Number:
        return self.op("arith.shrui", count)


def choose(holds: Number, one: Number | float, other: Number | float) -> Number:
    """The first where a truth value holds, and the second elsewhere. One of them says the type."""
    kind = one if isinstance(one, Number) else other
    assert isinstance(kind, Number), "one of them says the type"
    pair = [kind.like(each).value for each in (one, other)]
    return Number(emit.value("arith.select", [holds.value, *pair], kind.type))


def _function(name: str) -> Callable[..., Number]:
    return lambda number, *others: number.op(name, *others)


# Functions of numbers by the names that PyTorch has for those of tensors.
FUNCTIONS = SimpleNamespace(
    abs=_function("math.absf"),
    full_like=Number.like,
    maximum=_function("arith.maximumf"),
    minimum=_function("arith.minimumf"),
    where=choose,
    **{
        name: _function(f"math.{name}")
        for name in ("atan2", "copysign", "cos", "cosh", "exp", "expm1", "log", "log1p", "sin", "sinh", "sqrt")
    },
)
