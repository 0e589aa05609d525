"""Kernels that make arguments of others read their inputs as they lie in the program's memory, with right numbers."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice
from tests.rewrites.conftest import write_spec

SPEC = """
kernel packed(w: f32[n, k] KIND, scale: f32[n] optional) -> f32[ceildiv(n, 8), k, 8] RESULT {
  grid (ceildiv(n, 8))
  symbol "SYMBOL"
  cpu "packed.c"
}
kernel gemm(x: f32[m, k] strided, w: f32[p, k, 8]) -> f32[m, n] {
  cpu "packed.c"
}
pattern linear(x: tensor<m x k x f32>, w: tensor<n x k x f32>, scale: tensor<n x f32>) {
  y = contract[m k, n k -> m n](x, w)
  y | mulf(only(y), broadcast[n -> m n](scale))
}
replace linear with gemm(x, packed(w, scale))
"""
CODE = """
#include <stddef.h>
void packed_as(const float *w, const float *scale, float *out, size_t n, size_t k, size_t wn, size_t wk, size_t op,
               size_t ok, size_t oi, size_t p) {
  for (size_t l = 0; l < k; ++l)
    for (size_t i = 0; i < 8; ++i) {
      size_t j = p * 8 + i;
      out[p * op + l * ok + i * oi] = j < n ? w[j * wn + l * wk] * (scale ? scale[j] : 1.0f) : 0.0f;
    }
}
void packed(const float *w, const float *scale, float *out, size_t n, size_t k, size_t wn, size_t wk, size_t p) {
  packed_as(w, scale, out, n, k, wn, wk, k * 8, 8, 1, p);
}
void packed_dense(const float *w, const float *scale, float *out, size_t n, size_t k, size_t p) {
  packed_as(w, scale, out, n, k, k, 1, k * 8, 8, 1, p);
}
void gemm(const float *x, const float *w, float *out, size_t m, size_t k, size_t p, size_t n, size_t xm, size_t xk) {
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (size_t l = 0; l < k; ++l) sum += x[i * xm + l * xk] * w[(j / 8 * k + l) * 8 + j % 8];
      out[i * n + j] = sum;
    }
}
"""
SCALED = """%r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%y, %scale : OUT, tensor<20xf32>) outs(%e : OUT) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> OUT"""


def linear(name: str, weights: str, before: str, w: str, order: str, is_open: bool = False, after: str = "") -> str:
    """x [m, k] times a weight whose dims are in `order`, as %y."""
    x, out = ("tensor<?x?xf32>", "tensor<?x?xf32>") if is_open else ("tensor<3x16xf32>", "tensor<3x20xf32>")
    sizes = ""
    if is_open:
        before += f"""%m = tensor.dim %x, %i0 : {x}
          %n = tensor.dim %w, {"%i0" if order == "j, k" else "%i1"} : {w}"""
        sizes = "%m, %n"
    return f"""func.func @{name}(%x: {x}, {weights}) -> {out} {{
      %i0 = arith.constant 0 : index
      %i1 = arith.constant 1 : index
      %none = arith.constant 0.0 : f32
      {before}
      %e = tensor.empty({sizes}) : {out}
      %start = linalg.fill ins(%none : f32) outs(%e : {out}) -> {out}
      %y = linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> ({order})>,
        affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]}}
        ins(%x, %w : {x}, {w}) outs(%start : {out}) {{
      ^bb0(%a: f32, %b: f32, %c: f32):
        %0 = arith.mulf %a, %b : f32
        %1 = arith.addf %c, %0 : f32
        linalg.yield %1 : f32
      }} -> {out}
      {after.replace("OUT", out)}
      return {"%r" if after else "%y"} : {out}
    }}
    """


OPEN = "tensor<?x?xf32>"
CUT = "%w = tensor.extract_slice %whole[1, 0, 4] [1, 16, 20] [1, 1, 2] : tensor<3x16x50xf32> to tensor<16x20xf32>"
OPEN_CUT = """%k = tensor.dim %x, %i1 : tensor<?x?xf32>
  %w = tensor.extract_slice %whole[%at, 0, 4] [1, %k, 20] [1, 1, 1] : tensor<3x?x50xf32> to tensor<?x20xf32>
