"""What a rule may do besides calling a kernel: MLIR of its own, attributes, passes; where and in which order."""

from __future__ import annotations

import re

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.spec_lang.syntax.spec_errors import SpecError

ABS = """
func.func @main(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %0 = math.absf %x : tensor<?x8xf32>
  %1 = arith.negf %0 : tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}
"""
PATTERN = "pattern p<T>(x: tensor<m x n x T>) { negf(absf(x)) }\n"
X = np.arange(16, dtype=np.float32).reshape(2, 8)

TWICE = """#include <stddef.h>
void twice(const float *x, float *out, size_t n) { for (size_t i = 0; i < n; ++i) out[i] = 2.0f * x[i]; }
"""


# ---- MLIR ------------------------------------------------------------------------------------------------------------


@pytest.mark.cell("inline IR", "CPU", "runs")
def test_mlir_in_the_place_of_a_match(spliced):
    rule = """replace p with mlir {
      %one = arith.constant 1.0 : $T
      %empty = tensor.empty(%m) : tensor<${m}x${n}x$T>
      %ones = linalg.fill ins(%one : $T) outs(%empty : $x) -> $x
      %sum = arith.addf %x, %ones : $result
      yield %sum
    }"""
    program = spliced(ABS, PATTERN + rule, {})
    np.testing.assert_array_equal(program.run("main", X), X + 1)
    assert [(r.action, r.kernel, r.round) for r in program.report.replacements] == [("inline", "mlir", 0)]


def test_mlir_in_the_place_of_one_result_of_an_op_that_stays_for_its_other(spliced):
    """The op computes the result that was replaced as before, but nothing uses it."""
    program = """
    func.func @main(%x: tensor<6xf32>) -> (tensor<f32>, tensor<i64>) {
      %least = arith.constant 0xFF800000 : f32
      %zero = arith.constant 0 : i64
      %floats = tensor.empty() : tensor<f32>
      %places = tensor.empty() : tensor<i64>
      %start = linalg.fill ins(%least : f32) outs(%floats : tensor<f32>) -> tensor<f32>
      %first = linalg.fill ins(%zero : i64) outs(%places : tensor<i64>) -> tensor<i64>
      %found:2 = linalg.generic {
        indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> ()>],
        iterator_types = ["reduction"]
      } ins(%x : tensor<6xf32>) outs(%start, %first : tensor<f32>, tensor<i64>) {
      ^bb0(%new: f32, %best: f32, %at: i64):
        %index = linalg.index 0 : index
        %place = arith.index_cast %index : index to i64
        %max = arith.maximumf %new, %best : f32
        %larger = arith.cmpf ogt, %new, %best : f32
        %chosen = arith.select %larger, %place, %at : i64
        linalg.yield %max, %chosen : f32, i64
      } -> (tensor<f32>, tensor<i64>)
      return %found#0, %found#1 : tensor<f32>, tensor<i64>
    }
    """
    spec = """pattern largest(x: tensor<n x f32>) { reduce maximumf[n -> ](x) }
    replace largest with mlir {
      %r = arith.constant dense<7.0> : tensor<f32>
      yield %r
    }"""
    made = spliced(program, spec, {})
    assert [r.pattern for r in made.report.replacements] == ["largest"]
    largest, place = made.run("main", np.array([1, 5, 2, 9, 9, 3], np.float32))
    assert (float(largest), int(place)) == (7.0, 3)


def test_a_rule_for_some_sizes_is_not_asked_again_about_the_others_when_another_rule_writes_mlir(tmp_path):
    (tmp_path / "model.mlir").write_text("""
    func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
      %0 = math.absf %x : tensor<?xf32>
      %1 = math.ceil %y : tensor<?xf32>
      return %0, %1 : tensor<?xf32>, tensor<?xf32>
    }
    """)
    (tmp_path / "twice.c").write_text(TWICE)
    spec = tmp_path / "sizes.splice"
    spec.write_text("""
    kernel twice(x: f32[n]) -> f32[n] { cpu "twice.c" }
    pattern p(x: tensor<n x f32>) { absf(x) }
    pattern q(x: tensor<n x f32>) { ceil(x) }
    replace p when n >= 4 with twice(x)
    replace q with mlir {
      %r = math.floor %x : $x
      yield %r : $x
    }
    """)
    program = opsplice.compile(tmp_path / "model.mlir", specs=[spec])
    assert [(r.pattern, r.round) for r in program.report.replacements] == [("p", 0), ("q", 0)]
    for x, expected in ((X[0, :2] - 1, [1, 0]), (X[0, :5] - 1, [-2, 0, 2, 4, 6])):
        first, second = program.run("main", x, x + 0.5)
        np.testing.assert_array_equal(first, np.array(expected, np.float32))
        np.testing.assert_array_equal(second, np.floor(x + 0.5))
    spec.write_text(spec.read_text().partition("replace q")[0])
    module, _ = opsplice.transform(tmp_path / "model.mlir", specs=[spec])
    assert "scf.if" in str(module)
    assert "written_by" not in str(module)


