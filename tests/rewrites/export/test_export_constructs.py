"""Each construct of the language in an exported spec: what it covers, and what it names as having no counterpart."""

from __future__ import annotations

from pathlib import Path

import pytest
from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.frontends import ModuleSource
from opsplice.pipeline.compiler import Compilation
from opsplice.rewrites.ir.executable_targets import parse_target
from opsplice.rewrites.transform_dialect import interpreter
from opsplice.rewrites.transform_dialect.importing.importer import import_spec
from opsplice.spec_lang.loading.loader import load_text

from .conftest import TARGET, Sider, exported

ROWS, BOTH = "affine_map<(d0, d1) -> (d0)>", "affine_map<(d0, d1) -> (d0, d1)>"


def function(arguments: str, result: str, body: str) -> str:
    """A program of one function that returns %r."""
    return f"util.func public @f({arguments}) -> {result} {{\n{body}\nutil.return %r : {result}\n}}\n"


def at_preprocessing(model: str) -> str:
    """A model as it is where transform specs are applied."""
    with Compilation() as compilation:
        compilation.load(ModuleSource(content=model))
        compilation.run_to("preprocessing")
        return str(compilation.module)


# ---- constants ---------------------------------------------------------------------------------------------------

RELU = """
kernel relu(x: f32[n]) -> f32[n] { cpu "relu.c" }
pattern relu_of(x: tensor<n x f32>) { maximumf(x, 0.0) }
replace relu_of with relu(x)
"""
FILL = "%e = tensor.empty({sizes}) : {kind}\n%c = linalg.fill ins(%zero : f32) outs(%e : {kind}) -> {kind}"
SPLAT = "%c = tensor.splat %zero[%n] : {kind}"
DENSE = "%c = arith.constant dense<0.0> : {kind}"


def relu(size: str, constant: str, zero: str = "0.0") -> str:
    kind = f"tensor<{size}xf32>"
    made = constant.format(kind=kind, sizes="%n" if size == "?" else "")
    body = f"%zero = arith.constant {zero} : f32\n{made}\n%r = arith.maximumf %x, %c : {kind}"
    return function(f"%x: {kind}, %n: index", kind, body)


@pytest.mark.parametrize(("size", "constant"), [("?", FILL), ("8", FILL), ("?", SPLAT)])
def test_constants_of_ops_on_tensors(size: str, constant: str, sides: Sider) -> None:
    assert sides(relu(size, constant), RELU).counts == (1, 1)


def test_dense_constants_where_the_pattern_has_sizes(sides: Sider) -> None:
    spec = RELU.replace("tensor<n x f32>) {", "tensor<n x f32>) where n == 8 {")
    assert sides(relu("8", DENSE), spec).counts == (1, 1)
    assert sides(relu("9", DENSE), spec).counts == (0, 0)


def test_the_number_of_a_constant_counts(sides: Sider) -> None:
    assert sides(relu("?", SPLAT, zero="0.5"), RELU).counts == (0, 0)


def test_a_dim_is_a_constant_where_it_has_a_size(sides: Sider) -> None:
    spec = """
    kernel mean(x: f32[m, n]) -> f32[m] { cpu "mean.c" }
    pattern mean_of(x: tensor<m x n x f32>) where n == 8 { divf(reduce addf[m n -> m](x), n) }
    replace mean_of with mean(x)
    """
    program = f"""
    %zero = arith.constant 0.0 : f32
    %eight = arith.constant 8.0 : f32
    %e = tensor.empty() : tensor<4xf32>
    %start = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    %sum = linalg.generic {{indexing_maps = [{BOTH}, {ROWS}], iterator_types = ["parallel", "reduction"]}}
        ins(%x : tensor<4x8xf32>) outs(%start : tensor<4xf32>) {{
    ^bb0(%a: f32, %b: f32):
      %t = arith.addf %b, %a : f32
      linalg.yield %t : f32
    }} -> tensor<4xf32>
    %by = linalg.fill ins(%eight : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    %r = arith.divf %sum, %by : tensor<4xf32>
    """
    text = function("%x: tensor<4x8xf32>", "tensor<4xf32>", program)
    assert sides(text, spec).counts == (1, 1)


# ---- types, ranks, scalars ---------------------------------------------------------------------------------------

NEGATED = """
kernel twice<T in {f32, f64}>(x: T[...m, n]) -> T[...m, n] where n % 4 == 0 { symbol "twice_{T}" cpu "twice.c" }
pattern negated<T in {f32, f64}>(x: tensor<...m x n x T>) { negf(negf(x)) }
replace negated with twice(x)
"""


