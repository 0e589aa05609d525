"""The library's pools, of any window, stride, dilation and layout, by plain kernels: numbers of the compiler's code."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import opsplice
from tests.plain import Plain
from tests.rewrites.conftest import write_spec

LAYERS = Path(__file__).parents[2] / "matchers" / "library"
# One kernel takes both layouts: channels second have steps of one element, channels last of as many as there are.
KERNEL_C = """
#include <stddef.h>
static void pool(const float *x, size_t kh, size_t kw, size_t sh, size_t sw, size_t dh, size_t dw, float *out, size_t m,
                 size_t h, size_t w, size_t c, size_t rows, size_t columns, int is_mean) {
  for (size_t p = 0; p < m; ++p)
    for (size_t y = 0; y < rows; ++y)
      for (size_t z = 0; z < columns; ++z)
        for (size_t l = 0; l < c; ++l) {
          float sum = 0, peak = -__builtin_inff();
          for (size_t i = 0; i < kh; ++i)
            for (size_t j = 0; j < kw; ++j) {
              float value = x[((p * h + y * sh + i * dh) * w + z * sw + j * dw) * c + l];
              sum += value;
              peak = value > peak ? value : peak;
            }
          out[((p * rows + y) * columns + z) * c + l] = is_mean ? sum / (float)(kh * kw) : peak;
        }
}
#define SIZES size_t m, size_t c, size_t h, size_t w, size_t y, size_t z
#define GIVEN const float *x, size_t kh, size_t kw, size_t sh, size_t sw, size_t dh, size_t dw, float *out, SIZES
void max_nchw(GIVEN) { pool(x, kh, kw, sh, sw, dh, dw, out, m * c, h, w, 1, y, z, 0); }
void max_nhwc(GIVEN) { pool(x, kh, kw, sh, sw, dh, dw, out, m, h, w, c, y, z, 0); }
void mean_nchw(GIVEN) { pool(x, kh, kw, sh, sw, dh, dw, out, m * c, h, w, 1, y, z, 1); }
void mean_nhwc(GIVEN) { pool(x, kh, kw, sh, sw, dh, dw, out, m, h, w, c, y, z, 1); }
void mean_of_image(const float *x, float *out, size_t m, size_t h, size_t w, size_t x_h, size_t x_w, size_t workgroup) {
  float sum = 0;
  for (size_t i = 0; i < h; ++i)
    for (size_t j = 0; j < w; ++j) sum += x[i * x_h + j * x_w];
  *out = sum / (float)(h * w);
}
"""
NUMBERS = "kh: index, kw: index, sh: index, sw: index, dh: index, dw: index"
SPEC = 'import "opsplice:nn"\n'
for _name, _pattern in (("max", "max_pool"), ("mean", "average_pool")):
    SPEC += f"""
    kernel {_name}_nchw(x: f32[m, c, h, w], {NUMBERS}) -> f32[m, c, y, z] {{ cpu "k.c" }}
    kernel {_name}_nhwc(x: f32[m, c, h, w] as [m, h, w, c], {NUMBERS}) -> f32[m, c, y, z] as [m, y, z, c] {{
      cpu "k.c"
    }}
    replace {_pattern} with {_name}_nchw(x, kh, kw, sh, sw, dh, dw)
    replace {_pattern} with {_name}_nhwc(x, kh, kw, sh, sw, dh, dw)
    """
SPEC += """
kernel mean_of_image(x: f32[...m, h, w] strided) -> f32[...m] strided { grid (m) cpu "k.c" }
replace global_average_pool with mean_of_image(x)
"""


@pytest.fixture(scope="module")
def spec(tmp_path_factory) -> Path:
    return write_spec(tmp_path_factory.mktemp("pooling"), SPEC, {"k.c": KERNEL_C})


@pytest.mark.parametrize(("file", "channels_last", "count"), [("pooling_jax", True, 6), ("pooling_nchw", False, 2)])
def test_pools_of_frontends(spec, file, channels_last, count):
    model = LAYERS / f"{file}.mlir"
    program, plain = opsplice.compile(model, [spec]), Plain(model)
    assert len(program.report.replacements) == count, program.report
    shape = (2, 12, 12, 4) if channels_last else (2, 3, 12, 12)
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    for function in (each.function for each in program.report.replacements):
        np.testing.assert_allclose(program.run(function, x), plain.run(function, x), rtol=1e-5, atol=1e-6)


def test_images_of_both_layouts_of_jax(spec):
    jax = pytest.importorskip("jax", reason="JAX is not installed (make frontends)")
    x = np.random.default_rng(2).standard_normal((2, 12, 10, 4)).astype(np.float32)
    program = opsplice.compile(jax.export.export(jax.jit(lambda x: (x.mean((1, 2)), x.mean((2, 3)))))(x), [spec])
    assert [each.kernel for each in program.report.replacements] == ["mean_of_image"] * 2, program.report
    for got, axes in zip(program.run("main", x), ((1, 2), (2, 3)), strict=True):
        np.testing.assert_allclose(got, x.astype(float).mean(axes), rtol=1e-5, atol=1e-6)


def test_pools_of_pytorch(spec):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")
    functional = torch.nn.functional

    class Pools(torch.nn.Module):
        def forward(self, x):
            return (
                functional.max_pool2d(x, 3, 2, 1),
                functional.max_pool2d(x, (1, 3), dilation=2),
                functional.avg_pool2d(x, (3, 2), (2, 1), 1),
                functional.adaptive_avg_pool2d(x, 1),
                # Each window has a divisor of its own, which these kernels do not take.
                functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            )

    x = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    program = opsplice_torch.export(Pools().eval(), (x,), specs=[spec])
    found = sorted(each.kernel for each in program.report.replacements)
    assert found == ["max_nchw", "max_nchw", "mean_nchw", "mean_of_image"], program.report
    for got, wanted in zip(program.run("main", x.numpy()), Pools()(x), strict=True):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-5, atol=1e-6)


# flax's avg_pool where padding does not count: how many numbers each window has is a pool of ones.
WITH_COUNTS = """
func.func @main(%x: tensor<2x9x9x4xf32>) -> tensor<2x5x5x4xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<1x9x9x1xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = "stablehlo.reduce_window"(%x, %zero) <{padding = dense<[[0, 0], [1, 1], [1, 1], [0, 0]]> : tensor<4x2xi64>,
      window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<2x9x9x4xf32>, tensor<f32>) -> tensor<2x5x5x4xf32>
  %count = "stablehlo.reduce_window"(%one, %zero) <{padding = dense<[[0, 0], [1, 1], [1, 1], [0, 0]]> : tensor<4x2xi64>,
      window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1x9x9x1xf32>, tensor<f32>) -> tensor<1x5x5x1xf32>
  %counts = stablehlo.broadcast_in_dim %count, dims = [0, 1, 2, 3] : (tensor<1x5x5x1xf32>) -> tensor<2x5x5x4xf32>
  %mean = stablehlo.divide %sum, %counts : tensor<2x5x5x4xf32>
  return %mean : tensor<2x5x5x4xf32>
}
"""
COUNTED_SPEC = """
import "opsplice:nn"
kernel counted(x: f32[n, c, h, w] strided, counts: f32[y, z] strided optional) -> f32[n, c, y, z] strided {
  cpu "host.py" as command
}
replace average_pool where kh == 3 and sh == 2 with counted(x, counts)
"""
COUNTED_CODE = """
import numpy as np

