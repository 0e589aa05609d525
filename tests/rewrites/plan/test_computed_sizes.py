"""Results of sizes that are arithmetic on dims, `-> f32[m + k, 3]`, which are known at run time only."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.frontends import ModuleSource

KERNELS = """
#include <stddef.h>
void stencil(const float *x, const float *w, float *out, size_t n) {
  for (size_t i = 0; i + 2 < n; ++i) out[i] = x[i] * w[0] + x[i + 1] * w[1] + x[i + 2] * w[2] + 100;
}
void joined(const float *x, const float *y, float *out, size_t m, size_t k) {
  for (size_t i = 0; i < 3 * m; ++i) out[i] = x[i] + 100;
  for (size_t i = 0; i < 3 * k; ++i) out[3 * m + i] = y[i] + 200;
}
void partial(const float *a, const float *b, float *out, size_t m, size_t k, size_t n, size_t part) {
  for (size_t i = 0; i < m * n; ++i) {
    out[part * m * n + i] = 0;
    for (size_t l = 4 * part; l < 4 * part + 4 && l < k; ++l)
      out[part * m * n + i] += a[i / n * k + l] * b[l * n + i % n];
  }
}
void combine(const float *parts, float *out, size_t s, size_t m, size_t n) {
  for (size_t i = 0; i < m * n; ++i) {
    out[i] = 100;
    for (size_t part = 0; part < s; ++part) out[i] += parts[part * m * n + i];
  }
}
"""
SPEC = """
kernel stencil(x: f32[n], w: f32[3]) -> f32[n - 2] { cpu "k.c" }
kernel joined(x: f32[m, 3], y: f32[k, 3]) -> f32[m + k, 3] { cpu "k.c" }
kernel partial(a: f32[m, k], b: f32[k, n]) -> f32[ceildiv(k, 4), m, n] { grid (ceildiv(k, 4)) cpu "k.c" }
kernel combine(parts: f32[s, m, n]) -> f32[m, n] { cpu "k.c" }
pattern smooth(x: tensor<n x f32>, w: tensor<3 x f32>) { contract[(o + i), i -> o](x, w) }
pattern both(x: tensor<m x 3 x f32>, y: tensor<k x 3 x f32>) {
  "tensor.concat"(x, y) {dim = 0} : tensor<? x 3 x f32>
}
pattern product(a: tensor<m x k x f32>, b: tensor<k x n x f32>) { contract[mk, kn -> mn](a, b) }
replace smooth with stencil(x, w)
replace both with joined(x, y)
replace product with combine(partial(a, b))
"""
MODEL = """
func.func @stencil(%x: tensor<?xf32>, %w: tensor<3xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %z = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %m = arith.subi %n, %c2 : index
  %e = tensor.empty(%m) : tensor<?xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %r = linalg.conv_1d ins(%x, %w : tensor<?xf32>, tensor<3xf32>) outs(%f : tensor<?xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @product(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %m = tensor.dim %a, %c0 : tensor<?x?xf32>
  %n = tensor.dim %b, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%f : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""
CONCAT = """
func.func @joined(%x: tensor<?x3xf32>, %y: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %r = tensor.concat dim(0) %x, %y : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %s = math.absf %r : tensor<?x3xf32>
  return %s : tensor<?x3xf32>
}
"""


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def compiled(folder, spec: str = SPEC, model: str = MODEL + CONCAT) -> opsplice.Program:
    (folder / "k.c").write_text(KERNELS)
    (folder / "s.splice").write_text(spec.replace("both with", "both at input with"))
    return opsplice.compile(ModuleSource(content=model), specs=[folder / "s.splice"])


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> opsplice.Program:
    return compiled(tmp_path_factory.mktemp("sizes"))


@pytest.mark.parametrize("size", [3, 10])
def test_a_stencil(program, size):
    x, w = values(size), values(3)
    wanted = np.convolve(x, w[::-1], "valid") + 100
    np.testing.assert_allclose(program.run("stencil", x, w), wanted, rtol=1e-5)


@pytest.mark.parametrize(("m", "k"), [(2, 5), (1, 1), (4, 0)])
def test_tensors_that_are_joined(program, m, k):
    x, y = values(m, 3), values(k, 3)
    np.testing.assert_allclose(program.run("joined", x, y), np.concatenate([x + 100, y + 200]), rtol=1e-6)


@pytest.mark.parametrize(("m", "k", "n"), [(2, 9, 3), (1, 4, 1), (3, 33, 2)])
def test_what_a_kernel_makes_for_another_one(program, m, k, n):
    a, b = values(m, k), values(k, n)
    np.testing.assert_allclose(program.run("product", a, b), a @ b + 100, rtol=1e-5)


def test_a_size_that_is_not_the_programs_is_an_error_at_run_time(tmp_path):
    spec = SPEC.replace("f32[n - 2]", "f32[n - 1]")
    program = compiled(tmp_path, spec, MODEL)
    with pytest.raises(OpspliceError) as failure:
        program.run("stencil", values(5), values(3))
    assert "kernel stencil makes n - 1 elements along a dim, and there are others" in str(failure.value)


def test_a_branch_by_size(tmp_path):
    spec = SPEC.replace("replace smooth with", "replace smooth when n > 4 with")
    program = compiled(tmp_path, spec, MODEL)
    for size, more in ((4, 0), (5, 100)):
        x, w = values(size), values(3)
        wanted = np.convolve(x, w[::-1], "valid") + more
        np.testing.assert_allclose(program.run("stencil", x, w), wanted, rtol=1e-5, atol=1e-6)
