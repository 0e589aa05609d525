"""Masks of attention: what rows without any key become, and which masks are causal ones."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rewrites.plan.test_optional_parts import CODE, SPEC

GUARDED = """
func.func public @{name}(%q: tensor<2x8x4xf32>, %k: tensor<2x6x4xf32>, %v: tensor<2x6x5xf32>, %keep: tensor<8x6xi1>)
    -> tensor<2x8x5xf32> {{
  %low = stablehlo.constant dense<{fill}> : tensor<2x8x6xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.constant dense<0.0> : tensor<2x8x6xf32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %lows = stablehlo.constant dense<0xFF800000> : tensor<2x8x6xf32>
  %true = stablehlo.constant dense<true> : tensor<i1>
  %false = stablehlo.constant dense<false> : tensor<i1>
  %0 = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2]
    : (tensor<2x8x4xf32>, tensor<2x6x4xf32>) -> tensor<2x8x6xf32>
  %wide = stablehlo.broadcast_in_dim %keep, dims = [1, 2] : (tensor<8x6xi1>) -> tensor<2x8x6xi1>
  %s = stablehlo.select %wide, %0, %low : tensor<2x8x6xi1>, tensor<2x8x6xf32>
  %peak = stablehlo.reduce(%s init: %lowest) applies stablehlo.maximum across dimensions = [2]
    : (tensor<2x8x6xf32>, tensor<f32>) -> tensor<2x8xf32>
  %peaks = stablehlo.broadcast_in_dim %peak, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x6xf32>
  %off = stablehlo.subtract %s, %peaks : tensor<2x8x6xf32>
  %e = stablehlo.exponential %off : tensor<2x8x6xf32>
  %total = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [2]
    : (tensor<2x8x6xf32>, tensor<f32>) -> tensor<2x8xf32>
  %totals = stablehlo.broadcast_in_dim %total, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x6xf32>
  %p = stablehlo.divide %e, %totals : tensor<2x8x6xf32>
  {guard}
  %r = stablehlo.dot_general %given, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<2x8x6xf32>, tensor<2x6x5xf32>) -> tensor<2x8x5xf32>
  return %r : tensor<2x8x5xf32>
}}
"""
MINUS_INFINITY, LOW, LOWEST = "0xFF800000", "-1.0e9", "-3.40282347E+38"
COMPARED = ": (tensor<2x8x6xf32>, tensor<2x8x6xf32>) -> tensor<2x8x6xi1>"
SELECTED = "%given = stablehlo.select %none, %zeros, %p : tensor<2x8x6xi1>, tensor<2x8x6xf32>"
REDUCED = "across dimensions = [2] : (tensor<2x8x6xi1>, tensor<i1>) -> tensor<2x8xi1>"
WIDE = "%none = stablehlo.broadcast_in_dim %all, dims = [0, 1] : (tensor<2x8xi1>) -> tensor<2x8x6xi1>"
# As ONNX's exporter writes it, as PyTorch's decompositions do, and as PyTorch does by `any`.
GUARDS = {
    "unguarded": "%given = stablehlo.add %p, %zeros : tensor<2x8x6xf32>",
    "of_nan": f"%none = stablehlo.compare NE, %p, %p {COMPARED}\n  {SELECTED}",
    "of_unordered": f"%none = arith.cmpf uno, %p, %p : tensor<2x8x6xf32>\n  {SELECTED}",
    "of_rows": f"""%is = stablehlo.compare EQ, %s, %lows {COMPARED}
  %all = stablehlo.reduce(%is init: %true) applies stablehlo.and {REDUCED}
  {WIDE}
  {SELECTED}""",
    "of_rows_by_any": f"""%is = stablehlo.compare EQ, %s, %lows {COMPARED}
  %not = stablehlo.not %is : tensor<2x8x6xi1>
  %any = stablehlo.reduce(%not init: %false) applies stablehlo.or {REDUCED}
  %all = stablehlo.not %any : tensor<2x8xi1>
  {WIDE}
  {SELECTED}""",
}
# What is like a guard, and is none: it asks about other numbers, or makes others of these.
NO_GUARDS = {
    "of_zeros": GUARDS["of_rows"].replace("%s, %lows", "%s, %zeros"),
    "of_one": GUARDS["of_rows"].replace("init: %true", "init: %false").replace("stablehlo.and", "stablehlo.or"),
    "of_products": GUARDS["of_rows"].replace("%s, %lows", "%0, %lows"),
    "to_others": GUARDS["of_nan"].replace("%none, %zeros, %p", "%none, %e, %p"),
    "of_scores": GUARDS["of_nan"].replace("NE, %p, %p", "NE, %s, %s"),
    "turned": GUARDS["of_nan"].replace("NE,", "EQ,"),
}
FILLS = {"": MINUS_INFINITY, "_low": LOW, "_lowest": LOWEST}


def test_rows_without_keys_are_what_the_program_makes_of_them(pairs):
    """Zeros where it says so, else NaN, or with a finite number the mean of the values."""
    texts = {
        f"{name}{suffix}": GUARDED.format(name=f"{name}{suffix}", fill=fill, guard=guard)
        for name, guard in (GUARDS | NO_GUARDS).items()
        for suffix, fill in FILLS.items()
    }
    pair = pairs("".join(texts.values()), SPEC, {"attend.c": CODE})
    found = {r.function.lstrip("@"): r.dims.get("zeros", 0) for r in pair.spliced.report.replacements}
    asked = {"unguarded": 0, "of_nan": 2, "of_unordered": 2}
    assert found == {f"{name}{suffix}": asked.get(name, 1) for name in GUARDS for suffix in FILLS}
    random = np.random.default_rng(1)
    q, k, v = (random.normal(size=shape).astype(np.float32) for shape in ((2, 8, 4), (2, 6, 4), (2, 6, 5)))
    keep = random.normal(size=(8, 6)) > 0
    keep[3], keep[5] = False, True
    q[1, 4, 2] = np.nan
    for function in texts:
        made, wanted = (program.run(function, q, k, v, keep) for program in (pair.spliced, pair.plain))
        np.testing.assert_allclose(made, wanted, rtol=2e-5, atol=2e-6, err_msg=function)
        assert np.isfinite(wanted[:, 5]).all()


@pytest.mark.parametrize(("fill", "count"), [(MINUS_INFINITY, 1), (LOW, 0)])
def test_a_kernel_that_is_not_told_what_masks_put_in_is_for_minus_infinity(pairs, fill, count):
    text = GUARDED.format(name="f", fill=fill, guard=GUARDS["unguarded"])
    spec = SPEC.replace("cap, fill, zeros)", "cap, -inf, 0)")
    assert len(pairs(text, spec, {"attend.c": CODE}).spliced.report.replacements) == count


# Baichuan's: what leaves out later keys and ALiBi's distances are one tensor, which is added to the scores.
ALIBI = """
func.func public @main(%q: tensor<2x6x4xf32>, %k: tensor<2x6x4xf32>, %v: tensor<2x6x5xf32>, %slopes: tensor<2xf32>)
    -> tensor<2x6x5xf32> {
  %rows = stablehlo.iota dim = 0 : tensor<6x6xi32>
  %columns = stablehlo.iota dim = 1 : tensor<6x6xi32>
  %later = stablehlo.compare GT, %columns, %rows : (tensor<6x6xi32>, tensor<6x6xi32>) -> tensor<6x6xi1>
  %low = stablehlo.constant dense<0xFF800000> : tensor<6x6xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<6x6xf32>
  %future = stablehlo.select %later, %low, %zero : tensor<6x6xi1>, tensor<6x6xf32>
  %places = stablehlo.iota dim = 0 : tensor<6xf32>
  %far = stablehlo.broadcast_in_dim %places, dims = [2] : (tensor<6xf32>) -> tensor<2x6x6xf32>
  %steep = stablehlo.broadcast_in_dim %slopes, dims = [0] : (tensor<2xf32>) -> tensor<2x6x6xf32>
  %alibi = stablehlo.multiply %steep, %far : tensor<2x6x6xf32>
  %wide = stablehlo.broadcast_in_dim %future, dims = [1, 2] : (tensor<6x6xf32>) -> tensor<2x6x6xf32>
  %mask = stablehlo.add %wide, %alibi : tensor<2x6x6xf32>
  %0 = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2]
    : (tensor<2x6x4xf32>, tensor<2x6x4xf32>) -> tensor<2x6x6xf32>
  %s = stablehlo.add %0, %mask : tensor<2x6x6xf32>
  %minus = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %nothing = stablehlo.constant dense<0.0> : tensor<f32>
  %peak = stablehlo.reduce(%s init: %minus) applies stablehlo.maximum across dimensions = [2]
    : (tensor<2x6x6xf32>, tensor<f32>) -> tensor<2x6xf32>
  %peaks = stablehlo.broadcast_in_dim %peak, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x6xf32>
  %off = stablehlo.subtract %s, %peaks : tensor<2x6x6xf32>
  %e = stablehlo.exponential %off : tensor<2x6x6xf32>
  %total = stablehlo.reduce(%e init: %nothing) applies stablehlo.add across dimensions = [2]
    : (tensor<2x6x6xf32>, tensor<f32>) -> tensor<2x6xf32>
  %totals = stablehlo.broadcast_in_dim %total, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x6xf32>
  %p = stablehlo.divide %e, %totals : tensor<2x6x6xf32>
  %r = stablehlo.dot_general %p, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<2x6x6xf32>, tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}
