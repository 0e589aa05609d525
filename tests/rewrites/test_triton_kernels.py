"""Triton functions as kernels: what they are called with, and PTX that IREE can launch."""

from __future__ import annotations

import pytest

import opsplice
from opsplice.errors import OpspliceError
from opsplice.generating import triton_ptx
from opsplice.targets.backends.cuda import Cuda
from opsplice.targets.formats import ptx

from ..targets.launching import launch
from .conftest import write_spec

TEXT = """.version 8.8
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 global_smem[];
.visible .entry softmax(
	.param .u64 .ptr .global .align 1 softmax_param_0,
	.param .u32 softmax_param_1,
	.param .u64 .ptr .global .align 1 softmax_param_2,
	.param .u64 .ptr .global .align 1 softmax_param_3
)
.reqntid 128
{
	ld.param.b64 	%rd17, [softmax_param_0];
	mov.b32 %r1, global_smem;
	ret;
}
"""


@pytest.mark.parametrize("shared", [0, 16, 49152])
def test_what_only_tritons_launcher_passes_is_taken_out(shared):
    module = ptx.reflect(triton_ptx.launchable(TEXT, "softmax", "softmax_a1", shared), "k.ptx")
    entry = ptx.find_entry(module, "k.ptx", "softmax_a1")
    assert launch(entry, 1, 1, None, Cuda.limits) == (128, 1, 1)
    assert not module.dynamic_shared


@pytest.mark.parametrize(
    ("text", "shared", "said"),
    [
        (TEXT.replace("[softmax_param_0]", "[softmax_param_3]"), 0, "takes what only Triton's launcher passes"),
        (TEXT, 49153, "shares 49153 bytes in a workgroup, and a kernel holds 49152"),
        (TEXT.replace(".entry softmax", ".entry other"), 0, "made no entry softmax"),
    ],
)
def test_what_cannot_be_launched(text, shared, said):
    with pytest.raises(OpspliceError, match=said):
        triton_ptx.launchable(text, "softmax", "k", shared)


GENERATOR = """
import triton
import triton.language as tl
from opsplice.generating import Request, triton_ptx

@triton.jit
def softmax(x, out, m, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * n + at, powers / tl.sum(powers, axis=0), mask=at < n)

def generate(request: Request):
    assert request.buffers == ("f32", "f32")
    assert request.words == (("dim m", "i32"), ("dim n", "i32"))
    return triton_ptx.compiled(softmax, request, {"BLOCK": 1024}, num_warps=8)
"""
SPEC = """
kernel softmax(x: f32[...m, n]) -> f32[...m, n] {
  grid (m)
  cuda "softmax.py" as generated
}
pattern p(x: tensor<...m x n x f32>) { negf(x) }
replace p with softmax(x)
"""
MODEL = """
func.func @main(%x: tensor<4x?xf32>) -> tensor<4x?xf32> {
  %0 = arith.negf %x : tensor<4x?xf32>
  return %0 : tensor<4x?xf32>
}
"""


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    pytest.importorskip("triton", reason="triton is not installed (pip install 'opsplice[triton]')")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))

    def build(generator: str) -> opsplice.Program:
        spec = write_spec(tmp_path, SPEC, {"softmax.py": generator})
        return opsplice.compile(MODEL, [spec], targets=["cuda:sm_80"])

    return build


def test_a_program_holds_what_triton_made(compiled):
    program = compiled(GENERATOR)
    assert len(program.report.replacements) == 1
    assert b".reqntid 256" in program.vmfb
    assert b"ex2.approx" in program.vmfb


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("m, n, BLOCK", "n, BLOCK", "has 3 parameters besides its constants, and a dispatch gets 4"),
        ('{"BLOCK": 1024}', "{}", "the constants of softmax are BLOCK, and given are none"),
    ],
)
def test_functions_that_take_something_else(compiled, old, new, said):
    with pytest.raises(OpspliceError, match="failed for softmax") as error:
        compiled(GENERATOR.replace(old, new))
    assert said in str(error.value)
