"""Rules with `when`: one of several kernels for a match, by sizes that may be known at run time only.

Each kernel adds a number of its own to what the compiler would compute, so the results tell whose code ran.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.frontends import ModuleSource

KERNELS = """
#include <math.h>
#include <stddef.h>
#define UNARY(name, more) \\
  void name(const float *x, float *out, size_t n) { for (size_t i = 0; i < n; ++i) out[i] = more - fabsf(x[i]); }
UNARY(small, 100)
UNARY(large, 200)
#define LINEAR(name, more) \\
  void name(const float *x, const float *w, float *out, size_t m, size_t k, size_t n) { \\
    for (size_t i = 0; i < m; ++i) \\
      for (size_t j = 0; j < n; ++j) { \\
        float sum = more; \\
        for (size_t l = 0; l < k; ++l) sum += x[i * k + l] * w[l * n + j]; \\
        out[i * n + j] = sum; \\
      } \\
  }
LINEAR(row, 100)
LINEAR(rows, 200)
void any_layout(const float *x, float *out, size_t m, size_t n, size_t x_m, size_t x_n, size_t out_m, size_t out_n) {
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) out[i * out_m + j * out_n] = 100 + expf(x[i * x_m + j * x_n]);
}
void dense(const float *x, float *out, size_t m, size_t n) {
  for (size_t i = 0; i < m * n; ++i) out[i] = 200 + expf(x[i]);
}
void both(const float *x, float *first, float *second, size_t n) {
  for (size_t i = 0; i < n; ++i) { first[i] = 100 + floorf(x[i]); second[i] = 100 + floorf(x[i]) * floorf(x[i]); }
}
void square(float *x, size_t n) { for (size_t i = 0; i < n; ++i) x[i] = 100 + x[i] * x[i]; }
float element(float x, int n) { return 100 * n + __builtin_ceilf(x); }
"""
SPEC = """
kernel small(x: f32[n]) -> f32[n] { cpu "k.c" }
kernel large(x: f32[n]) -> f32[n] { cpu "k.c" }
kernel row(x: f32[m, k], w: f32[k, n]) -> f32[m, n] { cpu "k.c" }
kernel rows(x: f32[m, k], w: f32[k, n]) -> f32[m, n] { cpu "k.c" }
kernel any_layout(x: f32[m, n] strided) -> f32[m, n] strided { cpu "k.c" as bitcode }
kernel dense(x: f32[m, n] copied) -> f32[m, n] copied { cpu "k.c" as bitcode }
kernel both(x: f32[n]) -> (f32[n], f32[n]) { cpu "k.c" as bitcode }
kernel square(x: f32[n]) -> x { cpu "k.c" as bitcode }
kernel element(x: f32, n: i32) -> f32 { cpu "k.c" as bitcode }

pattern magnitude(x: tensor<n x f32>) { negf(absf(x)) }
pattern linear(x: tensor<m x k x f32>, w: tensor<k x n x f32>) { contract[mk, kn -> mn](x, w) }
pattern power(x: tensor<m x n x f32>) { exp(x) }
pattern two(x: tensor<n x f32>) { y = floor(x)  y, mulf(y, y) }
pattern squared(x: tensor<n x f32>) { mulf(x, x) }
pattern rounded(x: tensor<n x f32>) { ceil(x) }

