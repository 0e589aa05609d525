"""Ops on complex numbers by their real and imaginary parts, where IREE takes no complex ones.

Each function has the signature of the op that it is for, and takes no part in what has no complex numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Formula = Callable[..., torch.Tensor]


def conjugate(tensor: torch.Tensor) -> torch.Tensor:
    return torch.complex(tensor.real, -tensor.imag) if tensor.is_complex() else tensor.clone()


def magnitude(tensor: torch.Tensor) -> torch.Tensor:
    """By the larger part, whose square may be too large for its type."""
    if not tensor.is_complex():
        return NotImplemented
    real, imaginary = tensor.real.abs(), tensor.imag.abs()
    larger = torch.maximum(real, imaginary)
    share = torch.minimum(real, imaginary) / torch.where(larger == 0, 1, larger)
    return larger * torch.sqrt(1 + share * share)


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
    """A product or quotient of a complex tensor and a real number, and what `others` makes of real tensors."""

    def formula(left: torch.Tensor | float, right: torch.Tensor | float) -> torch.Tensor:
        tensor, number = (left, right) if isinstance(left, torch.Tensor) else (right, left)
        assert isinstance(tensor, torch.Tensor)
        if not tensor.is_complex():
            return others(left, right)
        if isinstance(number, (complex, torch.Tensor)):
            return NotImplemented
        return torch.complex(op(tensor.real, number), op(tensor.imag, number))

    return formula


def as_it_is(*args: Any, **options: Any) -> torch.Tensor:
    """Leave an op whole."""
    return NotImplemented
