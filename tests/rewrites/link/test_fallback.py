"""`otherwise keep` where only some targets have an artifact: each target gets the code that is meant for it.

The kernels here add one to what the compiler would compute, so the numbers tell whose code ran.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.frontends import ModuleSource
from opsplice.pipeline.compiler import Compilation
from opsplice.rewrites.ir.executable_targets import device_globals, targets_of
from opsplice.rewrites.link import fallback
from opsplice.targets.artifacts import arch as arch_names
from opsplice.targets.build import toolchains

HOST = arch_names.host_arch()
ARCHS = arch_names.ARCHS
OTHERS = tuple(a for a in ARCHS if a != HOST)

pytestmark = [
    pytest.mark.skipif(HOST is None, reason="no kernels for this machine's architecture"),
    pytest.mark.skipif(
        toolchains.find("zig") is None and toolchains.find("clang") is None,
        reason="no compiler for several architectures (pip install ziglang)",
    ),
]

KERNELS = """
#include <stddef.h>
static float magnitude(float x) { return x < 0 ? -x : x; }
void neg_abs_mul(const float *a, const float *b, float *out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = 1 - magnitude(a[i] * b[i]);
}
void pair(const float *x, float *first, float *second, size_t n) {
  for (size_t i = 0; i < n; ++i) { first[i] = 1 - magnitude(x[i]); second[i] = 1 + x[i] * x[i]; }
}
void scale(const float *x, float factor, float *out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = 1 + x[i] * factor;
}
void square(float *x, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] = 1 + x[i] * x[i];
}
void product(const float *a, const float *b, float *out, size_t m, size_t k, size_t n) {
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float sum = 1;
      for (size_t l = 0; l < k; ++l) sum += a[i * k + l] * b[l * n + j];
      out[i * n + j] = sum;
    }
}
void halves(const float *a, const float *turned, float *out, size_t m, size_t k, size_t n) {
  for (size_t at = 0; at < 2 * m * n; ++at) {
    size_t i = at / n % m, j = at % n;
    out[at] = 0;
    for (size_t l = at / n / m; l < k; l += 2) out[at] += a[i * k + l] * turned[j * k + l];
  }
}
void total(const float *parts, float *out, size_t s, size_t m, size_t n) {
  for (size_t i = 0; i < m * n; ++i) {
    out[i] = 1;
    for (size_t p = 0; p < s; ++p) out[i] += parts[p * m * n + i];
  }
}
"""

NEG_ABS_MUL = """
kernel neg_abs_mul(a: f32[n], b: f32[n]) -> f32[n] {{ {clauses} }}
pattern p(a: tensor<n x f32>, b: tensor<n x f32>) {{ negf(absf(mulf(a, b))) }}
replace p with neg_abs_mul(a, b) otherwise keep
"""


@dataclass(frozen=True)
class Case:
    """A program, a spec with a place for the kernel's clauses, inputs, and the results with and without the kernel."""

    model: str
    spec: str
    inputs: tuple[np.ndarray | np.float32, ...]
    replaced: tuple[np.ndarray, ...]
    plain: tuple[np.ndarray, ...]
    matches: int = 1


def _f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


X = _f32(1, -2, 3, 4)
Y = _f32(5, 6, -7, 0)

