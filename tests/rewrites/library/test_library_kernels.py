"""Convolutions of the library, done by C kernels: the numbers of the compiler's own code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.interpreter import evaluate
from tests.plain import Plain

LAYERS = Path(__file__).parents[2] / "matchers" / "library"

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


@pytest.mark.parametrize(
    "function",
    [
        "conv2d_nchw_fchw",
        "conv2d_nchw_fchw_dilated",
        "conv2d_nchw_fchw_bias_first",
        "conv2d_nchw_fchw_bias_last",
        "conv2d_nchw_fchw_bias_dilated",
    ],
)
def test_convolution_with_its_strides_as_arguments(tmp_path: Path, function: str):
    (tmp_path / "k.c").write_text(CONV_C)
    biased = "bias" in function
    kernel, bias = ("conv_bias", "bias, ") if biased else ("conv", "")
    (tmp_path / "k.splice").write_text(f"""
    import "opsplice:nn"
    kernel {kernel}(x: f32[n, c, h, w], filter: f32[o, c, kh, kw], {"bias: f32[o], " * biased}
      sh: index, sw: index, dh: index, dw: index) -> f32[n, o, rows, columns] {{ cpu "k.c" }}
    replace conv2d with {kernel}(x, filter, {bias}sh, sw, dh, dw)
    """)
    text = (LAYERS / "conv_nchw.mlir").read_text()
    start = text.index(f"func.func @{function}(")
    (tmp_path / "model.mlir").write_text(text[start : text.index("\n}\n", start) + 3])
    random = np.random.default_rng(4)
    shapes = ((2, 3, 17, 17), (8, 3, 3, 3), *[(8,)] * biased)
    given = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    program = opsplice.compile(tmp_path / "model.mlir", specs=[tmp_path / "k.splice"])
    assert len(program.report.replacements) == 1
    own = Plain(tmp_path / "model.mlir").run(function, *given)
    np.testing.assert_allclose(np.asarray(program.run(function, *given)), own, rtol=1e-5, atol=1e-5)


MORE_C = """
#include <stddef.h>
void groups(const float *x, const float *f, const float *bias, float *out, size_t n, size_t g, size_t c, size_t h,
            size_t w, size_t o, size_t kh, size_t kw, size_t rows, size_t columns) {
  for (size_t at = 0; at < n * g * o; ++at)
    for (size_t y = 0; y < rows; ++y)
      for (size_t z = 0; z < columns; ++z) {
        size_t group = at / o;
        float sum = bias[at % (g * o)];
        for (size_t l = 0; l < c; ++l)
          for (size_t i = 0; i < kh; ++i)
            for (size_t j = 0; j < kw; ++j)
              sum += x[((group * c + l) * h + y + i) * w + z + j] * f[((at % (g * o) * c + l) * kh + i) * kw + j];
        out[(at * rows + y) * columns + z] = sum;
      }
}
void deep(const float *x, const float *f, float *out, size_t n, size_t c, size_t d, size_t h, size_t w, size_t o,
          size_t kd, size_t kh, size_t kw, size_t layers, size_t rows, size_t columns) {
  for (size_t at = 0; at < n * layers * rows * columns * o; ++at) {
    size_t z = at / o % columns, y = at / o / columns % rows, v = at / o / columns / rows % layers;
    float sum = 0;
    for (size_t k = 0; k < kd; ++k)
      for (size_t i = 0; i < kh; ++i)
        for (size_t j = 0; j < kw; ++j)
          for (size_t l = 0; l < c; ++l)
            sum += x[(((at / o / columns / rows / layers * d + v + k) * h + y + i) * w + z + j) * c + l] *
                   f[(((k * kh + i) * kw + j) * c + l) * o + at % o];
    out[at] = sum;
  }
}
"""
MORE_SPEC = """
import "opsplice:nn"
kernel groups(x: f32[n, g, c, h, w], filter: f32[g, o, c, kh, kw], bias: f32[g, o]) -> f32[n, g, o, rows, columns] {
  cpu "k.c"
}
kernel deep(
  x: f32[n, c, d, h, w] as [n, d, h, w, c],
  filter: f32[o, c, kd, kh, kw] as [kd, kh, kw, c, o],
) -> f32[n, o, layers, rows, columns] as [n, layers, rows, columns, o] {
  cpu "k.c"
}
replace grouped_conv2d where sh * sw * dh * dw == 1 with groups(x, filter, bias)
replace conv3d where sd * sh * sw * dd * dh * dw == 1 with deep(x, filter)
"""
MORE = {
    "grouped_conv2d_nchw_bias": ((2, 8, 9, 11), (12, 2, 3, 3), (12,)),
    "grouped_conv2d_nchw_bias_several_of_each": ((2, 4, 7, 9), (8, 1, 3, 3), (8,)),
    "conv3d_ndhwc_dhwcf": ((2, 8, 9, 10, 3), (3, 3, 3, 3, 5)),
    "conv3d_ndhwc_dhwcf_bias": ((2, 8, 9, 10, 3), (3, 3, 3, 3, 5), (5,)),
}


def test_convolutions_in_groups_and_in_three_dims(tmp_path: Path):
    (tmp_path / "k.c").write_text(MORE_C)
    (tmp_path / "k.splice").write_text(MORE_SPEC)
    model = LAYERS / "conv_grouped.mlir"
    program = opsplice.compile(model, specs=[tmp_path / "k.splice"])
    plain = Plain(model)
    assert sorted(r.function for r in program.report.replacements) == sorted(MORE)
    random = np.random.default_rng(5)
    for function, shapes in MORE.items():
        given = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
        own = np.asarray(plain.run(function, *given))
        np.testing.assert_allclose(np.asarray(program.run(function, *given)), own, rtol=1e-5, atol=2e-5)


TO_NCHW_C = """
#include <stddef.h>
static void sums(const float *x, const float *f, const float *bias, size_t step, size_t deep, float *out, size_t n,
                 size_t c, size_t h, size_t w, size_t o, size_t kh, size_t kw, size_t rows, size_t columns) {
  for (size_t b = 0; b < n; ++b)
    for (size_t k = 0; k < o; ++k)
      for (size_t y = 0; y < rows; ++y)
        for (size_t z = 0; z < columns; ++z) {
          float sum = bias[k];
          for (size_t i = 0; i < kh; ++i)
            for (size_t j = 0; j < kw; ++j)
              for (size_t l = 0; l < (deep ? c : 1); ++l)
                sum += x[((b * h + y * step + i) * w + z * step + j) * c + (deep ? l : k)] *
                       f[((i * kw + j) * (deep ? c : 1) + l) * o + k];
          out[((b * o + k) * rows + y) * columns + z] = sum;
        }
}
void conv2d(const float *x, const float *f, const float *bias, size_t sh, float *out, size_t n, size_t c, size_t h,
            size_t w, size_t o, size_t kh, size_t kw, size_t rows, size_t columns) {
  sums(x, f, bias, sh, 1, out, n, c, h, w, o, kh, kw, rows, columns);
}
void depthwise(const float *x, const float *f, const float *bias, float *out, size_t n, size_t c, size_t h, size_t w,
               size_t kh, size_t kw, size_t rows, size_t columns) {
  sums(x, f, bias, 1, 0, out, n, c, h, w, c, kh, kw, rows, columns);
}
void conv1d(const float *x, const float *f, const float *bias, float *out, size_t n, size_t c, size_t w, size_t o,
            size_t kw, size_t columns) {
  sums(x, f, bias, 1, 1, out, n, c, 1, w, o, 1, kw, 1, columns);
}
"""
TO_NCHW_SPEC = """
import "opsplice:nn"
kernel conv2d_last(
  x: f32[n, c, h, w] as [n, h, w, c],
  filter: f32[o, c, kh, kw] as [kh, kw, c, o] copied,
  bias: f32[o],
  sh: index,
) -> f32[n, o, rows, columns] {
  symbol "conv2d"
  cpu "k.c"
}
kernel depthwise(
  x: f32[n, c, h, w] as [n, h, w, c],
  filter: f32[c, kh, kw] as [kh, kw, c] copied,
  bias: f32[c],
) -> f32[n, c, rows, columns] {
  cpu "k.c"
}
kernel conv1d_last(
  x: f32[n, c, w] as [n, w, c],
  filter: f32[o, c, kw] as [kw, c, o] copied,
  bias: f32[o],
) -> f32[n, o, columns] {
  symbol "conv1d"
  cpu "k.c"
}
replace conv2d where sh == sw and dh * dw == 1 with conv2d_last(x, filter, bias, sh)
replace depthwise_conv2d where sh * sw * dh * dw == 1 with depthwise(x, filter, bias)
replace conv1d where sw * dw == 1 with conv1d_last(x, filter, bias)
"""
TO_NCHW = {
    "conv2d_nhwc_hwcf_to_nchw_bias": ((2, 3, 9, 10), (8, 3, 3, 3)),
    "conv2d_nhwc_hwcf_to_nchw_bias_strided": ((2, 3, 9, 10), (8, 3, 3, 3)),
    "depthwise_conv2d_nhwc_hwc_to_nchw_bias": ((2, 8, 9, 10), (8, 1, 3, 3)),
    "conv1d_nwc_wcf_to_ncw_bias": ((2, 3, 16), (8, 3, 3)),
}


def test_padded_convolutions_with_channels_second(tmp_path: Path):
    (tmp_path / "k.c").write_text(TO_NCHW_C)
    (tmp_path / "k.splice").write_text(TO_NCHW_SPEC)
    model = LAYERS / "conv_to_nchw.mlir"
    plain, spliced = Plain(model), opsplice.compile(model, specs=[tmp_path / "k.splice"])
    replaced = [r.pattern for r in spliced.report.replacements]
    assert replaced == ["conv2d", "conv2d", "depthwise_conv2d", "conv1d"]
    random = np.random.default_rng(5)
    for function, shapes in TO_NCHW.items():
        given = [random.standard_normal(shape).astype(np.float32) for shape in (*shapes, (8,))]
        own, made = (np.asarray(program.run(function, *given)) for program in (plain, spliced))
        np.testing.assert_allclose(made, own, rtol=1e-5, atol=1e-5)


LAST_PY = """
import numpy as np
def batch(x, mean, variance, gain, bias, eps, out):
    out[...] = (x - mean) / np.sqrt(variance + eps) * gain + bias
