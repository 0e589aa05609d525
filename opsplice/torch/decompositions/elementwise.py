"""Arithmetic on elements that IREE does not take, in ops that it does. Each has the signature of its op."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from opsplice.rewrites.numbers import complex_functions

# PyTorch's number of a reduction.
_MEAN = 1

# At many ops on these IREE's compiler ends the process.
BYTES = (torch.int8, torch.uint8)


def is_whole(number: Any) -> bool:
    """Whether it is an integer of Python's, or an open size."""
    return isinstance(number, (int, torch.SymInt))


def power(base: Tensor | float, exponent: Tensor | float) -> Tensor:
    """Of integers, as C does it: a product of squares of the base, by the exponent's bits. IREE takes floats alone.

    A product that is too large wraps around. A negative exponent leaves 0 of all numbers but 1 and -1.
    """
    kind = torch.result_type(base, exponent)
    tensor = base if isinstance(base, Tensor) else exponent
    assert isinstance(tensor, Tensor)
    if kind.is_floating_point and not isinstance(exponent, Tensor) and exponent in (-1, -2, -3):
        # IREE makes -inf of those of 0.
        return torch.reciprocal(torch.pow(base, -exponent))
    if kind.is_floating_point or kind.is_complex:
        is_float = tensor.is_floating_point() or tensor.is_complex() or tensor is not base
        return NotImplemented if is_float else torch.pow(tensor.to(kind), exponent)
    if not isinstance(base, Tensor) and base == 2:
        return _power_of_two(tensor.to(kind))
    square = base.to(kind) if isinstance(base, Tensor) else torch.full_like(tensor, base, dtype=kind)
    if not isinstance(exponent, Tensor):
        return _product_of_squares(square, int(exponent), int(exponent).bit_length())
    whole = _product_of_squares(square, exponent.to(kind), torch.iinfo(exponent.dtype).max.bit_length())
    odd_sign = torch.where((exponent & 1) == 1, square, 1)
    return torch.where(exponent < 0, torch.where(square.abs() == 1, odd_sign, 0), whole).to(kind)


def _power_of_two(exponent: Tensor) -> Tensor:
    fits = (exponent >= 0) & (exponent < torch.iinfo(exponent.dtype).bits)
    return torch.where(fits, torch.bitwise_left_shift(torch.ones_like(exponent), torch.where(fits, exponent, 0)), 0)


def _product_of_squares(square: Tensor, exponent: Tensor | int, bits: int) -> Tensor:
    result = torch.ones_like(square)
    for bit in range(bits):
        if not isinstance(exponent, Tensor):
            result = result * square if exponent >> bit & 1 else result
        else:
            result = torch.where((exponent >> bit & 1) == 1, result * square, result)
        square = square * square
    return result


def difference(left: Tensor | float, right: Tensor | float, *, alpha: float = 1) -> Tensor:
    """IREE takes no number to subtract from; PyTorch makes some where it pads a dim of an open size by reflection.

    Its compiler ends the process where a number is subtracted from bytes.
    """
    if not isinstance(left, Tensor):
        return torch.mul(right, -alpha) + left
    return torch.add(left, right, alpha=-alpha) if left.dtype in BYTES and is_whole(right) else NotImplemented


def difference_from_number(tensor: Tensor, number: float, alpha: float = 1) -> Tensor:
    """IREE's has a factor of -1, which is none of floats (`graph_edits`)."""
    is_taken = not tensor.is_floating_point() and not (tensor.dtype in BYTES and is_whole(number))
    return NotImplemented if is_taken else torch.mul(tensor, -alpha) + number


def remainder_of_division(tensor: Tensor, divisor: Tensor | float) -> Tensor:
    """With the sign of what is divided. IREE takes `fmod` of floats alone, and is off for large quotients."""
    if not tensor.is_floating_point() and not _is_floating(divisor):
        return tensor - torch.div(tensor, divisor, rounding_mode="trunc") * divisor
    kind = torch.result_type(tensor, divisor)
    tensor = tensor.to(kind)
    size = divisor.to(kind).abs() if isinstance(divisor, Tensor) else abs(divisor)
    return torch.copysign(torch.remainder(tensor.abs(), size), tensor)


def floor_remainder(left: Tensor | float, right: Tensor | float) -> Tensor:
    """With the sign of the divisor. IREE takes bytes for signed ones, and has no code for that of a number."""
    kind = torch.result_type(left, right)
    if kind in BYTES:
        return torch.remainder(*_tensors(torch.int32, *_tensors(kind, left, right))).to(kind)
    return NotImplemented if isinstance(left, Tensor) else torch.remainder(*_tensors(kind, left, right))


