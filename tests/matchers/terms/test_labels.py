"""Labels of a pattern against indices of a program, where dims of size one are not where the pattern has them."""

from __future__ import annotations

import pytest

from opsplice.matchers.patterns.nodes import Label, Window
from opsplice.matchers.search.labels import aligned, ones_first, pair, turns, unflattened
from opsplice.matchers.terms.terms import UNIT, Flat, Loop, Part, Sum

M, N, K, PACK = Label(1, "m"), Label(2, "n"), Label(3, "k"), Label(4, "p", pack=True)
FOUR, EIGHT, WHOLE = Loop(1, 4), Loop(2, 8), Loop(3, 32)


@pytest.mark.parametrize(
    ("labels", "indices", "bound", "found"),
    [
        ((M, N), (UNIT, FOUR), {}, [(M, (FOUR,)), (N, (UNIT,))]),
        ((M, N), (UNIT, FOUR), {N: (FOUR,)}, None),  # the first takes it, and then there is none for the second
        ((M, N), (FOUR, UNIT), {M: (UNIT,), N: (FOUR,)}, [(M, (UNIT,)), (N, (FOUR,))]),
        ((M, N), (FOUR, EIGHT), {M: (EIGHT,), N: (FOUR,)}, None),  # the order counts
        ((M, N), (FOUR, EIGHT), {M: (UNIT,)}, None),
        ((M, N), (FOUR, UNIT, EIGHT), {M: (FOUR,)}, [(M, (FOUR,)), (N, (EIGHT,))]),
        ((PACK, N), (FOUR, UNIT), {}, None),
        ((PACK, N), (FOUR, UNIT), {PACK: (UNIT, UNIT), N: (FOUR,)}, [(PACK, (UNIT, UNIT)), (N, (FOUR,))]),
    ],
)
def test_labels_in_order_wherever_dims_of_size_one_are(labels, indices, bound, found):
    assert aligned(labels, indices, bound) == found


@pytest.mark.parametrize(
    ("labels", "indices", "bound", "found"),
    [
        ((M, N), (FOUR, EIGHT), {}, [(M, (FOUR,)), (N, (EIGHT,))]),
        ((M, N), (UNIT, FOUR, EIGHT), {}, [(M, (FOUR,)), (N, (EIGHT,))]),
        ((M, N), (UNIT, UNIT, FOUR), {}, [(M, (UNIT,)), (N, (FOUR,))]),
        ((M, N), (FOUR, EIGHT, WHOLE), {}, None),
        ((M, N), (FOUR,), {M: (UNIT,)}, [(M, (UNIT,)), (N, (FOUR,))]),
        ((M, N), (FOUR,), {}, None),
        ((M, PACK, N), (FOUR, EIGHT), {}, [(M, (FOUR,)), (PACK, ()), (N, (EIGHT,))]),
        ((M, PACK, N), (FOUR,), {}, None),
    ],
)
def test_labels_by_position(labels, indices, bound, found):
    assert pair(labels, indices, bound) == found


def test_dims_of_size_one_go_first_and_the_others_keep_their_order():
    assert ones_first((FOUR, UNIT, EIGHT, UNIT)) == (UNIT, UNIT, FOUR, EIGHT)
    assert ones_first((FOUR, EIGHT)) == (FOUR, EIGHT)


def test_dims_that_are_flattened_or_split_are_the_same_dims_in_a_pack():
    parts = tuple(Part(WHOLE, position, (4, 8)) for position in range(2))
    assert unflattened((Flat((FOUR, EIGHT), (4, 8)), UNIT)) == (FOUR, EIGHT)
    assert unflattened(parts) == (WHOLE,)
    assert unflattened(parts[::-1]) == parts[::-1]
    assert unflattened((parts[0], EIGHT)) == (parts[0], EIGHT)


def test_each_label_is_itself_alone():
    """So that tables of labels, which searches live in, need no comparison."""
    assert Label(1, "m") != Label(1, "m")
    assert len({M, Label(M.id, M.name)}) == 2


def test_dims_that_a_program_lacks_are_the_same_and_windows_lack_theirs_where_they_have_none():
    taps = [Label(at, "k", windowed=True) for at in (5, 7)]
    rows, columns = (Window(((1, Label(tap.id + 1, "o")), (1, tap))) for tap in taps)
    window = Sum(((1, FOUR), (1, WHOLE)))
    first, *others = turns((M, N, rows, columns), (EIGHT, window, UNIT, UNIT), lambda *_: True, lacks=2)
    assert first == (0, 2, 3, 1)  # M is there, N and the rows are not
    assert not {(0, 3, 2, 1)} & {first, *others}  # which of the two that are lacking is which says nothing
    assert (2, 0, 3, 1) in others
