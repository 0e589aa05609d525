"""Shared by the tests of targets: a store of their own, and the compilers that this machine has,
and a kernel for AMD's GPUs."""

import subprocess
from importlib import util
from pathlib import Path

import pytest
from llvmlite import binding

from opsplice.targets import toolchains
from opsplice.targets.store import Store

KERNEL = """
#include <stddef.h>
void scale(const float *restrict in, float *restrict out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = in[i] * 2.0f;
}
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.c"
    path.write_text(KERNEL)
    return path


@pytest.fixture(params=toolchains.NAMES)
def compiler(request) -> toolchains.Toolchain:
    """Each compiler in turn; skips those that this machine lacks."""
    found = toolchains.find(request.param)
    if found is None:
        pytest.skip(f"{request.param} is not installed ({toolchains.HOW_TO_GET[request.param]})")
    return found


@pytest.fixture
def cross() -> dict[str, str]:
    """An environment that chooses a compiler for every architecture."""
    for name in ("zig", "clang"):
        if toolchains.find(name) is not None:
            return {"OPSPLICE_CC": name}
    pytest.skip("no clang here (pip install ziglang)")


AMD_KERNEL = """
define protected amdgpu_kernel void @scale(ptr addrspace(1) %p, ptr addrspace(1) %q, i32 %n) #0 {
  %x = load float, ptr addrspace(1) %p
  store float %x, ptr addrspace(1) %q
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,256" }
"""


@pytest.fixture
def code_object(tmp_path) -> bytes:
    """A code object for gfx942, `scale` with two buffers and a word; linked by the linker that IREE brings along."""
    linker = Path(util.find_spec("iree.compiler").submodule_search_locations[0]) / "_mlir_libs" / "iree-lld"
    if not linker.is_file():
        pytest.skip("IREE's compiler is here without its linker, iree-lld")
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    machine = binding.Target.from_triple("amdgcn-amd-amdhsa").create_target_machine(cpu="gfx942", reloc="pic")
    module = binding.parse_assembly(AMD_KERNEL)
    module.triple, module.data_layout = "amdgcn-amd-amdhsa", str(machine.target_data)
    (tmp_path / "scale.o").write_bytes(machine.emit_object(module))
    command = [linker, "-flavor", "gnu", "-shared", "scale.o", "-o", "scale.hsaco"]
    subprocess.run(command, cwd=tmp_path, check=True)
    return (tmp_path / "scale.hsaco").read_bytes()
