"""Alternatives, optional ops, wildcards, conditions on values and attributes, and what a pattern looks through."""

from __future__ import annotations

import pytest

from opsplice.common.errors import OpspliceError

CHAIN = """
func.func @f(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {{
  {body}
  return %r : tensor<4x8xf32>
}}
"""


def chain(*lines: str) -> str:
    return CHAIN.format(body="\n  ".join(lines))


NEG = "%a = arith.negf %x : tensor<4x8xf32>"
EXP = "%a = math.exp %x : tensor<4x8xf32>"
ABS = "%a = math.absf %x : tensor<4x8xf32>"
MUL = "%r = arith.mulf %a, %y : tensor<4x8xf32>"


# ---- alternatives, optional ops, wildcards ---------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "count"), [(NEG, 1), (EXP, 1), (ABS, 0)])
def test_alternatives(find, first, count):
    spec = "pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) { mulf(negf(x) | exp(x), y) }"
    assert find(chain(first, MUL), spec).count == count


@pytest.mark.parametrize(("first", "count"), [(NEG, 1), (EXP, 1), (ABS, 0)])
def test_alternatives_as_the_result(find, first, count):
    spec = "pattern p(x: tensor<m x n x f32>) { negf(x) | exp(x) }"
    assert find(chain(first, MUL), spec).count == count


def test_alternatives_bind_what_they_hold_by(find):
    spec = "pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) { mulf(negf(x), y) | mulf(exp(x), absf(y)) }"
    lines = (EXP, "%b = math.absf %y : tensor<4x8xf32>", "%r = arith.mulf %b, %a : tensor<4x8xf32>")
    assert find(chain(*lines), spec).inputs == {"x": "%arg0", "y": "%arg1"}


def test_an_alternative_that_fails_later_gives_way_to_the_next(find):
    # Both alternatives hold for the first operand, and only the second agrees with the rest.
    spec = "pattern p(x: tensor<m x n x f32>) { y = negf(x)\n subf(exp(y | x), x) }"
    lines = (NEG, "%b = math.exp %a : tensor<4x8xf32>", "%r = arith.subf %b, %a : tensor<4x8xf32>")
    outcome = find(chain(*lines), spec)
    assert outcome.inputs == {"x": "%0"}


@pytest.mark.parametrize(
    "where",
    ["k % 4 == 0", "T in {f16}", "weight(y)", "weight(y) or k > 1000", 'inside("scf.for")', "y is tanh(_)"],
)
@pytest.mark.parametrize("body", ["exp(negf(x) | q(x))", "exp(q(x) | negf(x))", "a = q(x) exp(negf(x) | a)"])
def test_the_condition_of_a_pattern_that_an_alternative_uses(find, where, body):
    """It asks nothing where the alternative is not taken, and always where it is."""
    payload = """
    func.func @f(%x: tensor<6xf32>) -> tensor<6xf32> {{
      %0 = {} %x : tensor<6xf32>
      %1 = math.exp %0 : tensor<6xf32>
      return %1 : tensor<6xf32>
    }}"""
    spec = f"""pattern q<T>(y: tensor<k x T>) where {where} {{ absf(y) }}
    pattern p<S>(x: tensor<n x S>) {{ {body} }}"""
    assert find(payload.format("arith.negf"), spec).count == 1
    assert find(payload.format("math.absf"), spec).count == 0
    assert find(payload.format("math.absf"), spec.replace(f"where {where}", "where k == 6 or " + where)).count == 1


def test_an_optional_op(find):
    spec = "pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) { mulf(negf?(x), y) }"
    assert find(chain(NEG, MUL), spec).inputs == {"x": "%arg0", "y": "%arg1"}
    assert find(chain(EXP, MUL), spec).inputs == {"x": "%0", "y": "%arg1"}


def test_an_optional_last_op_is_found_with_and_without(find):
    spec = "pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) { maximumf?(mulf(x, y), 0.0) }"
    mul = "%a = arith.mulf %x, %y : tensor<4x8xf32>"
    zero = "%z = arith.constant dense<0.0> : tensor<4x8xf32>"
    outcome = find(chain(mul, zero, "%r = arith.maximumf %a, %z : tensor<4x8xf32>"), spec)
    assert sorted(match.held for match in outcome.found.matches) == [1, 3]
    assert find(chain(mul, "%r = math.absf %a : tensor<4x8xf32>"), spec).count == 1


def test_a_wildcard_is_anything(find):
    spec = "pattern p(x: tensor<m x n x f32>) { mulf(negf(x), _) }"
    assert find(chain(NEG, MUL), spec).inputs == {"x": "%arg0"}
    assert find(chain(NEG, "%r = arith.mulf %a, %a : tensor<4x8xf32>"), spec).inputs == {"x": "%arg0"}


# ---- other uses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "alone", "twice"), [("only", 1, 0), ("shared", 0, 1)])
def test_uses_of_a_part(find, asked, alone, twice):
    spec = f"pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) {{ mulf({asked}(negf(x)), y) }}"
    assert find(chain(NEG, MUL), spec).count == alone
    more = ("%b = arith.mulf %a, %y : tensor<4x8xf32>", "%r = arith.addf %a, %b : tensor<4x8xf32>")
    assert find(chain(NEG, *more), spec).count == twice


def test_the_other_use_is_named(find):
    spec = "pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) { mulf(only(negf(x)), y) }"
    more = ("%b = arith.mulf %a, %y : tensor<4x8xf32>", "%r = arith.addf %a, %b : tensor<4x8xf32>")
    (reason,) = find(chain(NEG, *more), spec).reasons
    assert reason.startswith("wanted only(negf(x)), found the value is also used by arith.addf at")


