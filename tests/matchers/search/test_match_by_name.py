"""Ops by their full names: inside of bodies, with bodies of their own, and read in the order that the pattern has."""

from __future__ import annotations

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.compiling import linting
from opsplice.matchers.search import uses
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.formatting import formatter
from opsplice.spec_lang.loading.loader import load_text
from opsplice.spec_lang.syntax import tree

KINDS = "x: tensor<m x n x f32>, y: tensor<m x n x f32>"

# ---- ops in bodies ---------------------------------------------------------------------------------------------------

FUSED = """
func.func @f(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>, %i: tensor<4x4xi32>) -> (tensor<4x4xf32>, tensor<4x4xi32>) {
  %two = arith.constant 2.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(m, n) -> MAP>, affine_map<(m, n) -> (m, n)>,
      affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%p: f32, %q: f32, %out: f32):
    %one = arith.constant 1.0 : f32
    %0 = arith.mulf %p, %two : f32
    %1 = arith.addf %0, %one {my.mark} : f32
    %2 = arith.subf %1, %q : f32
    %3 = math.fpowi %2, %k : f32, i32
    linalg.yield %3 : f32
  } -> tensor<4x4xf32>
  %ie = tensor.empty() : tensor<4x4xi32>
  %h = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]} ins(%i : tensor<4x4xi32>) outs(%ie : tensor<4x4xi32>) {
  ^bb0(%p: i32, %out: i32):
    %low, %high = arith.mului_extended %p, %p : i32
    linalg.yield %high : i32
  } -> tensor<4x4xi32>
  return %g, %h : tensor<4x4xf32>, tensor<4x4xi32>
}
""".replace("    %3", "    %k = arith.constant 2 : i32\n    %3")
INNER = '"math.fpowi"("arith.subf"("arith.addf"("arith.mulf"(x, 2.0), 1.0), y), 2)'


@pytest.mark.parametrize(
    ("written", "count"),
    [
        (INNER, 1),
        (INNER.replace('"arith.subf"', "subf"), 1),
        (INNER.replace("2.0", "3.0"), 0),
        (INNER.replace("2.0", '"arith.constant"()'), 1),
        (INNER.replace("1.0", '"arith.constant"() {value = mlir "1.0 : f32"}'), 1),
        (INNER.replace("1.0", '"arith.constant"() {value = mlir "2.0 : f32"}'), 0),
        (INNER.replace("1.0)", "1.0) {my.mark}"), 1),
        (INNER.replace("1.0)", "1.0) {!my.mark}"), 0),
        (INNER.replace("1.0)", "...)"), 1),
        (INNER.replace("arith.addf", "arith.*"), 1),
        (INNER.replace("mulf", "divf"), 0),
        (INNER.replace("x, 2.0", "2.0, x"), 0),  # the very op, its operands in this order
        (INNER.replace("math.fpowi", "arith.mulf"), 0),  # nor as another op that says the same
    ],
)
def test_an_op_in_a_body(find, written, count):
    spec = f"pattern p({KINDS}) {{ {written} }}"
    assert find(FUSED.replace("MAP", "(m, n)"), spec).count == count


@pytest.mark.parametrize(
    "written",
    [
        INNER,
        f"{INNER} : tensor<m x n x f32>",
        INNER.replace('"arith.addf"("arith.mulf"(x, 2.0), 1.0)', 'addf("arith.mulf"(x, 2.0), 1.0)'),
    ],
)
def test_an_op_in_a_body_does_not_read_its_operands_transposed(find, written):
    spec = f"pattern p({KINDS}) {{ {written} }}"
    outcome = find(FUSED.replace("MAP", "(n, m)"), spec)
    assert outcome.count == 0
    assert outcome.reasons == ["wanted dim m here, found another dim or order of dims"]
    assert find(FUSED.replace("MAP", "(m, n)"), spec).count == 1


@pytest.mark.parametrize(("result", "count"), [("low", 0), ("high", 1)])
def test_an_op_of_several_results_in_a_body(find, result, count):
    written = f'low, high = "arith.mului_extended"(x, x) {result}'
    spec = f"pattern p(x: tensor<m x n x i32>) {{ {written} }}"
    assert find(FUSED.replace("MAP", "(m, n)"), spec).count == count


