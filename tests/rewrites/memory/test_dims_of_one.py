"""Dims of size one that a pattern does not ask for, or has elsewhere than the program: the numbers are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplice

# Softmax of a shape along an axis.
SOFTMAX = [((1, 40, 1), 1), ((2, 40, 1), 1), ((40, 1), 0), ((1, 1, 40, 1, 1), 2)]
ROWS = """
  e = exp(subf(x, broadcast[m -> m n](reduce maximumf[m n -> m](x))))
  divf(e, broadcast[m -> m n](reduce addf[m n -> m](e)))
"""
KERNELS = (
    f"""
kernel softmax_rows(x: f32[...m, n]) -> f32[...m, n] {{ cpu "kernels.c" as bitcode }}
kernel line(x: f32[n, w, c], f: f32[k, c, o]) -> f32[n, z, o] {{ cpu "kernels.c" as bitcode }}
pattern softmax(x: tensor<...m x n x f32>) {{ {ROWS.replace("[m", "[...m").replace("-> m", "-> ...m")} }}
pattern conv(x: tensor<n x w x c x f32>, f: tensor<k x c x o x f32>) {{
  contract[n (s*z + d*i) c, i c o -> n z o](x, f)
}}
replace softmax with softmax_rows(x)
replace conv with line(x, f)
""",
    5,
)
MLIR = (
    f"""
pattern softmax(x: tensor<m x n x f32>) {{ {ROWS} }}
replace softmax with mlir {{
  %e = tensor.empty() : tensor<${{m}}x${{n}}xf32>
  %r = linalg.softmax dimension(1) ins(%x : tensor<${{m}}x${{n}}xf32>) outs(%e : tensor<${{m}}x${{n}}xf32>)
    -> tensor<${{m}}x${{n}}xf32>
  yield %r : tensor<${{m}}x${{n}}xf32>
}}
""",
    4,
)
CODE = """#include <math.h>
#include <stddef.h>

void softmax_rows(const float *x, float *out, size_t m, size_t n) {
  for (size_t i = 0; i < m; ++i, x += n, out += n) {
    float most = x[0], sum = 0;
    for (size_t j = 0; j < n; ++j) most = x[j] > most ? x[j] : most;
    for (size_t j = 0; j < n; ++j) sum += out[j] = expf(x[j] - most);
    for (size_t j = 0; j < n; ++j) out[j] /= sum;
  }
}

// One place in a window, and one channel.
void line(const float *x, const float *f, float *out, size_t n, size_t w, size_t c, size_t k, size_t o, size_t z) {
  for (size_t i = 0; i < n * z * o; ++i) out[i] = w == z && c * k == 1 ? x[i / o] * f[i % o] : NAN;
}
"""


def tensor(shape: tuple[int, ...]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


def softmax(name: str, shape: tuple[int, ...], axis: int) -> str:
    kind = tensor(shape)
    return f"""func.func @{name}(%x: {kind}) -> {kind} {{
      %e = tensor.empty() : {kind}
      %r = linalg.softmax dimension({axis}) ins(%x : {kind}) outs(%e : {kind}) -> {kind}
      return %r : {kind}
    }}"""


CONV = """func.func @conv(%x: tensor<2x5x1xf32>, %f: tensor<1x1x3xf32>) -> tensor<2x5x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x5x3xf32>
  %o = linalg.fill ins(%zero : f32) outs(%e : tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  %r = linalg.conv_1d_nwc_wcf {dilations = dense<1> : tensor<1xi64>, strides = dense<1> : tensor<1xi64>}
    ins(%x, %f : tensor<2x5x1xf32>, tensor<1x1x3xf32>) outs(%o : tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  return %r : tensor<2x5x3xf32>
}"""


@pytest.mark.parametrize(("spec", "count"), [KERNELS, MLIR], ids=["kernels", "mlir"])
def test_dims_of_size_one_are_looked_through(tmp_path: Path, spec: str, count: int):
    functions = [softmax(f"f{i}", *each) for i, each in enumerate(SOFTMAX)]
    (tmp_path / "model.mlir").write_text("\n".join([*functions, CONV]))
    (tmp_path / "kernels.c").write_text(CODE)
    (tmp_path / "spec.splice").write_text(spec)
    program = opsplice.compile(tmp_path / "model.mlir", specs=[tmp_path / "spec.splice"])
    assert len(program.report.replacements) == count
    draw = np.random.default_rng(0)
    for i, (shape, axis) in enumerate(SOFTMAX):
        x = draw.standard_normal(shape).astype(np.float32)
        expected = np.exp(x - x.max(axis, keepdims=True))
        expected /= expected.sum(axis, keepdims=True)
        np.testing.assert_allclose(np.asarray(program.run(f"f{i}", x)), expected, rtol=1e-5)
    x, f = (draw.standard_normal(shape).astype(np.float32) for shape in ((2, 5, 1), (1, 1, 3)))
    np.testing.assert_allclose(np.asarray(program.run("conv", x, f)), x * f[0], rtol=1e-5)
