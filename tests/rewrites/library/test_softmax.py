"""Softmax along any dim: by one rule and one kernel, of sizes that are known at run time only; and by dense kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplice
from tests.matchers.library.test_match_library import FOLDER
from tests.plain import Plain

SOFTMAX_C = """
#include <math.h>
#include <stddef.h>
void soft_rows(const float *x, float *out, size_t m, size_t n, size_t xn, size_t on, size_t row) {
  float peak = -INFINITY;
  double total = 0;
  for (size_t i = 0; i < n; ++i) peak = x[i * xn] > peak ? x[i * xn] : peak;
  for (size_t i = 0; i < n; ++i) total += expf(x[i * xn] - peak);
  for (size_t i = 0; i < n; ++i) out[i * on] = (float)(expf(x[i * xn] - peak) / total);
}
"""
SPEC = """
import "opsplice:nn"
kernel soft_rows(x: f32[...m, n] strided) -> f32[...m, n] strided {
  grid (m)
  cpu "softmax.c"
}
replace softmax with soft_rows(x)
"""


def test_one_rule_for_softmax_along_any_dim_of_any_size(tmp_path: Path):
    """An input of open sizes is there with its sizes tied and without: both are tried in each order of dims."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")

    class Softmaxes(torch.nn.Module):
        def forward(self, x):
            turned = x.transpose(0, 2)
            return (*(torch.softmax(x, dim) for dim in range(3)), torch.softmax(turned, 1).transpose(0, 2) * 2)

    (tmp_path / "softmax.c").write_text(SOFTMAX_C)
    (tmp_path / "softmax.splice").write_text(SPEC)
    torch.manual_seed(0)
    model, sizes = Softmaxes(), {0: "a", 1: "b", 2: "c"}
    program = opsplice_torch.export(
        model, (torch.randn(3, 5, 4),), dynamic={"x": sizes}, specs=[tmp_path / "softmax.splice"]
    )
    assert len(program.report.replacements) == 4, str(program.report)
    for shape in ((3, 5, 4), (2, 7, 6)):
        x = torch.randn(shape)
        for found, exact in zip(program.run("main", x.numpy()), model(x), strict=True):
            np.testing.assert_allclose(np.asarray(found), exact.numpy(), rtol=1e-6, atol=1e-7)


DENSE_PY = """
import numpy as np
def rows(x, out, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    out[...] = e / e.sum(axis, keepdims=True)
def columns(x, out):
    rows(x, out, -2)
def first(x, out):
    rows(x, out, 0)
"""
DENSE_SPEC = """
import "opsplice:nn"
kernel rows(x: f32[...m, n]) -> f32[...m, n] { cpu "k.py" as command }
kernel first(x: f32[...m, n] as [n, ...m]) -> f32[...m, n] as [n, ...m] { cpu "k.py" as command }
kernel columns(x: f32[...m, k, n] as [...m, n, k]) -> f32[...m, k, n] as [...m, n, k] { cpu "k.py" as command }
pattern softmax_beside(x: tensor<...m x k x n x f32>) { softmax(x) }
replace softmax with rows(x)
replace softmax with first(x)
replace softmax_beside with columns(x)
"""


@pytest.mark.parametrize(
    ("file", "function", "kernel", "shape"),
    [
        ("softmax", "softmax", "rows", (8, 32)),
        ("softmax", "softmax_columns", "columns", (2, 8, 32)),
        ("norms_2d", "softmax_first", "first", (6, 3, 5)),
    ],
)
def test_dense_kernels_say_which_dim_theirs_is(tmp_path: Path, file: str, function: str, kernel: str, shape):
    (tmp_path / "k.py").write_text(DENSE_PY)
    (tmp_path / "k.splice").write_text(DENSE_SPEC)
    model = FOLDER / f"{file}.mlir"
    program = opsplice.compile(model, specs=[tmp_path / "k.splice"])
    assert [r.kernel for r in program.report.replacements if r.function == function] == [kernel]
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    own = np.asarray(Plain(model).run(function, x))
    np.testing.assert_allclose(np.asarray(program.run(function, x)), own, rtol=1e-5, atol=1e-6)


OF_A_SLICE = """
func.func @main(%x: tensor<3x9x8xf32>) -> tensor<3x5x8xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.slice %x [0:3, 2:7, 0:8] : (tensor<3x9x8xf32>) -> tensor<3x5x8xf32>
  %1 = stablehlo.reduce(%0 init: %low) applies stablehlo.maximum across dimensions = [1]
    : (tensor<3x5x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 2] : (tensor<3x8xf32>) -> tensor<3x5x8xf32>
  %3 = stablehlo.subtract %0, %2 : tensor<3x5x8xf32>
  %4 = stablehlo.exponential %3 : tensor<3x5x8xf32>
  %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<3x5x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0, 2] : (tensor<3x8xf32>) -> tensor<3x5x8xf32>
  %7 = stablehlo.divide %4, %6 : tensor<3x5x8xf32>
  return %7 : tensor<3x5x8xf32>
}
"""
SLICE_SPEC = """
import "opsplice:nn"
kernel on_host(x: f32[...m, n] strided) -> f32[...m, n] strided { cpu "host.py" as command }
replace softmax with on_host(x)
"""
ON_HOST = """
import numpy as np

def on_host(x, out):
  weights = np.exp(x - x.max(-1, keepdims=True))
  out[...] = weights / weights.sum(-1, keepdims=True)
"""


def test_a_slice_along_a_dim_that_is_not_the_last(pairs):
    """The slice is what the input is, at each place where it is read, and not what it was cut from."""
    made = pairs(OF_A_SLICE, SLICE_SPEC, {"host.py": ON_HOST})
    (replaced,) = made.spliced.report.replacements
    assert "[:, 2:7, :] of tensor<3x9x8xf32>" in replaced.views[0]
    x = np.random.default_rng(1).standard_normal((3, 9, 8)).astype(np.float32)
    np.testing.assert_allclose(made.spliced.run("main", x), made.plain.run("main", x), rtol=1e-5, atol=1e-6)
