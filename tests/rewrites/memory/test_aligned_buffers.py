"""Kernels get aligned buffers wherever the program has its slices and puts the results, and copies only for that."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from iree.compiler import ir

import opsplice
from opsplice.common.store import Store
from opsplice.compiling.plugin_kernels import build
from opsplice.compiling.splice import Splicer
from opsplice.frontends import ModuleSource
from opsplice.matchers.ir.op_names import ops_in
from opsplice.pipeline.compiler import Compilation, Step, run
from opsplice.pipeline.devices import target_step
from opsplice.pipeline.flags import offset_alignment
from opsplice.rewrites.memory import aligned_buffers
from opsplice.spec_lang.loading.loader import load
from opsplice.targets.build import shaders
from tests.rewrites.conftest import write_spec

# Each puts the distances of its buffers from the last multiple of 64 at the front of what is its result, after 100 + x.
C = """
#include <stddef.h>
#include <stdint.h>
#define MARK(x, out) { out[0] = (float)((uintptr_t)(x) % 64); out[1] = (float)((uintptr_t)(out) % 64); }
void marked(const float *x, float *out, size_t m) { for (size_t i = 2; i < m; ++i) out[i] = 100 + x[i]; MARK(x, out) }
void late(const float *x, float *out, size_t m) { marked(x, out, m); }
void plugged(const float *x, float *out, size_t m) { marked(x, out, m); }
void both(const float *x, float *one, float *other, size_t m) { marked(x, one, m); marked(x, other, m); }
void over(float *x, size_t m) { for (size_t i = 2; i < m; ++i) x[i] += 100; MARK(x, x) }
"""
DISPATCH = """
#include <opsplice_dispatch.h>
#include <stdint.h>
int whole(const void *environment, const opsplice_dispatch *d, const opsplice_workgroup *w) {
  const float *x = d->bindings[0];
  float *out = d->bindings[1];
  for (unsigned i = 2; i < d->constants[0]; ++i) out[i] = 100 + x[i];
  out[0] = (float)((uintptr_t)x % 64);
  out[1] = (float)((uintptr_t)out % 64);
  return 0;
}
"""
PYTHON = """
def host(x, out):
    out[...] = 100 + x
    out.ravel()[:2] = x.ctypes.data % 64, out.ctypes.data % 64
