"""Attention and convolutions of the library, done by C kernels: the numbers of the compiler's own code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplice

LAYERS = Path(__file__).parent.parent / "matchers" / "library"

ATTENTION_C = """
#include <math.h>
#include <stddef.h>
#define MAX_KEYS 64
static void attend(const float *q, const float *k, const float *v, const float *bias, const _Bool *mask, float scale,
                   float *out, size_t b, size_t s, size_t d, size_t t, size_t e) {
  for (size_t n = 0; n < b; ++n)
    for (size_t i = 0; i < s; ++i) {
      float score[MAX_KEYS], peak = -INFINITY, total = 0;
      for (size_t j = 0; j < t; ++j) {
        float sum = 0;
        for (size_t c = 0; c < d; ++c) sum += q[(n * s + i) * d + c] * k[(n * t + j) * d + c];
        sum *= scale;
        if (bias) sum += bias[(n * s + i) * t + j];
        if (mask && !mask[(n * s + i) * t + j]) sum = -1e9f;
        score[j] = sum;
        if (sum > peak) peak = sum;
      }
      for (size_t j = 0; j < t; ++j) total += score[j] = expf(score[j] - peak);
      for (size_t c = 0; c < e; ++c) {
        float sum = 0;
        for (size_t j = 0; j < t; ++j) sum += score[j] * v[(n * t + j) * e + c];
        out[(n * s + i) * e + c] = sum / total;
      }
    }
}
void plain(const float *q, const float *k, const float *v, float scale, float *out, size_t b, size_t s, size_t d,
           size_t t, size_t e) {
  attend(q, k, v, 0, 0, scale, out, b, s, d, t, e);
}
void biased(const float *q, const float *k, const float *v, const float *bias, float scale, float *out, size_t b,
            size_t s, size_t d, size_t t, size_t e) {
  attend(q, k, v, bias, 0, scale, out, b, s, d, t, e);
}
void where(const float *q, const float *k, const float *v, const _Bool *mask, float scale, float *out, size_t b,
           size_t s, size_t d, size_t t, size_t e) {
  attend(q, k, v, 0, mask, scale, out, b, s, d, t, e);
}
"""
ATTENTION_SPEC = """
import "opsplice:nn"
kernel plain(q: f32[...b, s, d], k: f32[...b, t, d], v: f32[...b, t, e], scale: f32) -> f32[...b, s, e] {
  cpu "k.c" as bitcode
}
kernel biased(q: f32[...b, s, d], k: f32[...b, t, d], v: f32[...b, t, e], bias: f32[...b, s, t], scale: f32)
  -> f32[...b, s, e] { cpu "k.c" as bitcode }
kernel where_(q: f32[...b, s, d], k: f32[...b, t, d], v: f32[...b, t, e], mask: i1[...b, s, t], scale: f32)
  -> f32[...b, s, e] { symbol "where" cpu "k.c" as bitcode }