@pytest.mark.parametrize(
    ("type_", "made"), [("tensor<?x8xi32>", "tensor<?x8xi32>"), ("tensor<3x8xf32>", None), ("tensor<4x3xf32>", "4x3")]
)
def test_mlir_yields_what_it_takes_the_place_of(spliced, type_, made):
    """A size that the program does not know may be known in MLIR."""
    model = ABS if made != "4x3" else ABS.replace("?x8", "2x8")
    op = "arith.fptosi %x : $x to" if "i32" in type_ else "arith.constant dense<3.0> :"
    rule = f"replace p with mlir {{\n  %r = {op} {type_}\n  yield %r : {type_}\n}}"
    if made is None:
        np.testing.assert_array_equal(spliced(model, PATTERN + rule, {}).run("main", np.zeros((3, 8), np.float32)), 3)
        return
    with pytest.raises(OpspliceError, match=re.escape(f"a rule yields {type_} for tensor<")) as error:
        spliced(model, PATTERN + rule, {})
    assert f":4: yield %r : {type_}" in str(error.value)


def test_mlir_with_symbols_of_the_spec(spliced):
    spec = f"""mlir {{
      util.func private @double(%a: tensor<?x8xf32>) -> tensor<?x8xf32> {{
        %0 = arith.addf %a, %a : tensor<?x8xf32>
        util.return %0 : tensor<?x8xf32>
      }}
    }}
    {PATTERN}
    replace p with mlir {{
      %r = util.call @double(%x) : ($x) -> tensor<?x8xf32>
      yield %r
    }}"""
    np.testing.assert_array_equal(spliced(ABS, spec, {}).run("main", X), X + X)


@pytest.mark.parametrize("phase", ["start", "preprocessing", "global-optimization"])
def test_mlir_of_ops_on_tensors_at_a_phase(spliced, phase):
    """The compiler takes no elementwise ops on tensors any more when it has optimized the whole program."""
    code = f"mlir {{\n{_function('plus', 'arith.negf', 'arith.negf')}}}\n"
    call = "%c = util.call @plus(%s) : (tensor<?x8xf32>) -> tensor<?x8xf32>"
    rule = f"""replace p at {phase} with mlir {{
      %s = arith.addf %x, %x : tensor<?x8xf32>
      {call}
      %r = math.sqrt %c : tensor<?x8xf32>
      yield %r : tensor<?x8xf32>
    }}"""
    program = spliced(ABS, code + PATTERN + rule, {})
    np.testing.assert_allclose(program.run("main", np.abs(X)), np.sqrt(2 * np.abs(X)), rtol=1e-6)
    assert len(program.report.replacements) == 1


def _function(name, *ops):
    values = ["%a", *(f"%v{i}" for i in range(len(ops)))]
    lines = [f"{values[i + 1]} = {op} {values[i]} : tensor<?x8xf32>" for i, op in enumerate(ops)]
    kind = "tensor<?x8xf32>"
    body = "\n".join(lines)
    return f"util.func private @{name}(%a: {kind}) -> {kind} {{\n{body}\nutil.return {values[-1]} : {kind}\n}}\n"


def _calling(pattern, name):
    call = f"%r = util.call @{name}(%x) : ($x) -> tensor<?x8xf32>"
    return f"replace {pattern} with mlir {{\n{call}\nyield %r\n}}\n"


def test_mlir_is_not_put_into_what_it_calls(spliced):
    code = f"mlir {{\n{_function('same', 'math.absf', 'arith.negf', 'arith.negf')}}}\n"
    program = spliced(ABS, code + PATTERN + _calling("p", "same"), {})
    np.testing.assert_array_equal(program.run("main", X), X)
    assert [(r.function, r.lost) for r in program.report.replacements] == [("main", False)]


def test_mlir_of_two_rules_closes_no_circle(spliced):
    first, second = _function("first", "math.absf", "math.sqrt"), _function("second", "math.absf", "arith.negf")
    other = "pattern q<T>(x: tensor<m x n x T>) { sqrt(absf(x)) }\n"
    spec = f"mlir {{\n{first}{second}}}\n{PATTERN}{other}{_calling('p', 'first')}{_calling('q', 'second')}"
    program = spliced(ABS, spec, {})
    np.testing.assert_array_equal(program.run("main", X), np.sqrt(X))


def test_mlir_with_scalars_and_several_results(spliced):
    model = """
    func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
      %c = arith.constant dense<3.0> : tensor<8xf32>
      %0 = arith.mulf %x, %c : tensor<8xf32>
      %1 = math.absf %0 : tensor<8xf32>
      %2 = arith.negf %0 : tensor<8xf32>
      return %1, %2 : tensor<8xf32>, tensor<8xf32>
    }"""
    spec = """pattern p(x: tensor<n x f32>, s: f32) {
      y = mulf(x, s)
      absf(y), negf(y)
    }
    replace p with mlir {
      %t = tensor.splat %s : tensor<${n}xf32>
      %a = arith.addf %x, %t : $result0
      %b = arith.subf %x, %t : $result1
      yield %a, %b
    }"""
    x = np.arange(8, dtype=np.float32)
    first, second = spliced(model, spec, {}).run("main", x)
    np.testing.assert_array_equal(first, x + 3)
    np.testing.assert_array_equal(second, x - 3)


@pytest.mark.parametrize(
    ("mlir", "message"),
    [
        ("%r = math.nothing %x : $x\n yield %r", r"spec.splice:2: custom op 'math.nothing' is unknown"),
        ("%r = math.absf %y : $x\n yield %r", r"use of undeclared SSA value name"),
        ("%r = tensor.empty() : tensor<4xf32>\n yield %r", r"spec.splice:3: use of value '%r' expects different type"),
        ("%r = util.call @nobody(%x) : ($x) -> $x\n yield %r", r"undefined.*nobody"),
    ],
)
def test_mlir_that_is_wrong(spliced, mlir, message):
    with pytest.raises(OpspliceError, match="the MLIR of a rule is wrong") as error:
        spliced(ABS, PATTERN + "replace p with mlir { " + mlir + " }", {})
    assert re.search(message, error.value.details)