def negated(kind: str) -> str:
    return function(f"%x: {kind}", kind, f"%0 = arith.negf %x : {kind}\n%r = arith.negf %0 : {kind}")


@pytest.mark.parametrize(
    ("kind", "count"),
    [("8xf32", 1), ("2x8xf64", 1), ("2x3x5x8xf32", 1), ("8xf16", 0), ("2x9xf32", 0), ("?xf32", 0)],
)
def test_types_and_ranks_that_the_kernel_takes(kind: str, count: int, sides: Sider) -> None:
    assert sides(negated(f"tensor<{kind}>"), NEGATED).counts == (count, count)


def test_each_type_and_rank_has_a_function_of_its_own() -> None:
    text = exported(NEGATED).text
    assert text.count("util.func private @opsplice_call_") == 2 * 4
    assert text.count("stream.executable private") == 2, "ranks share one, which is given the number of rows"


def test_a_scalar_parameter_is_a_value_of_the_program(sides: Sider) -> None:
    spec = """
    kernel shift(x: f32[n], by: f32) -> f32[n] { cpu "shift.c" }
    pattern shifted(x: tensor<n x f32>, by: f32) { addf(x, by) }
    replace shifted with shift(x, by)
    """
    body = "%c = tensor.splat %by[%n] : tensor<?xf32>\n%r = arith.addf %x, %c : tensor<?xf32>"
    text = function("%x: tensor<?xf32>, %by: f32, %n: index", "tensor<?xf32>", body)
    both = sides(text, spec)
    assert both.counts == (1, 1)
    assert both.texts[0] == both.texts[1]


def test_a_kernel_that_writes_in_place(sides: Sider) -> None:
    spec = """
    kernel negate(x: f32[n], y: f32[n]) -> x { cpu "negate.c" }
    pattern sum(x: tensor<n x f32>, y: tensor<n x f32>) { addf(negf(x), y) }
    replace sum with negate(x, y)
    """
    body = "%0 = arith.negf %x : tensor<?xf32>\n%r = arith.addf %0, %y : tensor<?xf32>"
    both = sides(function("%x: tensor<?xf32>, %y: tensor<?xf32>", "tensor<?xf32>", body), spec)
    assert both.counts == (1, 1)
    assert both.texts[0] == both.texts[1]


def test_an_op_by_its_full_name_with_attributes(sides: Sider) -> None:
    spec = """
    kernel power(x: f32[n]) -> f32[n] { cpu "power.c" }
    pattern rounded(x: tensor<n x f32>) where n == 8 {
      negf("math.ceil"(x) {fast = true, level = 3, name = "a"} : tensor<n x f32>)
    }
    replace rounded with power(x)
    """
    op = '%0 = "math.ceil"(%x) {fast = true, level = 3 : i64, name = "a"} : (tensor<8xf32>) -> tensor<8xf32>'
    program = function("%x: tensor<8xf32>", "tensor<8xf32>", f"{op}\n%r = arith.negf %0 : tensor<8xf32>")
    assert sides(program, spec).counts == (1, 1)
    assert sides(program.replace("level = 3", "level = 4"), spec).counts == (0, 0)


def test_a_pattern_that_uses_another_with_its_condition(sides: Sider) -> None:
    spec = """
    kernel both(x: f32[m]) -> f32[m] { cpu "both.c" }
    pattern inner(x: tensor<n x f32>) where n <= 8 { negf(x) }
    pattern outer(x: tensor<m x f32>) { absf(inner(x)) }
    replace outer with both(x)
    """
    body = "%0 = arith.negf %x : tensor<8xf32>\n%r = math.absf %0 : tensor<8xf32>"
    program = function("%x: tensor<8xf32>", "tensor<8xf32>", body)
    assert sides(program, spec).counts == (1, 1)
    assert sides(program.replace("8xf32", "9xf32"), spec).counts == (0, 0)


def test_each_alternative_of_one_place_has_matchers(sides: Sider) -> None:
    spec = """
    kernel k(x: f32[n]) -> f32[n] { cpu "k.c" }
    pattern inner(x: tensor<n x f32>) { negf(exp(x) | tanh(x)) }
    pattern p(x: tensor<n x f32>) { absf(inner(x)) }
    replace p with k(x)
    """
    for op, count in (("exp", 1), ("tanh", 1), ("sin", 0)):
        body = (
            f"%0 = math.{op} %x : tensor<8xf32>\n%1 = arith.negf %0 : tensor<8xf32>\n%r = math.absf %1 : tensor<8xf32>"
        )
        assert sides(function("%x: tensor<8xf32>", "tensor<8xf32>", body), spec).counts == (count, count)


