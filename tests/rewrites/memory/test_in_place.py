"""Kernels that overwrite an argument: nobody else may see it, neither the caller nor the rest of the program."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice
from opsplice.runtime.providers import Provider
from opsplice.targets.build import shaders as shaders_of
from tests.plain import Plain
from tests.rewrites.conftest import write_spec

SPEC = """
kernel negate(a: f32[...m]) -> a { grid (ceildiv(m, 4)) cpu "k.c" }
pattern negated(a: tensor<...m x f32>) { negf(a) }
replace negated with negate(a)

kernel magnitude(a: f32[...m]) -> a { grid (ceildiv(m, 4)) cpu "k.c" }
pattern absolute(a: tensor<...m x f32>) { absf(a) }
replace absolute with magnitude(a)

kernel divide(a: f32[...m], b: f32[...m]) -> b { grid (ceildiv(m, 4)) cpu "k.c" }
pattern quotient(a: tensor<...m x f32>, b: tensor<...m x f32>) { divf(a, b) }
replace quotient with divide(a, b)
"""
C = """
#include <stddef.h>
#define EACH for (size_t i = workgroup_x * 4; i < n && i < workgroup_x * 4 + 4; ++i)
void negate(float *a, size_t n, size_t workgroup_x) { EACH a[i] = -a[i]; }
void magnitude(float *a, size_t n, size_t workgroup_x) { EACH a[i] = a[i] < 0 ? -a[i] : a[i]; }
void divide(const float *a, float *b, size_t n, size_t workgroup_x) {
  EACH {
    float quotient = a[i] / b[i];
    b[i] = 100;  // a is the same array if the caller has forgotten to copy it
    b[i] = quotient + 0 * a[i];
  }
}
"""
# The same as whole dispatches.
DISPATCHES = """
#include <opsplice_dispatch.h>
#include <stddef.h>
#define DISPATCH(name) int name(const void *environment, const opsplice_dispatch *d, const opsplice_workgroup *w)
#define EACH for (size_t n = d->constants[0], i = w->x * 4; i < n && i < w->x * 4 + 4; ++i)
DISPATCH(negate) { float *a = d->bindings[0]; EACH a[i] = -a[i]; return 0; }
DISPATCH(magnitude) { float *a = d->bindings[0]; EACH a[i] = a[i] < 0 ? -a[i] : a[i]; return 0; }
DISPATCH(divide) {
  const float *a = d->bindings[0];
  float *b = d->bindings[1];
  EACH {
    float quotient = a[i] / b[i];
    b[i] = 100;
    b[i] = quotient + 0 * a[i];
  }
  return 0;
}
"""
SHADER = """#version 450
layout(local_size_x = 4) in;
layout(push_constant) uniform Constants { uint n; };
layout(binding = %d) %s;
void main() { uint i = gl_GlobalInvocationID.x; if (i >= n) return; %s }
"""
SHADERS = {
    "negate.comp": SHADER % (0, "buffer A { float a[]; }", "a[i] = -a[i];"),
    "magnitude.comp": SHADER % (0, "buffer A { float a[]; }", "a[i] = abs(a[i]);"),
    "divide.comp": SHADER
    % (
        1,
        "buffer B { float b[]; };\nlayout(binding = 0) readonly buffer A { float a[]; }",
        "float q = a[i] / b[i]; b[i] = 100; memoryBarrierBuffer(); b[i] = q + 0 * a[i];",
    ),
}
LOOP = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index"""
MLIR = f"""
util.global private mutable @state = dense<1.0> : tensor<9xf32>

func.func @argument(%a: tensor<9xf32>) -> tensor<9xf32> {{
  %0 = arith.negf %a : tensor<9xf32>
  return %0 : tensor<9xf32>
}}
func.func @dynamic(%a: tensor<?x3xf32>) -> tensor<?x3xf32> {{
  %0 = arith.negf %a : tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}}
func.func @rank_0(%a: tensor<f32>) -> tensor<f32> {{
  %0 = arith.negf %a : tensor<f32>
  return %0 : tensor<f32>
}}
func.func @used_later(%a: tensor<9xf32>) -> (tensor<9xf32>, tensor<9xf32>, tensor<9xf32>) {{
  %0 = arith.negf %a : tensor<9xf32>
  %1 = arith.maximumf %0, %a : tensor<9xf32>
  %2 = arith.mulf %a, %a : tensor<9xf32>
  return %1, %2, %a : tensor<9xf32>, tensor<9xf32>, tensor<9xf32>
}}
func.func @chain(%a: tensor<9xf32>) -> (tensor<9xf32>, tensor<9xf32>, tensor<9xf32>) {{
  %0 = arith.negf %a : tensor<9xf32>
  %1 = math.absf %0 : tensor<9xf32>
  %2 = arith.negf %1 : tensor<9xf32>
  return %0, %1, %2 : tensor<9xf32>, tensor<9xf32>, tensor<9xf32>
}}
func.func @two_of_one(%a: tensor<9xf32>) -> (tensor<9xf32>, tensor<9xf32>) {{
  %0 = arith.negf %a : tensor<9xf32>
  %1 = math.absf %a : tensor<9xf32>
  return %0, %1 : tensor<9xf32>, tensor<9xf32>
}}
func.func @passed_twice(%a: tensor<9xf32>) -> tensor<9xf32> {{
  %0 = arith.divf %a, %a : tensor<9xf32>
  return %0 : tensor<9xf32>
}}
func.func @constant(%a: tensor<9xf32>) -> (tensor<9xf32>, tensor<9xf32>) {{
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]> : tensor<9xf32>
  %0 = arith.divf %a, %c : tensor<9xf32>
  return %0, %c : tensor<9xf32>, tensor<9xf32>
}}
func.func @constant_only() -> tensor<9xf32> {{
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]> : tensor<9xf32>
  %empty = tensor.empty() : tensor<9xf32>
  %0 = linalg.generic {{
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
      ins(%c : tensor<9xf32>) outs(%empty : tensor<9xf32>) {{
  ^bb0(%x: f32, %out: f32):
    %1 = arith.negf %x : f32
    linalg.yield %1 : f32
  }} -> tensor<9xf32>
  return %0 : tensor<9xf32>
}}
func.func @slice(%a: tensor<4x9xf32>) -> (tensor<9xf32>, tensor<4x9xf32>) {{
  %0 = tensor.extract_slice %a[2, 0] [1, 9] [1, 1] : tensor<4x9xf32> to tensor<9xf32>
  %1 = arith.negf %0 : tensor<9xf32>
  return %1, %a : tensor<9xf32>, tensor<4x9xf32>
}}
func.func @cast(%a: tensor<9xf32>) -> tensor<?xf32> {{
  %0 = tensor.cast %a : tensor<9xf32> to tensor<?xf32>
  %1 = arith.negf %0 : tensor<?xf32>
  return %1 : tensor<?xf32>
}}
func.func @carried(%a: tensor<9xf32>) -> (tensor<9xf32>, tensor<9xf32>) {{{LOOP}
  %0 = scf.for %i = %c0 to %c5 step %c1 iter_args(%x = %a) -> tensor<9xf32> {{
    %1 = arith.negf %x : tensor<9xf32>
    %2 = arith.mulf %1, %a : tensor<9xf32>
    scf.yield %2 : tensor<9xf32>
  }}
  return %0, %a : tensor<9xf32>, tensor<9xf32>
}}
func.func @loop_of_argument(%a: tensor<9xf32>) -> tensor<9xf32> {{{LOOP}
  %zero = arith.constant dense<0.0> : tensor<9xf32>
  %0 = scf.for %i = %c0 to %c5 step %c1 iter_args(%x = %zero) -> tensor<9xf32> {{
    %1 = arith.negf %a : tensor<9xf32>
    %2 = arith.subf %x, %1 : tensor<9xf32>
    scf.yield %2 : tensor<9xf32>
  }}
  return %0 : tensor<9xf32>
}}
func.func @loop_of_computed(%a: tensor<9xf32>) -> tensor<9xf32> {{{LOOP}
  %zero = arith.constant dense<0.0> : tensor<9xf32>
  %square = arith.mulf %a, %a : tensor<9xf32>
  %before = arith.negf %square : tensor<9xf32>
  %0 = scf.for %i = %c0 to %c5 step %c1 iter_args(%x = %zero) -> tensor<9xf32> {{
    %1 = math.absf %square : tensor<9xf32>
    %2 = arith.negf %square : tensor<9xf32>
    %3 = arith.subf %x, %1 : tensor<9xf32>
    %4 = arith.mulf %3, %2 : tensor<9xf32>
    scf.yield %4 : tensor<9xf32>
  }}
  %5 = arith.maximumf %0, %before : tensor<9xf32>
  return %5 : tensor<9xf32>
}}
func.func @while(%a: tensor<9xf32>) -> tensor<9xf32> {{{LOOP}
  %zero = arith.constant dense<0.0> : tensor<9xf32>
  %n, %0 = scf.while (%i = %c0, %x = %zero) : (index, tensor<9xf32>) -> (index, tensor<9xf32>) {{
    %go = arith.cmpi slt, %i, %c5 : index
    scf.condition(%go) %i, %x : index, tensor<9xf32>
  }} do {{
  ^bb0(%i: index, %x: tensor<9xf32>):
    %1 = arith.negf %a : tensor<9xf32>
    %2 = arith.subf %x, %1 : tensor<9xf32>
    %next = arith.addi %i, %c1 : index
    scf.yield %next, %2 : index, tensor<9xf32>
  }}
  return %0 : tensor<9xf32>
}}
func.func @branch(%a: tensor<9xf32>, %c: i1) -> (tensor<9xf32>, tensor<9xf32>) {{
  %0 = scf.if %c -> tensor<9xf32> {{
    %1 = arith.negf %a : tensor<9xf32>
    scf.yield %1 : tensor<9xf32>
  }} else {{
    scf.yield %a : tensor<9xf32>
  }}
  return %0, %a : tensor<9xf32>, tensor<9xf32>
}}
func.func @global() -> (tensor<9xf32>, tensor<9xf32>) {{
  %0 = util.global.load @state : tensor<9xf32>
  %1 = arith.negf %0 : tensor<9xf32>
  %2 = util.global.load @state : tensor<9xf32>
  return %1, %2 : tensor<9xf32>, tensor<9xf32>
}}
func.func private @callee(%a: tensor<9xf32>) -> tensor<9xf32> attributes {{noinline}} {{
  %0 = arith.negf %a : tensor<9xf32>
  return %0 : tensor<9xf32>
}}
func.func @caller(%a: tensor<9xf32>) -> (tensor<9xf32>, tensor<9xf32>) {{
  %0 = call @callee(%a) : (tensor<9xf32>) -> tensor<9xf32>
  %1 = arith.subf %0, %a : tensor<9xf32>
  return %0, %1 : tensor<9xf32>, tensor<9xf32>
}}
"""
VECTOR = np.arange(1, 10, dtype=np.float32)
INPUTS = {
    "dynamic": [np.arange(12, dtype=np.float32).reshape(4, 3)],
    "rank_0": [np.array(3, np.float32)],
    "constant_only": [],
    "slice": [np.arange(36, dtype=np.float32).reshape(4, 9)],
    "branch": [VECTOR, True],
    "global": [],
}
FUNCTIONS = (
    "argument", "dynamic", "rank_0", "used_later", "chain", "two_of_one", "passed_twice", "constant", "constant_only",
    "slice", "cast", "carried", "loop_of_argument", "loop_of_computed", "while", "branch", "global", "caller",
)  # fmt: skip