@pytest.mark.parametrize(
    ("mlir", "message"),
    [
        ("%r = math.absf %x : $z\n yield %r", r"\$z stands for nothing"),
        ("%r = math.absf %x : tensor<$mx8xf32>\n yield %r", r"\$mx8xf32 stands for nothing"),
        ("%r = math.absf %x : $x", "yields nothing"),
    ],
)
def test_mlir_that_the_checker_refuses(spliced, mlir, message):
    with pytest.raises(SpecError) as error:
        spliced(ABS, PATTERN + "replace p with mlir { " + mlir + " }", {})
    assert re.search(message, error.value.details)


def test_a_symbol_that_the_program_has_too(spliced):
    spec = "mlir { util.func private @main() { util.return } }\n" + PATTERN
    with pytest.raises(OpspliceError, match="the program has a symbol @main already"):
        spliced(ABS, spec + "replace p with mlir { yield %x }", {})


# ---- chains, priorities ----------------------------------------------------------------------------------------------


def test_a_rule_matches_what_another_wrote(spliced):
    spec = f"""{PATTERN}
    pattern exps(x: tensor<m x n x f32>) {{ exp(x) }}
    replace p with mlir {{
      %r = math.exp %x : $x
      yield %r
    }}
    replace exps with mlir {{
      %r = math.tanh %x : $x
      yield %r
    }}"""
    program = spliced(ABS, spec, {})
    np.testing.assert_allclose(program.run("main", X), np.tanh(X), rtol=1e-5)
    assert [(r.pattern, r.round) for r in program.report.replacements] == [("p", 0), ("exps", 1)]
    assert not program.report.unmatched


def test_what_would_match_is_what_does_in_chains_of_rules(tmp_path):
    """One place is a kernel's, which is chosen once; what is written at the other is matched again, and once more."""
    model = """
    func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
      %0 = math.tanh %x : tensor<8xf32>
      %1 = math.exp %x : tensor<8xf32>
      return %0, %1 : tensor<8xf32>, tensor<8xf32>
    }"""
    spec = """
    kernel twice(x: f32[n]) -> f32[n] { cpu "twice.c" }
    pattern a(x: tensor<n x f32>) { tanh(x) }
    pattern b(x: tensor<n x f32>) { absf(negf(x)) }
    pattern c(x: tensor<n x f32>) { floor(x) }
    pattern d(x: tensor<n x f32>) { exp(x) }
    pattern e(x: tensor<n x f32>) { ceil(x) }
    replace a with b(x)
    replace b with c(x)
    replace c with twice(x)
    replace d with twice(x)
    replace e with twice(x)"""
    (tmp_path / "twice.c").write_text(TWICE)
    path = tmp_path / "spec.splice"
    path.write_text(spec)
    would, did = opsplice.match(model, [path]), opsplice.compile(model, [path]).report
    assert [(r.pattern, r.round) for r in did.replacements] == [("a", 0), ("d", 0), ("b", 1), ("c", 2)]
    assert [(r.pattern, r.round) for r in would.replacements] == [(r.pattern, r.round) for r in did.replacements]
    assert [u.pattern for u in would.unmatched] == [u.pattern for u in did.unmatched] == ["e"]


def test_no_rule_is_applied_to_what_it_wrote(spliced):
    spec = """
    pattern q(x: tensor<m x n x f32>) { absf(x) }
    pattern e(x: tensor<m x n x f32>) { exp(x) }
    replace q with mlir { %a = math.absf %x : $x
      %r = math.exp %a : $x
      yield %r }
    replace e with mlir { %a = math.exp %x : $x
      %r = math.absf %a : $x
      yield %r }"""
    program = spliced(ABS, spec, {})
    assert [(r.pattern, r.round) for r in program.report.replacements] == [("q", 0), ("e", 1)]
    np.testing.assert_allclose(program.run("main", X), -np.exp(X), rtol=1e-5)


# ---- patterns written out --------------------------------------------------------------------------------------------


def test_a_pattern_in_the_place_of_another(spliced):
    spec = f"""{PATTERN}
    pattern relu6<S>(y: tensor<...a x S>) {{ minimumf(maximumf(y, 0.0), 6.0) }}
    replace p with relu6(x)"""
    program = spliced(ABS, spec, {})
    np.testing.assert_array_equal(program.run("main", X - 4), np.clip(X - 4, 0, 6))
    assert [(r.kernel, r.action) for r in program.report.replacements] == [("relu6", "inline")]


def test_a_pattern_for_dims_of_size_one_more(spliced):
    model = """
    func.func @main(%x: tensor<1x?x8xf32>, %w: tensor<1x8x4xf32>) -> tensor<1x?x4xf32> {
      %c1 = arith.constant 1 : index
      %d = tensor.dim %x, %c1 : tensor<1x?x8xf32>
      %e = tensor.empty(%d) : tensor<1x?x4xf32>
      %z = arith.constant 0.0 : f32
      %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
      %r = linalg.batch_matmul ins(%x, %w : tensor<1x?x8xf32>, tensor<1x8x4xf32>) outs(%f : tensor<1x?x4xf32>)
        -> tensor<1x?x4xf32>
      return %r : tensor<1x?x4xf32>
    }"""
    spec = """
    pattern linear(x: tensor<m x k x f32>, w: tensor<k x n x f32>) { contract[mk, kn -> mn](x, w) }
    pattern twice(x: tensor<m x k x f32>, w: tensor<k x n x f32>, s: f32) { mulf(linear(x, w), s) }
    replace linear with twice(x, w, 2.0)"""
    program = spliced(model, spec, {})
    w = np.arange(32, dtype=np.float32).reshape(1, 8, 4)
    np.testing.assert_allclose(program.run("main", X[None], w), 2 * X[None] @ w)
    assert [r.round for r in program.report.replacements] == [0]


