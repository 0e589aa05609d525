"""The planner: which match gets which rule, what is left alone and why, in words that a user can act on."""

from __future__ import annotations

import time

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.rewrites.apply import apply
from opsplice.rewrites.ir.executable_targets import ProgramTarget
from opsplice.rewrites.plan.actions import Buffer, Scalar

CHAIN = """
func.func @f(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = arith.mulf %a, %b : tensor<8xf32>
  %1 = math.absf %0 : tensor<8xf32>
  %2 = arith.negf %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}
"""
KERNELS = """
kernel one(a: f32[n]) -> f32[n] { cpu "one.bc" }
kernel two(a: f32[n], b: f32[n]) -> f32[n] { cpu "two.bc" }
kernel other(a: f32[n], b: f32[n]) -> f32[n] { cpu "other.bc" }
pattern mul(a: tensor<n x f32>, b: tensor<n x f32>) { mulf(a, b) }
pattern abs_mul(a: tensor<n x f32>, b: tensor<n x f32>) { absf(mulf(a, b)) }
pattern neg_abs(a: tensor<n x f32>) { negf(absf(a)) }
pattern neg_abs_mul(a: tensor<n x f32>, b: tensor<n x f32>) { negf(absf(mulf(a, b))) }
"""
AARCH64 = ProgramTarget('#hal.executable.target<"llvm-cpu", "x">', "llvm-cpu", "embedded-elf-arm_64", "aarch64")


def single(body: str, kind: str = "tensor<8xf32>") -> str:
    return f"func.func @f(%a: {kind}) -> {kind} {{\n  %0 = {body} : {kind}\n  return %0 : {kind}\n}}"


def summary(plan) -> tuple[list[str], list[str]]:
    return [call.symbol for call in plan.actions], [left.reason for left in plan.left]


# ---- rules and overlaps --------------------------------------------------------------------------------------------


def test_the_first_rule_of_a_pattern_wins(bench):
    rules = "replace mul with two(a, b)\nreplace mul with other(a, b)"
    assert summary(bench(CHAIN, KERNELS + rules).plan()) == (["two"], [])


def test_a_match_with_one_more_factor_wins(bench):
    """Whose op comes later, so that the one without it is found first."""
    code = """
    func.func @f(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
      %0 = math.absf %a : tensor<8xf32>
      %1 = arith.mulf %a, %0 : tensor<8xf32>
      %2 = arith.mulf %1, %b : tensor<8xf32>
      return %2 : tensor<8xf32>
    }
    """
    spec = """
    kernel gate(a: f32[n], b: f32[n] optional) -> f32[n] { cpu "gate.bc" }
    pattern gated(a: tensor<n x f32>, b: tensor<n x f32>) { mulf?(mulf(a, absf(a)), b) }
    replace gated with gate(a, b)
    """
    (action,) = bench(code, spec).plan().actions
    assert action.match.inputs.keys() == {"a", "b"}


def test_a_rule_whose_condition_fails_leaves_the_match_to_the_next(bench):
    rules = "replace mul where n > 100 with two(a, b)\nreplace mul with other(a, b)"
    assert summary(bench(CHAIN, KERNELS + rules).plan()) == (["other"], [])


@pytest.mark.parametrize(
    ("kept", "planned"),
    [
        ("keep mul where n == 8", (["one"], ["a rule keeps the compiler's code here"])),
        ("keep mul where n == 9", (["two", "one"], [])),
    ],
)
def test_a_rule_that_keeps_goes_before_others_of_its_pattern_only(bench, kept, planned):
    rules = f"{kept}\nreplace mul with two(a, b)\nreplace neg_abs with one(a)"
    assert summary(bench(CHAIN, KERNELS + rules).plan()) == planned


@pytest.mark.parametrize(
    ("where", "planned"), [("weight(b)", ["one"]), ("not weight(b)", ["one"]), ("weight(a)", []), ('inside("a.b")', [])]
)
def test_a_condition_on_an_input_of_an_alternative_that_is_not_taken(bench, where, planned):
    spec = KERNELS + "pattern either(a: tensor<n x f32>, b: tensor<n x f32>) { negf(addf(a, b) | absf(a)) }\n"
    assert summary(bench(CHAIN, f"{spec} replace either where {where} with one(a)").plan())[0] == planned


