"""Eigenvalues of symmetric matrices and singular values, by the rotations of Jacobi, for the arrays of any framework.

A step turns each column of the left half and its neighbour in the right half, so that what the two share is gone:

    t = sign(d) / (|d| + sqrt(1 + d^2)),  d = (right - left) / (2 shared),  cos = 1 / sqrt(1 + t^2),  sin = t cos

Then the columns move on by a place, all but the first, as players of a tournament do: after size - 1 steps, a sweep,
each has met each, and all are where they began. (Brent and Luk, "The solution of singular-value and symmetric
eigenvalue problems on multiprocessor arrays", 1985.) An odd column more is zero, and is never turned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_MOST_SWEEPS = 20
# Of a framework.
Array = Any
# Of the matrix that is turned, and of the vectors.
Turn = Callable[[Array, Array], tuple[Array, Array]]
IsLeft = Callable[[Array, Array, Array], Array]


@dataclass(frozen=True)
class Rotations:
    """on: what has functions by the names that NumPy and PyTorch share.
    power: a power of two near each number, 0 for 0. taken: elements of an array in an order, along a dim. qr: the
    factors of a matrix, "complete" or "reduced".
    swept: what as many turns as there are columns, less one, again and again make of a matrix and vectors, while
    something is left; that is asked with the number of such sweeps.
    """

    on: Any
    power: Callable[[Array], Array]
    taken: Callable[[Array, Array, int], Array]
    qr: Callable[[Array, str], tuple[Array, Array]]
    swept: Callable[[Turn, IsLeft, Array, Array], tuple[Array, ...]]

    def eigenvalues(self, matrix: Array, lower: bool) -> tuple[Array, Array]:
        """The values, which rise, and the vectors, as columns. lower: which half of the matrix is read."""
        on, size = self.on, matrix.shape[-1]
        half, diagonal = (on.tril(matrix, -1), on.tril(matrix)) if lower else (on.triu(matrix, 1), on.triu(matrix))
        scale = self._scale(diagonal)
        wide = self._even(self._even((diagonal + half.mT) / scale).mT).mT

        def turned(left: Array, vectors: Array) -> tuple[Array, Array]:
            first, second = _halves(left.diagonal(0, -2, -1))
            cos, sin = self._rotation(first, second, left.diagonal(first.shape[-1], -2, -1))
            return self._turned(self._turned(left, cos, sin).mT, cos, sin).mT, self._turned(vectors, cos, sin)

        def is_left(left: Array) -> Array:
            off = on.square(self._off_diagonal(left)).sum((-2, -1))
            return off > size * self._step(left) * on.square(left).sum((-2, -1))

        _, vectors = self._swept(turned, is_left, wide)
        values = (vectors * (wide @ vectors)).sum(-2)[..., :size]
        order = on.argsort(values, -1)
        is_whole = on.isfinite(matrix).all(-1).all(-1)[..., None]
        values = on.where(is_whole, self.taken(values, order, -1) * scale[..., 0], math.nan)
        vectors = self.taken(vectors[..., :size, :size], order[..., None, :], -1)
        return values, on.where(is_whole[..., None], vectors, math.nan)

    def singular_values(self, matrix: Array, full: bool, with_vectors: bool) -> tuple[Array, ...]:
        """The values, which fall; and the vectors: those on the left are columns, on the right rows. full: all that
        there are on the longer side."""
        on, (rows, columns) = self.on, matrix.shape[-2:]
        if rows < columns:
            values, *both = self.singular_values(matrix.mT, full, with_vectors)
            return values, *(each.mT for each in reversed(both))
        scale = self._scale(matrix)

        def turned(left: Array, vectors: Array) -> tuple[Array, Array]:
            first, second = _halves(left)
            cos, sin = self._rotation(*(each.sum(-2) for each in (first * first, second * second, first * second)))
            return self._turned(left, cos, sin), self._turned(vectors, cos, sin)

        def is_left(left: Array) -> Array:
            shared = left.mT @ left
            lengths = shared.diagonal(0, -2, -1)
            most = 16 * columns * self._step(left) * lengths[..., :, None] * lengths[..., None, :]
            return on.square(self._off_diagonal(shared)) > most

        left, right = (each[..., :columns] for each in self._swept(turned, is_left, self._even(matrix / scale)))
        values = on.where(on.isfinite(matrix).all(-1).all(-1)[..., None], self._lengths(left), math.nan)
        order = on.argsort(-values, -1)
        values = self.taken(values, order, -1)
        if not with_vectors:
            return (values * scale[..., 0],)
        left, right = (self.taken(each, order[..., None, :], -1) for each in (left, right[..., :columns, :]))
        # Where there are fewer values than columns, the others are those that make it whole.
        whole, signs = self.qr(left / on.where(values == 0, 1, values)[..., None, :], "complete" if full else "reduced")
        signs = on.where((signs - self._off_diagonal(signs)).sum(-1) < 0, -1, 1)
        return values * scale[..., 0], whole * signs[..., None, :], right.mT

    def _scale(self, matrix: Array) -> Array:
        """The power of two near the largest number, [..., 1, 1]: squares of what is left neither overflow nor vanish.
        1 for zeros."""
        power = self.power(self.on.amax(self.on.abs(matrix), (-2, -1), keepdims=True))
        return self.on.where((power > 0) & self.on.isfinite(power), power, 1)

    def _swept(self, turned: Turn, is_left: Callable[[Array], Array], matrix: Array) -> tuple[Array, Array]:
        """The matrix when there is nothing left to turn, and its vectors, of length 1. It is swept once at least: IREE
        fails at what two loops leave as it was."""

        def goes(sweep: Array, left: Array, _vectors: Array) -> Array:
            return (sweep == 0) | (is_left(left).any() & (sweep < _MOST_SWEEPS))

        size = matrix.shape[-1]
        one = self.on.broadcast_to(self.on.eye(size, dtype=matrix.dtype), (*matrix.shape[:-2], size, size))
        left, vectors = self.swept(turned, goes, matrix, one)
        lengths = self._lengths(vectors)[..., None, :]
        return left / lengths, vectors / lengths

    def _rotation(self, left: Array, right: Array, shared: Array) -> tuple[Array, Array]:
        on, is_done = self.on, shared == 0
        apart = (right - left) / on.where(is_done, 1, 2 * shared)
        tangent = 1 / (on.abs(apart) + on.sqrt(1 + on.square(apart)))
        tangent = on.where(is_done, 0, on.where(apart < 0, -tangent, tangent))
        cos = 1 / on.sqrt(1 + on.square(tangent))
        return cos, tangent * cos

    def _turned(self, matrix: Array, cos: Array, sin: Array) -> Array:
        """With the halves of its columns turned, and moved on."""
        cos, sin = cos[..., None, :], sin[..., None, :]
        left, right = _halves(matrix)
        part = sin / (1 + cos)  # so written, lengths are kept to more places
        left, right = left - sin * (right + part * left), right + sin * (left - part * right)
        if left.shape[-1] == 1:
            return self.on.concatenate([left, right], -1)
        ends = left[..., :1], right[..., :1], left[..., 1:-1], right[..., 1:], left[..., -1:]
        return self.on.concatenate(ends, -1)

    def _off_diagonal(self, matrix: Array) -> Array:
        rows, columns = (self.on.arange(size) for size in matrix.shape[-2:])
        return self.on.where(rows[:, None] == columns, 0, matrix)

    def _lengths(self, columns: Array) -> Array:
        return self.on.sqrt(self.on.square(columns).sum(-2))

    def _even(self, matrix: Array) -> Array:
        """With a column more of zeros if there is an odd number of them."""
        column = self.on.zeros_like(matrix[..., :1])
        return self.on.concatenate([matrix, column], -1) if matrix.shape[-1] % 2 else matrix

    def _step(self, matrix: Array) -> float:
        """The square of the step between numbers at 1."""
        return float(self.on.finfo(matrix.dtype).eps) ** 2


def _halves(columns: Array) -> tuple[Array, Array]:
    middle = columns.shape[-1] // 2
    return columns[..., :middle], columns[..., middle:]