"""
# The op that each of the kernels takes the place of, and its clause.
KERNELS = {
    "marked": ("negf", 'cpu "k.c"'),
    "whole": ("absf", 'cpu "dispatch.c" as dispatch'),
    "late": ("exp", 'cpu "k.c" as provided'),
    "plugged": ("sqrt", 'cpu "k.c" as plugin'),
    "host": ("ceil", 'cpu "host.py" as command'),
}
SPEC = "".join(
    f"kernel {name}(x: f32[...m]) -> f32[...m] {{ {clause} }}\n"
    f"pattern p_{name}(x: tensor<...m x f32>) {{ {op}(x) }}\nreplace p_{name} with {name}(x)\n"
    for name, (op, clause) in KERNELS.items()
)
IN_PLACE = """
kernel over(x: f32[m]) -> x { cpu "k.c" }
pattern p_over(x: tensor<m x f32>) { floor(x) }
replace p_over with over(x)
kernel both(x: f32[m]) -> (one: f32[m], other: f32[m]) { cpu "k.c" }
pattern p_both(x: tensor<m x f32>) { sin(x), cos(x) }
replace p_both with both(x)
"""
FILES = {"k.c": C, "dispatch.c": DISPATCH, "host.py": PYTHON}

# %x of 12, at 3 and by 6; {op} is of the dialect math or arith.
CASES = """
func.func @joined_NAME(%x: tensor<12xf32>, %at: index) -> tensor<24xf32> {
  %a = tensor.extract_slice %x[0] [5] [1] : tensor<12xf32> to tensor<5xf32>
  %b = tensor.extract_slice %x[5] [7] [1] : tensor<12xf32> to tensor<7xf32>
  %0 = OP %a : tensor<5xf32>
  %1 = OP %b : tensor<7xf32>
  %2 = OP %x : tensor<12xf32>
  %r = tensor.concat dim(0) %0, %1, %2 : (tensor<5xf32>, tensor<7xf32>, tensor<12xf32>) -> tensor<24xf32>
  return %r : tensor<24xf32>
}
func.func @sliced_NAME(%x: tensor<12xf32>, %at: index) -> tensor<6xf32> {
  %0 = OP %x : tensor<12xf32>
  %1 = tensor.extract_slice %0[%at] [6] [1] : tensor<12xf32> to tensor<6xf32>
  %2 = OP %1 : tensor<6xf32>
  return %2 : tensor<6xf32>
}
func.func @put_NAME(%x: tensor<12xf32>, %at: index) -> tensor<12xf32> {
  %0 = tensor.extract_slice %x[%at] [6] [1] : tensor<12xf32> to tensor<6xf32>
  %1 = OP %0 : tensor<6xf32>
  %2 = tensor.insert_slice %1 into %x[%at] [6] [1] : tensor<6xf32> into tensor<12xf32>
  return %2 : tensor<12xf32>
}
func.func @rows_NAME(%x: tensor<12xf32>, %at: index) -> tensor<8x12xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : tensor<8x12xf32>
  %r = scf.for %i = %c0 to %at step %c1 iter_args(%cache = %zero) -> tensor<8x12xf32> {
    %0 = tensor.expand_shape %x [[0, 1]] output_shape [1, 12] : tensor<12xf32> into tensor<1x12xf32>
    %1 = OP %0 : tensor<1x12xf32>
    %2 = tensor.insert_slice %1 into %cache[%i, 0] [1, 12] [1, 1] : tensor<1x12xf32> into tensor<8x12xf32>
    scf.yield %2 : tensor<8x12xf32>
  }
  return %r : tensor<8x12xf32>
}
"""
DIALECTS = {"negf": "arith"}
MLIR = "".join(
    CASES.replace("OP", f"{DIALECTS.get(op, 'math')}.{op}").replace("NAME", name) for name, (op, _) in KERNELS.items()
)
OTHERS = """
func.func @over(%x: tensor<12xf32>, %at: index) -> tensor<15xf32> {
  %0 = math.floor %x : tensor<12xf32>
  %1 = tensor.extract_slice %0[%at] [6] [1] : tensor<12xf32> to tensor<6xf32>
  %2 = math.floor %1 : tensor<6xf32>
  %a = tensor.extract_slice %0[0] [9] [1] : tensor<12xf32> to tensor<9xf32>
  %r = tensor.concat dim(0) %a, %2 : (tensor<9xf32>, tensor<6xf32>) -> tensor<15xf32>
  return %r : tensor<15xf32>
}
func.func @both(%x: tensor<12xf32>, %y: tensor<5xf32>) -> (tensor<5xf32>, tensor<12xf32>) {
  %0 = math.sin %y : tensor<5xf32>
  %1 = math.cos %y : tensor<5xf32>
  %2 = tensor.insert_slice %1 into %x[3] [5] [1] : tensor<5xf32> into tensor<12xf32>
  return %0, %2 : tensor<5xf32>, tensor<12xf32>
}
func.func @dynamic(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %0 = arith.negf %x : tensor<?xf32>
  %1 = arith.negf %y : tensor<?xf32>
  %r = tensor.concat dim(0) %0, %1 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @argument(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = arith.negf %x : tensor<12xf32>
  return %0 : tensor<12xf32>
}
"""
X = np.arange(1, 13, dtype=np.float32)
AT = 3


def after(x: np.ndarray) -> np.ndarray:
    """What kernels make of aligned buffers."""
    return np.concatenate([np.zeros(2, np.float32), 100 + x.ravel()[2:]])


# The same for GPUs, where nobody sees an address: what counts there is where in a buffer a binding starts.
GPU_SPEC = """
kernel scale(x: f32[...m]) -> f32[...m] {
  grid (ceildiv(m, 64))
  workgroup (64)
  vulkan "k.comp"
  cuda "k.ll"
  rocm "k.hsaco"
  metal "k.metal"
}
pattern p_scale(x: tensor<...m x f32>) { negf(x) }
replace p_scale with scale(x)

kernel moved(x: f32[...m]) -> f32[...m] { vulkan "host.vmfb" as recorded }
pattern p_moved(x: tensor<...m x f32>) { exp(x) }
replace p_moved with moved(x)
"""
GPU_FILES = {
    "k.comp": """#version 450
layout(local_size_x = 64) in;
layout(push_constant) uniform Constants { uint n; };
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Out { float result[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) result[i] = 100 + x[i]; }
""",
    "k.ll": "define ptx_kernel void @scale(ptr %x, ptr %out, i32 %n) {\n  ret void\n}\n",
    "k.metal": """
struct Buffers { device const float* x [[id(0)]]; device float* out [[id(1)]]; };
struct Words { uint n; };
kernel void scale(constant Buffers& buffers [[buffer(0)]], constant Words& words [[buffer(3)]],
                  uint3 at [[thread_position_in_grid]]) {
  if (at.x < words.n) buffers.out[at.x] = 100 + buffers.x[at.x];
}
""",
}
HOST = """
module @host {
  util.func public @moved(%commands: !hal.command_buffer, %xs: index, %x: !hal.buffer, %xo: index, %xl: index,
      %m: index, %rs: index, %r: !hal.buffer, %ro: index, %rl: index) {
    hal.command_buffer.copy_buffer<%commands : !hal.command_buffer>
      source(%x : !hal.buffer)[%xo] target(%r : !hal.buffer)[%ro] length(%xl) flags("None")
    util.return
  }
}
"""
GPU_MLIR = CASES.replace("OP", "arith.negf").replace("NAME", "scale") + CASES.replace("OP", "math.exp").replace(
    "NAME", "moved"
)


@pytest.fixture(scope="module")
def call(tmp_path_factory) -> Callable[..., Any]:
    """Runs a function of the program for CPUs."""
    spec = write_spec(tmp_path_factory.mktemp("aligned"), SPEC + IN_PLACE, FILES)
    program = opsplice.compile(MLIR + OTHERS, [spec])
    plugin = spec.with_name("k.so")
    plugin.write_bytes(build(spec, ".so").data)
    return lambda name, *inputs: program.run(name, *inputs, plugins=[plugin])


@pytest.mark.parametrize("name", KERNELS)
class TestEachApproach:
    def test_results_that_are_joined(self, call, name):
        expected = np.concatenate([after(X[:5]), after(X[5:]), after(X)])
        np.testing.assert_array_equal(call(f"joined_{name}", X, AT), expected)

    def test_a_slice_of_a_result(self, call, name):
        np.testing.assert_array_equal(call(f"sliced_{name}", X, AT), after(after(X)[AT : AT + 6]))

    def test_a_slice_that_is_put_back(self, call, name):
        expected = X.copy()
        expected[AT : AT + 6] = after(X[AT : AT + 6])
        np.testing.assert_array_equal(call(f"put_{name}", X, AT), expected)

    def test_rows_that_a_loop_puts_into_a_cache(self, call, name):
        expected = np.zeros((8, 12), np.float32)
        expected[:5] = after(X)
        np.testing.assert_array_equal(call(f"rows_{name}", X, 5), expected)


def test_what_is_overwritten_is_aligned(call):
    expected = after(X)
    np.testing.assert_array_equal(call("over", X, AT), np.concatenate([expected[:9], after(expected[AT : AT + 6])]))


def test_the_second_of_two_results(call):
    one, whole = call("both", X, X[:5])
    np.testing.assert_array_equal(one, after(X[:5]))
    np.testing.assert_array_equal(whole, np.concatenate([X[:3], after(X[:5]), X[8:]]))


def test_sizes_that_are_known_at_run_time(call):
    np.testing.assert_array_equal(call("dynamic", X[:5], X[:7]), np.concatenate([after(X[:5]), after(X[:7])]))


def test_an_argument_at_any_address(call):
    for start in range(1, 5):
        odd = np.zeros(64, np.float32)[start : start + 12]
        odd[:] = X
        np.testing.assert_array_equal(call("argument", odd), after(X))


def test_vectors_that_must_be_aligned(tmp_path):
    """In a process of its own, which would end at once."""
    code = """
#include <stddef.h>
typedef float sixteen __attribute__((vector_size(64)));
void marked(const float *x, float *out, size_t m) {
  for (size_t i = 0; i + 16 <= m; i += 16) *(sixteen *)(out + i) = -*(const sixteen *)(x + i);
}
"""
    mlir = """
func.func @main(%x: tensor<33xf32>, %at: index) -> tensor<49xf32> {
  %0 = tensor.extract_slice %x[%at] [32] [1] : tensor<33xf32> to tensor<32xf32>
  %1 = arith.negf %0 : tensor<32xf32>
  %2 = tensor.insert_slice %1 into %x[%at] [32] [1] : tensor<32xf32> into tensor<33xf32>
  %3 = tensor.extract_slice %1[%at] [16] [1] : tensor<32xf32> to tensor<16xf32>
  %4 = arith.negf %3 : tensor<16xf32>
  %5 = tensor.concat dim(0) %2, %4 : (tensor<33xf32>, tensor<16xf32>) -> tensor<49xf32>
  return %5 : tensor<49xf32>
}
"""
    spec = write_spec(tmp_path, SPEC.partition("kernel whole")[0], {"k.c": code, "model.mlir": mlir})
    command = [sys.executable, "-m", "opsplice", "run", tmp_path / "model.mlir", f"--spec={spec}", "--input=33xf32=2"]
    done = subprocess.run([*command, "--input=1"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"result[0]: 49xf32=2{' -2' * 32}{' 2' * 16}"


# ---- where bindings start --------------------------------------------------------------------------------------------


def compiled_to(phase: str, mlir: str, spec: Path, archs: list[str], steps: Sequence[Step]) -> None:
    """Compiles a program with a spec up to a phase, with steps on the way there."""
    apply = Step("preprocessing", "spec", lambda module: Splicer(Store()).apply(module, load(spec))[1])
    with Compilation() as compilation:
        compilation.load(ModuleSource(content=mlir))
        run(compilation, [*([target_step(archs, ())] if archs else []), apply, *steps], to=phase)


def align(module: ir.Module, alignment: int = 64) -> None:
    aligned_buffers.align(module, alignment)


def starts(op: ir.Operation, group: int) -> list[int | None]:
    """Where the bindings of an op start, None for what is computed at run time. group: which of its operands say so."""
    sizes = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    offsets = list(op.operands)[sum(sizes[:group]) : sum(sizes[: group + 1])]
    makers = [value.owner.operation for value in offsets if isinstance(value, ir.OpResult)]
    return [ir.IntegerAttr(m.attributes["value"]).value if m.name == "arith.constant" else None for m in makers]


@pytest.fixture(scope="module")
def gpu_spec(tmp_path_factory) -> Path:
    host = opsplice.compile(HOST, targets=["vulkan:llvmpipe"])
    return write_spec(tmp_path_factory.mktemp("gpus"), GPU_SPEC, {**GPU_FILES, "host.vmfb": host.vmfb})


@pytest.fixture
def glslang() -> None:
    if shaders.find("glslang") is None:
        pytest.skip(f"glslang is not installed ({shaders.HOW_TO_GET['glslang']})")


def test_bindings_of_shaders_and_of_recorded_calls(gpu_spec, glslang):
    found: dict[str, list[int | None]] = {"stream.cmd.dispatch": [], "stream.cmd.call": []}

    def look(module: ir.Module) -> None:
        for (name, offsets), group in zip(found.items(), (4, 2), strict=True):
            for op in ops_in(module.operation, name):
                if "@opsplice_scale" in str(op) or name == "stream.cmd.call":
                    offsets += starts(op, group)

    steps = [Step("flow", "align", align), Step("stream", "look", look)]
    compiled_to("stream", GPU_MLIR, gpu_spec, ["vulkan:llvmpipe"], steps)
    # In each of the four functions three calls, two, one and one, with two bindings each.
    assert [len(offsets) for offsets in found.values()] == [14, 14]
    assert all(offset is not None and offset % 64 == 0 for offsets in found.values() for offset in offsets), found


def test_shaders_get_the_right_slices(gpu_spec, glslang, vulkan):
    mlir = GPU_MLIR[: GPU_MLIR.index("func.func @joined_moved")]
    program = opsplice.compile(mlir, [gpu_spec], targets=["vulkan:llvmpipe"])
    put = X.copy()
    put[AT : AT + 6] += 100
    rows = np.zeros((8, 12), np.float32)
    rows[:5] = 100 + X
    expected = {"joined": np.concatenate([X, X]) + 100, "sliced": X[AT : AT + 6] + 200, "put": put}
    for name, numbers in expected.items():
        np.testing.assert_array_equal(program.run(f"{name}_scale", X, AT, device="vulkan"), numbers, err_msg=name)
    np.testing.assert_array_equal(program.run("rows_scale", X, 5, device="vulkan"), rows)


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942", "metal"])
def test_programs_for_other_gpus_compile(gpu_spec, code_object, target):
    gpu_spec.with_name("k.hsaco").write_bytes(code_object)
    mlir = GPU_MLIR[: GPU_MLIR.index("func.func @joined_moved")]
    assert len(opsplice.compile(mlir, [gpu_spec], targets=[target]).report.replacements) == 7


ALIGNED = """
func.func @rows(%x: tensor<1x16xf32>, %cache: tensor<?x16xf32>, %at: index) -> tensor<?x16xf32> {
  %0 = arith.negf %x : tensor<1x16xf32>
  %1 = tensor.insert_slice %0 into %cache[%at, 0] [1, 16] [1, 1] : tensor<1x16xf32> into tensor<?x16xf32>
  return %1 : tensor<?x16xf32>
}
func.func @joined(%x: tensor<16xf32>, %y: tensor<5xf32>) -> tensor<21xf32> {
  %0 = arith.negf %x : tensor<16xf32>
  %1 = arith.negf %y : tensor<5xf32>
  %r = tensor.concat dim(0) %0, %1 : (tensor<16xf32>, tensor<5xf32>) -> tensor<21xf32>
  return %r : tensor<21xf32>
}
func.func @sliced(%x: tensor<9x16xf32>, %at: index) -> tensor<5x16xf32> {
  %0 = arith.negf %x : tensor<9x16xf32>
  %c2 = arith.constant 2 : index
  %row = arith.addi %at, %c2 : index
  %1 = tensor.extract_slice %0[%row, 0] [5, 16] [1, 1] : tensor<9x16xf32> to tensor<5x16xf32>
  %2 = arith.negf %1 : tensor<5x16xf32>
  return %2 : tensor<5x16xf32>
}
"""


def test_what_is_aligned_anyway_stays_as_it_is(tmp_path):
    spec = write_spec(tmp_path, SPEC.partition("kernel whole")[0], FILES)
    texts = []

    def look(module: ir.Module) -> None:
        texts.append(str(module))

    def more(module: ir.Module) -> None:
        align(module, 128)

    compiled_to(
        "flow",
        ALIGNED,
        spec,
        [],
        [Step("flow", n, f) for n, f in zip("abcde", (look, align, look, more, look), strict=True)],
    )
    assert texts[0] == texts[1]
    # Rows of 64 bytes are not aligned to 128, nor is what follows one.
    assert texts[2].count("flow.tensor.empty") == texts[1].count("flow.tensor.empty") + 2
    assert len(re.findall(r"flow.dispatch .* -> \(tensor<5x16xf32>, %", texts[2])) == 1


def test_a_module_that_is_taken_back(tmp_path):
    """There slices are not yet what they become, so that all of them are made apart."""
    spec = write_spec(tmp_path, SPEC.partition("kernel whole")[0], FILES)
    mlir = CASES.replace("OP", "arith.negf").replace("NAME", "marked")
    module, report = opsplice.transform(mlir, [spec])
    assert len(report.replacements) == 7
    program = opsplice.compile(str(module))
    joined = np.concatenate([after(X[:5]), after(X[5:]), after(X)])
    np.testing.assert_array_equal(program.run("joined_marked", X, AT), joined)
    np.testing.assert_array_equal(program.run("sliced_marked", X, AT), after(after(X)[AT : AT + 6]))
    np.testing.assert_array_equal(program.run("put_marked", X, AT)[AT : AT + 6], after(X[AT : AT + 6]))
    np.testing.assert_array_equal(program.run("rows_marked", X, 3)[2], after(X))


def test_a_flag_for_devices_that_want_more():
    flag = "--iree-stream-resource-min-offset-alignment"
    assert [offset_alignment(f) for f in ((), (f"{flag}=256",), (f"{flag}=16",), (f"{flag}=256", f"{flag}=64"))] == [
        64, 256, 64, 64,
    ]  # fmt: skip
