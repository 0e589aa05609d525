"""Whole dispatches: on the CPU in IREE's own ABI, on Vulkan from shaders, and one program for both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.compiling import plugin_kernels
from opsplice.targets.build import shaders
from tests.rewrites.conftest import write_spec

PROGRAM = """
func.func @main(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = arith.mulf %a, %b : tensor<?x?xf32>
  %1 = math.absf %0 : tensor<?x?xf32>
  %2 = arith.negf %1 : tensor<?x?xf32>
  %3 = math.exp %2 : tensor<?x?xf32>
  return %3 : tensor<?x?xf32>
}
"""
SPEC = """
kernel neg_abs_mul(a: f32[...m, n], b: f32[...m, n], scale: f32, shift: f64, k: i64) -> f32[...m, n] {{
  grid (ceildiv(n, 64), m)
  workgroup (64)
  {clauses}
}}
pattern p(a: tensor<...m x n x f32>, b: tensor<...m x n x f32>) {{ negf(absf(mulf(a, b))) }}
replace p with neg_abs_mul(a, b, 2.0, 0.25, -3){otherwise}
"""
A, B = (np.random.default_rng(seed).standard_normal((5, 300)).astype(np.float32) for seed in (1, 2))
# What the kernel makes of the numbers that the rule gives it.
EXPECTED = np.exp(-np.abs(A * B) * 2 + np.float32(0.25) - 3)

DISPATCH = """
#include <opsplice_dispatch.h>
#include <string.h>
int neg_abs_mul(const void *environment, const opsplice_dispatch *d, const opsplice_workgroup *w) {
  const float *a = d->bindings[0], *b = d->bindings[1];
  float *out = d->bindings[2];
  float scale;
  double shift;
  long long k;
  memcpy(&scale, d->constants, 4);
  memcpy(&shift, d->constants + 1, 8);
  memcpy(&k, d->constants + 3, 8);
  unsigned m = d->constants[5], n = d->constants[6];
  if (d->constant_count != 7 || d->binding_count != 3 || w->y >= m) return 1;
  for (unsigned i = w->x * 64; i < n && i < w->x * 64 + 64; i++) {
    float p = a[w->y * n + i] * b[w->y * n + i];
    out[w->y * n + i] = -(p < 0 ? -p : p) * scale + (float)shift + (float)k;
  }
  return 0;
}
"""
PLAIN = """
#include <stddef.h>
void neg_abs_mul(const float *a, const float *b, float scale, double shift, long long k, float *out, size_t m, size_t n,
                 size_t x, size_t y) {
  for (size_t i = x * 64; i < n && i < x * 64 + 64; i++) {
    float p = a[y * n + i] * b[y * n + i];
    out[y * n + i] = -(p < 0 ? -p : p) * scale + (float)shift + (float)k;
  }
}
"""
SHADER = """#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Constants {
  float scale;
  uint shift_low;
  uint shift_high;
  int k;
  uint k_high;
  uint m;
  uint n;
};
void main() {
  uint i = gl_GlobalInvocationID.x, y = gl_WorkGroupID.y;
  double shift = packDouble2x32(uvec2(shift_low, shift_high));
  if (i < n) result[y * n + i] = -abs(a[y * n + i] * b[y * n + i]) * scale + float(shift) + float(k);
}
"""
# WGSL has no f64: the bits are those of the f32 nearest below.
WGSL = """
struct Words { scale: f32, shift_low: u32, shift_high: u32, k: i32, k_high: u32, m: u32, n: u32 }
var<immediate> words: Words;
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> result: array<f32>;
@compute @workgroup_size(64)
fn neg_abs_mul(@builtin(global_invocation_id) thread: vec3<u32>) {
  let high = words.shift_high;
  let exponent = ((high >> 20u) & 0x7ffu) - 1023u + 127u;
  let mantissa = ((high & 0xfffffu) << 3u) | (words.shift_low >> 29u);
  let shift = bitcast<f32>((high & 0x80000000u) | (exponent << 23u) | mantissa);
  let at = thread.y * words.n + thread.x;
  if (thread.x < words.n) { result[at] = -abs(a[at] * b[at]) * words.scale + shift + f32(words.k); }
}
"""
FILES = {"shader.wgsl": WGSL, "dispatch.c": DISPATCH, "plain.c": PLAIN, "shader.comp": SHADER}
# As a plain function would be.
FILES["plain.ll"] = "define void @neg_abs_mul(ptr %a, ptr %b, ptr %out) {\n  ret void\n}\n"


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[..., opsplice.Program]:
    def build(clauses: str, targets: str, otherwise: str = "", program: str = PROGRAM) -> opsplice.Program:
        spec = write_spec(tmp_path, SPEC.format(clauses=clauses, otherwise=otherwise), FILES)
        flags = ["--iree-input-demote-f64-to-f32=false"]
        return opsplice.compile(program, [spec], flags, targets=targets.split(","))

    return build


def check(program: opsplice.Program, devices: tuple[str, ...], a: Any = A, b: Any = B) -> None:
    for device in devices:
        np.testing.assert_allclose(program.run("main", a, b, device=device), EXPECTED, rtol=1e-5, err_msg=device)


CPUS = ("local-sync", "local-task")


@pytest.mark.cell("static dispatch", "CPU", "runs")
def test_a_dispatch_for_the_cpu(compiled):
    program = compiled('cpu "dispatch.c" as dispatch', "cpu")
    assert [r.action for r in program.report.replacements] == ["static dispatch"]
    check(program, CPUS)


def test_a_dispatch_of_static_dims(compiled):
    program = compiled('cpu "dispatch.c" as dispatch', "cpu", program=PROGRAM.replace("?x?x", "5x300x"))
    check(program, CPUS)


TWO = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
@compute @workgroup_size(64) fn more(@builtin(global_invocation_id) at: vec3<u32>) { result[at.x] = x[at.x] + 1.0; }
@compute @workgroup_size(64) fn thrice(@builtin(global_invocation_id) at: vec3<u32>) { result[at.x] = x[at.x] * 3.0; }
"""
TWO_KERNELS = """
kernel more(x: f32[64]) -> f32[64] { grid (1) vulkan "two.wgsl" }
kernel thrice(x: f32[64]) -> f32[64] { grid (1) vulkan "two.wgsl" }
pattern p(x: tensor<64 x f32>) { negf(x) }
pattern q(x: tensor<64 x f32>) { absf(x) }
replace p with more(x)
replace q with thrice(x)
"""