def test_a_pattern_with_reductions(spliced):
    spec = f"""{PATTERN}
    pattern softmax<S>(x: tensor<...a x b x S>) {{
      e = exp(subf(x, broadcast[...a -> ...a b](reduce maximumf[...a b -> ...a](x))))
      divf(e, broadcast[...a -> ...a b](reduce addf[...a b -> ...a](e)))
    }}
    replace p with softmax(x)"""
    e = np.exp(X - X.max(-1, keepdims=True))
    np.testing.assert_allclose(spliced(ABS, spec, {}).run("main", X), e / e.sum(-1, keepdims=True), rtol=1e-5)


def test_a_pattern_that_cannot_be_written(spliced):
    spec = f"""{PATTERN}
    pattern near<S>(x: tensor<m x n x S>) {{ mulf(x, const(0.5..0.6)) }}
    replace p with near(x)"""
    with pytest.raises(OpspliceError, match="pattern 'near' cannot be written as ops"):
        spliced(ABS, spec, {})


def test_a_constant_of_a_pack_cannot_be_written(spliced):
    spec = f"""{PATTERN}
    pattern wide<S>(x: tensor<...a x b x S>) {{ mulf(x, const(a * b)) }}
    replace p with wide(x)"""
    with pytest.raises(OpspliceError) as error:
        spliced(ABS, spec, {})
    assert "the constant `a * b`: a matcher compares constants exactly, and a may be any" in str(error.value.details)


def test_of_alternatives_the_first_is_written(spliced):
    spec = f"""{PATTERN}
    pattern either<S>(x: tensor<m x n x S>) {{ negf(exp(x) | tanh(x)) }}
    replace p with either(x)"""
    np.testing.assert_allclose(spliced(ABS, spec, {}).run("main", X), -np.exp(X), rtol=1e-5)


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        ("x, x, 0", lambda x: -(x + x)),
        ("x, x, 2", lambda x: np.exp(-(x + x))),
        ("x, x, 1", lambda x: np.tanh(-(x + x))),
    ],
)
def test_the_alternative_that_is_asked_for_is_written(spliced, args, wanted):
    spec = f"""{PATTERN}
    pattern either<S>(x: tensor<m x n x S>, y: tensor<m x n x S>, kind: i32 = 0) {{
      z = negf(x | addf(x, y))
      z | tanh(z) with kind = 1 | exp(z) with kind = 2
    }}
    replace p with either({args})"""
    np.testing.assert_allclose(spliced(ABS, spec, {}).run("main", X), wanted(X), rtol=1e-5)


def test_a_pattern_for_dims_that_are_one_in_some_tensors(spliced):
    """A batch of unknown size and its heads: one dim in q, two in k."""
    model = """
    func.func @main(%v: tensor<?x4x5x8xf32>) -> tensor<?x5x5xf32> {
      %c0 = arith.constant 0 : index
      %c4 = arith.constant 4 : index
      %z = arith.constant 0.0 : f32
      %b = tensor.dim %v, %c0 : tensor<?x4x5x8xf32>
      %n = arith.muli %b, %c4 : index
      %e = math.exp %v : tensor<?x4x5x8xf32>
      %q = tensor.collapse_shape %e [[0, 1], [2], [3]] : tensor<?x4x5x8xf32> into tensor<?x5x8xf32>
      %s = tensor.empty(%b) : tensor<?x4x8x5xf32>
      %t = linalg.transpose ins(%v : tensor<?x4x5x8xf32>) outs(%s : tensor<?x4x8x5xf32>) permutation = [0, 1, 3, 2]
      %k = tensor.collapse_shape %t [[0, 1], [2], [3]] : tensor<?x4x8x5xf32> into tensor<?x8x5xf32>
      %o = tensor.empty(%n) : tensor<?x5x5xf32>
      %f = linalg.fill ins(%z : f32) outs(%o : tensor<?x5x5xf32>) -> tensor<?x5x5xf32>
      %r = linalg.batch_matmul ins(%q, %k : tensor<?x5x8xf32>, tensor<?x8x5xf32>)
        outs(%f : tensor<?x5x5xf32>) -> tensor<?x5x5xf32>
      return %r : tensor<?x5x5xf32>
    }"""
    inputs = "(q: tensor<...b x s x d x f32>, k: tensor<...b x t x d x f32>)"
    spec = f"""pattern p{inputs} {{ contract[...b s d, ...b t d -> ...b s t](q, k) }}
    pattern r{inputs} {{ transpose[...b t s -> ...b s t](contract[...b t d, ...b s d -> ...b t s](k, q)) }}
    replace p with r(q, k)"""
    program = spliced(model, spec, {})
    assert [r.pattern for r in program.report.replacements] == ["p"]
    v = np.arange(3 * 4 * 5 * 8, dtype=np.float32).reshape(3, 4, 5, 8) / 480
    expected = np.einsum("bhsd,bhtd->bhst", np.exp(v), v).reshape(12, 5, 5)
    np.testing.assert_allclose(program.run("main", v), expected, rtol=1e-5)


