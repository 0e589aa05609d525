"""The sample of a function on elements: run on the CPU and with Vulkan, compiled for the other backends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.compiling import plugin_kernels
from opsplice.targets.build import shaders

VULKAN = ["--iree-hal-target-device=vulkan", "--iree-vulkan-target=llvmpipe"]
OTHERS = {
    "cuda": ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"],
    "rocm": ["--iree-hal-target-device=hip", "--iree-rocm-target=gfx942"],
    "metal": ["--iree-hal-target-device=metal"],
}


@pytest.fixture(scope="module")
def sample(samples: Path) -> Path:
    return samples / "scalar_functions"


@pytest.fixture
def vulkan() -> str:
    import iree.runtime

    try:
        devices = iree.runtime.get_driver("vulkan").query_available_devices()
    except (RuntimeError, ValueError, KeyError):
        devices = []
    if not any("llvmpipe" in str(device["name"]) for device in devices):
        pytest.skip("no Vulkan device on the CPU (install mesa-vulkan-drivers)")
    return "vulkan"


def compiled(sample: Path, flags: list[str]) -> opsplice.Program:
    program = opsplice.compile(sample / "model.mlir", [sample / "replace.splice"], flags)
    (done,) = program.report.replacements
    assert (done.pattern, done.kernel) == ("gelu_tanh", "quick_gelu")
    return program


def check(program: opsplice.Program, device: str, plugins: Sequence[Path] = ()) -> None:
    """The function's numbers differ from those of gelu by up to 0.02."""
    random = np.random.default_rng(0)
    for rows in (1, 7, 32):
        x, w = random.standard_normal((rows, 64), np.float32), random.standard_normal((64, 64), np.float32)
        y = x.astype(np.float64) @ w
        wanted = y / (1 + np.exp(-1.702 * y)) + x
        np.testing.assert_allclose(program.run("main", x, w, device=device, plugins=plugins), wanted, atol=1e-4)


@pytest.mark.parametrize("device", ["local-sync", "local-task"])
def test_on_the_cpu(sample: Path, device: str) -> None:
    check(compiled(sample, []), device)


def test_with_vulkan(sample: Path, vulkan: str) -> None:
    check(compiled(sample, VULKAN), vulkan)


def test_from_a_plugin(sample: Path, vulkan: str, tmp_path: Path) -> None:
    if shaders.find("naga") is None:
        pytest.skip(f"naga is not installed ({shaders.HOW_TO_GET['naga']})")
    program = opsplice.compile(sample / "model.mlir", [sample / "late.splice"], VULKAN)
    assert [r.action for r in program.report.replacements] == ["dynamic function"]
    check(program, vulkan, [sample / "quick_gelu.wgsl"])
    plugin = tmp_path / "quick_gelu.spv"
    plugin.write_bytes(plugin_kernels.build(sample / "late.splice", ".spv").data)
    check(program, vulkan, [plugin])


@pytest.mark.parametrize("backend", OTHERS)
def test_for_other_backends_it_compiles(sample: Path, backend: str) -> None:
    assert compiled(sample, OTHERS[backend]).vmfb