"""
# The kernel has the name of a word of the language, which the library goes on to use.
BANDED_SPEC = """
import "opsplice:strided"
kernel band(
  q: f32[...b, m, d] strided, k: f32[...b, n, d] strided, v: f32[...b, n, e] strided,
  bias: f32[...b, m, n] strided optional, low: i32, high: i32, added: i32,
) -> f32[...b, m, e] strided { cpu "host.py" as command }
replace banded_attention where added == 1 and mask_as == 0 with band(q, k, v, bias, low, high, added)
"""
BANDED_CODE = """
import numpy as np

def band(q, k, v, bias, low, high, added, out):
  apart = np.arange(k.shape[-2]) - np.arange(q.shape[-2])[:, None]
  scores = np.where((low <= apart) & (apart <= high), q @ k.swapaxes(-1, -2) + bias, -np.inf)
  weights = np.exp(scores - scores.max(-1, keepdims=True))
  out[...] = weights / weights.sum(-1, keepdims=True) @ v
"""


def test_a_causal_mask_that_has_distances_added(pairs):
    made = pairs(ALIBI, BANDED_SPEC, {"host.py": BANDED_CODE})
    assert [each.pattern for each in made.spliced.report.replacements] == ["banded_attention"]
    random = np.random.default_rng(3)
    given = [random.standard_normal(shape).astype(np.float32) for shape in ((2, 6, 4), (2, 6, 4), (2, 6, 5), (2,))]
    np.testing.assert_allclose(made.spliced.run("main", *given), made.plain.run("main", *given), rtol=1e-5, atol=1e-6)


LOWEST = """
  %floor = stablehlo.constant dense<0xFF7FFFFF> : tensor<f32>
  %floors = stablehlo.broadcast_in_dim %floor, dims = [] : (tensor<f32>) -> tensor<2x6x6xf32>
  %s = stablehlo.maximum %all, %floors : tensor<2x6x6xf32>
"""


@pytest.mark.parametrize("is_told", [True, False])
def test_scores_that_are_no_lower_than_some_number(pairs, is_told):
    """Baichuan's, so that rows without any key have no NaN. A kernel that is not told of it is for others."""
    added = "  %s = stablehlo.add %0, %mask : tensor<2x6x6xf32>\n"
    assert added in ALIBI
    text = ALIBI.replace(added, added.replace("%s", "%all") + LOWEST).replace("compare GT,", "compare GE,")
    spec, code = BANDED_SPEC, BANDED_CODE
    if is_told:
        spec = spec.replace("added: i32,", "added: i32, lowest: f32,").replace("high, added)", "high, added, lowest)")
        code = code.replace("added, out", "added, lowest, out")
        code = code.replace("-np.inf)", "-np.inf)\n  scores = np.maximum(scores, lowest)")
    made = pairs(text, spec, {"host.py": code})
    assert len(made.spliced.report.replacements) == is_told
    random = np.random.default_rng(3)
    given = [random.standard_normal(shape).astype(np.float32) for shape in ((2, 6, 4), (2, 6, 4), (2, 6, 5), (2,))]
    found, wanted = made.spliced.run("main", *given), made.plain.run("main", *given)
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
