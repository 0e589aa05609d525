"""Results that are `scratch`: memory of the kernel's own, which takes the place of nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.spec_lang.loading.loader import load_text

CODE = """
#include <stddef.h>
#include <stdint.h>
// Sums of parts of each row, and what share of them each element is.
void shares(const float *x, float *parts, float *out, size_t m, size_t n, size_t row) {
  size_t count = (n + 3) / 4;
  float *own = parts + row * count, sum = 0;
  for (size_t p = 0; p < count; ++p) own[p] = 0;
  for (size_t i = 0; i < n; ++i) own[i / 4] += x[row * n + i];
  for (size_t p = 0; p < count; ++p) sum += own[p];
  for (size_t i = 0; i < n; ++i) out[row * n + i] = x[row * n + i] / sum;
}
void strided_shares(const float *x, float *out, float *parts, size_t m, size_t n, size_t x_m, size_t x_n, size_t o_m,
                    size_t o_n) {
  for (size_t i = 0; i < m; ++i) {
    parts[i] = 0;
    for (size_t j = 0; j < n; ++j) parts[i] += x[i * x_m + j * x_n];
    for (size_t j = 0; j < n; ++j) out[i * o_m + j * o_n] = x[i * x_m + j * x_n] / parts[i];
  }
}
// The last workgroup of all adds up, so the counter has to begin at zero.
void total(const float *x, int32_t *counter, float *parts, float *out, size_t m, size_t n, size_t row) {
  parts[row] = 0;
  for (size_t j = 0; j < n; ++j) parts[row] += x[row * n + j];
  if (__atomic_add_fetch(counter, 1, __ATOMIC_ACQ_REL) < (int32_t)m) return;
  *out = 0;
  for (size_t i = 0; i < m; ++i) *out += parts[i];
}
void twice(const float *x, float *out, size_t m, size_t n) {
  for (size_t i = 0; i < m * n; ++i) out[i] = 2 * x[i];
}
"""
SPEC = """
kernel shares(x: f32[m, n]) -> (parts: f32[m, ceildiv(n, 4)] scratch, out: f32[m, n]) { grid (m) cpu "k.c" CLAUSE }
kernel strided_shares(x: f32[m, n] strided) -> (f32[m, n] strided, parts: f32[m] scratch) { cpu "k.c" CLAUSE }
kernel total(x: f32[m, n]) -> (counter: i32[1] zeroed scratch, parts: f32[m] scratch, out: f32[]) {
  grid (m)
  cpu "k.c" CLAUSE
}
kernel twice(x: f32[m, n]) -> f32[m, n] { cpu "k.c" CLAUSE }
pattern share(x: tensor<m x n x f32>) { divf(x, broadcast[m -> m n](reduce addf[m n -> m](x))) }
pattern doubled(x: tensor<m x n x f32>) { y = share(x)  addf(y, y) }
pattern sum(x: tensor<m x n x f32>) { reduce addf[m n -> ](x) }
RULES
"""
DENSE = """
replace doubled with twice(shares(x))
replace share WHEN with shares(x)
replace sum with total(x)
"""
ANY = "replace share with strided_shares(x)"


def model(m: object, doubled: bool = False, turned: bool = False) -> str:
    t = f"tensor<{m}x10xf32>"
    c = f"tensor<10x{m}xf32>" if turned else t
    read = "affine_map<(i, j) -> (j, i)>" if turned else "affine_map<(i, j) -> (i, j)>"
    size = "(%m)" if m == "?" else "()"
    after = f"%z = arith.addf %r, %r : {t}" if doubled else ""
    return f"""func.func @main(%x: {c}) -> {t} {{
      %c = arith.constant {1 if turned else 0} : index
      %zero = arith.constant 0.0 : f32
      %m = tensor.dim %x, %c : {c}
      %e = tensor.empty{size} : tensor<{m}xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<{m}xf32>) -> tensor<{m}xf32>
      %s = linalg.generic {{indexing_maps = [{read}, affine_map<(i, j) -> (i)>],
          iterator_types = ["parallel", "reduction"]}} ins(%x : {c}) outs(%f : tensor<{m}xf32>) {{
        ^bb0(%a: f32, %b: f32):
          %v = arith.addf %a, %b : f32
          linalg.yield %v : f32
      }} -> tensor<{m}xf32>
      %o = tensor.empty{size} : {t}
      %r = linalg.generic {{indexing_maps = [{read}, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"]}} ins(%x, %s : {c}, tensor<{m}xf32>) outs(%o : {t}) {{
        ^bb0(%a: f32, %b: f32, %d: f32):
          %v = arith.divf %a, %b : f32
          linalg.yield %v : f32
      }} -> {t}
      {after}
      return {"%z" if doubled else "%r"} : {t}
    }}"""


SUM = """func.func @main(%x: tensor<?x10xf32>) -> tensor<f32> {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %r = linalg.reduce ins(%x : tensor<?x10xf32>) outs(%zero : tensor<f32>) dimensions = [0, 1]
    (%a: f32, %b: f32) { %v = arith.addf %a, %b : f32  linalg.yield %v : f32 }
  return %r : tensor<f32>
}"""
STATIC_SUM = SUM.replace("?x10", "6x10")


def written(folder: Path, rules: str, clause: str = "") -> Path:
    (folder / "k.c").write_text(CODE)
    (folder / "k.splice").write_text(SPEC.replace("CLAUSE", clause).replace("RULES", rules))
    return folder / "k.splice"


@pytest.mark.parametrize("clause", ["", "as object", "as plugin", "as provided"])
@pytest.mark.parametrize("m", [6, "?"])
def test_it_is_memory_for_the_kernel_alone(tmp_path, clause, m):
    spec = written(tmp_path, DENSE.replace("WHEN", ""), clause)
    x = np.random.default_rng(0).uniform(1, 2, (6, 10)).astype(np.float32)
    wanted = x / x.astype(np.float64).sum(axis=1, keepdims=True)
    program = opsplice.compile(model(m), [spec])
    assert [o.kernel for o in program.report.replacements] == ["shares"]
    np.testing.assert_allclose(program.run("main", x), wanted, rtol=1e-6)


def test_between_kernels_by_size_and_at_zero(tmp_path):
    x = np.random.default_rng(1).uniform(1, 2, (6, 10)).astype(np.float32)
    wanted = x / x.astype(np.float64).sum(axis=1, keepdims=True)
    spec = written(tmp_path, DENSE.replace("WHEN", "when m > 4"))
    inner = opsplice.compile(model("?", doubled=True), [spec])
    assert [o.kernel for o in inner.report.replacements] == ["twice"]
    np.testing.assert_allclose(inner.run("main", x), 2 * wanted, rtol=1e-6)
    sized = opsplice.compile(model("?"), [spec])
    for rows in (3, 6):
        np.testing.assert_allclose(sized.run("main", x[:rows]), wanted[:rows], rtol=1e-6)
    for text in (SUM, STATIC_SUM):
        total = opsplice.compile(text, [spec])
        assert [o.kernel for o in total.report.replacements] == ["total"]
        for _ in range(3):
            np.testing.assert_allclose(total.run("main", x), x.astype(np.float64).sum(), rtol=1e-6)


def test_beside_a_strided_result(tmp_path):
    x = np.random.default_rng(2).uniform(1, 2, (6, 10)).astype(np.float32)
    program = opsplice.compile(model(6, turned=True), [written(tmp_path, ANY)])
    assert [o.kernel for o in program.report.replacements] == ["strided_shares"]
    wanted = x / x.astype(np.float64).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(program.run("main", np.ascontiguousarray(x.T)), wanted, rtol=1e-6)


def test_its_numbers_are_verified(tmp_path):
    (tmp_path / "m.mlir").write_text(model(6))
    found = opsplice.verify(tmp_path / "m.mlir", specs=[written(tmp_path, DENSE.replace("WHEN", ""))])
    assert [(each.replacement.kernel, each.outcome) for each in found.verdicts] == [("shares", "ok")]


SHADER = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> parts: array<f32>;
@group(0) @binding(2) var<storage, read_write> result: array<f32>;
struct Words { m: u32, n: u32 }
var<immediate> c: Words;
@compute @workgroup_size(1) fn shares(@builtin(workgroup_id) at: vec3<u32>) {
  let count = (c.n + 3) / 4;
  let own = at.x * count;
  for (var p = 0u; p < count; p++) { parts[own + p] = 0; }
  for (var i = 0u; i < c.n; i++) { parts[own + i / 4] += x[at.x * c.n + i]; }
  var sum = 0.0;
  for (var p = 0u; p < count; p++) { sum += parts[own + p]; }
  for (var i = 0u; i < c.n; i++) { result[at.x * c.n + i] = x[at.x * c.n + i] / sum; }
}
"""