replace magnitude when n <= 4 with small(x)
replace magnitude when n >= 8 and not n % 2 == 1 with large(x)
replace linear when m == 1 with row(x, w)
replace linear with rows(x, w)
replace power when max(m, ceildiv(n, 2)) < 4 with any_layout(x)
replace power with dense(x)
replace two when n * n < 10 with both(x)
replace squared when n != 3 with square(x)
replace rounded when n < 3 with element(x, 1)
replace rounded when n < 5 with element(x, 2)
"""
MODEL = """
func.func @magnitude(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = math.absf %x : tensor<?xf32>
  %1 = arith.negf %0 : tensor<?xf32>
  return %1 : tensor<?xf32>
}
func.func @twice(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %0 = math.absf %x : tensor<?xf32>
  %1 = arith.negf %0 : tensor<?xf32>
  %2 = arith.mulf %1, %0 : tensor<?xf32>
  %3 = math.absf %2 : tensor<?xf32>
  %4 = arith.negf %3 : tensor<?xf32>
  return %0, %4 : tensor<?xf32>, tensor<?xf32>
}
func.func @known(%x: tensor<4xf32>, %y: tensor<6xf32>, %z: tensor<8xf32>)
    -> (tensor<4xf32>, tensor<6xf32>, tensor<8xf32>) {
  %0 = math.absf %x : tensor<4xf32>
  %1 = arith.negf %0 : tensor<4xf32>
  %2 = math.absf %y : tensor<6xf32>
  %3 = arith.negf %2 : tensor<6xf32>
  %4 = math.absf %z : tensor<8xf32>
  %5 = arith.negf %4 : tensor<8xf32>
  return %1, %3, %5 : tensor<4xf32>, tensor<6xf32>, tensor<8xf32>
}
func.func @linear(%x: tensor<?x3xf32>, %w: tensor<3x2xf32>) -> tensor<?x2xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %x, %c0 : tensor<?x3xf32>
  %e = tensor.empty(%m) : tensor<?x2xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x2xf32>) -> tensor<?x2xf32>
  %r = linalg.matmul ins(%x, %w : tensor<?x3xf32>, tensor<3x2xf32>) outs(%f : tensor<?x2xf32>) -> tensor<?x2xf32>
  return %r : tensor<?x2xf32>
}
func.func @power(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%n, %m) : tensor<?x?xf32>
  %t = linalg.transpose ins(%x : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) permutation = [1, 0]
  %r = math.exp %t : tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
