"""The sample of generated kernels: a softmax written for each length of rows, against the compiler's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.targets.build import shaders
from tests.plain import Plain

SHAPES = {"eights": (4, 8), "fives": (3, 5), "any": (7, 33)}


@pytest.fixture(scope="module")
def plain(samples: Path) -> Plain:
    return Plain(samples / "generated_kernel" / "model.mlir")


def check(program: opsplice.Program, plain: Plain, device: str) -> None:
    random = np.random.default_rng(0)
    for name, shape in SHAPES.items():
        x = 10 * random.standard_normal(shape, np.float32)
        np.testing.assert_allclose(program.run(name, x, device=device), plain.run(name, x), rtol=1e-4, atol=1e-6)


def test_on_the_cpu(samples: Path, plain: Plain) -> None:
    sample = samples / "generated_kernel"
    program = opsplice.compile(sample / "model.mlir", [sample / "replace.splice"])
    assert [r.action for r in program.report.replacements] == ["static function"] * 3
    assert len({r.artifacts[0].path for r in program.report.replacements}) == 3
    for device in ("local-sync", "local-task"):
        check(program, plain, device)


@pytest.mark.usefixtures("vulkan")
def test_on_vulkan(samples: Path, plain: Plain) -> None:
    if shaders.find("glslang") is None:
        pytest.skip("glslang is not installed")
    sample = samples / "generated_kernel"
    program = opsplice.compile(sample / "model.mlir", [sample / "replace.splice"], targets=["vulkan"])
    assert [r.action for r in program.report.replacements] == ["static dispatch"] * 3
    check(program, plain, "vulkan")
