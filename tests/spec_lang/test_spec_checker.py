"""The checker: right specs pass with the right types, wrong ones get the error that names the mistake."""

from __future__ import annotations

import pytest

from opsplice.spec_lang.checking.checker import Checked, check
from opsplice.spec_lang.loading.loader import load_text
from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.parser import parse
from opsplice.spec_lang.syntax.spec_errors import render

KERNEL = 'kernel k(x: f32[m, n], s: f32, c: i32) -> f32[m, n] { cpu "k.c" }\n'
PATTERN = "pattern p(x: tensor<m x n x f32>, y: tensor<n x f32>) { addf(x, broadcast[n -> m n](y)) }\n"


def checked(text: str) -> Checked:
    return check([parse(text)])


def messages(text: str, severity: str = "error") -> list[str]:
    found = [d for d in checked(text).diagnostics if d.severity == severity]
    return [f"{d.message}; {d.help}" if d.help else d.message for d in found]


def in_pattern(body: str, parameters: str) -> str:
    return f"pattern p({parameters}) {{ {body} }}"


X = "x: tensor<m x n x f32>"


# ---- what is right ---------------------------------------------------------------------------------------------------


def test_everything_at_once_is_free_of_errors():
    text = """
    kernel mul_abs_negate(lhs: f32[n], rhs: f32[n]) -> f32[n] { grid (ceildiv(n, 64)) cpu "functions.c" }
    kernel layernorm<T in {f32, f64}>(x: T[...m, n], gain: T[n], bias: T[n], eps: f32) -> T[...m, n] {
      grid (ceildiv(m, 16)) symbol "layernorm_{T}"
      cpu x86_64 when avx2 and fma "ln_avx2.c" flags "-mavx2 -mfma" cpu "ln.c" as bitcode
    }
    kernel softmax_kernel<T in {f32, f64}>(x: T[...m, n]) -> x { symbol "softmax_{T}" cpu "softmax.c" }
    kernel clamp_kernel(x: f32[...n], low: f32, size: i64) -> f32[...n] { cpu "clamp.c" }
    kernel stats(x: f32[m, n]) -> (mean: f32[m], f32[m]) where n % 8 == 0 { grid (m) cpu "stats.c" }

    pattern neg_abs_mul(lhs: tensor<n x f32>, rhs: tensor<n x f32>) { negf(absf(mulf(lhs, rhs))) }
    pattern softmax<T in {f32, f64}>(x: tensor<...m x n x T>) where n % 4 == 0 and n <= 4096 {
      peak = reduce maximumf[...m n -> ...m](x)
      e = exp(subf(x, broadcast[...m -> ...m n](peak)))
      divf(e, broadcast[...m -> ...m n](reduce addf[...m n -> ...m](e)))
    }
    pattern relu(x: tensor<n x f32>) { maximumf(x, 0.0) }
    pattern both(x: tensor<m x n x f32>) {
      s = reduce addf[mn -> m](x)
      divf(s, n), sqrt(mulf(s, const(1 / n)))
    }
    replace neg_abs_mul with mul_abs_negate(lhs, rhs)
    replace softmax where m >= 2 with softmax_kernel(x) otherwise keep
    replace relu with clamp_kernel(x, 0.0, n)
    replace both with stats(x)
    """
    assert checked(text).diagnostics == ()


@pytest.mark.parametrize(
    ("body", "parameters", "type_"),
    [
        ("mulf(x, 2)", X, "tensor<m x n x f32>"),
        ("mulf(x, s)", f"{X}, s: f32", "tensor<m x n x f32>"),
        ("mulf(x, s)", f"{X}, s: tensor<f32>", "tensor<m x n x f32>"),
        ("exp(s)", "s: f32", "f32"),
        ("cmpf(x, 0.0) {predicate = ugt}", X, "tensor<m x n x i1>"),
        ("cmpf(x, 0.0) {predicate = true}", X, "tensor<m x n x i1>"),
        ("select(cmpf(x, 0.0) {predicate = ugt}, x, 0.0)", X, "tensor<m x n x f32>"),
        ("select(cmpf(x, 0.0) {predicate = ugt}, 1.0, 0.0) : f16", X, "tensor<m x n x f16>"),
        ("truncf(x) : f16", X, "tensor<m x n x f16>"),
        ("sitofp(x) : f32", "x: tensor<n x i8>", "tensor<n x f32>"),
        ("index_cast(x) : i32", "x: tensor<n x index>", "tensor<n x i32>"),
        ("bitcast(x) : i32", X, "tensor<m x n x i32>"),
        ("fpowi(x, 3)", X, "tensor<m x n x f32>"),
        ("addf(x, y)", "x: tensor<? x n x f32>, y: tensor<m x ? x f32>", "tensor<m x n x f32>"),
        ("addf(x, x) : tensor<m x n x f32>", X, "tensor<m x n x f32>"),
        ("reduce addf[mn -> n](x)", X, "tensor<n x f32>"),
        ("reduce arith.maximumf[mn -> ](x)", X, "tensor<f32>"),
        ("reduce addf[...a b -> ...a](x)", X, "tensor<m x f32>"),
        ("transpose[a b -> b a](x)", X, "tensor<n x m x f32>"),
        ("broadcast[a b -> a b m](x)", X, "tensor<m x n x m x f32>"),
        ("broadcast[a b -> z a b](x)", X, "tensor<? x m x n x f32>"),
        ("broadcast[-> mn](s)", f"{X}, s: f32", "tensor<m x n x f32>"),
        ("contract[mk, kn -> mn](x, y)", "x: tensor<4x8xf32>, y: tensor<8 x n x f32>", "tensor<4 x n x f32>"),
        ("take[v n, ...m -> ...m n](x, i)", "x: tensor<9 x n x f16>, i: tensor<...m x i64>", "tensor<...m x n x f16>"),
        ("take[v n, -> n](x, 1)", "x: tensor<v x n x f32>", "tensor<n x f32>"),
        ("stack[n, n -> p n](x, x)", "x: tensor<n x f32>", "tensor<? x n x f32>"),
        ("stack[m n, n m -> n p m](x, y)", "x: tensor<m x n x f32>, y: tensor<n x m x f32>", "tensor<n x ? x m x f32>"),
        ("take[v n, -> n](x, i)", "x: tensor<v x n x f32>, i: i32", "tensor<n x f32>"),
        ("contract[mk, kn -> mn](x, y) : i32", "x: tensor<m x k x i8>, y: tensor<k x n x i8>", "tensor<m x n x i32>"),
        (
            "contract[...b m k, ...b k n -> ...b m n](x, y)",
            "x: tensor<...b x m x k x f32>, y: tensor<...b x k x n x f32>",
            "tensor<...b x m x n x f32>",
        ),
        ('"a.b"(x)', X, "None"),
        ('"a.b"(x) : tensor<m x f16>', X, "tensor<m x f16>"),
        ('addf(x, "a.b"(x))', X, "tensor<m x n x f32>"),
        ('exp("a.b"(x))', X, "None"),
        ('reduce addf[mn -> m]("a.b"(x))', X, "None"),
        ('contract[mk, kn -> mn](x, "a.b"(x))', X, "tensor<m x ? x f32>"),
    ],
)
def test_types(body, parameters, type_):
    found = checked(in_pattern(body, parameters))
    assert [d.message for d in found.diagnostics if d.severity == "error"] == []
    result = found.patterns["p"].results[0]
    assert str(found.types[result]) == type_


@pytest.mark.parametrize("body", ["addf(x, e)", "addf(e, x)", "addf(x, mulf(e, 2.0))"])
def test_a_float_scalar_may_be_of_another_type_through_casts(body):
    text = f"pattern p<T in {{f16, bf16}}>(x: tensor<n x T>, e: f32) through cast {{ {body} }}"
    found = checked(text)
    assert found.diagnostics == ()
    assert str(found.types[found.patterns["p"].results[0]]) == "tensor<n x T>"
    assert messages(text.replace("e: f32", "e: i32"))
    assert messages(text.replace("e: f32", "e: tensor<n x f32>"))


