"""Layers of the library in half precision, done by C kernels on halves: the numbers of the compiler's own code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import opsplice
from tests.plain import Plain

HALF = Path(__file__).parents[2] / "matchers" / "half"

# Halves as bits, for compilers and processors that have no type for them.
TYPES_C = """
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
static float of_bits(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
static uint32_t bits_of(float x) { uint32_t bits; memcpy(&bits, &x, 4); return bits; }
#ifdef BF16
static float get(uint16_t h) { return of_bits((uint32_t)h << 16); }
static uint16_t put(float x) {
  uint32_t bits = bits_of(x);
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
#define NAME(f) f##_bf16
#else
static float get(uint16_t h) {
  float size = (h & 0x7c00) ? of_bits(((uint32_t)(h & 0x7fff) << 13) + (112u << 23)) : (h & 0x3ff) * 0x1p-24f;
  return h & 0x8000 ? -size : size;
}
static uint16_t put(float x) {
  uint16_t sign = (uint16_t)(bits_of(x) >> 16 & 0x8000);
  float size = fabsf(x);
  if (size < 0x1p-14f) return sign | (uint16_t)rintf(size * 0x1p24f);
  uint32_t bits = bits_of(size);
  return sign | (uint16_t)((bits + 0xfff + ((bits >> 13) & 1) - (112u << 23)) >> 13);
}
#define NAME(f) f##_f16
#endif
"""
KERNELS_C = """
void NAME(norm)(const uint16_t *x, const uint16_t *gain, const uint16_t *bias, float eps, uint16_t *out, size_t m,
                size_t n) {
  for (size_t i = 0; i < m; ++i, x += n, out += n) {
    float mean = 0, square = 0;
    for (size_t j = 0; j < n; ++j) mean += get(x[j]) / (float)n;
    for (size_t j = 0; j < n; ++j) square += (get(x[j]) - mean) * (get(x[j]) - mean) / (float)n;
    for (size_t j = 0; j < n; ++j) out[j] = put((get(x[j]) - mean) / sqrtf(square + eps) * get(gain[j]) + get(bias[j]));
  }
}
void NAME(rms)(const uint16_t *x, const uint16_t *gain, float eps, uint16_t *out, size_t m, size_t n) {
  for (size_t i = 0; i < m; ++i, x += n, out += n) {
    float square = 0;
    for (size_t j = 0; j < n; ++j) square += get(x[j]) * get(x[j]) / (float)n;
    for (size_t j = 0; j < n; ++j) out[j] = put(get(x[j]) / sqrtf(square + eps) * get(gain[j]));
  }
}
void NAME(product)(const uint16_t *x, const uint16_t *w, uint16_t *out, size_t m, size_t k, size_t n) {
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (size_t l = 0; l < k; ++l) sum += get(x[i * k + l]) * get(w[l * n + j]);
      out[i * n + j] = put(sum);
    }
}
void NAME(rows)(const uint16_t *x, uint16_t *out, size_t m, size_t n) {
  for (size_t i = 0; i < m; ++i, x += n, out += n) {
    float peak = -INFINITY, sum = 0;
    for (size_t j = 0; j < n; ++j) peak = fmaxf(peak, get(x[j]));
    for (size_t j = 0; j < n; ++j) sum += expf(get(x[j]) - peak);
    for (size_t j = 0; j < n; ++j) out[j] = put(expf(get(x[j]) - peak) / sum);
  }
}
void NAME(attend)(const uint16_t *q, const uint16_t *k, const uint16_t *v, float scale, uint16_t *out, size_t b,
                  size_t s, size_t d, size_t t, size_t e) {
  for (size_t n = 0; n < b; ++n, q += s * d, k += t * d, v += t * e, out += s * e)
    for (size_t i = 0; i < s; ++i) {
      float score[64], peak = -INFINITY, sum = 0;
      for (size_t j = 0; j < t; ++j) {
        score[j] = 0;
        for (size_t c = 0; c < d; ++c) score[j] += scale * get(q[i * d + c]) * get(k[j * d + c]);
        peak = fmaxf(peak, score[j]);
      }
      for (size_t j = 0; j < t; ++j) sum += score[j] = expf(score[j] - peak);
      for (size_t c = 0; c < e; ++c) {
        float made = 0;
        for (size_t j = 0; j < t; ++j) made += score[j] / sum * get(v[j * e + c]);
        out[i * e + c] = put(made);
      }
    }
}
"""
SPEC = """
import "opsplice:nn"
import "opsplice:strided"
kernel norm(x: TYPE[...m, n], gain: TYPE[n], bias: TYPE[n], eps: f32) -> TYPE[...m, n] {
  symbol "norm_TYPE" cpu "k.c" as bitcode
}
kernel rms(x: TYPE[...m, n], gain: TYPE[n], eps: f32) -> TYPE[...m, n] { symbol "rms_TYPE" cpu "k.c" as bitcode }
kernel product(x: TYPE[...m, k], w: TYPE[n, k] as [k, n]) -> TYPE[...m, n] {
  symbol "product_TYPE" cpu "k.c" as bitcode
}
kernel rows(x: TYPE[...m, n]) -> TYPE[...m, n] { symbol "rows_TYPE" cpu "k.c" as bitcode }
kernel attend(q: TYPE[...b, s, d] copied, k: TYPE[...b, t, d] copied, v: TYPE[...b, t, e] copied, scale: f32)
  -> TYPE[...b, s, e] copied {
  symbol "attend_TYPE" cpu "k.c" as bitcode
}
replace any_attention with attend(q, k, v, scale)
replace layernorm with norm(x, gain, bias, eps)
replace rmsnorm with rms(x, gain, eps)
replace softmax with rows(x)
replace linear with product(x, w)
"""
HEADS = [(2, 4, 6, 8)] * 3
WIDE_HEADS = [(2, 4, 8, 16)] * 3
LAYERS = [
    ("torch", "layernorm", [(8, 32), (32,), (32,)]),
    ("torch", "rmsnorm", [(8, 32), (32,)]),
    ("torch", "softmax", [(8, 32)]),
    ("torch", "linear_kn", [(8, 32), (32, 16)]),
    ("torch", "attention", HEADS),
    ("jax", "layernorm", [(8, 32), (32,), (32,)]),
    ("jax", "rmsnorm", [(8, 32), (32,)]),
    ("jax", "softmax", [(8, 32)]),
    ("jax", "linear_kn", [(8, 32), (32, 16)]),
    ("jax", "attention_kt", WIDE_HEADS),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], tuple[Plain, opsplice.Program]]:
    """The layers of a frontend in a half precision that have kernels, all in one program, without the spec and with."""

    @functools.cache
    def build(frontend: str, half: str) -> tuple[Plain, opsplice.Program]:
        folder = tmp_path_factory.mktemp(f"{frontend}_{half}")
        (folder / "k.c").write_text(f"#define {half.upper()}\n{TYPES_C}{KERNELS_C}")
        (folder / "k.splice").write_text(SPEC.replace("TYPE", half))
        model = HALF / f"{frontend}_{half}.mlir"
        return Plain(model), opsplice.compile(model, specs=[folder / "k.splice"])

    return build


@pytest.mark.parametrize("half", ["f16", "bf16"])
@pytest.mark.parametrize(("frontend", "layer", "shapes"), LAYERS, ids=[f"{f}-{n}" for f, n, _ in LAYERS])
def test_a_kernel_for_halves_makes_the_same_numbers(programs, frontend: str, layer: str, shapes, half: str):
    plain, program = programs(frontend, half)
    replaced = [r.pattern for r in program.report.replacements if r.function == layer]
    assert replaced == ["any_attention" if "attention" in layer else layer.removesuffix("_kn")]
    random = np.random.default_rng(5)
    kind = np.float16 if half == "f16" else ml_dtypes.bfloat16
    given = [random.standard_normal(shape).astype(kind) for shape in shapes]
    own = plain.run(layer, *given)
    made = np.asarray(program.run(layer, *given))
    assert made.dtype == own.dtype == kind
    # The compiler's own code rounds more often, and sums in half precision where the frontend says so.
    unit = 2.0 ** (-10 if half == "f16" else -7)
    np.testing.assert_allclose(made.astype(np.float32), own.astype(np.float32), rtol=8 * unit, atol=8 * unit)


# A layernorm with the mean by itself and the variance from elsewhere: the mean is there in f16 and in f32.
TWO_MEANS = """
func.func @main(%x: !torch.vtensor<[8,32],f16>, %gain: !torch.vtensor<[32],f16>, %bias: !torch.vtensor<[32],f16>)
    -> !torch.vtensor<[8,32],f16> {{
  %last = torch.constant.int -1
  %dims = torch.prim.ListConstruct %last : (!torch.int) -> !torch.list<int>
  %zero = torch.constant.int 0
  %one = torch.constant.int 1
  %true = torch.constant.bool true
  %false = torch.constant.bool false
  %none = torch.constant.none
  %eps = torch.constant.float 1.000000e-05
  {statistics}
  %c = torch.aten.sub.Tensor %x, %m, %one
    : !torch.vtensor<[8,32],f16>, !torch.vtensor<[8,1],f16>, !torch.int -> !torch.vtensor<[8,32],f16>
  %e = torch.aten.add.Scalar %v, %eps, %one
    : !torch.vtensor<[8,1],f16>, !torch.float, !torch.int -> !torch.vtensor<[8,1],f16>
  %s = torch.aten.rsqrt %e : !torch.vtensor<[8,1],f16> -> !torch.vtensor<[8,1],f16>
  %g = torch.aten.mul.Tensor %gain, %c
    : !torch.vtensor<[32],f16>, !torch.vtensor<[8,32],f16> -> !torch.vtensor<[8,32],f16>
  %n = torch.aten.mul.Tensor %g, %s
    : !torch.vtensor<[8,32],f16>, !torch.vtensor<[8,1],f16> -> !torch.vtensor<[8,32],f16>
  %r = torch.aten.add.Tensor %n, %bias, %one
    : !torch.vtensor<[8,32],f16>, !torch.vtensor<[32],f16>, !torch.int -> !torch.vtensor<[8,32],f16>
  return %r : !torch.vtensor<[8,32],f16>
}}
"""
MEAN_AND_VARIANCE = """
  %m = torch.aten.mean.dim %x, %dims, %true, %none
    : !torch.vtensor<[8,32],f16>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[8,1],f16>
  %v = torch.aten.var.dim %x, %dims, %false, %true
    : !torch.vtensor<[8,32],f16>, !torch.list<int>, !torch.bool, !torch.bool -> !torch.vtensor<[8,1],f16>
"""
BOTH_AT_ONCE = """
  %v, %m = torch.aten.var_mean.correction %x, %dims, %zero, %true : !torch.vtensor<[8,32],f16>, !torch.list<int>,
    !torch.int, !torch.bool -> !torch.vtensor<[8,1],f16>, !torch.vtensor<[8,1],f16>
"""


@pytest.mark.parametrize("statistics", [MEAN_AND_VARIANCE, BOTH_AT_ONCE], ids=["mean and var", "var_mean"])
def test_a_kernel_for_a_mean_in_two_precisions(tmp_path: Path, statistics: str):
    (tmp_path / "k.c").write_text(f"#define F16\n{TYPES_C}{KERNELS_C}")
    (tmp_path / "k.splice").write_text(SPEC.replace("TYPE", "f16"))
    (tmp_path / "model.mlir").write_text(TWO_MEANS.format(statistics=statistics))
    random = np.random.default_rng(7)
    given = [random.standard_normal(shape).astype(np.float16) for shape in ((8, 32), (32,), (32,))]
    program = opsplice.compile(tmp_path / "model.mlir", specs=[tmp_path / "k.splice"])
    assert [r.pattern for r in program.report.replacements] == ["layernorm"]
    own = Plain(tmp_path / "model.mlir").run("main", *given)
    made = np.asarray(program.run("main", *given))
    np.testing.assert_allclose(made.astype(np.float32), own.astype(np.float32), rtol=2**-7, atol=2**-7)


MIXED = """
func.func @mixed(%x: tensor<4x8xbf16>, %w: tensor<8x16xf32>) -> tensor<4x16xf64> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x16xf32>) -> tensor<4x16xf32>
  %f = arith.extf %x : tensor<4x8xbf16> to tensor<4x8xf32>
  %y = linalg.matmul ins(%f, %w : tensor<4x8xf32>, tensor<8x16xf32>) outs(%z : tensor<4x16xf32>) -> tensor<4x16xf32>
  %r = arith.extf %y : tensor<4x16xf32> to tensor<4x16xf64>
  return %r : tensor<4x16xf64>
}
"""
MIXED_SPEC = """
kernel mixed<A in {bf16}, C in {f64}>(x: A[m, k], w: f32[k, n]) -> C[m, n] { cpu "mixed.c" }
pattern mixed_product<A in {bf16, f16}, B, C in {f64}>(x: tensor<m x k x A>, w: tensor<k x n x B>) through cast {
  contract[m k, k n -> m n](x, w) : C
}
replace mixed_product with mixed(x, w)
"""
MIXED_C = """
void mixed(const uint16_t *x, const float *w, double *out, size_t m, size_t k, size_t n) {
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (size_t l = 0; l < k; ++l) sum += (double)get(x[i * k + l]) * w[l * n + j];
      out[i * n + j] = sum;
    }
}
"""


def test_a_kernel_of_three_types_is_called_between_its_types(tmp_path: Path):
    """bf16 and f32 in, f64 out, where the program computes in f32: the kernel's numbers are those of f64."""
    (tmp_path / "mixed.c").write_text("#define BF16\n" + TYPES_C + MIXED_C)
    (tmp_path / "mixed.splice").write_text(MIXED_SPEC)
    flags = ["--iree-input-demote-f64-to-f32=false"]
    program = opsplice.compile(MIXED, specs=[tmp_path / "mixed.splice"], flags=flags)
    assert [r.pattern for r in program.report.replacements] == ["mixed_product"]
    random = np.random.default_rng(4)
    x = random.normal(size=(4, 8)).astype(ml_dtypes.bfloat16)
    w = random.normal(size=(8, 16)).astype(np.float32)
    exact = x.astype(np.float64) @ w.astype(np.float64)
    np.testing.assert_allclose(np.asarray(program.run("mixed", x, w)), exact, rtol=1e-14, atol=1e-14)