# `v` is a reshape of a tensor of rank 2.
GROUPED = """
func.func @main(%a: tensor<2x3xf32>, %c: tensor<2x5xf32>) -> tensor<2x6x5xf32> {
  %e = tensor.empty() : tensor<2x3x2x5xf32>
  %b = linalg.broadcast ins(%a : tensor<2x3xf32>) outs(%e : tensor<2x3x2x5xf32>) dimensions = [2, 3]
  %g = tensor.collapse_shape %b [[0, 1, 2], [3]] : tensor<2x3x2x5xf32> into tensor<12x5xf32>
  %x = math.exp %g : tensor<12x5xf32>
  %n = math.absf %x : tensor<12x5xf32>
  %s = tensor.expand_shape %n [[0, 1], [2]] output_shape [2, 6, 5] : tensor<12x5xf32> into tensor<2x6x5xf32>
  %w = tensor.empty() : tensor<2x6x5xf32>
  %m = linalg.broadcast ins(%c : tensor<2x5xf32>) outs(%w : tensor<2x6x5xf32>) dimensions = [1]
  %r = arith.subf %s, %m : tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}"""
FROM_TWO = """#include <stddef.h>
void less(const float *v, const float *c, float *out, size_t b, size_t h, size_t n) {
  for (size_t i = 0; i < b; ++i)
    for (size_t j = 0; j < h; ++j)
      for (size_t k = 0; k < n; ++k) out[(i * h + j) * n + k] = v[(i * h + j) * n + k] - c[i * n + k];
}
"""


@pytest.mark.parametrize(
    ("action", "files"),
    [
        ("less(v, c)", {"k.c": FROM_TWO}),
        ("q(v, c)", {}),
        (
            """mlir {
      %e = tensor.empty() : tensor<2x6x5x$T>
      %all = linalg.broadcast ins(%c : $c) outs(%e : tensor<2x6x5x$T>) dimensions = [1]
      %d = arith.subf %v, %all : $v
      yield %d
    }""",
            {},
        ),
    ],
    ids=["a kernel", "a pattern", "MLIR"],
)
def test_an_input_that_is_a_reshape_of_a_value(spliced, action, files):
    spec = """
    pattern p<T>(v: tensor<b x h x n x T>, c: tensor<b x n x T>) { subf(absf(v), broadcast[b n -> b h n](c)) }
    pattern q<T>(v: tensor<b x h x n x T>, c: tensor<b x n x T>) { subf(v, broadcast[b n -> b h n](c)) }
    """
    if files:
        spec += 'kernel less(v: f32[b, h, n], c: f32[b, n]) -> f32[b, h, n] { cpu "k.c" as bitcode }\n'
    program = spliced(GROUPED, f"{spec}replace p with {action}", files)
    assert [r.pattern for r in program.report.replacements] == ["p"]
    a, c = (np.random.default_rng(n).standard_normal(s).astype(np.float32) for n, s in ((0, (2, 3)), (1, (2, 5))))
    grouped = np.broadcast_to(np.exp(a)[:, :, None, None], (2, 3, 2, 5)).reshape(2, 6, 5)
    np.testing.assert_allclose(program.run("main", a, c), grouped - c[:, None], rtol=1e-5)


@pytest.mark.parametrize("action", ["q(x)", "twice(x)"], ids=["a pattern", "a kernel"])
def test_an_input_read_before_and_after_a_transpose(spliced, action):
    model = """
    func.func @main(%x: tensor<4x6x8xf32>) -> tensor<6x4x8xf32> {
      %i = arith.constant dense<0.0> : tensor<4x6xf32>
      %et = tensor.empty() : tensor<6x4x8xf32>
      %ep = tensor.empty() : tensor<6x4xf32>
      %s = linalg.reduce {arith.addf} ins(%x : tensor<4x6x8xf32>) outs(%i : tensor<4x6xf32>) dimensions = [2]
      %xt = linalg.transpose ins(%x : tensor<4x6x8xf32>) outs(%et : tensor<6x4x8xf32>) permutation = [1, 0, 2]
      %st = linalg.transpose ins(%s : tensor<4x6xf32>) outs(%ep : tensor<6x4xf32>) permutation = [1, 0]
      %sb = linalg.broadcast ins(%st : tensor<6x4xf32>) outs(%et : tensor<6x4x8xf32>) dimensions = [2]
      %r = arith.subf %xt, %sb : tensor<6x4x8xf32>
      return %r : tensor<6x4x8xf32>
    }"""
    spec = """
    pattern p(x: tensor<...m x n x f32>) { subf(x, broadcast[...m -> ...m n](reduce addf[...m n -> ...m](x))) }
    pattern q(x: tensor<...m x n x f32>) { addf(x, x) }
    kernel twice(x: f32[...m, n]) -> f32[...m, n] { cpu "k.c" as bitcode }
    """
    code = TWICE.replace("size_t n)", "size_t m, size_t n)").replace("i < n", "i < m * n")
    program = spliced(model, f"{spec}replace p with {action}", {"k.c": code})
    assert [r.pattern for r in program.report.replacements] == ["p"]
    x = np.arange(4 * 6 * 8, dtype=np.float32).reshape(4, 6, 8)
    np.testing.assert_array_equal(program.run("main", x), 2 * x.transpose(1, 0, 2))