PARTS = """
kernel k(x: f32[m, n], bias: f32[n] optional, scale: f32, i: i32) -> f32[m, n] { cpu "k.c" }
pattern act(x: tensor<...m x f32>, i: i32) { tanh(x) with i = 1 | sin(x) with i = 2 }
pattern p(x: tensor<m x n x f32>, bias: tensor<n x f32>, scale: f32 = 1.0, i: i32 = 0) {
  y = addf?(negf(x), broadcast[n -> m n](bias))
  z = mulf?(y, scale)
  z | act(z, i)
}
"""


@pytest.mark.parametrize(("rule", "counts"), [("", (1, 1, 1)), ("where i == 2", (0, 0, 1))])
def test_parts_that_a_program_may_lack_have_matchers_with_and_without(rule: str, counts, sides: Sider) -> None:
    """Several alternatives, in a pattern and in the one that it uses, with optional ops, whose inputs may be absent."""
    kind = "tensor<8x4xf32>"
    lines = f"""
    %e = tensor.empty() : {kind}
    %b = linalg.broadcast ins(%bias : tensor<4xf32>) outs(%e : {kind}) dimensions = [0]
    %1 = arith.addf %0, %b : {kind}
    %s = tensor.splat %scale : {kind}
    %2 = arith.mulf %1, %s : {kind}
    %r = math.tanh %2 : {kind}"""
    bodies = (
        f"%r = arith.negf %x : {kind}",
        f"%0 = arith.negf %x : {kind}{lines}",
        f"%0 = arith.negf %x : {kind}\n%r = math.sin %0 : {kind}",
    )
    arguments = f"%x: {kind}, %bias: tensor<4xf32>, %scale: f32"
    spec = f"{PARTS}replace p {rule} with k(x, bias, scale, i)"
    for body, count in zip(bodies, counts, strict=True):
        assert sides(function(arguments, kind, body), spec).counts == (count, count)


def test_comparisons_casts_and_integers(sides: Sider) -> None:
    spec = """
    kernel pick(x: f32[n], y: f32[n]) -> f16[n] { cpu "pick.c" }
    pattern larger(x: tensor<n x f32>, y: tensor<n x f32>) {
      truncf(select(cmpf(x, y) {predicate = oeq}, x, y)) : f16
    }
    replace larger with pick(x, y)
    kernel product(a: i8[m, k], b: i8[k, n]) -> i32[m, n] { cpu "product.c" }
    pattern quantised(a: tensor<m x k x i8>, b: tensor<k x n x i8>) {
      contract[mk, kn -> mn](a, b) : tensor<m x n x i32>
    }
    replace quantised with product(a, b)
    """
    body = """
    %c = arith.cmpf oeq, %x, %y : tensor<?xf32>
    %s = arith.select %c, %x, %y : tensor<?xi1>, tensor<?xf32>
    %r = arith.truncf %s : tensor<?xf32> to tensor<?xf16>
    """
    program = function("%x: tensor<?xf32>, %y: tensor<?xf32>", "tensor<?xf16>", body)
    assert sides(program, spec).counts == (1, 1)
    assert sides(program.replace("oeq", "one"), spec).counts == (0, 0)
    body = """
    %zero = arith.constant 0 : i32
    %e = tensor.empty() : tensor<4x6xi32>
    %f = linalg.fill ins(%zero : i32) outs(%e : tensor<4x6xi32>) -> tensor<4x6xi32>
    %r = linalg.matmul ins(%a, %b : tensor<4x8xi8>, tensor<8x6xi8>) outs(%f : tensor<4x6xi32>) -> tensor<4x6xi32>
    """
    program = function("%a: tensor<4x8xi8>, %b: tensor<8x6xi8>", "tensor<4x6xi32>", body)
    assert sides(program, spec).counts == (1, 1)


# ---- conditions, rules -------------------------------------------------------------------------------------------

BOUNDED = """
kernel plain(x: f32[m, n], y: f32[m, n]) -> f32[m, n] where n % 8 == 0 { cpu "plain.c" }
pattern sum(x: tensor<m x n x f32>, y: tensor<m x n x f32>) where m <= 16 or m == 64 { addf(negf(absf(x)), y) }
replace sum where n > 8 with plain(x, y)
"""