def test_a_kernel_whose_buffer_is_not_optional_takes_only_matches_that_have_it(bench):
    """And a rule that does not pass it takes those that lack it."""
    chain = CHAIN + CHAIN.replace("@f", "@other").replace("arith.mulf %a, %b", "arith.addf %a, %b")
    spec = KERNELS + "pattern either(a: tensor<n x f32>, b: tensor<n x f32>) { negf(absf(mulf?(a, b))) }\n"
    symbols, reasons = summary(bench(chain, f"{spec} replace either with two(a, b)").plan())
    assert symbols == ["two"]
    assert reasons == ["it has no b, and kernel two's buffer is not `optional`"]
    symbols, reasons = summary(bench(chain, f"{spec} replace either with one(a)").plan())
    assert symbols == ["one"]
    assert reasons == ["it has b, which the rule does not pass"]


def test_an_earlier_rule_takes_the_parts_of_a_later_one(bench):
    rules = "replace mul with two(a, b)\nreplace neg_abs_mul with other(a, b)"
    symbols, reasons = summary(bench(CHAIN, KERNELS + rules).plan())
    assert symbols == ["two"]
    assert reasons == ["rule `replace mul with two` replaces a part of it"]


def test_a_match_inside_that_of_an_earlier_rule_is_left(bench):
    rules = "replace neg_abs_mul with other(a, b)\nreplace mul with two(a, b)"
    symbols, reasons = summary(bench(CHAIN, KERNELS + rules).plan())
    assert symbols == ["other"]
    assert reasons == ["it lies inside a match of rule `replace neg_abs_mul with other`"]


def test_a_match_inside_another_with_a_use_of_its_own_is_replaced_too(bench):
    mlir = CHAIN.replace("-> tensor<8xf32> {", "-> (tensor<8xf32>, tensor<8xf32>) {").replace(
        "return %2 : tensor<8xf32>", "return %2, %0 : tensor<8xf32>, tensor<8xf32>"
    )
    rules = "replace neg_abs_mul with other(a, b)\nreplace mul with two(a, b)"
    assert summary(bench(mlir, KERNELS + rules).apply()) == (["two", "other"], [])


def test_two_patterns_with_one_result(bench):
    rules = "replace neg_abs_mul with other(a, b)\nreplace neg_abs with one(a)"
    symbols, reasons = summary(bench(CHAIN, KERNELS + rules).plan())
    assert symbols == ["other"]
    assert reasons == ["rule `replace neg_abs_mul with other` replaces this value already"]


def test_neighbours_do_not_overlap(bench):
    """The result of one match is the input of the next."""
    rules = "replace mul with two(a, b)\nreplace neg_abs with one(a)"
    assert summary(bench(CHAIN, KERNELS + rules).apply()) == (["two", "one"], [])


def test_matches_of_one_pattern_that_overlap(bench):
    mlir = """
func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = math.sqrt %a : tensor<8xf32>
  %1 = math.sqrt %0 : tensor<8xf32>
  %2 = math.sqrt %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}"""
    spec = """
kernel k(a: f32[n]) -> f32[n] { cpu "k.bc" }
pattern fourth_root(a: tensor<n x f32>) { sqrt(sqrt(a)) }
replace fourth_root with k(a)
"""
    symbols, reasons = summary(bench(mlir, spec).apply())
    assert symbols == ["k"]
    assert reasons == ["rule `replace fourth_root with k` replaces a part of it"]


# ---- conditions and signatures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "rule", "kernel", "reason"),
    [
        ("8", "where n % 16 == 0", "", "the rule's condition `n % 16 == 0` does not hold: n = 8"),
        ("?", "where n % 16 == 0", "", "the rule's condition `n % 16 == 0` does not hold: n = dynamic"),
        ("8", "", "where n >= 64", "kernel k's condition `n >= 64` does not hold: n = 8"),
        ("8", "where n > 4 and n < 6", "", "the rule's condition `n < 6` does not hold: n = 8"),
    ],
)
def test_conditions(bench, kind, rule, kernel, reason):
    spec = f"""
kernel k(a: f32[n]) -> f32[n] {kernel} {{ cpu "k.bc" }}
pattern p(a: tensor<n x f32>) {{ negf(a) }}
replace p {rule} with k(a)
"""
    assert summary(bench(single("arith.negf %a", f"tensor<{kind}xf32>"), spec).plan()) == ([], [reason])