CASES = {
    "dynamic": Case(
        """func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
          %0 = arith.mulf %a, %b : tensor<?xf32>
          %1 = math.absf %0 : tensor<?xf32>
          %2 = arith.negf %1 : tensor<?xf32>
          %3 = arith.mulf %2, %b : tensor<?xf32>
          return %3 : tensor<?xf32>
        }""",
        NEG_ABS_MUL,
        (X, Y),
        ((1 - abs(X * Y)) * Y,),
        (-abs(X * Y) * Y,),
    ),
    "chain with an inner value used elsewhere": Case(
        """func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
          %0 = arith.mulf %a, %b : tensor<4xf32>
          %1 = math.absf %0 : tensor<4xf32>
          %2 = arith.negf %1 : tensor<4xf32>
          %3 = arith.mulf %2, %1 : tensor<4xf32>
          %4 = math.absf %3 : tensor<4xf32>
          %5 = arith.negf %4 : tensor<4xf32>
          return %1, %2, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
        }""",
        NEG_ABS_MUL,
        (X, Y),
        (abs(X * Y), 1 - abs(X * Y), 1 - abs((1 - abs(X * Y)) * abs(X * Y))),
        (abs(X * Y), -abs(X * Y), -abs(X * Y * X * Y)),
        matches=2,
    ),
    "several results": Case(
        """func.func @main(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
          %0 = math.absf %x : tensor<?xf32>
          %1 = arith.negf %0 : tensor<?xf32>
          %2 = arith.mulf %0, %0 : tensor<?xf32>
          return %1, %2 : tensor<?xf32>, tensor<?xf32>
        }""",
        """
        kernel pair(x: f32[n]) -> (f32[n], f32[n]) {{ {clauses} }}
        pattern p(x: tensor<n x f32>) {{ a = absf(x)  negf(a), mulf(a, a) }}
        replace p with pair(x) otherwise keep
        """,
        (X,),
        (1 - abs(X), 1 + X * X),
        (-abs(X), X * X),
    ),
    "several results, with an op between them that only a copy of the match needs": Case(
        """func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
          %0 = math.absf %x : tensor<4xf32>
          %1 = arith.negf %0 : tensor<4xf32>
          %e = tensor.empty() : tensor<4xf32>
          %2 = linalg.map { arith.mulf } ins(%0, %0 : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>)
          %u = math.floor %1 : tensor<4xf32>
          return %u, %2 : tensor<4xf32>, tensor<4xf32>
        }""",
        """
        kernel pair(x: f32[n]) -> (f32[n], f32[n]) {{ {clauses} }}
        pattern p(x: tensor<n x f32>) {{ a = absf(x)  negf(a), mulf(a, a) }}
        replace p with pair(x) otherwise keep
        """,
        (X,),
        (1 - abs(X), 1 + X * X),
        (-abs(X), X * X),
    ),
    "scalar": Case(
        """func.func @main(%x: tensor<4xf32>, %s: f32) -> tensor<4xf32> {
          %e = tensor.empty() : tensor<4xf32>
          %0 = linalg.fill ins(%s : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
          %1 = arith.mulf %x, %0 : tensor<4xf32>
          return %1 : tensor<4xf32>
        }""",
        """
        kernel scale(x: f32[n], factor: f32) -> f32[n] {{ {clauses} }}
        pattern p(x: tensor<n x f32>, s: f32) {{ mulf(x, s) }}
        replace p with scale(x, s) otherwise keep
        """,
        (X, np.float32(3)),
        (1 + X * 3,),
        (X * 3,),
    ),
    "in place": Case(
        """func.func @main(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
          %0 = arith.addf %x, %x : tensor<?xf32>
          %1 = arith.mulf %0, %0 : tensor<?xf32>
          return %0, %1 : tensor<?xf32>, tensor<?xf32>
        }""",
        """
        kernel square(x: f32[n]) -> x {{ {clauses} }}
        pattern p(x: tensor<n x f32>) {{ mulf(x, x) }}
        replace p with square(x) otherwise keep
        """,
        (X,),
        (X + X, 1 + 4 * X * X),
        (X + X, 4 * X * X),
    ),
    "in a loop, of rank 2": Case(
        """func.func @main(%a: tensor<?x4xf32>, %b: tensor<4x4xf32>) -> tensor<?x4xf32> {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c3 = arith.constant 3 : index
          %zero = arith.constant 0.0 : f32
          %m = tensor.dim %a, %c0 : tensor<?x4xf32>
          %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%t = %a) -> tensor<?x4xf32> {
            %e = tensor.empty(%m) : tensor<?x4xf32>
            %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x4xf32>) -> tensor<?x4xf32>
            %n = linalg.matmul ins(%t, %b : tensor<?x4xf32>, tensor<4x4xf32>) outs(%f : tensor<?x4xf32>)
              -> tensor<?x4xf32>
            scf.yield %n : tensor<?x4xf32>
          }
          return %r : tensor<?x4xf32>
        }""",
        """
        kernel product(a: f32[m, k], b: f32[k, n]) -> f32[m, n] {{ {clauses} }}
        pattern p(a: tensor<m x k x f32>, b: tensor<k x n x f32>) {{ contract[m k, k n -> m n](a, b) }}
        replace p with product(a, b) otherwise keep
        """,
        (np.ones((2, 4), np.float32), 2 * np.eye(4, dtype=np.float32)),
        (np.full((2, 4), ((1 * 2 + 1) * 2 + 1) * 2 + 1, np.float32),),
        (np.full((2, 4), 8, np.float32),),
    ),
    "a kernel for another one, of what is computed": Case(
        """func.func @main(%a: tensor<?x3xf32>, %b: tensor<3x2xf32>) -> tensor<?x2xf32> {
          %zero = arith.constant 0 : index
          %none = arith.constant 0.0 : f32
          %m = tensor.dim %a, %zero : tensor<?x3xf32>
          %empty = tensor.empty(%m) : tensor<?x2xf32>
          %start = linalg.fill ins(%none : f32) outs(%empty : tensor<?x2xf32>) -> tensor<?x2xf32>
          %0 = linalg.matmul ins(%a, %b : tensor<?x3xf32>, tensor<3x2xf32>)
            outs(%start : tensor<?x2xf32>) -> tensor<?x2xf32>
          return %0 : tensor<?x2xf32>
        }""",
        """
        kernel halves(a: f32[m, k], turned: f32[n, k]) -> f32[min(k, 2), m, n] {{ {clauses} }}
        kernel total(parts: f32[s, m, n]) -> f32[m, n] {{ cpu "kernels.c" }}
        pattern p(a: tensor<m x k x f32>, b: tensor<k x n x f32>) {{ contract[m k, k n -> m n](a, b) }}
        replace p with total(halves(a, transpose[k n -> n k](b))) otherwise keep
        """,
        (_f32(1, 2, 3, 4, 5, 6).reshape(2, 3), _f32(1, 2, 3, 4, 5, 6).reshape(3, 2)),
        (_f32(23, 29, 50, 65).reshape(2, 2),),
        (_f32(22, 28, 49, 64).reshape(2, 2),),
    ),
}