@pytest.mark.parametrize(("condition", "count"), [("only(x)", 0), ("shared(x)", 1), ("only(y)", 1), ("only(e)", 1)])
def test_uses_in_a_condition(find, condition, count):
    spec = f"""pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) where {condition} {{
      e = negf(x)
      mulf(e, y)
    }}"""
    lines = (NEG, "%b = arith.mulf %a, %y : tensor<4x8xf32>", "%r = arith.subf %x, %b : tensor<4x8xf32>")
    assert find(chain(*lines), spec).count == count


@pytest.mark.parametrize(
    ("written", "count"),
    [
        ("tanh(sin(x) | shared(cos(x)))", 1),
        ("tanh(sin(x) | only(cos(x)))", 1),
        ("tanh(copysign?(sin(x), shared(cos(x))))", 1),
        ("tanh(copysign?(sin(x), cos(x)) | shared(x))", 1),
        ("tanh(shared(sin(x)) | cos(x))", 0),
    ],
)
def test_a_part_that_is_not_taken_asks_for_no_use(find, written, count):
    payload = chain("%a = math.sin %x : tensor<4x8xf32>", "%r = math.tanh %a : tensor<4x8xf32>")
    assert find(payload, f"pattern p(x: tensor<m x n x f32>) {{ {written} }}").count == count


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        *[(f"{no}{ask}", 1) for ask in ("weight(w)", "only(w)", "shared(w)", "only(e)") for no in ("", "not ")],
        ("w is exp(_)", 1),
        ("w is not exp(_)", 1),
        ("shared(w) and only(x)", 0),
        ("not (weight(w) or shared(x))", 0),
        ("shared(w) or weight(x)", 0),
        ("shared(unused)", 0),
    ],
)
def test_a_value_that_the_match_does_not_have_is_not_asked_about(find, condition, count):
    payload = chain(
        "%a = math.sin %x : tensor<4x8xf32>",
        "%b = math.tanh %a : tensor<4x8xf32>",
        "%r = arith.addf %b, %x : tensor<4x8xf32>",
    )
    spec = f"""pattern p(x: tensor<m x n x f32>, w: tensor<m x n x f32>) where {condition} {{
      e = exp(w)
      unused = exp(x)
      tanh(sin(x) | addf(e, w))
    }}"""
    assert find(payload, spec).count == count


FUSED = """
#id = affine_map<(i, j) -> (i, j)>
func.func @f(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {{
  %e = tensor.empty() : tensor<4x8xf32>
  %0:2 = linalg.generic {{indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel", "parallel"]}}
    ins(%x, %y : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e, %e : tensor<4x8xf32>, tensor<4x8xf32>) {{
  ^bb0(%a: f32, %b: f32, %o: f32, %p: f32):
    %t = math.tanh %a : f32
    %u = arith.mulf %b, %t : f32
    %v = math.exp %t : f32
    %w = math.exp %b : f32
    linalg.yield {yielded} : f32, f32
  }} -> (tensor<4x8xf32>, tensor<4x8xf32>)
  %r = math.absf %0#1 : tensor<4x8xf32>
  return {returned} : tensor<4x8xf32>, tensor<4x8xf32>
}}"""


@pytest.mark.parametrize(
    ("yielded", "returned", "shared"),
    [
        ("%t, %u", "%0#0, %0#1", True),  # it is a result itself
        ("%v, %u", "%0#0, %0#1", True),  # another result is made from it
        ("%w, %u", "%0#0, %0#1", False),
        ("%t, %u", "%0#1, %0#1", False),  # the other result is not used
        ("%v, %u", "%r, %r", False),
        ("%v, %u", "%0#0, %r", True),
        ("%t, %u", "%0#0, %r", True),
    ],
)
@pytest.mark.parametrize("end", ["{}", "absf({})"])
def test_uses_of_a_part_inside_a_fused_op(find, yielded, returned, shared, end):
    payload = FUSED.format(yielded=yielded, returned=returned)
    for asked, count in (("only", not shared), ("shared", shared), ("", True)):
        product = end.format(f"mulf(y, {asked}(tanh(x)))")
        spec = f"pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) {{ {product} }}"
        assert find(payload, spec.replace("y, (tanh(x))", "y, tanh(x)")).count == count


def test_what_makes_a_part_inside_a_fused_op(find):
    spec = """pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) where t is {} {{
      t = tanh(x)
      mulf(y, t)
    }}"""
    payload = FUSED.format(yielded="%t, %u", returned="%0#0, %0#1")
    assert [find(payload, spec.format(form)).count for form in ("tanh(_)", "exp(_)", "not exp(_)")] == [1, 0, 1]


def test_asking_for_a_size_is_no_use(find):
    payload = """
    func.func @f(%x: tensor<?xf32>) -> (tensor<?xf32>, index) {
      %c = arith.constant 0 : index
      %a = math.exp %x : tensor<?xf32>
      %d = tensor.dim %a, %c : tensor<?xf32>
      %r = arith.negf %a : tensor<?xf32>
      return %r, %d : tensor<?xf32>, index
    }"""
    assert find(payload, "pattern p(x: tensor<n x f32>) { negf(only(exp(x))) }").count == 1


# ---- conditions on values and types ----------------------------------------------------------------------------------

