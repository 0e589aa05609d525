"""Shaders and PTX that a provider has: what runs on Vulkan, and what a program for CUDA holds and what it does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.runtime.loaded_program import load_program
from opsplice.runtime.providers import Provider
from opsplice.targets.build import shaders
from tests import command_line
from tests.rewrites.conftest import write_spec

MODEL = """
func.func @main(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = arith.mulf %a, %b : tensor<?x?xf32>
  %1 = math.absf %0 : tensor<?x?xf32>
  %2 = arith.negf %1 : tensor<?x?xf32>
  %3 = math.exp %2 : tensor<?x?xf32>
  return %3 : tensor<?x?xf32>
}
func.func @twice(%a: tensor<?x?xf32>, %b: tensor<4x70xf32>) -> (tensor<?x?xf32>, tensor<4x70xf32>) {
  %0 = arith.mulf %a, %a : tensor<?x?xf32>
  %1 = math.absf %0 : tensor<?x?xf32>
  %2 = arith.negf %1 : tensor<?x?xf32>
  %3 = arith.mulf %b, %b : tensor<4x70xf32>
  %4 = math.absf %3 : tensor<4x70xf32>
  %5 = arith.negf %4 : tensor<4x70xf32>
  return %2, %5 : tensor<?x?xf32>, tensor<4x70xf32>
}
"""
SPEC = """
kernel neg_abs_mul(a: f32[...m, n], b: f32[...m, n], scale: f32, k: i64) -> f32[...m, n] {{
  grid (ceildiv(n, 64), m)
  workgroup (64)
  {clauses}
}}
pattern p(a: tensor<...m x n x f32>, b: tensor<...m x n x f32>) {{ negf(absf(mulf(a, b))) }}
replace p with neg_abs_mul(a, b, 2.0, -3){otherwise}
"""
SHADER = """#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Constants { float scale; int k; uint k_high; uint m; uint n; };
void main() {
  uint i = gl_GlobalInvocationID.x, y = gl_WorkGroupID.y;
  if (i < n) result[y * n + i] = -abs(a[y * n + i] * b[y * n + i]) * scale + float(k);
}
"""
PTX = """
define ptx_kernel void @neg_abs_mul(ptr %a, ptr %b, ptr %out, float %scale, i32 %k, i32 %k_high, i32 %m, i32 %n) {
  %id = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %at = getelementptr float, ptr %out, i32 %id
  store float 0x40091EB860000000, ptr %at
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
"""
C = """
void neg_abs_mul(const float *a, const float *b, float scale, long long k, float *out, unsigned long m, unsigned long n,
                 unsigned long x, unsigned long y) {
  for (unsigned long i = 64 * x; i < n && i < 64 * x + 64; ++i) {
    float product = a[y * n + i] * b[y * n + i];
    out[y * n + i] = (product < 0 ? product : -product) * scale + (float)k;
  }
}
"""
VULKAN, CUDA, CPU = 'vulkan "k.comp" as provided', 'cuda "k.ll" as provided', 'cpu "k.c" as provided'
FORM = "vulkan-spirv-fb"


def written(folder: Path, clauses: str, otherwise: str = "", shader: str = SHADER) -> Path:
    files = {"k.comp": shader, "k.ll": PTX, "k.c": C}
    return write_spec(folder, SPEC.format(clauses=clauses, otherwise=otherwise), files)


@pytest.fixture
def compiled(tmp_path) -> Callable[..., opsplice.Program]:
    def build(clauses: str, targets: str, otherwise: str = "", shader: str = SHADER) -> opsplice.Program:
        return opsplice.compile(MODEL, [written(tmp_path, clauses, otherwise, shader)], targets=targets.split(","))

    return build


def numbers(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    a, b = (np.random.default_rng(seed).standard_normal(shape).astype(np.float32) for seed in (1, 2))
    return a, b


def expected(a: Any, b: Any) -> np.ndarray:
    return -np.abs(a * b) * np.float32(2) - 3


@pytest.mark.cell("dynamic dispatch", "SPIR-V", "runs")
def test_a_shader(compiled, vulkan):
    program = compiled(VULKAN, "vulkan:llvmpipe")
    assert {r.action for r in program.report.replacements} == {"dynamic dispatch"}
    assert list(program.provided) == [("neg_abs_mul", FORM)]
    for shape in ((5, 300), (1, 1), (3, 64)):
        a, b = numbers(*shape)
        for _ in range(2):
            np.testing.assert_allclose(program.run("main", a, b, device="vulkan"), np.exp(expected(a, b)), rtol=1e-5)
    a, b = numbers(3, 100)[0], numbers(4, 70)[0]
    for got, x in zip(program.run("twice", a, b, device="vulkan"), (a, b), strict=True):
        np.testing.assert_allclose(got, expected(x, x), rtol=1e-6)


def test_the_code_is_not_in_the_program(compiled):
    program = compiled(VULKAN, "vulkan:llvmpipe", shader=SHADER.replace("float k", "float an_odd_name"))
    (used,) = {a.path for r in program.report.replacements for a in r.artifacts}
    code = Path(used).read_bytes()
    assert code in program.provided["neg_abs_mul", FORM]
    assert code[20:200] not in program.vmfb


@pytest.mark.cell("dynamic dispatch", "CUDA", "builds")
def test_ptx(compiled):
    program = compiled(CUDA, "cuda:sm_80")
    assert {r.action for r in program.report.replacements} == {"dynamic dispatch"}
    ((name, form), code), *others = program.provided.items()
    assert (name, others) == ("neg_abs_mul", [])
    assert form.startswith("cuda-nvptx")
    assert b".entry neg_abs_mul(" in code
    assert b".entry neg_abs_mul(" not in program.vmfb
    assert b"neg_abs_mul" in program.vmfb  # what it asks for


WGSL = """
struct Words { scale: f32, k: i32, k_high: u32, m: u32, n: u32 }
var<immediate> words: Words;
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> result: array<f32>;
@compute @workgroup_size(64)
fn neg_abs_mul(@builtin(global_invocation_id) thread: vec3<u32>) {
  let at = thread.y * words.n + thread.x;
  if (thread.x < words.n) { result[at] = -abs(a[at] * b[at]) * words.scale + f32(words.k); }
}
"""


@pytest.mark.cell("dynamic dispatch", "WGSL", "runs")
def test_a_shader_in_wgsl(tmp_path, vulkan):
    if shaders.find("naga") is None:
        pytest.skip(f"naga is not installed ({shaders.HOW_TO_GET['naga']})")
    spec = SPEC.format(clauses='wgsl "k.wgsl" as provided', otherwise="")
    program = opsplice.compile(MODEL, [write_spec(tmp_path, spec, {"k.wgsl": WGSL})], targets=["vulkan:llvmpipe"])
    assert list(program.provided) == [("neg_abs_mul", FORM)]
    a, b = numbers(5, 300)
    np.testing.assert_allclose(program.run("main", a, b, device="vulkan"), np.exp(expected(a, b)), rtol=1e-5)


METAL = """
#include <metal_stdlib>
using namespace metal;
struct Buffers { device const float* a [[id(0)]]; device const float* b [[id(1)]]; device float* out [[id(2)]]; };
struct Words { float scale; int k; uint k_high; uint m; uint n; };
kernel void neg_abs_mul(constant Buffers& buffers [[buffer(0)]], constant Words& words [[buffer(3)]],
                        uint3 thread [[thread_position_in_grid]]) {
  uint at = thread.y * words.n + thread.x;
  if (thread.x < words.n) buffers.out[at] = -abs(buffers.a[at] * buffers.b[at]) * words.scale + words.k;
}
"""


@pytest.mark.cell("dynamic dispatch", "Metal", "builds")
def test_a_shader_for_metal(tmp_path):
    spec = SPEC.format(clauses='metal "k.metal" as provided', otherwise="")
    program = opsplice.compile(MODEL, [write_spec(tmp_path, spec, {"k.metal": METAL})], targets=["metal"])
    (key,) = program.provided
    assert key == ("neg_abs_mul", "metal-msl-fb")
    assert METAL.encode() in program.provided[key]
    assert METAL.encode() not in program.vmfb
    assert b"kernel void neg_abs_mul(" not in program.vmfb
    assert b"registry" in program.vmfb


@pytest.mark.cell("dynamic dispatch", "ROCm", "builds")
def test_a_code_object(tmp_path, code_object):
    spec = """
    kernel scale(x: f32[n]) -> f32[n] { grid (ceildiv(n, 64)) workgroup (64) rocm "scale.hsaco" as provided }
    pattern p(x: tensor<n x f32>) { absf(x) }
    replace p with scale(x)
    """
    model = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n  %0 = math.absf %x : tensor<?xf32>\n"
    model += "  return %0 : tensor<?xf32>\n}\n"
    spec = write_spec(tmp_path, spec, {"scale.hsaco": code_object})
    program = opsplice.compile(model, [spec], targets=["rocm:gfx942"])
    ((name, form), code), *others = program.provided.items()
    assert (name, others) == ("scale", [])
    assert form.startswith("rocm")
    assert code_object in code
    assert code_object not in program.vmfb


def test_one_program_for_two_kinds_of_gpus(compiled, vulkan):
    program = compiled(f"{VULKAN}\n{CUDA}", "vulkan:llvmpipe,cuda:sm_80")
    assert {form for _, form in program.provided} > {FORM}
    assert len(program.provided) == 2
    assert b".entry neg_abs_mul(" not in program.vmfb
    a, b = numbers(5, 300)
    np.testing.assert_allclose(program.run("main", a, b, device="vulkan"), np.exp(expected(a, b)), rtol=1e-5)


def test_the_compilers_code_for_another_device(compiled, vulkan):
    program = compiled(VULKAN, "vulkan:llvmpipe,cpu", " otherwise keep")
    (used,) = {a.path for r in program.report.replacements for a in r.artifacts if a.path}
    assert Path(used).read_bytes()[20:200] not in program.vmfb
    a, b = numbers(5, 300)
    np.testing.assert_allclose(program.run("main", a, b, device="vulkan"), np.exp(expected(a, b)), rtol=1e-5)
    np.testing.assert_allclose(program.run("main", a, b, device="local-task"), np.exp(-np.abs(a * b)), rtol=1e-5)


@pytest.mark.parametrize(("clauses", "otherwise"), [(f"{CPU}\n{VULKAN}", ""), (CPU, " otherwise keep")])
def test_one_program_for_a_cpu_and_a_gpu(compiled, vulkan, clauses, otherwise):
    program = compiled(clauses, "vulkan:llvmpipe,cpu", otherwise)
    assert len(program.provided) == 1 + (not otherwise)
    a, b = numbers(5, 300)
    for device, own in (("vulkan", bool(otherwise)), ("local-task", False)):
        wanted = np.exp(-np.abs(a * b) if own else expected(a, b))
        np.testing.assert_allclose(program.run("main", a, b, device=device), wanted, rtol=1e-5, err_msg=device)


def test_another_shader_in_its_place_without_compiling_the_program_again(tmp_path, vulkan):
    """The other one was compiled for a program of other sizes."""
    program = opsplice.compile(MODEL, [written(tmp_path, VULKAN)], targets=["vulkan:llvmpipe"])
    (tmp_path / "other").mkdir()
    other = opsplice.compile(
        MODEL.replace("?x?x", "3x8x"),
        [
            written(
                tmp_path / "other", VULKAN, shader=SHADER.replace("result[y * n + i] = -", "result[y * n + i] = 1 - ")
            )
        ],
        targets=["vulkan:llvmpipe"],
    )
    loaded = load_program(program.vmfb, "vulkan", provider=Provider([other.provided]))
    a, b = numbers(5, 300)
    np.testing.assert_allclose(loaded.call("main", a, b)[0], np.exp(expected(a, b) + 1), rtol=1e-5)


SCALED = """
kernel scale(x: f32[n], s: f32) -> x { grid (ceildiv(n, 64)) workgroup (64) vulkan "scale.comp" as provided }
pattern p(x: tensor<n x f32>, s: f32) { mulf(x, s) }
replace p with scale(x, s)
"""
SCALE = """#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer X { float x[]; };
layout(push_constant) uniform Constants { float s; uint n; };
void main() { if (gl_GlobalInvocationID.x < n) x[gl_GlobalInvocationID.x] *= s; }
"""
SCALE_ON_A_CPU = """
void scale(float *x, float s, unsigned long n, unsigned long at) {
  for (unsigned long i = 64 * at; i < n && i < 64 * at + 64; ++i) x[i] *= s;
}
"""
SCALARS = """
func.func @main(%x: tensor<?xf32>, %s: f32, %t: tensor<f32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %c = arith.constant 0 : index
  %n = tensor.dim %x, %c : tensor<?xf32>
  %splat = tensor.splat %s[%n] : tensor<?xf32>
  %0 = arith.mulf %x, %splat : tensor<?xf32>
  %u = math.absf %t : tensor<f32>
  %v = tensor.extract %u[] : tensor<f32>
  %other = tensor.splat %v[%n] : tensor<?xf32>
  %1 = arith.mulf %x, %other : tensor<?xf32>
  %2 = arith.addf %0, %x : tensor<?xf32>
  return %0, %1, %2 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
"""


def test_in_place_with_scalars_of_the_host_and_the_device(tmp_path, vulkan):
    clauses = 'vulkan "scale.comp" as provided cpu "scale.c" as provided'
    spec = SCALED.replace('vulkan "scale.comp" as provided', clauses)
    spec = write_spec(tmp_path, spec, {"scale.comp": SCALE, "scale.c": SCALE_ON_A_CPU})
    program = opsplice.compile(SCALARS, [spec], targets=["vulkan:llvmpipe", "cpu"])
    assert len(program.report.replacements) == 2
    assert {name for name, _ in program.provided} == {"scale"}  # wherever the scalar is, it comes in words
    x = np.arange(200, dtype=np.float32)
    for device in ("vulkan", "local-task", "vulkan"):
        results = program.run("main", x, np.float32(3), np.array(-5, np.float32), device=device)
        for got, factor in zip(results, (3, 5, 4), strict=True):
            np.testing.assert_array_equal(got, x * factor)
        np.testing.assert_array_equal(x, np.arange(200))


def test_two_kernels_of_one_file_are_asked_for_apart(tmp_path, vulkan):
    second = SCALED.replace("kernel scale(", "kernel other(").replace("pattern p", "pattern q").replace("mulf", "divf")
    spec = write_spec(
        tmp_path, SCALED + second.replace("replace p with scale", "replace q with other"), {"scale.comp": SCALE}
    )
    model = SCALARS.replace("%1 = arith.mulf", "%1 = arith.divf")
    program = opsplice.compile(model, [spec], targets=["vulkan:llvmpipe"])
    (tmp_path / "other").mkdir()
    spec = write_spec(tmp_path / "other", SCALED, {"scale.comp": SCALE.replace("*= s", "*= 100 * s")})
    other = opsplice.compile(SCALARS, [spec], targets=["vulkan:llvmpipe"])
    assert set(program.provided) > set(other.provided)
    provider = Provider([{**program.provided, **other.provided}])
    x = np.arange(70, dtype=np.float32)
    results = load_program(program.vmfb, "vulkan", provider=provider).call("main", x, np.float32(3), np.float32(-5))
    for got, factor in zip(results, (300, 5, 301), strict=True):
        np.testing.assert_array_equal(got, x * factor)


# ---- mistakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clauses", "target", "message"),
    [
        (VULKAN, "vulkan:llvmpipe", "32-bit words"),
        (CUDA, "cuda:sm_80", r"takes 8 parameters .* but is passed 3 pointers"),
    ],
)
def test_what_does_not_fit_the_signature(tmp_path, clauses, target, message):
    spec = written(tmp_path, clauses, shader=SHADER.replace("uint n;", "uint n; uint more;"))
    if clauses == CUDA:
        spec.write_text(spec.read_text().replace("k: i64", "k: i32"))
    with pytest.raises(OpspliceError, match=message) as error:
        opsplice.compile(MODEL, [spec], targets=[target])
    assert "needed by the kernel at" in error.value.details


def test_two_kernels_of_one_name(tmp_path):
    second = SCALED.replace("kernel scale(", "kernel other(").replace("pattern p", "pattern q").replace("mulf", "divf")
    second = second.replace("replace p with scale", "replace q with other").replace("vulkan", 'symbol "scale" vulkan')
    spec = write_spec(tmp_path, SCALED.replace("grid", 'symbol "scale" grid') + second, {"scale.comp": SCALE})
    model = SCALARS.replace("%1 = arith.mulf", "%1 = arith.divf")
    with pytest.raises(OpspliceError, match="two kernels that differ are provided as scale"):
        opsplice.compile(model, [spec], targets=["vulkan:llvmpipe"])


def test_a_program_without_its_shader(compiled, vulkan, tmp_path):
    program = compiled(VULKAN, "vulkan:llvmpipe")
    (tmp_path / "none").mkdir()
    with pytest.raises(OpspliceError, match=f"no provider has the kernel 'neg_abs_mul' for {FORM}"):
        load_program(program.vmfb, "vulkan", provider=Provider([tmp_path / "none"]))


@pytest.mark.parametrize("content", [b"", b"VKE1", bytes(900)])
def test_a_damaged_file_is_named(compiled, vulkan, tmp_path, content):
    program = compiled(VULKAN, "vulkan:llvmpipe")
    (name, _), *_ = program.provided
    path = tmp_path / f"{name}.{FORM}.bin"
    path.write_bytes(content)
    with pytest.raises(OpspliceError, match=r"is damaged, or is not code for|is empty") as error:
        load_program(program.vmfb, "vulkan", provider=Provider([tmp_path]))
    assert str(path) in error.value.message
    assert "bug" not in str(error.value)


# ---- the command line ----------------------------------------------------------------------------------------------


def test_compile_and_run(tmp_path, vulkan):
    model, output = tmp_path / "model.mlir", tmp_path / "model.vmfb"
    model.write_text(MODEL)
    compiled = command_line.opsplice(
        "compile", model, f"--spec={written(tmp_path, VULKAN)}", "--target", "vulkan:llvmpipe", "-o", output
    )
    assert compiled.returncode == 0, compiled.stderr
    assert [path.name for path in (tmp_path / "model.kernels").iterdir()] == [f"neg_abs_mul.{FORM}.bin"]
    arguments = ["--device=vulkan", "--function=main", "--input=1x2xf32=1,0", "--input=1x2xf32=1,2"]
    registry = tmp_path / "registry.vmfb"
    packed = command_line.opsplice("kernel", "provider", tmp_path / "model.kernels", "-o", registry)
    assert packed.returncode == 0, packed.stderr
    for provider in (tmp_path / "model.kernels", registry):
        ran = command_line.opsplice("run", output, *arguments, f"--provider={provider}")
        assert "1x2xf32=[0.00673795 0.0497871]" in ran.stdout, ran.stdout + ran.stderr
    assert "--provider" in command_line.opsplice("run", output, *arguments).stderr