@pytest.mark.parametrize(
    ("shape", "count"),
    [("16x16", 1), ("17x16", 0), ("64x16", 1), ("16x8", 0), ("16x20", 0), ("?x16", 0), ("16x?", 0), ("1x1024", 1)],
)
def test_conditions_of_the_pattern_the_rule_and_the_kernel(shape: str, count: int, sides: Sider) -> None:
    kind = f"tensor<{shape}xf32>"
    body = f"%0 = math.absf %x : {kind}\n%1 = arith.negf %0 : {kind}\n%r = arith.addf %1, %y : {kind}"
    assert sides(function(f"%x: {kind}, %y: {kind}", kind, body), BOUNDED).counts == (count, count)


TWO = """
kernel large(x: f32[n]) -> f32[n] { cpu "large.c" }
kernel small(x: f32[n]) -> f32[n] { cpu "small.c" }
pattern larger(x: tensor<n x f32>) { absf(negf(exp(x))) }
pattern smaller(x: tensor<n x f32>) { negf(exp(x)) }
replace larger with large(x)
replace smaller with small(x)
"""


@pytest.mark.parametrize("spec", [TWO, "\n".join([*TWO.splitlines()[:5], *reversed(TWO.splitlines()[5:])])])
def test_earlier_rules_have_their_matches_first(spec: str, sides: Sider) -> None:
    body = """
    %0 = math.exp %x : tensor<?xf32>
    %1 = arith.negf %0 : tensor<?xf32>
    %r = math.absf %1 : tensor<?xf32>
    """
    both = sides(function("%x: tensor<?xf32>", "tensor<?xf32>", body), spec)
    assert both.graphs[0] == both.graphs[1]
    assert both.counts == (1, 1)
    assert both.texts[0] == both.texts[1]


def test_chains_of_one_pattern_begin_at_the_first(sides: Sider) -> None:
    spec = """
    kernel twice(x: f32[n]) -> f32[n] { cpu "twice.c" }
    pattern negated(x: tensor<n x f32>) { negf(negf(x)) }
    replace negated with twice(x)
    """
    body = "\n".join(f"%{i} = arith.negf {f'%{i - 1}' if i else '%x'} : tensor<?xf32>" for i in range(7))
    both = sides(function("%x: tensor<?xf32>", "tensor<?xf32>", f"{body}\n%r = math.exp %6 : tensor<?xf32>"), spec)
    assert both.counts == (3, 3)
    assert both.texts[0] == both.texts[1]


def test_matches_in_loops_and_of_other_uses(sides: Sider) -> None:
    body = """
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %x) -> (tensor<?xf32>) {
      %0 = math.exp %s : tensor<?xf32>
      %1 = arith.negf %0 : tensor<?xf32>
      %2 = math.absf %1 : tensor<?xf32>
      %3 = arith.addf %1, %2 : tensor<?xf32>
      scf.yield %3 : tensor<?xf32>
    }
    """
    both = sides(function("%x: tensor<?xf32>, %n: index", "tensor<?xf32>", body), TWO)
    assert both.texts[0] == both.texts[1]
    assert both.texts[0].count("flow.dispatch") == 2


# ---- programs from StableHLO -------------------------------------------------------------------------------------

LAYERS = """
kernel linear(x: f32[m, k], w: f32[k, n], b: f32[n]) -> f32[m, n] { grid (m) cpu "linear.c" }
kernel softmax(x: f32[...m, n]) -> f32[...m, n] { grid (m) cpu "softmax.c" }
pattern linear_of(x: tensor<m x k x f32>, w: tensor<k x n x f32>, b: tensor<n x f32>) {
  addf(contract[mk, kn -> mn](x, w), broadcast[n -> m n](b))
}
pattern rows(x: tensor<...m x n x f32>) {
  peak = reduce maximumf[...m n -> ...m](x)
  e = exp(subf(x, broadcast[...m -> ...m n](peak)))
  divf(e, broadcast[...m -> ...m n](reduce addf[...m n -> ...m](e)))
}
replace linear_of with linear(x, w, b)
replace rows with softmax(x)
"""
MODEL = """
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>, %b: tensor<32xf32>) -> tensor<8x32xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<32xf32>) -> tensor<8x32xf32>
  %2 = stablehlo.add %0, %1 : tensor<8x32xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%2 init: %low) applies stablehlo.maximum across dimensions = [1]
      : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<8xf32>) -> tensor<8x32xf32>
  %5 = stablehlo.subtract %2, %4 : tensor<8x32xf32>
  %6 = stablehlo.exponential %5 : tensor<8x32xf32>
  %7 = stablehlo.reduce(%6 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<8xf32>) -> tensor<8x32xf32>
  %9 = stablehlo.divide %6, %8 : tensor<8x32xf32>
  return %9 : tensor<8x32xf32>
}
"""


