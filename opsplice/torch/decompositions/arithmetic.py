"""Arithmetic on elements that IREE does not take, in ops that it does. Each has the signature of its op."""

from __future__ import annotations

import torch
from torch import Tensor


def power(base: Tensor | float, exponent: Tensor | float) -> Tensor:
    """Of integers, as C does it: a product of squares of the base, by the exponent's bits. IREE takes floats alone.

    A product that is too large wraps around. A negative exponent leaves 0 of all numbers but 1 and -1.
    """
    kind = torch.result_type(base, exponent)
    tensor = base if isinstance(base, Tensor) else exponent
    assert isinstance(tensor, Tensor)
    if kind.is_floating_point or kind.is_complex:
        is_float = tensor.is_floating_point() or tensor.is_complex() or tensor is not base
        return NotImplemented if is_float else torch.pow(tensor.to(kind), exponent)
    if not isinstance(base, Tensor) and base == 2:
        return _power_of_two(tensor)
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
    """IREE takes no number to subtract from; PyTorch makes some where it pads a dim of an open size by reflection."""
    return NotImplemented if isinstance(left, Tensor) else torch.mul(right, -alpha) + left


def remainder_of_division(tensor: Tensor, divisor: Tensor | float) -> Tensor:
    """IREE takes `fmod` of floats alone, and of f64 no number."""
    if not tensor.is_floating_point():
        return tensor - torch.div(tensor, divisor, rounding_mode="trunc") * divisor
    return NotImplemented if isinstance(divisor, Tensor) else torch.fmod(tensor, tensor.new_full((), divisor))


def hypotenuse(left: Tensor, right: Tensor) -> Tensor:
    """By the larger side, whose square may be too large for its type."""
    left, right = left.abs(), right.abs()
    larger = torch.maximum(left, right)
    share = torch.minimum(left, right) / torch.where(larger == 0, 1, larger)
    endless = torch.isinf(left) | torch.isinf(right)
    return torch.where(endless, torch.inf, larger * torch.sqrt(1 + share * share))
