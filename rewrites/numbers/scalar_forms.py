"""Scalar ops that IREE 3.13 computes wrongly for some numbers, or not at all, get another form.

    math.powf %x, %y    =>    the power of |x|, with the sign that y gives it, and 1 where y is 0 or |x| is 1

IREE takes a power for exp(y log(x)), but for a few constant exponents: of negative numbers it makes NaN of `x ** 5.0`,
and of 0 ** 0, and of (-inf) ** 2.5.

    math.fpowi %x, -3   =>      1 / math.fpowi %x, 3

IREE makes -inf of the powers of 0, and of all that are too large. So it writes those of PyTorch and ONNX.

    math.exp2 %x        =>      exp of what is left of x without a whole number, times two to this

IREE takes it for exp(x log(2)), which is off by 4e-6 for large x. So too powers of any known number, as 10 ** x.

    math.sin %x : f32   =>    the sine of what is left of x without multiples of pi; so too cosines and tangents

IREE takes off multiples of one number that is nearly pi / 2, and adds it to negative numbers: the sine of 1000 is off
by 6e-5, nothing of that of -1e-8 is right, and next to nothing of large tangents.

    math.asinh %x       =>      log1p(|x| + x * x / (1 + sqrt(x * x + 1))), with the sign of x; so too atanh and sinh

IREE has the first two by the logarithm of a sum, and the third by a difference of exponentials, of which nothing is
left near 0: all three are 0 at 1e-8. So too acosh near 1. Those of f64 stay.

    math.atan2 %y, %x   =>      a polynomial of the smaller of |y| and |x| by the larger, turned to where the point lies

IREE's is off by 4e-6 of the angle, as are its `math.atan` and inverse sines of JAX, makes NaN of two zeros and of two
infinities, and does not look at the sign of a zero; some of f16 have no code.

    math.log10 %x : f32    =>    math.log %x * 0.434294

IREE makes it a call of a function that programs lack.

    math.cbrt %x        =>      one step of Newton's method from there

IREE's is off by 1e-6, and makes NaN of infinities.

    math.tanh (0.797724 * u)    =>    math.tanh (0.797885 * u)

IREE writes PyTorch's and ONNX's gelu with `approximate="tanh"` with a root of 2 / pi that is off by 2e-4. Patterns have
seen the number by then; their kernels take the right one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from iree.compiler import ir

from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.terms.ops.constant_ops import constant_of
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.number_ops import Number, choose
from opsplice.rewrites.numbers import float_conversions

_LOOP = "linalg.generic"
# Those that IREE multiplies, or takes roots for.
_RIGHT_EXPONENTS = (-2, -1, -0.5, 0, 0.5, 1, 2, 3)
# Multiples of the first two by twelve digits are without rounding errors, and the three together are pi.
_PI = (3.140625, 9.67502593994140625e-4, 1.509957989753724e-7)
# The angle of a tangent t up to 1 is t + t ** 3 * (the first + t ** 2 * (the second + ...)), off by 3e-9.
_OF_TANGENT = (
    *(-0.333332836, 0.199982661, -0.142619332, 0.10942031, -0.0837731614),
    *(0.0575521102, -0.0308046024, 0.0107269456, -0.00175393025),
)
# Twice the exponents of f32, nearly.
_FAR = 252
# A root of 2 / pi, as halves have it is right.
_WRONG_ROOT = 0.7977240352174656
_ROUNDING = 1e-7

# What takes the place of an op, None where it stays.
_Form = Callable[[ir.Operation], Number | None]


def _power(op: ir.Operation) -> Number | None:
    base, exponent = map(Number, op.operands)
    if _known(base.value) == 2:
        made = exponent.of("exp2")
        return _exponential(made.value.owner) or made
    if (of_known := _power_of_known(op)) is not None:
        return of_known
    known = _known(exponent.value)
    if known in _RIGHT_EXPONENTS:
        return None
    if isinstance(base.type, ir.F16Type):  # of a logarithm in f16 too few digits are left
        wide = base.to(ir.F32Type.get()).of("powf", exponent.to(ir.F32Type.get()))
        return (_power(wide.value.owner) or wide).to(base.type)
    positive = base.of("absf").of("powf", exponent)
    if known is not None and math.isfinite(known):
        if not known.is_integer():
            return choose(base == -math.inf, math.inf, base).of("powf", exponent)
        return positive.of("copysign", base) if known % 2 else positive
    size = choose((exponent == 0) | (base.of("absf") == 1), 1, positive)
    half, is_whole = exponent * 0.5, exponent.of("roundeven") == exponent
    signed = choose(is_whole & (half.of("roundeven") != half), size.of("copysign", base), size)
    # The power of -inf is that of inf.
    is_negative = (base < 0) & (base > -math.inf)
    return choose(is_negative, choose(is_whole, signed, math.nan), signed)


def _whole_power(op: ir.Operation) -> Number | None:
    base, exponent = Number(op.operands[0]), op.operands[1]
    known = _known(exponent)
    if known is None or known >= 0:
        return None
    # Of f16, squares are too large whose inverses are not 0.
    wide = base.to(ir.F32Type.get()) if isinstance(base.type, ir.F16Type) else base
    above = emit.value("math.fpowi", [wide.value, emit.constant(-int(known), exponent.type)], wide.type)
    return (wide.like(1) / Number(above)).to(base.type)


def _of_gelu(op: ir.Operation) -> Number | None:
    (scaled,) = op.operands
    if not isinstance(scaled, ir.OpResult) or scaled.owner.name != "arith.mulf":
        return None
    numbers = [_known(factor) for factor in scaled.owner.operands]
    if sum(number is not None and abs(number - _WRONG_ROOT) < _ROUNDING for number in numbers) != 1:
        return None
    (other,) = (Number(x) for x, known in zip(scaled.owner.operands, numbers, strict=True) if known is None)
    return (other * math.sqrt(2 / math.pi)).of("tanh")


def _sine(op: ir.Operation) -> Number | None:
    return _of_angle(op, 1, lambda left, is_odd: choose(is_odd, -_sine_of(left), _sine_of(left)))


def _cosine(op: ir.Operation) -> Number | None:
    return _of_angle(op, 1, lambda left, is_odd: choose(is_odd, -_cosine_of(left), _cosine_of(left)))


def _tangent(op: ir.Operation) -> Number | None:
    def quotient(left: Number, is_odd: Number) -> Number:
        sine, cosine = _sine_of(left), _cosine_of(left)
        return choose(is_odd, -cosine, sine) / choose(is_odd, sine, cosine)

    return _of_angle(op, 0.5, quotient)


def _of_angle(op: ir.Operation, step: float, make: Callable[[Number, Number], Number]) -> Number | None:
    """What is made of the rest of an angle without `step` times pi, and of whether the number of these is odd."""
    (x,) = map(Number, op.operands)
    if not isinstance(x.type, ir.F32Type):
        return None
    count = (x * (1 / (step * math.pi))).of("roundeven")
    upper, left = _upper_half(count), x
    for part in _PI:
        for multiple in (upper, count - upper):
            left = left - multiple * (step * part)
    half = count * 0.5
    return make(left, half.of("roundeven") != half)


def _sine_of(left: Number) -> Number:
    """The sine of what is left of an angle, which may be more than pi where the angle is large."""
    return left.like(1).of("copysign", left) * left.of("absf").of("sin")


def _cosine_of(left: Number) -> Number:
    return left.of("absf").of("cos")


def _in_f32(make: Callable[..., Number], *, is_odd: bool = False) -> _Form:
    """The form of a function. make: its value, from its operands in f32; where f(-x) is -f(x), from |x|."""

    def form(op: ir.Operation) -> Number | None:
        kind, wide = op.results[0].type, ir.F32Type.get()
        if isinstance(kind, ir.F64Type):
            return None
        given = [Number(x).to(wide) for x in op.operands]
        made = make(*(x.of("absf") if is_odd else x for x in given))
        return (made.of("copysign", given[0]) if is_odd else made).to(kind)

    return form


def _inverse_hyperbolic_sine(size: Number) -> Number:
    # Above it the one is lost in the sum, and a square may be too large.
    is_large = size > 2**12
    kept = choose(is_large, 1, size)
    square = kept * kept
    near = (size + square / ((square + 1).of("sqrt") + 1)).of("log1p")
    return choose(is_large, size.of("log") + math.log(2), near)


def _inverse_hyperbolic_tangent(size: Number) -> Number:
    return ((size + size) / (1 - size)).of("log1p") * 0.5


def _inverse_hyperbolic_cosine(x: Number) -> Number:
    above = x - 1
    near = (above + above.of("sqrt") * (above + 2).of("sqrt")).of("log1p")  # below 1 there is no root
    return choose(x > 2**12, x.of("log") + math.log(2), near)


def _decimal_logarithm(x: Number) -> Number:
    return x.of("log") * math.log10(math.e)


def _power_of_two(x: Number) -> Number:
    whole = _whole(x)
    return _scaled(((x - whole) * math.log(2)).of("exp"), whole)


def _power_of_known(op: ir.Operation) -> Number | None:
    base = _known(op.operands[0])
    if base is None or base == 1 or not 0 < base < math.inf:
        return None
    return _in_f32(lambda _base, x: _power_of(base, x))(op)


def _power_of(base: float, x: Number) -> Number:
    """e to what is left of x log(base) without a whole number of log(2), in two parts, times two to this number."""
    near = _within(x, _FAR / abs(math.log2(base)))
    whole = _whole(near * math.log2(base))
    upper = _upper_half(near)
    lower = near - upper
    large, small = _halves(math.log(base), 12)
    large_two, small_two = _halves(math.log(2), 15)
    left = upper * large + whole * -large_two
    more = upper * small + lower * math.log(base) + whole * -small_two
    return choose(x == x, _scaled((left + more).of("exp"), whole), x)


def _upper_half(x: Number) -> Number:
    """The first twelve binary digits of a number of f32, whose products with as many are exact."""
    return (x.bitcast(ir.IntegerType.get_signless(32)) & -(1 << 12)).bitcast(x.type)


def _halves(number: float, digits: int) -> tuple[float, float]:
    """The first binary digits of a number, and the rest."""
    fraction, exponent = math.frexp(number)
    upper = math.ldexp(math.trunc(math.ldexp(fraction, digits)), exponent - digits)
    return upper, number - upper


def _within(x: Number, far: float) -> Number:
    return x.op("arith.maxnumf", -far).op("arith.minnumf", far)


def _whole(x: Number) -> Number:
    """The next whole number, none that is too large."""
    return _within(x, _FAR).of("roundeven")


def _scaled(found: Number, whole: Number) -> Number:
    """A number times two to a whole power."""
    count = whole.cast("arith.fptosi", ir.IntegerType.get_signless(32))
    half = count.op("arith.shrsi", 1)
    # The whole power may be too small, or too large, where the result is not.
    for part in (half, count - half):
        found = found * ((part + 127) << 23).bitcast(found.type)
    return found


def _hyperbolic_sine(size: Number) -> Number:
    less = size.of("expm1")
    # The exponential may be too large where half of it is not.
    root = (size * 0.5).of("exp")
    return choose(size > 10, root * 0.5 * root, (less + less / (less + 1)) * 0.5)


def _angle(op: ir.Operation) -> Number:
    return _angle_in_f32(op) or _angle_of(*map(Number, op.operands))


def _angle_of(y: Number, x: Number) -> Number:
    width, height = x.of("absf"), y.of("absf")
    # Two zeros, or two infinities, have the angle of 0 or 1 and 1 or -1.
    is_end = (width + width == width) & (height == width)
    height = choose(is_end, height.op("arith.minnumf", 1), height)
    x = choose(is_end, x.like(1).of("copysign", x), x)
    above = _of_point_above(height, x) if isinstance(x.type, ir.F32Type) else height.of("atan2", x)
    return above.of("copysign", y)


def _of_point_above(height: Number, x: Number) -> Number:
    """The angle of a point above the line, from 0 to pi."""
    width = x.of("absf")
    is_steep = height > width
    tangent = choose(is_steep, width, height) / choose(is_steep, height, width)
    square, sum_ = tangent * tangent, x.like(_OF_TANGENT[-1])
    for factor in reversed(_OF_TANGENT[:-1]):
        sum_ = sum_ * square + factor
    angle = tangent + sum_ * square * tangent
    for is_beyond, turn in ((is_steep, 0.5), (x < 0, 1)):
        # What f32 has of pi, and what it lacks.
        angle = choose(is_beyond, turn * 3.1415927410125732 - angle + turn * -8.742278e-8, angle)
    return angle


def _cube_root(op: ir.Operation) -> Number:
    (x,) = map(Number, op.operands)
    size, root = x.of("absf"), x.of("cbrt")
    if isinstance(x.type, ir.F32Type):
        root = root + (x / (root * root) - root) * (1 / 3)
    return choose(size + size == size, x, root)


_angle_in_f32 = _in_f32(_angle_of)
_exponential = _in_f32(_power_of_two)

_FORMS: dict[str, _Form] = {
    "arith.extf": float_conversions.widened,
    "arith.sitofp": float_conversions.of_integer,
    "arith.truncf": lambda op: float_conversions.rounded(op, _known(op.operands[0])),
    "arith.uitofp": float_conversions.of_integer,
    "math.acosh": _in_f32(_inverse_hyperbolic_cosine),
    "math.asinh": _in_f32(_inverse_hyperbolic_sine, is_odd=True),
    "math.atan": _in_f32(lambda size: _of_point_above(size, size.like(1)), is_odd=True),
    "math.atan2": _angle,
    "math.atanh": _in_f32(_inverse_hyperbolic_tangent, is_odd=True),
    "math.cbrt": _cube_root,
    "math.cos": _cosine,
    "math.exp2": _exponential,
    "math.fpowi": _whole_power,
    "math.log10": _in_f32(_decimal_logarithm),
    "math.powf": _power,
    "math.sin": _sine,
    "math.sinh": _in_f32(_hyperbolic_sine, is_odd=True),
    "math.tan": _tangent,
    "math.tanh": _of_gelu,
}


@emit.of_each(*_FORMS)
def mend(op: ir.Operation) -> None:
    """Change an op on numbers or tensors, where inputs are converted. The bodies of named ops are theirs."""
    around, made = op.parent.name, op.results[0].type
    if isinstance(made, ir.RankedTensorType):
        _mend_in_loop(op)
    elif isinstance(made, ir.FloatType) and (not around.startswith("linalg.") or around == _LOOP):
        other = _FORMS[op.name](op)
        if other is not None:
            emit.replace(op, other.value)


def _mend_in_loop(op: ir.Operation) -> None:
    """Change an op on tensors by what it does to their elements, where there is another form for that."""
    element = op.results[0].type.element_type
    if not isinstance(element, ir.FloatType):
        return
    whole, body = emit.over_elements(op)
    with ir.InsertionPoint(body):
        plain = emit.value(op.name, list(body.arguments)[:-1], element, **emit.attributes_of(op))
        other = _FORMS[op.name](plain.owner)
        emit.op("linalg.yield", [plain if other is None else other.value])
    if other is not None:
        plain.owner.erase()
        emit.replace(op, whole)
    else:
        empty = whole.owner.operands[-1].owner
        whole.owner.erase()
        empty.erase()


def _known(number: ir.Value) -> float | None:
    """A number that is known, or that a body is given of a tensor of which all elements are known to be it."""
    if isinstance(number, ir.BlockArgument):
        loop = number.owner.owner.operation
        if loop.name != _LOOP or number.arg_number >= loop.attributes["operandSegmentSizes"][0]:
            return None
        number = loop.operands[number.arg_number]
    maker = defining_op(number)
    constant = constant_of(maker) if maker is not None and maker.name == "arith.constant" else None
    return None if constant is None else float(constant.value)
