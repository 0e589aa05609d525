"""Rules against rules, patterns against patterns: what is claimed holds in programs, and the plain cases are seen."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from opsplice.matchers.overlap import graph_facts, shadow, subsumption
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.matchers.patterns.nodes import Graph
from opsplice.spec_lang.dims import decide
from opsplice.spec_lang.loading.loader import load_text
from tests.effort import examples

KERNELS = """
kernel one(x: f32[...m, n]) -> f32[...m, n] { cpu "k.c" }
kernel even(x: f32[...m, n]) -> f32[...m, n] where n % 2 == 0 { cpu "k.c" }
kernel avx(x: f32[...m, n]) -> f32[...m, n] { cpu x86_64 when avx2 "k.c" }
kernel two(x: f32[...m, n], y: f32[...m, n]) -> f32[...m, n] { cpu "k.c" }
kernel any_layout(x: f32[...m, n] strided) -> f32[...m, n] { grid (m) cpu "k.c" }
kernel any_order(x: f32[m, n]) -> f32[m, n] strided { cpu "k.c" }
kernel linear_rows(x: f32[...m, k], w: f32[k, n], b: f32[n]) -> f32[...m, n] { cpu "k.c" }
"""
RELU = "pattern relu(x: tensor<...m x n x f32>) { maximumf(x, 0.0) }\n"
LINEAR = """
pattern linear(x: tensor<...m x k x f32>, w: tensor<k x n x f32>, b: tensor<n x f32>) {
  addf(contract[...m k, k n -> ...m n](x, w), broadcast[n -> ...m n](b))
}
"""


def codes(text: str) -> list[tuple[str | None, str]]:
    """The code of each warning, and the pattern or rule that it stands at."""
    spec = load_text(KERNELS + text)
    found = []
    for warned in shadow.judge(spec):
        start = warned.span.start
        rule = next((r for r in spec.rules if r.pattern_span.start == start), None)
        found.append((warned.code, rule.pattern if rule else spec.patterns and "pattern"))
    return found


def graphs(text: str) -> list[Graph]:
    """The graph of each pattern."""
    spec = load_text(text)
    return [compile_pattern(spec, name)[0] for name in spec.patterns]


# ---- patterns that look through casts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("general", "narrow", "covered"),
    [
        ("<T>(x: tensor<m x T>) through cast", "<T>(x: tensor<m x T>)", True),
        ("<T>(x: tensor<m x T>)", "<T>(x: tensor<m x T>) through cast", False),
        ("<T>(x: tensor<m x T>) through cast", "<T in {f16}>(x: tensor<m x T>) through cast", True),
        ("<T>(x: tensor<m x T>) through cast", "(x: tensor<m x f16>) through cast", False),  # its result is of any type
        ("(x: tensor<m x f16>) through cast", "<T in {f16}>(x: tensor<m x T>) through cast", True),
        ("<T>(x: tensor<m x T>) through reshape", "<T>(x: tensor<m x T>) through reshape", False),  # nothing is claimed
    ],
)
def test_patterns_that_look_through_casts_hold_where_others_do(general: str, narrow: str, covered: bool) -> None:
    first, second = graphs(f"pattern a{general} {{ exp(negf(x)) }} pattern b{narrow} {{ exp(negf(x)) }}")
    understood = graph_facts.is_understood(first) and graph_facts.is_understood(second)
    assert (understood and subsumption.covers(first, second) is not None) == covered


# ---- rules of one pattern -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rules",
    [
        "replace relu with one(x) replace relu where n > 2 with one(x)",
        "replace relu where n % 4 == 0 with one(x) replace relu where n % 8 == 0 with one(x)",
        "replace relu where n<8 with one(x) replace relu where n > 7 with one(x) replace relu where n > 1 with one(x)",
        "replace relu with one(x) otherwise keep replace relu with avx(x)",
        "replace relu with avx(x) replace relu with one(x)",
        "replace relu with avx(x) otherwise keep replace relu with avx(x)",
        "replace relu where n > 2 with even(x) replace relu where n % 4 == 0 and n > 5 with one(x)",
        "replace relu with any_layout(x) replace relu with one(x)",
        "replace relu with any_layout(x) replace relu with any_layout(x)",
    ],
)
def test_the_last_rule_is_unreachable(rules):
    assert codes(RELU + rules) == [("unreachable-rule", "relu")]


@pytest.mark.parametrize(
    "rules",
    [
        "replace relu where n % 8 == 0 with one(x) replace relu where n % 4 == 0 with one(x)",
        "replace relu where n<8 with one(x) replace relu where n > 8 with avx(x) replace relu where n > 1 with avx(x)",
        "replace relu with avx(x) otherwise keep replace relu with one(x)",  # for other processors
        "replace relu with even(x) replace relu with one(x)",  # for odd n
        "replace relu with one(x) replace relu with any_layout(x)",  # for inputs that do not lie densely
        # A condition does not hold for a dim that is only known at run time.
        "replace relu where n >= 0 with one(x) replace relu with one(x)",
        "replace relu when n <= 1024 with one(x) replace relu with one(x)",
        "replace relu when n < 8 with one(x) replace relu when n >= 8 with one(x) replace relu with one(x)",
        "replace relu where n<8 with one(x) replace relu where n >= 8 with one(x) replace relu with one(x)",
    ],
)
def test_no_rule_is_unreachable(rules):
    assert codes(RELU + rules) == []


PARTS = """
kernel with_y(x: f32[...m, n], y: f32[...m, n] optional) -> f32[...m, n] { cpu "k.c" }
kernel told(x: f32[...m, n], kind: i32) -> f32[...m, n] { cpu "k.c" }
kernel turned(x: f32[m, n] as [n, m]) -> f32[m, n] { cpu "k.c" }
kernel turning(x: f32[m, n]) -> f32[m, n] as [n, m] { cpu "k.c" }
kernel turned_copy(x: f32[m, n] as [n, m] copied) -> f32[m, n] { cpu "k.c" }
pattern part(x: tensor<...m x n x f32>, y: tensor<...m x n x f32>, kind: i32 = 0) {
  z = addf?(exp(x), y)
  z | negf(z) with kind = 1
}
pattern square(x: tensor<m x n x f32>) { exp(x) }
"""


@pytest.mark.parametrize(
    ("rules", "unreachable"),
    [
        ("replace part with one(x) replace part with two(x, y)", False),  # those with a y
        ("replace part with two(x, y) replace part with one(x)", False),
        ("replace part with two(x, y) replace part with with_y(x, y)", False),
        ("replace part with one(x) replace part with told(x, kind)", False),  # those whose kind is 1
        ("replace part where kind == 1 with one(x) replace part with one(x)", False),
        ("replace part with one(x) replace part where kind == 1 with one(x)", False),
        ("replace part with one(x) replace part where kind in {0, 1} with one(x)", False),
        ("replace part where kind in {0, 1} with with_y(x, y) replace part with one(x)", True),
        ("replace part where kind in {0, 1} with with_y(x, y) replace part where kind == 1 with one(x)", True),
        ("replace part where kind in {0, 1} with with_y(x, y) replace part with told(x, kind)", False),
        ("replace part with with_y(x, y) replace part with one(x)", True),
        ("replace part with with_y(x, y) replace part with two(x, y)", True),
        ("replace part with told(x, kind) replace part with one(x)", True),
        ("replace part with one(x) replace part with two(x, y) replace part with with_y(x, y)", True),
        ("replace part with two(x, y) replace part with two(x, y)", True),
        ("replace part where kind == 1 with one(x) replace part where kind == 1 with one(x)", True),
        ("replace square with turned(x) replace square with one(x)", False),  # of another order
        ("replace square with turned(x) replace square with any_layout(x)", False),
        ("replace square with turned(x) replace square with turned_copy(x)", False),
        ("replace square with turning(x) replace square with one(x)", False),
        ("replace square with turned(x) replace square with turned(x)", True),
        ("replace square with turned_copy(x) replace square with turned(x)", True),
        ("replace square with turned_copy(x) replace square with one(x)", True),
        ("replace square with any_layout(x) replace square with turned(x)", True),
    ],
)
def test_a_rule_leaves_parts_and_orders_that_its_kernel_does_not_take(rules: str, unreachable: bool) -> None:
    assert [code for code, _ in codes(PARTS + rules)] == ["unreachable-rule"] * unreachable


TYPED = """
kernel half(x: f16[...m, n]) -> f16[...m, n] { cpu "k.c" }
kernel some<K in {f16, f32}>(x: K[...m, n]) -> K[...m, n] { cpu "k.c" }
kernel pair<K>(x: K[...m, n], y: K[...m, n]) -> f32[...m, n] { cpu "k.c" }
pattern clamp<T>(x: tensor<...m x n x T>) { maximumf(x, 0.0) }
pattern clamp32(x: tensor<...m x n x f32>) { maximumf(x, 0.0) }
pattern twice<T, U>(x: tensor<...m x n x T>, y: tensor<...m x n x U>) { mulf(extf(x) : f32, extf(y) : f32) }
"""


@pytest.mark.parametrize(
    ("rules", "unreachable"),
    [
        ("replace clamp with half(x) replace clamp with one(x)", []),
        ("replace clamp with half(x) replace clamp32 with one(x)", []),
        ("replace clamp with one(x) replace clamp where T in {f32, f64} with some(x)", []),
        ("replace twice with pair(x, y) replace twice with two(x, y)", []),
        ("replace clamp with some(x) replace clamp with half(x)", ["clamp"]),
        ("replace clamp with one(x) replace clamp where T in {f32} with one(x)", ["clamp"]),
    ],
)
def test_a_kernel_leaves_what_has_other_types(rules: str, unreachable: list[str]) -> None:
    assert codes(TYPED + rules) == [("unreachable-rule", pattern) for pattern in unreachable]


# ---- rules of several patterns --------------------------------------------------------------------------------------

LINEAR_RELU = """
pattern linear_relu(x: tensor<...m x k x f32>, w: tensor<k x n x f32>, b: tensor<n x f32>) { relu(linear(x, w, b)) }
"""
FLAT = """
pattern flat(a: tensor<m x k x f32>, c: tensor<k x n x f32>, d: tensor<n x f32>) where n >= 16 {
  addf(broadcast[n -> m n](d), contract[m k, k n -> m n](a, c))
}
"""


def test_a_pattern_that_holds_wherever_another_does_takes_its_matches():
    rules = "replace linear with linear_rows(x, w, b) replace flat with linear_rows(a, c, d)"
    assert codes(LINEAR + FLAT + rules) == [("unreachable-rule", "flat")]
    swapped = "replace flat with linear_rows(a, c, d) replace linear with linear_rows(x, w, b)"
    assert codes(LINEAR + FLAT + swapped) == []


def test_a_rule_takes_no_layouts_that_its_kernel_does_not():
    plain = "pattern exponential(x: tensor<m x n x f32>) { exp(x) } pattern same(y: tensor<m x n x f32>) { exp(y) }"
    one, order = "with one({})", "with any_order({})"
    rules = "replace exponential {} replace same {}"
    assert codes(plain + rules.format(one.format("x"), one.format("y"))) == [("unreachable-rule", "same")]
    assert codes(plain + rules.format(order.format("x"), one.format("y"))) == [("unreachable-rule", "same")]
    assert codes(plain + rules.format(one.format("x"), order.format("y"))) == []


@pytest.mark.parametrize(
    ("where", "reached"),
    [("n >= 8", False), ("n >= 32", True), ("k >= 8", True), ("n >= 8 and m >= 0", True)],
)
def test_conditions_are_compared_in_the_terms_of_the_later_pattern(where, reached):
    rules = f"replace linear where {where} with linear_rows(x, w, b) replace flat with linear_rows(a, c, d)"
    assert codes(LINEAR + FLAT + rules) == ([] if reached else [("unreachable-rule", "flat")])


def test_smaller_patterns_first_get_in_the_way_of_larger_ones():
    text = RELU + LINEAR + LINEAR_RELU
    large, small = "replace linear_relu with linear_rows(x, w, b) ", "replace linear with linear_rows(x, w, b) "
    assert codes(text + small + large) == [("overlapping-rules", "linear_relu")]
    assert codes(text + "replace relu with one(x) " + large) == [("overlapping-rules", "linear_relu")]
    assert codes(text + large + small + "replace relu with one(x)") == []


def test_patterns_of_which_none_is_the_narrower():
    text = """
    pattern left(x: tensor<...m x n x f32>, y: tensor<...m x n x f32>) { addf(exp(x), y) }
    pattern right(x: tensor<...m x n x f32>, y: tensor<...m x n x f32>) { addf(tanh(x), y) }
    """
    assert codes(f"{text} replace left with two(x, y) replace right with two(x, y)") == [("overlapping-rules", "right")]
    apart = text.replace("addf(tanh(x), y) }", "addf(tanh(x), sin(y)) }").replace(
        "addf(exp(x), y)", "addf(exp(x), cos(y))"
    )
    assert codes(f"{apart} replace left with two(x, y) replace right with two(x, y)") == []
    sized = text.replace(
        "right(x: tensor<...m x n x f32>, y: tensor<...m x n x f32>)",
        "right(x: tensor<...m x n x f32>, y: tensor<...m x n x f32>) where n > 8",
    )
    wheres = "replace left where n < 4 with two(x, y) replace right with two(x, y)"
    assert codes(f"{sized} {wheres}") == []


def test_a_pattern_whose_sizes_contradict_those_of_one_that_it_uses():
    text = """
    pattern small(x: tensor<m x n x f32>) where n < 8 { exp(x) }
    pattern large(x: tensor<m x k x f32>) where k > 8 { sqrt(small(x)) }
    pattern fixed(x: tensor<4 x 16 x f32>) { sqrt(small(x)) }
    pattern right(x: tensor<4 x 16 x f32>) { sqrt(small(transpose[a b -> b a](x))) }
    """
    spec = load_text(text)
    warned = [found.message.split()[1] for found in shadow.judge(spec)]
    assert warned == ["large", "fixed"]


# ---- graphs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("general", "special"),
    [
        ("(x: tensor<n x f32>, y: tensor<n x f32>) { addf(x, y) }", "(x: tensor<n x f32>) { addf(x, x) }"),
        ("(x: tensor<n x f32>, s: f32) { mulf(x, s) }", "(x: tensor<n x f32>) { mulf(2.0, x) }"),
        ("(x: tensor<n x f32>) { mulf(x, const(1.0..3.0)) }", "(x: tensor<n x f32>) { mulf(2.0, x) }"),
        ("(x: tensor<n x f32>) { divf(x, const(0.0..0.0)) }", "(x: tensor<n x f32>) { divf(x, -0.0) }"),
        ("<T>(x: tensor<...n x T>) { exp(x) }", "<T in {f32, f64}>(x: tensor<4 x n x T>) { exp(x) }"),
        ("(x: tensor<n x f32>) { mulf(x, x) }", "(x: tensor<n x f32>) { fpowi(x, 2) }"),
        (
            """(x: tensor<m x k x f32>, y: tensor<n x k x f32>) {
              reduce addf[m n k -> m n](mulf(broadcast[m k -> m n k](x), broadcast[n k -> m n k](y))) }""",
            "(x: tensor<m x k x f32>, y: tensor<n x k x f32>) { contract[m k, n k -> m n](x, y) }",
        ),
        (
            "(x: tensor<...m x n x f32>) { reduce addf[...m n -> ...m](exp(x)) }",
            "(x: tensor<a x b x f32>) { reduce addf[a b -> a](exp(x)) }",
        ),
        (
            '(x: tensor<n x f32>) { "a.b"(x) : tensor<n x f32> }',
            '(x: tensor<4 x f32>) { "a.b"(x) {c = 1} : tensor<4 x f32> }',
        ),
    ],
)
def test_covered_one_way_only(general, special):
    (first,), (second,) = graphs(f"pattern p{general}"), graphs(f"pattern p{special}")
    assert subsumption.covers(first, second) is not None
    if "fpowi" not in special:
        assert not_certain(second, first)


def not_certain(graph: Graph, other: Graph) -> bool:
    """Whether a graph does not cover another one, or wants sizes that are not sure to be equal."""
    cover = subsumption.covers(graph, other)
    facts = graph_facts.facts(other)
    return cover is None or not all(decide.implied(need, facts) for need in cover.needs)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("(x: tensor<n x f32>) { exp(x) }", "(x: tensor<n x f16>) { exp(x) }"),
        ("(x: tensor<n x f32>) { divf(x, 0.0) }", "(x: tensor<n x f32>) { divf(x, -0.0) }"),
        ("(x: tensor<n x f32>) { divf(x, 0.0) }", "(x: tensor<n x f32>) { divf(x, const(0.0..0.0)) }"),
        ("(x: tensor<n x f32>) { exp(x) }", "(x: tensor<m x n x f32>) { exp(x) }"),
        ("(x: tensor<n x n x f32>) { exp(x) }", "(x: tensor<m x n x f32>) { exp(x) }"),
        (
            "(x: tensor<n x f32>, y: tensor<n x f32>) { subf(x, mulf(x, y)) }",
            "(a: tensor<n x f32>, b: tensor<n x f32>) { subf(a, mulf(b, b)) }",
        ),
        ("(x: tensor<m x n x f32>) { transpose[m n -> n m](exp(x)) }", "(x: tensor<m x n x f32>) { exp(x) }"),
        (
            "(x: tensor<m x n x f32>) { reduce addf[m n -> m](x) }",
            "(x: tensor<m x n x f32>) { reduce addf[m n -> n](x) }",
        ),
    ],
)
def test_not_covered(first, second):
    (one,), (other,) = graphs(f"pattern p{first}"), graphs(f"pattern p{second}")
    assert not_certain(one, other)


# ---- claims against programs ----------------------------------------------------------------------------------------

OPS = st.sampled_from(["addf", "mulf", "subf", "divf"])
NUMBERS = st.sampled_from(["1.0", "2.0"])
EXPRESSIONS = st.recursive(
    st.sampled_from("xyz"),
    lambda inner: st.one_of(
        st.tuples(OPS, inner, st.one_of(inner, NUMBERS)).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        st.tuples(OPS, NUMBERS, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        st.tuples(st.sampled_from(["exp", "sqrt"]), inner).map(lambda t: f"{t[0]}({t[1]})"),
    ),
    max_leaves=4,
).filter(lambda expr: "(" in expr)


def pattern_of(expr: str) -> str:
    inputs = [name for name in "xyz" if f"({name}" in expr or f" {name}" in expr]
    return f"pattern p({', '.join(f'{i}: tensor<n x f32>' for i in inputs)}) {{ {expr} }}"


def payload_of(expr: str) -> str:
    """A function that computes an expression, each op on tensors of its own."""
    lines: list[str] = []
    stack: list[list[str]] = [[]]
    names = itertools.count()
    for word in expr.replace("(", " ( ").replace(")", " ) ").replace(",", " ").split():
        if word == "(":
            stack.append([])
        elif word == ")":
            operands = ", ".join(stack.pop())
            op = stack[-1].pop()
            dialect = "math" if op in ("exp", "sqrt") else "arith"
            lines.append(f"%v{next(names)} = {dialect}.{op} {operands} : tensor<8xf32>")
            stack[-1].append(lines[-1].split()[0])
        elif word[0].isdigit():
            lines.append(f"%v{next(names)} = arith.constant dense<{word}> : tensor<8xf32>")
            stack[-1].append(lines[-1].split()[0])
        else:
            stack[-1].append(f"%{word}" if word in "xyz" else word)
    (result,) = stack[0]
    arguments = ", ".join(f"%{name}: tensor<8xf32>" for name in "xyz")
    body = "\n".join(lines)
    return f"func.func @f({arguments}) -> tensor<8xf32> {{ {body}\n return {result} : tensor<8xf32> }}"


@settings(
    max_examples=examples(75, 15000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
@given(EXPRESSIONS, EXPRESSIONS)
def test_what_covers_a_pattern_matches_where_that_pattern_does(find, first, second):
    (general,), (special,) = graphs(pattern_of(first)), graphs(pattern_of(second))
    payload = payload_of(second)
    at = find(payload, pattern_of(second))
    assume(at.count)
    for inner in (False, True):
        if subsumption.covers(general, special, inner=inner) is not None:
            assert set(at.roots) <= set(find(payload, pattern_of(first)).roots)
    if subsumption.covers_part(general, special) is not None:
        assert find(payload, pattern_of(first)).count


LAYERS = {
    "linear": LINEAR,
    "linear_1": LINEAR.replace("...m ", "m ").replace("...m x", "m x"),
    "linear_64": LINEAR.replace("tensor<k x n", "tensor<k x 64").replace("tensor<n", "tensor<64"),
    "plain": "pattern plain(a: tensor<...m x n x f32>, b: tensor<...m x n x f32>) { addf(a, b) }",
    "row": "pattern row(a: tensor<...m x n x f32>, b: tensor<n x f32>) { addf(a, broadcast[n -> ...m n](b)) }",
    "any": "pattern any<T>(a: tensor<...m x T>, b: tensor<...m x T>) { addf(a, b) }",
}
LINEAR_PAYLOAD = """
func.func @f(%x: tensor<4x8xf32>, %w: tensor<8x64xf32>, %b: tensor<64xf32>) -> tensor<4x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x64xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x64xf32>) -> tensor<4x64xf32>
  %m = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x64xf32>) outs(%fill : tensor<4x64xf32>) -> tensor<4x64xf32>
  %wide = linalg.broadcast ins(%b : tensor<64xf32>) outs(%empty : tensor<4x64xf32>) dimensions = [0]
  %sum = arith.addf %m, %wide : tensor<4x64xf32>
  return %sum : tensor<4x64xf32>
}
"""


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(LAYERS, 2)))
def test_layers_that_cover_each_other_match_each_others_programs(find, first, second):
    at = find(LINEAR_PAYLOAD, LAYERS[second])
    assert at.count
    (general,), (special,) = graphs(LAYERS[first]), graphs(LAYERS[second])
    cover = subsumption.covers(general, special, inner=True)
    facts = graph_facts.facts(special)
    if cover is not None and all(decide.implied(need, facts) for need in cover.needs):
        assert find(LINEAR_PAYLOAD, LAYERS[first]).roots == at.roots
    expected = {
        ("linear", "linear_1"),
        ("linear", "linear_64"),
        ("any", "plain"),
        ("any", "linear"),
        ("plain", "linear"),
    }
    if (first, second) in expected:
        assert cover is not None


@pytest.mark.usefixtures("must_end")
def test_a_thousand_rules_are_judged():
    patterns = "".join(
        f"pattern p{i}(x: tensor<...m x n x f32>) where n % 8 == 0 {{ maximumf(addf(exp(x), {i}.5), tanh(x)) }}\n"
        f"replace p{i} with one(x)\n"
        for i in range(1000)
    )
    spec = load_text(KERNELS + patterns)
    assert shadow.judge(spec) == ()
