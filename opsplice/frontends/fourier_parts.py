"""Fourier transforms as products with sines and cosines, for the arrays of any framework.

A size with factors is transformed by them, one after the other: 1024 takes 64 products for each element, not 1024.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

# Sizes up to this are one product: smaller ones cost more as loops than they save.
_LARGEST_PRODUCT = 32

Product = Callable[[Any, Any], Any]
# The cosines and sines of `sign * 2 pi row column / size`, for so many rows and columns, of a size and with a sign.
Table = Callable[[int, int, int, int], tuple[Any, Any]]


def transformed(real: Any, imaginary: Any | None, sign: int, table: Table, matmul: Product) -> tuple[Any, Any]:
    """The transform along the last dim, of real numbers where no imaginary part is given. sign: of the exponent."""
    size = real.shape[-1]
    outer = _factor(size)
    if outer == 1:
        return _turned(real, imaginary, table(size, size, size, sign), matmul)
    shape = (*real.shape[:-1], outer, size // outer)
    apart = None if imaginary is None else imaginary.reshape(shape).mT
    columns = transformed(real.reshape(shape).mT, apart, sign, table, matmul)
    rows = _turned(columns[0].mT, columns[1].mT, table(outer, size // outer, size, sign), operator.mul)
    ends = transformed(*rows, sign, table, matmul)
    return ends[0].mT.reshape(real.shape), ends[1].mT.reshape(real.shape)


def _factor(size: int) -> int:
    """The largest factor of a size that is not above its root; 1 of one that is small, or open."""
    if not isinstance(size, int) or size <= _LARGEST_PRODUCT:
        return 1
    return max(factor for factor in range(1, math.isqrt(size) + 1) if size % factor == 0)


def _turned(real: Any, imaginary: Any | None, by: tuple[Any, Any], product: Product) -> tuple[Any, Any]:
    """Complex numbers by a table, with the product that is given."""
    cosine, sine = by
    if imaginary is None:
        return product(real, cosine), product(real, sine)
    return product(real, cosine) - product(imaginary, sine), product(real, sine) + product(imaginary, cosine)