def test_constants_take_the_type_that_they_meet():
    found = checked(in_pattern("c = 0.5  addf(mulf(x, c), addf(x, n))", X))
    constants = {type(e).__name__: str(t) for e, t in found.types.items() if isinstance(e, tree.Constant)}
    assert constants == {"Constant": "f32"}
    assert len([e for e in found.types if isinstance(e, tree.Constant)]) == 2


def test_every_expression_has_a_type():
    pattern = "pattern p(x: tensor<m x n x f32>) { a = exp(mulf(x, 0.5)) a }"
    found = checked(pattern)
    assert {str(t) for t in found.types.values()} == {"f32", "tensor<m x n x f32>"}
    assert len(found.types) == 5


def test_a_used_pattern_is_typed_by_its_arguments():
    text = """
    pattern twice(x: tensor<a x b x f64>) { both(x) }
    pattern both(y: tensor<a x b x f64>) { s, t = sums(y, 2)  addf(s, transpose[ba -> ab](t)) }
    pattern sums<T in {f32, f64}>(z: tensor<...p x q x T>, e: T) {
      mulf(z, e), transpose[a b -> b a]("a.b"(z) : tensor<q x q x T>)
    }
    """
    assert "different shapes" in messages(text)[0]
    text = text.replace("tensor<q x q x T>", "tensor<? x q x T>")
    found = checked(text)
    assert found.diagnostics == ()
    assert str(found.types[found.patterns["twice"].results[0]]) == "tensor<a x b x f64>"


# ---- what is wrong in a pattern --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "parameters", "expected"),
    [
        ("negf(exp(x) | fptosi(x) : i8)", X, "the alternatives differ: exp(x) is tensor<m x n x f32>, fptosi"),
        ("negf(muli(x, x))", X, "muli works on integers, but x is tensor<m x n x f32>; for floats write mulf"),
        ("mulf(x, x)", "x: tensor<n x i32>", "mulf works on floats, but x is tensor<n x i32>; for integers write muli"),
        ("exp(x)", "x: tensor<n x i32>", "exp works on floats"),
        ("addf(x, y)", f"{X}, y: tensor<m x n x f64>", "addf takes one element type, found f32 and f64"),
        ("addf(x, y)", f"{X}, y: f16", "or write `through cast` on the pattern"),
        ("muli(x, y)", "x: tensor<n x i8>, y: tensor<n x i32>", "convert one of them, for example with extsi(x) : i32"),
        ("select(x, x, x)", X, "select works on i1, but x is"),
        ("subf(x, reduce addf[mn -> m](x))", X, "repeat the smaller one: broadcast[m -> m n](reduce addf[mn -> m](x))"),
        ("addf(x, y)", "x: tensor<m x f32>, y: tensor<n x f32>", "x is tensor<m x f32>, y is tensor<n x f32>"),
        ("addf(x, y)", "x: tensor<4xf32>, y: tensor<n x f32>", "different shapes"),
        ("addf(x, y)", "x: tensor<...m x f32>, y: tensor<n x f32>", "different shapes"),
        ("addf(x)", X, "addf takes 2 values, found 1"),
        ("addf(1.0, 2.0)", X, "addf has only constants as operands, so its type is unknown"),
        ("addi(x, 0.5)", "x: tensor<n x i32>", "0.5 is not an integer, and the other operand is of type i32"),
        ("c = 0.5 addi(x, c)", "x: tensor<n x i32>", "0.5 is not an integer"),
        ("cmpf(x, x)", X, "cmpf needs a predicate; write {predicate = ogt}"),
        ("cmpi(x, x) {predicate = ogt}", "x: tensor<n x i8>", "cmpi has no predicate ogt; the predicates of"),
        ("truncf(x)", X, "truncf needs the type that it converts to; write it after the op: truncf(x) : f16"),
        ("truncf(x) : f64", X, "truncf converts to a narrower type, and f32 to f64 is not that"),
        ("extf(x) : i64", X, "extf works on floats, but this is i64"),
        ("index_cast(x) : i32", "x: tensor<n x i8>", "converts to index to an integer or back"),
        ("bitcast(x) : i16", X, "a type of equal width"),
        ("sitofp(x) : f32", "x: tensor<n x index>", "sitofp works on integers, but x is"),
        ("exp(x) : f16", X, "this makes f32, not f16"),
        ("exp(x) : tensor<n x m x f32>", X, "this makes tensor<m x n x f32>, not tensor<n x m x f32>"),
        ("exp(y)", X, "unknown name y"),
        ("exp(inptu)", "input: tensor<n x f32>", "unknown name inptu; did you mean input?"),
        ("a = exp(b) b = exp(x) addf(a, b)", X, "b is bound further down"),
        ("addf(x, nan)", X, "no value equals nan; test with isnan(x)"),
        ("mulff(x, x)", X, "unknown op or pattern mulff; did you mean mulf?"),
        ("gelu_tanh_exact(x)", X, 'any op can be named in quotes: "dialect.gelu_tanh_exact"(...)'),
        ("matmul(x, x)", X, "unknown op or pattern matmul; write contract[m k, k n -> m n](x, y)"),
        ("mul(x, x)", X, "write mulf of floats, muli of integers"),
        ("softmax(x)", X, 'import "opsplice:nn", which has it'),
        ('"gelu"(x)', X, "an op in quotes needs its full name"),
        ("a, b = exp(x) addf(a, b)", X, "2 names are bound to 1 result"),
        ("contract[mk, kn -> mn](x, y)", f"{X}, y: tensor<k x n x f32>", "k would be both n and k"),
        ("contract[mk, kn -> mn](x)", X, "contract takes two operands"),
        ("addf(x, band(1, 2, 0.0, 1.0))", X, "a band has the type of a matrix behind it"),
        ("addf(x, band(1, 2, 0.0) : tensor<m x n x f32>)", X, "band takes 4 or 5 values, found 3"),
        ("addf(x, band(x, 2, 0.0, 1.0) : tensor<m x n x f32>)", X, "and a band takes i32 there"),
        ("addf(x, band(s, 2, 0.0, 1.0) : tensor<m x n x f32>)", f"{X}, s: i64", "s is i64, and a band takes i32 there"),
        ("addi(i, band(1, 2, 0.5, 1) : tensor<m x n x i32>)", "i: tensor<m x n x i32>", "0.5 is not an integer"),
        ("band(1, 2, 0.0, 1.0) : tensor<m x n x f32>", X, "a band alone is no computation"),
        ("take[v n, m -> m n](x, i)", f"{X}, i: tensor<a x f32>", "i is tensor<a x f32>, and indices are integers"),
        ("take[v n, -> n](x, 0.5)", X, "0.5 is not an integer, and indices are"),
        ("stack[m n, m n -> m n](x, x)", X, "stack adds one label, and its operands have all others"),
        ("stack[m n, m n -> m p q](x, x)", X, "stack adds one label, and its operands have all others"),
        ("take[v n, m -> m n](x)", X, "take takes two operands; what is read, and where"),
        ("take[v n, m -> m](x, i)", f"{X}, i: tensor<a x i32>", "the result lacks v n, and 1 value say where"),
        ("take[...v, m -> m](x, i)", f"{X}, i: tensor<a x i32>", "the result lacks ...v, and 1 value say where"),
        ("take[v n, m k -> m n](x, i)", f"{X}, i: tensor<a x b x i32>", "the result lacks k, which i has"),
        ("take[v (2*n), m -> m n](x, i)", f"{X}, i: tensor<a x i32>", "take reads no sums of labels"),
        ("contract[mk, kn -> mn](x, x, x)", X, "the subscripts are for 2 values, found 3"),
        ("contract[mk, kn -> mz](x, y)", f"{X}, y: tensor<n x k x f32>", "label z is in no operand"),
        ("contract[mk, kn -> mn](x, y)", f"{X}, y: tensor<n x k x f16>", "the operands are of types f16 and f32"),
        ("contract[mk, kn -> mn](x, 0.5)", X, "a constant has no dims to label"),
        ("contract[mm, mn -> mn](x, x)", X, "label m appears twice in [m m]"),
        ("contract[...a ...b, mn -> mn](x, x)", X, "there are two packs"),
        ("reduce addf[mnk -> m](x)", X, "[m n k] does not fit x, which is tensor<m x n x f32>: 3 dims wanted"),
        ("reduce subf[mn -> m](x)", X, "subf cannot reduce; the ops that can are addf mulf"),
        ("reduce addi[mn -> m](x)", X, "addi works on integers, but x is tensor<m x n x f32>; for floats write addf"),
        ("reduce addf[mn -> nm](x)", X, "nothing is reduced"),
        ("reduce addf[mn -> m](x)", "x: tensor<...m x n x f32>", "whose rank is open"),
        ("reduce addf[...a b c -> ...a](x)", "x: tensor<...m x n x f32>", "nothing says how many dims ...m has"),
        ("transpose[mn -> m](x)", X, "transpose keeps all labels and adds none"),
        ("broadcast[mn -> m](x)", X, "broadcast must keep every label, but the result lacks n"),
        ("broadcast[mn -> nm](x)", X, "no label is added"),
        ("broadcast[mn -> ...b mn](x)", X, "nothing says how many dims ...b has"),
        ("x", X, "an op must make a result, but this is the parameter x"),
        ("y = x z = y z", X, "an op must make a result, but this is the parameter x"),
        ("c = 1.0 c", X, "an op must make a result, but this is a constant"),
        ("m = exp(x) negf(m)", X, "m has the name of a dim"),
        ("x = exp(x) negf(x)", X, "x is bound twice"),
        ("y = exp(x) y = negf(y) y", X, "y is bound twice"),
        ("exp(x)", "x: tensor<...m x ...n x f32>", "a type has one pack at most"),
        ("exp(x)", "x: tensor<...m x m x f32>", "m is both one dim and a pack of dims"),
        ("exp(x)", "x: tensor<x x f32>", "dim x has the name of something else"),
        ('"a.b"(x) {c = [0, ?y]}', f"{X}, y: i64", "y is bound to an integer, which is an index"),
        ("exp(x)", "x: tensor<0xf32>", "a size is at least 1"),
        ("exp(x)", "x: tensor<9223372036854775808xf32>", "less than 2 to the power of 63"),
        ("exp(x)", "x: tensor<n x float>", "unknown element type float; did you mean f32?"),
        ("exp(x)", "x: tensor<n x T>", "a type variable is declared after the name: <T>"),
        ("exp(x)", "x: tensor<nx4xf32>", "write dims apart: tensor<n x 4 x f32>"),
        ("addf(x, y)", f"{X}, {X}, y: tensor<m x n x f32>", "x is declared twice"),
        ('"a.b"(x) : tensor<k x f32>', X, "no parameter has a dim k"),
        ("mulf(x, const(1 / k))", X, "unknown dim k; the dims here are m n"),
        ("mulf(x, const(0.8..0.7))", X, "this range is empty; write const(0.7..0.8)"),
        ("mulf(x, const(n / 0))", X, "this divides by zero"),
    ],
)  # fmt: skip
def test_pattern_errors(body, parameters, expected):
    found = messages(in_pattern(body, parameters))
    assert len(found) == 1, found
    assert expected in found[0]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("k == 1", "unknown dim k; the dims here are m n"),
        ("m % 2.5 == 1", "dims are whole numbers"),
        ("m / 2 == 1", "dims are whole numbers, and / may give a fraction; write ceildiv or floordiv"),
        ("not (m % 0 == 1 or n > 1)", "this divides by zero"),
        ("1 == 1", "this condition names no dim"),
        ("dynamic(1)", "this condition names no dim"),
        ("not dynamic(k)", "unknown dim k; the dims here are m n"),
        ("may(k > 1)", "unknown dim k; the dims here are m n"),
        (
            'may(n > 1 and lacks("a"))',
            "may asks about sizes, and this is no question of sizes; ask it outside of `may`",
        ),
        ("rank(m) == 1", "rank counts the dims of a pack, but m is not a pack; write ...m in a type"),
    ],
)
def test_condition_errors(condition, expected):
    for text in (
        f"pattern p({X}) where {condition} {{ exp(x) }}",
        f'kernel k(x: f32[m, n]) -> x where {condition} {{ cpu "k.c" }}',
        KERNEL + f"pattern p({X}) {{ exp(x) }} replace p where {condition} with k(x, 1.0, m)",
    ):
        (found,) = messages(text)
        assert expected in found


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x is (y)", "write an op or a pattern that makes the value, or alternatives of these"),
        ("x is (exp(_) | 1.0)", "write an op or a pattern that makes the value, or alternatives of these"),
        ("x is (negf?(y))", "write an op or a pattern that makes the value, or alternatives of these"),
        ("x is exp(only(_))", "only asks about parts of a match, and what makes a value is not part"),
    ],
)
def test_what_cannot_be_asked_of_what_makes_a_value(condition, expected):
    (found,) = messages(f"pattern p({X}, y: tensor<m x n x f32>) where {condition} {{ addf(exp(x), y) }}")
    assert expected in found


