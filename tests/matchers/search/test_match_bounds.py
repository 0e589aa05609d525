"""Conditions on sizes of which the program only says what it assumes."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsplice.matchers.dims.input_sizes import NOTE, Sizes
from opsplice.spec_lang.dims import judge
from opsplice.spec_lang.dims.judge import Bounds
from opsplice.spec_lang.syntax.parser import parse
from tests.effort import examples

PAYLOAD = """
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {{
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<?x8xf32>
  %a = util.assume.int %d{assumption} : index
  %t = flow.tensor.tie_shape %x : tensor<?x8xf32>{{%a}}
  %0 = math.tanh %t : tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}}
"""
ASSUMED = "<umin = 16, umax = 4096, udiv = 16>"


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("m % 16 == 0", 1),
        ("m % 8 == 0", 1),
        ("m % 32 == 0", 0),
        ("m <= 4096", 1),
        ("m < 4096", 0),
        ("m >= 16", 1),
        ("m > 16", 0),
        ("m != 17", 1),
        ("m == 16", 0),
        ("2 * m % 32 == 0", 1),
        ("(m + 16) % 16 == 0", 1),
        ("ceildiv(m, 16) <= 256", 1),
        ("m * n <= 32768", 1),
        ("not m > 4096", 1),
        ("m % 32 == 0 or m <= 5000", 1),
    ],
)
def test_assumptions_fulfil_conditions(find, condition, count):
    spec = f"pattern p(x: tensor<m x n x f32>) where {condition} {{ tanh(x) }}"
    assert find(PAYLOAD.format(assumption=ASSUMED), spec).count == count


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (Bounds(16, 4096, 16), "dynamic (16 to 4096, a multiple of 16)"),
        (Bounds(2, None, 1), "dynamic (at least 2)"),
        ((2, None, Bounds(0, 8, 1)), "2 x dynamic x dynamic (0 to 8)"),
        ((), "nothing"),
    ],
)
def test_what_is_known_of_a_size_is_said(size, text):
    assert judge.shown(size) == text


@pytest.mark.parametrize(("condition", "count"), [("m == 64", 1), ("m % 32 == 0", 1), ("m < 64", 0)])
def test_a_size_that_is_tied_to_a_number(find, condition, count):
    """What is assumed to be one number, IREE makes into that number."""
    payload = PAYLOAD.replace("%a = util.assume.int %d{assumption} : index", "%a = arith.constant 64 : index")
    spec = f"pattern p(x: tensor<m x n x f32>) where {condition} {{ tanh(x) }}"
    assert find(payload.format(), spec).count == count


@pytest.mark.parametrize(
    ("assumption", "condition", "count"),
    [
        ("<udiv = 8>", "m % 8 == 0", 1),
        ("<umin = 64, umax = 64>", "m == 64 and m % 32 == 0", 1),
        ("<umin = 64, umax = 64>", "m == 32", 0),
        ("<udiv = 8>", "m <= 4096", 0),
        ("[<umin = 8, umax = 8>, <umin = 32, umax = 64, udiv = 32>]", "m >= 8 and m <= 64", 1),
        ("[<umin = 8, umax = 8>, <umin = 32, umax = 64, udiv = 32>]", "m >= 32", 0),
    ],
)
def test_what_is_not_assumed_and_several_cases(find, assumption, condition, count):
    spec = f"pattern p(x: tensor<m x n x f32>) where {condition} {{ tanh(x) }}"
    assert find(PAYLOAD.format(assumption=assumption), spec).count == count


WRITTEN = """
func.func @f(%i: index, %j: index, %x: tensor<8x?x4xf32>, %y: tensor<8x4x?xf32>) -> tensor<8x?x?xf32> {{
  %zero = arith.constant 0.0 : f32
  %a = util.assume.int %i{assumption} : index
  %empty = tensor.empty(%j, %a) : tensor<8x?x?xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x?x?xf32>) -> tensor<8x?x?xf32>
  %0 = linalg.batch_matmul ins(%x, %y : tensor<8x?x4xf32>, tensor<8x4x?xf32>) outs(%filled : tensor<8x?x?xf32>)
      -> tensor<8x?x?xf32>
  %1 = tensor.cast %0 : tensor<8x?x?xf32> to tensor<?x?x?xf32>
  %2 = math.tanh %1 : tensor<?x?x?xf32>
  %r = tensor.cast %2 : tensor<?x?x?xf32> to tensor<8x?x?xf32>
  return %r : tensor<8x?x?xf32>
}}
"""


@pytest.mark.parametrize(
    ("condition", "count"),
    [("n % 16 == 0", 1), ("n % 32 == 0", 0), ("n >= 16 and n <= 4096", 1), ("m % 16 == 0", 0), ("m >= 16", 0)],
)
def test_assumptions_of_what_a_tensor_is_written_to(find, condition, count):
    spec = f"pattern p(x: tensor<k x m x n x f32>) where {condition} {{ tanh(x) }}"
    assert find(WRITTEN.format(assumption=ASSUMED), spec).count == count


OTHERS = """
func.func @f(%i: index, %j: index, %x: tensor<8xf32>) -> (tensor<?xf32>, tensor<?xf32>) {{
  %zero = arith.constant 0.0 : f32
  %a = util.assume.int %i<udiv = 16> : index
  %first = tensor.empty(%j) : tensor<?xf32>
  %second = tensor.empty(%a) : tensor<?xf32>
  %both:2 = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j)>],
    iterator_types = ["parallel", "parallel"]}} outs(%first, %second : tensor<?xf32>, tensor<?xf32>) {{
  ^bb0(%o: f32, %p: f32): linalg.yield %zero, %zero : f32, f32 }} -> (tensor<?xf32>, tensor<?xf32>)
  %four = tensor.empty(%a) : tensor<4x?xf32>
  %cast = tensor.cast %four : tensor<4x?xf32> to tensor<?x?xf32>
  %0 = math.tanh %both#0 : tensor<?xf32>
  %1 = math.exp %both#1 : tensor<?xf32>
  %2 = math.sqrt %cast : tensor<?x?xf32>
  return %0, %1 : tensor<?xf32>, tensor<?xf32>
}}
"""


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("(x: tensor<n x f32>) where n % 16 == 0 { tanh(x) }", 0),  # of the other result it is known
        ("(x: tensor<m x n x f32>) where n % 16 == 0 { sqrt(x) }", 1),
        ("(x: tensor<m x n x f32>) where m % 16 == 0 { sqrt(x) }", 0),  # of the other dim
        ("(x: tensor<m x n x f32>) where m % 4 == 0 and m < 5 { sqrt(x) }", 1),
    ],
)
def test_assumptions_are_of_one_size_of_one_tensor(find, pattern, count):
    assert find(OTHERS.format(), f"pattern p{pattern}").count == count


@pytest.mark.parametrize(
    ("condition", "count"), [("m % 4 == 0", 0), ("m * n % 8 == 0", 0), ("n % 8 == 0", 1), ("n % (n - 8) == 0", 0)]
)
def test_what_cannot_be_told_does_not_hold(find, condition, count):
    """Of a pack with a dim that is not known, or of a division by zero, nothing holds, nor does the contrary."""
    payload = "func.func @f(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {{ %0 = math.tanh %x : {0} return %0 : {0} }}"
    for where, wanted in ((condition, count), (f"not {condition}", 0)):
        spec = f"pattern p(x: tensor<...m x n x f32>) where {where} {{ tanh(x) }}"
        assert find(payload.format("tensor<?x4x8xf32>"), spec).count == wanted


def test_places_with_other_assumptions_of_what_is_written_to_are_told_apart(find):
    payload = "".join(
        WRITTEN.format(assumption=text).replace("@f", f"@f{i}")
        for i, text in enumerate(["<udiv = 16>", "<udiv = 8>", "<udiv = 16>"])
    )
    spec = "pattern p(x: tensor<k x m x n x f32>) where n % 16 == 0 { tanh(x) }"
    assert [m.function for m in find(f"module {{ {payload} }}", spec).found.matches] == ["f0", "f2"]


def test_places_with_other_assumptions_are_told_apart(find):
    payload = "".join(
        PAYLOAD.format(assumption=text).replace("@f", f"@f{i}")
        for i, text in enumerate(["<udiv = 16>", "<udiv = 8>", "<udiv = 16>"])
    )
    spec = "pattern p(x: tensor<m x n x f32>) where m % 16 == 0 { tanh(x) }"
    assert [m.function for m in find(f"module {{ {payload} }}", spec).found.matches] == ["f0", "f2"]


COMPUTED = """
func.func @f(%i: index, %j: index) -> tensor<?xf32> {{
  %three = arith.constant 3 : index
  %a, %b = util.assume.int %i<umin = 16, umax = 40, udiv = 4>, %j<umin = 5> : index, index
  {size}
  %x = tensor.empty(%s) : tensor<?xf32>
  %0 = math.tanh %x : tensor<?xf32>
  return %0 : tensor<?xf32>
}}
"""


@pytest.mark.parametrize(
    ("size", "holds", "open_"),
    [
        ("%s = arith.addi %a, %three : index", "m >= 19 and m <= 43", "m > 19"),
        ("%s = arith.subi %a, %three : index", "m >= 13 and m <= 37", "m % 4 == 0"),
        ("%s = arith.muli %a, %b : index", "m >= 80 and m % 4 == 0", "m <= 999999"),
        ("%s = arith.muli %a, %a : index", "m >= 256 and m <= 1600 and m % 16 == 0", "m % 32 == 0"),
        ("%s = arith.floordivsi %a, %three : index", "m >= 5 and m <= 13", "m > 5"),
        ("%s = arith.ceildivsi %a, %three : index", "m >= 6 and m <= 14", "m < 14"),
        ("%s = arith.divui %a, %three : index", "m >= 5 and m <= 13", "m < 13"),
        ("%h = arith.subi %three, %a : index\n%s = arith.divsi %h, %three : index", "", "m < 0"),
        ("%h = arith.subi %a, %b : index\n%s = arith.addi %h, %b : index", "m >= 16 and m <= 40", "m < 40"),
        ("%h = arith.subi %a, %b : index\n%s = arith.addi %h, %three : index", "", "m >= 0 or m < 99"),
        ("%s = arith.floordivsi %three, %a : index", "", "m == 0"),
        ("%s = util.assume.int %a<umin = 20, udiv = 3> : index", "m >= 20 and m <= 40 and m % 12 == 0", "m > 20"),
    ],
)
def test_sizes_that_are_computed_from_others(find, size, holds, open_):
    for condition, count in ((holds, 1), (open_, 0), (f"not ({open_})", 0)):
        if condition:
            spec = f"pattern p(x: tensor<m x f32>) where {condition} {{ tanh(x) }}"
            assert find(COMPUTED.format(size=size), spec).count == count, condition


NOTED = """
util.func public @{name}(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view
    attributes {{iree.reflection = {{{note}}}}} {{
  %n = hal.buffer_view.dim<%arg1 : !hal.buffer_view>[1] : index
  %x = hal.tensor.import %arg1 : !hal.buffer_view -> tensor<8x?xf32>{{%n}}
  %0 = math.tanh %x : tensor<8x?xf32>
  %r = hal.tensor.export %0 : tensor<8x?xf32>{{%n}} -> !hal.buffer_view
  util.return %r : !hal.buffer_view
}}
func.func @of_{name}(%x: tensor<?x8xf32>, %y: tensor<8x?xf32>) -> tensor<8x?xf32>
    attributes {{iree.reflection = {{{note}}}}} {{
  %0 = math.tanh %y : tensor<8x?xf32>
  return %0 : tensor<8x?xf32>
}}
"""


def test_what_a_frontend_noted_of_inputs(find):
    """Places that differ in the notes alone are told apart; without a note nothing is known."""
    symbols = ({"n": (8, None)}, {"n": (3, 64)}, {"n": (8, 32)})
    notes = [Sizes([[("n", 1, 0), None], [None, ("n", 2, -2)]], bounds).note() for bounds in symbols]
    texts = [f"{NOTE} = {json.dumps(note)}" for note in notes]
    payload = "".join(NOTED.format(name=f"f{n}", note=text) for n, text in enumerate([*texts, "", texts[0]]))
    for condition, wanted in (("n > 4", "024"), ("n <= 126", "12"), ("n % 2 == 0", "0124"), ("n >= 0", "0124")):
        spec = f"pattern p(x: tensor<m x n x f32>) where {condition} {{ tanh(x) }}"
        found = [match.function for match in find(payload, spec).found.matches]
        assert found == [f"{kind}f{n}" for n in wanted for kind in ("", "of_")], condition


@settings(deadline=None, max_examples=examples(75, 15000))
@given(
    low=st.integers(0, 40),
    span=st.integers(0, 60),
    divisor=st.integers(1, 12),
    factor=st.integers(1, 5),
    shift=st.integers(-9, 9),
    modulus=st.integers(1, 12),
    limit=st.integers(-5, 60),
    form=st.sampled_from(["{f} * n", "n % {k}", "floordiv(n, {k})", "ceildiv(n, {k})", "n + {s}", "n - {f}", "n"]),
    compare=st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
)
def test_verdicts_hold_for_every_number_within_the_bounds(
    low, span, divisor, factor, shift, modulus, limit, form, compare
):
    left = form.format(f=factor, k=modulus, s=shift).replace("+ -", "- ")
    text = f"pattern p(x: tensor<n x f32>) where {left} {compare} {limit} {{ negf(x) }}"
    where = parse(text).patterns[0].where
    numbers = [n for n in range(low, low + span + 1) if n % divisor == 0]
    verdict = judge.holds(where, {"n": Bounds(low, low + span, divisor)})
    if verdict is not None:
        assert all(judge.holds(where, {"n": number}) is verdict for number in numbers)


_NUMBER = st.integers(-9, 20)
_BOUNDS = st.builds(lambda low, span, by: Bounds(low, low + span, by), _NUMBER, st.integers(1, 20), st.integers(1, 5))


@settings(deadline=None, max_examples=examples(200, 20000))
@given(
    op=st.sampled_from(["+", "-", "*", "%", "floordiv", "ceildiv"]),
    sides=st.tuples(_BOUNDS | _NUMBER, _BOUNDS | _NUMBER),
)
def test_what_is_computed_of_two_numbers_lies_within_its_bounds(op, sides):
    made = judge.computed(op, *sides)
    low, high, divisor = (made.low, made.high, made.divisor) if isinstance(made, Bounds) else (made, made, 1)
    every = [range(n.low + -n.low % n.divisor, n.high + 1, n.divisor) if isinstance(n, Bounds) else [n] for n in sides]
    for left, right in itertools.product(*every if made is not None else ((), ())):
        result = judge.computed(op, left, right)
        assert result is None or (low <= result <= high and result % divisor == 0)


@pytest.mark.parametrize(
    ("one", "other", "known"),
    [
        (None, None, None),
        (None, 3, 3),
        (Bounds(2, None, 1), None, Bounds(2, None, 1)),
        (Bounds(2, None, 4), Bounds(1, 64, 6), Bounds(2, 64, 12)),
        (Bounds(2, 5, 1), Bounds(5, None, 1), 5),
    ],
)
def test_two_things_that_are_known_of_one_number(one, other, known):
    assert judge.both(one, other) == judge.both(other, one) == known


@pytest.mark.parametrize("op", ["==", "!=", "<", "<=", ">", ">="])
def test_a_comparison_holds_or_not_only_if_it_does_for_all(op):
    for limit in range(25):
        where = parse(f"pattern p(x: tensor<n x f32>) where n {op} {limit} {{ negf(x) }}").patterns[0].where
        each = {judge.holds(where, {"n": number}) for number in (8, 16)}
        told = judge.holds(where, {"n": Bounds(8, 16, 8)})
        assert told in each or told is None
        assert len(each) == 1 or told is None


@pytest.mark.parametrize(("op", "decisive"), [("and", False), ("or", True)])
@pytest.mark.parametrize("x", [True, False, None])
@pytest.mark.parametrize("y", [True, False, None])
def test_what_two_conditions_say_together(op, decisive, x, y):
    text = f"pattern p(x: tensor<n x f32>, y: tensor<n x f32>) where weight(x) {op} weight(y) {{ addf(x, y) }}"
    asked, known = [], {"x": x, "y": y}

    def told(part):
        asked.append(part.value)
        return known[part.value]

    verdict = judge.holds(parse(text).patterns[0].where, {}, told)
    assert verdict is (decisive if decisive in (x, y) else None if None in (x, y) else not decisive)
    assert asked == (["x"] if x is decisive else ["x", "y"])  # what decides ends the asking
