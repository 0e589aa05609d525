"""Results that are `zeroed`: full of zeros when the kernel starts, so that workgroups can add to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.frontends import ModuleSource
from opsplice.spec_lang.loading.loader import load_text

KERNELS = """
#include <stddef.h>
#include <stdint.h>
static void add(float *to, float more) {
  uint32_t *bits = (uint32_t *)to, old = __atomic_load_n(bits, __ATOMIC_RELAXED), new;
  do {
    float sum;
    __builtin_memcpy(&sum, &old, 4);
    sum += more;
    __builtin_memcpy(&new, &sum, 4);
  } while (!__atomic_compare_exchange_n(bits, &old, new, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}
void matmul(const float *a, const float *b, float *out, size_t m, size_t k, size_t n, size_t part) {
  size_t end = 4 * part + 4 < k ? 4 * part + 4 : k;
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (size_t l = 4 * part; l < end; ++l) sum += a[i * k + l] * b[l * n + j];
      add(out + i * n + j, sum);
    }
}
void tops(const float *x, int32_t *counts, float *halves, size_t m, size_t n, size_t row) {
  for (size_t j = 0; j < n; ++j) {
    if (x[row * n + j] > 0) __atomic_fetch_add(counts + j, 1, __ATOMIC_RELAXED);
    halves[row * n + j] = x[row * n + j] / 2;
  }
}
void twice(const float *x, float *out, size_t m, size_t n) {
  for (size_t i = 0; i < m * n; ++i) out[i] = 2 * x[i];
}
"""
SHADER = """
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> result: array<atomic<u32>>;
struct Words { m: u32, k: u32, n: u32 }
var<immediate> c: Words;
@compute @workgroup_size(1) fn matmul(@builtin(workgroup_id) at: vec3<u32>) {
  for (var e = 0u; e < c.m * c.n; e++) {
    var sum = 0.0;
    for (var l = 4 * at.x; l < min(4 * at.x + 4, c.k); l++) {
      sum += a[e / c.n * c.k + l] * b[l * c.n + e % c.n];
    }
    var old = atomicLoad(&result[e]);
    loop {
      let done = atomicCompareExchangeWeak(&result[e], old, bitcast<u32>(bitcast<f32>(old) + sum));
      if done.exchanged { break; }
      old = done.old_value;
    }
  }
}
"""
MATMUL = """
kernel matmul(a: f32[m, k], b: f32[k, n]) -> f32[m, n] zeroed {{ grid (ceildiv(k, 4)) {} }}
pattern product(a: tensor<m x k x f32>, b: tensor<k x n x f32>) {{ contract[mk, kn -> mn](a, b) }}
"""
SPEC = (
    MATMUL.format('cpu "k.c"')
    + """
kernel tops(x: f32[m, n]) -> (counts: i32[n] zeroed, halves: f32[m, n]) { grid (m) cpu "k.c" }
kernel twice(x: f32[m, n]) -> f32[m, n] { cpu "k.c" }
pattern doubled(a: tensor<m x k x f32>, b: tensor<k x n x f32>) { y = product(a, b)  addf(y, y) }
pattern two(x: tensor<m x n x f32>) {
  positive = extui(cmpf(x, 0.0) {predicate = ogt}) : tensor<m x n x i32>
  reduce addi[m n -> n](positive), mulf(x, 0.5)
}
replace doubled with twice(matmul(a, b))
replace product with matmul(a, b)
replace two with tops(x)
"""
)


def function(name: str, m: object, k: object, n: object, body: str, results: int) -> str:
    a, b, c = f"tensor<{m}x{k}xf32>", f"tensor<{k}x{n}xf32>", f"tensor<{m}x{n}xf32>"
    many = ", ".join([c] * results)
    empty = "tensor.empty(%m, %n)" if m == "?" else "tensor.empty()"
    return f"""func.func @{name}(%a: {a}, %b: {b}, %d: {b}) -> ({many}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %zero = arith.constant 0.0 : f32
      %m = tensor.dim %a, %c0 : {a}
      %n = tensor.dim %b, %c1 : {b}
      %e = {empty} : {c}
      %f = linalg.fill ins(%zero : f32) outs(%e : {c}) -> {c}
      {body.replace("A", a).replace("B", b).replace("C", c)}
    }}
    """


ONE = "%r = linalg.matmul ins(%a, %b : A, B) outs(%f : C) -> C\n return %r : C"
TWO = (
    "%r = linalg.matmul ins(%a, %b : A, B) outs(%f : C) -> C\n"
    "%s = linalg.matmul ins(%a, %d : A, B) outs(%f : C) -> C\n"
    "%t = arith.addf %r, %s : C\n return %r, %s, %t : C, C, C"
)
INNER = "%r = linalg.matmul ins(%a, %b : A, B) outs(%f : C) -> C\n %s = arith.addf %r, %r : C\n return %s : C"
TOPS = """
func.func @tops(%x: tensor<?x6xf32>) -> (tensor<6xi32>, tensor<?x6xf32>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %none = arith.constant dense<0> : tensor<6xi32>
  %half = arith.constant 0.5 : f32
  %m = tensor.dim %x, %c0 : tensor<?x6xf32>
  %z = tensor.splat %zero[%m] : tensor<?x6xf32>
  %h = tensor.splat %half[%m] : tensor<?x6xf32>
  %p = arith.cmpf ogt, %x, %z : tensor<?x6xf32>
  %i = arith.extui %p : tensor<?x6xi1> to tensor<?x6xi32>
  %s = linalg.reduce { arith.addi } ins(%i : tensor<?x6xi32>) outs(%none : tensor<6xi32>) dimensions = [0]
  %r = arith.mulf %x, %h : tensor<?x6xf32>
  return %s, %r : tensor<6xi32>, tensor<?x6xf32>
}
"""
PRODUCTS = (
    function("known", 3, 10, 5, ONE, 1) + function("open", "?", "?", "?", ONE, 1) + function("both", 3, 10, 5, TWO, 3)
)


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def check_products(program: opsplice.Program, *devices: str) -> None:
    """Each function, twice on each device: a buffer that is used again starts at zero again."""
    for function_name, (m, k, n) in (
        ("known", (3, 10, 5)),
        ("open", (2, 9, 4)),
        ("open", (1, 40, 1)),
        ("both", (3, 10, 5)),
    ):
        a, b, d = values(m, k), values(k, n), values(k + 1, n)[1:]
        for device in (*devices, *devices):
            results = program.run(function_name, a, b, d, device=device)
            if function_name == "both":
                results, wanted = list(results), [a @ b, a @ d, a @ b + a @ d]
            else:
                results, wanted = [results], [a @ b]
            for got, want in zip(results, wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=f"{function_name} on {device}")


def compiled(folder: Path, spec: str, model: str = PRODUCTS, **options) -> opsplice.Program:
    (folder / "k.c").write_text(KERNELS)
    (folder / "k.wgsl").write_text(SHADER)
    (folder / "s.splice").write_text(spec)
    program = opsplice.compile(ModuleSource(content=model), specs=[folder / "s.splice"], **options)
    assert program.report.replacements
    assert all(each.lost for each in program.report.kept), program.report
    return program


def test_linked_functions(tmp_path):
    program = compiled(tmp_path, SPEC, PRODUCTS + function("inner", 3, 10, 5, INNER, 1) + TOPS)
    check_products(program, "local-sync", "local-task")
    a, b = values(3, 10), values(10, 5)
    np.testing.assert_allclose(program.run("inner", a, b, b), 2 * (a @ b), rtol=1e-5, atol=1e-5)
    x = values(7, 6)
    counts, halves = program.run("tops", x, device="local-task")
    np.testing.assert_array_equal(counts, (x > 0).sum(0))
    np.testing.assert_array_equal(halves, x / 2)


def test_whole_dispatches(tmp_path, vulkan):
    spec = MATMUL.format('vulkan "k.wgsl"') + "replace product with matmul(a, b)"
    check_products(compiled(tmp_path, spec, targets=["vulkan:llvmpipe"]), "vulkan")


def test_functions_of_a_provider(tmp_path):
    from opsplice.runtime.loaded_program import load_program
    from opsplice.runtime.providers import Provider

    program = compiled(tmp_path, MATMUL.format('cpu "k.c" as provided') + "replace product with matmul(a, b)")
    loaded = load_program(program.vmfb, provider=Provider([program.provided]))
    a, b = values(2, 9), values(9, 4)
    for _ in range(2):
        (got,) = loaded.call("open", a, b, b)
        np.testing.assert_allclose(got, a @ b, rtol=1e-5, atol=1e-5)


def test_commands(tmp_path):
    (tmp_path / "added.py").write_text("import numpy as np\ndef matmul(a, b, out):\n    out += a @ b\n")
    spec = MATMUL.format('cpu "added.py" as command').replace("grid (ceildiv(k, 4))", "")
    check_products(compiled(tmp_path, spec + "replace product with matmul(a, b)"), "local-sync")


@pytest.mark.parametrize(
    ("signature", "expected"),
    [
        ("(x: f32[n] zeroed) -> f32[n]", "only results start at zero"),
        ("(x: f32[n]) -> f32[n] strided zeroed", "a result that starts at zero is dense"),
        ("(x: f32[n]) -> f32[n] copied zeroed", "a result that starts at zero is dense"),
        ("(x: f32[n]) -> (f32[n], f32[n] zeroed)", "results that start at zero come before the others"),
    ],
)
def test_what_cannot_start_at_zero(signature, expected):
    with pytest.raises(opsplice.OpspliceError) as failure:
        load_text(f'kernel k{signature} {{ cpu "k.c" }}')
    assert expected in str(failure.value)
