"""Convolutions in groups by one rule and one kernel, channels second or last, with the numbers of PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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