def group(x, gain, bias, eps, out):
    mean, variance = (f(x, axis=(1, 2, 3, 5), keepdims=True) for f in (np.mean, np.var))
    out[...] = (x - mean) / np.sqrt(variance + eps) * gain + bias
def alone(x, eps, out):
    group(x, 1, 0, eps, out)
"""
LAST_SPEC = """
import "opsplice:strided"
kernel batch(
  x: f32[b, c, ...p] as [b, ...p, c],
  mean: f32[c],
  variance: f32[c],
  gain: f32[c],
  bias: f32[c],
  eps: f32,
) -> f32[b, c, ...p] as [b, ...p, c] {
  cpu "k.py" as command
}
kernel group(
  x: f32[b, g, c, d, h, w] as [b, d, h, w, g, c],
  gain: f32[g, c],
  bias: f32[g, c],
  eps: f32,
) -> f32[b, g, c, d, h, w] as [b, d, h, w, g, c] {
  cpu "k.py" as command
}
// Without a gain nothing tells c, h and w apart.
kernel alone(
  x: f32[b, g, c, d, h, w] as [b, d, h, w, g, c] copied,
  eps: f32,
) -> f32[b, g, c, d, h, w] as [b, d, h, w, g, c] copied {
  cpu "k.py" as command
}
replace batchnorm with batch(x, mean, variance, gain, bias, eps)
keep any_groupnorm where w == 1
replace any_groupnorm with alone(x, eps)
replace any_groupnorm with group(x, gain, bias, eps)
"""
LAST = {
    "batchnorm_nhwc_keras": [(2, 5, 4, 3), *[(3,)] * 4],
    "batchnorm_nhwc_without_eps_keras": [(2, 5, 4, 3), *[(3,)] * 4],
    "any_groupnorm_keras": [(2, 5, 3, 8), (8,), (8,)],
    "any_groupnorm_alone": [(2, 5, 3, 8)],
}


def test_norms_of_keras_with_channels_last_by_dense_kernels(tmp_path: Path):
    (tmp_path / "k.py").write_text(LAST_PY)
    (tmp_path / "k.splice").write_text(LAST_SPEC)
    model = LAYERS / "norms_keras.mlir"
    plain, spliced = Plain(model), opsplice.compile(model, specs=[tmp_path / "k.splice"])
    assert [r.function for r in spliced.report.replacements] == list(LAST), spliced.report
    random = np.random.default_rng(5)
    for function, shapes in LAST.items():
        given = [random.uniform(0.5, 2, shape).astype(np.float32) for shape in shapes]
        own, made = (np.asarray(program.run(function, *given)) for program in (plain, spliced))
        np.testing.assert_allclose(made, own, rtol=1e-4, atol=1e-5)


GELU_C = """
#include <stddef.h>
static double erf_of(double z) { /* by its series, for z between -4 and 4 */
  double term = z, sum = z;
  for (int n = 1; n < 100; ++n) {
    term *= -z * z / n;
    sum += term / (2 * n + 1);
  }
  return 1.1283791670955126 * sum;
}
void gelu(const float *x, float *out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = (float)(0.5 * x[i] * (1 + erf_of(x[i] * 0.70710678118654757)));
}
"""


@pytest.mark.parametrize(("function", "shape"), [("gelu", (8, 16)), ("gelu_jax", (8, 32))])
def test_gelu_by_the_error_function_and_by_its_complement(tmp_path: Path, function: str, shape: tuple[int, int]):
    (tmp_path / "k.c").write_text(GELU_C)
    spec = 'import "opsplice:nn" kernel gelu_rows(x: f32[...m]) -> f32[...m] { symbol "gelu" cpu "k.c" as bitcode }'
    (tmp_path / "k.splice").write_text(f"{spec} replace gelu with gelu_rows(x)")
    model = LAYERS / f"{function}.mlir"
    program = opsplice.compile(model, specs=[tmp_path / "k.splice"])
    assert {r.pattern for r in program.report.replacements} == {"gelu"}
    x = np.linspace(-5, 5, shape[0] * shape[1], dtype=np.float32).reshape(shape)
    own = Plain(model).run(function, x)
    np.testing.assert_allclose(np.asarray(program.run(function, x)), own, rtol=1e-5, atol=1e-6)


ARGMAX_C = """
#include <stddef.h>
#include <stdint.h>
void largest(const float *x, int32_t *at, size_t m, size_t n) {
  for (size_t i = 0; i < m; ++i, x += n) {
    at[i] = 0;
    for (size_t j = 1; j < n; ++j)
      if (x[j] > x[at[i]]) at[i] = (int32_t)j;
  }
}
"""


@pytest.mark.parametrize("function", ["argmax_jax", "argmax_torch", "argmax_onnx"])
def test_the_index_of_the_largest_element_of_each_row(tmp_path: Path, function: str):
    (tmp_path / "k.c").write_text(ARGMAX_C)
    kernel = 'import "opsplice:nn" kernel largest(x: f32[...m, n]) -> i32[...m] { cpu "k.c" }'
    (tmp_path / "k.splice").write_text(f"{kernel} replace argmax with largest(x)")
    program = opsplice.compile(LAYERS / f"{function}.mlir", specs=[tmp_path / "k.splice"])
    assert [r.pattern for r in program.report.replacements] == ["argmax"]
    x = np.random.default_rng(3).integers(-9, 9, (4, 32)).astype(np.float32)  # most rows have their largest twice
    np.testing.assert_array_equal(np.asarray(program.run(function, x)), x.argmax(-1))


NORM = "x, gain, bias, eps"
BATCH_NORM = "x, mean, variance, gain, bias, eps"
LINEAR = "x, w, bias, activation"


@pytest.mark.parametrize(
    ("file", "function", "pattern", "call", "shapes"),
    [
        ("norms_2d", "layernorm_2d", "layernorm_2d", NORM, [(2, 3, 5, 4), (5, 4), (5, 4)]),
        ("norms_2d", "batchnorm_nchw_row", "batchnorm", BATCH_NORM, [(2, 3, 7), *[(3,)] * 4]),
        ("norms_keras", "layernorm_keras", "layernorm", NORM, [(2, 4, 8), (8,), (8,)]),
        ("norms_keras", "layernorm_2d_keras", "layernorm_2d", NORM, [(2, 3, 5, 4), (5, 4), (5, 4)]),
        ("norms_keras", "layernorm_alone_keras", "layernorm", NORM, [(2, 4, 8)]),
        ("norms_keras", "batchnorm_nchw_row_without_eps_keras", "batchnorm", BATCH_NORM, [(2, 3, 7), *[(3,)] * 4]),
        ("linear", "linear_nk", "linear", LINEAR, [(8, 32), (16, 32)]),
        ("linear", "linear_nk_bias", "linear", LINEAR, [(2, 8, 32), (16, 32), (16,)]),
        ("linear", "linear_nk_bias_relu", "linear", LINEAR, [(2, 8, 32), (16, 32), (16,)]),
    ],
)
def test_a_layer_written_out_again_makes_the_same_numbers(
    tmp_path: Path, file: str, function: str, pattern: str, call: str, shapes
):
    """Also where it lacks a gain, a bias, eps or an activation: the alternative is written that has the rest."""
    where = "where activation < 2" if call == LINEAR else ""  # others have ranges of numbers
    (tmp_path / "k.splice").write_text(f'import "opsplice:nn" replace {pattern} {where} with {pattern}({call})')
    model = LAYERS / f"{file}.mlir"
    module, report = opsplice.transform(model, [tmp_path / "k.splice"])
    replaced = {(r.pattern, r.function) for r in report.replacements}
    assert (pattern, function) in replaced
    assert {p for p, _ in replaced} == {pattern}
    random = np.random.default_rng(7)
    given = [random.uniform(0.5, 2, shape).astype(np.float32) for shape in shapes]
    own = Plain(model).run(function, *given)
    (made,) = evaluate(module, function, given)
    np.testing.assert_allclose(made, own, rtol=2e-5, atol=2e-5)