def test_two_entries_of_one_file(tmp_path, vulkan):
    """They differ in nothing but their names."""
    if shaders.find("naga") is None:
        pytest.skip(f"naga is not installed ({shaders.HOW_TO_GET['naga']})")
    spec = write_spec(tmp_path, TWO_KERNELS, {"two.wgsl": TWO})
    model = """
    func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
      %0 = math.absf %x : tensor<64xf32>
      %1 = arith.negf %0 : tensor<64xf32>
      return %1 : tensor<64xf32>
    }"""
    program = opsplice.compile(model, [spec], targets=["vulkan:llvmpipe"])
    assert [each.kernel for each in program.report.replacements] == ["thrice", "more"]
    x = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(program.run("main", x, device="vulkan"), x * 3 + 1)


@pytest.mark.cell("static dispatch", "SPIR-V", "runs")
def test_a_shader(compiled, vulkan):
    program = compiled('spirv "shader.comp"', "vulkan:llvmpipe")
    assert [r.action for r in program.report.replacements] == ["static dispatch"]
    check(program, ("vulkan",))


@pytest.mark.cell("static dispatch", "WGSL", "runs")
def test_a_shader_in_wgsl(compiled, vulkan):
    if shaders.find("naga") is None:
        pytest.skip(f"naga is not installed ({shaders.HOW_TO_GET['naga']})")
    program = compiled('wgsl "shader.wgsl"', "vulkan:llvmpipe")
    assert [r.action for r in program.report.replacements] == ["static dispatch"]
    check(program, ("vulkan",))