WEIGHTS = """
module {
  util.global private @kept = dense<1.0> : tensor<4x8xf32>
  util.global private mutable @state = dense<1.0> : tensor<4x8xf32>
  func.func @f(%x: tensor<4x8xf32>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x4xf32>) {
    %constant = arith.constant dense_resource<blob> : tensor<4x8xf32>
    %kept = util.global.load @kept : tensor<4x8xf32>
    %state = util.global.load @state : tensor<4x8xf32>
    %flat = tensor.collapse_shape %kept [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
    %w = tensor.expand_shape %flat [[0, 1]] output_shape [8, 4] : tensor<32xf32> into tensor<8x4xf32>
    %e = tensor.empty() : tensor<8x4xf32>
    %a = math.exp %constant : tensor<4x8xf32>
    %b = math.exp %kept : tensor<4x8xf32>
    %c = math.exp %state : tensor<4x8xf32>
    %d = math.exp %w : tensor<8x4xf32>
    %computed = math.tanh %kept : tensor<4x8xf32>
    %g = math.exp %computed : tensor<4x8xf32>
    %r = math.exp %x : tensor<4x8xf32>
    return %a, %b, %c, %d : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x4xf32>
  }
}
"""
BLOB = '{-# dialect_resources: { builtin: { blob: "0x04000000' + "00" * 128 + '" } } #-}'


@pytest.mark.parametrize(("condition", "count"), [("weight(x)", 4), ("not weight(x)", 2), ("weight(x) and n == 4", 1)])
def test_weights(find, condition, count):
    spec = f"pattern p(x: tensor<m x n x f32>) where {condition} {{ exp(x) }}"
    assert find(WEIGHTS + BLOB, spec).count == count


@pytest.mark.parametrize(
    ("condition", "count"),
    [("x is negf(_)", 1), ("x is not negf(_)", 0), ("x is exp(_)", 0), ("x is not exp(_)", 1), ("y is not exp(_)", 1)],
)
def test_what_makes_an_input(find, condition, count):
    spec = f"pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) where {condition} {{ mulf(x, absf(y)) }}"
    lines = (NEG, "%b = math.absf %y : tensor<4x8xf32>", "%r = arith.mulf %a, %b : tensor<4x8xf32>")
    assert find(chain(*lines), spec).count == count


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("x is (exp(_) | negf(_))", 1),
        ("x is not (exp(_) | negf(_))", 0),
        ("x is not (exp(_) | absf(_))", 1),
        ('x is ("arith.negf"(_) {my.k = 1})', 1),
        ('x is ("arith.negf"(_) {my.k = 2})', 0),
        ('x is not ("arith.negf"(_) {!my.k}) and y is ("scf.if"(...) {...})', 1),
        ('y is "scf.if"(...)', 0),
    ],
)
def test_what_makes_an_input_in_brackets(find, condition, count):
    spec = f"pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) where {condition} {{ copysign(x, y) }}"
    payload = """
    func.func @f(%x: tensor<4x8xf32>, %c: i1) -> tensor<4x8xf32> {
      %a = arith.negf %x {my.k = 1 : i64} : tensor<4x8xf32>
      %b = scf.if %c -> tensor<4x8xf32> {
        scf.yield %x : tensor<4x8xf32>
      } else {
        %e = math.exp %x : tensor<4x8xf32>
        scf.yield %e : tensor<4x8xf32>
      }
      %r = math.copysign %a, %b : tensor<4x8xf32>
      return %r : tensor<4x8xf32>
    }"""
    assert find(payload, spec).count == count


def test_what_makes_an_input_is_no_part_of_the_match(find):
    spec = "pattern p(x: tensor<m x n x f32>) where x is negf(_) { absf(x) }"
    match = find(chain(NEG, "%r = math.absf %a : tensor<4x8xf32>"), spec).only
    assert [op.name for op in match.ops] == ["math.absf"]


def test_what_makes_an_input_may_be_a_pattern(find):
    spec = """
    pattern silu(x: tensor<m x n x f32>) { divf(x, addf(exp(negf(x)), 1.0)) }
    pattern p(g: tensor<m x n x f32>, y: tensor<m x n x f32>) where g is silu(_) { mulf(g, y) }"""
    lines = (
        "%one = arith.constant dense<1.0> : tensor<4x8xf32>",
        "%n = arith.negf %x : tensor<4x8xf32>",
        "%e = math.exp %n : tensor<4x8xf32>",
        "%d = arith.addf %e, %one : tensor<4x8xf32>",
        "%a = arith.divf %x, %d : tensor<4x8xf32>",
        MUL,
    )
    assert find(chain(*lines), spec).inputs == {"g": "%3", "y": "%arg1"}


@pytest.mark.parametrize(
    ("condition", "count"),
    [("T in {f16, bf16}", 0), ("T in {f32}", 1), ("bits(T) <= 16", 0), ("bits(T) > 16", 1), ("rank(m) == 1", 1)],
)
def test_types_and_ranks(find, condition, count):
    spec = f"pattern p<T>(x: tensor<...m x n x T>) where {condition} {{ negf(x) }}"
    assert find(chain(NEG, MUL), spec).count == count


@pytest.mark.parametrize(("op", "count"), [("scf.for", 1), ("scf.while", 0)])
def test_ops_around_a_match(find, op, count):
    payload = """
    func.func @f(%x: tensor<4xf32>, %a: index, %b: index) -> tensor<4xf32> {
      %r = scf.for %i = %a to %b step %b iter_args(%y = %x) -> tensor<4xf32> {
        %n = arith.negf %y : tensor<4xf32>
        scf.yield %n : tensor<4xf32>
      }
      return %r : tensor<4xf32>
    }"""
    assert find(payload, f'pattern p(x: tensor<n x f32>) where inside("{op}") {{ negf(x) }}').count == count


