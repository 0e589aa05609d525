"""What the doctor says of this machine."""

import dataclasses
import json
from pathlib import Path

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store
from opsplice.targets import doctor
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.build import cuda_compilers, programs, ptxas, shaders, spirv_val, toolchains
from tests.environment import under


def probed(store, environment):
    return {check.name: check for check in under(environment, doctor.probe, store)}


@pytest.fixture(scope="module")
def checks(tmp_path_factory):
    return probed(Store(tmp_path_factory.mktemp("cache")), {})


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """What is said where every compiler is there and broken, or named and not there."""
    clang = toolchains.Toolchain("clang", "clang", ("/bin/false",), archs.ARCHS)
    nvcc = cuda_compilers.CudaCompiler("nvcc", "nvcc", ("/bin/false",), "0", frozenset({80}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(toolchains._FINDERS, "clang", lambda: clang)
        patch.setattr(toolchains.Toolchain, "version", lambda self: "clang 0")
        patch.setitem(cuda_compilers._FINDERS, "nvcc", lambda: nvcc)
        patch.setitem(cuda_compilers._FINDERS, "nvrtc", lambda: None)
        patch.setattr(ptxas, "find", lambda: "/bin/false")
        environment = {"OPSPLICE_CC": "/no/such/cc", "OPSPLICE_CUDA_CC": "nvrtc"}
        yield probed(Store(tmp_path_factory.mktemp("cache")), environment)


def test_every_check_is_json_and_says_what_to_do(checks):
    for check in checks.values():
        assert json.loads(json.dumps(dataclasses.asdict(check)))["detail"]
        assert check.ok or check.how_to_get


def test_compilers_are_judged_by_what_they_build(checks):
    for name in toolchains.NAMES:
        assert checks[name].ok == (toolchains.find(name) is not None)
        if checks[name].ok:
            assert archs.host_arch() in checks[name].detail


def test_compilers_of_cuda_sources_are_judged_by_what_they_build(checks):
    for name, title in (("nvcc", "nvcc"), ("nvrtc", "NVRTC")):
        assert checks[title].ok == (cuda_compilers.find(name) is not None)
        assert not checks[title].ok or "builds PTX for sm_" in checks[title].detail
    assert checks["ptxas"].ok == (ptxas.find() is not None)


def test_broken_cuda_tools_are_not_ok(broken):
    assert "cannot compile probe.cu" in broken["nvcc"].detail
    assert broken["NVRTC"].how_to_get == "pip install 'opsplice[cuda]'"
    assert "refuses a probe" in broken["ptxas"].detail
    assert "asks for nvrtc" in broken["CUDA kernels"].detail


def test_the_driver_is_asked_for_its_gpus(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor.ctypes.util, "find_library", lambda name: "libcuda.so.1")
    monkeypatch.setattr(cuda_compilers, "has_bindings", lambda: True)
    for text, ok, said in (
        (
            'print(\'{"version": "13.0", "gpus": ["NVIDIA H200 (sm_90)"]}\')',
            True,
            "NVIDIA H200 (sm_90); driver of CUDA 13.0",
        ),
        ("raise SystemExit('CUDA_ERROR_NO_DEVICE (100)')", False, "the CUDA driver failed: CUDA_ERROR_NO_DEVICE (100)"),
    ):
        (tmp_path / "worker.py").write_text(text)
        monkeypatch.setattr(cuda_compilers, "_WORKER", tmp_path / "worker.py")
        check = doctor._cuda()
        assert (check.ok, check.detail) == (ok, said)
        assert ok or check.how_to_get


def test_extras_say_how_to_get_them(checks, store, monkeypatch):
    assert checks["packages of registries"].detail.startswith("by requests 2.")
    assert checks["signatures of packages"].ok
    assert set(doctor._EXTRAS) <= set(checks)

    def absent(name):
        raise doctor.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "version", absent)
    assert doctor._extra("packages of registries").how_to_get == "pip install 'opsplice[registry]'"
    torch = doctor._extra("PyTorch models")
    assert (torch.ok, torch.detail) == (False, "torch is not installed")
    assert torch.how_to_get.startswith("pip install 'opsplice[torch]' (without a GPU, install PyTorch's CPU build")


@pytest.mark.parametrize("name", [name for name, (_, _, tested, _) in doctor._EXTRAS.items() if tested])
def test_frontends_are_judged_by_their_release(name, monkeypatch):
    needed, _, tested, _ = doctor._EXTRAS[name]
    pins = (Path(__file__).parent.parent.parent / "constraints.txt").read_text().splitlines()
    assert any(pin.startswith(f"{needed}=={tested}.") for pin in pins)
    for version, ok in ((f"{tested}.0+cpu", True), (tested, True), (f"{tested}1.0", False), ("0.1", False)):
        monkeypatch.setattr(doctor.metadata, "version", lambda _name, version=version: version)
        check = doctor._extra(name)
        assert (check.ok, check.how_to_get is None) == (ok, ok)
        assert version in check.detail


def test_llvmlite_builds_for_every_architecture(checks):
    assert checks["llvmlite"].ok
    assert all(arch in checks["llvmlite"].detail for arch in archs.ARCHS)


def test_iree_is_the_release_that_this_is_made_for(checks):
    assert checks["iree-base-compiler"].ok
    assert checks["iree-base-compiler"].detail.startswith("3.13.")


def test_the_cpu_can_always_run(checks):
    assert checks["device local-sync"].ok
    assert checks["device local-task"].ok


def test_a_cache_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    checks = probed(Store(tmp_path / "file"), {})
    assert not checks["artifact cache"].ok
    assert "OPSPLICE_CACHE" in checks["artifact cache"].how_to_get


def test_a_compiler_that_builds_nothing_is_not_ok(broken):
    assert not broken["clang"].ok
    assert "builds nothing" in broken["clang"].detail


def test_an_override_that_is_not_there_is_told(broken):
    assert not broken["C kernels for x86_64"].ok
    assert "/no/such/cc" in broken["C kernels for x86_64"].detail


def test_vulkan_needs_a_loader_and_a_driver(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor.ctypes.util, "find_library", lambda name: f"lib{name}.so.1")
    driver = tmp_path / "driver.json"
    monkeypatch.setenv("VK_DRIVER_FILES", str(driver))
    assert not doctor._vulkan().ok
    driver.write_text("{}")
    assert doctor._vulkan().ok


def test_shader_compilers_are_judged_by_what_they_build(checks):
    for language, names in shaders.COMPILERS.items():
        found = checks[f"{language} kernels for Vulkan"]
        assert found.ok == any(shaders.find(name) for name in names)
        assert found.ok == found.detail.startswith("SPIR-V by ")
    assert checks["spirv-val"].ok == (spirv_val.find() is not None)


def test_shader_compilers_that_are_not_there_are_told(store, monkeypatch):
    monkeypatch.setattr(programs, "package_folder", lambda name: None)
    checks = probed(store, {"PATH": ""})
    remedies = {name: checks[f"{name} kernels for Vulkan"].how_to_get for name in shaders.COMPILERS}
    assert remedies == {
        "GLSL": "apt-get install glslang-tools",
        "Slang": "pip install --no-deps slangtorch",
        "WGSL": "npm install --global naga-wasm@30.1.0",
    }
    assert checks["GLSL kernels for Vulkan"].detail == "no glslang or glslc found"
    assert checks["spirv-val"].how_to_get == "apt-get install spirv-tools"


def test_a_shader_compiler_that_builds_nothing_is_not_ok(monkeypatch, store):
    broken = shaders.ShaderCompiler("glslang", ("/bin/false",))
    monkeypatch.setitem(shaders._FINDERS, "glslang", lambda: broken)
    check = next(check for check in under({}, doctor.probe, store) if check.name == "GLSL kernels for Vulkan")
    assert not check.ok
    assert "builds nothing: it ended with status 1" in check.detail


def test_a_failing_home_is_a_check_not_an_exception(monkeypatch):
    def fail():
        raise OpspliceError("no home folder to keep the artifact cache in", hint="set OPSPLICE_CACHE")

    monkeypatch.setattr(doctor, "Store", fail)
    assert not doctor._cache(None).ok


def test_emulators_of_other_architectures(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: name if name == "qemu-riscv64" else None)
    assert doctor._emulator("riscv64").detail == "run by qemu-riscv64"
    assert doctor._emulator("aarch64").how_to_get == "apt-get install qemu-user-static"
