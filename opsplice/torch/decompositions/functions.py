"""Functions of numbers that IREE has no code for. Each has the signature of the op that it is for."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan_op


def extreme(exceeds: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """The larger or the smaller of two numbers, of which NaN is none."""

    def formula(left: Tensor, right: Tensor) -> Tensor:
        return torch.where(exceeds(left, right) | torch.isnan(right), left, right)

    return formula


def has_sign(tensor: Tensor) -> Tensor:
    """Whether numbers are negative, or -0."""
    if not tensor.is_floating_point():
        return tensor < 0
    return (tensor < 0) | ((tensor == 0) & (torch.reciprocal(tensor) < 0))


def with_sign_of(tensor: Tensor, other: Tensor) -> Tensor:
    kind = torch.result_type(tensor, other)
    size = torch.abs(tensor.to(kind if kind.is_floating_point else torch.get_default_dtype()))
    return torch.where(has_sign(other), -size, size)


def next_number(left: Tensor, right: Tensor) -> Tensor:
    """The next float behind the first number on the way to the second.

    Floats are counted by their bits, as IREE's code takes those below the normal ones for 0.
    """
    kind = torch.result_type(left, right)
    whole = {8: torch.int64, 4: torch.int32, 2: torch.int16}[kind.itemsize]
    least = torch.iinfo(whole).min
    left, right = (each.contiguous() for each in torch.broadcast_tensors(left.to(kind), right.to(kind)))
    at, end = (torch.where(bits < 0, least - bits, bits) for bits in (left.view(whole), right.view(whole)))
    found = torch.where(end > at, at + 1, at - 1)
    is_negative = (found < 0) | ((found == 0) & (at < 0))
    stepped = torch.where(is_negative, least - found, found).view(kind)
    return torch.where(torch.isnan(left), left, torch.where(torch.isnan(right) | (at == end), right, stepped))


def share_and_power(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """A number from a half to 1, with a sign, and the power of two that it is multiplied by, 0 of what is no number."""
    wide = tensor if tensor.dtype == torch.float64 else tensor.float()
    form = torch.finfo(wide.dtype)
    whole, digits = (torch.int64, 52) if form.bits == 64 else (torch.int32, 23)
    is_small = torch.abs(wide) < form.tiny
    bits = torch.where(is_small, wide * 2.0**digits, wide).contiguous().view(whole)
    most = (1 << form.bits - 1 - digits) - 1
    power = ((bits >> digits) & most) - most // 2 + 1 - torch.where(is_small, digits, 0)
    share = ((bits & ~(most << digits)) | ((most // 2 - 1) << digits)).view(wide.dtype)
    is_other = (wide == 0) | ~torch.isfinite(wide)
    share = torch.where(is_other, wide, share)
    return share.to(tensor.dtype), torch.where(is_other, 0, power).to(torch.int32)


def greatest_divisor(left: Tensor, right: Tensor) -> Tensor:
    """The greatest common divisor of two integers, by Euclid: two steps halve a number at least."""
    kind = torch.result_type(left, right)
    sizes = torch.broadcast_tensors(left.to(kind).abs(), right.to(kind).abs())

    def divided(number: Tensor, divisor: Tensor, step: Tensor) -> tuple[Tensor, ...]:
        rest = torch.remainder(number, torch.where(divisor == 0, 1, divisor))
        return torch.where(divisor == 0, number, divisor), torch.where(divisor == 0, 0, rest), step.clone()

    steps = torch.arange(2 * torch.iinfo(kind).bits)
    return scan_op(divided, [each.contiguous() for each in sizes], [steps], ())[0]


def least_multiple(left: Tensor, right: Tensor) -> Tensor:
    """The least common multiple of two integers."""
    divisor = torch.gcd(left, right)
    return (torch.div(left, torch.where(divisor == 0, 1, divisor), rounding_mode="trunc") * right).abs()


def remaining_error(tensor: Tensor) -> Tensor:
    """1 - erf(x), also where erf(x) is next to 1 (the approximation of Press et al., off by 1.2e-7 of it)."""
    if tensor.dtype == torch.float64:
        return NotImplemented
    wide = tensor.float()
    size = torch.abs(wide)
    share = 1 / (1 + size / 2)
    part = share * torch.exp(_polynomial(_REMAINING_ERROR, share) - size * size)
    return _as_given(torch.where(wide < 0, 2 - part, part), tensor)


def scaled_remaining_error(tensor: Tensor) -> Tensor:
    """(1 - erf(x)) * e to the x * x."""
    if tensor.dtype == torch.float64:
        return NotImplemented
    wide = tensor.float()
    share = 1 / (1 + torch.abs(wide) / 2)
    part = share * torch.exp(_polynomial(_REMAINING_ERROR, share))
    return _as_given(torch.where(wide < 0, 2 * torch.exp(wide * wide) - part, part), tensor)


def inverse_error(tensor: Tensor) -> Tensor:
    """The number whose erf is given (the approximation of Giles)."""
    if tensor.dtype == torch.float64:
        return NotImplemented
    wide = tensor.float()
    size = torch.abs(wide)
    logarithm = -torch.log((1 - size) * (1 + size))
    near = _polynomial(_NEAR_ZERO, logarithm - 2.5)
    far = _polynomial(_NEAR_ONE, torch.sqrt(logarithm) - 3)
    found = torch.where(logarithm < _BETWEEN, near, far) * wide
    found = torch.where(size == 1, wide * torch.inf, found)
    return _as_given(found, tensor)


def log_gamma(tensor: Tensor) -> Tensor:
    """log |gamma(x)|, by Stirling's series in f64: near 1 and 2, where it is 0, the terms cancel."""
    x = tensor.double()
    upper = torch.where(x < _HALF, 1 - x, x)
    shift = torch.where(upper < _SHIFTS, upper, 1)
    z = torch.where(upper < _SHIFTS, upper + _SHIFTS, upper)
    product = math.prod((shift + step for step in range(1, _SHIFTS)), start=shift)
    series = _polynomial(_STIRLING, 1 / (z * z)) / z
    above = (z - _HALF) * torch.log(z) - z + math.log(2 * math.pi) / 2 + series
    above = torch.where(upper < _SHIFTS, above - torch.log(product), above)
    sine = torch.abs(torch.sin(math.pi * (x - torch.round(x))))
    found = torch.where(x < _HALF, torch.log(math.pi / sine) - above, above)
    return _as_given(torch.where(torch.abs(x) == torch.inf, torch.inf, found), tensor)


