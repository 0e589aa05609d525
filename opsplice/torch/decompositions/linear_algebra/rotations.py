"""Singular values and vectors, and eigenvalues and vectors of symmetric matrices. Each has the signature of its op."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op

from opsplice.frontends import jacobi
from opsplice.torch.decompositions.linear_algebra import factors


def eigenvalues(matrix: Tensor, lower: str = "L", compute_v: bool = True) -> tuple[Tensor, Tensor]:
    """The values, which rise, and the vectors, as columns. lower: which half of the matrix is read, "L" or "U"."""
    values, vectors = _ROTATIONS.eigenvalues(matrix, lower.upper() == "L")
    return values, vectors if compute_v else matrix.new_empty(0)


def singular_values(
    matrix: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Vectors on the left, which are columns, the values, which fall, and vectors on the right, which are rows."""
    values, *both = _ROTATIONS.singular_values(matrix, full_matrices, compute_uv)
    left, right = both or (matrix.new_empty(0), matrix.new_empty(0))
    return left, values, right


def pseudo_inverse(
    matrix: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False
) -> Tensor:
    """Without the singular values, or eigenvalues, that are not above a limit: the larger of atol, and rtol of all."""
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


def _swept(turned: jacobi.Turn, goes: jacobi.IsLeft, *given: Tensor) -> tuple[Tensor, ...]:
    def swept(sweep: Tensor, *start: Tensor) -> tuple[Tensor, ...]:
        steps = torch.arange(start[0].shape[-1] - 1)
        return sweep + 1, *scan_op(turn, list(start), [steps], ())[:2]

    def turn(matrix: Tensor, vectors: Tensor, step: Tensor) -> tuple[Tensor, ...]:
        return *(each.contiguous() for each in turned(matrix, vectors)), step.clone()

    start = [each.contiguous() for each in given]  # loops carry what lies in memory in one way
    return tuple(while_loop_op(goes, swept, (torch.zeros((), dtype=torch.int64), *start), ())[1:])


def _power(numbers: Tensor) -> Tensor:
    return torch.exp2(torch.floor(torch.log2(numbers)))


_ROTATIONS = jacobi.Rotations(torch, _power, torch.take_along_dim, factors.qr, _swept)
