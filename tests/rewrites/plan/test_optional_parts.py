"""Parts that a match may lack: buffers that are null pointers then, and scalars that have a default."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import opsplice
from tests.plain import Plain

LAYERS = Path(__file__).parents[2] / "matchers" / "library"

SPEC = """
import "opsplice:strided"
kernel attend(
  q: f32[...b, m, d] strided,
  k: f32[...b, n, d] strided,
  v: f32[...b, n, e] strided,
  bias: f32[...b, m, n] strided optional,
  mask: f32[...b, m, n] strided optional,
  keep: i1[...b, m, n] strided optional,
  drop: i1[...b, m, n] strided optional,
  factors: f32[...b, m, n] strided optional,
  scale: f32,
  cap: f32,
  fill: f32,
  zeros: i32,
) -> f32[...b, m, e] strided {
  grid (b, m)
  cpu "attend.c" as bitcode
}
replace any_attention with attend(q, k, v, bias, mask, keep, drop, factors, scale, cap, fill, zeros)
"""
CODE = """
#include <math.h>
#include <stddef.h>
typedef const float *restrict In;
void attend(In q, In k, In v, In bias, In mask, const _Bool *keep, const _Bool *drop, In factors, float scale,
            float cap, float fill, int zeros, float *restrict out, size_t b, size_t m, size_t d,
            size_t n, size_t e, size_t q_m, size_t q_d,
            size_t k_n, size_t k_d, size_t v_n, size_t v_e, size_t bias_m, size_t bias_n, size_t mask_m, size_t mask_n,
            size_t keep_m, size_t keep_n, size_t drop_m, size_t drop_n, size_t factors_m, size_t factors_n,
            size_t out_m, size_t out_e, size_t workgroup_x, size_t i) {
  float peak = -INFINITY, total = 0;
  for (size_t l = 0; l < e; ++l) out[i * out_m + l * out_e] = 0;
  for (size_t j = 0; j < n; ++j) {
    float score = 0;
    for (size_t l = 0; l < d; ++l) score += q[i * q_m + l * q_d] * k[j * k_n + l * k_d];
    score *= scale * (factors ? factors[i * factors_m + j * factors_n] : 1);
    if (cap != 0) score = (1 - 2 / (1 + expf(2 * score / cap))) * cap;
    if (bias) score += bias[i * bias_m + j * bias_n];
    if (mask) score += mask[i * mask_m + j * mask_n];
    if (keep && !keep[i * keep_m + j * keep_n]) score = fill;
    if (drop && drop[i * drop_m + j * drop_n]) score = fill;
    if (score == -INFINITY) continue;
    float higher = fmaxf(peak, score), shrink = peak == higher ? 1 : expf(peak - higher);
    float weight = expf(score - higher);
    total = total * shrink + weight;
    peak = higher;
    for (size_t l = 0; l < e; ++l)
      out[i * out_m + l * out_e] = out[i * out_m + l * out_e] * shrink + weight * v[j * v_n + l * v_e];
  }
  for (size_t l = 0; l < e; ++l) out[i * out_m + l * out_e] = (zeros && total == 0) || (zeros == 2 && total != total)
    ? 0 : out[i * out_m + l * out_e] / total;
}
"""
FILES = sorted(path.stem for path in LAYERS.glob("attention*.mlir"))


@pytest.mark.parametrize("name", FILES)
def test_one_pattern_and_one_kernel_do_every_attention(tmp_path, name):
    """With scales and masks of all kinds or without, heads in any place: the compiler's own numbers."""
    (tmp_path / "attend.splice").write_text(SPEC)
    (tmp_path / "attend.c").write_text(CODE)
    text = (LAYERS / f"{name}.mlir").read_text()
    program = opsplice.compile(text, [tmp_path / "attend.splice"])
    functions = re.findall(r"func\.func (?:public )?@(\w+)\((.*?)\) -> ", text)
    assert len(functions) > 1
    assert {r.function.lstrip("@") for r in program.report.replacements} == {function for function, _ in functions}
    plain = Plain(text, [])
    random = np.random.default_rng(0)
    for function, declared in functions:
        inputs = []
        for *dims, element in (kind.split("x") for kind in re.findall(r"tensor<(\w+)>", declared)):
            drawn = random.normal(size=tuple(map(int, dims)))
            inputs.append(drawn > 0 if element == "i1" else drawn.astype(np.float32))
        found, wanted = program.run(function, *inputs), plain.run(function, *inputs)
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6, err_msg=function)


