"""How tensors lie in memory: where they start, and a stride for each dim."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from opsplice.matchers.dims.extents import ONE, ZERO, Extent, product

# What a dim runs over in memory: its size with its stride, or those of several dims that it flattens.
Runs = tuple[tuple[Extent, Extent], ...]


@dataclass(frozen=True)
class Layout:
    """How a tensor's elements lie in the memory of a dense value of `count` elements.

    offset: where the first one is. dims: what each dim runs over, nothing for one of size one.
    """

    count: Extent
    offset: Extent
    dims: tuple[Runs, ...]

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie one behind the other, row-major."""
        step = ONE
        for size, stride in reversed([run for runs in self.dims for run in runs]):
            if size != ONE and stride != step:
                return False
            step *= size
        return True

    def lies_as(self, other: Layout) -> bool:
        """Whether it is another one but for dims of size one."""
        own, others = (tuple(filter(None, each.dims)) for each in (self, other))
        return own == others and (self.count, self.offset) == (other.count, other.offset)

    def turned(self, order: Sequence[int]) -> Layout:
        """With its dims in an order."""
        return replace(self, dims=tuple(self.dims[at] for at in order))

    def amounts(self) -> Iterator[Extent]:
        """All that it is made of."""
        yield from (self.count, self.offset)
        for runs in self.dims:
            yield from itertools.chain.from_iterable(runs)

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
        dims.insert(0, () if size == ONE else ((size, stride),))
        stride *= size
    return Layout(stride, ZERO, tuple(dims))


def refined(several: Sequence[Runs]) -> list[Runs] | None:
    """What one dim runs over in each of several buffers, in the same sizes for all. None where that is not known."""
    total = next((product(size for size, _ in runs) for runs in several if runs), ONE)
    left = [list(runs) if runs else [(total, ZERO)] for runs in several]
    found: list[list[tuple[Extent, Extent]]] = [[] for _ in several]
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
                rest.append((more, size * stride))
    return [tuple(own) for own in found]


def _divides(size: Extent, left: Sequence[Sequence[tuple[Extent, Extent]]]) -> bool:
    return all(rest[-1][0].divided(size) is not None for rest in left)