def test_what_is_behind_an_op_by_name_is_not_transposed(find, unregistered):
    payload = """
    func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %a = "test.op"(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %e = tensor.empty() : tensor<4x4xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> MAP>, affine_map<(m, n) -> (m, n)>],
          iterator_types = ["parallel", "parallel"]} ins(%a : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
      ^bb0(%p: f32, %out: f32):
        %0 = math.absf %p : f32
        linalg.yield %0 : f32
      } -> tensor<4x4xf32>
      return %r : tensor<4x4xf32>
    }"""
    spec = 'pattern p(x: tensor<m x n x f32>) { absf("test.op"(x)) }'
    assert [find(payload.replace("MAP", at), spec).count for at in ("(m, n)", "(n, m)")] == [1, 0]


@pytest.mark.parametrize(
    ("given", "made", "count"), [("?", "?", 1), ("6", "6", 1), ("6", "8", 0), ("?", "8", 0), ("6", "?", 1)]
)
def test_the_size_that_an_op_by_name_makes_is_trusted_where_it_is_not_known(find, unregistered, given, made, count):
    payload = f"""
    func.func @f(%x: tensor<{given}xf32>) -> tensor<{made}xf32> {{
      %r = "test.op"(%x) : (tensor<{given}xf32>) -> tensor<{made}xf32>
      return %r : tensor<{made}xf32>
    }}"""
    assert find(payload, 'pattern p(x: tensor<n x f32>) { "test.op"(x) : tensor<n x f32> }').count == count


# ---- bodies ----------------------------------------------------------------------------------------------------------

BODY = """^bb0(%in: f32, %best: f32, %at: i64):
    %column = linalg.index 1 : index
    %here = arith.index_cast %column : index to i64
    %more = arith.cmpf ogt, %in, %best : f32
    %0 = arith.select %more, %in, %best : f32
    %1 = arith.select %more, %here, %at : i64
    linalg.yield %0, %1 : f32, i64
"""
ARGMAX = f"""
func.func @f(%x: tensor<4x8xf32>, %y: tensor<4xf32>, %z: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xi64>) {{
  %limit = arith.constant 3.0 : f32
  %r:2 = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>,
      affine_map<(m, n) -> (m)>], iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<4x8xf32>) outs(%y, %z : tensor<4xf32>, tensor<4xi64>) attrs = {{my.tag = "a"}} {{
  {BODY}
  }} -> (tensor<4xf32>, tensor<4xi64>)
  return %r#0, %r#1 : tensor<4xf32>, tensor<4xi64>
}}
"""


def argmax(body: str) -> str:
    written = f'best, at = "linalg.generic"(x, ...) mlir {{\n{body}}}'
    return f"pattern argmax(x: tensor<m x n x f32>) {{\n{written}\nbest, at\n}}"


def _in_another_order(body: str) -> str:
    head, column, here, more, *rest = body.splitlines(keepends=True)
    return "".join([head, more, column, here, *rest])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda body: body, None),
        (lambda body: body.replace("%in", "%value"), None),
        (_in_another_order, None),
        (lambda body: body.replace("ogt, %in, %best :", "ogt, %in, %best fastmath<nnan> :"), None),
        (lambda body: body.replace("ogt", "olt"), "wanted cmpf {predicate = olt}, found cmpf {predicate = ogt}"),
        (
            lambda body: body.replace("index 1", "index 0"),
            "wanted linalg.index {dim = 0}, found linalg.index {dim = 1}",
        ),
        (lambda body: body.replace("%in, %best : f32\n", "%best, %in : f32\n"), "of these values"),
        (lambda body: body.replace("f32", "f16"), "a body that fits the op"),
    ],
)
def test_a_body_tells_an_argmin_from_an_argmax(find, change, why):
    outcome = find(ARGMAX, argmax(change(BODY)))
    assert outcome.count == (why is None)
    assert why is None or why in outcome.reasons[0]


