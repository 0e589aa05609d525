"""Which sizes of a match are equal: numbers, dims read at run time, and the indices that run over them.

It knows nothing of patterns or of MLIR.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable


class Classes:
    """What is equal to what, from pairs of things that are known to be equal."""

    def __init__(self, equal: Iterable[tuple[Hashable, Hashable]] = ()) -> None:
        self._parents: dict[Hashable, Hashable] = {}
        for left, right in equal:
            self.make_equal(left, right)

    def make_equal(self, left: Hashable, right: Hashable) -> None:
        """Know one more pair: `first` of the right thing now stands for the left one, too."""
        self._parents[self.first(left)] = self.first(right)

    def same(self, left: Hashable, right: Hashable) -> bool:
        """Whether two things are known to be equal."""
        return left == right or self.first(left) == self.first(right)

    def first(self, thing: Hashable) -> Hashable:
        """One thing for all that are known to be equal."""
        while (parent := self._parents.get(thing, thing)) != thing:
            thing = parent
        return thing
