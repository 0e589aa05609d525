"""Why a pattern did not match, told in full: each kind of reason, the drawing, and ops that are pointed at."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from opsplice.matchers.explain.diagnosis import Explainer, covers
from opsplice.matchers.explain.near_miss import Attempt, State
from opsplice.matchers.explain.pointing import ops_at, parse_place
from opsplice.matchers.explain.reasons import other_uses, reason_of
from opsplice.matchers.find import engine
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.matchers.patterns.nodes import Asked
from opsplice.matchers.search import failures
from opsplice.matchers.search.failures import Kind
from opsplice.matchers.search.search import Search
from opsplice.matchers.search.tracing import Tracer
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.loading.loader import load_text

T = "tensor<4x8xf32>"
ONE = f"%a: {T}"
ID = "affine_map<(i, j) -> (i, j)>"
TWO = f"%a: {T}, %b: {T}"

Why = Callable[..., Attempt]


class Setting:
    """A payload and the last pattern of a spec."""

    def __init__(self, session: Any, payload: str, spec: str, strided: frozenset[str] = frozenset()) -> None:
        from iree.compiler import ir

        self.module = ir.Module.parse(payload, context=session.context)
        loaded = load_text(spec)
        pattern = list(loaded.patterns.values())[-1]
        self.graphs = compile_pattern(loaded, pattern.name, strided)
        self.explainer = Explainer(loaded.patterns)
        self.found = engine.find(self.module, self.graphs)

    def near_misses(self) -> list[Attempt]:
        return self.explainer.near_misses(self.found.near_misses)

    def nearest(self) -> Attempt | None:
        nearest = self.explainer.nearest(self.module, self.graphs, self.found.matches, 1)
        return nearest[0] if nearest else None

    def at(self, place: str) -> list[Attempt]:
        return self.explainer.at(self.graphs, ops_at(self.module, parse_place(place)))


LAYOUT = "declare the kernel's buffer `strided` or `copied`"


def function(arguments: str, body: str, result: str = T) -> str:
    return f"func.func @f({arguments}) -> {result} {{\n{body}\n}}"


@pytest.fixture
def why(session: Any) -> Why:
    """`why(arguments, body, spec)`: the place of a function where a pattern came nearest; it must not match."""

    def run(arguments: str, body: str, spec: str, result: str = T) -> Attempt:
        setting = Setting(session, function(arguments, body, result), spec)
        before = str(setting.module)
        assert not setting.found.matches
        misses = setting.near_misses()
        attempt = misses[0] if misses else setting.nearest()
        assert attempt is not None
        assert str(setting.module) == before, "explaining changes nothing"
        return attempt

    return run


def said(attempt: Attempt) -> tuple[Kind, str, str]:
    return attempt.reason.kind, attempt.reason.wanted, attempt.reason.found


def rows(attempt: Attempt) -> list[tuple[str, str, str]]:
    """The drawing: the state of each part, its text, and what it is in the model."""
    return [(str(p.state), "  " * p.depth + p.text, "" if p.place is None else p.place.op) for p in attempt.parts]


# ---- where a pattern may end -----------------------------------------------------------------------------------------

# Its innermost product may be the pattern's last op.
GAINED = """pattern p(x: tensor<m x n x f32>, g, b: tensor<m x n x f32>) {
  maximumf?(addf?(mulf(x, rsqrt(x)), g), b)
}"""


def test_what_fails_behind_optional_ops_is_a_near_miss(why: Why) -> None:
    body = f"""%0 = math.exp %a : {T}
      %1 = arith.subf %a, %0 : {T} loc("m.py":2:1)
      %2 = arith.addf %1, %b : {T}
      %3 = arith.maximumf %2, %b : {T} loc("m.py":4:1)
      return %3 : {T}"""
    miss = why(TWO, body, GAINED)
    assert miss.location == "m.py:4:1"
    assert miss.reason.at is not None
    assert (miss.reason.at.location, *said(miss)) == ("m.py:2:1", Kind.OP, "mulf", "subf")
    assert miss.progress > 0


def test_a_difference_of_other_terms(why: Why) -> None:
    body = f"""%0 = math.log %b : {T}
      %1 = arith.subf %a, %0 : {T}
      return %1 : {T}"""
    spec = "pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) { subf(subf(x, y), log(y)) }"
    miss = why(TWO, body, spec)
    assert said(miss) == (Kind.OP, "subf(subf(x, y), log(y))", "subf of argument 0 of @f and log")
    assert "one of its terms is another" in miss.reason.help


# ---- ops and constants ---------------------------------------------------------------------------------------------


def test_another_op(why: Why) -> None:
    body = f"""%0 = arith.divf %a, %b : {T} loc("m.py":1:2)
      %1 = math.absf %0 : {T} loc("m.py":2:2)
      %2 = arith.negf %1 : {T} loc("m.py":3:2)
      return %2 : {T}"""
    miss = why(TWO, body, "pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) { negf(absf(mulf(x, y))) }")
    assert said(miss) == (Kind.OP, "mulf", "divf")
    assert (miss.function, miss.location) == ("f", "m.py:3:2")
    at = miss.reason.at
    assert at is not None
    assert (at.op, at.location) == ("arith.divf", "m.py:1:2")
    assert at.text.endswith(f"arith.divf %arg0, %arg1 : {T}")
    assert rows(miss) == [
        ("held", "negf", "arith.negf"),
        ("held", "  absf", "math.absf"),
        ("failed", "    mulf", "arith.divf"),
        ("open", "      x", ""),
        ("open", "      y", ""),
    ]
    assert [p.whole for p in miss.parts][:3] == ["negf(absf(mulf(x, y)))", "absf(mulf(x, y))", "mulf(x, y)"]


@pytest.mark.parametrize(
    ("body", "pattern", "help_text"),
    [
        (
            f"%0 = math.sqrt %b : {T}\n%1 = math.tanh %0 : {T}\n%2 = math.absf %1 : {T}",
            "absf(sqrt(y))",
            "the program has one op more here: write tanh around this part",
        ),
        (
            f"%0 = math.sqrt %b : {T}\n%2 = math.absf %0 : {T}",
            "absf(tanh(sqrt(y)))",
            "the program has no tanh here: leave it out of the pattern",
        ),
        (f"%2 = math.absf %a : {T}", "absf(tanh(x))", "the program hands this in: make it an input of the pattern"),
    ],
    ids=["one more", "one less", "argument"],
)
def test_what_to_write_instead(why: Why, body: str, pattern: str, help_text: str) -> None:
    used = [f"{name}: tensor<m x n x f32>" for name in "xy" if f"{name}," in pattern or f"{name})" in pattern]
    miss = why(TWO, f"{body}\nreturn %2 : {T}", f"pattern p({', '.join(used)}) {{ {pattern} }}")
    assert miss.reason.kind is Kind.OP
    assert miss.reason.help == help_text


def test_a_cast_is_named(why: Why) -> None:
    narrow = "tensor<4x8xf16>"
    body = f"""%0 = math.sqrt %a : {T}
      %1 = arith.truncf %0 : {T} to {narrow}
      %2 = arith.negf %1 : {narrow}
      %3 = math.exp %2 : {narrow}
      return %3 : {narrow}"""
    miss = why(ONE, body, "pattern p(x: tensor<m x n x f32>) { exp(negf(sqrt(x))) }", narrow)
    assert said(miss) == (Kind.OP, "sqrt", "truncf")
    written = "the program has a cast here: write truncf(...) : f16 around this part"
    assert miss.reason.help == f"{written}, or `through cast` behind the pattern's inputs"


def test_another_cast_is_not_one_more(why: Why) -> None:
    body = f"""%0 = arith.fptosi %a : {T} to tensor<4x8xi32>
      %1 = arith.sitofp %0 : tensor<4x8xi32> to {T}
      %2 = math.exp %1 : {T}
      return %2 : {T}"""
    miss = why(ONE, body, "pattern p(x: tensor<m x n x f32>) { exp(uitofp(fptosi(x) : i32) : f32) }")
    assert said(miss) == (Kind.OP, "uitofp", "sitofp")
    assert miss.reason.help.startswith("write sitofp if the kernel computes that")


def test_both_orders_of_a_commutative_op_are_tried(why: Why) -> None:
    body = f"""%0 = math.sqrt %a : {T}
      %1 = math.tanh %b : {T}
      %2 = arith.addf %0, %1 : {T}
      %3 = math.absf %2 : {T}
      return %3 : {T}"""
    spec = "pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) { absf(addf(exp(x), sqrt(y))) }"
    miss = why(TWO, body, spec)
    assert miss.reason.kind is Kind.OP
    assert miss.reason.tried == "addf"
    ordered = spec.replace("addf", "subf")
    assert why(TWO, body.replace("addf", "subf"), ordered).reason.tried == ""


def test_operands_that_stand_the_other_way_round(why: Why) -> None:
    body = f"%0 = math.exp %a : {T}\n%1 = arith.subf %b, %0 : {T}\n%2 = math.tanh %1 : {T}\nreturn %2 : {T}"
    spec = "pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) { tanh(subf(exp(x), y)) }"
    miss = why(TWO, body, spec)
    assert miss.reason.help.startswith("subf has its operands the other way round")
    assert not why(TWO, body.replace("exp", "tanh"), spec).reason.help.startswith("subf has")


def test_a_reduction_that_starts_from_another_value(why: Why) -> None:
    body = f"""%c = arith.constant dense<{{start}}> : tensor<4xf32>
      %0 = linalg.reduce {{{{ arith.addf }}}} ins(%a : {T}) outs(%c : tensor<4xf32>) dimensions = [1]
      return %0 : tensor<4xf32>"""
    spec = "pattern p(x: tensor<m x n x f32>) { reduce addf[m n -> m](x) }"
    miss = why(ONE, body.format(start="1.0"), spec, "tensor<4xf32>")
    assert said(miss) == (Kind.START, "a reduction by addf alone", "one that starts at 1.0")
    assert miss.reason.help.startswith("accumulated(...)")


def test_another_constant(why: Why) -> None:
    body = f"""%c = arith.constant dense<6.0> : {T} loc("m.py":7:1)
      %0 = math.absf %a : {T}
      %1 = arith.maximumf %0, %c : {T}
      return %1 : {T}"""
    miss = why(ONE, body, "pattern p(x: tensor<m x n x f32>) { maximumf(absf(x), 0.0) }")
    assert said(miss) == (Kind.CONSTANT, "the constant 0.0", "the constant 6.0")
    assert miss.reason.tried == "maximumf"
    assert miss.reason.help.startswith("write 6.0 if the kernel computes that")
    assert miss.reason.at is not None
    assert miss.reason.at.location == "m.py:7:1"


def test_another_constant_that_is_taken_away_in_a_sum(why: Why) -> None:
    """The pattern has its negative; what is said is what the spec and the program write."""
    body = f"""%c = arith.constant dense<1.0> : {T}
      %0 = arith.subf %a, %c : {T}
      %1 = arith.subf %0, %b : {T}
      return %1 : {T}"""
    miss = why(TWO, body, "pattern p(x, y: tensor<m x n x f32>) { subf(subf(x, 0.5), y) }")
    assert said(miss) == (Kind.CONSTANT, "the constant 0.5", "the constant 1.0")
    assert miss.reason.help.startswith("write 1.0 if the kernel computes that")
    assert [text.strip() for state, text, _ in rows(miss) if state == "failed"] == ["0.5"]


def test_a_constant_that_is_none(why: Why) -> None:
    body = f"%0 = math.absf %a : {T}\n%1 = arith.maximumf %0, %b : {T}\nreturn %1 : {T}"
    miss = why(TWO, body, "pattern p(x: tensor<m x n x f32>) { maximumf(absf(x), const(0.0..1.0)) }")
    assert said(miss) == (Kind.OP, "the constant 0.0..1.0", "argument 1 of @f")


def test_an_attribute(why: Why) -> None:
    body = f"""%0 = arith.cmpf olt, %a, %b : {T}
      %1 = arith.select %0, %b, %c : tensor<4x8xi1>, {T}
      %2 = arith.negf %1 : {T}
      return %2 : {T}"""
    spec = """pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>, z: tensor<m x n x f32>) {
      negf(select(cmpf(x, y) {predicate = oeq}, y, z)) }"""
    miss = why(f"{TWO}, %c: {T}", body, spec)
    assert said(miss) == (Kind.ATTRIBUTE, "predicate = oeq", "predicate = olt")
    assert [p.text for p in miss.parts if p.state is State.FAILED] == ["cmpf {predicate = oeq}"]


def test_attributes_operands_and_results_of_any_op(why: Why) -> None:
    body = f"""%0 = "foo.bar"(%a) {{alpha = 2 : i32}} : ({T}) -> {T}
      %1 = math.absf %0 : {T}
      %2 = math.exp %1 : {T}
      return %2 : {T}"""
    spec = 'pattern p(x: tensor<m x n x f32>) { exp(absf("foo.bar"(x) {alpha = 1})) }'
    assert said(why(ONE, body, spec))[0] is Kind.ATTRIBUTE
    two = 'pattern p(x: tensor<m x n x f32>) { exp(absf("foo.bar"(x, x) : tensor<m x n x f32>)) }'
    assert said(why(ONE, body, two)) == (Kind.OPERANDS, "2 operands", "1")


def test_a_region_and_effects_inside_a_pattern(why: Why, session: Any) -> None:
    body = f"""%0 = tensor.generate {{
      ^bb0(%i: index, %j: index):
        %c = arith.constant 1.0 : f32
        tensor.yield %c : f32
      }} : {T}
      %1 = math.absf %0 : {T}
      %2 = math.exp %1 : {T}
      return %2 : {T}"""
    miss = why(ONE, body, 'pattern p() { exp(absf("tensor.generate"() : tensor<4 x 8 x f32>)) }')
    assert miss.reason.kind is Kind.REGION
    payload = f"""util.global private mutable @g = dense<0.0> : {T}
      util.func public @f() -> {T} {{
        %x = util.global.load @g : {T} loc("m.py":3:1)
        %a = math.absf %x : {T}
        util.return %a : {T}
      }}"""
    setting = Setting(session, payload, 'pattern p() { absf("util.global.load"() : tensor<4 x 8 x f32>) }')
    (miss,) = setting.near_misses()
    assert miss.reason.kind is Kind.EFFECTS
    assert miss.reason.at is not None
    assert (miss.reason.at.op, miss.reason.at.location) == ("util.global.load", "m.py:3:1")


def test_an_input_that_is_made_from_a_result(session: Any) -> None:
    body = f"""%0 = math.absf %a : {T}
      %1 = math.exp %0 : {T}
      %2 = arith.negf %1 : {T}
      return %2 : {T}"""
    spec = "pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) { absf(x), negf(y) }"
    (miss,) = Setting(session, function(ONE, body), spec).at("math.absf#1")
    assert said(miss) == (Kind.ORDER, "inputs that need no result", "one made from a result")


# ---- types, sizes and dims -----------------------------------------------------------------------------------------

SUM = f"%0 = arith.addf %a, %b : {T}\n%1 = arith.negf %0 : {T}\nreturn %1 : {T}"


@pytest.mark.parametrize(
    ("head", "kind", "wanted", "found", "help_text"),
    [
        (
            "p(x: tensor<m x n x f16>, y: tensor<m x n x f16>)",
            Kind.TYPE,
            "x with element type f16",
            "element type f32",
            "write f32 in place of f16, or for both a type variable, <T in {f16, f32}>",
        ),
        (
            "p<T in {f16, f64}>(x: tensor<m x n x T>, y: tensor<m x n x T>)",
            Kind.TYPE,
            "x with an element type in {f16, f64}",
            "element type f32",
            "write T in {f16, f64, f32} if there is a kernel for f32",
        ),
        (
            "p(x: tensor<9 x n x f32>, y: tensor<9 x n x f32>)",
            Kind.SIZE,
            "a dim of size 9",
            "4",
            "write a name such as `n` in place of the number to take any size",
        ),
        (
            "p(x: tensor<n x n x f32>, y: tensor<n x n x f32>)",
            Kind.SAME_SIZE,
            "n = 4",
            "n = 8",
            "give the dims two names if n need not be one size",
        ),
        (
            "p(x: tensor<n x f32>, y: tensor<n x f32>)",
            Kind.RANK,
            "rank 1",
            "rank 2",
            "write `...m` in a type for any number of dims",
        ),
        (
            "p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) where m >= 1 and n % 64 == 0",
            Kind.CONDITION,
            "n % 64 == 0",
            "n = 8, not a multiple of 64",
            "this is the pattern's own condition: relax it if the kernel can take more",
        ),
        (
            "p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) where n <= 4",
            Kind.CONDITION,
            "n <= 4",
            "n = 8, more than 4",
            "this is the pattern's own condition: relax it if the kernel can take more",
        ),
    ],
    ids=["type", "variable", "size", "same size", "rank", "multiple", "bound"],
)
def test_types_and_sizes(why: Why, head: str, kind: Kind, wanted: str, found: str, help_text: str) -> None:
    miss = why(TWO, SUM, f"pattern {head} {{ negf(addf(x, y)) }}")
    assert said(miss) == (kind, wanted, found)
    assert miss.reason.help == help_text


def test_a_condition_of_a_used_pattern_is_said_in_its_own_names(why: Why) -> None:
    spec = """pattern add(u: tensor<...m x k x f32>, v: tensor<...m x k x f32>) where k % 3 == 0 { addf(u, v) }
      pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) { negf(add(x, y)) }"""
    assert said(why(TWO, SUM, spec)) == (Kind.CONDITION, "k % 3 == 0", "k = 8, not a multiple of 3")


def test_a_condition_on_a_dim_that_is_dynamic(why: Why) -> None:
    spec = "pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) where n % 4 == 0 { negf(addf(x, y)) }"
    miss = why(TWO.replace("8", "?"), SUM.replace("8", "?"), spec, T.replace("8", "?"))
    assert said(miss) == (Kind.CONDITION, "n % 4 == 0", "n = dynamic: n is only known at run time")


def test_weights_the_other_way_round(why: Why) -> None:
    body = f"""%z = arith.constant dense<0.0> : {T}
      %0 = linalg.matmul ins(%a, %b : tensor<4x16xf32>, tensor<16x8xf32>) outs(%z : {T}) -> {T} loc("m.py":4:1)
      %1 = math.tanh %0 : {T}
      return %1 : {T}"""
    spec = "pattern p(x: tensor<m x k x f32>, w: tensor<n x k x f32>) { tanh(contract[m k, n k -> m n](x, w)) }"
    miss = why("%a: tensor<4x16xf32>, %b: tensor<16x8xf32>", body, spec)
    assert said(miss) == (Kind.DIMS, "w with dims n k", "dims k n")
    assert miss.reason.help == "write `k n` for w if the kernel can take it so, or " + LAYOUT
    assert miss.reason.tried == "the contraction"
    assert rows(miss) == [
        ("held", "tanh", "math.tanh"),
        ("held", "  contract[m k, n k -> m n]", "linalg.matmul"),
        ("held", "    x", "argument 0 of @f"),
        ("failed", "    w", "argument 1 of @f"),
    ]


def test_other_dims_are_reduced(why: Why) -> None:
    body = """%z = arith.constant dense<0.0> : tensor<f32>
      %0 = linalg.reduce { arith.addf } ins(%a : tensor<4x?xf32>) outs(%z : tensor<f32>) dimensions = [0, 1]
      %1 = math.exp %0 : tensor<f32>
      return %1 : tensor<f32>"""
    spec = "pattern p(x: tensor<n x f32>) { exp(reduce addf[n -> ](x)) }"
    miss = why("%a: tensor<4x?xf32>", body, spec, "tensor<f32>")
    assert said(miss) == (Kind.REDUCTION, "a reduction over 1 dim", "one over 2 dims (4 x ?)")


SQUARE = "tensor<8x8xf32>"
ROW = "tensor<8xf32>"


def over_rows(op: str, operand: str, start: str) -> str:
    """A reduction of the rows of a square."""
    return f"""linalg.reduce {{ arith.{op} }} ins({operand} : {SQUARE}) outs({start} : {ROW}) dimensions = [1]"""


def repeated(operand: str, dim: int) -> str:
    return f"linalg.broadcast ins({operand} : {ROW}) outs(%e : {SQUARE}) dimensions = [{dim}]"


def softmax_body(dim: int) -> str:
    """A softmax of a square whose sums are repeated along its columns (1) or its rows (0)."""
    return f"""%z = arith.constant dense<0.0> : {ROW}
      %i = arith.constant dense<0xFF800000> : {ROW}
      %e = tensor.empty() : {SQUARE}
      %m = {over_rows("maximumf", "%a", "%i")}
      %w = {repeated("%m", 1)}
      %d = arith.subf %a, %w : {SQUARE}
      %x = math.exp %d : {SQUARE}
      %s = {over_rows("addf", "%x", "%z")}
      %v = {repeated("%s", dim)}
      %r = arith.divf %x, %v : {SQUARE}
      return %r : {SQUARE}"""


SOFTMAX = """pattern p(x: tensor<...m x n x f32>) {
  peak = reduce maximumf[...m n -> ...m](x)
  e = exp(subf(x, broadcast[...m -> ...m n](peak)))
  divf(e, broadcast[...m -> ...m n](reduce addf[...m n -> ...m](e)))
}"""


@pytest.mark.parametrize("strided", [frozenset(), frozenset({"x"})], ids=["dense", "strided"])
def test_a_sum_that_is_repeated_along_another_dim(session: Any, strided: frozenset[str]) -> None:
    setting = Setting(session, function(f"%a: {SQUARE}", softmax_body(0), SQUARE), SOFTMAX, strided)
    assert not setting.found.matches
    miss = setting.nearest()
    assert miss is not None
    assert said(miss) == (Kind.DIMS, "x with dims m n", "dims n n, one of which is reduced")
    assert miss.reason.help == "the program repeats what it reduces along other dims: compare the pattern's broadcasts"
    assert [text.strip() for state, text, _ in rows(miss) if state == "failed"] == ["x"]
    assert Setting(session, function(f"%a: {SQUARE}", softmax_body(1), SQUARE), SOFTMAX, strided).found.matches


def test_a_result_of_another_rank_whose_buffers_may_be_strided(why: Why) -> None:
    spec = """pattern p(x: tensor<...b x m x p x h x f32>) {
      first = take[...b m p h, -> ...b m h](x, 0)
      second = take[...b m p h, -> ...b m h](x, 1)
      addf(x, stack[...b m h, ...b m h -> ...b m p h](second, negf(first)))
    }"""
    half, whole = "tensor<4x4xf32>", "tensor<4x8xf32>"
    body = f"""%0 = tensor.extract_slice %a[0, 0] [4, 4] [1, 1] : {whole} to {half}
      %1 = tensor.extract_slice %a[0, 4] [4, 4] [1, 1] : {whole} to {half}
      %2 = arith.negf %0 : {half}
      %3 = tensor.concat dim(1) %1, %2 : ({half}, {half}) -> {whole}
      %4 = arith.addf %a, %3 : {whole}
      return %4 : {whole}"""
    miss = why(ONE, body, spec)
    assert miss.reason.kind is Kind.RANK
    help_text = "the program has these dims merged, or lacks some: declare the kernel's buffers `strided`"
    assert miss.reason.help == help_text


# ---- values --------------------------------------------------------------------------------------------------------


def test_two_values_for_one_name(why: Why) -> None:
    body = f"""%0 = math.sqrt %b : {T} loc("m.py":5:1)
      %1 = arith.mulf %a, %0 : {T}
      %2 = arith.negf %1 : {T}
      return %2 : {T}"""
    miss = why(TWO, body, "pattern p(x: tensor<m x n x f32>) { negf(mulf(x, x)) }")
    wanted = "x to be one value, argument 0 of @f"
    assert said(miss) == (Kind.SAME_VALUE, wanted, "math.sqrt at m.py:5:1")


def test_a_value_that_only_a_fused_op_has(why: Why) -> None:
    body = f"""%e = tensor.empty() : {T}
      %0 = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]}} ins(%a : {T}) outs(%e : {T}) {{
      ^bb0(%x: f32, %o: f32):
        %p = math.tanh %x : f32 loc("m.py":1:1)
        %q = math.absf %p : f32 loc("m.py":2:1)
        %r = arith.negf %q : f32 loc("m.py":3:1)
        linalg.yield %r : f32
      }} -> {T} loc("m.py":4:1)
      return %0 : {T}"""
    miss = why(ONE, body, "pattern p(x: tensor<m x n x f32>) { negf(absf(x)) }")
    assert miss.reason.kind is Kind.NO_VALUE
    assert miss.reason.at is not None
    assert (miss.reason.at.op, miss.reason.at.location) == ("math.tanh in linalg.generic", "m.py:1:1")
    assert rows(miss)[:2] == [
        ("held", "negf", "arith.negf in linalg.generic"),
        ("held", "  absf", "math.absf in linalg.generic"),
    ]


def test_a_scalar_that_is_a_tensor(why: Why) -> None:
    body = f"%0 = math.sqrt %a : {T}\n%1 = arith.addf %0, %b : {T}\nreturn %1 : {T}"
    miss = why(TWO, body, "pattern p(x: tensor<m x n x f32>, eps: f32) { addf(sqrt(x), eps) }")
    assert said(miss) == (Kind.NO_VALUE, "a scalar for eps", f"argument 1 of @f, a {T}")


def test_who_else_uses_a_value(session: Any) -> None:
    from iree.compiler import ir

    body = f"""%0 = math.sqrt %a : {T} loc("m.py":1:1)
      %1 = math.absf %0 : {T} loc("m.py":2:1)
      %2 = math.tanh %0 : {T} loc("m.py":88:3)
      %3 = arith.addf %1, %2 : {T}
      return %3 : {T}"""
    module = ir.Module.parse(function(ONE, body), context=session.context)
    (sqrt,), (absf,) = ops_at(module, parse_place("math.sqrt#1")), ops_at(module, parse_place("m.py:2"))
    assert other_uses(sqrt.results[0], frozenset([absf])) == "also used by math.tanh at m.py:88:3"
    (tanh,) = ops_at(module, parse_place("m.py:88:3"))
    assert other_uses(sqrt.results[0], frozenset([absf, tanh])) == ""


def test_a_value_that_should_have_one_use_only(session: Any) -> None:
    """Whoever finds that a value is used elsewhere says so with this kind; who uses it is read off the program."""
    body = f"""%0 = math.sqrt %a : {T} loc("m.py":1:1)
      %1 = math.absf %0 : {T} loc("m.py":2:1)
      %2 = math.tanh %0 : {T} loc("m.py":88:3)
      %3 = arith.addf %1, %2 : {T}
      return %3 : {T}"""
    setting = Setting(session, function(ONE, body), "pattern p(x: tensor<m x n x f32>) { absf(sqrt(exp(x))) }")
    (graph,), views = setting.graphs, Views()
    (sqrt,), (absf,) = ops_at(setting.module, parse_place("math.sqrt#1")), ops_at(setting.module, parse_place("m.py:2"))
    tracer = Tracer(views, graph, "f")
    assert tracer.run(absf.results[0]) is None
    assert tracer.stop is not None
    stop = dataclasses.replace(
        tracer.stop, why=failures.Why.USE, node=Asked(graph.pattern.span, "only", "x"), operands=(None,), at=sqrt
    )
    assert reason_of(graph, stop, views).found == "one that is also used by math.tanh at m.py:88:3"


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("pattern p(x: tensor<m x n x f32>) { tanh(shared(sin(x))) }", "shared(sin(x))"),
        ("pattern p(x: tensor<m x n x f32>) where shared(s) { s = sin(x)\n tanh(s) }", "shared(s)"),
    ],
)
def test_a_value_that_nothing_else_uses(why: Why, spec: str, wanted: str) -> None:
    miss = why(ONE, f"%0 = math.sin %a : {T}\n%1 = math.tanh %0 : {T}\nreturn %1 : {T}", spec)
    assert said(miss) == (Kind.USE, wanted, "one that nothing else uses")
    assert miss.reason.help.startswith("drop `shared`")


@pytest.mark.parametrize("made", [0, 1])
def test_a_value_of_an_op_with_several_results_that_something_else_uses(why: Why, made: int) -> None:
    body = f"""%e = tensor.empty() : {T}
      %0:2 = linalg.generic {{indexing_maps = [{ID}, {ID}, {ID}], iterator_types = ["parallel", "parallel"]}}
        ins(%a : {T}) outs(%e, %e : {T}, {T}) {{
      ^bb0(%x: f32, %o: f32, %p: f32):
        %t = math.tanh %x : f32
        %u = math.sin %t : f32
        linalg.yield {"%t, %u" if made == 0 else "%u, %t"} : f32, f32
      }} -> ({T}, {T})
      %1 = math.exp %0#{made} : {T} loc("m.py":88:3)
      %2 = math.sqrt %0#{1 - made} : {T}
      %3 = arith.addf %1, %2 : {T}
      return %3 : {T}"""
    spec = "pattern p(x: tensor<m x n x f32>) { sqrt(sin(only(tanh(x)))) }"
    miss = why(ONE, body, spec)
    assert said(miss) == (Kind.USE, "only(tanh(x))", "the value is also used by math.exp at m.py:88:3")


def test_a_pattern_too_large_to_decide(session: Any) -> None:
    # Sums of the same things pair up in more ways than can be tried.
    lines = [f"%s0 = arith.addf %a, %b : {T}"]
    lines += [f"%s{i} = arith.addf %s{i - 1}, %s{i - 1} : {T}" for i in range(1, 3)]
    setting = Setting(
        session,
        function(TWO, "\n".join([*lines, f"return %s2 : {T}"])),
        "pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) { addf(addf(x, y), mulf(x, y)) }",
    )
    (graph,), views = setting.graphs, Views()
    (op,) = ops_at(setting.module, parse_place("arith.addf#3"))
    tracer = Tracer(views, graph, "f", max_steps=1)
    assert tracer.run(op.results[0]) is None
    assert tracer.stop is not None
    assert reason_of(graph, tracer.stop, views).kind is Kind.STEPS


# ---- the drawing ---------------------------------------------------------------------------------------------------

SOFTMAX = """pattern softmax(x: tensor<m x n x f32>) {
  peak = reduce maximumf[m n -> m](x)
  e = exp(subf(x, broadcast[m -> m n](peak)))
  divf(e, broadcast[m -> m n](reduce addf[m n -> m](e)))
}"""


def softmax(sum_of: str) -> str:
    return f"""%low = arith.constant dense<0xFF800000> : tensor<4xf32>
      %zero = arith.constant dense<0.0> : tensor<4xf32>
      %e = tensor.empty() : {T}
      %peak = linalg.reduce {{ arith.maximumf }} ins(%a : {T}) outs(%low : tensor<4xf32>) dimensions = [1]
      %wide = linalg.broadcast ins(%peak : tensor<4xf32>) outs(%e : {T}) dimensions = [1]
      %d = arith.subf %a, %wide : {T}
      %x = math.exp %d : {T}
      %sum = linalg.reduce {{ arith.addf }} ins({sum_of} : {T}) outs(%zero : tensor<4xf32>) dimensions = [1]
      %total = linalg.broadcast ins(%sum : tensor<4xf32>) outs(%e : {T}) dimensions = [1]
      %r = arith.divf %x, %total : {T}
      return %r : {T}"""


def test_names_and_shared_parts_are_drawn_once(why: Why, session: Any) -> None:
    assert len(Setting(session, function(ONE, softmax("%x")), SOFTMAX).found.matches) == 1
    miss = why(ONE, softmax("%d"), SOFTMAX)
    assert said(miss) == (Kind.OP, "exp", "subf")
    assert rows(miss) == [
        ("held", "divf", "arith.divf"),
        ("held", "  e = exp", "math.exp"),
        ("held", "    subf", "arith.subf"),
        ("held", "      x", "argument 0 of @f"),
        ("held", "      peak = reduce maximumf[m n -> m]", "linalg.reduce"),
        ("held", "        x", "argument 0 of @f"),
        ("held", "  reduce addf[m n -> m]", "linalg.reduce"),
        ("failed", "    e", "arith.subf"),
    ]


def test_comments_and_line_breaks_are_not_drawn(why: Why) -> None:
    spec = """pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) {
      absf( // a comment with ( and \x1b[2J
        negf(
          mulf(x, y)))
    }"""
    body = f"""%0 = arith.addf %a, %b : {T}
      %1 = arith.negf %0 : {T}
      %2 = math.absf %1 : {T}
      return %2 : {T}"""
    assert [p.whole for p in why(TWO, body, spec).parts][:2] == ["absf(negf(mulf(x, y)))", "negf(mulf(x, y))"]
    assert [p.text for p in why(TWO, body, spec).parts] == ["absf", "negf", "mulf", "x", "y"]


def test_what_is_alike_behind_the_difference_is_drawn_too(why: Why) -> None:
    miss = why(ONE, softmax("%x").replace("math.exp ", "math.exp2 "), SOFTMAX)
    assert said(miss) == (Kind.OP, "exp", "exp2")
    assert rows(miss) == [
        ("held", "divf", "arith.divf"),
        ("failed", "  e = exp", "math.exp2"),
        ("alike", "    subf", "arith.subf"),
        ("open", "      x", ""),
        ("alike", "      peak = reduce maximumf[m n -> m]", "linalg.reduce"),
        ("open", "        x", ""),
        ("alike", "  reduce addf[m n -> m]", "linalg.reduce"),
        ("open", "    e", ""),
    ]
    assert (miss.held, miss.alike) == (1, 3)


def test_the_place_that_is_most_alike_is_the_nearest(session: Any) -> None:
    """Both places stop right below the division; behind that one of them is a softmax."""
    body = softmax("%x").replace("math.exp ", "math.exp2 ").replace("return %r", "")
    body = (
        body[: body.rindex(":")]
        + f"""
      %other = math.tanh %r : {T}
      %scaled = arith.divf %other, %a : {T}
      return %scaled : {T}"""
    )
    setting = Setting(session, function(ONE, body), SOFTMAX)
    nearest = setting.nearest()
    assert nearest is not None
    assert said(nearest) == (Kind.OP, "exp", "exp2")
    assert nearest.similarity > 0.5


def test_one_op_more_does_not_hide_what_is_alike(why: Why) -> None:
    body = f"""%0 = math.sqrt %a : {T}
      %1 = math.exp %0 : {T}
      %2 = math.tanh %1 : {T}
      %3 = arith.negf %2 : {T}
      return %3 : {T}"""
    miss = why(ONE, body, "pattern p(x: tensor<m x n x f32>) { negf(exp(sqrt(x))) }")
    assert [(str(p.state), p.text) for p in miss.parts] == [
        ("held", "negf"),
        ("failed", "exp"),
        ("alike", "sqrt"),
        ("open", "x"),
    ]
    assert miss.reason.help == "the program has one op more here: write tanh around this part"


def test_a_failed_condition_is_drawn_with_the_pattern(why: Why) -> None:
    spec = "pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) where n % 64 == 0 { negf(addf(x, y)) }"
    miss = why(TWO, SUM, spec)
    assert [p.state for p in miss.parts] == [State.HELD] * 4 + [State.FAILED]
    assert miss.parts[-1].text == "where n % 64 == 0"


def test_misses_for_one_reason_are_told_once(session: Any) -> None:
    body = f"""%0 = math.tanh %a : {T}
      %1 = math.absf %0 : {T}
      %2 = arith.negf %1 : {T} loc("m.py":1:1)
      %3 = arith.negf %1 : {T} loc("m.py":2:1)
      %4 = arith.addf %2, %3 : {T}
      return %4 : {T}"""
    setting = Setting(session, function(ONE, body), "pattern p(x: tensor<m x n x f32>) { negf(absf(exp(x))) }")
    assert len(setting.found.near_misses) == 2
    (told,) = setting.near_misses()
    assert told.location == "m.py:2:1"


# ---- pointing ------------------------------------------------------------------------------------------------------

CHAIN = f"""%0 = math.tanh %a : {T} loc("lib/m.py":1:1)
  %1 = math.absf %0 : {T} loc("lib/m.py":2:1)
  %2 = arith.negf %1 : {T} loc("lib/m.py":3:1)
  %3 = math.tanh %2 : {T} loc("lib/m.py":4:1)
  return %3 : {T} loc("lib/m.py":5:1)"""
NEGATED = "pattern p(x: tensor<m x n x f32>) { negf(absf(exp(x))) }"


@pytest.mark.parametrize(
    "place", ["lib/m.py:3", "m.py:3", "3", "m.py:3:1", "m.py:3-3", "arith.negf#1", "arith.negf", " 3 "]
)
def test_an_op_by_its_line_or_its_number(session: Any, place: str) -> None:
    (attempt,) = Setting(session, function(ONE, CHAIN), NEGATED).at(place)
    assert (attempt.location, *said(attempt)) == ("lib/m.py:3:1", Kind.OP, "exp", "tanh")


def test_a_part_of_a_larger_pattern_is_told_with_all_of_it(session: Any) -> None:
    (attempt,) = Setting(session, function(ONE, CHAIN), NEGATED).at("math.tanh#1")
    assert (attempt.location, *said(attempt)) == ("lib/m.py:3:1", Kind.OP, "exp", "tanh")


def test_an_op_that_the_pattern_does_not_end_with(session: Any) -> None:
    (attempt,) = Setting(session, function(ONE, CHAIN), NEGATED).at("math.tanh#2")
    assert said(attempt) == (Kind.OP, "negf, which the pattern ends with", "tanh")
    assert attempt.parts[0].state is State.FAILED


def test_an_op_that_only_rearranges(session: Any) -> None:
    body = f"""%0 = math.tanh %a : {T}
      %e = tensor.empty() : tensor<8x4xf32>
      %1 = linalg.transpose ins(%0 : {T}) outs(%e : tensor<8x4xf32>) permutation = [1, 0]
      return %1 : tensor<8x4xf32>"""
    setting = Setting(session, function(ONE, body, "tensor<8x4xf32>"), "pattern p(x: tensor<m x n x f32>) { exp(x) }")
    (attempt,) = setting.at("linalg.transpose#1")
    assert attempt.reason.kind is Kind.VIEW


def test_what_a_match_accounts_for(session: Any) -> None:
    setting = Setting(session, function(ONE, CHAIN), "pattern p(x: tensor<m x n x f32>) { negf(absf(x)) }")
    (match,) = setting.found.matches
    ops = [ops_at(setting.module, parse_place(str(line)))[0] for line in range(1, 5)]
    assert [covers(match, op) for op in ops] == [False, True, True, False]


def test_scalar_code_stands_for_the_op_that_it_is_in(session: Any) -> None:
    from iree.compiler import ir

    text = function(
        TWO,
        f"""%z = arith.constant dense<0.0> : tensor<f32>
      %0 = linalg.reduce {{ arith.addf }} ins(%a : {T}) outs(%z : tensor<f32>) dimensions = [0, 1]
      return %0 : tensor<f32>""",
        "tensor<f32>",
    )
    module = ir.Module.parse(text, context=session.context)
    assert [op.name for op in ops_at(module, parse_place("arith.addf#1"))] == ["linalg.reduce"]


@pytest.mark.parametrize(
    ("place", "wanted", "hint"),
    [
        ("math.tanh#3", "there is no math.tanh#3", "the program has 2 ops called math.tanh"),
        ("math.tahn", "no op called math.tahn", "did you mean math.tanh#1?"),
        ("m.py:3-2", "not a range of lines", "counted from 1"),
        ("zzz.zzz#1", "no op called zzz.zzz", "the program has"),
        ("m.py:99", "there is no op at m.py:99", "2, 3, 4, 5"),
        ("m.py", "m.py is a file", "m.py:12"),
        ("other.py:1", "there is no op at other.py:1", "lib/m.py"),
    ],
)
def test_a_place_that_is_not_there(session: Any, place: str, wanted: str, hint: str | None) -> None:
    from opsplice.common.errors import OpspliceError

    setting = Setting(session, function(ONE, CHAIN), NEGATED)
    with pytest.raises(OpspliceError, match=wanted) as error:
        setting.at(place)
    assert hint is None or hint in (error.value.hint or "")


@pytest.mark.parametrize(
    "place",
    ["", "#", "m.py:", ":", "0", "m.py:0", "x#1", "a.b#0", "a.b#-1", "a b", "9" * 5000, "a.b#" + "9" * 50],
)
def test_a_place_that_makes_no_sense(place: str) -> None:
    from opsplice.common.errors import OpspliceError

    with pytest.raises(OpspliceError, match=r"cannot tell what|there is no op a\.b#|not a range") as error:
        parse_place(place)
    assert len(error.value.message) < 120


@pytest.mark.parametrize(
    ("condition", "once"), [("", True), (" where only(x)", True), (' where lacks("my.mark")', False)]
)
def test_places_that_look_alike_are_tried_once(session, monkeypatch, condition, once) -> None:
    """Unless the pattern asks for what no look at a place tells. Those that are told are the first ones."""
    layer = f"%e{{n}} = math.exp %{{before}} : {T}\n%r{{n}} = arith.addf %e{{n}}, %b : {T}"
    body = "\n".join(layer.format(n=n, before=f"r{n - 1}" if n else "a") for n in range(40))
    spec = f"pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>){condition} {{ addf(exp(tanh(x)), y) }}"
    setting = Setting(session, function(TWO, f"{body}\nreturn %r39 : {T}"), spec)
    searches = []
    monkeypatch.setattr(
        "opsplice.matchers.explain.diagnosis.Search", lambda *args: searches.append(args) or Search(*args)
    )
    attempts = setting.explainer.nearest(setting.module, setting.graphs, setting.found.matches, 3)
    assert (len(searches) < 10) == once
    assert [attempt.op.location.rpartition(":")[0][-2:] for attempt in attempts] == [":5", ":7", ":9"]


# ---- dims that are merged and split ----------------------------------------------------------------------------------

BATCHES = """
  %z = arith.constant 0.0 : f32
  %t = math.tanh %a : tensor<8x3x5xf32>
  %e = tensor.empty() : tensor<8x3x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<8x3x4xf32>) -> tensor<8x3x4xf32>
  %p = linalg.batch_matmul ins(%t, %v : tensor<8x3x5xf32>, tensor<8x5x4xf32>)
    outs(%f : tensor<8x3x4xf32>) -> tensor<8x3x4xf32>
  %r = tensor.expand_shape %p [[0, 1], [2], [3]] output_shape [2, 4, 3, 4] : tensor<8x3x4xf32> into tensor<2x4x3x4xf32>
  return %r : tensor<2x4x3x4xf32>"""


def test_what_is_split_fails_where_the_split_result_does(why: Why) -> None:
    """The product has three dims, but four as the program goes on with it: its rank is not to blame."""
    spec = """pattern p(a: tensor<b x h x s x t x f32>, v: tensor<b x h x t x e x f32>) {
      contract[b h s t, b h t e -> b h s e](exp(a), v)
    }"""
    miss = why("%a: tensor<8x3x5xf32>, %v: tensor<8x5x4xf32>", BATCHES, spec, "tensor<2x4x3x4xf32>")
    assert said(miss) == (Kind.OP, "exp", "tanh")


def test_of_what_is_split_the_rank_is_not_told(session: Any) -> None:
    spec = """pattern p(a: tensor<b x h x s x t x f32>, v: tensor<b x h x t x e x f32>) {
      contract[b h s t, b h t e -> b h s e](exp(tanh(absf(a))), v)
    }"""
    payload = function("%a: tensor<8x3x5xf32>, %v: tensor<8x5x4xf32>", BATCHES, "tensor<2x4x3x4xf32>")
    setting = Setting(session, payload, spec)
    attempts = setting.explainer.nearest(setting.module, setting.graphs, setting.found.matches, 3)
    assert Kind.RANK not in [attempt.reason.kind for attempt in attempts]


def test_a_factor_that_is_inside_of_the_sum(why: Why) -> None:
    """As OPT scales its queries, before these get heads."""
    body = """
    %z = arith.constant 0.0 : f32
    %half = arith.constant dense<0.5> : tensor<2x3x20xf32>
    %q = math.absf %x : tensor<2x3x20xf32>
    %s = arith.mulf %q, %half : tensor<2x3x20xf32>
    %n = tensor.expand_shape %s [[0], [1], [2, 3]] output_shape [2, 3, 4, 5]
      : tensor<2x3x20xf32> into tensor<2x3x4x5xf32>
    %e = tensor.empty() : tensor<2x4x3x5xf32>
    %t = linalg.transpose ins(%n : tensor<2x3x4x5xf32>) outs(%e : tensor<2x4x3x5xf32>) permutation = [0, 2, 1, 3]
    %c = tensor.collapse_shape %t [[0, 1], [2], [3]] : tensor<2x4x3x5xf32> into tensor<8x3x5xf32>
    %o = tensor.empty() : tensor<8x3x4xf32>
    %f = linalg.fill ins(%z : f32) outs(%o : tensor<8x3x4xf32>) -> tensor<8x3x4xf32>
    %p = linalg.batch_matmul ins(%c, %k : tensor<8x3x5xf32>, tensor<8x5x4xf32>)
      outs(%f : tensor<8x3x4xf32>) -> tensor<8x3x4xf32>
    %y = tensor.expand_shape %p [[0, 1], [2], [3]] output_shape [2, 4, 3, 4]
      : tensor<8x3x4xf32> into tensor<2x4x3x4xf32>
    %r = math.exp %y : tensor<2x4x3x4xf32>
    return %r : tensor<2x4x3x4xf32>"""
    spec = """pattern p(q: tensor<b x h x s x d x f32>, k: tensor<b x h x d x t x f32>, scale: f32) {
      exp(mulf(contract[b h s d, b h d t -> b h s t](q, k), scale))
    }"""
    miss = why("%x: tensor<2x3x20xf32>, %k: tensor<8x5x4xf32>", body, spec, "tensor<2x4x3x4xf32>")
    assert said(miss) == (Kind.RANK, "rank 4", "rank 3")
    assert miss.reason.help == (
        "the program multiplies q before it splits its dims and sums: try a pattern without that mulf"
    )


def test_rows_that_come_out_in_another_order(why: Why) -> None:
    body = """
    %e = tensor.empty() : tensor<8x2x4xf32>
    %a = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (j, i, k)>, affine_map<(i, j, k) -> (i, j, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x8x4xf32>) outs(%e : tensor<8x2x4xf32>) {
    ^bb0(%in: f32, %out: f32): %0 = math.absf %in : f32 linalg.yield %0 : f32 } -> tensor<8x2x4xf32>
    %r = math.exp %a : tensor<8x2x4xf32>
    return %r : tensor<8x2x4xf32>"""
    spec = "pattern p(x: tensor<...m x n x f32>) { exp(absf(x)) }"
    miss = why("%x: tensor<2x8x4xf32>", body, spec, "tensor<8x2x4xf32>")
    assert said(miss) == (Kind.DIMS, "x with the dims of ...m as the result has them", "another order of them")
    assert miss.reason.help == "let the pattern end before the program transposes x, or " + LAYOUT


def test_the_type_of_alternatives(why: Why) -> None:
    miss = why(TWO, SUM, "pattern p(x: tensor<m x n x f16>) through cast { addf?(negf(addf(x, x)), x) : f16 }")
    assert miss.reason.help == "write f32 in place of f16, or for both a type variable, <T in {f16, f32}>"


def test_an_input_that_the_program_converts_first(why: Why) -> None:
    body = """%0 = arith.extf %a : tensor<4x8xf16> to tensor<4x8xf32>
      %1 = math.exp %0 : tensor<4x8xf32>
      %2 = math.sqrt %1 : tensor<4x8xf32>
      return %2 : tensor<4x8xf32>"""
    miss = why("%a: tensor<4x8xf16>", body, "pattern p(x: tensor<m x n x f16>) { sqrt(exp(x)) }", "tensor<4x8xf32>")
    assert said(miss) == (Kind.TYPE, "x with element type f16", "element type f32")
    assert miss.reason.help.startswith("write `through cast` behind the pattern's inputs")


def test_heads_behind_the_places(why: Why) -> None:
    """A dense kernel takes them before the places only; a strided one would do."""
    args = ", ".join(f"%{name}: tensor<2x3x4x5xf32>" for name in "qkv")
    body = """%z = arith.constant dense<0.0> : tensor<2x4x5x5xf32>
      %y = arith.constant dense<0.0> : tensor<2x3x4x5xf32>
      %0 = linalg.generic {indexing_maps = [
        affine_map<(b, h, d, e, n) -> (b, n, h, d)>, affine_map<(b, h, d, e, n) -> (b, n, h, e)>,
        affine_map<(b, h, d, e, n) -> (b, h, d, e)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
        ins(%k, %v : tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) outs(%z : tensor<2x4x5x5xf32>) {
      ^bb0(%a: f32, %c: f32, %o: f32):
        %p = arith.mulf %a, %c : f32
        %t = arith.addf %p, %o : f32
        linalg.yield %t : f32
      } -> tensor<2x4x5x5xf32>
      %1 = linalg.generic {indexing_maps = [
        affine_map<(b, m, h, e, d) -> (b, m, h, d)>, affine_map<(b, m, h, e, d) -> (b, h, d, e)>,
        affine_map<(b, m, h, e, d) -> (b, m, h, e)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
        ins(%q, %0 : tensor<2x3x4x5xf32>, tensor<2x4x5x5xf32>) outs(%y : tensor<2x3x4x5xf32>) {
      ^bb0(%a: f32, %c: f32, %o: f32):
        %p = arith.mulf %a, %c : f32
        %t = arith.addf %p, %o : f32
        linalg.yield %t : f32
      } -> tensor<2x3x4x5xf32>
      return %1 : tensor<2x3x4x5xf32>"""
    spec = """pattern p(q: tensor<...b x m x d x f32>, k: tensor<...b x n x d x f32>, v: tensor<...b x n x e x f32>) {
      contract[...b m d, ...b d e -> ...b m e](q, contract[...b n d, ...b n e -> ...b d e](k, v))
    }"""
    miss = why(args, body, spec, "tensor<2x3x4x5xf32>")
    assert said(miss) == (Kind.DIMS, "k with dims ...b n d", "dims ...b n m d")
    assert miss.reason.help == "write the labels as the program has its dims, or " + LAYOUT


def test_the_order_of_the_result_is_to_blame_where_all_but_that_holds(why: Why) -> None:
    body = """%z = arith.constant dense<0.0> : tensor<4x5xf32>
      %p = linalg.matmul ins(%a, %b : tensor<4x3xf32>, tensor<3x5xf32>) outs(%z : tensor<4x5xf32>) -> tensor<4x5xf32>
      return %p : tensor<4x5xf32>"""
    spec = "pattern p(a: tensor<m x k x f32>, b: tensor<k x n x f32>) { contract[m k, k n -> n m](a, b) }"
    miss = why("%a: tensor<4x3xf32>, %b: tensor<3x5xf32>", body, spec, "tensor<4x5xf32>")
    assert said(miss) == (Kind.DIMS, "the dims of the result as n m", "m n")
    assert miss.reason.help == LAYOUT


def test_an_op_that_was_read_as_another_one(why: Why) -> None:
    """`a - b` is `a + -b`: that negation is nowhere in the program, and not what the pattern lacks."""
    body = f"%0 = math.tanh %b : {T}\n%1 = arith.subf %a, %0 : {T}\n%2 = math.exp %1 : {T}\nreturn %2 : {T}"
    spec = "pattern p(x, y: tensor<m x n x f32>, s: f32) { exp(addf(mulf(sqrt(x), s), y)) }"
    miss = why(TWO, body, spec)
    assert said(miss) == (Kind.OP, "addf", "subf")
    assert miss.reason.help == "write subf if the kernel computes that, or addf(...) | subf(...) for either"


def test_dims_that_only_strides_tell(why: Why) -> None:
    """The integers lie the other way round; the program turns and splits what it casts them to."""
    body = """%0 = arith.sitofp %w : tensor<4x8xi8> to tensor<4x8xf32>
      %e = tensor.empty() : tensor<8x4xf32>
      %1 = linalg.transpose ins(%0 : tensor<4x8xf32>) outs(%e : tensor<8x4xf32>) permutation = [1, 0]
      %2 = tensor.expand_shape %1 [[0], [1, 2]] output_shape [8, 2, 2] : tensor<8x4xf32> into tensor<8x2x2xf32>
      %3 = math.exp %2 : tensor<8x2x2xf32>
      return %3 : tensor<8x2x2xf32>"""
    spec = "pattern p(w: tensor<n x g x k x i8>) { exp(sitofp(w) : f32) }"
    miss = why("%w: tensor<4x8xi8>", body, spec, "tensor<8x2x2xf32>")
    assert miss.reason.kind is Kind.RANK
    assert miss.reason.help == f"no tensor holds w row by row in these dims: {LAYOUT}"


def test_a_quotient_that_is_multiplied(why: Why, session: Any) -> None:
    """A pattern's own quotient keeps its place in a product, and what is said leads to a pattern that holds."""
    body = f"""%c = arith.constant dense<6.0> : {T}
      %0 = math.tanh %a : {T}
      %1 = arith.divf %0, %c : {T}
      %2 = arith.mulf %b, %1 : {T}
      return %2 : {T}"""
    spec = "pattern p(x, y: tensor<m x n x f32>) { divf(mulf(y, tanh(x)), 6.0) }"
    advice = "the program divides before it multiplies: write mulf(mulf(x, y), const(1 / 6.0)) for any order"
    assert why(TWO, body, spec).reason.help == advice
    followed = spec.replace("divf(mulf(y, tanh(x)), 6.0)", "mulf(mulf(y, tanh(x)), const(1 / 6.0))")
    assert Setting(session, function(TWO, body), followed).found.matches
    loop = f"""%0 = math.tanh %a : {T}
      %e = tensor.empty() : {T}
      %1 = linalg.generic {{indexing_maps = [{ID}, {ID}], iterator_types = ["parallel", "parallel"]}}
          ins(%0 : {T}) outs(%e : {T}) {{
        ^bb0(%x: f32, %out: f32):
          %six = arith.constant 6.0 : f32
          %q = arith.divf %x, %six : f32
          linalg.yield %q : f32
      }} -> {T}
      %2 = arith.mulf %b, %1 : {T}
      return %2 : {T}"""
    assert why(TWO, loop, spec).reason.help == advice
    alone = body.replace("%2 = arith.mulf %b, %1", "%2 = arith.addf %b, %1")
    assert not why(TWO, alone, spec).reason.help.startswith("the program divides")


def test_a_reduction_of_places_is_named_by_its_word(why: Why) -> None:
    body = """%e = tensor.empty() : tensor<4xf32>
      %f = tensor.empty() : tensor<4xi64>
      %low = arith.constant 0xFF800000 : f32
      %zero = arith.constant 0 : i64
      %v = linalg.fill ins(%low : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
      %p = linalg.fill ins(%zero : i64) outs(%f : tensor<4xi64>) -> tensor<4xi64>
      %0:2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
          affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
          ins(%a : tensor<4x8xf32>) outs(%v, %p : tensor<4xf32>, tensor<4xi64>) {
        ^bb0(%x: f32, %best: f32, %at: i64):
          %i = linalg.index 1 : index
          %here = arith.index_cast %i : index to i64
          %more = arith.cmpf ogt, %x, %best : f32
          %most = arith.select %more, %x, %best : f32
          %place = arith.select %more, %here, %at : i64
          linalg.yield %most, %place : f32, i64
      } -> (tensor<4xf32>, tensor<4xi64>)
      %1 = math.absi %0#1 : tensor<4xi64>
      return %1 : tensor<4xi64>"""
    places = "reduce argmax[m n -> m](x)"
    widened = f"pattern p(x: tensor<m x n x f32>) {{ absi(extsi({places} : i32) : i64) }}"
    assert said(why(ONE, body, widened, "tensor<4xi64>")) == (Kind.OP, "extsi", "a reduction by argmax")
    rounded = "%0 = arith.fptosi %a : tensor<4xf32> to tensor<4xi64>\n%1 = math.absi %0 : tensor<4xi64>"
    pattern = f"pattern p(x: tensor<m x n x f32>) {{ absi({places} : i64) }}"
    miss = why("%a: tensor<4xf32>", f"{rounded}\nreturn %1 : tensor<4xi64>", pattern, "tensor<4xi64>")
    assert said(miss) == (Kind.OP, "a reduction by argmax", "fptosi")
