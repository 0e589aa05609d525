"""Names of ops as patterns write them."""

from __future__ import annotations

import pytest

from opsplice.matchers.attributes import is_named


@pytest.mark.parametrize(
    ("name", "wanted", "fits"),
    [
        ("arith.addf", "arith.addf", True),
        ("arith.addf", "arith.*", True),
        ("arith.addf", "arith.*f", True),
        ("arith.addf", "*.add*", True),
        ("arith.addf", "math.*", False),
        ("arith.addf", "arith.add", False),
        ("arith.addf", "*.add", False),
        # Only `*` stands for other letters.
        ("arith.addf", "arith.*d?", False),
        ("arith.addf", "arith.*[f]", False),
        ("arithxaddf", "arith.*", False),
    ],
)
def test_only_a_star_stands_for_letters(name: str, wanted: str, fits: bool) -> None:
    assert is_named(name, wanted) is fits