def test_a_pattern_that_makes_another_type_leaves_the_match_alone(spliced):
    """Through casts, what ends in f16 matches for an input of f32."""
    model = """
    func.func @main(%x: tensor<8xf32>) -> tensor<8xf16> {
      %0 = arith.truncf %x : tensor<8xf32> to tensor<8xf16>
      %1 = math.absf %0 : tensor<8xf16>
      %2 = arith.negf %1 : tensor<8xf16>
      return %2 : tensor<8xf16>
    }"""
    spec = """pattern p(x: tensor<n x f32>) through cast { negf(absf(x)) }
    pattern q(x: tensor<n x f32>) { negf(absf(x)) }
    replace p with q(x)"""
    program = spliced(model, spec, {})
    assert [left.reason for left in program.report.kept] == ["pattern q makes f32, and the result is f16"]
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    np.testing.assert_array_equal(program.run("main", x), -np.abs(x.astype(np.float16)))


def test_a_scalar_of_another_float_type_is_cast_where_a_pattern_is_written(spliced):
    spec = """pattern p<T>(x: tensor<m x n x T>) { negf(absf(x)) }
    pattern q<T in {f16}>(x: tensor<n x T>, s: f32) through cast { mulf(x, s) }
    pattern r(x: tensor<n x f16>, s: f32) through cast { mulf(s, absf(x)) }
    replace r with q(x, s)"""
    model = """
    func.func @main(%x: tensor<8xf16>) -> tensor<8xf16> {
      %c = arith.constant dense<2.0> : tensor<8xf32>
      %0 = math.absf %x : tensor<8xf16>
      %1 = arith.extf %0 : tensor<8xf16> to tensor<8xf32>
      %2 = arith.mulf %1, %c : tensor<8xf32>
      %3 = arith.truncf %2 : tensor<8xf32> to tensor<8xf16>
      return %3 : tensor<8xf16>
    }"""
    program = spliced(model, spec, {})
    assert [done.rule for done in program.report.replacements] == ["replace r with q"]
    x = np.linspace(-1, 1, 8, dtype=np.float16)
    np.testing.assert_array_equal(program.run("main", x), 2 * x)  # as q says, not r


