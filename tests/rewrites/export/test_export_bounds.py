"""Conditions as bounds and multiples: they hold for the same sizes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsplice.rewrites.spelling import dim_bounds
from opsplice.rewrites.spelling.dim_bounds import Axis, Check
from opsplice.rewrites.spelling.not_exportable import GapError
from opsplice.spec_lang.dims import dim_conditions, judge
from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.parser import parse

AXES = {"n": Axis(0, 1), "m": Axis(0, 0)}


def condition(text: str) -> tree.Condition:
    where = parse(f"pattern p(x: tensor<m x n x f32>) where {text} {{ negf(x) }}").patterns[0].where
    assert where is not None
    return where


def admits(check: Check, sizes: dict[str, int]) -> bool:
    """What IREE's matchers do with static dims."""
    size = next(sizes[name] for name, axis in AXES.items() if axis == check.axis)
    low, high = check.low or 0, check.high
    return low <= size and (high is None or size <= high) and size % check.factor == 0


COMPARISONS = st.builds(
    "{} {} {}".format,
    st.sampled_from(["n", "m"]),
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    st.integers(0, 20),
)
REMAINDERS = st.builds("{} % {} {}".format, st.sampled_from(["n", "m"]), st.integers(1, 9), st.sampled_from(["== 0"]))
MIRRORED = st.builds("{} {} {}".format, st.integers(0, 20), st.sampled_from(["<", "<=", "=="]), st.just("n"))
CONDITIONS = st.recursive(
    COMPARISONS | REMAINDERS | MIRRORED,
    lambda inner: (
        st.builds("({} and {})".format, inner, inner)
        | st.builds("({} or {})".format, inner, inner)
        | st.builds("not ({})".format, COMPARISONS)
    ),
    max_leaves=4,
)


@settings(deadline=None)
@given(CONDITIONS, st.integers(0, 24), st.integers(0, 24))
def test_alternatives_hold_for_the_sizes_for_which_the_condition_does(text: str, n: int, m: int) -> None:
    where, sizes = condition(text), {"n": n, "m": m}
    found = dim_bounds.alternatives(where, AXES)
    assert any(all(admits(c, sizes) for c in each) for each in found) == judge.holds(where, sizes)


def test_a_pack_of_one_dim_is_that_dim_and_numbers_are_judged_at_once() -> None:
    assert dim_bounds.alternatives(condition("m <= 4"), {"m": (Axis(2, 0), 1)}) == ((Check(Axis(2, 0), high=4),),)
    assert dim_bounds.alternatives(condition("m <= 4"), {"m": ()}) == ((),)
    assert dim_bounds.alternatives(condition("m > 4"), {"m": 3}) == ()


@pytest.mark.parametrize("text", ["m < n", "n % 4 == 1", "not (n % 4 == 0)", "n * 2 <= 8", "ceildiv(n, 4) == 2"])
def test_what_cannot_be_asked_is_named(text: str) -> None:
    with pytest.raises(GapError, match="matchers know only bounds"):
        dim_bounds.alternatives(condition(text), AXES)


def test_all_that_cannot_be_asked_is_named_at_once() -> None:
    with pytest.raises(GapError) as caught:
        dim_bounds.alternatives(condition("m < n and n <= 8 and n % 4 == 1"), AXES)
    assert [g.what for g in caught.value.gaps] == ["the condition `m < n`", "the condition `n % 4 == 1`"]


def test_too_many_alternatives_are_refused() -> None:
    with pytest.raises(GapError, match="more than 16 matchers"):
        dim_bounds.alternatives(condition(" and ".join(f"n != {i}" for i in range(1, 6))), AXES)


def test_sizes_that_a_condition_fixes() -> None:
    assert dim_conditions.fixed(condition("n == 64 and m <= 4")) == {"n": 64}
    assert dim_conditions.fixed(condition("n == 64 or m == 4")) == {}
    assert dim_conditions.fixed(None) == {}


def test_what_may_hold_is_asked_of_sizes_that_the_template_has() -> None:
    template = {"m": 4}
    assert dim_bounds.alternatives(condition("may(m < 8 or m == 1)"), template) == ((),)
    assert dim_bounds.alternatives(condition("not may(m < 8)"), template) == ()
    with pytest.raises(GapError, match="`may` on a size that the matcher does not know"):
        dim_bounds.alternatives(condition("may(n < 8)"), AXES)