def test_layers_as_stablehlo_has_them(sides: Sider) -> None:
    both = sides(at_preprocessing(MODEL), LAYERS)
    assert both.graphs[0] == both.graphs[1]
    assert both.counts == (2, 2)


LINEAR_RELU = """
kernel linear(x: f32[m, k], w: f32[k, n], b: f32[n]) -> f32[m, n] { grid (m) cpu "linear.c" }
pattern linear_relu(x: tensor<m x k x f32>, w: tensor<k x n x f32>, b: tensor<n x f32>) {
  maximumf(addf(contract[mk, kn -> mn](x, w), broadcast[n -> m n](b)), 0.0)
}
replace linear_relu with linear(x, w, b)
"""


def test_a_constant_of_a_body_that_fills_a_tensor_too(sides: Sider) -> None:
    first, _, rest = MODEL.partition("  %low = ")
    model = (
        f"{first}  %c = stablehlo.constant dense<0.0> : tensor<8x32xf32>\n"
        "  %3 = stablehlo.maximum %2, %c : tensor<8x32xf32>\n  return %3 : tensor<8x32xf32>\n}\n"
    )
    assert rest
    program = at_preprocessing(model)
    assert "maximumf %in, %cst" in program
    assert sides(program, LINEAR_RELU).counts == (1, 1)


def test_other_constants_of_bodies_are_noted(sides: Sider) -> None:
    spec = LINEAR_RELU.replace("0.0)", "0.5)")
    rule = exported(spec).rules[0]
    assert len(rule.notes) == 1
    assert "not for programs of linalg ops" in rule.notes[0]
    assert all(m.covers.startswith("ops on tensors") for m in rule.matchers)
    assert not exported(LINEAR_RELU).rules[0].notes


# ---- no counterpart ----------------------------------------------------------------------------------------------


def gaps_of(spec: str) -> list[str]:
    return [str(gap) for _, gaps in exported(spec).gaps for gap in gaps]


KERNEL = 'kernel k(x: f32[m, n]) -> f32[m, n] { cpu "k.c" }\n'


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ("pattern p(x: tensor<m x n x f32>) { mulf(x, const(0.5..0.6)) }", "2:45: the range `const(0.5..0.6)`"),
        ("pattern p(x: tensor<m x n x f32>) { mulf(x, n) }", "2:45: the constant `n`"),
        ("pattern p(x: tensor<m x n x f32>) where m < n { negf(x) }", "2:41: the condition `m < n`"),
        ("pattern p(x: tensor<m x n x f32>) { absf(x), negf(x) }", "2:1: pattern 'p' has several results"),
        ('pattern p(x: tensor<m x n x f32>) { negf("a.b"(x)) }', '2:42: "a.b"'),
        ('pattern p(x: tensor<m x n x f32>) { "a.b"(x) {c = d} : tensor<m x n x f32> }', "2:47: the attribute `c`"),
        (
            "pattern p(x: tensor<m x n x f32>, i: i32) { sin(x) with i = 1 | exp(x) with i = 2 }",
            "3:1: `replace p with k`",
        ),
        ("pattern p(x: tensor<n x n x f32>) { negf(x) }", "2:11: the dim `n`: inputs share it although no op"),
        (
            "pattern p(x: tensor<m x n x f32>) { take[i n, m n -> m n](x, fptosi(x) : i32) }",
            "2:37: `take[i n, m n -> m n](x, fptosi(x) : ...`: programs read such elements in the body of an op",
        ),
        (
            "pattern p(x: tensor<m x n x f32>) { addf(x, band(0, 0, 1.0, 0.0) : tensor<m x n x f32>) }",
            "2:45: `band(0, 0, 1.0, 0.0) : tensor<m x n x...`: programs compute masks from indices",
        ),
        (
            "pattern p(x: tensor<m x n x f32>) { reduce addf[m n p -> m n](stack[m n, m n -> m n p](x, x)) }",
            "2:63: `stack[m n, m n -> m n p](x, x)`: programs insert tensors at offsets",
        ),
    ],
)
def test_what_has_no_counterpart_is_named_with_its_place(spec: str, named: str) -> None:
    uses = KERNEL if "several" not in named else 'kernel k(x: f32[m, n]) -> (f32[m, n], f32[m, n]) { cpu "k.c" }\n'
    found = gaps_of(f"{uses}{spec}\nreplace p with k(x)\n")
    assert len(found) == 1
    assert found[0].startswith(f"<text>:{named}")