def quotient(left: Tensor | float, right: Tensor | float, *, rounding_mode: str | None = None) -> Tensor:
    """IREE rounds the rounded quotient down, so that 1.0 // 0.1 is 10, and takes bytes for signed ones."""
    kind = torch.result_type(left, right)
    if kind in BYTES and rounding_mode is not None:
        left, right = _tensors(torch.int32, *_tensors(kind, left, right))
        return torch.div(left, right, rounding_mode="trunc" if kind == torch.uint8 else rounding_mode).to(kind)
    if rounding_mode != "floor":
        return NotImplemented
    left, right = _tensors(kind, left, right)
    rest = torch.fmod(left, right)
    is_above = ((rest != 0) & ((rest < 0) != (right < 0))).to(kind)
    if not kind.is_floating_point:
        return torch.div(left, right, rounding_mode="trunc") - is_above
    plain = left / right
    whole = torch.copysign(torch.round((left - rest) / right) - is_above, plain)
    return torch.where(right == 0, plain, whole)


def floor_quotient(left: Tensor | float, right: Tensor | float) -> Tensor:
    return quotient(left, right, rounding_mode="floor")


def _tensors(kind: torch.dtype, *numbers: Tensor | float) -> list[Tensor]:
    like = next(number for number in numbers if isinstance(number, Tensor))
    return [x.to(kind) if isinstance(x, Tensor) else torch.full_like(like, x, dtype=kind) for x in numbers]


