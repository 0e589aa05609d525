"""The sample of a shader in WGSL that wgpu runs beside IREE: the command of its README, and numbers."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import opsplice
from tests import command_line
from tests.plain import Plain


@pytest.fixture
def sample(samples: Path, vulkan: None) -> Path:
    """The sample's folder. Skips where wgpu cannot run."""
    wgpu = pytest.importorskip("wgpu", reason="wgpu is not installed (pip install wgpu)")
    if not wgpu.gpu.enumerate_adapters_sync():
        pytest.skip("wgpu finds no device (apt-get install mesa-vulkan-drivers)")
    return samples / "wgsl_command"


def test_the_readme(sample: Path) -> None:
    command, result = re.findall(r"```\n(.*?)\n```", (sample / "README.md").read_text(), re.DOTALL)
    done = command_line.opsplice(*shlex.split(command)[1:], cwd=sample, check=True)
    assert done.stdout.splitlines() == [result]


@pytest.mark.cell("command", "WGSL", "runs")
@pytest.mark.parametrize(
    ("device", "counts"),
    # IREE's own dispatches of no rows fail on Vulkan.
    [("local-task", (0, 1, 77)), ("vulkan", (1, 77))],
)
def test_numbers_are_the_compilers_own(sample: Path, device: str, counts: tuple[int, ...]) -> None:
    target = "vulkan:llvmpipe" if device == "vulkan" else "cpu"
    program = opsplice.compile(sample / "model.mlir", [sample / "replace.splice"], targets=[target])
    assert [r.action for r in program.report.replacements] == ["command"]
    plain = Plain(sample / "model.mlir")
    random = np.random.default_rng(0)
    for rows in counts:
        inputs = [random.standard_normal(shape, np.float32) / 8 for shape in ((rows, 64), (64, 128), (128, 2))]
        result = program.run("layers", *inputs, device=device)
        np.testing.assert_allclose(result, plain.run("layers", *inputs), rtol=1e-4, atol=1e-5, err_msg=f"{rows} rows")