def counted(x, counts, out):
  windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::2, ::2]
  out[...] = windows.sum((4, 5)) / (9 if counts is None else counts)
"""


@pytest.mark.parametrize("is_counted", [True, False])
def test_padding_that_does_not_count(tmp_path, is_counted):
    text = (
        WITH_COUNTS
        if is_counted
        else WITH_COUNTS.replace("divide %sum, %counts", "divide %sum, %nine").replace(
            "%mean =", "%nine = stablehlo.constant dense<9.0> : tensor<2x5x5x4xf32>\n  %mean ="
        )
    )
    program = opsplice.compile(text, [write_spec(tmp_path, COUNTED_SPEC, {"host.py": COUNTED_CODE})])
    assert [each.kernel for each in program.report.replacements] == ["counted"], program.report
    x = np.random.default_rng(2).standard_normal((2, 9, 9, 4)).astype(np.float32)
    np.testing.assert_allclose(program.run("main", x), Plain(text).run("main", x), rtol=1e-5, atol=1e-6)


def test_a_kernel_that_takes_no_counts_leaves_these_alone(spec):
    program = opsplice.compile(WITH_COUNTS, [spec])
    assert "mean_nhwc" not in [each.kernel for each in program.report.replacements]


# Pools of any rank by one rule and one kernel.
ANY_SPEC = """
import "opsplice:strided"
kernel any(
  x: f32[n, c, d, h, w] strided, counts: f32[v, y, z] strided optional, kd: i32, kh: i32, kw: i32,
  sd: i32, sh: i32, sw: i32, dd: i32, dh: i32, dw: i32, kind: i32,
) -> f32[n, c, v, y, z] strided { cpu "host.py" as command }
replace any_pool with any(x, counts, kd, kh, kw, sd, sh, sw, dd, dh, dw, kind)
"""
ANY_CODE = """
import numpy as np
from numpy.lib.stride_tricks import as_strided