# What is behind the product, as a number: 0 nothing, 1 the positive part, 2 exp, 3 what lies between two numbers.
ACTIVATED = """
kernel product(x: f32[m, k], w: f32[k, n], activation: i32, low: f32, high: f32) -> f32[m, n] {
  cpu "product.c" as bitcode }
kernel positive(x: f32[m, k], w: f32[k, n]) -> f32[m, n] { cpu "product.c" as bitcode }
kernel unclamped(x: f32[m, k], w: f32[k, n]) -> f32[m, n] { cpu "product.c" as bitcode }
pattern activated(y: tensor<...m x f32>, which: i32) {
  maximumf(y, 0.0) with which = 1 | exp(y) with which = 2
}
pattern layer(
  x: tensor<m x k x f32>, w: tensor<k x n x f32>, activation: i32 = 0, low: f32 = -inf, high: f32 = inf,
) {
  y = contract[m k, k n -> m n](x, w)
  y | activated(y, activation) | minimumf(maximumf(y, low), high) with activation = 3
}
replace layer where activation == 1 and k == 3 with positive(x, w)
replace layer where activation in {0, 7} and k == 9 with unclamped(x, w)
replace layer where activation != 2 and k == 9 with unclamped(x, w)
replace layer where activation != 2 or n == 5 with product(x, w, activation, low, high)
"""
PRODUCT = """
#include <math.h>
#include <stddef.h>
#include <stdint.h>
void product(const float *x, const float *w, int32_t activation, float low, float high, float *out, size_t m, size_t k,
             size_t n) {
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (size_t l = 0; l < k; ++l) sum += x[i * k + l] * w[l * n + j];
      if (activation == 1) sum = sum < 0 ? 0 : sum;
      if (activation == 2) sum = expf(sum);
      if (activation == 3) sum = sum < low ? low : sum > high ? high : sum;
      out[i * n + j] = sum;
    }
}
void positive(const float *x, const float *w, float *out, size_t m, size_t k, size_t n) {
  product(x, w, 1, 0, 0, out, m, k, n);
}
void unclamped(const float *x, const float *w, float *out, size_t m, size_t k, size_t n) {
  product(x, w, 0, 0, 0, out, m, k, n);
}
"""
LAYER = """
func.func @{name}(%x: tensor<4x{k}xf32>, %w: tensor<{k}x{n}xf32>) -> tensor<4x{n}xf32> {{
  %start = arith.constant dense<0.0> : tensor<4x{n}xf32>
  %low = arith.constant dense<-1.0> : tensor<4x{n}xf32>
  %high = arith.constant dense<0.5> : tensor<4x{n}xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x{k}xf32>, tensor<{k}x{n}xf32>)
    outs(%start : tensor<4x{n}xf32>) -> tensor<4x{n}xf32>
  {body}
  return %r : tensor<4x{n}xf32>
}}
"""
POSITIVE = "%r = arith.maximumf %y, %start : tensor<4x{n}xf32>"
EXP = "%r = math.exp %y : tensor<4x{n}xf32>"
NEITHER = "%r = math.absf %y : tensor<4x{n}xf32>"
CLAMPED = """%l = arith.maximumf %y, %low : tensor<4x{n}xf32>
  %r = arith.minimumf %l, %high : tensor<4x{n}xf32>"""
LAYERS_BY_NAME = {
    "positive": (POSITIVE, 7, 5, "product", 1),
    "positive_by_itself": (POSITIVE, 3, 5, "positive", 1),
    "exp": (EXP, 7, 5, "product", 2),
    "listed_default": (NEITHER, 9, 5, "unclamped", 0),
    "not_listed": (POSITIVE, 9, 5, "unclamped", 0),
    "neither": (NEITHER, 7, 6, "product", 0),
    "clamped": (CLAMPED, 7, 6, "product", 3),
}


