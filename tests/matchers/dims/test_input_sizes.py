"""Sizes that inputs share, with bounds, as multiples of others, and without a limit."""

import pytest

import opsplice
from opsplice.matchers.dims.input_sizes import Sizes

SIZES = Sizes([[["n", 1, 0], None], [["n", 2, 1]]], {"n": [2, None]})


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(3, 1), (7,)], ""),
        ([(1, 1), (3,)], "a of 'f' has size 1 in dim 0, the function takes 2 or more"),
        ([(3, 1), (8,)], "b of 'f' has size 8 in dim 0, the function takes a multiple of 2 and 1 more"),
        ([(3, 1), (9,)], "b of 'f' has size 9 in dim 0, the function takes 7, because of the size 3 of a in dim 0"),
    ],
)
def test_sizes(shapes: list[tuple[int, ...]], message: str) -> None:
    sizes = Sizes.read(SIZES.note())
    if not message:
        sizes.check("f", ["a", "b"], shapes)
        return
    with pytest.raises(opsplice.OpspliceError) as raised:
        sizes.check("f", ["a", "b"], shapes)
    assert str(raised.value) == message