@pytest.mark.parametrize(
    ("kernel", "args", "reason"),
    [
        ("k(a: f32[n], d: i8) -> f32[n]", "a, n", "n = 1000 does not fit into the i8 of kernel k"),
        ("k(a: f32[n], d: i1) -> f32[n]", "a, n", "n = 1000 does not fit into the i1 of kernel k"),
        ("k<T>(a: T[n], d: T) -> T[n]", "a, 1e39", "kernel k takes f32 here, which cannot hold 1e+39"),
    ],
)
def test_what_a_kernel_cannot_take(bench, kernel, args, reason):
    spec = f"""
kernel {kernel} {{ cpu "k.bc" }}
pattern p<T>(a: tensor<n x T>) {{ negf(a) }}
replace p with k({args})
"""
    assert summary(bench(single("arith.negf %a", "tensor<1000xf32>"), spec).plan()) == ([], [reason])


@pytest.mark.parametrize(
    ("kernel", "dims"),
    [
        ("k(a: f32[...m]) -> f32[...m]", {"m": (2, 3, 4)}),
        ("k(a: f32[x, ...m]) -> f32[x, ...m]", {"x": 2, "m": (3, 4)}),
        ("k(a: f32[...m, x, y, z]) -> f32[...m, x, y, z]", {"m": (), "x": 2, "y": 3, "z": 4}),
        ("k(a: f32[x, y, z]) -> f32[x, u, v]", {"x": 2, "y": 3, "z": 4, "u": 3, "v": 4}),
    ],
)
def test_what_a_kernel_calls_the_dims(bench, kernel, dims):
    spec = f"""
kernel {kernel} {{ cpu "k.bc" }}
pattern p(a: tensor<p x q x r x f32>) {{ negf(a) }}
replace p with k(a)
"""
    plan = bench(single("arith.negf %a", "tensor<2x3x4xf32>"), spec).plan()
    assert plan.actions[0].dims == dims


def test_a_result_of_another_rank(bench):
    spec = """
kernel k(a: f32[x]) -> f32[y] { cpu "k.bc" }
pattern p(a: tensor<x x f32>) { "test.unranked"(a) }
replace p with k(a)
"""
    body = '"test.unranked"(%a) : (tensor<8xf32>) -> tensor<2x4xf32>'
    text = f"func.func @main(%a: tensor<8xf32>) -> tensor<2x4xf32> {{ %0 = {body} return %0 : tensor<2x4xf32> }}"
    assert summary(bench(text, spec).plan()) == ([], ["kernel k makes rank 1, and the result has rank 2"])


def test_a_dynamic_dim_for_a_narrow_scalar(bench):
    spec = """
kernel k(a: f32[n], d: i16) -> f32[n] { cpu "k.bc" }
pattern p(a: tensor<n x f32>) { negf(a) }
replace p with k(a, n)
"""
    reason = "the dynamic dim n may not fit into the i16 of kernel k"
    assert summary(bench(single("arith.negf %a", "tensor<?xf32>"), spec).plan()) == ([], [reason])


def test_half_precision_numbers_made_on_the_host(bench):
    mlir = """
func.func @f(%a: tensor<8xf16>, %t: tensor<4xf16>) -> tensor<8xf16> {
  %c2 = arith.constant 2 : index
  %s = tensor.extract %t[%c2] : tensor<4xf16>
  %empty = tensor.empty() : tensor<8xf16>
  %0 = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%a : tensor<8xf16>) outs(%empty : tensor<8xf16>) {
  ^bb0(%x: f16, %out: f16):
    %1 = arith.mulf %x, %s : f16
    linalg.yield %1 : f16
  } -> tensor<8xf16>
  return %0 : tensor<8xf16>
}"""
    spec = """
kernel k(a: f16[n], s: f16) -> f16[n] { cpu "k.bc" }
pattern p(a: tensor<n x f16>, s: f16) { mulf(a, s) }
replace p with k(a, s)
"""
    reason = "s is a single f16 made by tensor.extract, and IREE computes none outside of tensors"
    assert summary(bench(mlir, spec).plan()) == ([], [reason])


def test_a_number_read_from_a_tensor_is_passed_as_the_tensor(bench):
    mlir = """
func.func @f(%a: tensor<8xf32>, %t: tensor<f32>) -> tensor<8xf32> {
  %s = tensor.extract %t[] : tensor<f32>
  %0 = tensor.splat %s : tensor<8xf32>
  %1 = arith.mulf %a, %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}"""
    spec = """
kernel k(a: f32[n], s: f32) -> f32[n] { cpu "k.bc" }
pattern p(a: tensor<n x f32>, s: f32) { mulf(a, s) }
replace p with k(a, s)
"""
    (call,) = bench(mlir, spec).plan().actions
    buffer, scalar = call.arguments
    assert isinstance(buffer, Buffer)
    assert isinstance(scalar, Scalar)
    assert str(scalar.value.type) == "tensor<f32>"


