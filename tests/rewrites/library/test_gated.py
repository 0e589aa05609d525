"""Gated layers of PyTorch by one rule and one kernel, wherever their weights lie, with the numbers of PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

GATED_C = """
#include <math.h>
#include <stddef.h>
void gated(const float *x, const float *gate, const float *up, float *out, size_t m, size_t k, size_t n, size_t xk,
           size_t gn, size_t gk, size_t un, size_t uk, size_t on, size_t row) {
  for (size_t j = 0; j < n; ++j) {
    double g = 0, u = 0;
    for (size_t i = 0; i < k; ++i) {
      g += (double)x[i * xk] * gate[j * gn + i * gk];
      u += (double)x[i * xk] * up[j * un + i * uk];
    }
    out[j * on] = (float)(g / (1 + exp(-g)) * u);
  }
}
"""
SPEC = """
import "opsplice:nn"
kernel gated(x: f32[...m, k] strided, gate: f32[n, k] strided, up: f32[n, k] strided) -> f32[...m, n] strided {
  grid (m)
  cpu "gated.c"
}
replace swiglu_nk with gated(x, gate, up)
"""


def test_one_rule_for_gates_in_weights_of_their_own_and_in_one(tmp_path: Path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")
    nn, silu = torch.nn, torch.nn.functional.silu

    class Gates(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.up = nn.Linear(12, 16, bias=False), nn.Linear(12, 16, bias=False)
            self.both = nn.Linear(12, 32, bias=False)
            self.columns = nn.Parameter(torch.randn(12, 2, 20) / 4)

        def forward(self, x):
            gate, up = self.both(x).chunk(2, -1)  # Phi-3
            turned = self.both(x * 2)
            apart = x @ self.columns[:, 0], x @ self.columns[:, 1]
            none = silu(self.gate(x)) * self.up(x + 1)  # of two inputs
            return (
                silu(self.gate(x)) * self.up(x),
                silu(gate) * up,
                turned[..., ::2] * silu(turned[..., 1::2]),  # gpt-oss has them side by side
                silu(apart[0]) * apart[1],
                none,
            )

    (tmp_path / "gated.c").write_text(GATED_C)
    (tmp_path / "gated.splice").write_text(SPEC)
    torch.manual_seed(0)
    model, x = Gates().eval(), torch.randn(2, 6, 12)
    program = opsplice_torch.export(model, (x,), specs=[tmp_path / "gated.splice"])
    assert sorted(each.dims["n"] for each in program.report.replacements) == [16, 16, 16, 20], str(program.report)
    for found, exact in zip(program.run("main", x.numpy()), model(x), strict=True):
        np.testing.assert_allclose(np.asarray(found), exact.detach().numpy(), rtol=1e-5, atol=2e-6)