def test_conditions_of_a_used_pattern_are_its_own(find):
    spec = """
    pattern inner<S>(x: tensor<m x n x S>, y: tensor<m x n x S>) where only(e) and S in {f32} {
      e = negf(x)
      mulf(e, y)
    }
    pattern p(x: tensor<a x b x f32>, y: tensor<a x b x f32>) { absf(inner(x, y)) }"""
    lines = (NEG, "%b = arith.mulf %a, %y : tensor<4x8xf32>", "%r = math.absf %b : tensor<4x8xf32>")
    assert find(chain(*lines), spec).count == 1
    lines = (*lines[:2], "%c = math.absf %b : tensor<4x8xf32>", "%r = arith.addf %c, %a : tensor<4x8xf32>")
    assert find(chain(*lines), spec).count == 0


# ---- ops by name -----------------------------------------------------------------------------------------------------

PAD = """
func.func @f(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a = "test.op"(%x, %y) {axis = 1 : i64, list = array<i64: 1, 2>, mode = "fast"}
    : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %a : tensor<4x8xf32>
}
"""


@pytest.mark.parametrize(
    ("written", "count"),
    [
        ('"test.op"(x, y)', 1),
        ('"test.op"(x)', 0),
        ('"test.op"(x, ...)', 1),
        ('"test.op"(...)', 1),
        ('"test.op"(x, y, ...)', 1),
        ('"test.op"(x, y, x, ...)', 0),
        ('"test.*"(x, ...)', 1),
        ('"other.*"(x, ...)', 0),
        ('"test.op"(x, y) {axis = 1}', 1),
        ('"test.op"(x, y) {axis = 2}', 0),
        ('"test.op"(x, y) {axis}', 1),
        ('"test.op"(x, y) {!axis}', 0),
        ('"test.op"(x, y) {!other, axis}', 1),
        ('"test.op"(x, y) {other}', 0),
        ('"test.op"(x, y) {axis in {0, 1}}', 1),
        ('"test.op"(x, y) {axis in {0, 2}}', 0),
        ('"test.op"(x, y) {mode in {"slow", "fast"}}', 1),
        ('"test.op"(x, y) {list = [1, 2]}', 1),
        ('"test.op"(x, y) {list = [1, 3]}', 0),
        ('"test.op"(x, y) {axis = ?a}', 1),
        ('"test.op"(x, y) {mode = ?a}', 0),
        ('"test.op"(x, y) {list = [?a, 2]}', 1),
        ('"test.op"(x, y) {list = [?a, 3]}', 0),
        ('"test.op"(x, y) {list = [?a, ?a]}', 0),
        ('"test.op"(x, y) {list = [?a]}', 0),
        ('"test.op"(x, y) {list = [?, 2]}', 1),
        ('"test.op"(x, y) {list = [?, 3]}', 0),
        ('"test.op"(x, y) {list = [?, ?]}', 1),
        ('"test.op"(x, y) {list = [?]}', 0),
        ('"test.op"(x, y) {axis = [?]}', 0),
        ('"test.op"(x, y) {axis = [?a]}', 0),
        ('"test.op"(x, y) {list = ?a}', 0),
        ('"test.op"(x, y) | "test.none"(x, y)', 1),
        ('"test.op"(x, y) {list = mlir "array<i64: 1, 2>"}', 1),
        ('"test.op"(x, y) {list = mlir "array<i32: 1, 2>"}', 0),
        ('"test.op"(x, y) {axis = mlir "1 : i64"}', 1),
        ('"test.op"(x, y) {axis = mlir "1 : i32"}', 0),
        ('"test.op"(x, y) {axis in {2, mlir "1 : i64"}}', 1),
        ('"test.op"(x, y) {...}', 1),
    ],
)
def test_ops_by_name(find, unregistered, written, count):
    spec = f"pattern p(x: tensor<m x n x f32>, y: tensor<m x n x f32>) {{ {written} }}"
    if "y" not in written:
        spec = spec.replace(" y:", " _y:")
    assert find(PAD, spec).count == count


def test_an_attribute_that_mlir_cannot_read(find, unregistered):
    spec = 'pattern p(x: tensor<m x n x f32>) { "test.op"(x, ...) {axis = mlir "[1"} }'
    with pytest.raises(OpspliceError, match=r"not an attribute of MLIR: \[1"):
        find(PAD, spec)


WHOLE_BODY = """
func.func @f(%x: tensor<4x8xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%y : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
"""


@pytest.mark.parametrize(
    ("written", "count"),
    [
        ('"linalg.generic"(x, ...)', 0),
        ('"linalg.generic"(x, ...) {...}', 1),
        ('"linalg.generic"(x, ...) {...} : tensor<? x f32>', 1),
        ('"linalg.generic"(x, ...) {...} : tensor<? x ? x f32>', 0),
        ('"linalg.generic"(x, ...) {!iterator_types, ...}', 0),
        ('"linalg.matmul"(x, ...) {...}', 0),
    ],
)
def test_ops_whose_regions_are_not_looked_at(find, written, count):
    assert find(WHOLE_BODY, f"pattern p(x: tensor<m x n x f32>) {{ {written} }}").count == count


# ---- reductions that start from anything -----------------------------------------------------------------------------

SUM = "reduce addf[m n -> m](x)"
ADDED = WHOLE_BODY.replace("%r =", "%s =").replace(
    "  return",
    "  %r = arith.addf %s, %y : tensor<4xf32>\n  return",
)
FILLED = WHOLE_BODY.replace(
    "  %r =",
    """  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %r =""",
).replace("outs(%y", "outs(%f")