def test_a_static_size_is_preferred_to_a_dynamic_one(bench):
    mlir = """
func.func @f(%a: tensor<?xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %empty = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%a, %b : tensor<?xf32>, tensor<8xf32>) outs(%empty : tensor<8xf32>) {
  ^bb0(%x: f32, %y: f32, %out: f32):
    %1 = arith.subf %x, %y : f32
    linalg.yield %1 : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}"""
    spec = """
kernel k(a: f32[n], b: f32[n]) -> f32[n] { cpu "k.bc" }
pattern p(a: tensor<n x f32>, b: tensor<n x f32>) { subf(a, b) }
replace p with k(a, b)
"""
    (call,) = bench(mlir, spec).plan().actions
    assert call.dims == {"n": 8}


# ---- several results -------------------------------------------------------------------------------------------------

BOTH = """
kernel k(a: f32[n], b: f32[n]) -> (sum: f32[n], difference: f32[n]) { cpu "k.bc" }
pattern p(a: tensor<n x f32>, b: tensor<n x f32>) { addf(a, b), subf(a, b) }
replace p with k(a, b)
"""


TOO_LATE = ["one of its results is used before all that it needs is there"]


def two_results(*lines: str, made: str = "%s, %d, %u") -> str:
    body = "\n".join(lines)
    kind = "tensor<8xf32>"
    return f"""func.func @f(%a: {kind}, %b: {kind}, %c: i1) -> ({kind}, {kind}, {kind}) {{
      {body}
      return {made} : {kind}, {kind}, {kind}
    }}"""


SUM, DIFFERENCE = "%s = arith.addf %a, %b : tensor<8xf32>", "%d = arith.subf %a, %b : tensor<8xf32>"
LATER = "%u = math.sqrt %s : tensor<8xf32>"
NESTED = """%u = scf.if %c -> tensor<8xf32> {
    %v = math.sqrt %s : tensor<8xf32>
    scf.yield %v : tensor<8xf32>
  } else {
    scf.yield %a : tensor<8xf32>
  }"""


@pytest.mark.parametrize("lines", [(SUM, LATER, DIFFERENCE), (SUM, DIFFERENCE, LATER), (SUM, NESTED, DIFFERENCE)])
def test_the_order_of_results_and_their_users_makes_no_difference(bench, lines):
    made = bench(two_results(*lines), BOTH)
    assert summary(made.apply()) == (["k"], [])


@pytest.mark.parametrize("user", [LATER, NESTED, "%u = math.sqrt %a : tensor<8xf32>"])
def test_a_result_may_not_be_used_before_the_call_can_stand(bench, user):
    spec = """kernel k(a: f32[n], b: f32[n]) -> (f32[n], f32[n]) { cpu "k.bc" }
    pattern p(a: tensor<n x f32>, b: tensor<n x f32>) { absf(a), addf(a, b) }
    replace p with k(a, b)"""
    lines = ("%s = math.absf %a : tensor<8xf32>", user, "%w = math.exp %b : tensor<8xf32>")
    made = bench(two_results(*lines, "%d = arith.addf %a, %w : tensor<8xf32>"), spec)
    reasons = [left.reason.split(":")[0] for left in made.apply().left]
    assert reasons == ([] if user.endswith("%a : tensor<8xf32>") else TOO_LATE)


def test_a_result_that_another_call_needs_before_it_can_stand(bench):
    # One call can only stand before %d, the other would stand before %f, and needs %s: each is fine alone.
    spec = """kernel k(a: f32[n], b: f32[n]) -> (f32[n], f32[n]) { cpu "k.bc" }
    kernel l(a: f32[n], b: f32[n]) -> (f32[n], f32[n]) { cpu "l.bc" }
    pattern p(a: tensor<n x f32>, b: tensor<n x f32>) { absf(a), addf(a, b) }
    pattern q(a: tensor<n x f32>, b: tensor<n x f32>) { negf(b), mulf(a, b) }
    """
    lines = (
        "%s = math.absf %a : tensor<8xf32>",
        "%f = arith.negf %b : tensor<8xf32>",
        "%w = math.exp %b : tensor<8xf32>",
        "%d = arith.addf %a, %w : tensor<8xf32>",
        "%e = arith.mulf %s, %b : tensor<8xf32>",
    )
    first, second = "replace p with k(a, b)\n", "replace q with l(a, b)\n"
    for rules, kept in ((first, "k"), (second, "l"), (first + second, "k"), (second + first, "l")):
        planned = bench(two_results(*lines, made="%f, %d, %e"), spec + rules).apply()
        assert [call.symbol for call in planned.actions] == [kept]
        assert [left.reason.split(":")[0] for left in planned.left] == TOO_LATE * (len(rules) > len(first))


