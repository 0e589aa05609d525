"""clang as a compiler of OpenCL C and HIP to code objects of AMD's GPUs. No ROCm is needed, and none is used.

What of ROCm a kernel needs stands in `gpu_include`: where it is in the grid, barriers, what the hardware computes.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from opsplice.common.errors import MissingToolError
from opsplice.targets.artifacts.artifact import RocmTarget
from opsplice.targets.build import programs, toolchains

HEADERS = Path(__file__).resolve().with_name("gpu_include")
_OPENCL, _HIP, _COMMON = (HEADERS / f"opsplice_{name}.h" for name in ("opencl", "hip", "gpu"))

SOURCES = (".cl", ".hip")
HOW_TO_GET = "apt-get install clang lld"


def identity() -> str:
    """Changes whenever the compiler may have changed, or what is included before each source."""
    return programs.identity_of((_clang(),), *(header.read_text() for header in (_OPENCL, _HIP, _COMMON)))


def compile_source(source: Path, output: Path, target: RocmTarget, flags: Sequence[str]) -> frozenset[Path]:
    """Compile a source into a code object; returns the files that it included, without those of this package.

    flags: the user's, after ours, so that they win. Raises OpspliceError with clang's own lines as details.
    """
    listed = output.with_name(f"{output.name}.d")
    language = _opencl(target) if source.suffix == ".cl" else _hip(target)
    files = ["-MMD", "-MF", str(listed), str(source), "-o", str(output)]
    command = [_clang(), *language, "-O3", "-nogpulib", *flags, *files]
    programs.must_run(command, f"clang cannot build {source.name} for {target.chip}", _hint)
    included = toolchains.read_dependencies(listed, source.parent)
    return frozenset(path for path in included if not path.is_relative_to(HEADERS)) | {source}


def _opencl(target: RocmTarget) -> list[str]:
    chip = f"-mcpu={target.chip}"
    return ["-x", "cl", "-cl-std=CL2.0", "--target=amdgcn-amd-amdhsa", chip, "-include", str(_OPENCL)]


def _hip(target: RocmTarget) -> list[str]:
    flags = ["-x", "hip", "--cuda-device-only", f"--offload-arch={target.chip}", "--no-gpu-bundle-output", "-std=c++17"]
    return [*flags, "-nogpuinc", "-nostdlibinc", "-isystem", str(HEADERS), "-include", str(_HIP)]


def _hint(said: str) -> str | None:
    if "undefined" in said:
        return "ROCm's device libraries are not linked: build it with hipcc --genco, and name the .hsaco"
    if "invalid target ID" in said or "unknown target CPU" in said:
        return "a newer clang may know that GPU"
    return f"the linker is missing: {HOW_TO_GET}" if "ld.lld" in said and "unable to execute" in said else None


def _clang() -> str:
    path = shutil.which("clang")
    if path is None:
        raise MissingToolError("clang, which builds OpenCL C and HIP, is not here", hint=HOW_TO_GET)
    return path
