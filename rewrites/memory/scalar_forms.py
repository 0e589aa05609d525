"""Scalar ops that IREE 3.13 computes wrongly for some numbers, or not at all, get another form.

    math.powf %x, %y    =>    the power of |x|, with the sign that y gives it, and 1 where y is 0 or |x| is 1

IREE takes a power for exp(y log(x)), but for a few constant exponents: of negative numbers it makes NaN of `x ** 5.0`,
and of 0 ** 0.

    math.sin %x : f32   =>    the sine of what is left of x without multiples of pi; so too cosines and tangents

IREE takes off multiples of one number that is nearly pi / 2, and adds it to negative numbers: the sine of 1000 is off
by 6e-5, nothing of that of -1e-8 is right, and next to nothing of large tangents.

    math.tanh (0.797724 * u)    =>    math.tanh (0.797885 * u)

IREE writes PyTorch's and ONNX's gelu with `approximate="tanh"` with a root of 2 / pi that is off by 2e-4. Patterns have
seen the number by then; their kernels take the right one.

    arith.sitofp %x : i64 to bf16   =>    the upper half of the bits of arith.sitofp %x : i64 to f32, rounded

IREE makes it a call of a function that compilers bring and programs lack, also where it is spelled by way of f32.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from iree.compiler import ir

from opsplice.matchers.ir.op_names import ops_in
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.terms.ops.constant_ops import constant_of
from opsplice.rewrites.ir import emit

# Those that IREE multiplies, or takes roots for.
_RIGHT_EXPONENTS = (-2, -1, -0.5, 0, 0.5, 1, 2, 3)
# Small multiples of the first two are without rounding errors, and the three together are pi.
_PI = (3.140625, 9.67502593994140625e-4, 1.509957989753724e-7)
# A root of 2 / pi, as halves have it is right.
_WRONG_ROOT = 0.7977240352174656
_ROUNDING = 1e-7


def mend(module: ir.Module) -> None:
    """Change the ops on single numbers of a module whose inputs are converted."""
    with module.context:
        emit.load_dialects(module.context)
        for op in list(ops_in(module.operation, *_FORMS)):
            # The bodies of named ops are theirs.
            around = op.parent.name
            if not isinstance(op.results[0].type, ir.FloatType):
                continue
            if around.startswith("linalg.") and around != "linalg.generic":
                continue
            with op.location, ir.InsertionPoint(op):
                other = _FORMS[op.name](op)
            if other is not None:
                emit.replace(op, other)


def _power(op: ir.Operation) -> ir.Value | None:
    base, exponent = op.operands
    known = _known(exponent)
    if known in _RIGHT_EXPONENTS:
        return None
    positive = _of("math.powf", _of("math.absf", base), exponent)
    if known is not None and math.isfinite(known):
        if not known.is_integer():
            return None
        return _of("math.copysign", positive, base) if known % 2 else positive
    none, one = _constant(0, op), _constant(1, op)
    is_one = _of("arith.ori", emit.compared("==", exponent, none), emit.compared("==", _of("math.absf", base), one))
    size = _of("arith.select", is_one, one, positive)
    half = _of("arith.mulf", exponent, _constant(0.5, op))
    is_whole = emit.compared("==", _of("math.roundeven", exponent), exponent)
    is_odd = _of("arith.andi", is_whole, emit.compared("!=", _of("math.roundeven", half), half))
    signed = _of("arith.select", is_odd, _of("math.copysign", size, base), size)
    # The power of -inf is that of inf.
    is_negative = _of("arith.andi", emit.compared("<", base, none), emit.compared(">", base, _constant(-math.inf, op)))
    whole = _of("arith.select", is_whole, signed, _constant(math.nan, op))
    return _of("arith.select", is_negative, whole, signed)


def _of_gelu(op: ir.Operation) -> ir.Value | None:
    (scaled,) = op.operands
    if not isinstance(scaled, ir.OpResult) or scaled.owner.name != "arith.mulf":
        return None
    numbers = [_known(factor) for factor in scaled.owner.operands]
    if sum(number is not None and abs(number - _WRONG_ROOT) < _ROUNDING for number in numbers) != 1:
        return None
    (other,) = (x for x, known in zip(scaled.owner.operands, numbers, strict=True) if known is None)
    return _of("math.tanh", _of("arith.mulf", other, _constant(math.sqrt(2 / math.pi), op)))


def _sine(op: ir.Operation) -> ir.Value | None:
    return _of_angle(op, 1, lambda left, is_odd: _negated(_sine_of(left), is_odd))


def _cosine(op: ir.Operation) -> ir.Value | None:
    return _of_angle(op, 1, lambda left, is_odd: _negated(_of("math.cos", _of("math.absf", left)), is_odd))


def _tangent(op: ir.Operation) -> ir.Value | None:
    def quotient(left: ir.Value, is_odd: ir.Value) -> ir.Value:
        sine, cosine = _sine_of(left), _of("math.cos", _of("math.absf", left))
        above = _of("arith.select", is_odd, _of("arith.negf", cosine), sine)
        return _of("arith.divf", above, _of("arith.select", is_odd, sine, cosine))

    return _of_angle(op, 0.5, quotient)


def _of_angle(op: ir.Operation, step: float, make: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value | None:
    """What is made of the rest of an angle without `step` times pi, and of whether the number of these is odd."""
    (x,) = op.operands
    if not isinstance(x.type, ir.F32Type):
        return None
    count = _of("math.roundeven", _of("arith.mulf", x, _constant(1 / (step * math.pi), op)))
    left = x
    for part in _PI:
        left = _of("arith.subf", left, _of("arith.mulf", count, _constant(step * part, op)))
    half = _of("arith.mulf", count, _constant(0.5, op))
    return make(left, emit.compared("!=", _of("math.roundeven", half), half))


def _sine_of(small: ir.Value) -> ir.Value:
    return _of("math.copysign", _of("math.sin", _of("math.absf", small)), small)


def _negated(x: ir.Value, where: ir.Value) -> ir.Value:
    return _of("arith.select", where, _of("arith.negf", x), x)


def _converted(op: ir.Operation) -> ir.Value | None:
    """An integer as a bf16: the nearest, of two the even one."""
    if not isinstance(op.results[0].type, ir.BF16Type):
        return None
    word = ir.IntegerType.get_signless(32)
    bits = emit.value("arith.bitcast", [emit.value(op.name, list(op.operands), ir.F32Type.get())], word)
    sixteen = emit.constant(16, word)
    is_odd = _of("arith.andi", _of("arith.shrui", bits, sixteen), emit.constant(1, word))
    raised = _of("arith.addi", bits, _of("arith.addi", is_odd, emit.constant(0x7FFF, word)))
    upper = emit.value("arith.trunci", [_of("arith.shrui", raised, sixteen)], ir.IntegerType.get_signless(16))
    return emit.value("arith.bitcast", [upper], op.results[0].type)


_FORMS: dict[str, Callable[[ir.Operation], ir.Value | None]] = {
    "arith.sitofp": _converted,
    "arith.uitofp": _converted,
    "math.cos": _cosine,
    "math.powf": _power,
    "math.sin": _sine,
    "math.tan": _tangent,
    "math.tanh": _of_gelu,
}


def _known(number: ir.Value) -> float | None:
    """A number that is known, or that a body is given of a tensor of which all elements are known to be it."""
    if isinstance(number, ir.BlockArgument):
        loop = number.owner.owner.operation
        if loop.name != "linalg.generic" or number.arg_number >= loop.attributes["operandSegmentSizes"][0]:
            return None
        number = loop.operands[number.arg_number]
    maker = defining_op(number)
    constant = constant_of(maker) if maker is not None and maker.name == "arith.constant" else None
    return None if constant is None else float(constant.value)


def _of(name: str, *operands: ir.Value) -> ir.Value:
    return emit.value(name, operands, operands[-1].type)


def _constant(number: float, op: ir.Operation) -> ir.Value:
    return emit.constant(number, op.results[0].type)
