"""Strided and optional buffers of whole dispatches: right numbers on Vulkan and CPUs, elsewhere what is passed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.runtime.loaded_program import load_program
from opsplice.runtime.providers import Provider
from opsplice.targets.build import shaders
from tests.plain import Plain
from tests.rewrites.plan.test_optional_parts import linear
from tests.rewrites.plan.test_strided_buffers import CODE, DYNAMIC, GROUPED, PROJECTED, SLICED, SPEC, filled

DOTS = """#version 450
layout(local_size_x = 16) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer W { float w[]; };
layout(binding = 2) readonly buffer First { uint first[]; };
layout(binding = 3) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Words { uint b, m, k, n, x_m, x_k, w_n, w_k, out_m, out_n; };
void main() {
  uint at = gl_WorkGroupID.x * 3;
  for (uint e = gl_LocalInvocationID.x; e < m * n; e += 16) {
    uint i = e / n, j = e % n;
    float sum = 0;
    for (uint l = 0; l < k; ++l) sum += x[first[at] + i * x_m + l * x_k] * w[first[at + 1] + j * w_n + l * w_k];
    result[first[at + 2] + i * out_m + j * out_n] = sum;
  }
}
"""
PROGRAMS = "\n".join((PROJECTED, DYNAMIC, GROUPED, SLICED))
RUNS = [
    ("projected", [(2, 16, 96)]),
    ("dynamic", [(2, 5, 3, 4, 8)]),
    ("dynamic", [(1, 1, 3, 4, 8)]),
    ("grouped", [(3, 4, 5, 8), (3, 2, 6, 8)]),
    ("sliced", [(2, 4, 40)]),
]


def written(folder: Path, spec: str, **files: str) -> Path:
    for name, content in files.items():
        (folder / name.replace("_dot_", ".")).write_text(content)
    (folder / "k.splice").write_text(spec)
    return folder / "k.splice"


def needed(compiler: str) -> None:
    if shaders.find(compiler) is None:
        pytest.skip(f"{compiler} is not installed ({shaders.HOW_TO_GET[compiler]})")


@pytest.fixture(scope="module")
def plain() -> Plain:
    return Plain(PROGRAMS, [])


def same(program: opsplice.Program, plain: Plain, device: str) -> None:
    for function, shapes in RUNS:
        inputs = [*(filled(*shape) for shape in shapes), *([7] if function == "sliced" else [])]
        found, wanted = (each.run(function, *inputs) for each in (program, plain))
        pairs = zip(found, wanted, strict=True) if isinstance(found, list | tuple) else [(found, wanted)]
        for got, want in pairs:
            np.testing.assert_array_equal(np.asarray(got), np.asarray(want), err_msg=f"{function} on {device}")


def test_one_program_for_vulkan_and_the_cpu(tmp_path, plain, vulkan):
    needed("glslang")
    clauses = 'workgroup (16)\n  vulkan "dots.comp"\n  cpu "dots.c"'
    spec = written(tmp_path, SPEC.replace('cpu "dots.c"', clauses), dots_dot_comp=DOTS, dots_dot_c=CODE)
    program = opsplice.compile(PROGRAMS, [spec], targets=["vulkan:llvmpipe", "cpu"])
    assert len(program.report.replacements) == 4
    for device in ("vulkan", "local-sync"):
        same(program, plain, device)


DISPATCH = """
#include "opsplice_dispatch.h"
int dots(const void *environment, const opsplice_dispatch *dispatch, const opsplice_workgroup *workgroup) {
  const float *x = dispatch->bindings[0], *w = dispatch->bindings[1];
  const unsigned *first = (const unsigned *)dispatch->bindings[2] + 3 * workgroup->x, *c = dispatch->constants;
  float *out = dispatch->bindings[3];
  for (unsigned i = 0; i < c[1]; ++i)
    for (unsigned j = 0; j < c[3]; ++j) {
      float sum = 0;
      for (unsigned l = 0; l < c[2]; ++l) sum += x[first[0] + i * c[4] + l * c[5]] * w[first[1] + j * c[6] + l * c[7]];
      out[first[2] + i * c[8] + j * c[9]] = sum;
    }
  return 0;
}
"""


@pytest.mark.parametrize(("form", "code"), [("dispatch", DISPATCH), ("provided", CODE)])
def test_on_the_cpu(tmp_path, plain, form, code):
    spec = written(tmp_path, SPEC.replace('"dots.c"', f'"dots.c" as {form}'), dots_dot_c=code)
    same(opsplice.compile(PROGRAMS, [spec]), plain, "local-task")


# No packs: first elements are words. A bias may be absent.
LINEAR = """
kernel linear(x: f32[m, k] strided, w: f32[n, k] strided, bias: f32[n] optional) -> f32[m, n] strided {
  grid (ceildiv(m * n, 64))
  workgroup (64)
  CLAUSE
}
pattern layer(x: tensor<m x k x f32>, w: tensor<n x k x f32>, bias: tensor<n x f32>) {
  addf?(contract[m k, n k -> m n](x, w), broadcast[n -> m n](bias))
}
replace layer with linear(x, w, bias)
"""
LINEAR_WGSL = """
struct Words {
  m: u32, k: u32, n: u32, x_first: u32, x_m: u32, x_k: u32, w_first: u32, w_n: u32, w_k: u32, biased: u32,
  out_first: u32, out_m: u32, out_n: u32,
}
var<immediate> c: Words;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> w: array<f32>;
@group(0) @binding(2) var<storage, read> bias: array<f32>;
@group(0) @binding(3) var<storage, read_write> result: array<f32>;
@compute @workgroup_size(64)
fn linear(@builtin(global_invocation_id) at: vec3<u32>) {
  if (at.x >= c.m * c.n) { return; }
  let i = at.x / c.n;
  let j = at.x % c.n;
  var sum = 0.0;
  if (c.biased != 0u) { sum = bias[j]; }
  for (var l = 0u; l < c.k; l += 1u) {
    sum += x[c.x_first + i * c.x_m + l * c.x_k] * w[c.w_first + j * c.w_n + l * c.w_k];
  }
  result[c.out_first + i * c.out_m + j * c.out_n] = sum;
}
"""
KINDS = [(each, biased) for each in ("mk,nk->mn", "mk,kn->mn", "km,kn->nm") for biased in (False, True)]
LAYERS = "\n".join(linear(each, biased=biased) for each, biased in KINDS)


@pytest.mark.parametrize("form", ["", " as provided"])
def test_wgsl_and_buffers_that_may_be_left_out(tmp_path, vulkan, form):
    needed("naga")
    clause = f'wgsl "linear.wgsl"{form}'
    spec = written(tmp_path, LINEAR.replace("CLAUSE", clause), linear_dot_wgsl=LINEAR_WGSL)
    program, plain = opsplice.compile(LAYERS, [spec], targets=["vulkan:llvmpipe"]), Plain(LAYERS, [])
    loaded = load_program(program.vmfb, "vulkan", provider=Provider([program.provided]) if form else None)
    assert len(program.report.replacements) == len(KINDS)
    for match in re.finditer(r"func\.func @(\w+)\((.*?)\) -> ", LAYERS):
        shapes = [tuple(map(int, found.split("x"))) for found in re.findall(r"tensor<([\dx]+)xf32>", match[2])]
        inputs = [filled(*shape) for shape in shapes]
        (found,) = loaded.call(match[1], *inputs)
        np.testing.assert_array_equal(found, plain.run(match[1], *inputs), err_msg=match[1])


METAL = """
struct Buffers { device const float* x [[id(0)]]; device const float* w [[id(1)]]; device const float* bias [[id(2)]];
                 device float* out [[id(3)]]; };
