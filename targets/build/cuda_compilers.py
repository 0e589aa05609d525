"""Compilers of CUDA sources to PTX: which are here, which GPUs each knows, and how it is run.

nvcc is preferred, then NVRTC through `cuda.bindings`, then clang and the clang inside the ziglang wheel, which
have neither NVIDIA's headers nor its mathematics; the environment variable OPSPLICE_CUDA_CC overrides that. None needs
a driver or a GPU. It must not know the store, nor what a source is a kernel of.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from opsplice.common.errors import MissingToolError, OpspliceError
from opsplice.targets.artifacts.artifact import CudaTarget
from opsplice.targets.build import programs, toolchains

# Stands in for NVIDIA's headers where clang builds.
HEADERS = Path(__file__).resolve().with_name("gpu_include")
_HEADERS = HEADERS / "opsplice_cuda.h", HEADERS / "opsplice_gpu.h"

ENVIRONMENT_VARIABLE = "OPSPLICE_CUDA_CC"

# In order of preference.
NAMES = ("nvcc", "nvrtc", "clang", "zig")
HOW_TO_GET = {
    "nvcc": "pip install nvidia-cuda-nvcc nvidia-cuda-cccl, or install NVIDIA's CUDA toolkit",
    "nvrtc": "pip install 'opsplice[cuda]'",
    "clang": toolchains.HOW_TO_GET["clang"],
    "zig": toolchains.HOW_TO_GET["zig"],
}

# How NVIDIA's programs say which they are.
RELEASE = r"(?<=release )\d+\.\d+"

_WORKER = Path(__file__).with_name("cuda_worker.py")

# LLVM's smallest PTX version for each capability ("PTX ISA", release notes), which the oldest driver that knows the
# GPU reads. clang itself would choose by an SDK that it finds, or one that is too small.
_SMALLEST_PTX = {
    60: 50, 61: 50, 62: 50, 70: 60, 72: 61, 75: 63, 80: 70, 86: 71, 87: 74, 88: 90, 89: 78, 90: 78, 100: 86, 101: 86,
    103: 88, 110: 90, 120: 87, 121: 88,
}  # fmt: skip

Family = Literal["nvcc", "nvrtc", "clang"]


@dataclass(frozen=True)
class CudaCompiler:
    """One compiler.

    name:    how the user calls it.
    family:  whose command line it takes.
    command: how it is started; for NVRTC, the path of its library.
    release: its version, such as `13.0`.
    sms:     the compute capabilities that it knows.
    """

    name: str
    family: Family
    command: tuple[str, ...]
    release: str
    sms: frozenset[int]

    @property
    def identity(self) -> str:
        """Changes whenever the compiler may have changed, or the text that is put before each source."""
        before = [header.read_text(encoding="utf-8") for header in _HEADERS] if self.family == "clang" else []
        return programs.identity_of(self.command, self.release, *before)

    def version(self) -> str:
        """Its name and version, such as `nvcc 13.0` or `zig (clang 22.1.8)`."""
        release = f"{self.family} {self.release}"
        return release if self.name == self.family else f"{self.name} ({release})"

    @property
    def range(self) -> str:
        """The GPUs that it knows, in words."""
        return f"sm_{min(self.sms)} to sm_{max(self.sms)}" if self.sms else "no GPU"

    def compile(
        self,
        source: Path,
        output: Path,
        target: CudaTarget,
        flags: Sequence[str] = (),
        instances: Sequence[str] = (),
    ) -> frozenset[Path]:
        """Compiles one source file into PTX; returns the files it included, without the compiler's own headers.

        flags: the user's, after ours, so that they win, as `compiler_flags` gives them. instances: of templates, which
        are to be there, such as `scale<float>`.
        Raises OpspliceError with the compiler's own lines as details.
        """
        text = source
        if instances:
            text = output.with_name("instances.cu")
            uses = "".join(f"template struct opsplice_instance<&{instance}>;\n" for instance in instances)
            text.write_text(f'#include "{source}"\ntemplate <auto> struct opsplice_instance {{}};\n{uses}')
        try:
            if self.family == "nvrtc":
                included = self._compile_in_library(source, text, output, target, flags)
            else:
                included = self._compile_by_command(source, text, output, target, flags)
        finally:
            if instances:
                text.unlink()
        if not output.is_file():
            raise OpspliceError(
                f"{self.name} made no PTX from {source.name}",
                hint="remove the flags that make it do something else, such as -fsyntax-only or -cubin",
            )
        return frozenset(path for path in included if not path.is_relative_to(HEADERS) and path != text) | {source}

    def _compile_by_command(
        self, source: Path, text: Path, output: Path, target: CudaTarget, flags: Sequence[str]
    ) -> frozenset[Path]:
        listed = output.with_name(f"{output.name}.d")
        nvcc_flags = ["-ptx", f"-arch=compute_{target.sm}", "-std=c++17", "-O3"]
        selection = nvcc_flags if self.family == "nvcc" else _clang_flags(target)
        files = ["-MMD", "-MF", str(listed), str(text), "-o", str(output)]
        command = [*self.command, *selection, *flags, *files]
        programs.must_run(command, f"{self.name} cannot compile {source.name}", partial(_hint, self.family))
        included = toolchains.read_dependencies(listed, source.parent)
        # nvcc lists its own headers with the user's; the ones beside the header that it puts before each file.
        own = [path.parent for path in included if path.name == "cuda_runtime.h"] if self.family == "nvcc" else []
        return frozenset(path for path in included if not any(path.is_relative_to(folder) for folder in own))

    def _compile_in_library(
        self, source: Path, text: Path, output: Path, target: CudaTarget, flags: Sequence[str]
    ) -> frozenset[Path]:
        answer = _ask(
            {
                "do": "compile",
                "source": str(text),
                "output": str(output),
                "options": [f"--gpu-architecture=compute_{target.sm}", "--std=c++17", *flags, f"-I{source.parent}"],
                "trace": str(output.with_name("trace")),
            },
        )
        if "error" in answer:
            details = programs.shown(answer["error"], 1)
            hint = _hint(self.family, details)
            raise OpspliceError(f"{self.name} cannot compile {source.name}", hint=hint, details=details)
        paths = ((source.parent / name).resolve() for name in answer["included"])
        # Headers inside of the library have names, but no files.
        return frozenset({source.resolve(), *(path for path in paths if path.is_file())})


def find(name: str) -> CudaCompiler | None:
    """The compiler called `nvcc`, `nvrtc`, `clang` or `zig`; None where it is absent or knows none of these GPUs.

    Raises OpspliceError when it is here but broken.
    """
    return _FINDERS[name]()


def find_all() -> tuple[CudaCompiler, ...]:
    """The compilers at hand, in order of preference; with OPSPLICE_CUDA_CC set, that one alone.

    OPSPLICE_CUDA_CC: `nvcc`, `nvrtc`, `clang`, `zig`, or the path of an nvcc or a clang.
    Raises OpspliceError when OPSPLICE_CUDA_CC names none that is here.
    """
    return tuple(_in_order())


def choose(target: CudaTarget) -> CudaCompiler:
    """The preferred compiler that knows the target. Raises OpspliceError when there is none."""
    # One after the other: each has to be started to say what it knows.
    for compiler in _in_order():
        if target.sm in compiler.sms:
            return compiler
    found = find_all()
    here = ", ".join(f"{compiler.version()} for {compiler.range}" for compiler in found) or "none"
    unset = f", or unset {ENVIRONMENT_VARIABLE}" if os.environ.get(ENVIRONMENT_VARIABLE, "").strip() else ""
    raise MissingToolError(
        f"no compiler here makes PTX of CUDA sources for sm_{target.sm} (found: {here})",
        hint=f"{HOW_TO_GET['nvrtc']}, or {HOW_TO_GET['nvcc']}{unset}",
    )


def _in_order() -> Iterator[CudaCompiler]:
    return toolchains.in_order(ENVIRONMENT_VARIABLE, HOW_TO_GET, find, _from_path)


def _clang_flags(target: CudaTarget) -> list[str]:
    flags = ["-x", "cuda", "--cuda-device-only", f"--cuda-gpu-arch=sm_{target.sm}", "-S", "-O3", "-std=c++17"]
    # No SDK: one that happens to be here would change what comes out.
    flags += ["-nocudainc", "-nocudalib", "--cuda-path=/nonexistent", "-Wno-unknown-cuda-version", "-nostdlibinc"]
    if target.sm in _SMALLEST_PTX:
        flags += ["-Xclang", "-target-feature", "-Xclang", f"+ptx{_SMALLEST_PTX[target.sm]}"]
    return [*flags, "-isystem", str(HEADERS), "-include", str(_HEADERS[0])]


def _find_nvcc() -> CudaCompiler | None:
    path = shutil.which("nvcc") or wheel_file("bin/nvcc")
    return _nvcc(str(path)) if path else None


def _find_clang() -> CudaCompiler | None:
    path = shutil.which("clang")
    return _clang("clang", (path,)) if path else None


def _find_zig() -> CudaCompiler | None:
    zig = toolchains.find("zig")
    return _clang("zig", zig.command) if zig else None


def _find_nvrtc() -> CudaCompiler | None:
    about = _about_nvrtc() if has_bindings() else {}
    if not about:
        return None
    return CudaCompiler("nvrtc", "nvrtc", (about["library"],), about["version"], frozenset(about["capabilities"]))


_FINDERS: dict[str, Callable[[], CudaCompiler | None]] = {
    "nvcc": _find_nvcc,
    "nvrtc": _find_nvrtc,
    "clang": _find_clang,
    "zig": _find_zig,
}


def wheel_file(pattern: str) -> Path | None:
    """A file of NVIDIA's wheels, which share the package `nvidia` (`nvidia/cu13/lib/...`).

    Of several, the one with the highest number in its name.
    """
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return None
    folders = spec.submodule_search_locations if spec is not None else None
    found = [path for folder in folders or () for path in Path(folder).glob(f"*/{pattern}") if path.is_file()]
    return max(found, key=lambda path: (list(map(int, re.findall(r"\d+", path.name))), path), default=None)


def _from_path(chosen: str) -> CudaCompiler:
    path = shutil.which(chosen) or (chosen if os.path.isfile(chosen) else None)
    if path is None:
        raise OpspliceError(
            f"{ENVIRONMENT_VARIABLE} names '{chosen}', which is not here",
            hint=f"give {', '.join(NAMES)} or a compiler's path, or unset {ENVIRONMENT_VARIABLE}",
        )
    name = Path(path).name
    said = programs.output_of((path, "--version"))
    compiler = _nvcc(path) if "nvcc" in said.lower() else _clang(name, (path,)) if "clang" in said else None
    if compiler is None:
        raise OpspliceError(
            f"'{chosen}' is no compiler of CUDA sources: neither nvcc, nor NVRTC, nor a clang that knows NVIDIA's GPUs",
            hint=f"set {ENVIRONMENT_VARIABLE} to one of them",
        )
    return compiler


def _nvcc(path: str) -> CudaCompiler:
    release = programs.release_in(programs.output_of((path, "--version")), RELEASE)
    listed = programs.output_of((path, "--list-gpu-arch"))
    return CudaCompiler("nvcc", "nvcc", (path,), release, _capabilities(listed))


def _clang(name: str, command: tuple[str, ...]) -> CudaCompiler | None:
    try:
        listed = _nvptx_cpus(command)
    except OpspliceError:
        return None  # a clang without this target is a good compiler for others
    return CudaCompiler(name, "clang", command, programs.release_in(listed), _capabilities(listed))


def _nvptx_cpus(command: tuple[str, ...]) -> str:
    """clang's version and the GPUs that it knows, which it writes as diagnostics."""
    return programs.output_of((*command, "--target=nvptx64-nvidia-cuda", "--print-supported-cpus"), diagnostics=True)


