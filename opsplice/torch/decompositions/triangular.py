"""Systems of equations with a triangular matrix, as `torch.linalg.solve_triangular` solves them.

The inverses of blocks of 1, 2, 4, ... along the diagonal make those of blocks of twice the size:

    [a 0]^-1   [    a^-1         0  ]
    [c d]    = [-d^-1 c a^-1   d^-1 ]

So a matrix of n rows takes log2(n) steps of two products, where a solver goes from row to row.
"""

from __future__ import annotations

import torch


def solve(
    matrix: torch.Tensor, known: torch.Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> torch.Tensor:
    """X [..., n, k] of `matrix @ X = known`, of floats, or X [..., k, n] of `X @ matrix = known` where not `left`."""
    rows = matrix.shape[-1]
    if not isinstance(rows, int) or not matrix.is_floating_point():
        return NotImplemented
    if not left:
        found = solve(matrix.mT, known.mT, upper=not upper, unitriangular=unitriangular)
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