func.func @two(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %0 = math.floor %x : tensor<?xf32>
  %1 = arith.mulf %0, %0 : tensor<?xf32>
  return %0, %1 : tensor<?xf32>, tensor<?xf32>
}
func.func @in_place(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %0 = arith.addf %x, %x : tensor<?xf32>
  %1 = arith.mulf %0, %0 : tensor<?xf32>
  return %0, %1 : tensor<?xf32>, tensor<?xf32>
}
func.func @elements(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = math.ceil %x : tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""
SHADER = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
struct Words { n: u32 }
var<immediate> words: Words;
@compute @workgroup_size(16) fn main(@builtin(global_invocation_id) at: vec3<u32>) {
  if at.x < words.n { result[at.x] = f32(MORE) - abs(x[at.x]); }
}
"""


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> opsplice.Program:
    folder = tmp_path_factory.mktemp("by_size")
    (folder / "k.c").write_text(KERNELS)
    (folder / "s.splice").write_text(SPEC)
    return opsplice.compile(ModuleSource(content=MODEL), specs=[folder / "s.splice"])


def compared(program: opsplice.Program, function: str, *inputs: np.ndarray, more: float, result: np.ndarray) -> None:
    for device in ("local-sync", "local-task"):
        got = program.run(function, *inputs, device=device)
        np.testing.assert_allclose(got, result + np.float32(more), rtol=1e-5, err_msg=f"{function} on {device}")


@pytest.mark.parametrize(("size", "more"), [(1, 100), (4, 100), (5, 0), (7, 0), (8, 200), (9, 0), (10, 200)])
def test_the_first_rule_whose_condition_holds_has_its_kernel_called(program, size, more):
    x = values(size)
    compared(program, "magnitude", x, more=more, result=-abs(x))


def test_sizes_that_are_known_need_no_branch(program):
    x, y, z = values(4), values(6), values(8)
    for got, want in zip(program.run("known", x, y, z), (100 - abs(x), -abs(y), 200 - abs(z)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    known = [r for r in program.report.replacements if r.function == "known"]
    assert [(r.kernel, r.when) for r in known] == [("small", ""), ("large", "")]
    (kept,) = (r for r in program.report.kept if r.function == "known" and "n >= 8" in r.reason)
    assert kept.reason == "the rule's condition `n >= 8` does not hold: n = 6"


@pytest.mark.parametrize(("size", "more"), [(3, 100), (6, 0), (8, 200)])
def test_matches_in_a_row_with_a_value_that_is_used_elsewhere(program, size, more):
    x = values(size)
    first, second = program.run("twice", x)
    np.testing.assert_allclose(first, abs(x), rtol=1e-6)
    np.testing.assert_allclose(second, more - abs((more - abs(x)) * abs(x)), rtol=1e-5)


@pytest.mark.parametrize(("rows", "more"), [(1, 100), (2, 200), (5, 200)])
def test_a_rule_without_a_condition_takes_the_rest(program, rows, more):
    x, w = values(rows, 3), values(3, 2)
    compared(program, "linear", x, w, more=more, result=x @ w)


@pytest.mark.parametrize(("shape", "more"), [((3, 6), 200), ((6, 3), 100), ((2, 4), 200), ((2, 3), 100)])
def test_strided_and_copied_buffers(program, shape, more):
    x = values(*shape)
    compared(program, "power", x, more=more, result=np.exp(x.T))


@pytest.mark.parametrize(("size", "more"), [(3, 100), (4, 0)])
def test_several_results(program, size, more):
    x = values(size)
    first, second = program.run("two", x)
    np.testing.assert_allclose(first, np.floor(x) + more)
    np.testing.assert_allclose(second, np.floor(x) ** 2 + more)


@pytest.mark.parametrize(("size", "more"), [(3, 0), (2, 100), (4, 100)])
def test_a_buffer_that_is_overwritten(program, size, more):
    x = values(size)
    first, second = program.run("in_place", x)
    np.testing.assert_array_equal(first, x + x)
    np.testing.assert_allclose(second, (x + x) ** 2 + more)


@pytest.mark.parametrize(("size", "more"), [(2, 100), (4, 200), (5, 0)])
def test_a_function_on_elements(program, size, more):
    x = values(size)
    compared(program, "elements", x, more=more, result=np.ceil(x))


def test_whole_dispatches(tmp_path, vulkan):
    for name, more in (("small", 100), ("large", 200)):
        (tmp_path / f"{name}.wgsl").write_text(SHADER.replace("MORE", str(more)))
    clauses = 'grid (ceildiv(n, 16)) vulkan "{}.wgsl"'
    kernels = "\n".join(f"kernel {k}(x: f32[n]) -> f32[n] {{ {clauses.format(k)} }}" for k in ("small", "large"))
    rules = re.findall("(?:pattern|replace) magnitude.*", SPEC)
    (tmp_path / "s.splice").write_text("\n".join([kernels, *rules]))
    model = MODEL.partition("func.func @twice")[0]
    program = opsplice.compile(ModuleSource(content=model), specs=[tmp_path / "s.splice"], targets=["vulkan:llvmpipe"])
    for size, more in ((3, 100), (7, 0), (20, 200)):
        x = values(size)
        np.testing.assert_allclose(program.run("magnitude", x, device="vulkan"), more - abs(x), rtol=1e-5)


def test_a_transform_spec_has_no_such_rule(tmp_path):
    (tmp_path / "k.c").write_text(KERNELS)
    (tmp_path / "s.splice").write_text(SPEC)
    with pytest.raises(OpspliceError) as failure:
        opsplice.export(tmp_path / "s.splice")
    assert "a spec chooses when compiling only" in str(failure.value)


def test_the_report_says_which_kernel_is_called_when(program):
    lines = str(program.report).splitlines()
    assert any("=> row from k.c when m == 1" in line for line in lines)
    assert any(line.endswith("=> rows from k.c") for line in lines)
    found = [r.to_json()["when"] for r in program.report.replacements if r.function == "magnitude"]
    assert found == ["n <= 4", "n >= 8 and not n % 2 == 1"]


def test_verifying_tries_sizes_of_each_kernel(tmp_path):
    right, wrong = "0 - fabsf(x[i])", "1 - fabsf(x[i])"
    loop = "void {}(const float *x, float *out, size_t n) {{ for (size_t i = 0; i < n; ++i) out[i] = {}; }}\n"
    code = loop.format("small", right) + loop.format("large", wrong) + loop.format("doubles", "x[i] + x[i]")
    (tmp_path / "k.c").write_text(f"#include <math.h>\n#include <stddef.h>\n{code}")
    (tmp_path / "s.splice").write_text("""
kernel small(x: f32[n]) -> f32[n] { cpu "k.c" as bitcode }
kernel large(x: f32[n]) -> f32[n] { cpu "k.c" as bitcode }
kernel doubles(x: f32[n]) -> f32[n] { cpu "k.c" as bitcode }
pattern magnitude(x: tensor<n x f32>) { negf(absf(x)) }
pattern doubled(x: tensor<n x f32>) { addf(x, x) }
replace magnitude when n < 100 with small(x)
replace magnitude with large(x)
replace doubled when n > 20 with doubles(x)
""")
    model = MODEL.partition("func.func @twice")[0] + (
        "func.func @doubled(%x: tensor<?xf32>) -> tensor<?xf32> {\n"
        "  %0 = arith.addf %x, %x : tensor<?xf32>\n  return %0 : tensor<?xf32>\n}"
    )
    found = opsplice.verify(ModuleSource(content=model), specs=[tmp_path / "s.splice"])
    verdicts = {each.replacement.kernel: each for each in found.verdicts}
    assert (verdicts["small or large"].outcome, verdicts["doubles"].outcome) == ("failed", "ok")
    assert "random, 200: " in str(found)


def test_a_size_that_only_the_result_has_is_asked_for(tmp_path):
    (tmp_path / "k.c").write_text(
        """#include <stddef.h>
void sums(const float *x, const float *f, const float *rest, float *out, size_t n, size_t k, size_t t) {
  for (size_t i = 0; i < t; ++i) {
    out[i] = 100 + (rest ? rest[i] : 0);
    for (size_t j = 0; j < k; ++j) out[i] += x[i + j] * f[j];
  }
}
"""
    )
    (tmp_path / "sums.splice").write_text(
        """kernel sums(x: f32[n], f: f32[k], rest: f32[t] optional) -> f32[t] { cpu "k.c" }
pattern windows(x: tensor<n x f32>, f: tensor<k x f32>, rest: tensor<t x f32>) {
  y = contract[(t + i), i -> t](x, f)
  addf(only(y), rest) | y
}
replace windows when t >= 4 with sums(x, f, rest)
"""
    )
    program = """func.func @main(%x: tensor<?xf32>, %f: tensor<3xf32>) -> tensor<?xf32> {
  %0 = arith.constant 0 : index
  %2 = arith.constant 2 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %0 : tensor<?xf32>
  %t = arith.subi %n, %2 : index
  %empty = tensor.empty(%t) : tensor<?xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<?xf32>) -> tensor<?xf32>
  %sums = linalg.conv_1d ins(%x, %f : tensor<?xf32>, tensor<3xf32>) outs(%zeros : tensor<?xf32>) -> tensor<?xf32>
  return %sums : tensor<?xf32>
}
"""
    program = opsplice.compile(ModuleSource(content=program), [tmp_path / "sums.splice"])
    ones = np.ones(3, np.float32)
    np.testing.assert_array_equal(program.run("main", np.ones(5, np.float32), ones), [3] * 3)
    np.testing.assert_array_equal(program.run("main", np.ones(6, np.float32), ones), [103] * 4)
