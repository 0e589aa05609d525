"""Amounts that may be known at run time only, and layouts of tensors in memory, made of these."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from opsplice.matchers.dims.extents import ONE, Extent, InOrder, product


@dataclass(frozen=True)
class Amount:
    """A whole number: a sum of products, each of atoms and with a factor of its own that is not zero."""

    terms: InOrder[Extent]

    @staticmethod
    def of(value: int | Extent) -> Amount:
        extent = Extent(value) if isinstance(value, int) else value
        return Amount(InOrder((extent,) if extent.factor else ()))

    @property
    def number(self) -> int | None:
        """The number, None if it is known at run time only."""
        return sum(term.factor for term in self.terms) if not any(term.atoms for term in self.terms) else None

    @staticmethod
    def sum(terms: Iterable[Extent]) -> Amount:
        factors: dict[Any, int] = {}
        for term in terms:
            factors[term.atoms] = factors.get(term.atoms, 0) + term.factor
        return Amount(InOrder(Extent(factor, atoms) for atoms, factor in factors.items() if factor))

    def __add__(self, other: Amount) -> Amount:
        return Amount.sum((*self.terms, *other.terms)) if self.terms and other.terms else self if self.terms else other

    def __mul__(self, other: Amount) -> Amount:
        if self is WHOLE:
            return other
        products = [left * right for left in self.terms for right in other.terms]
        return Amount.of(products[0]) if len(products) == 1 else Amount.sum(products)

    def renamed(self, name: Callable[[Any], Any]) -> Amount:
        """With each atom as `name` calls it."""
        return Amount.sum(term.renamed(name) for term in self.terms)


NONE, WHOLE = Amount.of(0), Amount.of(1)
# What a dim runs over in memory: its size with its stride, or those of several dims that it flattens.
Runs = tuple[tuple[Extent, Amount], ...]


@dataclass(frozen=True)
class Layout:
    """How a tensor's elements lie in the memory of a dense value of `count` elements.

    offset: where the first one is. dims: what each dim runs over, nothing for one of size one.
    """

    count: Amount
    offset: Amount
    dims: tuple[Runs, ...]

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie one behind the other, row-major."""
        step = WHOLE
        for size, stride in reversed([run for runs in self.dims for run in runs]):
            if size != ONE and stride != step:
                return False
            step = step * Amount.of(size)
        return True

    def lies_as(self, other: Layout) -> bool:
        """Whether it is another one but for dims of size one."""
        own, others = (tuple(filter(None, each.dims)) for each in (self, other))
        return own == others and (self.count, self.offset) == (other.count, other.offset)

    def turned(self, order: Sequence[int]) -> Layout:
        """With its dims in an order."""
        return replace(self, dims=tuple(self.dims[at] for at in order))

    def amounts(self) -> Iterator[Amount]:
        """All that it is made of."""
        yield from (self.count, self.offset)
        for runs in self.dims:
            for size, stride in runs:
                yield from (Amount.of(size), stride)

    def renamed(self, name: Callable[[Any], Any]) -> Layout:
        """With each atom as `name` calls it."""
        dims = tuple(tuple((s.renamed(name), t.renamed(name)) for s, t in runs) for runs in self.dims)
        return Layout(self.count.renamed(name), self.offset.renamed(name), dims)


def row_major(sizes: Sequence[Extent]) -> Layout:
    """The layout of a dense tensor."""
    numbers = tuple([size.factor for size in sizes if not size.atoms])
    return _of_numbers(numbers) if len(numbers) == len(sizes) else _strided(sizes)


@functools.lru_cache(maxsize=1024)
def _of_numbers(sizes: tuple[int, ...]) -> Layout:
    """The same for numbers, of which programs have few, and each again and again."""
    return _strided(tuple(map(Extent, sizes)))


def _strided(sizes: Sequence[Extent]) -> Layout:
    dims: list[Runs] = []
    stride = ONE
    for size in reversed(sizes):
        dims.insert(0, () if size == ONE else ((size, Amount.of(stride)),))
        stride *= size
    return Layout(Amount.of(stride), NONE, tuple(dims))


def refined(several: Sequence[Runs]) -> list[Runs] | None:
    """What one dim runs over in each of several buffers, in the same sizes for all. None where that is not known."""
    total = next((product(size for size, _ in runs) for runs in several if runs), ONE)
    left = [list(runs) if runs else [(total, NONE)] for runs in several]
    found: list[list[tuple[Extent, Amount]]] = [[] for _ in several]
    while any(left):
        if not all(left):
            return None
        size = next((s for s, _ in (rest[-1] for rest in left) if _divides(s, left)), None)
        if size is None:
            return None
        for rest, own in zip(left, found, strict=True):
            whole, stride = rest.pop()
            own.insert(0, (size, stride))
            more = whole.divided(size)
            if whole != size and more is not None:
                rest.append((more, Amount.of(size) * stride))
    return [tuple(own) for own in found]


def _divides(size: Extent, left: Sequence[Sequence[tuple[Extent, Amount]]]) -> bool:
    return all(rest[-1][0].divided(size) is not None for rest in left)