def test_type_variables():
    assert messages("pattern p<T>(x: tensor<n x T>) { exp(x) }") == []
    (found,) = messages("pattern p<T in {f32, i32}>(x: tensor<n x T>) { exp(x) }")
    assert "exp works on floats, but x is tensor<n x T>" in found
    (found,) = messages("pattern p<f32>(x: tensor<n x f32>) { exp(x) }")
    assert "f32 is an element type and cannot name a variable" in found
    (found,) = messages("pattern p<T in {f32, f32}>(x: tensor<n x T>) { exp(x) }")
    assert "f32 appears twice" in found
    (found,) = messages("pattern p<T in {f32, fp16}>(x: tensor<n x T>) { exp(x) }")
    assert "unknown element type fp16; did you mean f16?" in found


def test_recursion_is_found_once_for_each_circle():
    text = """
    pattern a(x: tensor<n x f32>) { b(x) }
    pattern b(x: tensor<n x f32>) { c(x) }
    pattern c(x: tensor<n x f32>) { a(x) }
    pattern d(x: tensor<n x f32>) { negf(d(a(x))) }
    pattern fine(x: tensor<n x f32>) { negf(d(x)) }
    """
    assert messages(text) == [
        "patterns cannot be recursive: a uses b uses c uses a",
        "patterns cannot be recursive: d uses itself",
    ]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("q(x)", "q takes 2 values (a, e), found 1"),
        (
            "s(y)",
            "s takes 3 values (a, e, i), found 1; pass 1.0, 0 for what needs no other, or let this "
            "pattern have e: f32 = 1.0, i: i32 = 0, too, and pass them on",
        ),
        ("q(y, x)", "x is tensor<m x n x f32>, which does not fit e: f32: 0 dims wanted, found 2 dims"),
        ("q(1.0, 1.0)", "q takes a tensor<k x f32> as a, not a constant"),
        ("negf(r(y))", "r has 2 results; bind them all: r0, r1 = r(...)"),
        ("q(y, 0.5) {n = 1}", "a pattern takes no attributes"),
    ],
)
def test_errors_in_using_a_pattern(call, expected):
    text = f"""
    pattern q(a: tensor<k x f32>, e: f32) {{ mulf(a, e) }}
    pattern r(a: tensor<k x f32>) {{ exp(a), negf(a) }}
    pattern s(a: tensor<k x f32>, e: f32 = 1.0, i: i32 = 0) {{ mulf?(absf(a), e) | negf(a) with i = 1 }}
    pattern p(x: tensor<m x n x f32>, y: tensor<m x f32>) {{ {call} }}
    """
    (found,) = messages(text)
    assert expected in found