@pytest.fixture(scope="module", params=["object", "provided", "dispatch"])
def made(pairs, request):
    spec = SPEC.replace('"k.c"', f'"k.c" as {request.param}')
    return pairs(MLIR, spec, {"k.c": DISPATCHES if request.param == "dispatch" else C})


def test_every_one_is_replaced(made):
    assert not made.spliced.report.kept
    assert made.replaced == 22


@pytest.mark.parametrize("function", FUNCTIONS)
def test_numbers_are_those_of_the_plain_program(made, function):
    made.run(function, *INPUTS.get(function, [VECTOR.copy()]))


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f not in INPUTS])
def test_an_array_on_the_device_stays_as_it_was(made, function):
    """numpy arrays are copied to the device on their way in; only a device's own array shows what happens to it."""
    runtime = pytest.importorskip("iree.runtime")
    config = runtime.Config("local-sync")
    program = runtime.VmModule.copy_buffer(config.vm_instance, made.spliced.vmfb)
    provider = Provider([made.spliced.provided])
    *_, module = runtime.load_vm_modules(*provider.modules(lambda *_: None), program, config=config)
    array = runtime.asdevicearray(config.device, VECTOR.copy())
    module[function](array)
    np.testing.assert_array_equal(array.to_host(), VECTOR)


