"""Norms of PyTorch in many layouts by one rule and one kernel, with the numbers of PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplice
from tests.rewrites.conftest import write_spec

NORM_C = """
#include <math.h>
#include <stddef.h>
#include <stdint.h>
void norm(const float *x, const float *gain, const float *bias, float eps, int32_t kind, float *out, size_t m, size_t n,
          size_t xn, size_t gn, size_t bn, size_t on, size_t row) {
  double sum = 0, squares = 0;
  for (size_t j = 0; j < n; ++j) sum += x[j * xn];
  double mean = kind == 2 ? 0 : sum / (double)n;
  for (size_t j = 0; j < n; ++j) squares += (x[j * xn] - mean) * (x[j * xn] - mean);
  float scale = 1 / sqrtf((float)(squares / (double)n) + eps);
  for (size_t j = 0; j < n; ++j) {
    float y = (float)(x[j * xn] - mean) * scale;
    if (gain) y *= gain[j * gn];
    if (bias) y += bias[j * bn];
    out[j * on] = y;
  }
}
"""
SPEC = """
import "opsplice:strided"
kernel norm(
  x: f32[...m, n] strided,
  gain: f32[...m, n] strided optional,
  bias: f32[...m, n] strided optional,
  eps: f32,
  kind: i32,
) -> f32[...m, n] strided {
  grid (m)
  cpu "norm.c"
}
replace any_norm with norm(x, gain, bias, eps, kind)
"""


def test_one_rule_for_norms_in_any_layout(tmp_path: Path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")
    nn = torch.nn

    class Norms(nn.Module):
        def __init__(self):
            super().__init__()
            self.rows, self.plain, self.root = nn.LayerNorm(12), nn.LayerNorm(12, bias=False), nn.RMSNorm(12)
            self.instances, self.groups = nn.InstanceNorm1d(6, affine=True), nn.GroupNorm(3, 6, affine=False)
            self.images, self.planes = nn.InstanceNorm2d(6, affine=True), nn.LayerNorm((5, 12))
            self.gain, self.shift = nn.Parameter(torch.empty(6)), nn.Parameter(torch.empty(6))
            for each in self.parameters():
                nn.init.normal_(each)

        def forward(self, x):
            last = x.permute(0, 2, 3, 1)  # ConvNeXt's norm over channels, which come second
            apart = last - last.mean(-1, keepdim=True)
            scaled = apart * torch.rsqrt(apart.pow(2).mean(-1, keepdim=True) + 1e-6)
            channels = (scaled * self.gain + self.shift).permute(0, 3, 1, 2)
            moments = torch.relu((x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2)
            fast = (x - x.mean(-1, keepdim=True)) * torch.rsqrt(moments + 1e-5) * self.rows.weight
            other = x - x.mean(-2, keepdim=True)  # not scaled by their own size: no norm
            none = x * torch.rsqrt(other.pow(2).mean(-1, keepdim=True) + 1e-6)
            parts = last - last.mean((1, 2), keepdim=True)  # rows and columns are next to each other here, too
            places = parts * torch.rsqrt(parts.pow(2).mean((1, 2), keepdim=True) + 1e-5) * self.gain
            crossed = x - x.mean((1, 3), keepdim=True)  # no one dim: they lie apart
            apart = crossed * torch.rsqrt(crossed.pow(2).mean((1, 3), keepdim=True) + 1e-5)
            several = [self.images(x), self.planes(x), places]
            made = [
                *several,
                apart,
                self.rows(x),
                self.plain(x),
                self.root(x),
                self.instances(x[:, :, 0]),
                self.groups(x),
            ]
            return (*made, channels, fast, none)

    (tmp_path / "norm.c").write_text(NORM_C)
    (tmp_path / "norm.splice").write_text(SPEC)
    torch.manual_seed(0)
    model, x = Norms().eval(), torch.randn(2, 6, 5, 12)
    program = opsplice_torch.export(model, (x,), specs=[tmp_path / "norm.splice"])
    made = sorted((each.dims["n"], each.dims.get("kind", 0)) for each in program.report.replacements)
    rows, several = [(6, 0), (12, 0), (12, 0), (12, 0), (12, 1), (12, 2)], [(60, 0), (60, 0), (60, 0), (120, 0)]
    assert made == rows + several, str(program.report)
    for found, exact in zip(program.run("main", x.numpy()), model(x), strict=True):
        np.testing.assert_allclose(np.asarray(found), exact.detach().numpy(), rtol=1e-5, atol=2e-6)


ANY_AXIS = """
import "opsplice:strided"
kernel norm_on_host(
  x: f32[...m, n] strided, gain: f32[...m, n] strided optional, bias: f32[...m, n] strided optional, eps: f32,
) -> f32[...m, n] strided { cpu "host.py" as command }
replace any_norm where kind == 1 with norm_on_host(x, gain, bias, eps)
replace any_norm with norm_on_host(x, gain, bias, eps)
"""
ON_HOST = """
def norm_on_host(x, gain, bias, eps, out):
  y = x - x.mean(-1, keepdims=True)
  y = y / (y.var(-1, keepdims=True) + eps) ** 0.5
  out[...] = (y if gain is None else y * gain) + (0 if bias is None else bias)
"""


def test_instance_norms_with_channels_last(tmp_path):
    """They are norms of rows in a layout of their own, with a gain and a bias for each row."""
    jax = pytest.importorskip("jax", reason="JAX is not installed (make frontends)")
    nn = pytest.importorskip("flax.linen", reason="flax is not installed (make frontends)")
    layers = [nn.InstanceNorm(), nn.InstanceNorm(use_fast_variance=False), nn.InstanceNorm(use_scale=False)]
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 5, 4, 6)).astype(np.float32) + 1
    kinds = [jax.eval_shape(each.init, jax.random.key(0), x) for each in layers]
    weights = [jax.tree.map(lambda k: random.uniform(0.5, 1.5, k.shape).astype(np.float32), each) for each in kinds]

    def normed(v):
        return [each.apply(own, v) for each, own in zip(layers, weights, strict=True)]

    spec = write_spec(tmp_path, ANY_AXIS, {"host.py": ON_HOST})
    program = opsplice.compile(jax.export.export(jax.jit(normed))(x), [spec])
    assert [each.kernel for each in program.report.replacements] == ["norm_on_host"] * 3, program.report
    for got, wanted in zip(program.run("main", x), normed(x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