def test_warnings():
    text = """
    pattern p(x: tensor<n x f32>, y: tensor<n x f32>, _z: f32) { a = exp(x) b = exp(y) c = exp(b) _d = exp(x) negf(a) }
    """
    assert messages(text) == []
    assert [m.partition(";")[0] for m in messages(text, "warning")] == [
        "no result of p needs y",
        "no result of p needs b",
        "no result of p needs c",
    ]


# ---- what is wrong in a kernel ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k(x: f32[n]) -> x {}", 'kernel k has no code; name its file: cpu "k.c"'),
        ('k(x: f32[n]) -> x { cqu "k.c" }', "unknown backend cqu; did you mean cpu?"),
        ('k(x: f32[n]) -> x { grid (n, n, n, n) cpu "k.c" }', "a grid has 3 dims at most, found 4"),
        ('k(x: f32[n]) -> x { grid (n, 0) cpu "k.c" }', "a grid of 0 workgroups runs nothing"),
        (
            'k(x: f32[n]) -> x { grid (n) vulkan when subgroup "k.comp" }',
            "subgroup is a number, and is compared; write such as `subgroup >= 32`",
        ),
        ('k(x: f32[n]) -> x { grid (k) cpu "k.c" }', "unknown dim k"),
        ('k(x: f32[n]) -> x { grid (n / 2) cpu "k.c" }', "write ceildiv or floordiv"),
        ('k(x: f32[n]) -> f32[...m] { cpu "k.c" }', "no buffer has a pack m"),
        ('k(x: f32[n]) -> f32 { cpu "k.c" }', "f32[] for a single value"),
        ('k(x: f32[n]) -> y { cpu "k.c" }', "unknown parameter y"),
        ('k(x: f32[n], s: f32) -> s { cpu "k.c" }', "s is a scalar and cannot be overwritten"),
        ('k(x: f32[n]) -> (x, x) { cpu "k.c" }', "x is overwritten by two results"),
        ('k(x: f32[n]) -> x: f32[n] { cpu "k.c" }', "x is declared twice; give the result a name of its own"),
        ('k(out: f32[n]) -> f32[n] { cpu "k.c" }', "out is declared twice"),
        ('k(x: f32[n], x: f32[n]) -> x { cpu "k.c" }', "x is declared twice"),
        ('k(x: f32[?]) -> x { cpu "k.c" }', "each dim has a name or a size"),
        ('k(x: index[n]) -> x { cpu "k.c" }', "kernels take no index"),
        ('k(x: f8E4M3FN[n]) -> x { cpu "k.c" }', "kernels take no f8E4M3FN"),
        ('k<T in {f32, i4}>(x: T[n]) -> x { symbol "k_{T}" cpu "k.c" }', "kernels take no i4"),
        ('k(x: i4[n]) -> i4[n] { cpu "k.c" }', "kernels take no i4"),
        ('k(x: i4[n]) -> x { cpu "k.c" }', "a buffer of i4 is not overwritten; make a result of its own"),
        ('k(x: i4[n] strided) -> i8[n] { cpu "k.c" }', "i4 is for dense buffers, of two numbers a byte; take it as i8"),
        ('k(x: i4, y: i8[n]) -> i8[n] { cpu "k.c" }', "i4 is for dense buffers, of two numbers a byte; take it as i8"),
        ('k(x: i4[n]) -> i8[n] { cpu "k.c" as provided }', "`as provided` takes a buffer of i4; take it as i8"),
        ('k(x: i4[n]) -> i8[n] { cpu "k.py" as command }', "`as command` takes a buffer of i4; take it as i8"),
        ('k(n: i32, x: f32[n]) -> x { cpu "k.c" }', "dim n has the name of something else"),
        ('k(x: f32[...n, ...m]) -> x { cpu "k.c" }', "one pack at most"),
        ('k(x: f32[n]) -> x { symbol "k_{T}" cpu "k.c" }', "the symbol of k has an unknown {T}"),
        (
            'k(x: f32[...b, n] strided) -> f32[n] { grid (n) cpu "k.c" }',
            "no dim of the grid is b, a pack of a strided buffer; make it a dim of the grid, grid (b)",
        ),
        (
            'k(x: f32[n], y: f32[m] optional) -> x { cpu "k.c" }',
            "nothing says how large m is where this buffer is left",
        ),
        ('k(x: f32[n], y: f32[n] optional) -> x { cuda "k.vmfb" as command }', "IREE's takes optional buffers"),
        ('k(x: f32[n], y: f32[n] optional) -> y { cpu "k.c" }', "y is optional and cannot be overwritten"),
        ('k(x: f32[n], y: f32[n]) -> f32[n] optional { cpu "k.c" }', "a result is always there"),
        ('k(x: f32[n]) -> f32[n] finite { cpu "k.c" }', "only what a kernel takes is to be finite"),
        ('k(x: i32[n] finite) -> f32[n] { cpu "k.c" }', "whole numbers are always finite"),
        ('k(x: f32[n], y: f32 = 1.0) -> x { cpu "k.c" }', "only scalars of patterns have defaults"),
        ('k(x: f32[n] strided) -> x { cpu "k.c" }', "x is strided and cannot be overwritten"),
        ('k(x: f32[n] copied) -> x { cpu "k.c" }', "x is copied and cannot be overwritten"),
        ('k(x: f32[m, n] as [n, m]) -> x { cpu "k.c" }', "x has an order of its own and cannot be overwritten"),
        ('k(x: f32[m, n] as [n, k]) -> f32[n] { cpu "k.c" }', "`as` takes the buffer's dims, each once: m, n"),
        ('k(x: f32[m, n] as [n]) -> f32[n] { cpu "k.c" }', "`as` takes the buffer's dims, each once: m, n"),
        ('k(x: f32[m, 4, 4] as [4, 4, m]) -> f32[m] { cpu "k.c" }', "`as` takes the buffer's dims, each once: m, 4, 4"),
        ('k(x: f32[m, n] as [n, m] strided) -> f32[n] { cpu "k.c" }', "that is strided has no order of its own"),
        ('k(x: f32[m, n]) -> f32[m, n] as [n, m] zeroed { cpu "k.c" }', "that is zeroed has no order of its own"),
        (
            'k(x: f32[n] strided, y: f32[n] optional) -> f32[n] { cpu "k.c" as provided }',
            "`as provided` takes optional buffers",
        ),
        ('k(x: f32[n]) -> f32[n] strided { cpu "k.vmfb" as command }', "a module of IREE's takes strided"),
        ('k(x: f32[n]) -> f32[n] strided { cpu "k.vmfb" as recorded }', "`as recorded` takes strided buffers"),
        ('k(x: f32[n]) -> f32[n] where stride(x, n) == 1 { cpu "k.c" }', "unknown strided buffer x"),
        ('k(x: f32[n] strided) -> f32[n] where stride(x, m) == 1 { cpu "k.c" }', "unknown dim of x m"),
        (
            'k(x: f32[n] strided) -> y: f32[n] strided where stride(x, n) == stride(y, n) { cpu "k.c" }',
            "a condition is on the strides of one buffer",
        ),
        (
            'k(x: f32[n] strided) -> y: f32[n] strided where stride(x, n) == 1 or stride(y, n) == 1 { cpu "k.c" }',
            "a condition is on the strides of one buffer",
        ),
        (
            'k(x: f32[n]) -> x { vulkan "k.comp" shared 64 }',
            "the code says how much memory a workgroup shares on vulkan",
        ),
        (
            'k(x: f32[n]) -> x { rocm "k.hip" shared 64 }',
            "the code says how much memory a workgroup shares on rocm",
        ),
        ('k(x: f32[n]) -> x { cpu "k.c" threads 64 }', "a workgroup has threads on GPUs"),
        ('k(x: f32[n]) -> x { cuda "k.cu" threads 2048 }', "1024 threads at most, found 2048"),
        ('k(x: f32[n]) -> x { cpu "k.c" takes "n, x" }', "parameters in an order of their own are for cuda"),
        ('k(x: f32[n]) -> x { cuda "k.cu" links "lib.a" }', "archives are linked with objects for CPUs"),
        ('k(x: f32[n]) -> x { cpu "k.c" as bitcode links "lib.a" }', "and this clause is `as bitcode`"),
        ('k(x: f32[n]) -> x { symbol "k k" cpu "k.c" }', '"k k" is not a symbol that code can define'),
    ],
)
def test_kernel_errors(text, expected):
    (found,) = messages(f"kernel {text}")
    assert expected in found


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("when weight(x) with k(x, 1.0, m)", "`when` compares dims, which a program can do as it runs"),
        ("when dynamic(n) with k(x, 1.0, m)", "`when` compares dims, which a program can do as it runs"),
        ("when may(n > 1) with k(x, 1.0, m)", "`when` compares dims, which a program can do as it runs"),
        ("where has(x) with k(x, 1.0, m)", "each match has x, so this always holds"),
        ("where has(z) with k(x, 1.0, m)", "unknown value z"),
        ("when n < 4 and rank(m) == 1 with k(x, 1.0, m)", "rank counts the dims of a pack"),
        ("when n < 4 and x is exp(_) with k(x, 1.0, m)", "only the condition of a pattern can ask what makes a value"),
        ("when q == 1 with k(x, 1.0, m)", "unknown dim q; the dims here are m n"),
        ("when n == 1 with p(x)", "`when` chooses a kernel, and this rule calls none; ask this in `where`"),
        ("when n == 1 with mlir { yield %x }", "`when` chooses a kernel, and this rule calls none"),
    ],
)
def test_what_cannot_be_asked_at_run_time(rule, expected):
    found = messages(KERNEL + f"pattern p({X}) {{ exp(x) }} replace p {rule}")
    assert expected in found[0]


