"""Products, distances, and systems of equations with a triangular matrix. Each has the signature of its op.

Of a triangular matrix the inverses of blocks of 1, 2, 4, ... along the diagonal make those of blocks of twice the size:

    [a 0]^-1   [    a^-1         0  ]
    [c d]    = [-d^-1 c a^-1   d^-1 ]

So a matrix of n rows takes log2(n) steps of two products, where a solver goes from row to row.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def solve_triangular(
    matrix: Tensor, known: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X [..., n, k] of `matrix @ X = known`, of floats, or X [..., k, n] of `X @ matrix = known` where not `left`."""
    rows = matrix.shape[-1]
    if not isinstance(rows, int) or not matrix.is_floating_point():
        return NotImplemented
    if not left:
        found = solve_triangular(matrix.mT, known.mT, upper=not upper, unitriangular=unitriangular)
        return found if found is NotImplemented else found.mT
    at = torch.arange(rows, device=matrix.device)
    row, column = at.unsqueeze(1), at.unsqueeze(0)
    first, second = (column, row) if upper else (row, column)
    is_diagonal = row == column
    lower = torch.where((first >= second) & ~is_diagonal if unitriangular else first >= second, matrix, 0)
    if unitriangular:
        lower = lower + is_diagonal.to(matrix.dtype)
    inverse = torch.where(is_diagonal, 1 / torch.where(is_diagonal, lower, 1), 0)
    size = 1
    while size < rows:
        is_pair = (first // (2 * size) == second // (2 * size)) & (first // size != second // size)
        inverse = inverse - inverse @ torch.where(is_pair, lower, 0) @ inverse
        size *= 2
    found = inverse @ known
    return found + inverse @ (known - lower @ found)


def grouped_product(
    left: Tensor,
    right: Tensor,
    ends: Tensor | None = None,
    bias: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """A product for each group of the rows of `left`, of the columns of `right`, or of the dim that is summed over.

    IREE takes no slice of a computed size, so every group is multiplied as a whole, with zeros where others are.
    """
    if ends is None:
        result = left @ right
    elif left.dim() == 2:
        summed = right.dim() == 2
        member = _members(ends, left.shape[-1 if summed else 0]).unsqueeze(1 if summed else 2)
        product = torch.where(member, left, 0) @ right
        result = product if summed else product.sum(0)
    else:
        result = (left @ torch.where(_members(ends, right.shape[1]).unsqueeze(1), right, 0)).sum(0)
    return (result if bias is None else result + bias).to(dtype or left.dtype)


def grouped_product_backward(left: Tensor, right: Tensor, ends: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    return grouped_product(gradient, right.transpose(1, 2), ends), grouped_product(left.t(), gradient, ends)


def _members(ends: Tensor, size: int) -> Tensor:
    """For each group, whether it has each place; groups follow one another and end at `ends`."""
    place, end = torch.arange(size, device=ends.device), ends.unsqueeze(1)
    return (place < end) & (place >= torch.cat([end.new_zeros(1, 1), end[:-1]]))


def added_product(added: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """One product over the batch and the inner dim, which adds halves up in f32."""
    return beta * added + alpha * (left.transpose(0, 1).flatten(1) @ right.flatten(0, 1))


def distances(left: Tensor, right: Tensor, power: float, _mode: int | None) -> Tensor:
    return torch.linalg.vector_norm(left.unsqueeze(-2) - right.unsqueeze(-3), power, -1)


def distances_backward(gradient: Tensor, left: Tensor, right: Tensor, power: float, found: Tensor) -> Tensor:
    if power == 2:
        share = torch.where(found == 0, 0, gradient / found)
        return left * share.sum(-1, keepdim=True) - share @ right
    apart, found = left.unsqueeze(-2) - right.unsqueeze(-3), found.unsqueeze(-1)
    size = apart.abs()
    slope = (size == found).to(size.dtype) if math.isinf(power) else (size / found) ** (power - 1)
    return (torch.where(size == 0, 0, slope * apart.sign() * (power > 0)) * gradient.unsqueeze(-1)).sum(-2)