@pytest.mark.parametrize(
    ("program", "written", "count"),
    [
        (WHOLE_BODY, SUM, 0),
        (WHOLE_BODY, f"accumulated({SUM})", 1),
        (WHOLE_BODY, "accumulated(reduce mulf[m n -> m](x))", 0),
        (FILLED, SUM, 1),
        (FILLED, f"accumulated({SUM})", 1),
        (ADDED, f"accumulated({SUM})", 1),  # the reduction alone: what another op adds is no start
    ],
)
def test_a_reduction_that_starts_from_anything(find, program, written, count):
    outcome = find(program, f"pattern p(x: tensor<m x n x f32>) {{ {written} }}")
    assert outcome.count == count


def test_it_matches_at_the_op_that_reduces(find):
    match = find(ADDED, f"pattern p(x: tensor<m x n x f32>) {{ accumulated({SUM}) }}").only
    assert match.roots[0].owner.operation.name == "linalg.generic"


def test_an_integer_of_an_attribute_is_bound(find, unregistered):
    spec = 'pattern p(x: tensor<m x n x f32>) where a >= 1 {{ "test.op"(x, ...) {{axis = ?a}} }}'.format()
    assert find(PAD, spec).only.dims == {"m": 4, "n": 8, "a": 1}
    assert find(PAD, spec.replace(">= 1", ">= 2")).reasons == ["wanted a >= 2, found a = 1"]


PADDED = """
func.func @f(%x: tensor<4x8xf32>, %n: index) -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.pad %x low[2, 3] high[%n, 0] { ^bb0(%a: index, %b: index): tensor.yield %zero : f32 }
    : tensor<4x8xf32> to tensor<?x11xf32>
  %1 = tensor.cast %0 : tensor<?x11xf32> to tensor<?x?xf32>
  %2 = tensor.pad %x low[2, %n] high[0, 0] { ^bb0(%a: index, %b: index): tensor.yield %zero : f32 }
    : tensor<4x8xf32> to tensor<6x?xf32>
  %3 = tensor.cast %2 : tensor<6x?xf32> to tensor<?x?xf32>
  %4 = tensor.pad %x low[1, 0] high[0, 0] { ^bb0(%a: index, %b: index): tensor.yield %zero : f32 }
    : tensor<4x8xf32> to tensor<5x8xf32>
  %5 = tensor.cast %4 : tensor<5x8xf32> to tensor<?x8xf32>
  return %1, %3, %5 : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x8xf32>
}"""


def test_integers_of_a_list_are_bound_unless_they_are_known_at_run_time_only(find):
    spec = 'pattern p(x: tensor<m x n x f32>) { "tensor.pad"(x, ...) {static_low = [?a, ?b], ...} }'
    matches = find(PADDED, spec).found.matches
    assert [(match.dims["a"], match.dims["b"]) for match in matches] == [(2, 3), (1, 0)]


def test_a_parameter_is_bound_to_an_integer_of_a_list_through_a_pattern_in_between(find):
    spec = """
    pattern padded(x: tensor<n x f32>, left: index) { "tensor.pad"(x) {static_low = [?left], ...} : tensor<? x f32> }
    pattern p(x: tensor<n x f32>, f: tensor<k x f32>, low: index = 0) {
      contract[(y + i), i -> y](padded(x, low) | x, f)
    }
    """
    program = """
    func.func @f(%x: tensor<8xf32>, %f: tensor<3xf32>) -> (tensor<8xf32>, tensor<6xf32>) {
      %zero = arith.constant 0.0 : f32
      %0 = tensor.pad %x low[2] high[0] { ^bb0(%a: index): tensor.yield %zero : f32 } : tensor<8xf32> to tensor<10xf32>
      %1 = tensor.empty() : tensor<8xf32>
      %2 = linalg.fill ins(%zero : f32) outs(%1 : tensor<8xf32>) -> tensor<8xf32>
      %3 = linalg.conv_1d ins(%0, %f : tensor<10xf32>, tensor<3xf32>) outs(%2 : tensor<8xf32>) -> tensor<8xf32>
      %4 = tensor.empty() : tensor<6xf32>
      %5 = linalg.fill ins(%zero : f32) outs(%4 : tensor<6xf32>) -> tensor<6xf32>
      %6 = linalg.conv_1d ins(%x, %f : tensor<8xf32>, tensor<3xf32>) outs(%5 : tensor<6xf32>) -> tensor<6xf32>
      return %3, %6 : tensor<8xf32>, tensor<6xf32>
    }"""
    matches = [match for match in find(program, spec).found.matches if match.pattern.name == "p"]
    found = [(match.dims["n"], match.inputs.get("low")) for match in matches]
    assert [(n, low and low.constant) for n, low in found] == [(8, 2), (8, None)]