CONSTANTS = """
#id = affine_map<(i, j) -> (i, j)>
func.func @main() -> tensor<5x300xf32> {
  %a = arith.constant dense<2.5> : tensor<5x300xf32>
  %b = arith.constant dense<-1.5> : tensor<5x300xf32>
  %e = tensor.empty() : tensor<5x300xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a, %b : tensor<5x300xf32>, tensor<5x300xf32>) outs(%e : tensor<5x300xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %0 = arith.mulf %x, %y : f32
    %1 = math.absf %0 : f32
    %2 = arith.negf %1 : f32
    linalg.yield %2 : f32
  } -> tensor<5x300xf32>
  return %r : tensor<5x300xf32>
}
"""


@pytest.mark.parametrize(
    ("clause", "target", "device"),
    [
        ('spirv "shader.comp"', "vulkan:llvmpipe", "vulkan"),
        ('spirv "shader.comp" as provided', "vulkan:llvmpipe", "vulkan"),
        ('cpu "dispatch.c" as dispatch', "cpu", "local-task"),
    ],
)
def test_what_comes_from_constants_is_computed_when_the_program_runs(compiled, vulkan, clause, target, device):
    """IREE would compute it when it compiles the program, where the kernel may not run."""
    program = compiled(clause, target, program=CONSTANTS)
    assert len(program.report.replacements) == 1
    wanted = np.full((5, 300), -3.75 * 2 + 0.25 - 3, np.float32)
    np.testing.assert_allclose(program.run("main", device=device), wanted, rtol=1e-6)


def test_one_program_for_all(compiled, vulkan):
    program = compiled('spirv "shader.comp"\ncpu "plain.c"', "vulkan:llvmpipe,cpu")
    check(program, ("vulkan", *CPUS))


def test_the_compilers_code_where_there_is_no_artifact(compiled, vulkan):
    plain = np.exp(-np.abs(A * B))
    program = compiled('spirv "shader.comp"', "vulkan:llvmpipe,cpu", " otherwise keep")
    check(program, ("vulkan",))
    np.testing.assert_allclose(program.run("main", A, B, device="local-task"), plain, rtol=1e-5)
    program = compiled('cpu "plain.c"', "vulkan:llvmpipe,cpu", " otherwise keep")
    check(program, CPUS)
    np.testing.assert_allclose(program.run("main", A, B, device="vulkan"), plain, rtol=1e-5)


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    spec = SPEC.format(clauses='cpu "plain.c" as plugin', otherwise="")
    (tmp_path / "plugin").mkdir()
    made = plugin_kernels.build(write_spec(tmp_path / "plugin", spec, FILES), ".so")
    path = tmp_path / "kernels.so"
    path.write_bytes(made.data)
    return path


def test_a_plugin_on_the_cpu_and_a_shader(compiled, vulkan, plugin):
    program = compiled('cpu as plugin\nspirv "shader.comp"', "vulkan:llvmpipe,cpu")
    check(program, ("vulkan",))
    for device in CPUS:
        np.testing.assert_allclose(program.run("main", A, B, device=device, plugins=[plugin]), EXPECTED, rtol=1e-5)
    with pytest.raises(OpspliceError, match="the program imports 'neg_abs_mul' from a plugin, and none is given"):
        program.run("main", A, B, device="local-task")


def test_a_plugin_on_the_cpu_and_the_compilers_code(compiled, vulkan, plugin):
    program = compiled("cpu as plugin", "vulkan:llvmpipe,cpu", " otherwise keep")
    plain = np.exp(-np.abs(A * B))
    np.testing.assert_allclose(program.run("main", A, B, device="vulkan"), plain, rtol=1e-5)
    np.testing.assert_allclose(program.run("main", A, B, device="local-sync", plugins=[plugin]), EXPECTED, rtol=1e-5)


def test_a_function_that_is_no_dispatch(compiled):
    with pytest.raises(
        OpspliceError, match=r"plain\.ll is `void .*, and kernel \w+ calls it as `i32 \(ptr, ptr, ptr\)`"
    ):
        compiled('cpu "plain.ll" as dispatch', "cpu")


