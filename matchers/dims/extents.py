"""Whole numbers that may be known at run time only, as sums of products of what they are computed from.

They are sizes of dims, and where elements lie. Two dims with equal extents have the same size, whichever tensors they
belong to. A quotient is an extent if nothing remains. Sizes and their arithmetic are assumed to fit into 64 bits, and
into 32 where the program casts them.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from iree.compiler import ir

from opsplice.matchers.terms.terms import Apply, DimSize
from opsplice.spec_lang.syntax import vocabulary

# Casts of sizes to other types; not `extf`, behind which a size has been rounded to fewer bits than it shows.
_CASTS = frozenset(f"arith.{n}" for n in ("index_cast", "index_castui", "sitofp", "uitofp", "truncf"))
_LEAST_BITS = 32


_Member = TypeVar("_Member")


class InOrder(frozenset[_Member]):
    """A set that lists its members in the order in which it was given them, which equality disregards.

    The order of a plain set follows the addresses of values, so that what is written from it differs from run to run.
    """

    _members: tuple[_Member, ...]

    def __new__(cls, members: Iterable[_Member] = ()) -> InOrder[_Member]:
        listed = tuple(dict.fromkeys(members))
        made = super().__new__(cls, listed)
        made._members = listed
        return made

    def __iter__(self) -> Iterator[_Member]:
        return iter(self._members)


_NO_ATOMS: InOrder[tuple[Any, int]] = InOrder()


@dataclass(frozen=True)
class Extent:
    """A product: `factor` times atoms, each so many times.

    An atom is a value that the program computes otherwise, a `DimSize` of which nothing is known, or a `Total`.
    """

    factor: int
    atoms: InOrder[tuple[Any, int]] = _NO_ATOMS

    @staticmethod
    def of(atom: Any) -> Extent:
        return Extent(1, InOrder(((atom, 1),)))

    @property
    def atom(self) -> Any | None:
        """The atom that this is, None if it is none."""
        ((atom, power), *rest) = self.atoms or ((None, 0),)
        return atom if self.factor == power == 1 and not rest else None

    @property
    def number(self) -> int | None:
        """The number that this is, None if it is known at run time only."""
        return None if self.atoms else self.factor

    @property
    def is_natural(self) -> bool:
        """Whether this is known not to be less than zero: what is made of sizes without taking any off."""
        return self.factor >= 0 and all(_is_natural(atom) for atom, _ in self.atoms)

    def __mul__(self, other: Extent) -> Extent:
        if not (self.factor and other.factor):
            return Extent(0)
        if not (self.atoms and other.atoms):
            return Extent(self.factor * other.factor, self.atoms or other.atoms)
        powers = Counter(dict(self.atoms))
        powers.update(dict(other.atoms))
        return Extent(self.factor * other.factor, InOrder(powers.items()))

    def __add__(self, other: Extent) -> Extent:
        return total((self, other)) if self.factor and other.factor else self if self.factor else other

    def __sub__(self, other: Extent) -> Extent:
        return total((self, other * Extent(-1)))

    def divided(self, other: Extent) -> Extent | None:
        """The quotient, None where it does not come out even for all sizes."""
        powers = Counter(dict(self.atoms))
        powers.subtract(dict(other.atoms))
        if not other.factor or self.factor % other.factor or any(power < 0 for power in powers.values()):
            return None
        return Extent(self.factor // other.factor, InOrder((a, power) for a, power in powers.items() if power))

    def renamed(self, name: Callable[[Any], Any]) -> Extent:
        """With each atom as `name` calls it, those of a sum in it: a number, or another atom."""
        found = Extent(self.factor)
        for atom, power in self.atoms:
            called = total(term.renamed(name) for term in atom.terms) if isinstance(atom, Total) else name(atom)
            if not isinstance(called, Extent):
                called = Extent(called) if isinstance(called, int) else Extent.of(called)
            for _ in range(power):
                found *= called
        return found


@dataclass(frozen=True)
class Total:
    """A sum of several products, with different atoms and nothing in common that they are multiplied with."""

    terms: InOrder[Extent]


ZERO, ONE = Extent(0), Extent(1)


def _is_natural(atom: Any) -> bool:
    if isinstance(atom, Total):
        return all(term.is_natural for term in atom.terms)
    if isinstance(atom, ir.Value):
        return not isinstance(atom.owner, ir.Block) and atom.owner.operation.name == "hal.buffer_view.dim"
    return isinstance(atom, DimSize)


def total(extents: Iterable[Extent]) -> Extent:
    """The sum of some extents."""
    factors: Counter[Any] = Counter()
    for term in itertools.chain.from_iterable(map(_terms, extents)):
        factors[term.atoms] += term.factor
    terms = [Extent(factor, atoms) for atoms, factor in factors.items() if factor]
    if len(terms) < 2:
        return terms[0] if terms else ZERO
    shared = functools.reduce(operator.and_, (Counter(dict(term.atoms)) for term in terms))
    common = Extent(math.gcd(*(term.factor for term in terms)), InOrder(shared.items()))
    rest = (term.divided(common) for term in terms)
    return common * Extent.of(Total(InOrder(term for term in rest if term is not None)))


def _terms(extent: Extent) -> Iterable[Extent]:
    """What is added up in an extent, that in its only sum multiplied by what the sum is."""
    sums = [(atom, power) for atom, power in extent.atoms if isinstance(atom, Total)]
    rest = extent.divided(Extent.of(sums[0][0])) if len(sums) == 1 and sums[0][1] == 1 else None
    return (extent,) if rest is None else (rest * term for term in sums[0][0].terms)


def product(extents: Iterable[Extent]) -> Extent:
    found = ONE
    for extent in extents:
        found *= extent
    return found


def atoms_in(extent: Extent) -> Iterator[Any]:
    """What an extent is computed from: its atoms, of a sum those of what is added up."""
    for atom, _ in extent.atoms:
        yield from (each for term in atom.terms for each in atoms_in(term)) if isinstance(atom, Total) else (atom,)


def is_size_cast(cast: Apply) -> bool:
    """Whether a cast of a size is that size, or rounds it as a pattern's own number is rounded."""
    return cast.op in _CASTS and holds_sizes(cast.type)


def holds_sizes(element: str) -> bool:
    """Whether sizes, and products of them, are taken to fit into a type: not into integers of fewer than 32 bits."""
    return not vocabulary.is_integer(element) or element == "index" or (vocabulary.bits(element) or 0) >= _LEAST_BITS


def groups(source: tuple[Extent, ...], target: tuple[Extent, ...]) -> list[tuple[range, range]] | None:
    """Which dims of a reshape's source are which of its result, in order; None where that cannot be told."""
    found: list[tuple[range, range]] = []
    i = j = 0
    while i < len(source) and j < len(target):
        start_i, start_j = i, j
        left, right = source[i], target[j]
        i, j = i + 1, j + 1
        while left != right:
            if i < len(source) and right.divided(left) is not None:
                left, i = left * source[i], i + 1
            elif j < len(target) and left.divided(right) is not None:
                right, j = right * target[j], j + 1
            else:
                return None
        found.append((range(start_i, i), range(start_j, j)))
    if any(rest != ONE for rest in (*source[i:], *target[j:])):
        return None
    if found:  # dims of size one are left over
        found[-1] = range(found[-1][0].start, len(source)), range(found[-1][1].start, len(target))
    return found