def test_only_a_rule_asks_what_a_match_has():
    (found,) = messages(f"pattern p({X}) where has(x) {{ exp(x) }}")
    assert "only the condition of a rule can ask what a match has" in found
    assert "replace ... where has(x) with" in found


def test_a_scalar_that_may_be_left_out_has_a_default():
    kernel = 'kernel k(x: f32[n], y: f32[n]{}, s: f32) -> f32[n] {{ cpu "k.c" }}\n'
    pattern = "pattern p(x: tensor<n x f32>, y: tensor<n x f32>, s: f32{}) {{ negf(mulf?(addf?(x, y), s)) }}\n"
    rule = "replace p with k(x, y, s)"
    assert messages(kernel.format(" optional") + pattern.format(" = 1.0") + rule) == []
    assert messages(kernel.format("") + pattern.format(" = 1.0") + rule) == []  # holds where the match has y
    (found,) = messages(kernel.format("") + pattern.format("") + rule)
    assert "not every match says what s is" in found
    assert "give it a default, s: f32 = 1.0" in found


def test_an_alternative_says_what_a_scalar_is():
    kernel = 'kernel k(x: f32[n], i: i32) -> f32[n] { cpu "k.c" }\n'
    pattern = "pattern p(x: tensor<n x f32>, i: i32{}, s: f32 = 0.5) {{ sin(x) {} | exp(x) with i = 1 }}\n"
    rule = "replace p where i < 2 and n > i with k(x, i)"
    assert messages(kernel + pattern.format(" = 0", "") + rule) == []
    assert messages(kernel + pattern.format("", "with i = 0 with s = 1") + rule) == []
    assert "not every match says what i is" in messages(kernel + pattern.format("", "") + rule)[0]
    assert "default, i: i32 = 0" in messages(kernel + pattern.format("", "") + rule)[0]
    inside = kernel + pattern.format(" = 0", "").replace("{ sin", "where i < 2 { sin")
    assert "unknown dim i" in messages(inside)[0]  # what holds has set it


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("absf(x) with i = 1.5", "1.5 is not an integer, and i: i8 is"),
        ("absf(x) with i = 300", "i: i8 cannot hold 300"),
        ("absf(x) with j = 1", "unknown name j"),
        ("absf(x) with x = 1", "an alternative says what a scalar is, and x is none; declare it as a parameter"),
        ("y = absf(x) negf(y) with y = 1", "an alternative says what a scalar is, and y is none"),
        ("absf(x) with t = 1", "an alternative says what a scalar is, and t is none"),
        ("absf(x) | x with i = 1", "an op must make a result, but this is the parameter x"),
    ],
)
def test_what_an_alternative_cannot_set(body, expected):
    spec = "pattern q<T>(x: tensor<n x f32>, i: i8 = 0, t: T = 1) {{ {} }}"
    assert any(expected in message for message in messages(spec.format(body)))


def test_strided_buffers_are_fine():
    text = 'kernel k(strided: f32[...b, m, 3] strided, y: f32[m]) -> f32[...b, m] strided { grid (m, b) cpu "k.c" }'
    assert messages(text) == []
    assert messages('kernel k(copied: f32[...b, m] copied) -> f32[m, ...b] copied { cuda "k.ptx" }') == []
    assert messages('kernel k(x: f32[m, 4] as [4, m] copied) -> f32[...b, m] as [m, ...b] { cuda "k.ptx" }') == [
        "no buffer has a pack b; a result's packs are those of the kernel's buffers"
    ]


def test_what_every_match_of_a_pattern_has():
    """Neither what patterns that it uses may lack, nor a number that an alternative of these says."""
    spec = load_text("""
    pattern inner(a: tensor<n x f32>, b: tensor<n x f32>, s: f32, i: i32) {
      mulf(addf?(a, b), s) with i = 1 | mulf(a, s) with i = 2
    }
    pattern outer(x: tensor<n x f32>, y: tensor<n x f32>, t: f32, which: i32) { negf(inner(x, y, t, which)) }
    """)
    assert spec.given == {"inner": {"a", "s"}, "outer": {"x", "t"}}


def test_an_index_scalar_is_fine():
    assert messages('kernel k(x: f32[n], i: index) -> x { cpu "k.c" }') == []


def test_one_symbol_for_several_types_is_a_warning():
    (found,) = messages('kernel k<T in {f32, f64}>(x: T[n]) -> x { cpu "k.c" }', "warning")
    assert 'name one for each type: symbol "k_{T}"' in found


# ---- functions on elements -------------------------------------------------------------------------------------------

ELEMENTS = 'kernel f(x: f32, y: f32, k: i32) -> f32 { cpu "f.c" cuda "f.ll" vulkan "f.mlir" }\n'


def test_a_function_on_elements_is_fine():
    text = """
    kernel f<T in {f32, f64}>(x: T, k: i64) -> T where bits(T) <= 64 {
      symbol "f_{T}"
      cpu aarch64 when sve "f.c" flags "-O2" cuda sm_80 "f.ll" rocm "f.bc" vulkan "f.mlir" metal "f.mlir"
    }
    kernel g(x: f32, y: f32) -> f32 { cpu "g.c" as bitcode }
    pattern p<T>(x: tensor<...m x n x T>, y: tensor<n x T>) { addf(x, broadcast[n -> ...m n](y)) }
    pattern q(x: tensor<...m x f32>, y: f32) { addf(x, y) }
    replace p at start with f(x, n) otherwise keep
    replace q with g(x, y)
    """
    assert messages(text) == []
    (kernel, _) = checked(text).kernels.values()
    assert kernel.is_scalar
    assert isinstance(kernel.results[0].type, tree.ScalarType)


def test_a_parameter_that_is_called_like_a_type_is_overwritten():
    (kernel,) = checked('kernel f(f32: f32[n]) -> f32 { cpu "f.c" }').kernels.values()
    assert kernel.results[0].alias == "f32"
    assert not kernel.is_scalar