def test_the_alternative_that_holds_says_what_a_scalar_is(pairs):
    """The kernel is passed the number, and rules can ask for it; exp of 6 columns is for no rule but as a product.

    A kernel that is not passed it takes the numbers that its rule lists, and of what comes before others the product.
    """
    shown = {name: (body, k, n) for name, (body, k, n, _, _) in LAYERS_BY_NAME.items()} | {"kept": (EXP, 7, 6)}
    text = "".join(LAYER.format(name=n, k=k, n=m, body=body.format(n=m)) for n, (body, k, m) in shown.items())
    pair = pairs(text, ACTIVATED, {"product.c": PRODUCT})
    found = {r.function.lstrip("@"): (r.kernel, r.dims.get("activation", 0)) for r in pair.spliced.report.replacements}
    wanted = {name: (kernel, which) for name, (_, _, _, kernel, which) in LAYERS_BY_NAME.items()}
    assert found == wanted | {"kept": ("product", 0)}
    random = np.random.default_rng(5)
    for name, (_, k, n) in shown.items():
        x, w = (random.normal(size=shape).astype(np.float32) for shape in ((4, k), (k, n)))
        same = (program.run(name, x, w) for program in (pair.spliced, pair.plain))
        np.testing.assert_allclose(*same, rtol=1e-5, atol=1e-6, err_msg=name)


DENSE = """
import "opsplice:strided"
kernel attend(q: f32[...b, m, d] copied, k: f32[...b, n, d] copied, v: f32[...b, n, e] copied, scale: f32)
  -> f32[...b, m, e] copied { cpu "attend.c" as bitcode }
replace any_attention with attend(q, k, v, scale)
"""
DENSE_CODE = """
#include <math.h>
#include <stddef.h>
void attend(const float *q, const float *k, const float *v, float scale, float *out, size_t b, size_t m, size_t d,
            size_t n, size_t e) {
  for (size_t at = 0; at < b * m; ++at) {
    const float *keys = k + at / m * n * d, *values = v + at / m * n * e;
    float total = 0;
    for (size_t l = 0; l < e; ++l) out[at * e + l] = 0;
    for (size_t j = 0; j < n; ++j) {
      float score = 0;
      for (size_t l = 0; l < d; ++l) score += q[at * d + l] * keys[j * d + l];
      score = expf(score * scale);
      total += score;
      for (size_t l = 0; l < e; ++l) out[at * e + l] += score * values[j * e + l];
    }
    for (size_t l = 0; l < e; ++l) out[at * e + l] /= total;
  }
}
"""


def test_a_dense_kernel_gets_copies_where_heads_are_shared_and_rows_merged_with_them(pairs):
    """It knows of no masks, so it is kept away from where these are."""
    pair = pairs((LAYERS / "attention_grouped.mlir").read_text(), DENSE, {"attend.c": DENSE_CODE})
    (replacement,) = pair.spliced.report.replacements
    assert len(replacement.views) == 4
    assert {kept.reason for kept in pair.spliced.report.kept} == {
        f"it has {name}, which the rule does not pass" for name in ("mask", "fill and keep")
    }
    random = np.random.default_rng(3)
    inputs = [random.normal(size=shape).astype(np.float32) for shape in [(2, 8, 3, 2, 4), (2, 16, 3, 4), (2, 16, 3, 5)]]
    found, wanted = (program.run("attention_grouped", *inputs) for program in (pair.spliced, pair.plain))
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


