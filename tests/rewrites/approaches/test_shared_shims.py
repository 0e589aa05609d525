"""Calls of one compiled function share a shim, whatever their sizes, strides and numbers are; numbers stay right."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import opsplice

SPEC = """
kernel scale(a: f32[...b, m, n] strided, factor: f32, shift: i64, small: i8, far: f64, count: i32) -> f32[...b, m, n] {
  grid (b)
  cpu "k.c" as FORM
}
pattern doubled(a: tensor<...b x m x n x f32>) { mulf(absf(a), const(2.0)) }
pattern halved(a: tensor<...b x m x n x f32>) { mulf(negf(a), const(0.5)) }
replace doubled with scale(a, 2.0, 5000000000, 3, 0.25, m)
replace halved with scale(a, 0.5, -7, -4, -0.75, n)
"""
CODE = """
#include <stddef.h>
#include <stdint.h>
void scale(const float *a, float factor, int64_t shift, int8_t small, double far, int32_t count, float *out,
           size_t b, size_t m, size_t n, size_t over_m, size_t over_n, size_t workgroup_x) {
  (void)b;
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j)
      out[(workgroup_x * m + i) * n + j] =
          a[i * over_m + j * over_n] * factor + (float)(shift % 1000003) + small + (float)far + count;
}
"""


def function(name: str, op: str, factor: float, kind: str, turned: str | None = None) -> str:
    """A function of the pattern's ops, on a tensor that is turned before."""
    before = (
        ""
        if turned is None
        else f"""
  %e = tensor.empty() : tensor<{kind}>
  %t = linalg.transpose ins(%a : tensor<{turned}>) outs(%e : tensor<{kind}>) permutation = [1, 0]"""
    )
    given = "%a" if turned is None else "%t"
    return f"""
func.func @{name}(%a: tensor<{turned or kind}>) -> tensor<{kind}> {{{before}
  %c = arith.constant dense<{factor}> : tensor<{kind}>
  %0 = {op} {given} : tensor<{kind}>
  %1 = arith.mulf %0, %c : tensor<{kind}>
  return %1 : tensor<{kind}>
}}"""


MODEL = (
    function("small", "math.absf", 2.0, "3x5xf32")
    + function("large", "math.absf", 2.0, "2x7x11xf32")
    + function("turned", "math.absf", 2.0, "4x6xf32", "6x4xf32")
    + function("other", "arith.negf", 0.5, "3x5xf32")
    + function("others", "arith.negf", 0.5, "5x3xf32")
)
DOUBLED = (2.0, 5_000_000_000 % 1_000_003 + 3 + 0.25)
HALVED = (0.5, -7 - 4 - 0.75)


@pytest.mark.parametrize("form", ["object", "bitcode"])
def test_numbers_arrive_as_they_are(spliced, form):
    program = spliced(MODEL, SPEC.replace("FORM", form), {"k.c": CODE})
    assert len(program.report.replacements) == 5
    for name, shape, axes, (factor, shift), counted in [
        ("small", (3, 5), None, DOUBLED, -2),
        ("large", (2, 7, 11), None, DOUBLED, -2),
        ("turned", (6, 4), (1, 0), DOUBLED, -2),
        ("other", (3, 5), None, HALVED, -1),
        ("others", (5, 3), None, HALVED, -1),
    ]:
        a = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
        seen = a if axes is None else a.transpose(axes)
        wanted = seen.astype(np.float64) * factor + shift + seen.shape[counted]
        np.testing.assert_allclose(program.run(name, a), wanted, rtol=1e-6)


def made_of(bench, text: str, path: str) -> str:
    """A module after the calls of functions in a file were put in."""
    made = bench(text, SPEC.replace('"k.c" as FORM', f'"{path}"'))
    assert len(made.apply().actions) == 5
    return made.ir


def test_only_what_a_compiler_specialises_has_a_shim_for_each_size(bench):
    assert made_of(bench, MODEL, "k.bc").count("stream.executable private") == 5
    # Numbers of more than 32 bits stay in the shim: those of the two rules differ.
    assert made_of(bench, MODEL, "k.o").count("stream.executable private") == 2 + 1, "one more for what has a batch"


