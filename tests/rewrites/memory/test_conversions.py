"""Rules that apply before IREE converts element types all over the program: no kernel may be called with others."""

from __future__ import annotations

import numpy as np
import pytest

from opsplice.common.errors import OpspliceError

KEEP_F64 = "--iree-input-demote-f64-to-f32=false"
F64 = """
func.func @main(%x: tensor<5xf32>, %s: f64) -> tensor<5xf32> {
  %a = arith.extf %x : tensor<5xf32> to tensor<5xf64>
  %t = math.sqrt %a : tensor<5xf64>
  %r = arith.truncf %t : tensor<5xf64> to tensor<5xf32>
  return %r : tensor<5xf32>
}"""
ROOT = """
kernel root(x: f64[n]) -> f64[n] { %s }
pattern p(x: tensor<n x f64>) { sqrt(x) }
replace p at %s with root(x)
"""
ROOT_C = """#include <stddef.h>
void root(const double *x, double *out, size_t n) { for (size_t i = 0; i < n; ++i) out[i] = __builtin_sqrt(x[i]); }
"""
FILES = {"root.c": ROOT_C, "root.py": "def root(x, out): out[:] = x**0.5\n"}

F32 = """
func.func @main(%x: tensor<?xf32>, %s: f32) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %t = tensor.splat %s[%n] : tensor<?xf32>
  %r = arith.mulf %x, %t : tensor<?xf32>
  return %r : tensor<?xf32>
}"""
SCALE = """
kernel scale(x: f32[n], s: f32) -> f32[n] { %s }
pattern p(x: tensor<n x f32>, s: f32) { mulf(x, s) }
replace p at start with scale(x, s)
"""
SCALE_FILES = {
    "scale.c": "#include <stddef.h>\nvoid scale(const float *x, float s, float *out, size_t n) "
    "{ for (size_t i = 0; i < n; ++i) out[i] = x[i] * s; }\n",
    "scale.py": "def scale(x, s, out): out[:] = x * x.dtype.type(s)\n",
    "scale.comp": "#version 450\nlayout(local_size_x = 64) in;\nlayout(binding = 0) readonly buffer A { float a[]; };\n"
    "layout(binding = 1) writeonly buffer O { float o[]; };\nlayout(push_constant) uniform P { float s; uint n; };\n"
    "void main() { uint i = gl_GlobalInvocationID.x; if (i < n) o[i] = a[i] * s; }\n",
}
ON_VULKAN = "grid (ceildiv(n, 64)) vulkan"


@pytest.mark.parametrize(
    "clause", ['cpu "root.c"', 'cpu "root.c" as provided', 'cpu "root.c" as plugin', 'cpu "root.py" as command']
)
def test_a_kernel_of_f64_that_becomes_f32(spliced, clause):
    with pytest.raises(
        OpspliceError, match="kernel root is called with f64, of which the compiler then makes f32"
    ) as e:
        spliced(F64, ROOT % (clause, "start"), FILES)
    assert KEEP_F64 in e.value.hint
    assert "spec.splice:4:1" in e.value.details


@pytest.mark.parametrize("phase", ["start", "preprocessing"])
def test_f64_is_kept_on_demand(spliced, phase):
    program = spliced(F64, ROOT % ('cpu "root.c"', phase), FILES, [KEEP_F64])
    assert [r.kernel for r in program.report.replacements] == ["root"]
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(program.run("main", x, 0.0), np.sqrt(x.astype(np.float64)).astype(np.float32))


def test_a_scalar_of_f64_on_a_gpu(spliced):
    spec = SCALE.replace("f32", "f64") % f'{ON_VULKAN} "scale.comp"'
    model = F32.replace("f32", "f64")
    code = SCALE_FILES["scale.comp"].replace("float", "double").replace("uniform P { double s", "uniform P { uvec2 s")
    code = code.replace("* s", "* packDouble2x32(s)")
    with pytest.raises(OpspliceError, match="kernel scale is called with f64"):
        spliced(model, spec, {"scale.comp": code}, ["--iree-hal-target-device=vulkan"])


def test_a_pattern_of_f64_behind_the_conversion_names_the_flag(spliced):
    program = spliced(F64, ROOT % ('cpu "root.c"', "preprocessing"), FILES)
    (rule,) = program.report.unmatched
    assert KEEP_F64 in rule.nearest[0].found


@pytest.mark.parametrize("clause", ['cpu "scale.c"', 'cpu "scale.c" as provided', 'cpu "scale.py" as command'])
def test_sizes_that_become_i32(spliced, clause):
    flag = "--iree-input-demote-i64-to-i32"
    with pytest.raises(
        OpspliceError, match="kernel scale is called with i64, of which the compiler then makes i32"
    ) as e:
        spliced(F32, SCALE % clause, SCALE_FILES, [flag])
    assert f"{flag}=false" in e.value.hint


def test_commands_take_floats_as_f64(spliced):
    spec = SCALE % 'cpu "scale.py" as command'
    with pytest.raises(OpspliceError, match="kernel scale is called with f64, of which the compiler then makes f32"):
        spliced(F32, spec, SCALE_FILES)
    program = spliced(F32, spec, SCALE_FILES, [KEEP_F64])
    np.testing.assert_array_equal(program.run("main", np.float32([1, 2]), 2.5), np.float32([2.5, 5]))


@pytest.mark.parametrize("flags", [(), ("--iree-input-demote-i64-to-i32",)])
def test_what_is_not_converted_is_left_in_peace(spliced, flags):
    device = "--iree-hal-target-device=vulkan"
    program = spliced(F32, SCALE % f'{ON_VULKAN} "scale.comp"', SCALE_FILES, [device, *flags])
    assert [r.kernel for r in program.report.replacements] == ["scale"]
    on_cpu = spliced(F32, SCALE % 'cpu "scale.c"', SCALE_FILES)
    np.testing.assert_array_equal(on_cpu.run("main", np.float32([1, 2]), 2.5), np.float32([2.5, 5]))


def test_other_conversions(spliced):
    model = """
func.func @main(%x: tensor<4xf16>) -> tensor<4xf16> {
  %0 = math.absf %x : tensor<4xf16>
  return %0 : tensor<4xf16>
}"""
    spec = """
kernel k(x: f16[n]) -> f16[n] { cpu "k.c" }
pattern p(x: tensor<n x f16>) { absf(x) }
replace p at start with k(x)
"""
    code = (
        "#include <stddef.h>\nvoid k(const short *x, short *out, size_t n) { for (; n--;) out[n] = x[n] & 0x7fff; }\n"
    )
    with pytest.raises(OpspliceError, match="f16, of which the compiler then makes f32"):
        spliced(model, spec, {"k.c": code}, ["--iree-input-promote-f16-to-f32"])