def digamma(tensor: Tensor) -> Tensor:
    """The derivative of log |gamma(x)|."""
    x = tensor.double()
    upper = torch.where(x < _HALF, 1 - x, x)
    z = torch.where(upper < _SHIFTS, upper + _SHIFTS, upper)
    above = torch.log(z) - 1 / (2 * z) - _polynomial(_OF_DIGAMMA, 1 / (z * z)) / (z * z)
    steps = sum(1 / (upper + step) for step in range(_SHIFTS))
    above = torch.where(upper < _SHIFTS, above - steps, above)
    angle = math.pi * (x - torch.round(x))
    below = above - math.pi * torch.cos(angle) / torch.sin(angle)
    # PyTorch has no number at negative integers, and at 0 an infinity whose sign is not that of 0.
    below = torch.where(angle == 0, torch.where(x == 0, -torch.reciprocal(x), torch.nan), below)
    return _as_given(torch.where(x < _HALF, below, above), tensor)


def polygamma(order: int, tensor: Tensor) -> Tensor:
    """The derivative of digamma, of that order."""
    if order == 0:
        return torch.digamma(tensor)
    x = tensor.double()
    found = math.factorial(order) * _zeta(_in_double(order + 1.0), x)
    found = torch.where(torch.abs(x) == torch.inf, torch.where(x > 0, 0, torch.nan), found)
    return _as_given(found if order % 2 else -found, tensor)


def zeta(power: Tensor | float, start: Tensor | float) -> Tensor:
    """The sum of (start + k) to the -power over all k from 0 on, as Hurwitz has it."""
    kind = torch.result_type(power, start)
    found = _zeta(_in_double(power), _in_double(start))
    return found.to(kind if kind.is_floating_point else torch.get_default_dtype())