SIGNED = """
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %z = arith.constant dense<-0.0> : tensor<8xf32>
  %0 = math.copysign %x, %z : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""


@pytest.mark.parametrize(
    "rule",
    [
        "replace p with q(s, x)",
        "replace p with q(-0.0, x)",  # of the type that x says, which comes later
        "replace p with mlir {\n %0 = tensor.splat %s : tensor<8x$T>\n yield %0 }",
        "replace p with k(x, s)",
        "replace p with k(x, -0.0)",
    ],
)
def test_minus_zero_keeps_its_sign(spliced, rule):
    spec = f"""kernel k(x: f32, s: f32) -> f32 {{ cpu "k.c" as bitcode }}
    pattern q<S>(z: S, y: tensor<...a x S>) {{ addf(mulf(y, 0.0), z) }}
    pattern p<T>(x: tensor<n x T>, s: T) {{ copysign(x, s) }}
    {rule}"""
    program = spliced(SIGNED, spec, {"k.c": "float k(float x, float s) { return s; }"})
    made = program.run("main", np.full(8, -1.0, np.float32))
    assert len(program.report.replacements) == 1
    assert np.signbit(made).all()


@pytest.mark.parametrize(
    ("pattern", "given", "message"),
    [
        ("addf(y, 1e39)", "x", "the constant `1e39`: f32 cannot hold it"),
        ("addf(y, z)", "x, 1e39", "f32 cannot hold 1e+39"),
    ],
)
def test_a_number_that_the_written_ops_cannot_hold(spliced, pattern, given, message):
    spec = f"""{PATTERN}
    pattern q<S>(y: tensor<...a x S>{", z: S" if "z" in pattern else ""}) {{ {pattern} }}
    replace p with q({given})"""
    with pytest.raises(OpspliceError) as error:
        spliced(ABS, spec, {})
    assert message in f"{error.value}\n{error.value.details}"


def test_a_reduction_that_is_written_without_a_start(spliced):
    spec = """pattern p(x: tensor<m x n x f32>) { negf(absf(x)) }
    pattern q(y: tensor<m x n x f32>) {
      mulf(y, broadcast[m -> m n](accumulated(reduce addf[m n -> m](y))))
    }
    replace p with q(x)"""
    with pytest.raises(OpspliceError, match="nothing says what a reduction starts from"):
        spliced(ABS, spec, {})


def test_an_op_by_name_that_is_written_without_what_it_needs(spliced):
    spec = f"""{PATTERN}
    pattern q<S>(y: tensor<a x b x S>) {{ "tensor.concat"(y, y) : tensor<a x b x S> }}
    replace p with q(x)"""
    with pytest.raises(OpspliceError, match="cannot be written as ops") as error:
        spliced(ABS, spec, {})
    assert "requires attribute 'dim'" in error.value.details


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("replace p with q(x, x)", "q takes 1 argument, found 2"),
        ("replace p with q(y)", "the pattern has no y"),
        ("replace p with q(2)", "2 is a number, and y is a tensor"),
        ("replace p with wide(x)", "x: tensor<m x n x T> does not fit y: tensor<a x b x f64>"),
        ("replace p with rows(x)", "rows makes tensor<m x T> here, and p is tensor<m x n x T>"),
        ("replace p with two(x)", "two makes 2 results, and p has 1"),
    ],
)
def test_patterns_that_do_not_fit(spliced, rule, message):
    spec = f"""{PATTERN}
    pattern q<S>(y: tensor<...a x S>) {{ negf(y) }}
    pattern wide(y: tensor<a x b x f64>) {{ negf(y) }}
    pattern rows<S>(y: tensor<a x b x S>) {{ reduce addf[a b -> a](y) }}
    pattern two<S>(y: tensor<a x b x S>) {{ negf(y), absf(y) }}
    {rule}"""
    with pytest.raises(SpecError) as error:
        spliced(ABS, spec, {})
    assert message in error.value.details


@pytest.mark.parametrize(("priority", "expected"), [("", X + X), ("priority 1", X)])
def test_priority_goes_before_order(spliced, priority, expected):
    spec = f"""{PATTERN}
    replace p with mlir {{ %r = arith.addf %x, %x : $x
      yield %r }}
    replace p {priority} with mlir {{ yield %x }}"""
    np.testing.assert_array_equal(spliced(ABS, spec, {}).run("main", X), expected)


# ---- attributes and passes -------------------------------------------------------------------------------------------


def test_attributes_are_set(spliced, folder):
    spec = PATTERN + 'annotate p where n == 8 with {my.unit, my.int = 3, my.text = "a", my.list = [1, 2], my.on = true}'
    module, report = opsplice.transform(ABS, [write(folder, spec)])
    assert '{my.int = 3 : i64, my.list = array<i64: 1, 2>, my.on = true, my.text = "a", my.unit}' in str(module)
    assert [r.action for r in report.replacements] == ["annotate"]


def test_attributes_take_nothing_away(spliced):
    spec = PATTERN + "annotate p with {my.tag}\nreplace p with mlir { yield %x }"
    program = spliced(ABS, spec, {})
    assert [r.action for r in program.report.replacements] == ["inline", "annotate"]


def test_attributes_as_mlir_writes_them(folder):
    spec = PATTERN + 'annotate p with {my.config = mlir "{sizes = [1 : i32, 2 : i32]}"}'
    module, _ = opsplice.transform(ABS, [write(folder, spec)])
    assert "my.config = {sizes = [1 : i32, 2 : i32]}" in str(module)
    with pytest.raises(OpspliceError, match=r"not an attribute of MLIR: \{sizes = ") as error:
        opsplice.transform(ABS, [write(folder, PATTERN + 'annotate p with {my.config = mlir "{sizes = "}')])
    assert re.search(r"splice:\d+:\d+: ", error.value.details)


def test_the_first_rule_that_sets_an_attribute_wins(folder):
    rules = "annotate p with {my.a = 1}\nannotate p with {my.a = 2, my.b}\nannotate p with {my.b = 3}"
    module, report = opsplice.transform(ABS, [write(folder, PATTERN + rules)])
    assert "{my.a = 1 : i64, my.b}" in str(module)  # of the second rule the rest is set
    first, second = report.kept
    assert first.lost
    assert second.lost
    assert first.reason.startswith("my.a is set by the rule at")
    assert second.reason.startswith("my.b is set by the rule at")
    assert [r.action for r in report.replacements] == ["annotate", "annotate"]


REWRITTEN = """
pattern cosine(x: tensor<m x n x f32>) { cos(x) }
pattern either(x: tensor<m x n x f32>) { cos(x) | tanh(x) }
pattern root(x: tensor<m x n x f32>) { sqrt(x) }
replace p with cosine(x)
replace cosine with mlir {
  %r = math.tanh %x : $x
  %s = math.sqrt %r : $x
  yield %s
}
annotate root with {my.seen = 1, my.root}
annotate either with {my.seen = 2}
"""


def test_annotations_see_what_rules_wrote(folder):
    spec = write(folder, PATTERN.replace("<T>", "").replace("T>", "f32>") + REWRITTEN)
    program = """func.func @main(%x: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
      %0 = math.absf %x : tensor<?x8xf32>
      %1 = arith.negf %0 : tensor<?x8xf32>
      %2 = math.sqrt %x : tensor<?x8xf32>
      return %1, %2 : tensor<?x8xf32>, tensor<?x8xf32>
    }"""
    module, report = opsplice.transform(program, [spec])
    lines = [line.strip() for line in str(module).splitlines() if "math." in line]
    seen = sorted((line.split()[2], line.partition("{")[2].partition("}")[0]) for line in lines)
    root = "my.root, my.seen = 1 : i64"
    assert seen == [("math.sqrt", root), ("math.sqrt", root), ("math.tanh", "my.seen = 2 : i64")]
    told = [(r.pattern, r.action, r.round) for r in report.replacements]
    assert told == [
        ("p", "inline", 0),
        ("root", "annotate", 0),
        ("cosine", "inline", 1),
        ("either", "annotate", 1),
        ("root", "annotate", 2),
        ("either", "annotate", 2),
    ]
    assert not report.kept
    assert not report.unmatched


SYMBOL = """
mlir {
  util.func private @helper(%a: tensor<?x8xf32>) -> tensor<?x8xf32> {
    %0 = math.exp %a : tensor<?x8xf32>
    util.return %0 : tensor<?x8xf32>
  }
}
pattern exponential(x: tensor<m x n x f32>) { exp(x) }
replace exponential with mlir {
  %r = arith.addf %x, %x : $x
  yield %r
}
"""


def test_a_rule_may_change_what_the_spec_brought_in(spliced):
    spec = SYMBOL + PATTERN + "replace p with mlir { %r = util.call @helper(%x) : ($x) -> $x\nyield %r }"
    program = spliced(ABS, spec, {})
    assert len(program.report.replacements) == 2
    np.testing.assert_array_equal(program.run("main", X), X + X)


def test_a_rule_is_not_applied_to_what_it_calls(spliced):
    spec = """mlir {
      util.func private @slow(%a: tensor<?x8xf32>) -> tensor<?x8xf32> {
        %0 = math.absf %a : tensor<?x8xf32>
        %1 = arith.negf %0 : tensor<?x8xf32>
        %2 = arith.addf %1, %0 : tensor<?x8xf32>
        %3 = arith.addf %1, %2 : tensor<?x8xf32>
        util.return %3 : tensor<?x8xf32>
      }
    }
    replace p with mlir { %r = util.call @slow(%x) : ($x) -> $x
      yield %r }
    """
    program = spliced(ABS, PATTERN + spec, {})
    assert len(program.report.replacements) == 1
    np.testing.assert_array_equal(program.run("main", X), -X)


def test_passes_run_before_the_rules_of_their_phase(spliced):
    model = """
    func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
      %c = arith.constant dense<0.0> : tensor<8xf32>
      %0 = arith.negf %x : tensor<8xf32>
      %1 = arith.negf %0 : tensor<8xf32>
      return %1 : tensor<8xf32>
    }"""
    pattern = "pattern q(x: tensor<n x f32>) { negf(x) }\nreplace q at start with mlir { yield %x }\n"
    assert len(spliced(model, pattern, {}).report.replacements) == 2
    folded = spliced(model, pattern + 'run "canonicalize" at start', {})
    assert [u.pattern for u in folded.report.unmatched] == ["q"]


@pytest.mark.parametrize("passes", ["no-such-pass", "canonicalize{"])
def test_passes_that_are_wrong(spliced, passes):
    with pytest.raises(OpspliceError, match="cannot run"):
        spliced(ABS, f'run "{passes}" at input', {})


# ---- phases ----------------------------------------------------------------------------------------------------------

HLO = """
func.func @main(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = stablehlo.tanh %x : tensor<2x8xf32>
  %1 = stablehlo.abs %0 : tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}
