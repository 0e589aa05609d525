"""What is decided of conditions: what is proven is so, and the plain cases are proven."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsplice.spec_lang.dims import decide, dim_conditions, judge
from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.parser import parse
from tests.effort import examples


def condition(text: str) -> tree.Condition:
    where = parse(f"pattern p(x: tensor<n x m x k x f32>) where {text} {{ exp(x) }}").patterns[0].where
    assert where is not None
    return where


@pytest.mark.parametrize(
    "text",
    [
        "n < 0",
        "n != n",
        "n >= 8 and n < 8",
        "n % 4 == 1 and n % 2 == 0",
        "n % 4 > 3",
        "n % 4 == 0 and 4 < n and n < 8",
        "n % 2 != 0 and n % 2 != 1",
        "m < n and n < m",
        "m < n and n < k and k < m",
        "n == 4 * m and n % 4 == 1",
        "m * n < 0",
        "m * n % 4 == 1 and n * m % 2 == 0",
        "(m + n) * (m + n) < m * m",
        "min(n, 4) > 4",
        "max(n, 4) < 4",
        "ceildiv(n, 4) * 4 < n",
        "floordiv(n, 8) == 0 and n >= 8",
        "not n >= 0",
        "n < 0 or n % 2 == 2",
        "(n == 1 or n == 2) and n > 2",
        "1 % m == 2 and 1 % m == 3",
        "2 * n == 3 * m and m == 1",
        "not may(n >= 0)",
        "may(n > 4) and not may(n > 4)",
    ],
)
def test_impossible(text):
    assert decide.impossible([condition(text)])


@pytest.mark.parametrize(
    "text",
    [
        "n < 1",
        "2 * n == 3 * m",
        "n % 3 == 1 and n > 3 and n < 7",
        "m % n == 1",
        "n - m < 0",
        "min(n, 4) < 4",
        "ceildiv(n, 4) * 4 == n",
        "may(n < 4) and may(n > 4)",
    ],
)
def test_possible(text):
    assert not decide.impossible([condition(text)])


def test_implied():
    assert decide.implied(condition("n % 4 == 0"), [condition("n % 8 == 0")])
    assert not decide.implied(condition("n % 8 == 0"), [condition("n % 4 == 0")])
    assert decide.implied(condition("n >= 0"), [])
    assert decide.implied(condition("m * n >= 64"), [condition("n >= 8"), condition("n == 8 and m >= 8")])
    assert not decide.implied(condition("n % m < m"), [])  # not where m is 0
    assert decide.implied(condition("may(n > 4)"), [condition("n > 5")])
    assert not decide.implied(condition("n > 4"), [condition("may(n > 4)")])


def test_pinned():
    assert decide.pinned(condition("n > 1 and m > 1")) == {"n", "m"}
    assert decide.pinned(condition("n > 1 or m > 1")) == set()
    assert decide.pinned(condition("may(n > 1) and not may(m > 1)")) == {"m"}
    assert decide.pinned(condition("n > 1 or n + m > 1")) == {"n"}
    assert decide.pinned(condition("not (n > 1 or m > 1)")) == {"n", "m"}
    assert decide.pinned(condition("not (n > 1 and m > 1)")) == set()


@pytest.mark.usefixtures("must_end")
def test_a_condition_too_large_to_decide_is_left_undecided_soon():
    many = " and ".join(f"(n % {i} == 1 or m % {i} == 2 or k % {i} == 1)" for i in range(2, 60))
    assert not decide.impossible([condition(many)])
    assert not decide.impossible([condition(f"{' * '.join(['(n + m + k + 1)'] * 40)} < 0 - 5")])


def test_what_bounds_rule_out_may_not_be():
    sizes = {"n": judge.Bounds(3, None, 1), "m": None}
    asked = ["may(n < 3)", "may(n < 4)", "not may(n < 3)", "may(m < 3)", "may(m < 3 and n < 3)", "may(k < 3)"]
    assert [judge.holds(condition(text), sizes) for text in asked] == [False, True, True, True, False, None]


NUMBERS = st.integers(0, 9).map(str)
VALUES = st.recursive(
    st.one_of(st.sampled_from(["n", "m"]), NUMBERS),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.integers(1, 6)).map(lambda t: f"({t[0]} % {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"({t[0]} % {t[1]})"),
        st.tuples(st.sampled_from(["ceildiv", "floordiv"]), inner, st.integers(1, 6)).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
    ),
    max_leaves=4,
)
COMPARISONS = st.tuples(VALUES, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), VALUES).map(" ".join)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map("not ({})".format),
        inner.map("may({})".format),
    ),
    max_leaves=4,
)
SIZES = [{"n": n, "m": m} for n, m in itertools.product(range(14), range(14))]
OPEN = [{"n": n, "m": m} for n, m in itertools.product([*range(14), None, judge.Bounds(3, None, 1)], repeat=2)]


@settings(max_examples=examples(100, 20000), deadline=None)
@given(CONDITIONS, CONDITIONS)
def test_what_is_proven_is_so_for_all_small_sizes(left, right):
    first, second = condition(left), condition(right)
    if decide.impossible([first, second]):
        assert not any(judge.holds(first, s) and judge.holds(second, s) for s in OPEN)
    if decide.implied(second, [first]):
        assert all(judge.holds(second, s) for s in SIZES if judge.holds(first, s))


@settings(max_examples=examples(75, 15000), deadline=None)
@given(CONDITIONS)
def test_pinned_dims_are_needed(text):
    """With a dim that must be known left open, a condition never holds."""
    where = condition(text)
    for name in decide.pinned(where):
        assert not any(judge.holds(where, {**s, name: None}) for s in SIZES)


def one_dim(comparison: tuple[int, str, int]) -> str:
    return f"n % {comparison[0]} {comparison[1]} {comparison[2]}"


@settings(max_examples=examples(50, 10000), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.sampled_from(["==", "!=", "<", ">"]), st.integers(0, 6)), min_size=1, max_size=3
    ),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_of_remainders_by_powers_of_two_in_a_range_every_contradiction_is_found(remainders, low, high):
    """Complete where the divisors divide each other: all small sizes tell the truth."""
    parts = [one_dim((1 << (d % 3), op, r)) for d, op, r in remainders]
    where = condition(" and ".join([*parts, f"n >= {low}", f"n <= {high}"]))
    holds = any(judge.holds(where, {"n": n}) for n in range(30))
    assert decide.impossible([where]) or holds


def test_a_condition_is_written_in_one_line_without_comments():
    where = condition("n % 4 == 0 // lanes\n  and m > 1")
    assert where.span.written == "n % 4 == 0 and m > 1"


@pytest.mark.parametrize("op", dim_conditions.COMPARISONS)
def test_negated_and_mirrored_comparisons(op):
    for left, right in itertools.product(range(3), repeat=2):
        holds = dim_conditions.COMPARISONS[op](left, right)
        assert dim_conditions.COMPARISONS[dim_conditions.NEGATED[op]](left, right) is not holds
        assert dim_conditions.COMPARISONS[dim_conditions.MIRRORED[op]](right, left) is holds