def _zeta(power: Tensor, start: Tensor) -> Tensor:
    """In f64. The terms before 0 have the sizes of those from `share` to -start, which two such sums differ by."""
    power, start = torch.broadcast_tensors(power, start)
    size = torch.abs(start)
    is_negative, is_whole = start < 0, torch.floor(start) == start
    share = torch.where(is_negative & ~is_whole, size - torch.floor(size), _HALF)
    above, nearer, farther = _zeta_of_positive(
        power, torch.stack([torch.where(is_negative, 1 - share, start), share, size + 1])
    )
    below = torch.where(torch.remainder(power, 2) == 0, nearer - farther, farther - nearer)
    below = torch.where(torch.floor(power) == power, below, torch.nan)
    found = torch.where(is_negative, above + below, above)
    found = torch.where((start <= 0) & is_whole, torch.inf, found)
    return torch.where(power > 1, found, torch.where(power == 1, torch.inf, torch.nan))


def _zeta_of_positive(power: Tensor, start: Tensor) -> Tensor:
    """The first terms, and the rest by the formula of Euler and Maclaurin."""
    z = start + _SHIFTS
    factor, rest = power / z, _HALF + z / (power - 1)
    for order, share in enumerate(_OF_ZETA, start=1):
        rest = rest + factor * share
        factor = factor * (power + 2 * order - 1) * (power + 2 * order) / (z * z)
    terms = torch.pow(start.unsqueeze(-1) + torch.arange(_SHIFTS + 1), -power.unsqueeze(-1))
    # The last of them is a part of the rest.
    return terms.sum(-1) + terms[..., -1] * (rest - 1)


def bessel(order: int, *, is_scaled: bool) -> Callable[[Tensor], Tensor]:
    """The modified Bessel function of the first kind, of order 0 or 1, and scaled by e to the -|x|.

    In f64: by its powers up to 20, and above by the series in 1 / x that it comes to.
    """
    powers = [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(_POWERS)]
    steps = [((2 * k - 1) ** 2 - 4 * order**2) / (8 * k) for k in range(1, _STEPS)]
    falls = list(itertools.accumulate(steps, operator.mul, initial=1.0))

    def formula(tensor: Tensor) -> Tensor:
        x = tensor.double()
        size = torch.abs(x)
        is_small = size < _LARGE
        near, far = torch.where(is_small, size, 0), torch.where(is_small, _LARGE, size)
        below = _polynomial(powers[::-1], near * near / 4)
        if order:
            below = below * near / 2
        above = _polynomial(falls[::-1], 1 / far) / torch.sqrt(2 * math.pi * far)
        found = torch.where(is_small, below * torch.exp(-near), above)
        found = found if is_scaled else found * torch.exp(size)
        return _as_given(torch.where(x < 0, -found, found) if order else found, tensor)

    return formula


# Where the two series of Bessel functions meet, and how many of their terms matter there.
_LARGE = 20.0
_POWERS = 45
_STEPS = 21


def _in_double(number: Tensor | float) -> Tensor:
    return number.double() if isinstance(number, Tensor) else torch.full((), number, dtype=torch.float64)


def _as_given(result: Tensor, tensor: Tensor) -> Tensor:
    return result.to(tensor.dtype if tensor.is_floating_point() else torch.float32)


def _polynomial(factors: Sequence[float], x: Tensor) -> Tensor:
    total = x * factors[0] + factors[1]
    for factor in factors[2:]:
        total = total * x + factor
    return total


# From the highest power down.
_REMAINING_ERROR = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
    *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
)
_STIRLING = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
_OF_DIGAMMA = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)
# Bernoulli's numbers of even order, by the factorials of these.
_OF_ZETA = tuple(
    number / math.factorial(2 * order)
    for order, number in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6), start=1)
)
# By how much smaller numbers are shifted for these series, and where numbers are mirrored instead.
_SHIFTS = 8
_HALF = 0.5
_BETWEEN = 5.0
_NEAR_ZERO = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_NEAR_ONE = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)


def places_in_order(
    ordered: Tensor,
    values: Tensor | float,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where values belong among ordered ones, by counting those before; NaN is behind all numbers."""
    if sorter is not None:
        ordered = ordered.gather(-1, sorter)
    value = (values if isinstance(values, Tensor) else ordered.new_full((), values)).unsqueeze(-1)
    others = ordered if ordered.dim() == 1 else ordered.unsqueeze(-2)
    if right or side == "right":
        before = ~(others > value) & (~torch.isnan(others) | torch.isnan(value))
    else:
        before = ~(others >= value) & ~torch.isnan(others)
    return before.sum(-1, dtype=torch.int32 if out_int32 else torch.int64)
