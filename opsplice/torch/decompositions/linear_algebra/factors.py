"""Factors of matrices, and systems of equations. Each has the signature of its op, and takes floats of a known size.

Of a triangular matrix the inverses of blocks of 1, 2, 4, ... along the diagonal make those of blocks of twice the size:

    [a 0]^-1   [    a^-1         0  ]
    [c d]    = [-d^-1 c a^-1   d^-1 ]

So a matrix of n rows takes log2(n) steps of two products, where a solver goes from row to row; a loop where n is open.
Factors are made column by column, in loops.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op


def solve_triangular(
    matrix: Tensor, known: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X [..., n, k] of `matrix @ X = known`, of floats, or X [..., k, n] of `X @ matrix = known` where not `left`."""
    rows = matrix.shape[-1]
    if not matrix.is_floating_point():
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

    def is_left(size: int, _inverse: Tensor, _lower: Tensor, first: Tensor, _second: Tensor) -> bool:
        return size < first.numel()

    def doubled(size: int, inverse: Tensor, lower: Tensor, first: Tensor, second: Tensor) -> tuple[int, Tensor]:
        is_pair = (first // (2 * size) == second // (2 * size)) & (first // size != second // size)
        return 2 * size, inverse - inverse @ torch.where(is_pair, lower, 0) @ inverse

    size, read = 1, (lower, first, second)
    if isinstance(rows, int):
        while is_left(size, inverse, *read):
            size, inverse = doubled(size, inverse, *read)
    else:
        inverse = while_loop_op(is_left, doubled, (size, inverse), read)[1]
    found = inverse @ known
    return found + inverse @ (known - lower @ found)


def is_factored(matrix: Tensor) -> bool:
    """Whether a matrix is of floats, of a known size."""
    return matrix.is_floating_point() and all(isinstance(size, int) and size for size in matrix.shape)


def cholesky(matrix: Tensor, *, upper: bool = False, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """The lower factor, or the upper one, and which leading minor is the first that has none, 0 for none such."""
    rows = matrix.shape[-1]

    def column(left: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        place = torch.arange(rows)
        is_at = place == at
        taken = torch.where(is_at, left, 0).sum(-1)
        taken = torch.where(place >= at, taken / torch.sqrt(_at(is_at, taken)), 0)
        behind = torch.where(place > at, taken, 0)
        left = left - behind.unsqueeze(-1) * behind.unsqueeze(-2)
        return torch.where(is_at, taken.unsqueeze(-1), left), at.clone()

    factor = _steps(column, rows, torch.tril(matrix.mT if upper else matrix))[0]
    fails = ~(torch.diagonal(factor, 0, -2, -1) > 0)
    first = torch.where(fails, torch.arange(1, rows + 1), rows + 1).amin(-1)
    return factor.mT if upper else factor, torch.where(first > rows, 0, first).to(torch.int32)


def lower_or_upper(matrix: Tensor, upper: bool = False) -> Tensor:
    return cholesky(matrix, upper=upper)[0]


def cholesky_solve(known: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    if not is_factored(factor):
        return NotImplemented
    lower = factor.mT if upper else factor
    return solve_triangular(lower.mT, solve_triangular(lower, known, upper=False), upper=True)


def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    return cholesky_solve(torch.eye(factor.shape[-1], dtype=factor.dtype), factor, upper)


def lu_factors(matrix: Tensor, *, pivot: bool = True, check_errors: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Both triangles in one matrix, with which row each is swapped, from 1, and the first that is 0 on the diagonal."""
    rows, columns = matrix.shape[-2:]

    def column(left: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        row, place = torch.arange(rows), torch.arange(columns)
        taken = torch.where(place == at, left, 0).sum(-1)
        best = torch.where(row >= at, taken.abs(), -1).argmax(-1, keepdim=True) if pivot else at.expand(*batch, 1)
        is_at, is_best = (row == at).unsqueeze(-1), (row == best).unsqueeze(-1)
        upper = torch.where(is_best, left, 0).sum(-2, keepdim=True)
        other = torch.where(is_at, left, 0).sum(-2, keepdim=True)
        left = torch.where(is_at, upper, torch.where(is_best, other, left))
        first = _at(place == at, upper)
        share = torch.where(place == at, left, 0).sum(-1, keepdim=True)
        share = torch.where(row.unsqueeze(-1) > at, share / torch.where(first == 0, 1, first), 0)
        left = left - share * torch.where(place > at, upper, 0)
        return torch.where((place == at) & (row.unsqueeze(-1) > at), share, left), best.squeeze(-1).clone()

    batch = matrix.shape[:-2]
    factors, swapped = _steps(column, min(rows, columns), matrix)
    diagonal, order = torch.diagonal(factors, 0, -2, -1), torch.arange(1, min(rows, columns) + 1)
    first = torch.where(diagonal == 0, order, len(order) + 1).amin(-1)
    fails = torch.where(first > len(order), 0, first).to(torch.int32)
    return factors, (swapped.movedim(0, -1) + 1).to(torch.int32), fails


def lu(matrix: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    factors, swaps, _ = lu_factors(matrix, pivot=pivot)
    return lu_parts(factors, swaps)


def lu_parts(
    factors: Tensor, swaps: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """The swaps as a matrix, and both triangles; nothing for those that are not asked for."""
    rows, steps = factors.shape[-2], swaps.shape[-1]
    turned = lower = upper = factors.new_zeros(0)
    if unpack_pivots:
        place = torch.arange(rows).unsqueeze(-1)
        turned = (place == _order(swaps, rows).unsqueeze(-2)).to(factors.dtype)
    if unpack_data:
        lower = torch.tril(factors[..., :steps], -1) + torch.eye(rows, steps, dtype=factors.dtype)
        upper = torch.triu(factors[..., :steps, :])
    return turned, lower, upper


def lu_solve(factors: Tensor, swaps: Tensor, known: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X of A X = known, or of X A = known where not `left`; of the transpose of A where `adjoint`."""
    if not left:
        return lu_solve(factors, swaps, known.mT, adjoint=not adjoint).mT
    rows = factors.shape[-1]
    batch = torch.broadcast_shapes(factors.shape[:-2], known.shape[:-2])
    known = known.expand(*batch, *known.shape[-2:])
    order = _order(swaps, rows).expand(*batch, rows)
    if not adjoint:
        known = known.gather(-2, order.unsqueeze(-1).expand(known.shape))
        middle = solve_triangular(factors, known, upper=False, unitriangular=True)
        return solve_triangular(factors, middle, upper=True)
    middle = solve_triangular(factors.mT, known, upper=False)
    found = solve_triangular(factors.mT, middle, upper=True, unitriangular=True)
    return found.gather(-2, order.argsort(-1).unsqueeze(-1).expand(found.shape))


def solve(
    matrix: Tensor, known: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The solution, and what `lu_factors` gives. Of a batch of vectors, each is one column."""
    factors, swaps, fails = lu_factors(matrix)
    is_vector = known.dim() == 1 or known.shape == matrix.shape[:-1]
    found = lu_solve(factors, swaps, known.unsqueeze(-1) if is_vector else known, left=left or is_vector)
    return found.squeeze(-1) if is_vector else found, factors, swaps, fails


def inverse(matrix: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    found, _, _, fails = solve(matrix, torch.eye(matrix.shape[-1], dtype=matrix.dtype).expand(matrix.shape))
    return found, fails


def determinant(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    factors, swaps, _ = lu_factors(_as_factored(matrix))
    return _sign(swaps, factors) * torch.diagonal(factors, 0, -2, -1).prod(-1), factors, swaps


def log_determinant(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The sign, and the logarithm of the size."""
    factors, swaps, _ = lu_factors(_as_factored(matrix))
    diagonal = torch.diagonal(factors, 0, -2, -1)
    sign = _sign(swaps, factors) * torch.sign(diagonal).prod(-1)
    return sign, torch.log(diagonal.abs()).sum(-1), factors, swaps


def _as_factored(matrix: Tensor) -> Tensor:
    """What PyTorch factors for determinants, whose gradients count on it."""
    return matrix.mT if matrix.is_contiguous() else matrix


def qr(matrix: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """By reflections of columns, which are done to the matrix and beside it to rows of one."""
    rows, columns = matrix.shape[-2:]

    def column(left: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        row, place = torch.arange(rows), torch.arange(rows + columns)
        taken = torch.where(place == at, left, 0).sum(-1)
        first = _at(row == at, taken)
        below = torch.where(row > at, taken, 0)
        rest = (below * below).sum(-1, keepdim=True)
        length = torch.sqrt(rest + first * first)
        made = torch.where(rest == 0, first, torch.where(first > 0, -length, length))
        factor = torch.where(rest == 0, 0, (made - first) / torch.where(rest == 0, 1, made))
        vector = torch.where(row == at, 1, below / torch.where(rest == 0, 1, first - made)).unsqueeze(-1)
        return left - factor.unsqueeze(-1) * vector * (vector * left).sum(-2, keepdim=True), at.clone()

    one = torch.eye(rows, dtype=matrix.dtype).expand(*matrix.shape[:-1], rows)
    turned = _steps(column, min(rows, columns), torch.cat([matrix, one], -1))[0]
    kept = rows if mode == "complete" else min(rows, columns)
    upper = torch.triu(turned[..., :kept, :columns])
    return (matrix.new_zeros(0) if mode == "r" else turned[..., :kept, columns:].mT), upper


def reflections_product(vectors: Tensor, factors: Tensor) -> Tensor:
    """The first columns of the product of `1 - factor * v @ v.T`, with each v below the diagonal of a column."""
    rows, columns = vectors.shape[-2:]
    count = factors.shape[-1]
    if not count:
        return NotImplemented

    def reflected(made: Tensor, at: Tensor, vectors: Tensor, factors: Tensor) -> tuple[Tensor, ...]:
        row = torch.arange(rows)
        taken = torch.where(torch.arange(columns) == at, vectors, 0).sum(-1)
        vector = torch.where(row == at, 1, torch.where(row > at, taken, 0)).unsqueeze(-1)
        factor = _at(torch.arange(count) == at, factors).unsqueeze(-1)
        return made - factor * vector * (vector * made).sum(-2, keepdim=True), at.clone()

    start = torch.eye(rows, columns, dtype=vectors.dtype).expand(vectors.shape).contiguous()
    return scan_op(reflected, [start], [torch.arange(count - 1, -1, -1)], (vectors, factors))[0]


def exponential(matrix: Tensor) -> Tensor:
    """By Taylor's polynomial of the matrix, halved until its sums of columns are at most 1, and squares, in f64."""
    size = matrix.double().abs().sum(-2, keepdim=True).amax(-1, keepdim=True)
    halvings = torch.ceil(torch.log2(size)).clamp(0, _MOST_HALVINGS)
    halved = matrix.double() * torch.exp2(-halvings)
    one = torch.eye(matrix.shape[-1], dtype=torch.float64)

    def added(total: Tensor, order: Tensor, halved: Tensor, one: Tensor) -> tuple[Tensor, ...]:
        return one + halved @ total / order, order.clone()

    def squared(made: Tensor, step: Tensor, halvings: Tensor) -> tuple[Tensor, ...]:
        return torch.where(step < halvings, made @ made, made), step.clone()

    orders, steps = (torch.arange(count, dtype=torch.float64) for count in (_TERMS, _MOST_HALVINGS))
    made = scan_op(added, [one + halved / (_TERMS + 1)], [orders.flip(0) + 1], (halved, one))[0]
    return scan_op(squared, [made], [steps], (halvings,))[0].to(matrix.dtype)


# Of e to a matrix of size 1 at most, what is left behind so many terms is less than f64 tells from 0.
_TERMS = 18
# A square has twice the error: behind so many, f64 has no more digits than f32.
_MOST_HALVINGS = 28


def _steps(column: Callable[..., tuple[Tensor, ...]], count: int, start: Tensor) -> tuple[Tensor, Tensor]:
    """What a function makes of a matrix and the number of each column in turn, and what it gives of each."""
    return scan_op(column, [start.contiguous()], [torch.arange(count)], ())


def _at(is_at: Tensor, numbers: Tensor) -> Tensor:
    return torch.where(is_at, numbers, 0).sum(-1, keepdim=True)


def _order(swaps: Tensor, rows: int) -> Tensor:
    """Which row stands at each place behind all swaps."""

    def swapped(order: Tensor, step: Tensor, other: Tensor) -> tuple[Tensor, ...]:
        place, other = torch.arange(rows), other.unsqueeze(-1)
        at, there = _at(place == step, order), _at(place == other, order)
        return torch.where(place == step, there, torch.where(place == other, at, order)), step.clone()

    start = torch.arange(rows).expand(*swaps.shape[:-1], rows).contiguous()
    others = (swaps.to(torch.int64) - 1).movedim(-1, 0).contiguous()
    return scan_op(swapped, [start], [torch.arange(swaps.shape[-1]), others], ())[0]


def _sign(swaps: Tensor, factors: Tensor) -> Tensor:
    """-1 for an odd number of swaps."""
    count = (swaps != torch.arange(1, swaps.shape[-1] + 1)).sum(-1)
    return (1 - 2 * (count % 2)).to(factors.dtype)