@pytest.mark.parametrize("m", [6, "?"])
def test_whole_dispatches(tmp_path, vulkan, m):
    (tmp_path / "k.wgsl").write_text(SHADER)
    spec = written(tmp_path, "replace share with shares(x)")
    spec.write_text(spec.read_text().replace('cpu "k.c"', 'vulkan "k.wgsl"'))
    program = opsplice.compile(model(m), [spec], targets=["vulkan:llvmpipe"])
    assert [o.kernel for o in program.report.replacements] == ["shares"]
    x = np.random.default_rng(3).uniform(1, 2, (6, 10)).astype(np.float32)
    wanted = x / x.astype(np.float64).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(program.run("main", x, device="vulkan"), wanted, rtol=1e-6)


NUMBA = """
from opsplice.generating import Request, numba_code

def shares(x, parts, out, row):
    parts[row] = 0
    for i in range(x.shape[1]):
        parts[row, i // 4] += x[row, i]
    total = 0.0
    for p in range(parts.shape[1]):
        total += parts[row, p]
    for i in range(x.shape[1]):
        out[row, i] = x[row, i] / total

def generate(request: Request):
    assert request.shapes[1] == ("m", "ceildiv(n, 4)")
    return numba_code.compiled(shares, request)
"""


def test_arrays_of_numba_with_computed_sizes(tmp_path):
    pytest.importorskip("numba", reason="numba is not installed (pip install 'opsplice[numba]')")
    (tmp_path / "g.py").write_text(NUMBA)
    spec = written(tmp_path, "replace share with shares(x)", "as generated")
    spec.write_text(spec.read_text().replace("k.c", "g.py"))
    size = "%k = arith.constant 1 : index\n%n = tensor.dim %x, %k : tensor<?x?xf32>\n%m = tensor.dim"
    text = model("?").replace("x10x", "x?x").replace("%m = tensor.dim", size)
    program = opsplice.compile(text.replace("%o = tensor.empty(%m)", "%o = tensor.empty(%m, %n)"), [spec])
    assert [o.kernel for o in program.report.replacements] == ["shares"]
    x = np.random.default_rng(4).uniform(1, 2, (6, 10)).astype(np.float32)
    wanted = x / x.astype(np.float64).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(program.run("main", x), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ("k(x: f32[n] scratch) -> f32[n]", "memory of the kernel's own is a result"),
        ("k(x: f32[n]) -> f32[n] scratch", "a kernel makes more than memory of its own"),
        ("k(x: f32[n]) -> (f32[n], w: f32[k] scratch)", "nothing says how large k is"),
        ("k(x: f32[n]) -> (f32[n], w: f32[n] strided scratch)", "memory of the kernel's own is dense"),
    ],
)
def test_what_it_cannot_be(signature, said):
    with pytest.raises(OpspliceError, match=said):
        load_text(f'kernel {signature} {{ cpu "k.c" }}', Path("k.splice"))


def test_commands_have_none():
    with pytest.raises(OpspliceError, match="a command takes what memory it wants by itself"):
        load_text('kernel k(x: f32[n]) -> (f32[n], w: f32[n] scratch) { cpu "k.py" as command }', Path("k.splice"))