"""
TORCH = """
func.func @main(%x: !torch.vtensor<[?,8],f32>) -> !torch.vtensor<[?,8],f32> {
  %0 = torch.aten.tanh %x : !torch.vtensor<[?,8],f32> -> !torch.vtensor<[?,8],f32>
  %1 = torch.aten.abs %0 : !torch.vtensor<[?,8],f32> -> !torch.vtensor<[?,8],f32>
  return %1 : !torch.vtensor<[?,8],f32>
}
"""
KERNEL = 'kernel twice(x: f32[...m]) -> f32[...m] { cpu "twice.c" }\n'


@pytest.mark.parametrize(("model", "op"), [(HLO, "stablehlo.tanh"), (TORCH, "torch.aten.tanh")])
def test_a_kernel_for_an_op_of_the_frontend(spliced, model, op):
    pattern = f'pattern p(x: tensor<...m x f32>) {{ "{op}"(x) : tensor<...m x f32> }}\n'
    spec = f"{KERNEL}{pattern}replace p at start with twice(x)"
    program = spliced(model, spec, {"twice.c": TWICE})
    assert [r.kernel for r in program.report.replacements] == ["twice"]
    np.testing.assert_array_equal(program.run("main", -X), 2 * X)


@pytest.mark.parametrize("phase", ["input", "abi", "preprocessing", "global-optimization"])
def test_a_kernel_at_each_phase(spliced, phase):
    spec = f"{KERNEL}pattern p(x: tensor<...m x f32>) {{ tanh(x) }}\nreplace p at {phase} with twice(x)"
    program = spliced(HLO, spec, {"twice.c": TWICE})
    assert [r.kernel for r in program.report.replacements] == ["twice"]
    np.testing.assert_array_equal(program.run("main", -X), 2 * X)


def test_a_kernel_for_a_dispatch(spliced):
    """At phase flow the whole program is one dispatch, of a tanh and an abs."""
    spec = f"""{KERNEL}pattern p(x: tensor<...m x f32>) {{ "flow.dispatch"(x) : tensor<...m x f32> }}
    replace p at flow with twice(x)"""
    program = spliced(HLO, spec, {"twice.c": TWICE})
    assert [r.kernel for r in program.report.replacements] == ["twice"]
    np.testing.assert_array_equal(program.run("main", -X), -2 * X)


def test_rules_of_several_phases_in_one_spec(spliced):
    spec = f"""{KERNEL}
    pattern early(x: tensor<...m x f32>) {{ "stablehlo.tanh"(x) : tensor<...m x f32> }}
    pattern late(x: tensor<...m x f32>) {{ absf(x) }}
    replace early at start with twice(x)
    replace late at global-optimization with twice(x)"""
    program = spliced(HLO, spec, {"twice.c": TWICE})
    assert [r.pattern for r in program.report.replacements] == ["early", "late"]
    np.testing.assert_array_equal(program.run("main", -X), -4 * X)


def test_a_phase_that_is_none(spliced):
    with pytest.raises(SpecError, match="unknown phase preprocesing") as error:
        spliced(ABS, PATTERN + "replace p at preprocesing with mlir { yield %x }", {})
    assert "did you mean preprocessing?" in error.value.details


def test_a_frontends_module_ends_at_input(folder):
    spec = PATTERN + "replace p at global-optimization with mlir { yield %x }"
    with pytest.raises(OpspliceError, match="a rule is for phase global-optimization"):
        opsplice.transform(ABS, [write(folder, spec)])


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def write(folder, text):
    path = folder / "spec.splice"
    path.write_text(text)
    return path
