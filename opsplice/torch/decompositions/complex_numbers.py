"""Ops on complex numbers by their real and imaginary parts, where IREE takes no complex ones.

Each function has the signature of the op that it is for, and takes no part in what has no complex numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from opsplice.torch.decompositions.arithmetic import hypotenuse

Formula = Callable[..., torch.Tensor]


def conjugate(tensor: torch.Tensor) -> torch.Tensor:
    return torch.complex(tensor.real, -tensor.imag) if tensor.is_complex() else tensor.clone()


def magnitude(tensor: torch.Tensor) -> torch.Tensor:
    return hypotenuse(tensor.real, tensor.imag) if tensor.is_complex() else NotImplemented


def angle(tensor: torch.Tensor) -> torch.Tensor:
    return torch.atan2(tensor.imag, tensor.real) if tensor.is_complex() else NotImplemented


def or_converted(others: Formula) -> Formula:
    """Conversions to complex numbers, and what `others` makes of those to real ones."""

    def converted(tensor: torch.Tensor, *, dtype: torch.dtype | None = None, **form: Any) -> torch.Tensor:
        if dtype is None or not dtype.is_complex or dtype == tensor.dtype:
            return others(tensor, dtype=dtype, **form)
        real = (tensor.real if tensor.is_complex() else tensor).to(dtype.to_real())
        return torch.complex(real, tensor.imag.to(real.dtype) if tensor.is_complex() else torch.zeros_like(real))

    return converted


def by_parts(op: Formula, others: Formula) -> Formula:
    """A product or quotient of a complex tensor and real numbers, and what `others` makes of those of real tensors."""

    def formula(left: torch.Tensor | float, right: torch.Tensor | float) -> torch.Tensor:
        if not any(isinstance(each, torch.Tensor) and each.is_complex() for each in (left, right)):
            return others(left, right)
        if op is torch.mul and not _is_complex(left):
            left, right = right, left
        if _is_complex(right) or not isinstance(left, torch.Tensor):
            return NotImplemented
        return torch.complex(op(left.real, right), op(left.imag, right))

    return formula


def _is_complex(value: Any) -> bool:
    return value.is_complex() if isinstance(value, torch.Tensor) else isinstance(value, complex)


def linear(op: Formula, others: Formula) -> Formula:
    """A sum, whose parts are the sums of the parts, and what `others` makes of sums of real tensors."""

    def formula(*args: Any, **options: Any) -> torch.Tensor:
        if not any(map(_is_complex, args)) or not isinstance(args[0], torch.Tensor):
            return others(*args, **options)
        return torch.complex(op(*map(_real, args), **options), op(*map(_imaginary, args), **options))

    return formula


def _real(arg: Any) -> Any:
    return arg.real if _is_complex(arg) else arg


def _imaginary(arg: Any) -> Any:
    if isinstance(arg, torch.Tensor):
        return arg.imag if arg.is_complex() else torch.zeros_like(arg)
    is_number = isinstance(arg, (int, float, complex)) and not isinstance(arg, bool)
    return arg.imag if is_number else arg


def as_it_is(*args: Any, **options: Any) -> torch.Tensor:
    """Leave an op whole."""
    return NotImplemented