def test_what_a_dispatch_cannot_be_given_stays_in_the_shim(spliced):
    """IREE's runtime passes 64 words; two calls give 70 numbers that differ."""
    names = [f"s{number}" for number in range(70)]
    code = f"""
#include <stddef.h>
void k(const float *x, {", ".join(f"int {name}" for name in names)}, float *out, size_t n) {{
  for (size_t i = 0; i < n; ++i) out[i] = x[i] + {" + ".join(f"{at} * {name}" for at, name in enumerate(names))};
}}
"""
    spec = f"""
kernel k(x: f32[n], {", ".join(f"{name}: i32" for name in names)}) -> f32[n] {{ cpu "k.c" }}
pattern p(x: tensor<n x f32>) {{ negf(x) }}
pattern q(x: tensor<n x f32>) {{ absf(x) }}
replace p with k(x, {", ".join(str(at) for at in range(70))})
replace q with k(x, {", ".join(str(2 * at + 1) for at in range(70))})
"""
    model = """
func.func @p(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.negf %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @q(%x: tensor<5xf32>) -> tensor<5xf32> {
  %0 = math.absf %x : tensor<5xf32>
  return %0 : tensor<5xf32>
}"""
    program = spliced(model, spec, {"k.c": code})
    for name, size, numbers in [("p", 4, range(70)), ("q", 5, [2 * at + 1 for at in range(70)])]:
        x = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(program.run(name, x), x + sum(at * n for at, n in enumerate(numbers)))


PACKED = """
kernel rows(x: f32[m, k], w: f32[p, k, 8]) -> f32[m, n] {
  grid (p)
  cpu "rows.c"
}
pattern product(x: tensor<m x k x f32>, w: tensor<k x n x f32>) { contract[mk, kn -> mn](x, w) }
replace product where weight(w) with rows(x, pack[k n -> (n / 8) k 8](w))
"""
ROWS = """
#include <stddef.h>
void rows(const float *x, const float *w, float *out, size_t m, size_t k, size_t p, size_t n, size_t at) {
  (void)p;
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 8 * at; j < n && j < 8 * at + 8; ++j) {
      float sum = 0;
      for (size_t l = 0; l < k; ++l) sum += x[i * k + l] * w[(at * k + l) * 8 + j % 8];
      out[i * n + j] = sum;
    }
}
"""


def layer(name: str, given: str, weight: np.ndarray) -> str:
    """The product of a matrix of two rows and the transpose of a constant, which stands before a number."""
    n, k = weight.shape
    return f"""
  %w_{name} = arith.constant dense<{weight.tolist()}> : tensor<{n}x{k}xf32>
  %z_{name} = arith.constant 0.0 : f32
  %e_{name} = tensor.empty() : tensor<{k}x{n}xf32>
  %t_{name} = linalg.transpose ins(%w_{name} : tensor<{n}x{k}xf32>) outs(%e_{name} : tensor<{k}x{n}xf32>)
      permutation = [1, 0]
  %o_{name} = tensor.empty() : tensor<2x{n}xf32>
  %f_{name} = linalg.fill ins(%z_{name} : f32) outs(%o_{name} : tensor<2x{n}xf32>) -> tensor<2x{n}xf32>
  %{name} = linalg.matmul ins(%{given}, %t_{name} : tensor<2x{k}xf32>, tensor<{k}x{n}xf32>)
      outs(%f_{name} : tensor<2x{n}xf32>) -> tensor<2x{n}xf32>"""


def test_iree_computes_each_weight_in_one_go(tmp_path):
    """Transposed and packed: IREE does it in one program for each weight, as it does where calls share no shim."""
    random = np.random.default_rng(7)
    first, second = (random.normal(size=shape).astype(np.float32) for shape in [(24, 12), (12, 24)])
    (tmp_path / "model.mlir").write_text(
        f"func.func @main(%x: tensor<2x12xf32>) -> tensor<2x12xf32> {{{layer('y', 'x', first)}{layer('r', 'y', second)}"
        "\n  return %r : tensor<2x12xf32>\n}"
    )
    (tmp_path / "spec.splice").write_text(PACKED)
    (tmp_path / "rows.c").write_text(ROWS)
    program = tmp_path / "program.vmfb"
    command = [sys.executable, "-m", "opsplice", "compile", "model.mlir", "--spec=spec.splice", "-o", program]
    flags = ["--mlir-print-ir-after=iree-util-hoist-into-globals", "--iree-llvmcpu-target-cpu=host"]
    done = subprocess.run([*command, *flags], cwd=tmp_path, capture_output=True, text=True, check=True)
    first_dump = done.stderr.split("IR Dump")[1]
    assert first_dump.count("flow.dispatch @opsplice_rows::") == 2
    assert first_dump.count("util.global private @__hoisted") == 2
    x = random.normal(size=(2, 12)).astype(np.float32)
    wanted = x.astype(np.float64) @ first.T @ second.T
    np.testing.assert_allclose(opsplice.runtime.loaded_program.load_program(program).call("main", x)[0], wanted, 1e-4)
