"""The sample with one kernel for the CPU, Vulkan and CUDA: the commands of its README."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts.artifact import CudaTarget
from opsplice.targets.build import cuda_compilers, shaders
from tests import command_line
from tests.environment import under
from tests.plain import Plain


@pytest.fixture
def sample(tmp_path: Path, samples: Path) -> Path:
    """A folder with the sample, to write into."""
    return Path(shutil.copytree(samples / "dispatches", tmp_path / "sample"))


def _needs_compilers() -> None:
    try:
        under(os.environ, shaders.choose, "GLSL", "scale_bias.comp")
        cuda_compilers.choose(CudaTarget(80))
    except OpspliceError as error:
        pytest.skip(f"{error.message} ({error.hint})")


def test_the_readme(sample: Path, vulkan: None) -> None:
    _needs_compilers()
    blocks = re.findall(r"```\n(.*?)```", (sample / "README.md").read_text(), re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines() if line.startswith("opsplice ")]
    results = [line for block in blocks for line in block.splitlines() if line.startswith("result[0]")]
    assert (len(commands), len(results)) == (3, 1)
    for line in commands:
        done = command_line.opsplice(*shlex.split(line)[1:], cwd=sample, check=True)
        assert done.stdout.splitlines() == results * (" run " in line)


LANGUAGES: dict[str, shaders.Language] = {"comp": "GLSL", "slang": "Slang", "wgsl": "WGSL"}


@pytest.mark.parametrize("suffix", LANGUAGES)
def test_numbers_are_the_compilers_own(sample: Path, vulkan: None, suffix: str) -> None:
    try:
        under(os.environ, shaders.choose, LANGUAGES[suffix], f"scale_bias.{suffix}")
    except OpspliceError as error:
        pytest.skip(f"{error.message} ({error.hint})")
    spec = sample / "replace.splice"
    text = spec.read_text().replace('  cuda "scale_bias.cu"\n', "")
    spec.write_text(text.replace("scale_bias.comp", f"scale_bias.{suffix}"))
    program = opsplice.compile(sample / "model.mlir", [spec], targets=["vulkan:llvmpipe", "cpu"])
    assert len(program.report.replacements) == 1
    plain = Plain(sample / "model.mlir")
    rng = np.random.default_rng(0)
    for shape in ((1, 1), (3, 200), (70, 64)):
        inputs = (rng.standard_normal(shape, np.float32), np.float32(0.5), rng.standard_normal(shape[1], np.float32))
        wanted = plain.run("main", *inputs)
        for device in ("vulkan", "local-task", "local-sync"):
            result = program.run("main", *inputs, device=device)
            np.testing.assert_allclose(result, wanted, rtol=1e-5, err_msg=f"{shape} on {device}")