AROUND = """
func.func @f(%x: tensor<8xf32>, %b: tensor<8xi8>, %v: f32)
    -> (tensor<9xf32>, tensor<10xf32>, tensor<11xf32>, tensor<12xi8>, tensor<13xi8>) {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.pad %x low[1] high[0] { ^bb0(%a: index): tensor.yield %zero : f32 } : tensor<8xf32> to tensor<9xf32>
  %1 = tensor.pad %x low[2] high[0] { ^bb0(%a: index):
    %low = arith.constant 0xFF800000 : f32
    tensor.yield %low : f32 } : tensor<8xf32> to tensor<10xf32>
  %2 = tensor.pad %x low[3] high[0] { ^bb0(%a: index): tensor.yield %v : f32 } : tensor<8xf32> to tensor<11xf32>
  %no = arith.constant 0 : i8
  %3 = tensor.pad %b low[4] high[0] { ^bb0(%a: index): tensor.yield %no : i8 } : tensor<8xi8> to tensor<12xi8>
  %4 = tensor.pad %b low[5] high[0] { ^bb0(%a: index):
    %i = arith.index_cast %a : index to i8
    tensor.yield %i : i8 } : tensor<8xi8> to tensor<13xi8>
  return %0, %1, %2, %3, %4 : tensor<9xf32>, tensor<10xf32>, tensor<11xf32>, tensor<12xi8>, tensor<13xi8>
}"""


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [("f32", "0.0", [1]), ("T", "0", [1, 4]), ("f32", "-inf", [2]), ("f32", "v", [1, 2, 3]), ("i8", "1", [])],
)
def test_what_a_pad_puts_around_is_its_last_operand(find, kind, value, wanted):
    spec = f"""pattern p<T>(x: tensor<n x {kind}>, v: f32 = 0.0) {{
      "tensor.pad"(x, {value}) {{static_low = [?a], ...}} : tensor<? x {kind}>
    }}"""
    spec = spec.replace("{static_low = [?a], ...}", "{static_low = [?a]}")
    assert [match.dims["a"] for match in find(AROUND, spec).found.matches] == wanted


def test_alternatives_of_a_result_are_of_several_types(find):
    program = """
    func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xi8>) {
      %0 = math.exp %x : tensor<8xf32>
      %1 = math.exp %y : tensor<8xf32>
      %2 = arith.fptosi %1 : tensor<8xf32> to tensor<8xi8>
      return %0, %2 : tensor<8xf32>, tensor<8xi8>
    }"""
    spec = "pattern p(x: tensor<n x f32>) { y = exp(x) fptosi(y) : i8 | y }"
    result = find(program, spec)
    found = {str(match.roots[0].type) for match in result.found.matches}
    assert found == {"tensor<8xf32>", "tensor<8xi8>"}


# ---- the frontend's own ops ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wanted", "count"), [("1", 1), ("2", 0), ("const(0..3)", 1), ("a", 1)])
def test_a_scalar_constant_of_torch_is_a_number(find, wanted, count):
    payload = """
    func.func @f(%x: !torch.vtensor<[4,8],f32>, %y: !torch.vtensor<[4,8],f32>) -> !torch.vtensor<[4,8],f32> {
      %one = torch.constant.int 1
      %r = torch.aten.add.Tensor %x, %y, %one
        : !torch.vtensor<[4,8],f32>, !torch.vtensor<[4,8],f32>, !torch.int -> !torch.vtensor<[4,8],f32>
      return %r : !torch.vtensor<[4,8],f32>
    }"""
    inputs = "x: tensor<m x n x f32>, y: tensor<m x n x f32>, a: i64"
    outcome = find(payload, f'pattern p({inputs}) {{ "torch.aten.add.Tensor"(x, y, {wanted}) }}')
    assert outcome.count == count
    if wanted == "a":
        assert outcome.inputs == {"x": "%arg0", "y": "%arg1", "a": 1}


STABLEHLO = """
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c = stablehlo.constant dense<2.0> : tensor<4x8xf32>
  %r = stablehlo.multiply %x, %c : tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}"""
TOSA = """
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c = "tosa.const"() <{values = dense<2.0> : tensor<1x1xf32>}> : () -> tensor<1x1xf32>
  %r = tosa.add %x, %c : (tensor<4x8xf32>, tensor<1x1xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}"""
STABLEHLO_SUM = """
func.func @f(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<2.0> : tensor<f32>
  %r = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [1]
    : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}"""
TORCH = """
func.func @f(%x: !torch.vtensor<[4,8],si64>) -> !torch.vtensor<[4,8],si64> {
  %c = torch.vtensor.literal(dense<2> : tensor<4x8xsi64>) : !torch.vtensor<[4,8],si64>
  %r = torch.aten.mul.Tensor %x, %c
    : !torch.vtensor<[4,8],si64>, !torch.vtensor<[4,8],si64> -> !torch.vtensor<[4,8],si64>
  return %r : !torch.vtensor<[4,8],si64>
}"""


@pytest.mark.parametrize(("element", "count"), [("i8", 0), ("ui8", 1), ("T", 1)])
def test_unsigned_elements_of_torch_are_a_type_of_their_own(find, element, count):
    variables = "<T>" if element == "T" else ""
    spec = f'pattern p{variables}(x: tensor<m x n x {element}>) {{ "torch.aten.mul.Tensor"(x, 200) }}'
    payload = TORCH.replace("si64", "ui8").replace("dense<2>", "dense<200>")
    outcome = find(payload, spec)
    assert outcome.count == count
    assert element != "T" or outcome.only.types == {"T": "ui8"}


@pytest.mark.parametrize(
    ("payload", "op"),
    [
        (STABLEHLO, '"stablehlo.multiply"(x, {})'),
        (STABLEHLO_SUM, '"stablehlo.reduce"(x, {}) {{...}}'),
        (TOSA, '"tosa.add"(x, {})'),
        (TORCH, '"torch.aten.mul.Tensor"(x, {})'),
    ],
)
def test_a_tensor_that_a_frontend_holds_one_number_in(find, payload, op):
    kind = "i64" if payload is TORCH else "f32"
    spec = f"pattern p(x: tensor<m x n x {kind}>) {{{{ {op} }}}}"
    numbers = ("2", "3", "const(1..2)") if payload is TORCH else ("2.0", "3.0", "const(1.5..2.5)")
    assert [find(payload, spec.format(number)).count for number in numbers] == [1, 0, 1]
    # Places that differ in the number only do not look the same.
    dense = "dense<2" if payload is TORCH else "dense<2.0"
    other = payload.replace("@f", "@g").replace(dense, dense.replace("2", "3"))
    found = find(payload + other, spec.format(numbers[0])).found
    assert [match.function for match in found.matches] == ["f"]