replace attention with plain(q, k, v, scale)
replace attention_unscaled with plain(q, k, v, 1.0)
replace attention_biased with biased(q, k, v, bias, scale)
replace attention_biased_unscaled with biased(q, k, v, bias, 1.0)
replace attention_where_each with where_(q, k, v, mask, scale)
"""
MASKED = {"attention_masked": (16, 16), "attention_masked_unscaled": (16, 16), "attention_where": (16, 16)}
KINDS = [
    "attention_explicit",
    "attention_unscaled",
    "attention_masked",
    "attention_masked_unscaled",
    "attention_biased_explicit",
    "attention_biased_unscaled",
    "attention_where",
    "attention_where_each_explicit",
    "attention_library",
    "attention_biased_library",
    "attention_where_each_library",
]

CONV_C = """
#include <stddef.h>
static void sums(const float *x, const float *f, const float *bias, size_t sh, size_t sw, size_t dh, size_t dw,
                 float *out, size_t n, size_t c, size_t h, size_t w, size_t o, size_t kh, size_t kw, size_t rows,
                 size_t columns) {
  for (size_t b = 0; b < n; ++b)
    for (size_t k = 0; k < o; ++k)
      for (size_t y = 0; y < rows; ++y)
        for (size_t z = 0; z < columns; ++z) {
          float sum = bias ? bias[k] : 0;
          for (size_t l = 0; l < c; ++l)
            for (size_t i = 0; i < kh; ++i)
              for (size_t j = 0; j < kw; ++j)
                sum += x[((b * c + l) * h + y * sh + i * dh) * w + z * sw + j * dw] *
                       f[((k * c + l) * kh + i) * kw + j];
          out[((b * o + k) * rows + y) * columns + z] = sum;
        }
}
void conv(const float *x, const float *f, size_t sh, size_t sw, size_t dh, size_t dw, float *out, size_t n, size_t c,
          size_t h, size_t w, size_t o, size_t kh, size_t kw, size_t rows, size_t columns) {
  sums(x, f, 0, sh, sw, dh, dw, out, n, c, h, w, o, kh, kw, rows, columns);
}
void conv_bias(const float *x, const float *f, const float *bias, size_t sh, size_t sw, size_t dh, size_t dw,
               float *out, size_t n, size_t c, size_t h, size_t w, size_t o, size_t kh, size_t kw, size_t rows,
               size_t columns) {
  sums(x, f, bias, sh, sw, dh, dw, out, n, c, h, w, o, kh, kw, rows, columns);
}
"""


@pytest.fixture(scope="module")
def attention(tmp_path_factory: pytest.TempPathFactory) -> tuple[opsplice.Program, opsplice.Program]:
    """The attention kernels of the corpus, compiled without the spec and with it."""
    folder = tmp_path_factory.mktemp("attention")
    (folder / "k.c").write_text(ATTENTION_C)
    (folder / "k.splice").write_text(ATTENTION_SPEC)
    model = LAYERS / "attention.mlir"
    return opsplice.compile(model), opsplice.compile(model, specs=[folder / "k.splice"])


def test_every_kind_of_attention_is_replaced(attention):
    _, program = attention
    assert len(program.report.replacements) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_attention(attention, kind: str):
    random = np.random.default_rng(3)
    arguments = [random.standard_normal((4, 16, 8)).astype(np.float32) for _ in range(3)]
    shape = MASKED.get(kind, (4, 16, 16))
    if "where" in kind:
        mask = random.uniform(size=shape) < 0.7
        mask[..., 0] = True  # a row without any key has no attention
        arguments.append(mask)
    elif "masked" in kind or "biased" in kind:
        arguments.append(random.standard_normal(shape).astype(np.float32))
    own, spliced = (np.asarray(program.run(kind, *arguments)) for program in attention)
    np.testing.assert_allclose(spliced, own, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    "function",
    [
        "conv2d_nchw_fchw",
        "conv2d_nchw_fchw_dilated",
        "conv2d_bias_nchw_fchw_first",
        "conv2d_bias_nchw_fchw_last",
        "conv2d_bias_nchw_fchw_dilated",
    ],
)
def test_convolution_with_its_strides_as_arguments(tmp_path: Path, function: str):
    (tmp_path / "k.c").write_text(CONV_C)
    biased = "bias" in function
    pattern, kernel, bias = ("conv2d_nchw_fchw", "conv", "")
    if biased:
        pattern, kernel, bias = ("conv2d_bias_nchw_fchw", "conv_bias", "bias, ")
    (tmp_path / "k.splice").write_text(f"""
    import "opsplice:nn"
    kernel {kernel}(x: f32[n, c, h, w], filter: f32[o, c, kh, kw], {"bias: f32[o], " * biased}
      sh: index, sw: index, dh: index, dw: index) -> f32[n, o, rows, columns] {{ cpu "k.c" }}
    replace {pattern} with {kernel}(x, filter, {bias}sh, sw, dh, dw)
    """)
    text = (LAYERS / "conv_nchw.mlir").read_text()
    start = text.index(f"func.func @{function}(")
    (tmp_path / "model.mlir").write_text(text[start : text.index("\n}\n", start) + 3])
    random = np.random.default_rng(4)
    shapes = ((2, 3, 17, 17), (8, 3, 3, 3), *[(8,)] * biased)
    given = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    program = opsplice.compile(tmp_path / "model.mlir", specs=[tmp_path / "k.splice"])
    assert len(program.report.replacements) == 1
    own = np.asarray(opsplice.compile(tmp_path / "model.mlir").run(function, *given))
    np.testing.assert_allclose(np.asarray(program.run(function, *given)), own, rtol=1e-5, atol=1e-5)