INNER = """
^bb0(%a: f32, %o: f32):
  %z = arith.constant 0.0 : f32
  %c = arith.cmpf ogt, %a, %z : f32
  %s = scf.if %c -> f32 {
    %y = math.exp %a : f32
    scf.yield %y : f32
  } else {
    scf.yield %a : f32
  }
  linalg.yield %s : f32
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("math.exp %a", "math.exp %a", 1),
        ("math.exp %a", "math.absf %a", 0),
        ("math.exp %a", "math.exp %z", 0),
        ("scf.yield %a", "scf.yield %z", 0),
    ],
)
def test_what_ops_of_a_body_hold_themselves_counts(find, old, new, count):
    maps = "[affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>]"
    payload = f"""
    func.func @f(%x: tensor<8xf32>, %e: tensor<8xf32>) -> tensor<8xf32> {{
      %r = linalg.generic {{indexing_maps = {maps}, iterator_types = ["parallel"]}}
        ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {{ {INNER.replace(old, new)} }} -> tensor<8xf32>
      return %r : tensor<8xf32>
    }}"""
    spec = f"""pattern p(x: tensor<n x f32>) {{
      "linalg.generic"(x, ...) {{indexing_maps = mlir "{maps}"}} mlir {{ {INNER} }} : tensor<n x f32>
    }}"""
    assert find(payload, spec).count == count


def test_a_constant_of_a_body_may_stand_outside_of_it(find):
    body = BODY.replace("ogt, %in, %best", "ogt, %in, %limit")
    outside, inside = (
        ARGMAX.replace(BODY, body),
        argmax(body.replace("    %more", "    %limit = arith.constant 3.0 : f32\n    %more")),
    )
    assert find(outside, inside).count == 1
    assert find(outside, inside.replace("3.0", "4.0")).count == 0
    with pytest.raises(OpspliceError, match="undeclared SSA value"):
        find(outside, argmax(body))


def test_places_that_differ_in_what_the_body_takes_from_outside_do_not_look_the_same(find):
    body = BODY.replace("ogt, %in, %best", "ogt, %in, %limit")
    first = ARGMAX.replace(BODY, body)
    both = first + first.replace("@f", "@g").replace("3.0", "4.0")
    spec = argmax(body.replace("    %more", "    %limit = arith.constant 3.0 : f32\n    %more"))
    assert [match.function for match in find(both, spec).found.matches] == ["f"]


def test_a_body_that_takes_an_argument_from_outside_is_no_other_one(find):
    payload = ARGMAX.replace("%in, %best : f32", "%in, %limit : f32", 1)
    payload = payload.replace("%limit = arith.constant 3.0 : f32", "").replace("(", "(%limit: f32, ", 1)
    assert find(payload, argmax(BODY)).count == 0


def test_a_body_that_mlir_cannot_read_is_shown_in_the_spec(find):
    with pytest.raises(OpspliceError, match="not a body of MLIR") as caught:
        find(ARGMAX, argmax(BODY.replace("ogt", "greater")))
    assert caught.value.details.startswith("<text>:6:")


def test_bodies_are_formatted():
    text = formatter.format(argmax(BODY))
    assert "(x, ...) mlir {\n    ^bb0(" in text
    assert formatter.format(text) == text
    wide = text.replace("(x, ...)", f"(x, ...) {{{', '.join(f'attribute{i}' for i in range(12))}}}")
    assert formatter.format(formatter.format(wide)) == formatter.format(wide)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('"a.b"(x) {...} mlir { }', "the body is either written or not looked at"),
        ("absf(x) mlir { }", "only an op in quotes is asked for its body"),
        ("only(x) mlir { }", "this does not belong to it"),
    ],
)
def test_bodies_where_there_are_none(written, message):
    with pytest.raises(OpspliceError, match=message):
        load_text(f"pattern p(x: tensor<m x f32>) {{ {written} }}")


# ---- warnings --------------------------------------------------------------------------------------------------------


def _warnings(written: str, rule: str = "", parameters: str = "x: tensor<m x n x f32>") -> list[str]:
    spec = load_text(f"pattern p({parameters}) {{ {written} }}\n{rule}")
    return [found.message for found in linting.findings(spec) if found.code in ("never-matches", "unlooked-body")]


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ('"linalg.yield"(x)', "linalg.yield makes no value"),
        ('absf("func.return"(x))', "func.return makes no value"),
        ('"arith.adf"(x, x)', "there is no op arith.adf; did you mean arith.addf?"),
        ('"arith.addf"(x)', "arith.addf has 2 operands"),
        ('"math.absf"(x, x, ...)', "math.absf has 1 operand"),
        ('"tensor.dim"(x, ...)', "a pattern ends with a tensor, and tensor.dim makes a scalar"),
        ('y = "tensor.expand_shape"(x) y', "a match ends with what it makes several dims of"),
        ('"test.op"("tensor.expand_shape"(x))', None),
        ('"arith.addf"(x, ...)', None),
        ('low, high = "arith.mului_extended"(x, x) high', None),
        ('"arith.*"(x)', None),
    ],
)
def test_what_no_program_has_is_said(written, why):
    found = _warnings(written)
    assert len(found) == (why is not None)
    assert why is None or why in found[0]


INSERTED = "replace p with mlir { yield %x : tensor<?x?xf32> }"
MAPPED = '{indexing_maps = mlir "[]"}'


@pytest.mark.parametrize(
    ("written", "rule", "count"),
    [
        ('"linalg.generic"(x, ...) {...}', INSERTED, 1),
        ('absf("linalg.*"(x, ...) {...})', INSERTED, 1),
        ('"linalg.generic"(x, ...) {...}', "annotate p with {my.tag}", 0),
        ('"linalg.generic"(x, ...) mlir { ^bb0: }', INSERTED, 1),
        (f'"linalg.generic"(x, ...) {MAPPED} mlir {{ ^bb0: }}', INSERTED, 0),
        ('"linalg.map"(x, ...) mlir { ^bb0: }', INSERTED, 0),
        ('"linalg.matmul"(x, ...) {...}', INSERTED, 0),
        ('"iree_linalg_ext.sort"(x) {...}', INSERTED, 1),
        ('"tensor.insert_slice"(x, ...) {static_offsets = [0, 0], ...}', INSERTED, 0),
        ('"tensor.pad"(x) {...}', INSERTED, 1),
    ],
)
def test_a_rule_for_an_op_whose_body_is_not_looked_at(written, rule, count):
    assert len(_warnings(written, rule)) == count


# ---- attributes of the op at the root --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "count"),
    [('lacks("other.tag")', 1), ('lacks("my.tag")', 0), ('not lacks("my.tag")', 1), ('m >= 1 and lacks("my.tag")', 0)],
)
def test_an_attribute_that_the_op_at_the_root_lacks(find, condition, count):
    payload = """
    func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %0 = math.absf %x : tensor<4x8xf32>
      %1 = math.exp %0 {my.tag} : tensor<4x8xf32>
      return %1 : tensor<4x8xf32>
    }"""
    outcome = find(payload, f"pattern p(x: tensor<m x n x f32>) where {condition} {{ exp(absf(x)) }}")
    assert outcome.count == count
    assert not count or not outcome.reasons
    text = formatter.format(f"pattern p(x: tensor<m x n x f32>) where {condition} {{ exp(x) }}")
    assert condition in text


def test_the_matcher_judges_each_condition_on_the_op_at_the_root():
    assert set(uses.HOLDS_AT) == set(tree.OF_THE_ROOT)


@pytest.mark.parametrize("written", ["lacks(x)", 'lacks("")'])
def test_what_is_lacked_is_named(written):
    with pytest.raises(OpspliceError, match="lacks takes an attribute's name"):
        load_text(f"pattern p(x: tensor<m x f32>) where {written} {{ exp(x) }}")


# ---- several results -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "roots"),
    [
        ('"test.op"(x)', []),
        ('"test.op"(x, ...)', ["%0#0"]),
        ('a, b = "test.op"(x) a, b', ["%0#0"]),
        ('a, b = "test.op"(x) b', ["%0#1"]),
        ('a, b, c = "test.op"(x, ...) a', []),
    ],
)
def test_an_op_with_open_operands_stands_for_its_first_result(find, unregistered, written, roots):
    payload = """
    func.func @f(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
      %a, %b = "test.op"(%x) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
      return %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
    }"""
    assert find(payload, f"pattern p(x: tensor<m x n x f32>) {{ {written} }}").roots == roots


@pytest.mark.parametrize(("mode", "count"), [("", 1), ("to_nearest_even ", 1), ("upward ", 0)])
def test_a_body_that_rounds_otherwise(find, mode, count):
    payload = f"""
    func.func @f(%x: tensor<4xf32>, %e: tensor<4xf16>) -> tensor<4xf16> {{
      %r = linalg.map ins(%x : tensor<4xf32>) outs(%e : tensor<4xf16>) (%a: f32, %out: f16) {{
        %0 = arith.truncf %a {mode}: f32 to f16
        linalg.yield %0 : f16
      }}
      return %r : tensor<4xf16>
    }}"""
    body = "^bb0(%a: f32, %out: f16):\n%0 = arith.truncf %a : f32 to f16\nlinalg.yield %0 : f16"
    spec = f'pattern p(x: tensor<m x f32>) {{ "linalg.map"(x, ...) mlir {{ {body} }} }}'
    assert find(payload, spec).count == count


# ---- in patterns that others use -------------------------------------------------------------------------------------

TURNED = """
func.func @f(%x: tensor<4x5xf32>, %w: tensor<5x3xf32>) -> tensor<4x3xf32> {
  %n = arith.negf %x : tensor<4x5xf32>
  %t = "test.op"(%n) : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x3xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<4x3xf32>) -> tensor<4x3xf32>
  %r = linalg.matmul ins(%t, %w : tensor<4x5xf32>, tensor<5x3xf32>) outs(%i : tensor<4x3xf32>) -> tensor<4x3xf32>
  return %r : tensor<4x3xf32>
}
"""


@pytest.mark.parametrize("use", ["made(x)", "again(x)"])
@pytest.mark.usefixtures("unregistered")
def test_a_pack_of_a_pattern_with_an_op_by_name_may_be_given_several_dims(find, use):
    spec = f"""
    pattern made(x: tensor<...m x f32>) {{
      y = negf(x)
      "test.op"(y) : tensor<...m x f32>
    }}
    pattern again(x: tensor<...b x k x f32>) {{ made(x) }}
    pattern p(x: tensor<...m x k x f32>, w: tensor<k x n x f32>) {{ contract[...m k, k n -> ...m n]({use}, w) }}
    """
    outcome = find(TURNED, spec)
    assert outcome.count == 1
    assert find(TURNED.replace("(%n)", "(%x)"), spec).count == 0


def test_alternatives_that_end_at_different_ops_have_sizes_of_their_own(find):
    """A slice of a sort, or the sort: each where it is, and the slice is more of the pattern."""
    program = """func.func @f(%x: tensor<8xf32>, %y: tensor<9xf32>) -> tensor<3xf32> {
      %s = iree_linalg_ext.sort dimension(0) outs(%x : tensor<8xf32>) {
      ^bb0(%a: f32, %b: f32):
        %0 = arith.cmpf ole, %a, %b : f32
        iree_linalg_ext.yield %0 : i1
      } -> tensor<8xf32>
      %r = tensor.extract_slice %s[0] [3] [1] : tensor<8xf32> to tensor<3xf32>
      return %r : tensor<3xf32> }"""
    spec = """pattern p(x: tensor<n x f32>) {
      s = "iree_linalg_ext.sort"(x) {dimension = 0, ...} : tensor<n x f32>
      "tensor.extract_slice"(s) : tensor<? x f32> | s
    }"""
    outcome = find(program, spec)
    known = [(match.held, match.static_dims(Views())) for match in outcome.found.matches]
    assert known == [(1, {"n": 8}), (2, {"n": 8})]
    of_another = program.replace("%s[0]", "%y[0]").replace("tensor<8xf32> to", "tensor<9xf32> to")
    assert [match.held for match in find(of_another, spec).found.matches] == [1]
