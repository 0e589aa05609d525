"""Shaders under IREE's own compiler and runtime: what passes our checks runs, and the ABI is as written down."""

import subprocess
import sys

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts.artifact import ArtifactRequest, SpirvTarget
from opsplice.targets.backends import spirv
from opsplice.targets.build import shaders
from opsplice.targets.formats.spirv.spirv_binary import find_entry, reflect
from tests.targets.link.launching import launch

# Takes f: f32, k: i64 and a tensor<?xf32> of n elements; gives a * f + k. Push constants: f, k low, k high, n.
GLSL = """#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) writeonly buffer B { float b[]; };
layout(push_constant) uniform P { float f; uvec2 k; uint n; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < n) b[i] = a[i] * f + float(k.x) + float(k.y) * 4294967296.0;
}
"""
SLANG = """
[[vk::binding(0, 0)]] StructuredBuffer<float> a;
[[vk::binding(1, 0)]] RWStructuredBuffer<float> b;
struct P { float f; uint low; uint high; uint n; };
[[vk::push_constant]] ConstantBuffer<P> p;
[shader("compute")] [numthreads(64, 1, 1)]
void scale(uint3 id : SV_DispatchThreadID) {
  if (id.x < p.n) b[id.x] = a[id.x] * p.f + float(p.low) + float(p.high) * 4294967296.0;
}
"""
# A uvec2 in a block lies at a multiple of 8 bytes, so the two words of k are two uints.
SOURCES = {".comp": GLSL.replace("uvec2 k;", "uint low; uint high;").replace("k.x", "low").replace("k.y", "high")}
SOURCES[".slang"] = SLANG

# f = 2.5, k = 2^32 + 3, n = 90 of the buffer's 100 elements.
PROGRAM = """
func.func @run(%a: tensor<100xf32>) -> tensor<100xf32> {{
  %f = arith.constant 1075838976 : i32
  %low = arith.constant 3 : i32
  %high = arith.constant 1 : i32
  %n = arith.constant 90 : i32
  %r = hal.dispatch.extern "{entry}"(%f, %low, %high, %n, %a)
    : (i32, i32, i32, i32, tensor<100xf32>) -> tensor<100xf32>
    count(%device: !hal.device) -> (index, index, index) {{
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      hal.return %c2, %c1, %c1 : index, index, index
    }}
    layout(#hal.pipeline.layout<constants = 4, bindings = [
      #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>]>)
    objects({{
      #hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb"> ordinal(0) = [
        #hal.executable.object<{{path = "{path}"}}>]
    }})
  return %r : tensor<100xf32>
}}
"""

# In a process of its own, as drivers may crash. Says `no device` where there is none.
RUN = """
import sys
import numpy as np
import iree.runtime as rt
import iree.runtime.array_interop as interop
from iree.compiler.tools import compile_str
flags = ["--iree-hal-target-device=vulkan", "--iree-vulkan-target=llvmpipe"]
module = compile_str(sys.stdin.read(), extra_args=flags)
try:
    config = rt.Config("vulkan")
except Exception as error:
    sys.exit(f"no device: {error}")
# Results are read by a copy: Mesa's software driver cannot import numpy's memory.
interop.BufferCompatibility = type("_", (), {"IMPORTABLE": 0})
loaded = rt.load_vm_module(rt.VmModule.copy_buffer(config.vm_instance, module), config)
a = np.arange(100, dtype=np.float32)
result = loaded.run(a).to_host()
wanted = a * np.float32(2.5) + np.float32(3) + np.float32(2**32)
np.testing.assert_allclose(result[:90], wanted[:90], rtol=1e-6)
print("right")
"""


@pytest.mark.parametrize(("suffix", "compiler"), [(".comp", "glslang"), (".slang", "slangc")])
def test_shaders_run_as_the_abi_says(tmp_path, store, suffix, compiler):
    if shaders.find(compiler) is None:
        pytest.skip(f"{compiler} is not installed ({shaders.HOW_TO_GET[compiler]})")
    source = tmp_path / f"scale{suffix}"
    source.write_text(SOURCES[suffix])
    artifact = spirv.resolve(ArtifactRequest(source, ("scale",)), SpirvTarget(), store)
    module = reflect(artifact.path.read_bytes(), source.name)
    launch(find_entry(module, source.name, artifact.entry), (False, True), 4, (64, 1, 1))
    program = PROGRAM.format(entry=artifact.entry, path=artifact.path)
    done = subprocess.run([sys.executable, "-c", RUN], input=program, capture_output=True, text=True, check=False)
    if "no device" in done.stderr:
        pytest.skip("no Vulkan device (apt-get install libvulkan1 mesa-vulkan-drivers)")
    assert done.stdout == "right\n", done.stderr


def test_a_64_bit_scalar_as_a_vector_would_be_misplaced(tmp_path, store):
    """It makes the block larger than what is given, which the check refuses."""
    if shaders.find("glslang") is None:
        pytest.skip("glslang is not installed")
    source = tmp_path / "scale.comp"
    source.write_text(GLSL)
    artifact = spirv.resolve(ArtifactRequest(source, ("scale",)), SpirvTarget(), store)
    module = reflect(artifact.path.read_bytes(), source.name)
    with pytest.raises(OpspliceError, match="takes 5 32-bit words, but is passed 4"):
        launch(find_entry(module, source.name, "main"), (False, True), 4, None)
