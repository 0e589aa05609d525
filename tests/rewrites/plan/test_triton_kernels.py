"""Triton functions as kernels: what they are called with, and code that IREE can launch. Nothing runs on a GPU here."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.generating import triton_code
from opsplice.targets.backends.cuda import Cuda
from opsplice.targets.formats import hsaco, ptx
from tests.rewrites.conftest import write_spec
from tests.targets.link.launching import launch

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


@pytest.mark.parametrize("shared", [0, 16, 100000])
def test_what_only_tritons_launcher_passes_is_taken_out(shared):
    module = ptx.reflect(triton_code.launchable_ptx(TEXT, "softmax", shared), "k.ptx")
    entry = ptx.find_entry(module, "k.ptx", "softmax")
    assert launch(entry, 1, 1, None, Cuda.limits) == (128, 1, 1)
    assert module.dynamic_shared == bool(shared)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TEXT.replace("[softmax_param_0]", "[softmax_param_3]"), "takes what only Triton's launcher passes"),
        (TEXT.replace(".entry softmax", ".entry other"), "made no entry softmax"),
    ],
)
def test_what_cannot_be_launched(text, said):
    with pytest.raises(OpspliceError, match=said):
        triton_code.launchable_ptx(text, "softmax", 0)


ASSEMBLY = """\tds_read_b32 v0, v1
amdhsa.kernels:
  - .args:
      - .address_space:  global
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .offset:         8
        .size:           4
        .value_kind:     by_value
      - .address_space:  global
        .offset:         16
        .size:           8
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         24
        .size:           8
        .value_kind:     global_buffer
      - .offset:         32
        .size:           4
        .value_kind:     hidden_block_count_x
    .group_segment_fixed_size: 0
    .kernarg_segment_size: 304
"""


def test_hidden_parameters_of_assembly():
    made = triton_code.launchable_amdgcn(ASSEMBLY, 2, 256, 96)
    assert [line.split()[-1] for line in made.splitlines() if ".offset" in line] == ["0", "8", "32"]
    assert "    .reqd_workgroup_size:\n      - 256\n      - 1\n      - 1\n    .group_segment_fixed_size: 96\n" in made
    with pytest.raises(OpspliceError, match="Triton made a kernel of 4 parameters, and 3 are passed"):
        triton_code.launchable_amdgcn(ASSEMBLY, 3, 256, 0)


# The parameters of the function stand in another order, and some are of 64 or 16 bits.
GENERATOR = """
import triton
import triton.language as tl
from opsplice.generating import Request, triton_code

@triton.heuristics({"BLOCK": lambda known: triton.next_power_of_2(known["n"])})
@triton.jit
def softmax(out, n, x, stride, gain, far, BLOCK: tl.constexpr, TWICE: tl.constexpr = 2):
    tl.static_assert(gain.dtype == tl.float16)
    tl.static_assert(far.dtype == tl.int64)
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = TWICE * tl.load(x + row * stride + at + far, mask=at < n, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0)) * gain
    tl.store(out + row * n + at, powers / tl.sum(powers, axis=0), mask=at < n)

def generate(request: Request):
    assert request.buffers == (("x", "f32"), ("out", "f32"))
    assert [name for name, _ in request.words] == [
        "gain", "far", "far", "m", "n", "first(x)", "stride(x, m)", "stride(x, n)"
    ]
    return triton_code.compiled(softmax, request, {}, ("out", "n", "x", "stride(x, m)", "gain", "far"), num_warps=8)
