"""What this machine can build and run, found out by building, and how to get the rest.

It loads no compiler library and no device driver, so it is safe to call anywhere.
"""

from __future__ import annotations

import ctypes.util
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from opsplice.common import cache
from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts import temporary_folders
from opsplice.targets.artifacts.artifact import CpuTarget, CudaTarget, Form, SpirvTarget
from opsplice.targets.build import cuda_compilers, llvm, ptxas, shaders, spirv_val, toolchains

_IREE_VERSION = "3.13"

_PROBE_C = "void probe(float *out) { out[0] = 1.0f; }\n"
_PROBE_CU = 'extern "C" __global__ void probe(float *out) { out[0] = 1.0f; }\n'
_PROBE_PTX = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry probe(.param .u64 out) { ret; }\n"
_PROBE_IR = "define void @probe(ptr %out) {\n  store float 1.0, ptr %out\n  ret void\n}\n"

_PROBE_SHADERS: dict[shaders.Language, tuple[str, str]] = {
    "GLSL": ("probe.comp", "#version 450\nlayout(local_size_x = 1) in;\nvoid main() {}\n"),
    "Slang": ("probe.slang", '[shader("compute")] [numthreads(1, 1, 1)] void probe() {}\n'),
    "WGSL": ("probe.wgsl", "@compute @workgroup_size(1) fn probe() {}\n"),
}

_CPU_TORCH = "without a GPU, install PyTorch's CPU build before it: pip takes several GB of CUDA along otherwise"

# What some work needs: the Python package, the extra of opsplice that brings it, the release that is tested ("" where
# any will do), and what else to know before it is installed.
_EXTRAS = {
    "packages of registries": ("requests", "registry", "", ""),
    "signatures of packages": ("cryptography", "sign", "", ""),
    "PyTorch models": ("torch", "torch", "2.13", _CPU_TORCH),
    "JAX functions": ("jax", "jax", "0.10", ""),
    "ONNX models": ("onnx", "onnx", "1.23", ""),
    "functions of Numba": ("numba", "numba", "0.68", ""),
    "functions of Triton": ("triton", "triton", "3", ""),
    "libraries of TVM FFI": ("apache-tvm-ffi", "tvm", "", ""),
}