def test_no_artifact_for_a_device(compiled):
    with pytest.raises(OpspliceError, match="has no artifact for vulkan-spirv") as error:
        compiled('cpu "plain.c"', "vulkan:llvmpipe,cpu")
    assert 'such as `vulkan "..."`' in error.value.hint
    assert "--target" not in error.value.hint
    with pytest.raises(OpspliceError, match="has no artifact for llvm-cpu") as error:
        compiled('spirv "shader.comp"\ncuda "k.cu"', "cpu")
    assert error.value.hint.endswith("or compile for what it has code for: --target=vulkan,cuda")


IN_PLACE = """
kernel scale(x: f32[n], s: f32) -> x {{
  grid (ceildiv(n, 64))
  workgroup (64)
  {clauses}
}}
pattern p(x: tensor<n x f32>) {{ mulf(x, 3.0) }}
replace p with scale(x, 3.0)
"""
SCALED = """
func.func @main(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %c = arith.constant 0 : index
  %n = tensor.dim %x, %c : tensor<?xf32>
  %three = arith.constant 3.0 : f32
  %s = tensor.splat %three[%n] : tensor<?xf32>
  %0 = arith.mulf %x, %s : tensor<?xf32>
  %1 = arith.addf %0, %x : tensor<?xf32>
  return %0, %1 : tensor<?xf32>, tensor<?xf32>
}
"""
IN_PLACE_FILES = {
    "scale.c": """
#include <opsplice_dispatch.h>
#include <string.h>
int scale(const void *environment, const opsplice_dispatch *d, const opsplice_workgroup *w) {
  float *x = d->bindings[0], s;
  memcpy(&s, d->constants, 4);
  unsigned n = d->constants[1];
  for (unsigned i = w->x * 64; i < n && i < w->x * 64 + 64; i++) x[i] *= s;
  return 0;
}
""",
    "scale.comp": """#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer X { float x[]; };
layout(push_constant) uniform Constants { float s; uint n; };
void main() { if (gl_GlobalInvocationID.x < n) x[gl_GlobalInvocationID.x] *= s; }
""",
}


def scaled(tmp_path: Path, clauses: str, target: str, device: str) -> None:
    spec = write_spec(tmp_path, IN_PLACE.format(clauses=clauses), IN_PLACE_FILES)
    program = opsplice.compile(SCALED, [spec], targets=[target])
    assert len(program.report.replacements) == 1
    x = np.arange(200, dtype=np.float32)
    for _ in range(2):
        three, four = program.run("main", x, device=device)
        np.testing.assert_array_equal(three, x * 3)
        np.testing.assert_array_equal(four, x * 4)
        np.testing.assert_array_equal(x, np.arange(200))


@pytest.mark.parametrize("device", CPUS)
def test_in_place_on_the_cpu_leaves_arguments_alone(tmp_path, device):
    scaled(tmp_path, 'cpu "scale.c" as dispatch', "cpu", device)


def test_in_place_on_vulkan_leaves_arguments_alone(tmp_path, vulkan):
    scaled(tmp_path, 'spirv "scale.comp"', "vulkan:llvmpipe", "vulkan")


# ---- element types that a device may lack ----------------------------------------------------------------------------

NARROW = """
kernel bump(x: {element}[...m, n]) -> x {{ grid (m) vulkan "bump.comp" }}
pattern p(x: tensor<...m x n x {element}>) {{ {op}(x, x) }}
replace p with bump(x)
"""
BUMP = """#version 450
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 1) in;
layout(binding = 0) buffer X {{ {kind} x[]; }};
layout(push_constant) uniform Constants {{ uint m, n; }};
void main() {{ for (uint i = 0; i < n; i++) x[gl_WorkGroupID.x * n + i] += x[gl_WorkGroupID.x * n + i]; }}
"""
KINDS = {
    "i8": ("int8_t", "addi", np.int8), "i16": ("int16_t", "addi", np.int16), "f16": ("float16_t", "addf", np.float16),
    "i64": ("int64_t", "addi", np.int64), "f64": ("double", "addf", np.float64),
}  # fmt: skip