@pytest.fixture(scope="module")
def shaders(tmp_path_factory):
    if not any(map(shaders_of.find, shaders_of.COMPILERS["GLSL"])):
        pytest.skip("no compiler of GLSL")
    spec = SPEC
    for name in SHADERS:
        spec = spec.replace('cpu "k.c"', f'vulkan "{name}"', 1)
    return opsplice.compile(MLIR, [write_spec(tmp_path_factory.mktemp("shaders"), spec, SHADERS)], targets=["vulkan"])


@pytest.fixture(scope="module")
def plain():
    return Plain(MLIR)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_shaders_overwrite_only_copies(shaders, plain, vulkan, function):
    inputs = INPUTS.get(function, [VECTOR.copy()])
    for _ in range(2):
        got, wanted = shaders.run(function, *inputs, device="vulkan"), plain.run(function, *inputs)
        for one, other in zip(*(r if isinstance(r, list) else [r] for r in (got, wanted)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("results", ["a, b", "a, difference: f32[...m]"])
def test_several_results(pairs, results):
    spec = f"""
kernel both(a: f32[...m], b: f32[...m]) -> ({results}) {{ cpu "k.c" }}
pattern p(a: tensor<...m x f32>, b: tensor<...m x f32>) {{ addf(a, b), subf(a, b) }}
replace p with both(a, b)
"""
    parameters = "float *a, float *b, size_t n" if results == "a, b" else "float *a, float *b, float *d, size_t n"
    target = "b" if results == "a, b" else "d"
    c = f"""
#include <stddef.h>
void both({parameters}) {{
  for (size_t i = 0; i < n; ++i) {{
    float sum = a[i] + b[i];
    {target}[i] = a[i] - b[i];
    a[i] = sum;
  }}
}}
"""
    mlir = """
func.func @two(%a: tensor<?xf32>, %b: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %0 = arith.addf %a, %b : tensor<?xf32>
  %1 = arith.subf %a, %b : tensor<?xf32>
  return %0, %1, %b : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
func.func @same(%a: tensor<9xf32>) -> (tensor<9xf32>, tensor<9xf32>) {
  %0 = arith.addf %a, %a : tensor<9xf32>
  %1 = arith.subf %a, %a : tensor<9xf32>
  return %0, %1 : tensor<9xf32>, tensor<9xf32>
}
"""
    made = pairs(mlir, spec, {"k.c": c})
    assert made.replaced == 2
    made.run("two", VECTOR.copy(), VECTOR[::-1].copy())
    made.run("same", VECTOR.copy())