def test_scalar_constants_of_torch_that_differ_do_not_look_the_same(find):
    payload = """
    func.func @f(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
      %c = torch.constant.float 2.0
      %r = torch.aten.mul.Scalar %x, %c : !torch.vtensor<[4],f32>, !torch.float -> !torch.vtensor<[4],f32>
      return %r : !torch.vtensor<[4],f32>
    }"""
    payload += payload.replace("@f", "@g").replace("2.0", "3.0")
    for number, function in (("2.0", "f"), ("3.0", "g")):
        outcome = find(payload, f'pattern p(x: tensor<n x f32>) {{ "torch.aten.mul.Scalar"(x, {number}) }}')
        assert outcome.only.function == function


# ---- through ---------------------------------------------------------------------------------------------------------

CASTS = """
func.func @f(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %a = arith.extf %x : tensor<4x8xf16> to tensor<4x8xf32>
  %b = math.exp %a : tensor<4x8xf32>
  %c = arith.truncf %b : tensor<4x8xf32> to tensor<4x8xf16>
  %r = arith.negf %c : tensor<4x8xf16>
  return %r : tensor<4x8xf16>
}
"""


@pytest.mark.parametrize(
    ("through", "types", "count"), [("", "f16", 0), ("through cast", "f16", 1), ("through cast", "f32", 1)]
)
def test_casts_are_looked_through_where_asked(find, through, types, count):
    spec = f"pattern p(x: tensor<m x n x {types}>) {through} {{ negf(exp(x)) }}"
    assert find(CASTS, spec).count == count


def test_a_cast_that_the_pattern_names_is_not_looked_through(find):
    spec = "pattern p(x: tensor<m x n x f16>) through cast { negf(truncf(exp(extf(x) : f32)) : f16) }"
    assert find(CASTS, spec).inputs == {"x": "%arg0"}


def test_integers_of_other_widths_are_other_numbers(find):
    payload = """
    func.func @f(%x: tensor<4x8xi32>) -> tensor<4x8xi32> {
      %a = arith.addi %x, %x : tensor<4x8xi32>
      %b = arith.trunci %a : tensor<4x8xi32> to tensor<4x8xi8>
      %c = arith.extui %b : tensor<4x8xi8> to tensor<4x8xi32>
      %r = arith.muli %c, %x : tensor<4x8xi32>
      return %r : tensor<4x8xi32>
    }"""
    spec = "pattern p(x: tensor<m x n x i32>) through cast { muli(addi(x, x), x) }"
    assert find(payload, spec).count == 0


NORM = """
func.func @f(%x: tensor<8x32xf16>, %g: tensor<32xf16>, %s: f32) -> tensor<8x32xf16> {{
  %z = arith.constant dense<0.0> : tensor<8xf32>
  %n = arith.constant dense<32.0> : tensor<8xf32>
  %eps = {eps}
  %e = tensor.empty() : tensor<8x32xf32>
  %h = tensor.empty() : tensor<8x32xf16>
  %xf = arith.extf %x : tensor<8x32xf16> to tensor<8x32xf32>
  %q = arith.mulf %xf, %xf : tensor<8x32xf32>
  %t = linalg.reduce {{ arith.addf }} ins(%q : tensor<8x32xf32>) outs(%z : tensor<8xf32>) dimensions = [1]
  %m = arith.divf %t, %n : tensor<8xf32>
  %v = arith.addf %m, %eps : tensor<8xf32>
  %i = math.rsqrt %v : tensor<8xf32>
  %b = linalg.broadcast ins(%i : tensor<8xf32>) outs(%e : tensor<8x32xf32>) dimensions = [1]
  %y = arith.mulf %xf, %b : tensor<8x32xf32>
  %yh = arith.truncf %y : tensor<8x32xf32> to tensor<8x32xf16>
  %gb = linalg.broadcast ins(%g : tensor<32xf16>) outs(%h : tensor<8x32xf16>) dimensions = [0]
  %r = arith.mulf {product} : tensor<8x32xf16>
  return %r : tensor<8x32xf16>
}}
"""
NORM_SPEC = """
pattern p<T in {{f16, bf16}}>(x: tensor<m x n x T>, g: tensor<n x T>{eps}) through cast {{
  v = addf(divf(reduce addf[m n -> m](mulf(x, x)), n), {value})
  mulf(mulf(x, broadcast[m -> m n](rsqrt(v))), broadcast[n -> m n](g))
}}
"""
CONSTANT_EPS = "arith.constant dense<1.0e-5> : tensor<8xf32>"


@pytest.mark.parametrize("product", ["%yh, %gb", "%gb, %yh"])
def test_a_product_of_three_has_no_order_where_casts_are_between(find, product):
    spec = NORM_SPEC.format(eps="", value="1e-5")
    assert find(NORM.format(eps=CONSTANT_EPS, product=product), spec).inputs == {"x": "%arg0", "g": "%arg1"}


@pytest.mark.parametrize(("eps", "bound"), [(CONSTANT_EPS, 1e-5), ("tensor.splat %s : tensor<8xf32>", "%arg2")])
def test_a_scalar_keeps_its_own_float_type_through_casts(find, eps, bound):
    spec = NORM_SPEC.format(eps=", eps: f32", value="eps")
    match = find(NORM.format(eps=eps, product="%gb, %yh"), spec)
    assert match.inputs["eps"] == (bound if isinstance(bound, str) else pytest.approx(bound))
    assert match.only.inputs["eps"].element == "f32"
    assert match.only.types == {"T": "f16"}
    assert find(NORM.format(eps=eps, product="%gb, %yh"), spec.replace("eps: f32", "eps: T")).count == 0