def _compile(folder: Path, case: Case, clauses: str, targets: tuple[str, ...] = ARCHS, flags: tuple[str, ...] = ()):
    (folder / "kernels.c").write_text(KERNELS)
    spec = folder / "spec.splice"
    spec.write_text(case.spec.format(clauses=clauses))
    return opsplice.compile(case.model, [spec], flags, targets=targets)


def _clauses(*archs: str | None) -> str:
    return "\n".join(f'cpu {arch} "kernels.c"' for arch in archs)


def _outputs(program: opsplice.Program, case: Case) -> list[np.ndarray]:
    found = program.run("main", *case.inputs)
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize("name", CASES)
def test_the_host_calls_the_kernel_that_others_lack(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    program = _compile(tmp_path, case, _clauses(HOST))
    assert len(program.report.replacements) == case.matches
    for found, wanted in zip(_outputs(program, case), case.replaced, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", CASES)
def test_the_host_keeps_the_compilers_code_where_it_has_no_kernel(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    program = _compile(tmp_path, case, _clauses(*OTHERS))
    assert len(program.report.replacements) == case.matches
    for found, wanted in zip(_outputs(program, case), case.plain, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_the_report_says_what_each_target_gets(tmp_path: Path) -> None:
    program = _compile(tmp_path, CASES["dynamic"], _clauses("aarch64"), targets=("x86_64", "aarch64"))
    (replacement,) = program.report.replacements
    uses = {use.target: (use.form, Path(use.source).name) for use in replacement.artifacts}
    assert uses == {
        "llvm-cpu embedded-elf-arm_64": ("object", "kernels.c"),
        "llvm-cpu embedded-elf-x86_64": ("compiler", "the compiler"),
    }


def test_no_artifact_at_all_leaves_the_match_alone(tmp_path: Path) -> None:
    case = CASES["dynamic"]
    program = _compile(tmp_path, case, _clauses(OTHERS[0]), targets=(str(HOST),))
    (kept,) = program.report.kept
    assert kept.action == "keep"
    assert "has no artifact for llvm-cpu embedded-elf-" in kept.reason
    np.testing.assert_array_equal(_outputs(program, case)[0], case.plain[0])


def test_two_rules_one_of_them_for_every_target(tmp_path: Path) -> None:
    """A partly replaced match feeds one that every target has a kernel for, and the other way round."""
    case = Case(
        """func.func @main(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
          %0 = arith.mulf %x, %x : tensor<?xf32>
          %1 = math.absf %0 : tensor<?xf32>
          %2 = arith.negf %1 : tensor<?xf32>
          %3 = arith.maximumf %2, %x : tensor<?xf32>
          %4 = arith.mulf %3, %3 : tensor<?xf32>
          %5 = arith.mulf %4, %x : tensor<?xf32>
          %6 = math.absf %5 : tensor<?xf32>
          %7 = arith.negf %6 : tensor<?xf32>
          return %2, %7 : tensor<?xf32>, tensor<?xf32>
        }""",
        NEG_ABS_MUL
        + """
        kernel square(x: f32[n]) -> x {{ cpu "kernels.c" }}
        pattern q(x: tensor<n x f32>) {{ mulf(x, x) }}
        replace q with square(x)
        """,
        (X,),
        (),
        (),
    )
    first = 1 - X * X
    on_host = _outputs(_compile(tmp_path, case, _clauses(HOST)), case)
    np.testing.assert_array_equal(on_host[0], first)
    np.testing.assert_array_equal(on_host[1], 1 - abs((1 + np.maximum(first, X) ** 2) * X))
    kept = _outputs(_compile(tmp_path, case, _clauses(*OTHERS)), case)
    np.testing.assert_array_equal(kept[0], -X * X)
    np.testing.assert_array_equal(kept[1], -abs((1 + np.maximum(-X * X, X) ** 2) * X))


def test_a_spec_after_it_may_change_either_branch(tmp_path: Path) -> None:
    case = CASES["dynamic"]
    (tmp_path / "kernels.c").write_text(KERNELS)
    partly, wholly = tmp_path / "partly.splice", tmp_path / "wholly.splice"
    partly.write_text(case.spec.format(clauses=_clauses(*OTHERS)))
    wholly.write_text(case.spec.format(clauses=_clauses(*ARCHS)))
    program = opsplice.compile(case.model, [partly, wholly], targets=ARCHS)
    assert len(program.report.replacements) == 2
    np.testing.assert_array_equal(_outputs(program, case)[0], case.replaced[0])


def test_transform_leaves_a_partial_match_alone(tmp_path: Path) -> None:
    """The frontend compiles the rest itself, so nothing can be done at a later phase."""
    case = CASES["dynamic"]
    (tmp_path / "kernels.c").write_text(KERNELS)
    spec = tmp_path / "spec.splice"
    spec.write_text(case.spec.format(clauses=_clauses(HOST)))
    _, report = opsplice.transform(case.model, [spec], targets=ARCHS)
    assert not report.replacements
    assert "devices of the program are not chosen yet" in report.kept[0].reason


def test_several_devices_are_an_obstacle() -> None:
    flags = [
        "--iree-hal-target-device=a=local[0]",
        "--iree-hal-target-device=b=local[1]",
        "--iree-hal-local-target-device-backends=llvm-cpu",
    ]
    with Compilation(flags) as compilation:
        compilation.load(ModuleSource(content="module {}"))
        compilation.run_to("preprocessing")
        assert len(device_globals(compilation.module)) == 2
        assert (
            fallback.obstacle(compilation.module, targets_of(compilation.module))
            == "the program is for several devices"
        )


def test_one_device_is_no_obstacle_before_two_of_a_format() -> None:
    with Compilation() as compilation:
        compilation.load(ModuleSource(content="module {}"))
        compilation.run_to("preprocessing")
        (target,) = targets_of(compilation.module)
        assert fallback.obstacle(compilation.module, (target,)) == ""
        assert "same format" in fallback.obstacle(compilation.module, (target, target))