# ---- artifacts -------------------------------------------------------------------------------------------------------

ONE = """
kernel k(a: f32[n]) -> f32[n] { cpu x86_64 "k.bc" }
pattern p(a: tensor<n x f32>) { negf(a) }
replace p with k(a)
"""


def test_a_target_without_an_artifact_is_an_error(bench):
    made = bench(single("arith.negf %a"), ONE)
    with pytest.raises(OpspliceError, match=r"^kernel 'k' has no artifact for llvm-cpu embedded-elf-arm_64") as raised:
        made.plan([AARCH64])
    assert 'cpu aarch64 "..."' in raised.value.hint
    assert "otherwise keep" in raised.value.hint


def test_unless_the_rule_says_otherwise_keep(bench):
    made = bench(single("arith.negf %a"), ONE.rstrip() + " otherwise keep\n")
    assert summary(made.plan([AARCH64])) == ([], ["kernel k has no artifact for llvm-cpu embedded-elf-arm_64"])


def test_one_symbol_in_two_files(bench):
    spec = """
kernel k(a: f32[n]) -> f32[n] { symbol "same" cpu "k.bc" }
kernel l(a: f32[n]) -> f32[n] { symbol "same" cpu "l.bc" }
pattern p(a: tensor<n x f32>) { negf(a) }
pattern q(a: tensor<n x f32>) { absf(a) }
replace p with k(a)
replace q with l(a)
"""
    mlir = """
func.func @f(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = arith.negf %a : tensor<8xf32>
  %1 = math.absf %a : tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}"""
    made = bench(mlir, spec)
    before = made.ir
    with pytest.raises(OpspliceError, match="same is defined by two files") as raised:
        made.apply()
    assert "k.bc is linked for kernel k" in raised.value.details
    assert "l.bc is linked for kernel l" in raised.value.details
    assert made.ir == before


# ---- nothing half done, and the same again ---------------------------------------------------------------------------


def many(count: int) -> str:
    lines = ["func.func @f(%v0: tensor<8xf32>) -> tensor<8xf32> {"]
    lines += [f"  %v{i + 1} = math.sqrt %v{i} : tensor<8xf32>" for i in range(count)]
    return "\n".join([*lines, f"  return %v{count} : tensor<8xf32>\n}}"])


SQRT = """
kernel k(a: f32[n]) -> f32[n] { grid (ceildiv(n, 4)) cpu "k.bc" }
pattern p(a: tensor<n x f32>) { sqrt(a) }
replace p with k(a)
"""


def test_planning_changes_nothing_even_when_it_fails(bench, monkeypatch):
    made = bench(many(3), SQRT)
    before = made.ir

    def fail(*_arguments):
        raise OpspliceError("cannot build")

    made.plan()
    assert made.ir == before
    monkeypatch.setattr(made, "_resolve", fail)
    with pytest.raises(OpspliceError, match="cannot build"):
        made.apply()
    assert made.ir == before


def test_the_same_program_gets_the_same_edits(bench):
    texts = set()
    for _ in range(3):
        made = bench(
            CHAIN + single("arith.negf %a").replace("@f", "@g"), KERNELS + "replace neg_abs_mul with two(a, b)"
        )
        made.apply()
        texts.add(made.ir)
    assert len(texts) == 1


def test_an_artifact_is_resolved_once(bench):
    made = bench(many(50), SQRT)
    assert len(made.apply().actions) == 50
    assert made.resolved == ["k"]


def test_a_thousand_calls_take_little_more_than_ten_times_a_hundred(bench):
    def seconds(count: int) -> float:
        made = bench(many(count), SQRT)
        chosen = made.plan()
        start = time.process_time()
        made.plan()
        apply(made.compilation.module, chosen.actions)
        return time.process_time() - start

    few, many_ = (min(seconds(count) for _ in range(3)) for count in (100, 1000))
    assert many_ < 30 * few + 0.1