"""
TURNED = """%room = tensor.empty() : tensor<20x16xf32>
  %w = linalg.transpose ins(%v : tensor<16x20xf32>) outs(%room : tensor<20x16xf32>) permutation = [1, 0]"""
PROGRAM = "\n".join(
    [
        linear("dense", "%w: tensor<20x16xf32>", "", "tensor<20x16xf32>", "j, k"),
        linear("other_order", "%w: tensor<16x20xf32>", "", "tensor<16x20xf32>", "k, j"),
        linear("turned", "%v: tensor<16x20xf32>", TURNED, "tensor<20x16xf32>", "j, k"),
        linear("cut", "%whole: tensor<3x16x50xf32>", CUT, "tensor<16x20xf32>", "k, j"),
        linear(
            "scaled", "%w: tensor<16x20xf32>, %scale: tensor<20xf32>", "", "tensor<16x20xf32>", "k, j", after=SCALED
        ),
        linear("open", f"%w: {OPEN}", "", OPEN, "j, k", True),
        linear("open_order", f"%w: {OPEN}", "", OPEN, "k, j", True),
        linear("open_cut", "%whole: tensor<3x?x50xf32>, %at: index", OPEN_CUT, "tensor<?x20xf32>", "k, j", True),
    ]
)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float32)


@pytest.fixture(scope="module", params=["strided", "copied"])
def program(request, tmp_path_factory) -> opsplice.Program:
    symbol = "packed" if request.param == "strided" else "packed_dense"
    spec = SPEC.replace("KIND", request.param).replace("SYMBOL", symbol).replace("RESULT", "")
    path = write_spec(tmp_path_factory.mktemp("launches"), spec, {"packed.c": CODE})
    return opsplice.compile(PROGRAM, [path], ["--iree-llvmcpu-target-cpu=host"])


def test_numbers_are_right_in_any_layout(program):
    """Of what is dense, turned, cut out, and from a place that is known at run time; with open dims, too."""
    x, w, whole, scale = numbers(3, 16), numbers(16, 20), numbers(3, 16, 50), numbers(20)
    expected = {
        "dense": ((x, w.T.copy()), x @ w),
        "other_order": ((x, w), x @ w),
        "turned": ((x, w), x @ w),
        "cut": ((x, whole), x @ whole[1, :, 4:44:2]),
        "scaled": ((x, w, scale), x @ w * scale),
        "open": ((x, w.T.copy()), x @ w),
        "open_order": ((x, w), x @ w),
        "open_cut": ((x, whole, 2), x @ whole[2, :, 4:24]),
    }
    made = [r.function.lstrip("@") for r in program.report.replacements if not r.lost]
    assert sorted(made) == sorted(expected), str(program.report)
    for name, (inputs, wanted) in expected.items():
        np.testing.assert_array_equal(np.asarray(program.run(name, *inputs)), wanted, err_msg=name)
    for m, n, k in ((1, 1, 1), (5, 8, 3), (2, 33, 7)):
        other, v = numbers(m, k), numbers(k, n)
        np.testing.assert_array_equal(np.asarray(program.run("open_order", other, v)), other @ v)


def test_the_report_says_what_is_read_through_views(program):
    told = {r.function.lstrip("@"): " ".join(r.views) for r in program.report.replacements}
    verb = "copies" if "copies" in told["cut"] else "reads"
    part = "[1, :, 4:44:2] of tensor<3x16x50xf32> of the program's input1"
    assert told["cut"].startswith(f"w {verb} {part}, transposed, strides n 2, k 50")
    assert told["dense"] == ""


def test_a_result_for_another_kernel_may_be_strided(tmp_path):
    """It is dense, and the kernel is told its strides."""
    spec = SPEC.replace("KIND", "strided").replace("SYMBOL", "packed_as").replace("RESULT", "strided")
    made = opsplice.compile(PROGRAM, [write_spec(tmp_path, spec, {"packed.c": CODE})])
    x, w, whole = numbers(3, 16), numbers(16, 20), numbers(3, 16, 50)
    np.testing.assert_array_equal(np.asarray(made.run("other_order", x, w)), x @ w)
    np.testing.assert_array_equal(np.asarray(made.run("cut", x, whole)), x @ whole[1, :, 4:44:2])
    replaced = {r.function.lstrip("@") for r in made.report.replacements if not r.lost}
    assert replaced >= {"dense", "other_order", "turned", "cut", "scaled"}


def test_a_kernel_that_takes_an_argument_dense_leaves_other_layouts_alone(tmp_path):
    """Also where another kernel of the rule takes it in any."""
    spec = """
    kernel sums(w: f32[n, k]) -> f32[n] { cpu "packed.c" }
    kernel both(x: f32[m, k] strided, w: f32[n, k] strided, s: f32[n]) -> f32[m, n] { cpu "packed.c" }
    pattern linear(x: tensor<m x k x f32>, w: tensor<n x k x f32>) { contract[m k, n k -> m n](x, w) }
    replace linear with both(x, w, sums(w)) otherwise keep
    """
    found = opsplice.match(PROGRAM, [write_spec(tmp_path, spec, {"packed.c": CODE})])
    assert {r.function.lstrip("@") for r in found.replacements} == {"dense", "turned", "open"}
