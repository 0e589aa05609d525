"""Scalar ops that IREE 3.13 computes wrongly for some numbers, or not at all, get another form.

    math.powf %x, %y    =>    the power of |x|, with the sign that y gives it, and 1 where y is 0 or |x| is 1

IREE takes a power for exp(y log(x)), but for a few constant exponents: of negative numbers it makes NaN of `x ** 5.0`,
and of 0 ** 0, and of (-inf) ** 2.5.

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

_of = emit.alike


def _power(op: ir.Operation) -> ir.Value | None:
    base, exponent = op.operands
    if _known(base) == 2:
        made = _of("math.exp2", exponent)
        return _exponential(made.owner) or made
    if (made := _power_of_known(op)) is not None:
        return made
    known = _known(exponent)
    if known in _RIGHT_EXPONENTS:
        return None
    if isinstance(base.type, ir.F16Type):  # of a logarithm in f16 too few digits are left
        kind = ir.F32Type.get()
        wide = emit.value("math.powf", [emit.value("arith.extf", [x], kind) for x in op.operands], kind)
        return emit.value("arith.truncf", [_power(wide.owner) or wide], base.type)
    positive = _of("math.powf", _of("math.absf", base), exponent)
    if known is not None and math.isfinite(known):
        if not known.is_integer():
            is_least = emit.compared("==", base, _constant(-math.inf, op))
            return _of("math.powf", _of("arith.select", is_least, _constant(math.inf, op), base), exponent)
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
    upper = _upper_half(count)
    left = x
    for part in _PI:
        for multiple in (upper, _of("arith.subf", count, upper)):
            left = _of("arith.subf", left, _of("arith.mulf", multiple, _constant(step * part, op)))
    half = _of("arith.mulf", count, _constant(0.5, op))
    return make(left, emit.compared("!=", _of("math.roundeven", half), half))


def _sine_of(left: ir.Value) -> ir.Value:
    """The sine of what is left of an angle, which may be more than pi where the angle is large."""
    sign = _of("math.copysign", emit.constant(1, left.type), left)
    return _of("arith.mulf", sign, _of("math.sin", _of("math.absf", left)))


def _negated(x: ir.Value, where: ir.Value) -> ir.Value:
    return _of("arith.select", where, _of("arith.negf", x), x)


def _in_f32(make: Callable[..., ir.Value], *, is_odd: bool = False) -> Callable[[ir.Operation], ir.Value | None]:
    """The form of a function. make: its value, from its operands and 1, in f32; where f(-x) is -f(x), from |x|."""

    def form(op: ir.Operation) -> ir.Value | None:
        kind, wide = op.results[0].type, ir.F32Type.get()
        if isinstance(kind, ir.F64Type):
            return None
        given = [x if kind == wide else emit.value("arith.extf", [x], wide) for x in op.operands]
        made = make(*(_of("math.absf", x) if is_odd else x for x in given), emit.constant(1, wide))
        made = _of("math.copysign", made, given[0]) if is_odd else made
        return made if kind == wide else emit.value("arith.truncf", [made], kind)

    return form


def _inverse_hyperbolic_sine(size: ir.Value, one: ir.Value) -> ir.Value:
    # Above it the one is lost in the sum, and a square may be too large.
    is_large = emit.compared(">", size, emit.constant(2**12, one.type))
    square = _of("arith.mulf", *[_of("arith.select", is_large, one, size)] * 2)
    more = _of("arith.divf", square, _of("arith.addf", one, _of("math.sqrt", _of("arith.addf", square, one))))
    far = _of("arith.addf", _of("math.log", size), emit.constant(math.log(2), one.type))
    return _of("arith.select", is_large, far, _of("math.log1p", _of("arith.addf", size, more)))


def _inverse_hyperbolic_tangent(size: ir.Value, one: ir.Value) -> ir.Value:
    quotient = _of("arith.divf", _of("arith.addf", size, size), _of("arith.subf", one, size))
    return _of("arith.mulf", _of("math.log1p", quotient), emit.constant(0.5, one.type))


def _inverse_hyperbolic_cosine(x: ir.Value, one: ir.Value) -> ir.Value:
    above, two = _of("arith.subf", x, one), emit.constant(2, one.type)
    roots = [_of("math.sqrt", each) for each in (above, _of("arith.addf", above, two))]  # below 1 there is none
    near = _of("math.log1p", _of("arith.addf", above, _of("arith.mulf", *roots)))
    far = _of("arith.addf", _of("math.log", x), emit.constant(math.log(2), one.type))
    return _of("arith.select", emit.compared(">", x, emit.constant(2**12, one.type)), far, near)


def _decimal_logarithm(x: ir.Value, one: ir.Value) -> ir.Value:
    return _of("arith.mulf", _of("math.log", x), emit.constant(math.log10(math.e), one.type))


def _power_of_two(x: ir.Value, one: ir.Value) -> ir.Value:
    whole = _whole(x, 1)
    rest = _of("arith.mulf", _of("arith.subf", x, whole), emit.constant(math.log(2), one.type))
    return _scaled(_of("math.exp", rest), whole)


def _power_of_known(op: ir.Operation) -> ir.Value | None:
    base = _known(op.operands[0])
    if base is None or base == 1 or not 0 < base < math.inf:
        return None
    return _in_f32(lambda _base, x, one: _power_of(base, x, one))(op)


def _power_of(base: float, x: ir.Value, one: ir.Value) -> ir.Value:
    """e to what is left of x log(base) without a whole number of log(2), in two parts, times two to this number."""
    far = emit.constant(_FAR / abs(math.log2(base)), one.type)
    near = _of("arith.minnumf", _of("arith.maxnumf", x, _of("arith.negf", far)), far)
    whole = _whole(near, math.log2(base))
    upper = _upper_half(near)
    lower = _of("arith.subf", near, upper)
    large, small = _halves(math.log(base), 12)
    large_two, small_two = _halves(math.log(2), 15)
    terms = (upper, large), (whole, -large_two), (upper, small), (lower, math.log(base)), (whole, -small_two)
    first, *others = (_of("arith.mulf", value, emit.constant(factor, one.type)) for value, factor in terms)
    left = _of("arith.addf", first, others[0])
    more = _of("arith.addf", _of("arith.addf", others[1], others[2]), others[3])
    found = _scaled(_of("math.exp", _of("arith.addf", left, more)), whole)
    return _of("arith.select", emit.compared("==", x, x), found, x)


def _upper_half(x: ir.Value) -> ir.Value:
    """The first twelve binary digits of a number of f32, whose products with as many are exact."""
    word = ir.IntegerType.get_signless(32)
    bits = _of("arith.andi", emit.value("arith.bitcast", [x], word), emit.constant(-(1 << 12), word))
    return emit.value("arith.bitcast", [bits], x.type)


def _halves(number: float, digits: int) -> tuple[float, float]:
    """The first binary digits of a number, and the rest."""
    fraction, exponent = math.frexp(number)
    upper = math.ldexp(math.trunc(math.ldexp(fraction, digits)), exponent - digits)
    return upper, number - upper


def _whole(x: ir.Value, factor: float) -> ir.Value:
    """The whole number next to x times a factor, none that is too large."""
    far = emit.constant(_FAR, x.type)
    times = x if factor == 1 else _of("arith.mulf", x, emit.constant(factor, x.type))
    return _of("math.roundeven", _of("arith.minnumf", _of("arith.maxnumf", times, _of("arith.negf", far)), far))


def _scaled(found: ir.Value, whole: ir.Value) -> ir.Value:
    """A number times two to a whole power."""
    word = ir.IntegerType.get_signless(32)
    count = emit.value("arith.fptosi", [whole], word)
    half = _of("arith.shrsi", count, emit.constant(1, word))
    # The whole power may be too small, or too large, where the result is not.
    for part in (half, _of("arith.subi", count, half)):
        bits = _of("arith.shli", _of("arith.addi", part, emit.constant(127, word)), emit.constant(23, word))
        found = _of("arith.mulf", found, emit.value("arith.bitcast", [bits], found.type))
    return found


def _hyperbolic_sine(size: ir.Value, one: ir.Value) -> ir.Value:
    half = emit.constant(0.5, one.type)
    less = _of("math.expm1", size)
    near = _of("arith.addf", less, _of("arith.divf", less, _of("arith.addf", less, one)))
    # The exponential may be too large where half of it is not.
    root = _of("math.exp", _of("arith.mulf", size, half))
    far = _of("arith.mulf", _of("arith.mulf", root, half), root)
    is_far = emit.compared(">", size, emit.constant(10, one.type))
    return _of("arith.select", is_far, far, _of("arith.mulf", near, half))


def _angle(op: ir.Operation) -> ir.Value:
    y, x = op.operands
    return _angle_in_f32(op) or _angle_of(y, x, _constant(1, op))


def _angle_of(y: ir.Value, x: ir.Value, one: ir.Value) -> ir.Value:
    width, height = _of("math.absf", x), _of("math.absf", y)
    # Two zeros, or two infinities, have the angle of 0 or 1 and 1 or -1.
    is_end = emit.compared("==", _of("arith.addf", width, width), width)
    is_end = _of("arith.andi", is_end, emit.compared("==", height, width))
    height = _of("arith.select", is_end, _of("arith.minnumf", height, one), height)
    x = _of("arith.select", is_end, _of("math.copysign", one, x), x)
    above = _of_point_above(height, x) if isinstance(x.type, ir.F32Type) else _of("math.atan2", height, x)
    return _of("math.copysign", above, y)


def _of_point_above(height: ir.Value, x: ir.Value) -> ir.Value:
    """The angle of a point above the line, from 0 to pi."""
    width = _of("math.absf", x)
    is_steep = emit.compared(">", height, width)
    above = _of("arith.select", is_steep, width, height)
    tangent = _of("arith.divf", above, _of("arith.select", is_steep, height, width))
    square = _of("arith.mulf", tangent, tangent)
    *factors, sum_ = (emit.constant(factor, x.type) for factor in _OF_TANGENT)
    for factor in reversed(factors):
        sum_ = _of("arith.addf", _of("arith.mulf", sum_, square), factor)
    angle = _of("arith.addf", tangent, _of("arith.mulf", _of("arith.mulf", sum_, square), tangent))
    for is_beyond, turn in ((is_steep, 0.5), (emit.compared("<", x, emit.constant(0, x.type)), 1)):
        # What f32 has of pi, and what it lacks.
        whole, more = (emit.constant(turn * part, x.type) for part in (3.1415927410125732, -8.742278e-8))
        other = _of("arith.addf", _of("arith.subf", whole, angle), more)
        angle = _of("arith.select", is_beyond, other, angle)
    return angle


def _cube_root(op: ir.Operation) -> ir.Value:
    (x,) = op.operands
    size, root = _of("math.absf", x), _of("math.cbrt", x)
    is_end = emit.compared("==", _of("arith.addf", size, size), size)
    if isinstance(x.type, ir.F32Type):
        off = _of("arith.subf", _of("arith.divf", x, _of("arith.mulf", root, root)), root)
        root = _of("arith.addf", root, _of("arith.mulf", off, _constant(1 / 3, op)))
    return _of("arith.select", is_end, x, root)


_angle_in_f32 = _in_f32(_angle_of)
_exponential = _in_f32(_power_of_two)

_FORMS: dict[str, Callable[[ir.Operation], ir.Value | None]] = {
    "arith.extf": float_conversions.widened,
    "arith.sitofp": float_conversions.of_integer,
    "arith.truncf": lambda op: float_conversions.rounded(op, _known(op.operands[0])),
    "arith.uitofp": float_conversions.of_integer,
    "math.acosh": _in_f32(_inverse_hyperbolic_cosine),
    "math.asinh": _in_f32(_inverse_hyperbolic_sine, is_odd=True),
    "math.atan": _in_f32(_of_point_above, is_odd=True),
    "math.atan2": _angle,
    "math.atanh": _in_f32(_inverse_hyperbolic_tangent, is_odd=True),
    "math.cbrt": _cube_root,
    "math.cos": _cosine,
    "math.exp2": _exponential,
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
            emit.replace(op, other)


def _mend_in_loop(op: ir.Operation) -> None:
    """Change an op on tensors by what it does to their elements, where there is another form for that."""
    element = op.results[0].type.element_type
    if not isinstance(element, ir.FloatType):
        return
    whole, body = emit.over_elements(op)
    with ir.InsertionPoint(body):
        plain = emit.value(op.name, list(body.arguments)[:-1], element, **emit.attributes_of(op))
        other = _FORMS[op.name](plain.owner)
        emit.op("linalg.yield", [other or plain])
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


def _constant(number: float, op: ir.Operation) -> ir.Value:
    return emit.constant(number, op.results[0].type)