_VULKAN_DRIVER_FOLDERS = ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; `dataclasses.asdict` gives it as JSON.

    name:       such as `clang`, `kernels for aarch64`, `device vulkan`.
    ok:         whether it can be used.
    detail:     what was found, in one line.
    how_to_get: what to do when it is not ok; None when it is.
    """

    name: str
    ok: bool
    detail: str
    how_to_get: str | None = None


def probe(store: Store | None = None) -> list[Check]:
    """Looks at everything; takes about a second. A thing that fails is a check that is not ok, never an exception."""
    with temporary_folders.folder() as name:
        folder = Path(name)
        return [
            *(_package(package) for package in ("iree-base-compiler", "iree-base-runtime")),
            *(_compiler(compiler, folder) for compiler in toolchains.NAMES),
            _llvm(folder),
            *(_kernels(arch) for arch in archs.ARCHS),
            *(_emulator(arch) for arch in archs.ARCHS if arch != archs.host_arch()),
            *(_shaders(language, folder) for language in shaders.COMPILERS),
            _validator(),
            *(_cuda_compiler(name, title, folder) for name, title in (("nvcc", "nvcc"), ("nvrtc", "NVRTC"))),
            _ptxas(folder),
            _cuda_kernels(),
            _cache(store),
            _host(),
            *_devices(),
            *map(_extra, _EXTRAS),
        ]


def _package(name: str) -> Check:
    how_to_get = f"pip install '{name}~={_IREE_VERSION}.0'"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(name, False, "not installed", how_to_get)
    if version.startswith(f"{_IREE_VERSION}."):
        return Check(name, True, version)
    return Check(name, False, f"{version}, but opsplice is made for {_IREE_VERSION}", how_to_get)


def _extra(name: str) -> Check:
    needed, extra, tested, before = _EXTRAS[name]
    how_to_get = f"pip install 'opsplice[{extra}]'" + f" ({before})" * bool(before)
    try:
        version = metadata.version(needed)
    except metadata.PackageNotFoundError:
        return Check(name, False, f"{needed} is not installed", how_to_get)
    if tested and not f"{version}.".startswith(f"{tested}."):
        return Check(name, False, f"{needed} {version}, but opsplice is tested with {tested}", how_to_get)
    return Check(name, True, f"by {needed} {version}")


def _compiler(name: str, folder: Path) -> Check:
    how_to_get = toolchains.HOW_TO_GET[name]
    source = folder / "probe.c"
    source.write_text(_PROBE_C, encoding="utf-8")
    try:
        toolchain = toolchains.find(name)
        if toolchain is None:
            return Check(name, False, "not found", how_to_get)
        version = toolchain.version()
    except OpspliceError as error:
        return Check(name, False, error.message, how_to_get)

    def build(target: CpuTarget, form: Form) -> None:
        toolchain.compile(source, folder / "probe.out", target, form, "c")

    built, reason = _try_all(build, toolchain.archs, toolchain.forms)
    if not built:
        return Check(name, False, f"{version} builds nothing: {reason}", f"{how_to_get} (install it again)")
    return Check(name, True, f"{version} builds {built}")


def _llvm(folder: Path) -> Check:
    source = folder / "probe.ll"
    source.write_text(_PROBE_IR, encoding="utf-8")
    try:
        version = llvm.version()
    except OpspliceError as error:
        return Check("llvmlite", False, error.message, error.hint)

    def build(target: CpuTarget, form: Form) -> None:
        llvm.compile_ir(source, folder / "probe.out", target, form)

    built, reason = _try_all(build, archs.ARCHS, ("object",))
    if not built:
        return Check("llvmlite", False, f"{version} builds nothing: {reason}", "pip install --force-reinstall llvmlite")
    return Check("llvmlite", True, f"{version} builds, from LLVM IR, {built}, and bitcode")


def _try_all(
    build: Callable[[CpuTarget, Form], None], arch_names: Iterable[archs.Arch], forms: Iterable[Form]
) -> tuple[str, str]:
    """What `build` can build, in words, and why it could not build the last thing that it could not."""
    built: dict[Form, list[str]] = {}
    reason = ""
    for form in forms:
        for arch in arch_names:
            try:
                build(CpuTarget(arch), form)
            except OpspliceError as error:
                reason = error.details.partition("\n")[0] or error.message
            else:
                built.setdefault(form, []).append(arch)
    return "; ".join(f"{toolchains.FORM_NAMES[form]} for {', '.join(names)}" for form, names in built.items()), reason


def _kernels(arch: archs.Arch) -> Check:
    name = f"C kernels for {arch}"
    chosen: dict[str, list[str]] = {}
    problem: OpspliceError | None = None
    forms: tuple[Form, ...] = ("object", "bitcode")
    for form in forms:
        try:
            toolchain = toolchains.choose(CpuTarget(arch), form)
            chosen.setdefault(toolchain.name, []).append(toolchains.FORM_NAMES[form])
        except OpspliceError as error:
            problem = error
    detail = "; ".join(f"{' and '.join(made)} by {by}" for by, made in chosen.items())
    if problem is None:
        return Check(name, True, detail)
    return Check(name, bool(chosen), f"{detail}; {problem.message}" if detail else problem.message, problem.hint)


def _emulator(arch: archs.Arch) -> Check:
    """What runs programs for another architecture here, as the tests of kernels do."""
    name = f"programs for {arch}"
    found = [each for each in (f"qemu-{arch}-static", f"qemu-{arch}") if shutil.which(each)]
    if not found:
        return Check(name, False, "nothing runs them here", "apt-get install qemu-user-static")
    return Check(name, True, f"run by {found[0]}")


def _shaders(language: shaders.Language, folder: Path) -> Check:
    name = f"{language} kernels for Vulkan"
    file, text = _PROBE_SHADERS[language]
    source = folder / file
    source.write_text(text, encoding="utf-8")
    try:
        compiler = shaders.choose(language, file)
    except OpspliceError:
        names = shaders.COMPILERS[language]
        return Check(name, False, f"no {' or '.join(names)} found", shaders.HOW_TO_GET[names[0]])
    try:
        version = compiler.version()
        compiler.compile(source, folder / "probe.spv", SpirvTarget())
    except OpspliceError as error:
        reason = error.details.partition("\n")[0] or error.message
        how_to_get = f"{shaders.HOW_TO_GET[compiler.name]} (install it again)"
        return Check(name, False, f"{compiler.name} builds nothing: {reason}", how_to_get)
    return Check(name, True, f"SPIR-V by {version}")


def _validator() -> Check:
    program = spirv_val.find()
    if program is None:
        return Check("spirv-val", False, "not found; SPIR-V modules are not validated", spirv_val.HOW_TO_GET)
    try:
        return Check("spirv-val", True, f"{spirv_val.version(program)} validates SPIR-V modules")
    except OpspliceError as error:
        return Check("spirv-val", False, error.message, spirv_val.HOW_TO_GET)


def _cuda_compiler(name: str, title: str, folder: Path) -> Check:
    how_to_get = cuda_compilers.HOW_TO_GET[name]
    source = folder / "probe.cu"
    source.write_text(_PROBE_CU, encoding="utf-8")
    try:
        compiler = cuda_compilers.find(name)
        if compiler is None:
            return Check(title, False, "not found", how_to_get)
        compiler.compile(source, folder / "probe.ptx", _usual(compiler))
    except OpspliceError as error:
        return Check(title, False, _reason(error), error.hint or f"{how_to_get} (install it again)")
    return Check(title, True, f"{compiler.version()} builds PTX for {compiler.range}")


def _usual(compiler: cuda_compilers.CudaCompiler) -> CudaTarget:
    return CudaTarget(80 if 80 in compiler.sms else max(compiler.sms, default=80))


def _ptxas(folder: Path) -> Check:
    assembler = ptxas.find()
    if assembler is None:
        return Check("ptxas", False, "not found; PTX is not assembled as a check", ptxas.HOW_TO_GET)
    module = folder / "assembled.ptx"
    module.write_text(_PROBE_PTX, encoding="utf-8")
    try:
        notes = ptxas.check(assembler, module, "a probe", "sm_80")
        version = ptxas.version(assembler)
    except OpspliceError as error:
        return Check("ptxas", False, _reason(error), f"{ptxas.HOW_TO_GET} (install it again)")
    if notes:
        return Check("ptxas", False, notes[0], f"{ptxas.HOW_TO_GET} (another release)")
    return Check("ptxas", True, f"{version} assembles PTX as a check")


def _cuda_kernels() -> Check:
    try:
        found = cuda_compilers.find_all()
    except OpspliceError as error:
        return Check("CUDA kernels", False, error.message, error.hint)
    if not found:
        return Check("CUDA kernels", False, "no compiler of CUDA sources", cuda_compilers.HOW_TO_GET["nvrtc"])
    return Check("CUDA kernels", True, "; ".join(f"{compiler.name} for {compiler.range}" for compiler in found))


def _reason(error: OpspliceError) -> str:
    first = error.details.strip().partition("\n")[0]
    return f"{error.message}: {first}" if first else error.message


def _cache(store: Store | None) -> Check:
    try:
        found = store or Store()
        found.check_writable()
    except OpspliceError as error:
        return Check("artifact cache", False, error.message, error.hint)
    note = " (no home folder: it goes with the process)" if cache.is_temporary(found.root) else ""
    return Check("artifact cache", True, f"{found.root}{note}")


def _host() -> Check:
    arch = archs.host_arch()
    if arch is None:
        return Check("host CPU", False, "not an architecture that kernels can be built for", f"use {archs.ARCHS}")
    return Check("host CPU", True, " ".join([arch, *sorted(archs.host_features())]))


def _devices() -> list[Check]:
    return [
        Check("device local-sync", True, "the CPU, in the calling thread"),
        Check("device local-task", True, "the CPU, in a pool of threads"),
        _vulkan(),
        _cuda(),
    ]


def _vulkan() -> Check:
    how_to_get = "apt-get install libvulkan1 mesa-vulkan-drivers, or the driver of your GPU's maker"
    if ctypes.util.find_library("vulkan") is None:
        return Check("device vulkan", False, "there is no libvulkan.so.1", how_to_get)
    named = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    if named:
        drivers = [Path(path).name for path in named.split(os.pathsep) if Path(path).is_file()]
    else:
        drivers = [file.name for folder in _VULKAN_DRIVER_FOLDERS for file in sorted(Path(folder).glob("*.json"))]
    if not drivers:
        return Check("device vulkan", False, "libvulkan.so.1 is there, but no driver", how_to_get)
    return Check("device vulkan", True, f"drivers: {', '.join(drivers)} (not tried)")


def _cuda() -> Check:
    if ctypes.util.find_library("cuda") is None:
        return Check("device cuda", False, "there is no libcuda.so.1", "install NVIDIA's driver")
    if not cuda_compilers.has_bindings():
        return Check("device cuda", True, "libcuda.so.1 is there (not tried)")
    try:
        version, gpus = cuda_compilers.gpus()
    except OpspliceError as error:
        return Check("device cuda", False, _reason(error), error.hint)
    return Check("device cuda", True, f"{', '.join(gpus)}; driver of CUDA {version}")
