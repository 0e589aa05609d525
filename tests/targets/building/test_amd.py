"""OpenCL C and HIP as code objects for AMD's GPUs, by clang without ROCm. Nothing is run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store
from opsplice.targets.artifacts.artifact import ArtifactRequest, RocmTarget
from opsplice.targets.backends import rocm
from opsplice.targets.formats import hsaco
from tests.rewrites.conftest import write_spec

pytestmark = pytest.mark.skipif(
    shutil.which("clang") is None or shutil.which("ld.lld") is None, reason="clang or lld is not installed"
)
CHIP = "gfx90a"
OPENCL = """
__kernel void scale(__global const float *x, __global float *out, unsigned n) {
  __local float own[64];
  size_t i = get_global_id(0);
  own[get_local_id(0)] = i < n ? x[i] : 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (i < n) out[i] = 2 * own[get_local_id(0)] + get_num_groups(1);
}
"""
HIP = """
#include <hip/hip_runtime.h>
#include "two.h"
extern "C" __global__ void scale(const float *x, float *out, unsigned n) {
  __shared__ float own[64];
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  own[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  if (i < n) out[i] = TWO * sqrtf(own[threadIdx.x]) + gridDim.y;
}
"""
SOURCES = {"scale.cl": OPENCL, "scale.hip": HIP}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {**SOURCES, "two.h": "#define TWO 2\n"}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def built(folder: Path, name: str, chip: str = CHIP, symbol: str = "scale"):
    return rocm.resolve(ArtifactRequest(folder / name, (symbol,)), RocmTarget(chip), Store(folder / "cache"))


@pytest.mark.parametrize("name", SOURCES)
def test_sources_become_code_objects(folder: Path, name: str) -> None:
    artifact = built(folder, name)
    assert (artifact.form, artifact.entry, artifact.built) == ("hsaco", "scale", True)
    entry = hsaco.find_entry(hsaco.reflect(artifact.path.read_bytes(), name), name, "scale")
    assert [parameter.is_pointer for parameter in entry.parameters] == [True, True, False]
    assert entry.shared == 256
    assert not built(folder, name).built


def test_a_header_that_changed_builds_anew(folder: Path) -> None:
    first = built(folder, "scale.hip")
    (folder / "two.h").write_text("#define TWO 3\n")
    again = built(folder, "scale.hip")
    assert again.built
    assert again.digest != first.digest


@pytest.mark.parametrize(
    ("change", "symbol", "message"),
    [
        (("2 *", "exp(x[i]) *"), "scale", "ROCm's device libraries are not linked"),
        (("2 *", "two *"), "scale", "use of undeclared identifier 'two'"),
        (("", ""), "scales", "scale.cl has no kernel 'scales'"),
    ],
)
def test_what_cannot_be_built_is_told(folder: Path, change: tuple[str, str], symbol: str, message: str) -> None:
    (folder / "scale.cl").write_text(OPENCL.replace(*change))
    with pytest.raises(OpspliceError) as caught:
        built(folder, "scale.cl", symbol=symbol)
    assert message in f"{caught.value.message} {caught.value.hint} {caught.value.details}"


def test_a_program_holds_it(folder: Path) -> None:
    spec = (
        'kernel scale(x: f32[n]) -> f32[n] { grid (ceildiv(n, 64)) workgroup (64) rocm "scale.cl" }\n'
        "pattern p(x: tensor<n x f32>) { negf(x) }\nreplace p with scale(x)\n"
    )
    model = (
        "func.func @main(%x: tensor<100xf32>) -> tensor<100xf32> {\n"
        "%r = arith.negf %x : tensor<100xf32>\nreturn %r : tensor<100xf32>\n}"
    )
    path = write_spec(folder, spec, {"scale.cl": OPENCL})
    program = opsplice.compile(model, [path], targets=[f"rocm:{CHIP}"])
    assert [each.kernel for each in program.report.replacements] == ["scale"]
    assert built(folder, "scale.cl").path.read_bytes() in program.vmfb
    with pytest.raises(OpspliceError, match=r"scale\.cl"):
        opsplice.compile(model, [path], targets=[f"rocm:{CHIP}"], no_code=True)
