"""Eigenvalues of symmetric matrices and singular values, by the rotations of Jacobi.

A step turns each column of the left half and its neighbour in the right half, so that what the two share is gone:

    t = sign(d) / (|d| + sqrt(1 + d^2)),  d = (right - left) / (2 shared),  cos = 1 / sqrt(1 + t^2),  sin = t cos

Then the columns move on by a place, all but the first, as players of a tournament do: after size - 1 steps, a sweep,
each has met each, and all are where they began. (Brent and Luk, "The solution of singular-value and symmetric
eigenvalue problems on multiprocessor arrays", 1985.) An odd column more is zero, and is never turned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax._src.lax import linalg

_MOST_SWEEPS = 20
_HIGHEST = lax.Precision.HIGHEST
_Pair = tuple[Array, Array]
_Subset = tuple[int, int] | None


def eigh(a: Array, *, lower: bool, subset_by_index: _Subset = None, **_: Any) -> _Pair:
    """The vectors, as columns, and the values, which rise; all, or a range. lower: which half of the matrix is read."""
    size = a.shape[-1]
    if not size:
        return a, a[..., 0]
    half, diagonal = (jnp.tril(a, -1), jnp.tril(a)) if lower else (jnp.triu(a, 1), jnp.triu(a))
    scale = _power(diagonal)
    a = _even(_even((diagonal + half.mT) / scale, -1), -2)

    def turn(state: _Pair) -> _Pair:
        a, vectors = state
        left, right = jnp.split(jnp.diagonal(a, axis1=-2, axis2=-1), 2, -1)
        cos, sin = _rotation(left, right, jnp.diagonal(a, a.shape[-1] // 2, -2, -1))
        return _turned(_turned(a, cos, sin, -1), cos, sin, -2), _turned(vectors, cos, sin, -1)

    def is_left(state: _Pair) -> Array:
        a, _ = state
        off = jnp.sum(jnp.square(a - a * jnp.eye(a.shape[-1], dtype=a.dtype)), (-2, -1))
        return jnp.any(off > size * _smallest(a) * jnp.sum(jnp.square(a), (-2, -1)))

    vectors = jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape)
    _, vectors = _sweeps(turn, is_left, (a, vectors), a.shape[-1])
    vectors = vectors / _lengths(vectors)[..., None, :]
    values = jnp.sum(vectors * jnp.matmul(a, vectors, precision=_HIGHEST), -2)[..., :size]
    order = jnp.argsort(values, axis=-1)[..., slice(*(subset_by_index or (0, size)))]
    vectors = jnp.take_along_axis(vectors[..., :size, :size], order[..., None, :], -1)
    is_whole = jnp.isfinite(a).all((-2, -1))[..., None]
    values = jnp.where(is_whole, jnp.take_along_axis(values, order, -1) * scale[..., 0], jnp.nan)
    return jnp.where(is_whole[..., None], vectors, jnp.nan), values


def svd(
    a: Array, *, full_matrices: bool, compute_uv: bool, subset_by_index: _Subset = None, **_: Any
) -> tuple[Array, ...]:
    """The values, which fall, all or a range; and the vectors: those on the left are columns, on the right rows."""
    if subset_by_index is not None:
        part = slice(*subset_by_index)
        values, *both = svd(a, full_matrices=full_matrices, compute_uv=compute_uv)
        return (values[..., part], both[0][..., part], both[1][..., part, :]) if both else (values[..., part],)
    rows, columns = a.shape[-2:]
    if not rows or not columns:
        return tuple(linalg._empty_svd(a, full_matrices=full_matrices, compute_uv=compute_uv))
    if rows < columns:
        found = svd(a.mT, full_matrices=full_matrices, compute_uv=compute_uv)
        return (found[0], found[2].mT, found[1].mT) if compute_uv else found
    scale = _power(a)
    wide = _even(a / scale, -1)

    def turn(state: _Pair) -> _Pair:
        left, right = jnp.split(state[0], 2, -1)
        squares = [jnp.sum(each, -2) for each in (left * left, right * right, left * right)]
        cos, sin = _rotation(*squares)
        return _turned(state[0], cos, sin, -1), _turned(state[1], cos, sin, -1)

    def is_left(state: _Pair) -> Array:
        shared = jnp.matmul(state[0].mT, state[0], precision=_HIGHEST)
        lengths = jnp.diagonal(shared, axis1=-2, axis2=-1)
        off = jnp.square(shared) * (1 - jnp.eye(shared.shape[-1], dtype=a.dtype))
        return jnp.any(off > 16 * columns * _smallest(a) * lengths[..., :, None] * lengths[..., None, :])

    count = wide.shape[-1]
    start = jnp.broadcast_to(jnp.eye(count, dtype=a.dtype), (*a.shape[:-2], count, count))
    turned, right = _sweeps(turn, is_left, (wide, start), count)
    turned, right = (each / _lengths(right)[..., None, :] for each in (turned, right))
    values = _lengths(turned)[..., :columns]
    values = jnp.where(jnp.isfinite(a).all((-2, -1))[..., None], values, jnp.nan)
    order = jnp.argsort(-values, axis=-1)
    values = jnp.take_along_axis(values, order, -1)
    if not compute_uv:
        return (values * scale[..., 0],)
    of_columns = order[..., None, :]
    left = jnp.take_along_axis(turned[..., :columns], of_columns, -1)
    left = left / jnp.where(values == 0, 1, values)[..., None, :]
    # Where there are fewer values than columns, the others are those that make it whole.
    whole, signs = jnp.linalg.qr(left, mode="complete" if full_matrices else "reduced")
    signs = jnp.where(jnp.diagonal(signs, axis1=-2, axis2=-1) < 0, -1, 1).astype(a.dtype)
    signs = jnp.concatenate([signs, jnp.ones((*signs.shape[:-1], whole.shape[-1] - columns), a.dtype)], -1)
    right = jnp.take_along_axis(right[..., :columns, :columns], of_columns, -1)
    return values * scale[..., 0], whole * signs[..., None, :], right.mT


def _power(a: Array) -> Array:
    """The power of two next to the largest number of a matrix, [..., 1, 1]: squares of what is left neither overflow
    nor vanish. 1 for zeros."""
    largest = jnp.max(jnp.abs(a), (-2, -1), keepdims=True)
    power = lax.reduce_precision(largest, jnp.finfo(a.dtype).nexp, 0)
    return jnp.where((power > 0) & jnp.isfinite(power), power, 1)


def _lengths(columns: Array) -> Array:
    return jnp.sqrt(jnp.sum(jnp.square(columns), -2))


def _rotation(left: Array, right: Array, shared: Array) -> _Pair:
    is_done = shared == 0
    apart = (right - left) / jnp.where(is_done, 1, 2 * shared)
    tangent = jnp.where(apart < 0, -1, 1) / (jnp.abs(apart) + jnp.sqrt(1 + jnp.square(apart)))
    tangent = jnp.where(is_done, 0, tangent)
    cos = 1 / jnp.sqrt(1 + jnp.square(tangent))
    return cos, tangent * cos


def _turned(a: Array, cos: Array, sin: Array, dim: int) -> Array:
    """With its halves along a dim turned, and moved on."""
    cos, sin = (jnp.expand_dims(each, -3 - dim) for each in (cos, sin))
    left, right = jnp.split(a, 2, dim)
    part = sin / (1 + cos)  # so written, lengths are kept to more places
    left, right = left - sin * (right + part * left), right + sin * (left - part * right)
    if left.shape[dim] == 1:
        return jnp.concatenate([left, right], dim)
    first, kept, last = jnp.split(left, [1, left.shape[dim] - 1], dim)
    second, others = jnp.split(right, [1], dim)
    return jnp.concatenate([first, second, kept, others, last], dim)


def _even(a: Array, dim: int) -> Array:
    """With a column more of zeros if there is an odd number of them."""
    ends = [(0, 0)] * a.ndim
    ends[dim] = (0, a.shape[dim] % 2)
    return jnp.pad(a, ends)


def _smallest(a: Array) -> float:
    """The square of the step between numbers at 1."""
    return float(jnp.finfo(a.dtype).eps) ** 2


def _sweeps(turn: Callable[[_Pair], _Pair], is_left: Callable[[_Pair], Array], state: _Pair, size: int) -> _Pair:
    """Sweep until there is nothing left to turn, but once at least: IREE fails at what two loops leave as it was."""

    def sweep(state: tuple[_Pair, Array]) -> tuple[_Pair, Array]:
        turned = lax.fori_loop(0, size - 1, lambda _, inner: turn(inner), state[0])
        return turned, state[1] + 1

    def goes(state: tuple[_Pair, Array]) -> Array:
        return (state[1] == 0) | (is_left(state[0]) & (state[1] < _MOST_SWEEPS))

    return lax.while_loop(goes, sweep, (state, jnp.int32(0)))[0]