def test_reshapes_around_an_op_by_name(find, unregistered):
    payload = """
    func.func @f(%x: tensor<4x8xf32>) -> tensor<32xf32> {
      %a = tensor.collapse_shape %x [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
      %r = "test.op"(%a) : (tensor<32xf32>) -> tensor<32xf32>
      return %r : tensor<32xf32>
    }"""
    spec = 'pattern p(x: tensor<m x n x f32>) {} {{ "test.op"(x) : tensor<? x f32> }}'
    assert find(payload, spec.format("")).count == 0
    assert find(payload, spec.format("through reshape")).inputs == {"x": "%arg0"}
    other = '"test.scaled"(%x) : (tensor<4x8xf32>) -> tensor<32xf32>'
    changed = payload.replace("tensor.collapse_shape %x [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>", other)
    assert find(changed, spec.format("through reshape")).count == 0  # it may compute anything


@pytest.mark.parametrize(
    ("program", "pattern", "matches"),
    [
        ('"one"', '"one"', True),
        ('"one"', '"two"', False),
        ('"say \\22a\\22"', '"say \\"a\\""', True),
        ("true", "true", True),
        ("true", "false", False),
        ("7", "7", True),
        ("0.5", "0.5", True),
        ("[1, 2]", "[1, 2]", True),
        ("array<i64: 1, 2>", "[1, 2]", True),
        ("array<i64: 1, 2>", "[1, 3]", False),
        ("{a = 1 : i64}", 'mlir "{a = 1 : i64}"', True),
    ],
)
def test_attributes_of_elementwise_ops(find, program, pattern, matches):
    payload = f"""
    func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %0 = arith.negf %x {{place = {program}}} : tensor<4xf32>
      return %0 : tensor<4xf32>
    }}"""
    found = find(payload, f"pattern p(x: tensor<n x f32>) {{ negf(x) {{place = {pattern}}} }}")
    assert found.count == int(matches)


RECTIFIED = """
func.func @{name}(%x: tensor<8xf32>) -> (tensor<8xf32>, {made}) {{
  %zero = arith.constant dense<0.0> : tensor<8xf32>
  %n = math.absf %x : tensor<8xf32>
  %t = arith.cmpf ogt, %n, %zero : tensor<8xf32>
  %r = arith.select %t, %n, %zero : tensor<8xi1>, tensor<8xf32>
  %e = math.exp %{user} : tensor<8xf32>
  return %r, %{returned} : tensor<8xf32>, {made}
}}"""


def test_a_comparison_before_a_choice_goes_with_the_match(find):
    """Unless something else uses it, too. The three look alike but for who uses what."""
    float_, bool_ = "tensor<8xf32>", "tensor<8xi1>"
    words = [("own", "x", "e", float_), ("compared", "x", "t", bool_), ("used", "n", "e", float_)]
    names = ("name", "user", "returned", "made")
    both = [*words, *((f"{name}_again", *rest) for name, *rest in words)]  # what looks the same is not searched again
    text = "".join(RECTIFIED.format(**dict(zip(names, each, strict=True))) for each in both)
    only = "pattern p(x: tensor<n x f32>) { maximumf(only(absf(x)), 0.0) }"
    for spec, found in ((only, {"own"}), (only.replace("only", "shared"), {"compared", "used"})):
        functions = {match.function for match in find(text, spec).found.matches}
        assert functions == found | {f"{name}_again" for name in found}


def test_what_a_match_takes_is_used_elsewhere(find):
    """The exponential stays: it is an input. Where any value may be in its place, it goes."""
    text = """func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
      %n = math.absf %x : tensor<8xf32>
      %e = math.exp %n : tensor<8xf32>
      %r = arith.addf %n, %e : tensor<8xf32>
      return %r : tensor<8xf32>
    }"""
    spec = "pattern p(x: tensor<n x f32>, y: tensor<n x f32>) { addf(only(absf(x)), y) }"
    assert find(text, spec).count == 0
    assert find(text, spec.replace("only", "shared")).count == 1
    assert find(text, "pattern p(x: tensor<n x f32>) { addf(only(absf(x)), _) }").count == 1


@pytest.mark.parametrize(
    ("made", "signed"),
    [
        ("%f = arith.uitofp %x : tensor<8xi8> to tensor<8xf32>", 0),
        ("%f = arith.sitofp %x : tensor<8xi8> to tensor<8xf32>", 1),
        ("%w = arith.extui %x : tensor<8xi8> to !wide %f = arith.sitofp %w : !wide to tensor<8xf32>", 0),
        ("%w = arith.extsi %x : tensor<8xi8> to !wide %f = arith.sitofp %w : !wide to tensor<8xf32>", 1),
    ],
)
def test_a_cast_goes_into_the_alternatives_for_what_it_casts(find, made, signed):
    """MLIR's canonicaliser leaves one cast of the two, and knows which."""
    spec = """pattern p(x: tensor<n x i8>, signed: i32 = 0) {
      wide = extui(x) : i32 | extsi(x) : i32 with signed = 1
      exp(sitofp(wide | subi(wide, 3)) : f32)
    }"""
    payload = f"""!wide = tensor<8xi32>
    func.func @f(%x: tensor<8xi8>) -> tensor<8xf32> {{
      {made}
      %r = math.exp %f : tensor<8xf32>
      return %r : tensor<8xf32>
    }}"""
    inputs = find(payload, spec).inputs
    assert (inputs["x"], inputs.get("signed", 0)) == ("%arg0", signed)