ROW = """
    %row = arith.index_cast %i : i32 to index
    %n = linalg.index 1 : index
    %x = tensor.extract %w[%row, %n] : tensor<?x?xf32>"""
ROW_OF = f"""
  %r = linalg.generic {{indexing_maps = [{ROWS}, {BOTH}], iterator_types = ["parallel", "parallel"]}}
      ins(%ids : tensor<?xi32>) outs(%e : tensor<?x?xf32>) {{
  ^bb0(%i: i32, %o: f32):BODY
    linalg.yield %x : f32
  }} -> tensor<?x?xf32>"""
MARKING = """module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @match(%root: !transform.any_op {{transform.readonly}}) -> !transform.any_op {{
    %in, %out = transform.iree.match.cast_compatible_dag_from_root %root {{
    ^bb0({arguments}):{body}
    }} : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
    transform.yield %root : !transform.any_op
  }}
  transform.named_sequence @mark(%root: !transform.any_op {{transform.readonly}}) {{
    transform.annotate %root "marked" : !transform.any_op
    transform.yield
  }}
  transform.named_sequence @__transform_main(%module: !transform.any_op {{transform.consumed}}) {{
    %functions = transform.structured.match ops{{["util.func"]}} in %module : (!transform.any_op) -> !transform.any_op
    %0 = transform.foreach_match in %functions @match -> @mark : (!transform.any_op) -> !transform.any_op
    transform.yield
  }}
}}"""


@pytest.mark.parametrize(("body", "marks"), [(ROW, 0), ("\n    %x = arith.sitofp %i : i32 to f32", 1)])
def test_a_template_with_a_body_that_reads_a_tensor_never_holds(
    body: str, marks: int, context: ir.Context, tmp_path: Path
) -> None:
    """So `take` has no counterpart; if this changes with IREE, it may get one."""
    table, others = "%w: tensor<?x?xf32>", "%ids: tensor<?xi32>, %e: tensor<?x?xf32>"
    op = ROW_OF.replace("BODY", body)
    module = ir.Module.parse(function(f"{table}, {others}", "tensor<?x?xf32>", op), context=context)
    spec = MARKING.format(arguments=f"{table}, {others}" if body == ROW else others, body=op)
    (tmp_path / "spec.mlir").write_text(spec)
    interpreter.apply(module, tmp_path / "spec.mlir", lambda name, target: None)
    context.enable_multithreading(False)
    assert str(module).count("marked") == marks


def test_kernels_that_make_arguments_have_no_counterpart() -> None:
    (found,) = gaps_of(f"{KERNEL}pattern p(x: tensor<m x n x f32>) {{ negf(x) }}\nreplace p with k(k(x))\n")
    assert "`replace p with k`: a spec has one call of a kernel in the place of a match" in found


@pytest.mark.parametrize(
    ("run", "named"),
    [
        (
            'run "canonicalize" at input',
            '1:23: `run "canonicalize" at input`: IREE applies specs at phase preprocessing',
        ),
        (
            'run "canonicalize{top-down=false}" at preprocessing',
            '1:5: `run "canonicalize{top-down=false}" at preprocessing`: only names of passes',
        ),
    ],
)
def test_runs_without_a_counterpart_are_named(run: str, named: str) -> None:
    pattern = "pattern p(x: tensor<m x n x f32>) { negf(x) }\nreplace p with k(x)\n"
    found = gaps_of(f"{run}\n{KERNEL}{pattern}")
    assert len(found) == 1
    assert found[0].startswith(f"<text>:{named}")


def test_a_dim_that_inputs_share_is_not_left_to_the_program() -> None:
    """The result has m rows because y does; that x has as many columns no op says, and no matcher asks."""
    spec = """
    kernel k(x: f32[n, m], y: f32[m, n]) -> f32[m, n] { cpu "k.c" }
    pattern p(x: tensor<n x m x f32>, y: tensor<m x n x f32>) {
      addf(broadcast[n -> m n](reduce addf[n m -> n](x)), y)
    }
    replace p with k(x, y)
    """
    found = exported(spec)
    assert not found.rules
    assert "3:39: the dim `m`: inputs share it although no op makes their sizes equal" in str(found.gaps[0][1][0])
    known = exported(spec.replace("y: tensor<m x n x f32>) {", "y: tensor<m x n x f32>) where m == 8 {"))
    assert not known.gaps  # the templates' types say so


