"""Which formula stands for which of PyTorch's ops on matrices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from opsplice.torch.decompositions.linear_algebra import factors, products, rotations

aten = torch.ops.aten


def _of_known_size(formula: Callable[..., Any], matrix: torch.Tensor, *others: Any, **options: Any) -> Any:
    return formula(matrix, *others, **options) if factors.is_factored(matrix) else NotImplemented


# Those that take part only if their first operand is of floats, of a known size.
_OF_KNOWN_SIZES: dict[Any, Callable[..., Any]] = {
    aten._linalg_det.default: factors.determinant,
    aten._linalg_eigh.default: rotations.eigenvalues,
    aten._linalg_slogdet.default: factors.log_determinant,
    aten._linalg_solve_ex.default: factors.solve,
    aten._linalg_svd.default: rotations.singular_values,
    aten.cholesky.default: factors.lower_or_upper,
    aten.cholesky_inverse.default: factors.cholesky_inverse,
    aten.linalg_cholesky_ex.default: factors.cholesky,
    aten.linalg_householder_product.default: factors.reflections_product,
    aten.linalg_inv_ex.default: factors.inverse,
    aten.linalg_lu.default: factors.lu,
    aten.linalg_lu_factor_ex.default: factors.lu_factors,
    aten.linalg_lu_solve.default: factors.lu_solve,
    aten.linalg_matrix_exp.default: factors.exponential,
    aten.linalg_pinv.atol_rtol_tensor: rotations.pseudo_inverse,
    aten.linalg_qr.default: factors.qr,
    aten.lu_unpack.default: factors.lu_parts,
}
OF_MATRICES: dict[Any, Callable[..., Any]] = {
    aten._cdist_backward.default: products.distances_backward,
    aten._cdist_forward.default: products.distances,
    aten._grouped_mm.default: products.grouped_product,
    aten._pdist_backward.default: products.distances_of_pairs_backward,
    aten._pdist_forward.default: products.distances_of_pairs,
    aten._scaled_mm.default: products.scaled_product,
    aten.addbmm.default: products.added_products,
    aten.addmm.default: products.added_product,
    aten.baddbmm.default: products.added_product,
    aten.bmm.default: products.of_bytes(torch.bmm),
    aten.cholesky_solve.default: factors.cholesky_solve,
    aten.linalg_solve_triangular.default: factors.solve_triangular,
    aten.mm.default: products.of_bytes(torch.mm),
    **{op: functools.partial(_of_known_size, formula) for op, formula in _OF_KNOWN_SIZES.items()},
}
