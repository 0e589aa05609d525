"""Fourier transforms as products with sines and cosines. Each function has the signature of the op that it is for.

A size with factors is transformed by them, one after the other: 1024 takes 64 products for each element, not 1024.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

# Sizes up to this are one product: smaller ones cost more as loops than they save.
_LARGEST_PRODUCT = 32

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def of_complex(tensor: torch.Tensor, dims: Sequence[int], normalization: int, forward: bool) -> torch.Tensor:
    real, imaginary = tensor.real, tensor.imag
    for dim in dims:
        moved = real.movedim(dim, -1), imaginary.movedim(dim, -1)
        real, imaginary = (part.movedim(-1, dim) for part in _transformed(*moved, -1 if forward else 1))
    sizes = [tensor.shape[dim] for dim in dims]
    return torch.complex(_normalized(real, sizes, normalization), _normalized(imaginary, sizes, normalization))


def of_real(tensor: torch.Tensor, dims: Sequence[int], normalization: int, onesided: bool) -> torch.Tensor:
    *others, last = dims
    size = tensor.shape[last]
    scaled = _normalized(tensor, [tensor.shape[dim] for dim in dims], normalization)
    real, imaginary = _transformed(scaled.movedim(last, -1), None, -1)
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
    whole = _transformed(real, imaginary, 1)[0].movedim(-1, last)
    return _normalized(whole, [size, *(tensor.shape[dim] for dim in others)], normalization)


def _normalized(part: torch.Tensor, sizes: Sequence[int], normalization: int) -> torch.Tensor:
    """By PyTorch's `normalization`: 0 as it is, 1 divided by the root of the number of elements, 2 by the number."""
    if not normalization:
        return part
    count = part.new_full((), math.prod(sizes))
    return part / (count.sqrt() if normalization == 1 else count)


def _transformed(real: torch.Tensor, imaginary: torch.Tensor | None, sign: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The transform along the last dim, of real numbers where no imaginary part is given."""
    size = real.shape[-1]
    outer = _factor(size)
    inner = size // outer
    if outer == 1:
        return _turned(real, imaginary, *_table(size, size, size, sign, real), torch.matmul)
    parts = [None if part is None else part.unflatten(-1, (outer, inner)).mT for part in (real, imaginary)]
    assert parts[0] is not None
    columns, of_columns = (part.mT for part in _transformed(parts[0], parts[1], sign))
    rows = _turned(columns, of_columns, *_table(outer, inner, size, sign, real), torch.mul)
    real, imaginary = (part.mT.flatten(-2) for part in _transformed(*rows, sign))
    return real, imaginary


def _turned(
    real: torch.Tensor, imaginary: torch.Tensor | None, cosine: torch.Tensor, sine: torch.Tensor, product: Product
) -> tuple[torch.Tensor, torch.Tensor]:
    """Complex numbers by a table, with the product that is given."""
    if imaginary is None:
        return product(real, cosine), product(real, sine)
    return product(real, cosine) - product(imaginary, sine), product(real, sine) + product(imaginary, cosine)


def _factor(size: int) -> int:
    """The largest factor of a size that is not above its root; 1 of one that is small, or open."""
    if not isinstance(size, int) or size <= _LARGEST_PRODUCT:
        return 1
    return max(factor for factor in range(1, math.isqrt(size) + 1) if size % factor == 0)


def _table(rows: int, columns: int, size: int, sign: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin of `sign * 2 pi row column / size`, of angles up to pi, where they are exact to a rounding."""
    row, column = (torch.arange(count, device=like.device) for count in (rows, columns))
    turns = row.unsqueeze(-1) * column % size
    share = torch.where(2 * turns > size, turns - size, turns).to(like.dtype) / size
    angle = share * (sign * 2 * math.pi)
    return angle.cos(), angle.sin()