@pytest.mark.parametrize(("count", "found"), [(31, False), (32, True)])
def test_more_buffers_than_a_dispatch_takes(count, found):
    parameters = ", ".join(f"x{i}: f32[n]" for i in range(count))
    texts = messages(f'kernel k({parameters}) -> f32[n] {{ cpu "k.c" }}')
    wanted = "kernel k has 33 buffers, and a dispatch takes 32; pass several tensors as one"
    assert [text.endswith(wanted) for text in texts] == [True] * found
    assert not messages(f'kernel k({parameters}) -> f32[n] {{ cpu "k.py" as command }}')
    assert not messages(f'kernel k({parameters}) -> x0 {{ cpu "k.c" }}')


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ('vulkan when subgroups >= 32 "k.comp"', "a device has no number subgroups; did you mean subgroup?"),
        ('vulkan when width == 4 "k.comp"', "a device has no number width; there are subgroup threads memory"),
        ('cpu when threads >= 32 "k.c"', "threads is a number of GPUs, and this clause is for cpu"),
    ],
)
def test_errors_in_numbers_of_devices(clause, expected):
    (message,) = messages(f"kernel k(x: f32[n]) -> f32[n] {{ {clause} }}")
    assert message.endswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('f(x: f32, y: f32[n]) -> f32 { cpu "f.c" }', "f takes a buffer, so it is not a function on elements"),
        ('f(x: f32) -> (f32, f32) { cpu "f.c" }', "a function on elements has one result"),
        ('f() -> f32 { cpu "f.c" }', "f takes no element; such as x: f32"),
        ('f(x: f32) -> f32 { grid (4) cpu "f.c" }', "a function on elements has no grid"),
        ('f(x: f32) -> f32 where n > 4 { cpu "f.c" }', "unknown dim n"),
        ('f(x: f32) -> f32 { spirv "f.spv" }', "a function on elements has no code for spirv"),
        ('f(x: f32) -> f32 { vulcan "f.mlir" }', "unknown backend vulcan; did you mean vulkan?"),
        (
            'f(x: f32) -> f32 { cuda "f.ll" flags "-O3" }',
            "features, flags and forms but `as plugin` are said of code for cpu alone",
        ),
        (
            'f(x: f32) -> f32 { cuda when subgroup > 8 "f.ll" }',
            "features, flags and forms but `as plugin` are said of code for cpu alone",
        ),
        ('f(x: f32, i: index) -> f32 { cpu "f.c" }', "no element is an index; write i64"),
        ('f(x: f32) -> index { cpu "f.c" }', "no element is an index; write i64"),
        ('f(x: f32) -> i4 { cpu "f.c" }', "kernels take no i4"),
        ('f<T>(x: f32) -> T { cpu "f.c" }', "no parameter says what T is"),
    ],
)
def test_errors_in_functions_on_elements(text, expected):
    found = messages(f"kernel {text}")
    assert any(expected in message for message in found)
    assert len(found) <= 2


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("replace p with f(x, y, 1)", "y is tensor<n x f32>, and p is tensor<m x n x f32>"),
        ("replace p with f(x, 1.0)", "f takes 3 arguments, found 2"),
        ("replace p with f(x, x, 1.5)", "1.5 is not an integer, and k: i32 is"),
        ("replace p with f(x, 1e39, 1)", "y: f32 cannot hold 1e+39"),
        ("replace p with f(x, n, 1)", "n is a dim, and y: f32 is not an integer"),
        ("replace p with f(1.0, 2.0, n)", "f is given no value of the program"),
        ("replace p with f(x, z, 1)", "the pattern has no z"),
        ("replace p at flow with f(x, x, 1)", "a function on elements cannot be put in at flow"),
        ("replace i with f(x, x, 1)", "x: tensor<m x i32> does not fit x: f32: f32 is wanted, found i32"),
        ("replace c with f(x, x, 1)", "f makes f32 here, and c is tensor<m x f16>"),
        ("replace u with f(x, x, 1)", "their dims named"),
        ("replace r with f(x, x, 1)", "x is tensor<m x n x f32>, and r is tensor<m x f32>"),
    ],
)
def test_errors_in_rules_with_functions_on_elements(rule, expected):
    patterns = """
    pattern i(x: tensor<m x i32>) { addi(x, x) }
    pattern c(x: tensor<m x f32>) { truncf(x) : f16 }
    pattern u(x: tensor<? x f32>) { mulf(x, x) }
    pattern r(x: tensor<m x n x f32>) { reduce addf[mn -> m](x) }
    """
    found = messages(ELEMENTS + PATTERN + patterns + rule)
    assert any(expected in message for message in found), found


def test_builds_stand_for_several_clauses():
    text = """
    builds vectors { cpu x86_64 when avx2 file flags "-mavx2" cpu file as bitcode }
    kernel k(x: f32[n]) -> f32[n] { vectors "k.c" as object flags "-DN" vulkan "k.comp" vectors "l.c" }
    """
    clauses = checked(text).kernels["k"].artifacts
    assert not messages(text)
    assert [(c.backend, c.arch, c.features, c.path, c.form, c.flags) for c in clauses] == [
        ("cpu", "x86_64", ("avx2",), "k.c", "object", "-mavx2 -DN"),
        ("cpu", None, (), "k.c", "object", "-DN"),
        ("vulkan", None, (), "k.comp", None, None),
        ("cpu", "x86_64", ("avx2",), "l.c", None, "-mavx2"),
        ("cpu", None, (), "l.c", "bitcode", None),
    ]
    assert {c.span.written for c in clauses} == {
        'vectors "k.c" as object flags "-DN"', 'vulkan "k.comp"', 'vectors "l.c"'
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("builds cpu { cpu file }", "cpu is the name of a backend"),
        ("builds v { cpu file } builds v { cpu file }", "v is declared twice"),
        ("builds v { cpi file }", "unknown backend cpi; did you mean cpu?"),
        ('builds wide { cpu file } kernel k(x: f32[n]) -> f32[n] { wild "k.c" }', "did you mean wide?"),
        ('builds v { cpu file } kernel k(x: f32[n]) -> f32[n] { v x86_64 "k.c" }', "unknown backend v"),
    ],
)
def test_errors_in_builds(text, expected):
    assert any(expected in message for message in messages(text)), messages(text)


MORE = """
kernel two(x: f32[m, n]) -> (f32[m, n], f32[m]) { cpu "k.c" }
kernel half(x: f32[m, n]) -> f32[floordiv(m, 2), n] { cpu "k.c" }
kernel open(x: f32[m, n]) -> f32[m, o] { cpu "k.c" }
kernel turned(x: f32[m, n]) -> f32[m, n] as [n, m] { cpu "k.c" }
"""