def test_the_order_of_dims_is_the_signatures_also_where_a_buffer_is_left_out(pairs):
    spec = """
kernel shift(bias: f32[n] optional, x: f32[m, n], by: f32) -> f32[m, n] { cpu "shift.c" }
pattern shifted(x: tensor<m x n x f32>, bias: tensor<n x f32>, by: f32 = 2.5) {
  negf(mulf?(addf?(x, broadcast[n -> m n](bias)), by))
}
replace shifted with shift(bias, x, by)
"""
    code = """
void shift(const float *bias, const float *x, float by, float *out, unsigned long n, unsigned long m) {
  for (unsigned long i = 0; i < m; ++i)
    for (unsigned long j = 0; j < n; ++j) out[i * n + j] = -((x[i * n + j] + (bias ? bias[j] : 0)) * by);
}
"""
    head = "func.func @{name}(%x: tensor<3x4xf32>{more}) -> tensor<3x4xf32> {{"
    biased = """
  %e = tensor.empty() : tensor<3x4xf32>
  %b = linalg.broadcast ins(%y : tensor<4xf32>) outs(%e : tensor<3x4xf32>) dimensions = [0]
  %s = arith.addf %x, %b : tensor<3x4xf32>
  %c = arith.constant dense<2.5> : tensor<3x4xf32>
  %p = arith.mulf %s, %c : tensor<3x4xf32>
  %n = arith.negf %p : tensor<3x4xf32>
  return %n : tensor<3x4xf32>
}"""
    alone = """
  %n = arith.negf %x : tensor<3x4xf32>
  return %n : tensor<3x4xf32>
}"""
    text = head.format(name="biased", more=", %y: tensor<4xf32>") + biased + head.format(name="alone", more="") + alone
    made = pairs(text, spec, {"shift.c": code})
    assert made.replaced == 2
    x, y = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([1, -2, 3, 4], np.float32)
    made.run("biased", x, y)
    np.testing.assert_array_equal(made.spliced.run("alone", x), -x * np.float32(2.5))  # as the default says


def test_a_rule_asks_which_parts_a_match_has(pairs):
    """Rules for matches with a part stand before those of another pattern, and rules for the others behind them."""
    spec = """
kernel shift(x: f32[m, n], bias: f32[n] optional) -> f32[m, n] { cpu "shift.c" }
kernel turn(x: f32[m, n]) -> f32[m, n] { cpu "turn.c" }
pattern shifted(x: tensor<m x n x f32>, bias: tensor<n x f32>) { negf(addf?(x, broadcast[n -> m n](bias))) }
pattern turned(x: tensor<m x n x f32>) { negf(x) }
replace shifted where has(bias) and n == 4 with shift(x, bias)
keep shifted where not has(bias) and m == 5
replace turned where m == 2 with turn(x)
replace shifted where not has(bias) with shift(x, bias)
"""
    code = """
void shift(const float *x, const float *bias, float *out, unsigned long m, unsigned long n) {
  for (unsigned long i = 0; i < m * n; ++i) out[i] = -(x[i] + (bias ? bias[i % n] : 0));
}
"""
    turn = "void turn(const float *x, float *out, unsigned long m, unsigned long n) {"
    turn += " for (unsigned long i = 0; i < m * n; ++i) out[i] = -x[i]; }"
    text = ""
    for name, kind in (("biased", "3x4"), ("kept", "5x4"), ("turned", "2x4"), ("alone", "3x4")):
        text += f"func.func @{name}(%x: tensor<{kind}xf32>, %y: tensor<4xf32>) -> tensor<{kind}xf32> {{"
        text += f"""
  %e = tensor.empty() : tensor<{kind}xf32>
  %b = linalg.broadcast ins(%y : tensor<4xf32>) outs(%e : tensor<{kind}xf32>) dimensions = [0]
  %s = arith.addf %x, %b : tensor<{kind}xf32>
  %n = arith.negf {"%s" if name == "biased" else "%x"} : tensor<{kind}xf32>
  return %n : tensor<{kind}xf32>
}}
"""
    made = pairs(text, spec, {"shift.c": code, "turn.c": turn})
    taken = {each.function: each.kernel for each in made.spliced.report.replacements if not each.lost}
    assert taken == {"biased": "shift", "turned": "turn", "alone": "shift"}, made.spliced.report
    y = np.array([1, -2, 3, 4], np.float32)
    for name, rows in (("biased", 3), ("kept", 5), ("turned", 2), ("alone", 3)):
        x = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
        np.testing.assert_array_equal(made.spliced.run(name, x, y), -(x + y) if name == "biased" else -x)


LINEAR_SPEC = """
import "opsplice:strided"
kernel linear(x: f32[...b, m, k] strided, w: f32[n, k] strided, bias: f32[n] optional) -> f32[...b, m, n] strided {
  grid (b)
  cpu "linear.c"
}
replace any_linear with linear(x, w, bias)
"""
LINEAR_C = """
#include <stddef.h>
void linear(const float *x, const float *w, const float *bias, float *out, size_t b, size_t m, size_t k, size_t n,
            size_t x_m, size_t x_k, size_t w_n, size_t w_k, size_t out_m, size_t out_n, size_t workgroup_x) {
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (size_t l = 0; l < k; ++l) sum += x[i * x_m + l * x_k] * w[j * w_n + l * w_k];
      out[i * out_m + j * out_n] = sum + (bias ? bias[j] : 0);
    }
}
"""


