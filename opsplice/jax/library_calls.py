"""What JAX has code for on CPUs, and IREE none or wrong: factorizations, Fourier transforms, gradients of pools.

JAX lowers its primitives by the rules here. Each writes one out as functions of JAX, which take the primitive's
parameters; loops go over the columns of a matrix, whose other dims are batches.
"""

from __future__ import annotations

import functools
import itertools
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax._src import source_info_util
from jax._src.interpreters import mlir
from jax._src.lax import ann, fft, linalg, windowed_reductions
from jax._src.lax import lax as operators
from jax._src.random import threefry2x32

from opsplice.frontends import jacobi
from opsplice.frontends.fourier_parts import transformed

# Messages name the line that calls for a formula.
source_info_util.register_exclusion(str(Path(__file__).parent))

_HIGHEST = lax.Precision.HIGHEST


# ---- Fourier transforms ----------------------------------------------------------------------------------------------


def _fft(x: Array, *, fft_type: Any, fft_lengths: tuple[int, ...]) -> Array:
    """Over the last dims, one after the other, as products with sines and cosines."""
    kind, dims = fft.FftType(fft_type), range(-len(fft_lengths), -1)
    if kind == fft.FftType.IRFFT:
        for dim in dims:
            x = _along(x, dim, 1)
        mirrored = x[..., 1 : (fft_lengths[-1] + 1) // 2]
        x = jnp.concatenate([x, jnp.conj(mirrored[..., ::-1])], -1)
        return _along(x, -1, 1).real / math.prod(fft_lengths)
    if kind == fft.FftType.RFFT:
        x = _along(x, -1, -1)[..., : fft_lengths[-1] // 2 + 1]
    for dim in dims if kind == fft.FftType.RFFT else (*dims, -1):
        x = _along(x, dim, 1 if kind == fft.FftType.IFFT else -1)
    return x / math.prod(fft_lengths) if kind == fft.FftType.IFFT else x


def _along(x: Array, dim: int, sign: int) -> Array:
    moved = jnp.moveaxis(x, dim, -1)
    imaginary = moved.imag if jnp.iscomplexobj(x) else None
    table, matmul = functools.partial(_table, moved.real), functools.partial(jnp.matmul, precision=_HIGHEST)
    real, imaginary = transformed(moved.real, imaginary, sign, table, matmul)
    return jnp.moveaxis(lax.complex(real, imaginary), -1, dim)


def _table(like: Array, rows: int, columns: int, size: int, sign: int) -> tuple[Array, Array]:
    angle = np.outer(np.arange(rows), np.arange(columns)) % size / size * (sign * 2 * np.pi)
    return jnp.asarray(np.cos(angle), like.dtype), jnp.asarray(np.sin(angle), like.dtype)


# ---- triangles -------------------------------------------------------------------------------------------------------


def _cholesky(x: Array) -> Array:
    """Column by column. As JAX has it, a matrix that has no such factor is NaN as a whole."""
    size = x.shape[-1]
    rows = jnp.arange(size)

    def column(at: Array, left: Array) -> Array:
        taken = _column(left, at)
        taken = jnp.where(rows >= at, taken / jnp.sqrt(_element(taken, at).real), 0)
        behind = jnp.where(rows > at, taken, 0)
        return _put(left - behind[..., :, None] * behind[..., None, :].conj(), taken, at)

    factor = lax.fori_loop(0, size, column, jnp.tril(x))
    diagonal = jnp.diagonal(factor, axis1=-2, axis2=-1)
    fails = ~(diagonal.real > 0).all(-1)
    return jnp.where(fails[..., None, None], jnp.nan, factor)


def _triangular_solve(
    a: Array, b: Array, *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool
) -> Array:
    """Row by row."""
    size = a.shape[-1]
    a = a.conj() if conjugate_a else a
    diagonal = jnp.diagonal(a, axis1=-2, axis2=-1)
    a = jnp.tril(a, -1) if lower else jnp.triu(a, 1)
    if transpose_a != (not left_side):
        a, lower = a.mT, not lower
    b = b if left_side else b.mT

    def row(step: Array, x: Array) -> Array:
        at = step if lower else size - 1 - step
        known = jnp.sum(_column(a.mT, at)[..., None] * x, -2)  # within branches IREE compiles no matmul of it
        solved = _column(b.mT, at) - known
        return _put(x.mT, solved if unit_diagonal else solved / _element(diagonal, at), at).mT

    x = lax.fori_loop(0, size, row, jnp.zeros_like(b))
    return x if left_side else x.mT


# ---- reflections -----------------------------------------------------------------------------------------------------


def _reflections(a: Array) -> tuple[Array, Array]:
    """Q R as LAPACK's geqrf leaves it: R, below it the vectors that columns are reflected by, and their factors."""
    rows, columns = a.shape[-2:]
    steps, places = min(rows, columns), jnp.arange(rows)

    def column(at: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        left, factors = state
        taken = _column(left, at)
        first = _element(taken, at)
        tail = jnp.where(places > at, taken, 0)
        rest = jnp.sum(jnp.square(tail), -1, keepdims=True)
        is_done = rest == 0
        length = jnp.sqrt(rest + jnp.square(first))
        made = jnp.where(is_done, first, jnp.where(first > 0, -length, length))
        factor = jnp.where(is_done, 0, (made - first) / jnp.where(is_done, 1, made))
        vector = jnp.where(places == at, 1, tail / jnp.where(is_done, 1, first - made))
        others = jnp.arange(columns) > at
        share = jnp.einsum("...i,...ij->...j", vector, left, precision=_HIGHEST)
        turned = left - factor[..., None] * vector[..., :, None] * share[..., None, :]
        kept = jnp.where(places < at, taken, jnp.where(places == at, made, vector))
        return _put(jnp.where(others, turned, left), kept, at), _put(factors[..., None, :], factor, at)[..., 0, :]

    factors = jnp.zeros((*a.shape[:-2], steps), a.dtype)
    return lax.fori_loop(0, steps, column, (a, factors))


def _of_reflections(a: Array, taus: Array) -> Array:
    """The product of the reflections that `_reflections` leaves, as many columns as there are."""
    rows, columns = a.shape[-2:]
    steps, places = taus.shape[-1], jnp.arange(rows)

    def column(step: Array, product: Array) -> Array:
        at = steps - 1 - step
        vector = jnp.where(places > at, _column(a, at), jnp.where(places == at, 1, 0))
        share = jnp.einsum("...i,...ij->...j", vector.conj(), product, precision=_HIGHEST)
        return product - _element(taus, at)[..., None] * vector[..., :, None] * share[..., None, :]

    start = jnp.broadcast_to(jnp.eye(rows, columns, dtype=a.dtype), a.shape)
    return lax.fori_loop(0, steps, column, start)


# ---- rotations -------------------------------------------------------------------------------------------------------

_Subset = tuple[int, int] | None


@jax.default_matmul_precision("highest")
def _eigenvalues(a: Array, *, lower: bool, subset_by_index: _Subset = None, **_: Any) -> tuple[Array, Array]:
    """The vectors, and the values, which rise; all, or a range."""
    if not a.shape[-1]:
        return a, a.sum(-1)
    values, vectors = _ROTATIONS.eigenvalues(a, lower)
    part = slice(*(subset_by_index or (None,)))
    return vectors[..., part], values[..., part]


@jax.default_matmul_precision("highest")
def _singular_values(
    a: Array, *, full_matrices: bool, compute_uv: bool, subset_by_index: _Subset = None, **_: Any
) -> tuple[Array, ...]:
    """The values, which fall, and the vectors on the left and on the right; all, or a range."""
    if not all(a.shape[-2:]):
        return tuple(linalg._empty_svd(a, full_matrices=full_matrices, compute_uv=compute_uv))
    values, *both = _ROTATIONS.singular_values(a, full_matrices, compute_uv)
    part = slice(*(subset_by_index or (None,)))
    return values[..., part], *(each[..., part] for each in both[:1]), *(each[..., part, :] for each in both[1:])


def _swept(turned: jacobi.Turn, goes: jacobi.IsLeft, a: Array, vectors: Array) -> tuple[Array, Array]:
    def sweep(state: tuple[Array, ...]) -> tuple[Array, ...]:
        return state[0] + 1, *lax.fori_loop(0, a.shape[-1] - 1, lambda _, inner: turned(*inner), state[1:])

    return lax.while_loop(lambda state: goes(*state), sweep, (jnp.int32(0), a, vectors))[1:]


def _power(numbers: Array) -> Array:
    return lax.reduce_precision(numbers, jnp.finfo(numbers.dtype).nexp, 0)


_ROTATIONS = jacobi.Rotations(jnp, _power, jnp.take_along_axis, jnp.linalg.qr, _swept)


# ---- pools -----------------------------------------------------------------------------------------------------------


def _select_and_scatter_add(context: Any, source: Any, operand: Any, **form: Any) -> Any:
    """Of windows that share no elements it stays JAX's, which IREE compiles."""
    shares = any(size > step for size, step in zip(form["window_dimensions"], form["window_strides"], strict=True))
    lowered = _rule(_scattered) if shares else _usual(windowed_reductions.select_and_scatter_add_p)
    return lowered(context, source, operand, **form)


def _scattered(
    source: Array,
    operand: Array,
    *,
    select_prim: Any,
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
) -> Array:
    """What each window hands to the element of it that is chosen, the first of equal ones, added up."""
    last_chosen = operators._get_max_identity if select_prim is lax.ge_p else operators._get_min_identity
    wide = lax.pad(operand, jnp.asarray(last_chosen(operand.dtype)), [(*each, 0) for each in padding])
    reach = [step * (count - 1) + 1 for step, count in zip(window_strides, source.shape, strict=True)]
    best, chosen = None, jnp.zeros(source.shape, jnp.int32)
    places = list(itertools.product(*map(range, window_dimensions)))
    for number, place in enumerate(places):
        found = lax.slice(wide, place, [at + far for at, far in zip(place, reach, strict=True)], window_strides)
        is_kept = None if best is None else select_prim.bind(best, found)
        best = found if best is None else jnp.where(is_kept, best, found)
        chosen = chosen if is_kept is None else jnp.where(is_kept, chosen, number)
    is_float = jnp.issubdtype(source.dtype, jnp.floating)
    kind = jnp.promote_types(source.dtype, jnp.float32) if is_float else source.dtype
    total = jnp.zeros(wide.shape, kind)
    for number, place in enumerate(places):
        share = jnp.where(chosen == number, source, 0).astype(kind)
        ends = zip(place, reach, wide.shape, window_strides, strict=True)
        around = [(at, size - at - far, step - 1) for at, far, size, step in ends]
        total = total + lax.pad(share, jnp.asarray(0, kind), around)
    inner = tuple(slice(low, low + size) for (low, _), size in zip(padding, operand.shape, strict=True))
    return total[inner].astype(source.dtype)


# ---- first elements --------------------------------------------------------------------------------------------------


def _approx_top_k(context: Any, x: Any, *, reduction_dimension: int, is_max_k: bool, **_: Any) -> Any:
    """The first elements themselves. IREE takes those of the last dim only, and negates the least ones."""
    count = context.avals_out[0].shape[reduction_dimension]
    return _rule(functools.partial(_first, count, reduction_dimension, is_max_k), True)(context, x)


def _first(count: int, dim: int, is_max: bool, x: Array) -> tuple[Array, Array]:
    values, places = lax.top_k(x if is_max else -x, count, axis=dim)
    return values if is_max else -values, places


# ---- columns ---------------------------------------------------------------------------------------------------------


def _column(matrix: Array, at: Array) -> Array:
    return lax.dynamic_index_in_dim(matrix, at, -1, keepdims=False)


def _element(vector: Array, at: Array) -> Array:
    return lax.dynamic_index_in_dim(vector, at, -1)


def _put(matrix: Array, column: Array, at: Array) -> Array:
    return lax.dynamic_update_index_in_dim(matrix, column, at, -1)


def _of_reals(primitive: Any, function: Any) -> Any:
    """Of complex numbers it stays JAX's, which IREE refuses: its compiler crashes at some of these loops."""

    def lowered(context: Any, a: Any, **form: Any) -> Any:
        is_complex = jnp.issubdtype(context.avals_in[0].dtype, jnp.complexfloating)
        return (_usual(primitive) if is_complex else _rule(function, True))(context, a, **form)

    return lowered


def _rule(function: Any, several: bool = False) -> Any:
    return mlir.lower_fun(function, multiple_results=several)


def _usual(primitive: Any) -> Any:
    """JAX's own rule."""
    return mlir._platform_specific_lowerings["cpu"][primitive].rule


PARAMETERS = mlir.LoweringParameters(
    override_lowering_rules=(
        (ann.approx_top_k_p, _approx_top_k),
        (fft.fft_p, _rule(_fft)),
        (linalg.cholesky_p, _rule(_cholesky)),
        (linalg.eigh_p, _of_reals(linalg.eigh_p, _eigenvalues)),
        (linalg.geqrf_p, _of_reals(linalg.geqrf_p, _reflections)),
        (linalg.householder_product_p, _rule(_of_reflections)),
        (linalg.lu_p, _rule(linalg._lu_python, True)),
        (linalg.svd_p, _of_reals(linalg.svd_p, _singular_values)),
        (linalg.triangular_solve_p, _rule(_triangular_solve)),
        # Without a loop, as JAX has it on GPUs: a round of a loop takes IREE longer than what is done in it.
        (threefry2x32.threefry2x32_p, threefry2x32._threefry2x32_lowering_rule),
        (windowed_reductions.select_and_scatter_add_p, _select_and_scatter_add),
    )
)
