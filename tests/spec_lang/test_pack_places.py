import pytest

from opsplice.spec_lang.dims.pack_places import places


@pytest.mark.parametrize(
    ("packs", "count", "expected"),
    [
        ([False, False], 2, ["a", "b"]),
        ([False, True, False], 4, ["a", "bc", "d"]),
        ([True], 3, ["abc"]),
        ([True, False], 1, ["", "a"]),
        ([], 0, []),
    ],
)
def test_a_pack_takes_what_the_others_leave(packs: list[bool], count: int, expected: list[str]) -> None:
    assert ["abcd"[place] for place in places(packs, count)] == expected


@pytest.mark.parametrize(("packs", "count"), [([False, False], 1), ([False], 2), ([True, False, False], 1)])
def test_dims_that_do_not_fit_have_no_places(packs: list[bool], count: int) -> None:
    assert places(packs, count) == []