# ---- what is wrong in a rule -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("replace q with k(x, 1.0, m)", "unknown pattern q"),
        ("replace k with k(x, 1.0, m)", "that is a kernel"),
        ("replace p with kk(x, 1.0, m)", "unknown kernel or pattern kk; did you mean k?"),
        ("replace p with k(x)", "k takes 3 arguments, found 1"),
        ("replace p with k(y, 1.0, m)", "y: tensor<n x f32> does not fit x: f32[m, n]: 2 dims wanted, found 1 dim"),
        ("replace p with k(1.0, 1.0, m)", "1.0 is a number, and x: f32[m, n] is a buffer"),
        ("replace p with k(m, 1.0, m)", "m is a dim, and x: f32[m, n] is a buffer"),
        ("replace p with k(z, 1.0, m)", "the pattern has no z"),
        ("replace p with k(x, m, m)", "m is a dim, and s: f32 is not an integer"),
        ("replace p with k(x, x, m)", "x is a tensor, and s: f32 is a scalar"),
        ("replace p with k(x, 1, 1.5)", "1.5 is not an integer, and c: i32 is"),
        ("replace p with k(x, 1, 99999999999)", "c: i32 cannot hold 99999999999"),
        ("replace p with k(x, 1e39, 1)", "s: f32 cannot hold 1e+39"),
        ("replace p with k(x, -1e-46, 1)", "s: f32 cannot hold -1e-46"),
        ("replace p with k(negf(y), 1, 1)", "this is tensor<n x f32>, which does not fit x: f32[m, n]: 2 dims wanted"),
        (
            "replace p with k(pack[m n -> (n / 8) m 8](x), 1, 1)",
            "this is tensor<(n / 8) x m x 8 x f32>, which does not",
        ),
        ("replace p with k(pack[m n -> (o / 8) m 8](x), 1, 1)", "pack keeps all labels and adds none"),
        ("replace p with k(mulf(x, const(1 / o)), 1, 1)", "unknown dim o"),
        ("replace p with k(mulf(x, z), 1, 1)", "unknown name z"),
        ("replace p with k(mulf?(x, x), 1, 1)", "an argument is computed in one way"),
        ("replace p with k(addf(x, _), 1, 1)", "an argument is computed in one way"),
        ("replace p with k(negf(x) | 1.0, 1, 1)", "1.0 is a number, and x: f32[m, n] is a buffer"),
        ("replace p with k(x | negf(y), 1, 1)", "this is tensor<n x f32>, which does not fit x: f32[m, n]: 2 dims"),
        ("replace p with k(x, reduce addf[m n -> ](x), 1)", "only tensors are computed for a kernel, into buffers"),
        ("replace p at flow with k(negf(x), 1, 1)", "arguments are computed at global-optimization or before"),
        ("replace p with p(negf(x), y)", "a pattern is given inputs and numbers; compute this inside of p"),
        ('replace p with k("dialect.op"(x), 1, 1)', "nothing says which type this has"),
        ("replace p with k(k(x, 1), 1, 1)", "k takes 3 arguments, found 2"),
        ("replace p with k(k(y, 1, 1), 1, 1)", "y: tensor<n x f32> does not fit x: f32[m, n]: 2 dims wanted"),
        ("replace p with k(x, k(x, 1, 1), 1)", "only tensors are computed for a kernel, into buffers"),
        ("replace p with k(k(x, 1, 1.5), 1, 1)", "1.5 is not an integer, and c: i32 is"),
        (f"{MORE} replace p with k(turned(x), 1, 1)", "what another kernel is given has its dims in their order"),
        (f"{MORE} replace p with k(two(x), 1, 1)", "a kernel makes one buffer for another kernel; two makes others"),
        (f"{MORE} replace p with k(half(x), 1, 1)", "k makes tensor<floordiv(m, 2) x n x f32> here, and p is"),
        (f"{MORE} replace p with k(open(x), 1, 1)", "no argument of open says how large o is"),
        ('kernel g(x: f32[m * 2]) -> f32[m] { cpu "k.c" }', "only the sizes of results are computed"),
        ('kernel g(x: f32[m]) -> f32[m * o] { cpu "k.c" }', "unknown dim o"),
        ('kernel g(x: f32[m]) -> f32[m / 2] { cpu "k.c" }', "dims are whole numbers, and / may give a fraction"),
        ("replace p where z > 1 with k(x, 1, 1)", "unknown dim z"),
        ("replace p where m > 9223372036854775808 with k(x, 1, 1)", "no dim is this large"),
        ("annotate p with {my.axis = 9223372036854775808}", "is an i64, which cannot hold this"),
        ("annotate p with {my.axes = [1, 9223372036854775808]}", "is an i64, which cannot hold this"),
    ],
)
def test_rule_errors(rule, expected):
    (found,) = messages(KERNEL + PATTERN + rule)
    assert expected in found


@pytest.mark.parametrize(
    ("signature", "number", "expected"),
    [
        ("k(x: f32[n], s: T) -> f32[n]", "0.5", "nothing says which type s: T is"),
        ("k(x: f32[n], s: T) -> T[n]", "0.5", ""),  # the result says it
        ("k(x: f32[n], s: T) -> T[n]", "1e39", "s: f32 cannot hold 1e+39"),
        ("k(x: T[n], s: T) -> T[n]", "3.4028235e38", ""),  # the largest, as it is printed
        ("k(x: T[n], s: T) -> T[n]", "1e39", "s: f32 cannot hold 1e+39"),
        ("k(s: T, x: T[n]) -> T[n]", "1e39", "s: f32 cannot hold 1e+39"),
        ("k(x: T[n], s: T) -> T[n]", "inf", ""),
    ],
)
def test_a_number_is_one_of_the_type_that_arguments_and_results_say(signature, number, expected):
    args = f"{number}, x" if signature.startswith("k(s") else f"x, {number}"
    text = f"""
    kernel {signature.replace("k(", "k<T>(")} {{ cpu "k.c" }}
    pattern p(x: tensor<n x f32>) {{ negf(x) }}
    replace p with k({args})"""
    found = messages(text)
    assert len(found) == bool(expected)
    assert all(expected in message for message in found)


@pytest.mark.parametrize(
    ("choices", "found"), [("", []), (" in {f32, f64}", []), (" in {f64}", ["T would be both T and S"])]
)
def test_a_type_of_a_kernel_may_be_two_of_a_pattern_where_these_may_be_one(choices: str, found: list[str]):
    text = f"""
    kernel k<T in {{f16, f32, f64}}>(x: T[n], s: T) -> T[n] {{ symbol "k_{{T}}" cpu "k.c" }}
    pattern p<T in {{f16, f32}}, S{choices}>(x: tensor<n x T>, s: S) through cast {{ mulf(absf(x), s) }}
    replace p with k(x, s)"""
    reported = messages(text)
    assert len(reported) == len(found)
    assert all(part in message for part, message in zip(found, reported, strict=True))


