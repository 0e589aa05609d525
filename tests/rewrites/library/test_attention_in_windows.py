"""Attention in windows as Swin has it: one dim for all heads and windows, split for a bias and again for a mask."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

ATTEND_C = """
#include <math.h>
#include <stddef.h>
void attend(const float *q, const float *k, const float *v, const float *mask, const float *bias, float scale,
            float *out, size_t b, size_t m, size_t d, size_t n, size_t e, size_t qm, size_t qd, size_t kn,
            size_t kd, size_t vn, size_t ve, size_t am, size_t an, size_t bm, size_t bn, size_t om, size_t oe,
            size_t head, size_t row) {
  double weights[64], total = 0;
  for (size_t j = 0; j < n; ++j) {
    double score = 0;
    for (size_t l = 0; l < d; ++l) score += (double)q[row * qm + l * qd] * k[j * kn + l * kd];
    total += weights[j] = exp(score * scale + mask[row * am + j * an] + bias[row * bm + j * bn]);
  }
  for (size_t c = 0; c < e; ++c) {
    double sum = 0;
    for (size_t j = 0; j < n; ++j) sum += weights[j] * v[j * vn + c * ve];
    out[row * om + c * oe] = (float)(sum / total);
  }
}
"""
SPEC = """
import "opsplice:strided"
kernel attend(
  q: f32[...b, m, d] strided,
  k: f32[...b, n, d] strided,
  v: f32[...b, n, e] strided,
  mask: f32[...b, m, n] strided,
  bias: f32[...b, m, n] strided,
  scale: f32,
) -> f32[...b, m, e] strided where n <= 64 {
  grid (b, m)
  cpu "attend.c"
}
replace any_attention with attend(q, k, v, mask, bias, scale)
"""
WINDOWS, HEADS, ROWS, WIDTH = 6, 2, 4, 8


def test_one_rule_for_windows_with_a_bias_by_head_and_a_mask_by_window(tmp_path: Path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")

    class Windows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = torch.nn.Parameter(torch.randn(HEADS, ROWS, ROWS))
            self.register_buffer("mask", (torch.rand(WINDOWS, ROWS, ROWS) > 0.5) * -100.0)

        def forward(self, x):
            q, k, v = x.reshape(-1, ROWS, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
            scores = q @ k.transpose(-2, -1) / 2 + self.bias
            scores = scores.view(-1, WINDOWS, HEADS, ROWS, ROWS) + self.mask[None, :, None]
            weights = scores.view(-1, HEADS, ROWS, ROWS).softmax(-1)
            return (weights @ v).transpose(1, 2).reshape(-1, ROWS, HEADS * WIDTH)

    (tmp_path / "attend.c").write_text(ATTEND_C)
    (tmp_path / "attend.splice").write_text(SPEC)
    torch.manual_seed(0)
    model, x = Windows().eval(), torch.randn(2 * WINDOWS, ROWS, 3 * HEADS * WIDTH)
    program = opsplice_torch.export(model, (x,), specs=[tmp_path / "attend.splice"])
    assert [each.pattern for each in program.report.replacements] == ["any_attention"], str(program.report)
    exact = model.double()(x.double()).detach().numpy()
    np.testing.assert_allclose(np.asarray(program.run("main", x.numpy())), exact, rtol=1e-5, atol=1e-6)
