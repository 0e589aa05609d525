"""Sums and products of sizes that are known at run time only."""

from __future__ import annotations

from itertools import permutations

from opsplice.matchers.dims.extents import Extent, Total, product, total


class Atom:
    """A size whose place in a set is chosen, as the address of a value chooses it."""

    def __init__(self, name: str, place: int) -> None:
        self.name, self.place = name, place

    def __hash__(self) -> int:
        return self.place


def test_terms_and_atoms_stay_in_the_order_of_the_program_wherever_values_lie() -> None:
    for places in permutations((1, 2, 3)):
        atoms = [Atom(name, place) for name, place in zip("abc", places, strict=True)]
        extents = [Extent.of(atom) for atom in atoms]
        assert [atom.name for atom, _ in product(extents).atoms] == ["a", "b", "c"]
        added = total(extents).atom
        assert isinstance(added, Total)
        assert [next(iter(term.atoms))[0].name for term in added.terms] == ["a", "b", "c"]


def test_extents_are_equal_in_any_order() -> None:
    a, b = Extent.of(Atom("a", 1)), Extent.of(Atom("b", 2))
    assert a * b == b * a
    assert hash(a + b) == hash(b + a)
    assert a + b == b + a != a * b
    assert (a * b).divided(b) == a
