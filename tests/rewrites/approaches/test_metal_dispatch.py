"""Whole dispatches for Metal: what is in the compiled program, which nothing here can run."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.targets.formats.flatbuffer import Buffer
from tests.rewrites.conftest import write_spec

PROGRAM = """
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = math.absf %x : tensor<?xf32>
  %1 = arith.negf %0 : tensor<?xf32>
  %2 = math.exp %1 : tensor<?xf32>
  return %2 : tensor<?xf32>
}
"""
SPEC = """
kernel scale(x: f32[n], s: f32) -> f32[n] {{
  grid (ceildiv(n, 32))
  workgroup (32, 2)
  {clauses}
}}
pattern p(x: tensor<n x f32>) {{ negf(absf(x)) }}
replace p with scale(x, 3.0){otherwise}
"""
SHADER = """
#include <metal_stdlib>
using namespace metal;
struct Buffers { device const float* x [[id(0)]]; device float* out [[id(1)]]; };
struct Words { float s; uint n; };
kernel void scale(constant Buffers& b [[buffer(0)]], constant Words& w [[buffer(3)]],
                  uint3 at [[thread_position_in_grid]]) {
  if (at.x < w.n) b.out[at.x] = -abs(b.x[at.x]) * w.s;
}
"""
PLAIN = """
#include <stddef.h>
void scale(const float *x, float s, float *out, size_t n, size_t at) {
  for (size_t i = at * 32; i < n && i < at * 32 + 32; i++) out[i] = -(x[i] < 0 ? -x[i] : x[i]) * s;
}
"""
X = np.linspace(-2, 2, 77, dtype=np.float32)


@pytest.fixture
def compiled(tmp_path):
    def build(clauses='metal "k.metal"', targets="metal", otherwise="", program=PROGRAM, files=None, spec=SPEC):
        files = {"k.metal": SHADER, "k.c": PLAIN} | (files or {})
        path = write_spec(tmp_path, spec.format(clauses=clauses, otherwise=otherwise), files)
        return opsplice.compile(program, [path], targets=targets.split(","))

    return build


def kernels(vmfb: bytes) -> list[tuple[str, tuple[int, int, int], str]]:
    """The kernels for Metal in a program: function, threads of a threadgroup, text. Found by following offsets."""
    found = []
    start = vmfb.find(b"MTL1")
    while start >= 0:
        (size,) = struct.unpack_from("<Q", vmfb, start + 8)
        if vmfb[start + 4 : start + 8] == bytes(4) and size:
            buffer = Buffer(vmfb[start + 64 : start + 64 + size])
            root = buffer.table(buffer.target(0))
            (pipeline,), (library,) = (
                [buffer.table(buffer.target(at)) for at in buffer.vector(root[f])] for f in (0, 1)
            )
            source = buffer.table(buffer.target(library[0]))
            threads = struct.unpack_from("<3I", buffer.data, pipeline[3])
            found.append((buffer.text(pipeline[1]), threads, buffer.text(source[1])))
            start += 64 + size
        start = vmfb.find(b"MTL1", start + 1)
    return found


@pytest.mark.cell("static dispatch", "Metal", "builds")
def test_a_shader_in_the_program(compiled):
    program = compiled()
    assert [r.action for r in program.report.replacements] == ["static dispatch"]
    own, others = kernels(program.vmfb)
    assert own == ("scale", (32, 2, 1), SHADER)
    assert others[0].startswith("main_dispatch_")


TWO = (
    SPEC.replace("{clauses}", "{first}").replace("{otherwise}", "")
    + """
kernel two(x: f32[n], s: f32) -> f32[n] {{
  symbol "scale"
  grid (ceildiv(n, 32))
  workgroup (32, 2)
  {second}
}}
pattern q(x: tensor<n x f32>) {{ exp(x) }}
replace q with two(x, 3.0){otherwise}
"""
)


def test_two_kernels_of_one_name(compiled):
    other = SHADER.replace("-abs(", "exp(")
    spec = TWO.replace("{first}", 'metal "k.metal"').replace("{second}", 'metal "other.metal"')
    program = compiled(spec=spec, files={"other.metal": other})
    assert len(program.report.replacements) == 2
    assert set(kernels(program.vmfb)) == {("scale", (32, 2, 1), SHADER), ("scale", (32, 2, 1), other)}


def test_one_program_for_the_cpu_too(compiled):
    program = compiled('cpu "k.c"\n  metal "k.metal"', "cpu,metal")
    assert ("scale", (32, 2, 1), SHADER) in kernels(program.vmfb)
    np.testing.assert_allclose(program.run("main", X, device="local-task"), np.exp(-3 * np.abs(X)), rtol=1e-5)


def test_the_compilers_code_for_metal(compiled):
    """One kernel has a shader, and the other has none: its place for Metal stays empty, and nothing goes there."""
    spec = TWO.replace("{first}", 'cpu "k.c"\n  metal "k.metal"').replace("{second}", 'cpu "other.c"')
    other = PLAIN.replace("void scale(", "void other(")
    spec = spec.replace('symbol "scale"', 'symbol "other"')
    program = compiled(spec=spec, targets="cpu,metal", otherwise=" otherwise keep", files={"other.c": other})
    found = kernels(program.vmfb)
    assert ("scale", (32, 2, 1), SHADER) in found
    assert any(name.startswith("main_dispatch_") for name, _, _ in found)
    np.testing.assert_allclose(program.run("main", X, device="local-task"), -9 * np.abs(X), rtol=1e-5)


def test_what_does_not_fit_is_refused_with_both_sides(compiled):
    with pytest.raises(OpspliceError, match=r"'scale' of k\.metal takes 3 32-bit words, but is passed 2") as error:
        compiled(files={"k.metal": SHADER.replace("uint n;", "uint n; uint m;")})
    assert "needed by the kernel at" in error.value.details
    with pytest.raises(OpspliceError, match="nothing says how many threads a workgroup of kernel scale has"):
        compiled(spec=SPEC.replace("workgroup (32, 2)", ""))