@pytest.mark.parametrize(
    ("kernel", "pattern", "expected"),
    [
        ("k(a: f32[n], b: f32[n]) -> f32[n]", "p(x: tensor<m x f32>, y: tensor<? x f32>)", "n would be both m and ?"),
        ("k(a: f32[n], b: f32[n]) -> f32[n]", "p(x: tensor<? x f32>, y: tensor<? x f32>)", "two unnamed sizes"),
        ("k(a: f32[64], b: f32[64]) -> f32[64]", "p(x: tensor<n x f32>, y: tensor<n x f32>)", "size 64 is wanted"),
        (
            "k<T in {f16, f32}>(a: T[n], b: T[n]) -> T[n]",
            "p<T in {bf16, f64}>(x: tensor<n x T>, y: tensor<n x T>)",
            "T is one of f16, f32, found T, which may be bf16 or f64",
        ),
        (
            "k(a: f32[n], b: f32[n]) -> f32[n]",
            "p<T in {f16, f64}>(x: tensor<n x T>, y: tensor<n x T>)",
            "f32 is wanted, found T, which may be f16 or f64",
        ),
        ("k(a: f32[n], b: f32[n]) -> f32[n]", "p(x: tensor<...n x f32>, y: tensor<...n x f32>)", "whose rank is open"),
        ("k(a: f64[n], b: f32[n]) -> f32[n]", "p(x: tensor<n x f32>, y: tensor<n x f32>)", "f64 is wanted, found f32"),
        ("k(a: f32[n], b: f32[n]) -> f64[n]", "p(x: tensor<n x f32>, y: tensor<n x f32>)", "k makes tensor<n x f64>"),
        ("k(a: f32[n], b: f32[n]) -> (a, b)", "p(x: tensor<n x f32>, y: tensor<n x f32>)", "k makes 2 results"),
        ("k(a: f32[n], b: f32) -> f32[n]", "p(x: tensor<n x f32>, y: tensor<n x f32>)", "y is a tensor, and b: f32"),
        ("k(a: f32[n], b: f32[n]) -> f32[n]", "p(x: tensor<n x f32>, y: f32)", "y is a scalar, and b: f32[n]"),
        ("k(a: f32[n], b: f64[]) -> f32[n]", "p(x: tensor<n x f32>, y: f32)", "f64 is wanted, found f32"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(kernel, pattern, expected):
    text = f'kernel {kernel} {{ symbol "k" cpu "k.c" }} pattern {pattern} {{ addf(x, y) }} replace p with k(x, y)'
    found = messages(text)
    assert expected in found[0]


@pytest.mark.parametrize(
    ("kernel", "pattern"),
    [
        ("k(a: f32[n], b: f32[n]) -> f32[n]", "p<T>(x: tensor<n x T>, y: tensor<n x T>)"),
        ("k<T in {f16, f32}>(a: T[n], b: T[n]) -> T[n]", "p<T in {f32, f64}>(x: tensor<n x T>, y: tensor<n x T>)"),
        ("k(a: f32[...m, n], b: f32[n]) -> a", "p(x: tensor<a x b x c x f32>, y: tensor<c x f32>)"),
        ("k(a: f32[...m, n], b: f32[n]) -> f32[...m, n]", "p(x: tensor<...a x c x f32>, y: tensor<c x f32>)"),
        ("k(a: f32[m, n], b: f32[]) -> a", "p(x: tensor<4 x ? x f32>, y: tensor<f32>)"),
        ("k<T>(a: T[...m], b: T) -> a", "p<U in {f32, f64}>(x: tensor<...q x U>, y: U)"),
        ("k(a: f32[64, n], b: f32) -> a", "p(x: tensor<64 x ? x f32>, y: f32)"),
    ],
)
def test_arguments_that_fit(kernel, pattern):
    body = '"a.b"(x, y)'
    assert messages(f'kernel {kernel} {{ cpu "k.c" }} pattern {pattern} {{ {body} }} replace p with k(x, y)') == []


def test_dots_stand_for_arguments_by_the_names_of_parameters():
    kernel = 'kernel k(x: f32[r, c], y: f32[c], n: i64) -> f32[r, c] { cpu "k.c" }\n'
    pattern = "pattern q(y: tensor<n x f32>, x: tensor<m x n x f32>) { p(x, y) }\n"
    written = "replace p with k(x, y, n) replace q with p(x, y)"
    for dotted in (
        "replace p with k(x, ...) replace q with p(...)",
        "replace p with k(x, y, n, ...) replace q with p(...)",
    ):
        one, other = checked(f"{kernel}{PATTERN}{pattern}{dotted}"), checked(f"{kernel}{PATTERN}{pattern}{written}")
        assert not one.diagnostics
        assert [[arg.name for arg in rule.args] for rule in one.rules] == [["x", "y", "n"], ["x", "y"]]
        assert [rule.called for rule in one.rules] == [rule.called for rule in other.rules]
    (lacking,) = checked(f"{KERNEL}{PATTERN}replace p with k(x, ...)").diagnostics[:1]
    assert (lacking.message, lacking.span.text) == ("the pattern has no s", "...")
    assert messages(f"{PATTERN}replace p with nothing(...)") == ["unknown kernel or pattern nothing"]


def test_a_parameter_that_no_result_needs_cannot_be_passed_on():
    text = 'kernel k(a: f32[n]) -> a { cpu "k.c" } pattern p(x: tensor<n x f32>, _y: tensor<n x f32>) { exp(x) }'
    (found,) = messages(f"{text} replace p with k(_y)")
    assert "not every match says what _y is" in found


@pytest.mark.parametrize(
    ("clause", "warns"),
    [('"k.py" as command', 0), ('"k.vmfb" as command', 1), ('"k.py" as generated', 0), ('"k.c"', 1)],
)
def test_one_symbol_for_several_types_is_one_function_where_code_is_told_its_type(clause, warns):
    text = f"kernel k<T in {{f32, f64}}>(x: T[...m, n]) -> T[...m, n] {{ cpu {clause} }}"
    assert [each.code for each in checked(text).diagnostics] == ["shared-symbol"] * warns


def test_every_warning_has_a_code():
    text = 'kernel k<T in {f32, f64}>(x: T[n]) -> x { cpu "k.c" } pattern p(x: f32, y: f32) { z = exp(x) sqrt(x) }'
    found = checked(text).diagnostics
    assert [d.code for d in found] == ["shared-symbol", "unused-input", "unused-value"]
    assert "warning[shared-symbol]: " in render(found[0])


# ---- names, and many errors ------------------------------------------------------------------------------------------


def test_names_that_are_declared_twice_point_at_both():
    found = checked(KERNEL * 2 + PATTERN * 2)
    assert [(d.message, d.span.line, d.notes[0][0].line) for d in found.diagnostics if d.severity == "error"] == [
        ("kernel k is declared twice", 2, 1),
        ("pattern p is declared twice", 4, 3),
    ]


def test_kernels_and_patterns_have_names_of_their_own():
    assert messages(KERNEL + PATTERN.replace("pattern p", "pattern k")) == []


def test_a_pattern_cannot_have_an_ops_name():
    (found,) = messages("pattern mulf(x: tensor<n x f32>) { exp(x) }")
    assert "mulf is the name of an op" in found
    (found,) = messages("pattern band(x: tensor<n x f32>) { exp(x) }")
    assert "band is the name of an op" in found


def test_all_errors_are_found_in_the_order_of_the_text():
    text = "replace a with b()\npattern p(x: tensor<n x f32>) { foo(y) }\nkernel k(x: f32[n]) -> x {}\n"
    spans = [d.span.line for d in checked(text).diagnostics if d.severity == "error"]
    assert spans == [1, 1, 2, 2, 3]


def test_one_mistake_is_one_error():
    text = in_pattern("a = mulff(x) b = exp(a) c = addf(b, x) reduce addf[mn -> m](c)", X)
    assert len(messages(text)) == 1


def test_a_flood_of_errors_ends():
    text = "".join(f"replace pattern_{i} with kernel_{i}()\n" for i in range(3000)) + PATTERN + KERNEL
    assert len(messages(text)) == 100


def test_a_long_chain_of_patterns_is_no_trouble():
    links = [f"pattern p{i}(x: tensor<n x f32>) {{ negf(p{i + 1}(x)) }}" for i in range(3000)]
    found = checked("\n".join(links) + "pattern p3000(x: tensor<n x f32>) { exp(x) }")
    assert found.diagnostics == ()
    assert str(found.types[found.patterns["p0"].results[0]]) == "tensor<n x f32>"


@pytest.mark.parametrize(
    ("body", "through", "message"),
    [
        ("addf(x, y) : C", "through cast", None),
        ("contract[m n, m n -> m](x, y) : C", "through cast", None),
        ("reduce addf[m n -> m](x) : C", "through cast", None),
        ("addf(mulf(x, y) : B, y)", "through cast", None),
        (
            "addf(x, y)",
            "through cast",
            "the operands are of types A and B; write the type that it makes: addf(...) : A",
        ),
        ("addf(x, y) : i32", "through cast", "this makes A, not i32"),
        ("reduce addf[m n -> m](x) : C", "", "this makes A, not C"),
        ("addf(x, y) : C", "", "found A and B"),
        ("addf(x, sitofp(z) : B) : C", "through cast", None),
        ("addf(x, z) : C", "through cast", "addf works on floats, but z is"),
    ],
)
def test_types_of_operands_and_results_are_free_through_casts(body: str, through: str, message: str | None):
    dims = "tensor<m x n x {}>".format
    inputs = f"x: {dims('A')}, y: {dims('B')}, z: {dims('i32')}"
    variables = ", ".join(f"{name} in {{f16, bf16, f32}}" for name in "ABC")
    found = messages(f"pattern p<{variables}>({inputs}) {through} {{ {body} }}")
    assert (found == []) if message is None else (message in found[0])