struct Words { uint m; uint k; uint n; uint x_first; uint x_m; uint x_k; uint w_first; uint w_n; uint w_k; uint biased;
               uint out_first; uint out_m; uint out_n; };
kernel void linear(constant Buffers& buffers [[buffer(0)]], constant Words& words [[buffer(3)]]) {
  buffers.out[words.out_first] = buffers.x[words.x_first];
}
"""


@pytest.mark.parametrize(
    ("clause", "target", "files"),
    [
        ('cuda "linear.ptx"', "cuda:sm_80", {}),
        ('metal "linear.metal"', "metal", {"linear_dot_metal": METAL}),
    ],
)
def test_other_devices_are_passed_the_same(tmp_path, clause, target, files):
    """Nothing runs there; that the files take what they are passed is checked."""
    pointers = ", ".join(f".param .u64 p{at}" for at in range(4))
    words = ", ".join(f".param .u32 w{at}" for at in range(13))
    ptx = f".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry linear({pointers}, {words}) {{ ret; }}\n"
    spec = written(tmp_path, LINEAR.replace("CLAUSE", clause), linear_dot_ptx=ptx, **files)
    assert len(opsplice.compile(LAYERS, [spec], targets=[target]).report.replacements) == len(KINDS)
    if target == "metal":
        return
    (tmp_path / "linear.ptx").write_text(ptx.replace(", .param .u32 w12", ""))
    with pytest.raises(OpspliceError, match="is passed 4 pointers and 13 32-bit words"):
        opsplice.compile(LAYERS, [spec], targets=[target])


MANY = """
kernel sum(LIST) -> f32[a, b, c, d] strided { workgroup (1) vulkan "sum.comp" }
pattern p(PARAMETERS) { EXPRESSION }
replace p with sum(NAMES)
"""


def test_more_words_than_vulkan_promises_are_an_error(tmp_path):
    needed("glslang")
    names = [f"x{at}" for at in range(6)]
    listed = ", ".join(f"{name}: f32[a, b, c, d] strided" for name in names)
    parameters = ", ".join(f"{name}: tensor<a x b x c x d x f32>" for name in names)
    expression = names[0]
    for name in names[1:]:
        expression = f"addf({expression}, {name})"
    text = MANY.replace("LIST", listed).replace("PARAMETERS", parameters).replace("EXPRESSION", expression)
    shader = "#version 450\nlayout(binding = 6) writeonly buffer O { float o[]; };\nvoid main() { o[0] = 0; }\n"
    spec = written(tmp_path, text.replace("NAMES", ", ".join(names)), sum_dot_comp=shader)
    kind = "tensor<2x3x4x5xf32>"
    body = "\n".join(
        f"%s{at} = arith.addf {'%x0' if at == 1 else f'%s{at - 1}'}, %x{at} : {kind}" for at in range(1, 6)
    )
    inputs = ", ".join(f"%x{at}: {kind}" for at in range(6))
    program = f"func.func @f({inputs}) -> {kind} {{\n{body}\nreturn %s5 : {kind}\n}}"
    with pytest.raises(OpspliceError, match="kernel sum is passed 39 32-bit words, and such devices take 32"):
        opsplice.compile(program, [spec], targets=["vulkan:llvmpipe"])