def any(x, counts, kd, kh, kw, sd, sh, sw, dd, dh, dw, kind, out):
  places = [stride * step for stride, step in zip(x.strides[2:] * 2, (sd, sh, sw, dd, dh, dw))]
  seen = as_strided(x, (*out.shape, kd, kh, kw), (*x.strides[:2], *places))
  many = kd * kh * kw if counts is None else counts
  out[...] = seen.sum((5, 6, 7)) / many if kind else seen.max((5, 6, 7))
"""
ANY_POOLS = {
    "max_nwc": (4, 1, 1, 3, 0),
    "max_ndhwc": (3, 2, 3, 2, 0),
    "mean_nwc_padded": (4, 1, 1, 3, 1),
    "mean_nwc_of_counts": (4, 1, 1, 3, 1),
    "mean_ndhwc_of_counts": (3, 2, 3, 2, 1),
}


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (Path(__file__).with_name("pools_jax.mlir"), 5),
        (LAYERS / "pooling_jax.mlir", 5),
        (LAYERS / "pooling_nchw.mlir", 2),
    ],
    ids=["pools_jax", "pooling_jax", "pooling_nchw"],
)
def test_one_rule_for_pools_of_any_rank(tmp_path, model, count):
    program, plain = opsplice.compile(model, [write_spec(tmp_path, ANY_SPEC, {"host.py": ANY_CODE})]), Plain(model)
    assert len(program.report.replacements) == count, program.report
    for each in program.report.replacements:
        if each.function in ANY_POOLS:
            assert tuple(each.dims.get(name, 0) for name in ("c", "kd", "kh", "kw", "kind")) == ANY_POOLS[each.function]
        shape = tuple(map(int, re.search(rf"@{each.function}\(.*?tensor<([\dx]+)x", model.read_text())[1].split("x")))
        x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
        found, wanted = program.run(each.function, x), plain.run(each.function, x)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_pools_of_pytorch_by_one_rule(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")
    functional = torch.nn.functional

    class Pools(torch.nn.Module):
        def forward(self, x, volume):
            return (
                functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
                functional.avg_pool2d(x, (3, 2), (2, 1), (1, 0), ceil_mode=True, count_include_pad=False),
                functional.avg_pool2d(x[0], 3, 2, 1, count_include_pad=False),
                functional.adaptive_avg_pool2d(x, (3, 5)),
                functional.adaptive_avg_pool2d(x[0], (3, 1)),
                functional.adaptive_avg_pool1d(x[0], 2),
                functional.adaptive_avg_pool3d(volume, (2, 3, 1)),
                functional.adaptive_avg_pool2d(x, (4, 3)),  # its windows are of two sizes
            )

    random = torch.Generator().manual_seed(0)
    given = torch.randn(2, 3, 9, 10, generator=random), torch.randn(3, 4, 6, 5, generator=random)
    spec = write_spec(tmp_path, ANY_SPEC, {"host.py": ANY_CODE})
    program = opsplice_torch.export(Pools().eval(), given, specs=[spec])
    assert len(program.report.replacements) == 7, program.report
    for got, wanted in zip(program.run("main", *(each.numpy() for each in given)), Pools()(*given), strict=True):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-5, atol=1e-6)
