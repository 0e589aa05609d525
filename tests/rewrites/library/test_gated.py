"""Gated and linear layers by one rule and one kernel, wherever their weights lie; and by dense kernels for an order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplice
from tests.matchers.library.test_match_library import FOLDER
from tests.plain import Plain

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
replace swiglu with gated(x, gate, up)
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


DENSE_PY = """
import numpy as np
def linear_rows(x, w, bias, activation, out):
    y = x @ w.T + bias
    out[...] = np.maximum(y, 0) if activation == 1 else y
def linear_columns(x, w, bias, activation, out):
    linear_rows(x, w.T, bias, activation, out)
def heads_columns(x, w, bias, out):
    out[...] = np.tensordot(x, w, 1) + bias
def product_columns(x, w, out):
    out[...] = x @ w
def gated_rows(x, gate, up, out):
    y = x @ gate.T
    out[...] = y / (1 + np.exp(-y)) * (x @ up.T)
def gated_columns(x, gate, up, out):
    gated_rows(x, gate.T, up.T, out)
"""
DENSE_SPEC = """
import "opsplice:nn"
kernel linear_rows(x: f32[...m, k], w: f32[n, k], bias: f32[n], activation: i32) -> f32[...m, n] {
  cpu "k.py" as command
}
kernel linear_columns(x: f32[...m, k], w: f32[n, k] as [k, n], bias: f32[n], activation: i32) -> f32[...m, n] {
  cpu "k.py" as command
}
kernel gated_rows(x: f32[...m, k], gate: f32[n, k], up: f32[n, k]) -> f32[...m, n] { cpu "k.py" as command }
kernel gated_columns(x: f32[...m, k], gate: f32[n, k] as [k, n], up: f32[n, k] as [k, n]) -> f32[...m, n] {
  cpu "k.py" as command
}
kernel heads_columns(x: f32[b, s, k], w: f32[...n, k] as [k, ...n], bias: f32[...n]) -> f32[b, s, ...n] {
  cpu "k.py" as command
}
kernel product_columns(x: f32[...m, k], w: f32[n, k] as [k, n] copied) -> f32[...m, n] { cpu "k.py" as command }
replace swiglu with gated_rows(x, gate, up)
replace swiglu with gated_columns(x, gate, up)
replace linear where activation < 2 with linear_rows(x, w, bias, activation)
replace linear where activation < 2 with linear_columns(x, w, bias, activation)
replace linear_heads with heads_columns(x, w, bias)
replace linear with product_columns(x, w)
"""
DENSE = {
    "linear_kn": ("product_columns", [(8, 32), (32, 16)]),
    "linear_nk": ("product_columns", [(8, 32), (16, 32)]),
    "linear_kn_bias_relu": ("linear_columns", [(2, 8, 32), (32, 16), (16,)]),
    "linear_nk_bias": ("linear_rows", [(2, 8, 32), (16, 32), (16,)]),
    "linear_heads_kn": ("heads_columns", [(2, 8, 32), (32, 4, 4), (4, 4)]),
    "swiglu_kn": ("gated_columns", [(8, 32), (32, 16), (32, 16)]),
    "swiglu_nk": ("gated_rows", [(8, 32), (16, 32), (16, 32)]),
}


def test_dense_kernels_say_how_their_weights_lie(tmp_path: Path):
    (tmp_path / "k.py").write_text(DENSE_PY)
    (tmp_path / "k.splice").write_text(DENSE_SPEC)
    model = FOLDER / "linear.mlir"
    plain, program = Plain(model), opsplice.compile(model, specs=[tmp_path / "k.splice"])
    replaced = {r.function: r.kernel for r in program.report.replacements}
    random = np.random.default_rng(7)
    for function, (kernel, shapes) in DENSE.items():
        given = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
        own, made = (np.asarray(side.run(function, *given)) for side in (plain, program))
        assert replaced[function] == kernel
        np.testing.assert_allclose(made, own, rtol=1e-4, atol=1e-5)