def linear(subscripts: str, *, biased: bool) -> str:
    """A product as one einsum says it, and a bias."""
    sizes = {"a": 2, "b": 3, "m": 4, "k": 5, "n": 6}
    x, w, out = re.split(",|->", subscripts)
    kinds = [f"tensor<{'x'.join(str(sizes[letter]) for letter in each)}xf32>" for each in (x, w, out)]
    loops, spread = ", ".join([*out, "k"]), ", ".join(out)
    words = ", ".join(['"parallel"'] * len(out))
    maps = ", ".join(f"affine_map<({loops}) -> ({', '.join(each)})>" for each in (x, w, out))
    added = f"""%d = linalg.generic {{indexing_maps = [affine_map<({spread}) -> ({spread})>,
    affine_map<({spread}) -> (n)>, affine_map<({spread}) -> ({spread})>], iterator_types = [{words}]}}
    ins(%c, %y : {kinds[2]}, tensor<6xf32>) outs(%e : {kinds[2]}) {{
  ^bb0(%p: f32, %q: f32, %r: f32):
    %t = arith.addf %p, %q : f32
    linalg.yield %t : f32
  }} -> {kinds[2]}"""
    name = re.sub(",|->", "_", subscripts) + "_biased" * biased
    return f"""func.func @{name}(%x: {kinds[0]}, %w: {kinds[1]}{", %y: tensor<6xf32>" * biased}) -> {kinds[2]} {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : {kinds[2]}
  %f = linalg.fill ins(%z : f32) outs(%e : {kinds[2]}) -> {kinds[2]}
  %c = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{words}, "reduction"]}}
    ins(%x, %w : {kinds[0]}, {kinds[1]}) outs(%f : {kinds[2]}) {{
  ^bb0(%p: f32, %q: f32, %r: f32):
    %s = arith.mulf %p, %q : f32
    %t = arith.addf %r, %s : f32
    linalg.yield %t : f32
  }} -> {kinds[2]}
  {added * biased}
  return {"%d" if biased else "%c"} : {kinds[2]}
}}"""


def test_one_pattern_and_one_kernel_do_every_linear_layer(pairs):
    kinds = [
        (subscripts, biased)
        for subscripts in ("mk,nk->mn", "mk,kn->mn", "bmk,kn->bmn", "abmk,nk->abmn", "bmk,nk->bnm", "km,kn->nm")
        for biased in (False, True)
    ]
    programs = "\n".join(linear(subscripts, biased=biased) for subscripts, biased in kinds)
    made = pairs(programs, LINEAR_SPEC, {"linear.c": LINEAR_C})
    assert made.replaced == len(kinds)
    for match in re.finditer(r"func\.func @(\w+)\((.*?)\) -> ", programs):
        shapes = [tuple(map(int, found.split("x"))) for found in re.findall(r"tensor<([\dx]+)xf32>", match[2])]
        made.run(match[1], *(np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 9 for shape in shapes))


ACTIVATIONS = {"bias_relu": 1, "bias_gelu": 2, "bias_gelu_tanh": 3, "bias_silu": 4}


def test_one_rule_takes_linear_layers_with_all_activations(tmp_path):
    """Those that jax.export makes, with weights either way round."""
    spec = LINEAR_SPEC.replace("optional)", "optional, activation: i32)").replace("w, bias)", "w, bias, activation)")
    (tmp_path / "linear.splice").write_text(spec)
    (tmp_path / "linear.c").write_text("")
    found = {}
    for file in ("linear.mlir", "gelu.mlir"):
        for each in opsplice.match(LAYERS / file, [tmp_path / "linear.splice"]).replacements:
            found.setdefault(each.function.lstrip("@"), []).append(each.dims.get("activation", 0))
    wanted = {name: number for name, number in ACTIVATIONS.items() if any(name in each for each in found)}
    assert set(wanted) == set(ACTIVATIONS)
    for function, numbers in found.items():
        kind = max((name for name in ACTIVATIONS if name in function), key=len, default=None)
        if kind is not None:
            assert numbers == [ACTIVATIONS[kind]], function


