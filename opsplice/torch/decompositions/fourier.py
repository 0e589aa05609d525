"""Fourier transforms. Each function has the signature of the op that it is for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from opsplice.frontends.fourier_parts import transformed


def of_complex(tensor: torch.Tensor, dims: Sequence[int], normalization: int, forward: bool) -> torch.Tensor:
    real, imaginary = tensor.real, tensor.imag
    for dim in dims:
        moved = real.movedim(dim, -1), imaginary.movedim(dim, -1)
        real, imaginary = (part.movedim(-1, dim) for part in _along_last(*moved, -1 if forward else 1))
    sizes = [tensor.shape[dim] for dim in dims]
    return torch.complex(_normalized(real, sizes, normalization), _normalized(imaginary, sizes, normalization))


def of_real(tensor: torch.Tensor, dims: Sequence[int], normalization: int, onesided: bool) -> torch.Tensor:
    *others, last = dims
    size = tensor.shape[last]
    scaled = _normalized(tensor, [tensor.shape[dim] for dim in dims], normalization)
    real, imaginary = _along_last(scaled.movedim(last, -1), None, -1)
    kept = size // 2 + 1 if onesided else size
    halved = torch.complex(real[..., :kept], imaginary[..., :kept]).movedim(-1, last)
    return of_complex(halved, others, 0, True)


def to_real(tensor: torch.Tensor, dims: Sequence[int], normalization: int, size: int) -> torch.Tensor:
    """The backward transform of what has the first `size // 2 + 1` of a dim whose others are their conjugates."""
    *others, last = dims
    moved = of_complex(tensor, others, 0, False).movedim(last, -1)
    mirrored = slice(1, (size + 1) // 2)
    real = torch.cat([moved.real, moved.real[..., mirrored].flip(-1)], -1)
    imaginary = torch.cat([moved.imag, -moved.imag[..., mirrored].flip(-1)], -1)
    whole = _along_last(real, imaginary, 1)[0].movedim(-1, last)
    return _normalized(whole, [size, *(tensor.shape[dim] for dim in others)], normalization)


def frequencies(count: int, spacing: float = 1.0, *, dtype: torch.dtype | None = None, **_options: Any) -> torch.Tensor:
    """Of a transform's results: those from 0 up, then the negative ones."""
    place = torch.arange(count)
    signed = torch.where(place < (count + 1) // 2, place, place - count)
    return signed.to(dtype or torch.get_default_dtype()) * (1 / (count * spacing))


def real_frequencies(count: int, *args: Any, **options: Any) -> torch.Tensor:
    return frequencies(count, *args, **options)[: count // 2 + 1].abs()


def _normalized(part: torch.Tensor, sizes: Sequence[int], normalization: int) -> torch.Tensor:
    """By PyTorch's `normalization`: 0 as it is, 1 divided by the root of the number of elements, 2 by the number."""
    if not normalization:
        return part
    count = part.new_full((), math.prod(sizes))
    return part / (count.sqrt() if normalization == 1 else count)


def _along_last(real: torch.Tensor, imaginary: torch.Tensor | None, sign: int) -> tuple[torch.Tensor, torch.Tensor]:
    return transformed(real, imaginary, sign, partial(_table, real), torch.matmul)


def _table(like: torch.Tensor, rows: int, columns: int, size: int, sign: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Of angles up to pi, where cosines and sines are exact to a rounding."""
    row, column = (torch.arange(count, device=like.device) for count in (rows, columns))
    turns = row.unsqueeze(-1) * column % size
    share = torch.where(2 * turns > size, turns - size, turns).to(like.dtype) / size
    angle = share * (sign * 2 * math.pi)
    return angle.cos(), angle.sin()
