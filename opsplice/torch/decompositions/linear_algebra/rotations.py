"""Singular values and vectors, and eigenvalues and vectors of symmetric matrices, by the rotations of Jacobi.

A step turns each column of the left half and its neighbour in the right half, so that what the two share is gone. Then
all columns but the first move on by a place, as players of a tournament do: after size - 1 steps, a sweep, each has met
each, and all are where they began. An odd column more is zero, and is never turned. `opsplice/jax/jacobi.py` does the
same for JAX, and says more.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op

from opsplice.torch.decompositions.linear_algebra import factors

_MOST_SWEEPS = 20


def eigenvalues(matrix: Tensor, lower: str = "L", compute_v: bool = True) -> tuple[Tensor, Tensor]:
    """The values, which rise, and the vectors, as columns. lower: which half of the matrix is read, "L" or "U"."""
    if not factors.is_factored(matrix):
        return NotImplemented
    size = matrix.shape[-1]
    half = torch.tril(matrix) if lower.upper() == "L" else torch.triu(matrix)
    whole = half + half.mT - torch.diag_embed(torch.diagonal(half, 0, -2, -1))
    scale = _power(whole)
    wide = _even(_even(whole / scale).mT).mT
    one = torch.eye(wide.shape[-1], dtype=matrix.dtype).expand(wide.shape)

    def turned(left: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
        diagonal = torch.diagonal(left, 0, -2, -1)
        first, second = diagonal.chunk(2, -1)
        cos, sin = _rotation(first, second, torch.diagonal(left, wide.shape[-1] // 2, -2, -1))
        return _turned(_turned(left, cos, sin).mT, cos, sin).mT.contiguous(), _turned(vectors, cos, sin)

    def is_left(left: Tensor, _vectors: Tensor, one: Tensor) -> Tensor:
        off = (left * (1 - one)).square().sum((-2, -1))
        return (off > size * _step(left) * left.square().sum((-2, -1))).any()

    vectors = _swept(turned, is_left, wide, one)[1]
    vectors = vectors / _lengths(vectors).unsqueeze(-2)
    values = (vectors * (wide @ vectors)).sum(-2)[..., :size]
    values, order = torch.sort(values, dim=-1)
    is_whole = torch.isfinite(matrix).all(-1).all(-1).unsqueeze(-1)
    values = torch.where(is_whole, values * scale.squeeze(-1), torch.nan)
    if not compute_v:
        return values, matrix.new_empty(0)
    vectors = _in_order(vectors[..., :size, :size], order)
    return values, torch.where(is_whole.unsqueeze(-1), vectors, torch.nan)


def singular_values(
    matrix: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Vectors on the left, which are columns, the values, which fall, and vectors on the right, which are rows."""
    if not factors.is_factored(matrix):
        return NotImplemented
    rows, columns = matrix.shape[-2:]
    if rows < columns:
        left, values, right = singular_values(matrix.mT, full_matrices, compute_uv)
        return (right.mT, values, left.mT) if compute_uv else (left, values, right)
    scale = _power(matrix)
    wide = _even(matrix / scale)
    one = torch.eye(wide.shape[-1], dtype=matrix.dtype).expand(*matrix.shape[:-2], -1, -1)

    def turned(left: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
        first, second = left.chunk(2, -1)
        cos, sin = _rotation(*(each.sum(-2) for each in (first * first, second * second, first * second)))
        return _turned(left, cos, sin), _turned(vectors, cos, sin)

    def is_left(left: Tensor, _vectors: Tensor, one: Tensor) -> Tensor:
        shared = left.mT @ left
        lengths = torch.diagonal(shared, 0, -2, -1)
        most = 16 * columns * _step(left) * lengths.unsqueeze(-1) * lengths.unsqueeze(-2)
        return (shared.square() * (1 - one) > most).any()

    left, right = _swept(turned, is_left, wide, one)
    lengths = _lengths(right).unsqueeze(-2)
    left, right = (left / lengths)[..., :columns], (right / lengths)[..., :columns, :columns]
    values = _lengths(left)
    values = torch.where(torch.isfinite(matrix).all(-1).all(-1).unsqueeze(-1), values, torch.nan)
    values, order = torch.sort(values, dim=-1, descending=True)
    if not compute_uv:
        return matrix.new_empty(0), values * scale.squeeze(-1), matrix.new_empty(0)
    left = _in_order(left, order) / torch.where(values == 0, 1, values).unsqueeze(-2)
    # Where there are fewer values than columns, the others are those that make it whole.
    whole, signs = factors.qr(left, "complete" if full_matrices else "reduced")
    signs = torch.where(torch.diagonal(signs, 0, -2, -1) < 0, -1.0, 1.0).to(matrix.dtype)
    signs = torch.cat([signs, signs.new_ones(*signs.shape[:-1], whole.shape[-1] - columns)], -1)
    return whole * signs.unsqueeze(-2), values * scale.squeeze(-1), _in_order(right, order).mT


def pseudo_inverse(
    matrix: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False
) -> Tensor:
    """Without the singular values, or eigenvalues, that are not above a limit: the larger of atol, and rtol of all."""
    if not factors.is_factored(matrix):
        return NotImplemented
    if hermitian:
        values, left = eigenvalues(matrix)
        right = left.mT
    else:
        left, values, right = singular_values(matrix)
    size = values.abs()
    if rtol is None:
        usual = torch.finfo(matrix.dtype).eps * max(matrix.shape[-2:])
        rtol = size.new_full((), usual) if atol is None else torch.where(atol > 0, 0, usual)
    limit = rtol.unsqueeze(-1) * size.amax(-1, keepdim=True)
    limit = limit if atol is None else torch.maximum(limit, atol.unsqueeze(-1))
    inverses = torch.where(size > limit, 1 / torch.where(size > limit, values, 1), 0)
    return right.mT @ (inverses.to(matrix.dtype).unsqueeze(-1) * left.mT)


def _swept(
    turned: Callable[..., tuple[Tensor, Tensor]], is_left: Callable[..., Tensor], *given: Tensor
) -> list[Tensor]:
    """What sweeps make of a matrix and of the matrix of one, until there is nothing left to turn, but once at least."""

    def goes(sweep: Tensor, left: Tensor, vectors: Tensor, one: Tensor) -> Tensor:
        return (sweep == 0) | (is_left(left, vectors, one) & (sweep < _MOST_SWEEPS))

    def swept(sweep: Tensor, left: Tensor, vectors: Tensor, _one: Tensor) -> tuple[Tensor, ...]:
        steps = torch.arange(start[0].shape[-1] - 1)
        left, vectors, _ = scan_op(lambda a, b, step: (*turned(a, b), step.clone()), [left, vectors], [steps], ())
        return sweep + 1, left, vectors

    start = [each.contiguous() for each in given]  # loops carry what lies in memory in one way
    return list(while_loop_op(goes, swept, (torch.zeros((), dtype=torch.int64), *start), (start[1].clone(),))[1:])


def _rotation(first: Tensor, second: Tensor, shared: Tensor) -> tuple[Tensor, Tensor]:
    is_done = shared == 0
    apart = (second - first) / torch.where(is_done, 1, 2 * shared)
    tangent = torch.where(apart < 0, -1.0, 1.0).to(apart.dtype) / (apart.abs() + torch.sqrt(1 + apart.square()))
    tangent = torch.where(is_done, 0, tangent)
    cos = 1 / torch.sqrt(1 + tangent.square())
    return cos, tangent * cos


def _turned(matrix: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """With the halves of its columns turned, and moved on."""
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
    left, right = matrix.chunk(2, -1)
    part = sin / (1 + cos)  # so written, lengths are kept to more places
    left, right = left - sin * (right + part * left), right + sin * (left - part * right)
    if left.shape[-1] == 1:
        return torch.cat([left, right], -1)
    return torch.cat([left[..., :1], right[..., :1], left[..., 1:-1], right[..., 1:], left[..., -1:]], -1)


def _in_order(columns: Tensor, order: Tensor) -> Tensor:
    return columns.gather(-1, order.unsqueeze(-2).expand(columns.shape))


def _power(matrix: Tensor) -> Tensor:
    """A power of two near the largest number of a matrix, [..., 1, 1]: squares of what is left neither overflow nor
    vanish. 1 for zeros."""
    largest = matrix.abs().amax((-2, -1), keepdim=True)
    power = torch.exp2(torch.floor(torch.log2(largest)))
    return torch.where((power > 0) & torch.isfinite(power), power, 1)


def _lengths(columns: Tensor) -> Tensor:
    return torch.sqrt(columns.square().sum(-2))


def _even(matrix: Tensor) -> Tensor:
    """With a column more of zeros if there is an odd number of them."""
    return torch.nn.functional.pad(matrix, (0, matrix.shape[-1] % 2))


def _step(matrix: Tensor) -> float:
    """The square of the step between numbers at 1."""
    return torch.finfo(matrix.dtype).eps ** 2