"""
SPEC = """
kernel softmax(x: f32[m, n] strided, gain: f16, far: i64) -> f32[m, n] {
  grid (m)
  cuda "softmax.py" as generated
  rocm "softmax.py" as generated
}
pattern p(x: tensor<m x n x f32>, gain: f16, far: i64) { divf(mulf(x, extf(gain) : f32), sitofp(far) : f32) }
replace p with softmax(x, gain, far)
"""
MODEL = """
func.func @main(%x: tensor<?x128xf32>, %gain: tensor<f16>, %far: tensor<i64>) -> tensor<?x128xf32> {
  %c0 = arith.constant 0 : index
  %m = tensor.dim %x, %c0 : tensor<?x128xf32>
  %e = tensor.empty(%m) : tensor<?x128xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>,
      affine_map<(i, j) -> ()>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %gain, %far : tensor<?x128xf32>, tensor<f16>, tensor<i64>) outs(%e : tensor<?x128xf32>) {
  ^bb0(%a: f32, %b: f16, %c: i64, %o: f32):
    %1 = arith.extf %b : f16 to f32
    %2 = arith.mulf %a, %1 : f32
    %3 = arith.sitofp %c : i64 to f32
    %4 = arith.divf %2, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<?x128xf32>
  return %0 : tensor<?x128xf32>
}
"""


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    pytest.importorskip("triton", reason="triton is not installed (pip install 'opsplice[triton]')")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))

    def build(generator: str, target: str = "cuda:sm_80") -> opsplice.Program:
        spec = write_spec(tmp_path, SPEC, {"softmax.py": generator})
        return opsplice.compile(MODEL, [spec], targets=[target])

    return build


def test_a_program_holds_what_triton_made(compiled):
    program = compiled(GENERATOR)
    assert len(program.report.replacements) == 1
    assert b".reqntid 256" in program.vmfb
    assert b"ex2.approx" in program.vmfb


def test_a_program_for_rocm(compiled):
    program = compiled(GENERATOR, "rocm:gfx942")
    assert len(program.report.replacements) == 1
    assert b".reqd_workgroup_size" in program.vmfb
    # What threads share is the kernel's own: IREE's launches for ROCm give none.
    start = program.vmfb.index(b"\x7fELF")
    (entry,) = hsaco.reflect(program.vmfb[start:], "softmax").entries
    assert entry.shared > 0


def test_a_second_process_that_triton_has_the_code_for(tmp_path):
    pytest.importorskip("triton", reason="triton is not installed (pip install 'opsplice[triton]')")
    spec = write_spec(tmp_path, SPEC, {"softmax.py": GENERATOR})
    (tmp_path / "model.mlir").write_text(MODEL)
    command = [sys.executable, "-m", "opsplice", "compile", str(tmp_path / "model.mlir"), f"--spec={spec}"]
    kept = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "triton"), "OPSPLICE_CACHE": str(tmp_path / "cache")}
    for _ in range(2):
        done = subprocess.run(
            [*command, "--target=rocm:gfx942", f"--output={tmp_path / 'out.vmfb'}"],
            env=kept,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


# The layer norm of Triton's tutorials, which also writes what its backward pass reads.
NORM = """
import triton
import triton.language as tl
from opsplice.generating import Request, triton_code

@triton.jit
def norm(X, Y, Mean, Rstd, stride, N, eps, BLOCK_SIZE: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK_SIZE)
    x = tl.load(X + row * stride + columns, mask=columns < N, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    centred = tl.where(columns < N, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / N + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    tl.store(Y + row * stride + columns, centred * rstd, mask=columns < N)

def generate(request: Request):
    assert [name for name, _ in request.buffers] == ["x", "y", "mean", "rstd"]
    return triton_code.compiled(norm, request, {"BLOCK_SIZE": 128}, ("x", "y", "mean", "rstd", "n", "n", 1e-5))
"""
NORM_SPEC = """
kernel norm(x: f32[m, n]) -> (y: f32[m, n], mean: f32[m] scratch, rstd: f32[m] scratch) {
  grid (m)
  cuda "norm.py" as generated
}
pattern p(x: tensor<m x n x f32>) { negf(x) }
replace p with norm(x)
"""


def test_what_a_function_writes_besides_is_scratch(tmp_path, monkeypatch):
    pytest.importorskip("triton", reason="triton is not installed (pip install 'opsplice[triton]')")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    spec = write_spec(tmp_path, NORM_SPEC, {"norm.py": NORM})
    model = "func.func @main(%x: tensor<?x100xf32>) -> tensor<?x100xf32> { %0 = arith.negf %x : tensor<?x100xf32> "
    program = opsplice.compile(model + "return %0 : tensor<?x100xf32> }", [spec], targets=["cuda:sm_80"])
    assert len(program.report.replacements) == 1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"gain", "far")', '"gain")', "has 6 parameters besides its constants, and is given 5"),
        ('"gain", "far")', '"gain", "near")', "nothing that softmax is passed is called near"),
        ('known["n"]', 'known["m"]', "the heuristic for BLOCK fails (KeyError: 'm')"),
        ("= 2):", "):", "the constants of softmax are BLOCK, TWICE, and given are BLOCK"),
        ("num_warps=8", "numwarps=8", "Triton has no option numwarps"),
        ("tl.sum(powers, axis=0)", "tl.sum(parts, axis=0)", "does not compile softmax: NameError('parts is"),
        ("tl.arange(0, BLOCK)", "tl.arange(0, 3)", "does not compile softmax: arange's range must be a power of 2\n"),
        ("{}, (", '{"BLOCK": request.dims["m"]}, (', "BLOCK is None, as a dim is that is known at run time alone"),
    ],
)
def test_functions_that_take_something_else(compiled, old, new, said):
    assert old in GENERATOR
    with pytest.raises(OpspliceError, match="failed for softmax") as error:
        compiled(GENERATOR.replace(old, new))
    assert said in str(error.value)


def test_memory_that_a_chip_does_not_have(compiled):
    returned = "made = triton_code.compiled(softmax"
    more = "\n    return type(made)(made.text, made.suffix, 200000)\n"
    shares = GENERATOR.replace("return triton_code.compiled(softmax", returned).rstrip() + more
    with pytest.raises(OpspliceError, match="shares 200000 bytes in a workgroup, and cuda sm_80 has") as error:
        compiled(shares)
    assert "such as --target=cuda:sm_90" in error.value.hint
