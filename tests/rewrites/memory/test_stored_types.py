"""Types that a device does not store, which IREE's own code mixes up."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice
from opsplice.frontends import ModuleSource
from opsplice.pipeline.compiler import compile_module
from opsplice.runtime.loaded_program import load_program
from opsplice.targets.build import shaders as shaders_of

# A sum of each element with itself.
MLIR = """
func.func @twice(%x: tensor<1024xELEMENT>) -> tensor<1024xELEMENT> {
  %y = arith.OP %x, %x : tensor<1024xELEMENT>
  return %y : tensor<1024xELEMENT>
}
"""
X = (np.arange(1024) % 50).astype(np.float16)


def written(element: str) -> ModuleSource:
    op = "addi" if element.startswith("i") else "addf"
    return ModuleSource(content=MLIR.replace("ELEMENT", element).replace("OP", op))


@pytest.mark.parametrize(("element", "bits"), [("f16", 16), ("bf16", 16), ("i8", 8)])
def test_what_a_device_without_a_name_does_not_store_is_refused(element, bits):
    with pytest.raises(opsplice.OpspliceError, match=f"stores no elements of {bits} bits: IREE's own code") as caught:
        opsplice.compile(written(element), targets=["vulkan"])
    assert "--target=vulkan:ada" in caught.value.hint


def test_flags_are_looked_at_too():
    with pytest.raises(opsplice.OpspliceError, match="stores no elements of 16 bits"):
        opsplice.compile(written("f16"), flags=["--iree-hal-target-device=vulkan"])


def test_words_and_devices_by_name_are_taken(vulkan):
    for element, target in (("f32", "vulkan"), ("f16", "vulkan:llvmpipe")):
        program = opsplice.compile(written(element), targets=[target])
        x = X.astype({"f32": np.float32, "f16": np.float16}[element])
        np.testing.assert_array_equal(program.run("twice", x, device="vulkan"), 2 * x)


def test_kernels_store_what_they_say(tmp_path):
    """A kernel's code is its own: nothing is refused where no code of IREE's has such elements."""
    if not any(map(shaders_of.find, shaders_of.COMPILERS["GLSL"])):
        pytest.skip("no compiler of GLSL")
    (tmp_path / "twice.comp").write_text("""#version 450
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float16_t x[]; };
layout(binding = 1) writeonly buffer Y { float16_t y[]; };
void main() { uint i = gl_GlobalInvocationID.x; y[i] = float16_t(2.0 * float(x[i])); }
""")
    (tmp_path / "s.splice").write_text("""
kernel twice(x: f16[n]) -> f16[n] {
  grid (ceildiv(n, 64))
  vulkan "twice.comp"
}
pattern p(x: tensor<n x f16>) { addf(x, x) }
replace p with twice(x)
""")
    assert opsplice.compile(written("f16"), [tmp_path / "s.splice"], targets=["vulkan"]).report.replacements


def test_without_the_check_iree_gets_them_wrong(vulkan):
    """If this fails, IREE reads such elements right, and `stored_types` can go."""
    stock = load_program(compile_module(written("f16"), [], ["--iree-hal-target-device=vulkan"]).vmfb, "vulkan")
    assert not np.array_equal(stock.call("twice", X), 2 * X)