def test_runs_are_passes_before_matching(sides: Sider) -> None:
    """The template is of ops on tensors, and so is the program once constants are folded."""
    spec = """
    run "canonicalize, util.func(cse)" at preprocessing
    run "util.func(linalg-generalize-named-ops,canonicalize)" at preprocessing
    kernel k(x: f32[n]) -> f32[n] { cpu "k.c" }
    pattern p(x: tensor<n x f32>) { negf(absf(x)) }
    replace p with k(x)
    """
    found = exported(spec)
    assert not found.gaps
    passes = [line.split('"')[1] for line in found.text.splitlines() if "apply_registered_pass" in line]
    assert passes == ["canonicalize", "cse", "linalg-generalize-named-ops", "canonicalize"]
    body = """%c = arith.constant true
    %0 = math.absf %x : tensor<?xf32>
    %1 = scf.if %c -> tensor<?xf32> { scf.yield %0 : tensor<?xf32> } else { scf.yield %x : tensor<?xf32> }
    %r = arith.negf %1 : tensor<?xf32>"""
    ours, theirs = sides(function("%x: tensor<?xf32>", "tensor<?xf32>", body), spec, found).counts
    assert (ours, theirs) == (0, 1)  # `sides` runs no passes on our side


def test_a_condition_on_a_pack_of_several_dims_has_no_counterpart_but_one_dim_has() -> None:
    spec = """
    kernel k(x: f32[...m, n]) -> f32[...m, n] { cpu "k.c" }
    pattern p(x: tensor<...m x n x f32>) where m <= 8 { negf(x) }
    replace p with k(x)
    """
    found = exported(spec)
    assert [g.what for _, gaps in found.gaps for g in gaps] == ["the condition `m <= 8`"]
    assert {m.covers.rpartition(" ")[2] for m in found.rules[0].matchers} == {"0", "1"}


def test_the_rest_is_exported_all_the_same(sides: Sider) -> None:
    spec = TWO + KERNEL + "pattern p(x: tensor<m x n x f32>) { mulf(x, n) }\nreplace p with k(x)\n"
    found = exported(spec)
    assert [r.rule.pattern for r in found.rules] == ["larger", "smaller"]
    assert [rule.pattern for rule, _ in found.gaps] == ["p"]
    body = "%0 = math.exp %x : tensor<?xf32>\n%r = arith.negf %0 : tensor<?xf32>"
    assert sides(function("%x: tensor<?xf32>", "tensor<?xf32>", body), spec, found).counts == (1, 1)


def test_targets_that_the_compiler_is_to_keep(sides: Sider) -> None:
    arm = parse_target(TARGET.text.replace("x86_64", "aarch64"))
    spec = TWO.replace('cpu "small.c"', 'cpu x86_64 "small.c"')
    with pytest.raises(OpspliceError, match="no artifact for llvm-cpu embedded-elf-aarch64"):
        exported(spec, [TARGET, arm])
    kept = spec.replace("with small(x)", "with small(x) otherwise keep")
    found = exported(kept, [TARGET, arm])
    assert "cannot leave only some targets" in str(found.gaps[0][1][0])
    assert [r.rule.pattern for r in found.rules] == ["larger"]


REDUCE = """
kernel sum(x: f32[...m, n]) -> f32[...m] { cpu "k.c" }
pattern p(x: tensor<...m x n x f32>) { reduce addf[...m n -> ...m](x) }
replace p with sum(x)
"""


@pytest.mark.parametrize(
    ("body", "axis", "count"), [("%out, %in", 1, 1), ("%in, %out", 1, 1), ("%out, %in", 0, 0), ("%in, %in", 1, 0)]
)
def test_reductions_as_linalg_reduce(body: str, axis: int, count: int, sides: Sider) -> None:
    text = f"""%zero = arith.constant 0.0 : f32
    %e = tensor.empty(%n) : tensor<?xf32>
    %c = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    %r = linalg.reduce ins(%x : tensor<?x?xf32>) outs(%c : tensor<?xf32>) dimensions = [{axis}]
      (%in: f32, %out: f32) {{
        %s = arith.addf {body} : f32
        linalg.yield %s : f32
      }}"""
    program = function("%x: tensor<?x?xf32>, %n: index", "tensor<?xf32>", text)
    assert sides(program, REDUCE).counts == (count, count)


