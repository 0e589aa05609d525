"""Convolutions in groups and each channel alone, channels second or last, with numbers of PyTorch and of IREE."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import opsplice
from tests.plain import Plain
from tests.rewrites.conftest import write_spec

LAYERS = Path(__file__).parents[2] / "matchers" / "library"

GROUPS_C = """
#include <stddef.h>
void groups(const float *x, const float *filter, const float *bias, size_t sh, size_t sw, size_t dh, size_t dw,
            float *out, size_t n, size_t g, size_t c, size_t h, size_t w, size_t f, size_t kh, size_t kw, size_t y,
            size_t z, size_t xn, size_t xg, size_t xc, size_t xh, size_t xw, size_t fg, size_t ff, size_t fc,
            size_t fh, size_t fw, size_t on, size_t og, size_t of, size_t oy, size_t oz, size_t image, size_t group) {
  for (size_t q = 0; q < f; ++q)
    for (size_t row = 0; row < y; ++row)
      for (size_t column = 0; column < z; ++column) {
        double sum = bias ? bias[group * f + q] : 0;
        for (size_t l = 0; l < c; ++l)
          for (size_t i = 0; i < kh; ++i)
            for (size_t j = 0; j < kw; ++j)
              sum += (double)filter[group * fg + q * ff + l * fc + i * fh + j * fw] *
                     x[image * xn + group * xg + l * xc + (row * sh + i * dh) * xh + (column * sw + j * dw) * xw];
        out[image * on + group * og + q * of + row * oy + column * oz] = (float)sum;
      }
}
"""
SPEC = """
import "opsplice:nn"
kernel groups(
  x: f32[n, g, c, h, w] strided,
  filter: f32[g, f, c, kh, kw] strided,
  bias: f32[g, f] optional,
  sh: index,
  sw: index,
  dh: index,
  dw: index,
) -> f32[n, g, f, y, z] strided {
  grid (n, g)
  cpu "groups.c"
}
replace grouped_conv2d with groups(x, filter, bias, sh, sw, dh, dw)
"""


def test_one_rule_for_groups_with_a_bias_and_without(tmp_path: Path):
    """A bias for all features is read in groups by its address, and an image in windows beside it, not by its own."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")

    class Convolutions(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.biased = torch.nn.Conv2d(6, 9, 3, groups=3)
            self.plain = torch.nn.Conv2d(6, 9, 3, groups=3, stride=2, bias=False)
            self.whole = torch.nn.Conv2d(6, 9, 3)

        def forward(self, x):
            last = self.biased(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
            return self.biased(x), self.plain(x), last, self.whole(x)

    (tmp_path / "groups.c").write_text(GROUPS_C)
    (tmp_path / "groups.splice").write_text(SPEC)
    torch.manual_seed(0)
    model, x = Convolutions().eval(), torch.randn(2, 6, 8, 6)
    program = opsplice_torch.export(model, (x,), specs=[tmp_path / "groups.splice"])
    assert [each.dims["g"] for each in program.report.replacements] == [3, 3, 3], str(program.report)
    for found, exact in zip(program.run("main", x.numpy()), model(x), strict=True):
        np.testing.assert_allclose(np.asarray(found), exact.detach().numpy(), rtol=1e-5, atol=2e-6)


# Of one and of three dims, in groups and each channel alone, by numpy, for channels second and last.
HOST_SPEC = """
import "opsplice:nn"
kernel alone1(x: f32[n, c, w] strided, f: f32[c, k] strided, b: f32[c] optional, s: i32) -> f32[n, c, z] strided {
  cpu "host.py" as command
}
kernel groups1(
  x: f32[n, g, c, w] strided, f: f32[g, o, c, k] strided, b: f32[g, o] optional, s: i32,
) -> f32[n, g, o, z] strided { cpu "host.py" as command }
kernel alone3(x: f32[n, c, d, h, w] strided, f: f32[c, r, i, j] strided) -> f32[n, c, v, y, z] strided {
  cpu "host.py" as command
}
replace depthwise_conv1d where dw == 1 with alone1(x, filter, bias, sw)
replace grouped_conv1d where dw == 1 with groups1(x, filter, bias, sw)
replace depthwise_conv3d where sd == 1 and sh == 1 and sw == 1 with alone3(x, filter)
"""
HOST_CODE = """
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view as windows

def alone1(x, f, b, s, out):
  out[...] = np.einsum("nczk,ck->ncz", windows(x, f.shape[1], 2)[:, :, ::s], f) + (0 if b is None else b[:, None])

def groups1(x, f, b, s, out):
  seen = windows(x, f.shape[3], 3)[:, :, :, ::s]
  out[...] = np.einsum("ngczk,gock->ngoz", seen, f) + (0 if b is None else b[..., None])

def alone3(x, f, out):
  out[...] = np.einsum("ncvyzrij,crij->ncvyz", windows(x, f.shape[1:], (2, 3, 4)), f)
"""


def test_depthwise_and_grouped_ones_of_one_and_three_dims(tmp_path):
    model = LAYERS / "conv_depthwise_jax.mlir"
    program, plain = opsplice.compile(model, [write_spec(tmp_path, HOST_SPEC, {"host.py": HOST_CODE})]), Plain(model)
    found = [(each.function, each.kernel) for each in program.report.replacements]
    assert [kernel for _, kernel in found] == ["alone1", "alone1", "alone3", "groups1", "groups1"], program.report
    random = np.random.default_rng(5)
    for function, _ in found:
        shapes = re.findall(r"%arg\d: tensor<([\dx]+)xf32>", model.read_text().split(f"@{function}(")[1].split("->")[0])
        given = [random.standard_normal(tuple(map(int, s.split("x")))).astype(np.float32) for s in shapes]
        np.testing.assert_allclose(program.run(function, *given), plain.run(function, *given), rtol=1e-4, atol=1e-5)