def bumped(tmp_path: Path, element: str, shape: str, target: str) -> opsplice.Program:
    kind, op, _ = KINDS[element]
    model = f"""
func.func @main(%x: tensor<{shape}x{element}>) -> (tensor<{shape}x{element}>, tensor<{shape}x{element}>) {{
  %0 = arith.{op} %x, %x : tensor<{shape}x{element}>
  return %0, %x : tensor<{shape}x{element}>, tensor<{shape}x{element}>
}}"""
    spec = write_spec(tmp_path, NARROW.format(element=element, op=op), {"bump.comp": BUMP.format(kind=kind)})
    return opsplice.compile(model, [spec], ["--iree-input-demote-f64-to-f32=false"], targets=[target])


@pytest.mark.parametrize(
    ("element", "shape", "target"),
    [
        ("i8", "3x5", "vulkan:llvmpipe"), ("f16", "?x5", "vulkan:llvmpipe"), ("f64", "?x5", "vulkan"),
        ("f64", "3x5", "vulkan:llvmpipe"), ("i64", "3x5", "vulkan"),
    ],
)  # fmt: skip
def test_in_place_with_all_bytes(tmp_path, vulkan, element, shape, target):
    program = bumped(tmp_path, element, shape, target)
    rows, columns = (int(size) if size != "?" else 3 for size in shape.split("x"))
    x = np.arange(rows * columns).reshape(rows, columns).astype(KINDS[element][2])
    twice, same = program.run("main", x, device="vulkan")
    np.testing.assert_array_equal(twice, x + x)
    np.testing.assert_array_equal(same, x)


@pytest.mark.parametrize(("element", "shape"), [("i8", "3x5"), ("i8", "?x4"), ("i16", "2x5"), ("f16", "?x5")])
def test_in_place_where_a_copy_would_be_in_words(tmp_path, element, shape):
    with pytest.raises(OpspliceError, match=r"stores no elements of \d+ bits: IREE's own code") as error:
        bumped(tmp_path, element, shape, "vulkan")
    assert "--target=vulkan:" in error.value.hint


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("target", ["vulkan", "vulkan:llvmpipe", "cpu"])
def test_a_16_bit_scalar_of_a_tensor(tmp_path, vulkan, element, target):
    model = f"""
func.func @main(%x: tensor<3xi32>, %s: tensor<{element}>) -> tensor<3xi32> {{
  %0 = "my.op"(%x, %s) : (tensor<3xi32>, tensor<{element}>) -> tensor<3xi32>
  return %0 : tensor<3xi32>
}}"""
    spec = f"""
kernel bits(x: i32[n], s: {element}) -> i32[n] {{
  grid (1) workgroup (3) vulkan "bits.comp" cpu "bits.c" as dispatch
}}
pattern p(x: tensor<n x i32>, s: {element}) {{ "my.op"(x, s) : tensor<n x i32> }}
replace p at start with bits(x, s)
"""
    files = {
        "bits.comp": """#version 450
layout(local_size_x = 3) in;
layout(binding = 0) readonly buffer X { int x[]; };
layout(binding = 1) writeonly buffer O { int o[]; };
layout(push_constant) uniform Constants { int s, n; };
void main() { o[gl_LocalInvocationID.x] = x[gl_LocalInvocationID.x] + s; }
""",
        "bits.c": """
#include <opsplice_dispatch.h>
int bits(const void *environment, const opsplice_dispatch *d, const opsplice_workgroup *w) {
  const int *x = d->bindings[0];
  int *o = d->bindings[1];
  for (int i = 0; i < 3; i++) o[i] = x[i] + (int)d->constants[0];
  return 0;
}
""",
    }
    program = opsplice.compile(model, [write_spec(tmp_path, spec, files)], targets=[target])
    s = np.array(-2.5, {"f16": np.float16, "bf16": ml_dtypes.bfloat16}[element])
    result = program.run("main", np.int32([1, 2, 3]), s, device="local-sync" if target == "cpu" else "vulkan")
    np.testing.assert_array_equal(result, np.int32([1, 2, 3]) + int(s.view(np.uint16)))