def test_reductions_of_several_axes_as_linalg_reduce(sides: Sider) -> None:
    spec = REDUCE.replace("[...m n -> ...m]", "[a m b -> m]").replace("tensor<...m x n x", "tensor<a x m x b x")
    spec = spec.replace("f32[...m, n]) -> f32[...m]", "f32[a, m, b]) -> f32[m]")
    text = """%zero = arith.constant 0.0 : f32
    %e = tensor.empty(%n) : tensor<?xf32>
    %c = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    %r = linalg.reduce { arith.addf } ins(%x : tensor<?x?x?xf32>) outs(%c : tensor<?xf32>) dimensions = [0, 2]"""
    assert sides(function("%x: tensor<?x?x?xf32>, %n: index", "tensor<?xf32>", text), spec).counts == (1, 1)


def test_bits_and_ranks_are_known_for_each_matcher(sides: Sider) -> None:
    spec = """
    kernel k(x: T[...m, n]) -> T[...m, n] { cpu "k.c" }
    pattern p<T in {f16, f32, f64}>(x: tensor<...m x n x T>) where bits(T) > 16 and rank(m) < 2 { negf(x) }
    replace p where bits(T) != 64 with k(x)
    """.replace("kernel k(", "kernel k<T in {f16, f32, f64}>(")
    found = exported(spec)
    assert not found.gaps
    covered = {m.covers.partition("; ")[2] for m in found.rules[0].matchers}
    assert covered == {f"T = f32; ...m of rank {rank}" for rank in (0, 1)}
    for kind, count in (("?xf32", 1), ("?x?xf32", 1), ("?x?x?xf32", 0), ("?xf16", 0), ("?xf64", 0)):
        program = function(f"%x: tensor<{kind}>", f"tensor<{kind}>", f"%r = arith.negf %x : tensor<{kind}>")
        assert sides(program, spec, found).counts == (count, count)


# ---- what rules write ------------------------------------------------------------------------------------------------

WRITTEN = """
mlir {
  util.func private @inner(%a: tensor<?xf32>) -> tensor<?xf32> {
    %0 = math.exp %a : tensor<?xf32>
    util.return %0 : tensor<?xf32>
  }
  util.func private @outer(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %0 = util.call @inner(%a) : (tensor<?xf32>) -> tensor<?xf32>
    %1 = arith.addf %0, %b : tensor<?xf32>
    util.return %1 : tensor<?xf32>
  }
}
pattern p(x: tensor<n x f32>, y: tensor<n x f32>) { negf(mulf(x, y)) }
pattern q(x: tensor<...n x f32>) where rank(n) <= 1 { tanh(x) }
pattern softsign(x: tensor<...n x f32>) { divf(x, addf(absf(x), 1.0)) }
replace p with mlir {
  %a = tensor.cast %x : $x to tensor<?xf32>
  %b = tensor.cast %y : $y to tensor<?xf32>
  %r = util.call @outer(%b, %a) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  yield %r : tensor<?xf32>
}
replace q with softsign(x)
"""


def test_what_rules_write_is_put_in_by_a_function(sides: Sider, context: ir.Context) -> None:
    kind = "tensor<?xf32>"
    program = f"""
    util.func public @f(%x: {kind}, %y: {kind}) -> ({kind}, {kind}) {{
      %0 = arith.mulf %x, %y : {kind}
      %1 = arith.negf %0 : {kind}
      %2 = math.tanh %1 : {kind}
      util.return %1, %2 : {kind}, {kind}
    }}"""
    spec = load_text(WRITTEN)
    made = exported(spec)
    assert not made.gaps
    found = sides(program, WRITTEN, made)
    assert found.graphs[0]["f"] == found.graphs[1]["f"]
    assert "util.call(argument 1, argument 0)" in found.graphs[1]["f"]
    assert "util.func private @inner" in str(found.theirs)
    assert "opsplice." not in made.text.replace("opsplice.rule", "")
    with context, ir.Location.unknown():
        back = import_spec(ir.Module.parse(made.text))
    assert not back.left_out
    assert back.text.count("util.call @opsplice_call_0_p_0") == 1


def test_a_rule_that_keeps_has_no_counterpart() -> None:
    found = exported(f"keep p where n == 8\n{REDUCE}")
    (gap,) = found.gaps[0][1]
    assert str(gap).endswith("`keep p`: a spec says what is replaced, not what stays")