@pytest.mark.parametrize("whole", ["negf(addf?(x, bias))", "behind(x, bias)"])
def test_a_part_that_a_rule_does_not_pass_keeps_its_kernel_away(pairs, whole):
    """A kernel that knows no bias is called where there is none, and a later rule's takes the others.

    Also where the pattern has that part in another one that it uses.
    """
    body = """func.func @{name}(%x: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {{
      %s = arith.addf %x, %b : tensor<8xf32>
      %n = arith.negf {of} : tensor<8xf32>
      return %n : tensor<8xf32> }}"""
    spec = f"""
    kernel plain(x: f32[n]) -> f32[n] {{ cpu "k.c" }}
    kernel biased(x: f32[n], bias: f32[n] optional) -> f32[n] {{ cpu "k.c" }}
    pattern behind(x: tensor<n x f32>, bias: tensor<n x f32>) {{ negf(addf?(x, bias)) }}
    pattern p(x: tensor<n x f32>, bias: tensor<n x f32>) {{ {whole} }}
    replace p with plain(x)
    replace p with biased(x, bias)
    """
    code = """#include <stddef.h>
    void plain(const float *x, float *out, size_t n) { for (size_t i = 0; i < n; ++i) out[i] = -x[i]; }
    void biased(const float *x, const float *bias, float *out, size_t n) {
      for (size_t i = 0; i < n; ++i) out[i] = -(x[i] + (bias ? bias[i] : 0)); }"""
    text = body.format(name="without", of="%x") + body.format(name="with", of="%s")
    pair = pairs(text, spec, {"k.c": code})
    assert [r.kernel for r in pair.spliced.report.replacements] == ["plain", "biased"]
    reasons = [kept.reason for kept in pair.spliced.report.kept]
    assert reasons in ([], ["it has bias, which the rule does not pass"])
    for function in ("without", "with"):
        pair.run(function, *(np.arange(8, dtype=np.float32) + i for i in range(2)))


STARTED = """
kernel leave_out(s: f32[m, n], fill: f32) -> f32[m, n] { cpu "leave_out.c" as bitcode }
pattern causal<I in {i32, i64}>(s: tensor<m x n x f32>, fill: f32, start: I = 0) {
  select(band(-2147483648, 0, 1, 0, start) : tensor<m x n x i1>, s, fill)
}
replace causal with leave_out(s, fill)
"""
LEAVE_OUT = """
#include <stddef.h>
void leave_out(const float *s, float fill, float *out, size_t m, size_t n) {
  for (size_t i = 0; i < m * n; ++i) out[i] = i % n <= i / n ? s[i] : fill;
}
"""
CAUSAL = """
func.func @{name}(%s: tensor<3x4xf32>, %start: i64) -> tensor<3x4xf32> {{
  %e = tensor.empty() : tensor<3x4xf32>
  %fill = arith.constant -1.0 : f32
  %zero = arith.constant 0 : i64
  %0 = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]}} ins(%s : tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) {{
  ^bb0(%x: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %row = arith.index_cast %i : index to i64
    %column = arith.index_cast %j : index to i64
    %from = arith.addi %row, {start} : i64
    %keep = arith.cmpi sle, %column, %from : i64
    %1 = arith.select %keep, %x, %fill : f32
    linalg.yield %1 : f32
  }} -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}}"""


def test_a_kernel_that_is_not_told_where_a_band_starts_takes_none_that_starts_later(pairs):
    text = CAUSAL.format(name="first", start="%zero") + CAUSAL.format(name="later", start="%start")
    pair = pairs(text, STARTED, {"leave_out.c": LEAVE_OUT})
    assert [r.function for r in pair.spliced.report.replacements] == ["first"]
    assert "it has start, which the rule does not pass" in str(pair.spliced.report)
    s = np.arange(12, dtype=np.float32).reshape(3, 4)
    for name in ("first", "later"):
        same = (program.run(name, s, 1) for program in (pair.spliced, pair.plain))
        np.testing.assert_array_equal(*same)