def _capabilities(listed: str) -> frozenset[int]:
    return frozenset(int(number) for number in re.findall(r"\b(?:sm|compute)_(\d+)\b", listed))


def has_bindings() -> bool:
    """Whether NVIDIA's libraries can be asked: `cuda.bindings` of the extra `cuda`."""
    try:
        return importlib.util.find_spec("cuda.bindings") is not None
    except (ImportError, ValueError):
        return False


def gpus() -> tuple[str, tuple[str, ...]]:
    """The CUDA version of the driver and its GPUs, such as `NVIDIA H200 (sm_90)`. Raises OpspliceError for no GPU."""
    found = _ask({"do": "gpus"}, what="the CUDA driver", hint="nvidia-smi says what is wrong with the driver")
    return found["version"], tuple(found["gpus"])


@functools.cache
def chip_here() -> str | None:
    """The architecture of this machine's first GPU, such as `sm_90`. None if there is none, or nothing to ask with."""
    if not has_bindings():
        return None
    try:
        _, found = gpus()
    except OpspliceError:
        return None
    named = re.search(r"\((sm_\d+)\)$", found[0]) if found else None
    return named and named[1]


@functools.cache
def _about_nvrtc() -> dict[str, Any]:
    return _ask({"do": "about"})


def _ask(
    job: Mapping[str, Any],
    what: str = "NVRTC",
    hint: str = "pip install --force-reinstall nvidia-cuda-nvrtc cuda-bindings",
) -> dict[str, Any]:
    done = programs.run_worker(_WORKER, job)
    if done.returncode == 0:
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer
    raise OpspliceError(
        f"{what} failed",
        hint=hint,
        details="\n".join(done.stderr.splitlines()[-3:]) or f"its process ended with status {done.returncode}",
    )


def _hint(family: Family, details: str) -> str | None:
    if "opsplice_instance" in details:
        return "write the kernel's symbol with all template arguments, as the file declares them"
    if family == "clang" and re.search(r"undeclared identifier|file not found|unknown type name", details):
        return (
            "clang builds CUDA sources without NVIDIA's headers: it has the qualifiers, threadIdx and its like, "
            f"__syncthreads and sqrtf, but not expf or cuda_fp16.h; for these, {HOW_TO_GET['nvrtc']}"
        )
    if family == "nvrtc" and "fdevice-time-trace" in details:
        return f"this NVRTC is too old to say what it includes: {HOW_TO_GET['nvrtc']}"
    if family == "nvrtc" and "could not open source file" in details:
        return "NVRTC has no headers of its own: add the folder of the header with -I, or use nvcc"
    if family == "nvcc" and re.search(r"host compiler|gcc: not found|Cannot find compiler|cc1plus", details):
        return f"nvcc needs a C++ compiler of the machine's: apt-get install g++, or set {ENVIRONMENT_VARIABLE}=nvrtc"
    if "o space left on device" in details:
        return "make room on the disk, or set OPSPLICE_CACHE to another folder"
    return None