def comparison(op: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Of a tensor and a number, in a type that holds both.

    IREE computes those of constants itself, and reads the bits of a number of another type: ones are below 0 for it.
    It cuts off the digits that a type has no room for, so that 0.1 as f32 is above 0.1. PyTorch wraps an integer around
    that a type has no room for.
    """

    def compared(tensor: Tensor, number: float) -> Tensor:
        if type(number) not in (int, float):
            return NotImplemented
        if tensor.is_floating_point():
            rounded = _rounded(number, tensor.dtype)
            return NotImplemented if type(number) is float and rounded == number else op(tensor, rounded)
        if type(number) is float:
            return op(tensor.to(torch.get_default_dtype()), number)
        if tensor.dtype == torch.bool:
            return op(tensor.to(torch.int64), number)
        wrapped = _wrapped(int(number), tensor.dtype)
        if tensor.dtype == torch.uint8:
            return op(tensor.to(torch.int32), wrapped)
        return NotImplemented if wrapped == number else op(tensor, wrapped)

    return compared


def _wrapped(number: int, kind: torch.dtype) -> int:
    limits = torch.iinfo(kind)
    return (number - limits.min) % (limits.max - limits.min + 1) + limits.min


def _rounded(number: float, kind: torch.dtype) -> float:
    with np.errstate(over="ignore"):
        return float(_NARROW.get(kind, np.float64)(number))


_NARROW = {torch.float32: np.float32, torch.float16: np.float16, torch.bfloat16: ml_dtypes.bfloat16}


def extreme(exceeds: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """The larger or the smaller of two numbers, or NaN where one is. IREE takes the right one where the left is NaN.

    With a bound for all elements, which is no NaN, it has the form by which patterns know it.
    """

    def formula(left: Tensor, right: Tensor) -> Tensor:
        kind = torch.result_type(left, right)
        if not kind.is_floating_point:
            return NotImplemented
        left, right = _tensors(kind, left, right)
        if bool(left.dim()) != bool(right.dim()):
            bound, tensor = (left, right) if right.dim() else (right, left)
            return torch.where(exceeds(bound, tensor), bound, tensor)
        return torch.where(exceeds(left, right) | torch.isnan(left), left, right)

    return formula


def extreme_of_all(op: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The largest or the smallest of bytes, at which IREE's compiler ends the process, as over all dims."""
    return lambda tensor: op(tensor) if tensor.dtype in BYTES else NotImplemented


def equal(left: Tensor, right: Tensor) -> Tensor:
    """IREE takes each number for equal to itself, NaN too."""
    both_float = left.is_floating_point() and right.is_floating_point()
    return torch.ne(left, right).logical_not() if both_float else NotImplemented


def clamped(tensor: Tensor, low: float | None = None, high: float | None = None) -> Tensor:
    """IREE takes the bound for NaN, and no floats as bounds of integers."""
    given = [bound for bound in (low, high) if bound is not None]
    kind = functools.reduce(torch.promote_types, (torch.result_type(tensor, bound) for bound in given))
    if not kind.is_floating_point:
        return NotImplemented
    tensor = tensor.to(kind)
    for bound, exceeds in ((low, torch.gt), (high, torch.lt)):
        if bound is not None:
            bounds = torch.full((), bound, dtype=tensor.dtype, device=tensor.device)
            tensor = torch.where(exceeds(bounds, tensor), bounds, tensor)
    return tensor


def hard_tangent(tensor: Tensor, low: float = -1, high: float = 1) -> Tensor:
    """Of integers one, by the bounds without their digits."""
    if not tensor.is_floating_point():
        return torch.clamp(tensor, int(low), int(high))
    return clamped(tensor, low, high)


def negative(tensor: Tensor) -> Tensor:
    """IREE has those of integers by way of f32."""
    if tensor.is_floating_point() or tensor.is_complex():
        return NotImplemented
    return torch.zeros_like(tensor) - tensor


def size_without_sign(tensor: Tensor) -> Tensor:
    """IREE takes large numbers without a sign for negative ones."""
    return tensor.clone() if tensor.dtype == torch.uint8 else NotImplemented


def is_finite(tensor: Tensor) -> Tensor:
    """IREE takes NaN for a finite number, and no integers."""
    if tensor.is_complex():
        return NotImplemented
    return tensor.abs() < torch.inf if tensor.is_floating_point() else torch.ones_like(tensor, dtype=torch.bool)


def bounded(tensor: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    tensor = tensor if low is None else torch.maximum(tensor, low)
    return tensor if high is None else torch.minimum(tensor, high)


def inverse(tensor: Tensor) -> Tensor:
    """IREE takes bytes for signed ones."""
    return NotImplemented if _is_floating(tensor) else torch.reciprocal(tensor.to(torch.get_default_dtype()))


def above(tensor: Tensor, threshold: float, value: float) -> Tensor:
    """IREE takes bytes for signed ones, and NaN for what is below."""
    return torch.where(tensor <= threshold, torch.full_like(tensor, value), tensor)


def _is_floating(number: Tensor | float) -> bool:
    if isinstance(number, Tensor):
        return number.is_floating_point() or number.is_complex()
    return isinstance(number, float)


def hypotenuse(left: Tensor, right: Tensor) -> Tensor:
    size: Tensor = complex_functions.size(torch, left, right)
    return size


def soft_margin_loss_backward(gradient: Tensor, tensor: Tensor, target: Tensor, reduction: int) -> Tensor:
    """Without the difference to 1 of a sigmoid, of which nothing is left where the loss is small."""
    found = -target * gradient * torch.sigmoid(-target * tensor)
    return found / tensor.numel() if reduction == _MEAN else found


# Ops on lists whose ops on tensors have other names.
_OF_TENSORS: dict[str, Callable[..., Tensor]] = {
    "addcdiv": lambda tensor, one, other, value=1: torch.addcdiv(tensor, one, other, value=value),
    "addcmul": lambda tensor, one, other, value=1: torch.addcmul(tensor, one, other, value=value),
    "max": torch.amax,
    "maximum": torch.clamp_min,
    "minimum": torch.clamp_max,
    "norm": torch.linalg.vector_norm,
    "zero": torch.zeros_like,
}


def on_lists() -> dict[Any, Callable[..., list[Tensor]]]:
    """What computes ops on lists of tensors, which optimizers and the clipping of gradients have, by op."""
    found: dict[Any, Callable[..., list[Tensor]]] = {}
    for name in {name.rstrip("_") for name in dir(torch) if name.startswith("_foreach_")}:
        packet, plain = getattr(torch.ops.aten, name), name.removeprefix("_foreach_")
        op = _OF_TENSORS.get(plain) or getattr(torch.ops.aten, plain, None)
        if op is None:
            continue
        for kind in packet.overloads():
            if kind != "out" and not (plain in ("addcdiv", "addcmul") and kind == "Tensor"):
                found[getattr(packet, kind)] = functools.partial(_one_by_one, op)
    return found


def _one_by_one(op: Callable[..., Tensor], *args: Any, **options: Any) -> list[Tensor]:
    number = next(len(arg) for arg in args if isinstance(arg, (list, tuple)))
    rows = zip(*(arg if isinstance(arg, (list, tuple)) else [arg] * number for arg in args), strict=True)
    return [op(*row, **options) for row in rows]
