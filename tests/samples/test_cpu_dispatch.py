"""The sample of a whole dispatch on the CPU: the command of its README, and numbers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import opsplice
from tests import command_line
from tests.plain import Plain


def test_the_readme(samples: Path) -> None:
    sample = samples / "cpu_dispatch"
    command, result = re.findall(r"```\n(.*?)\n```", (sample / "README.md").read_text(), re.DOTALL)
    done = command_line.opsplice(*shlex.split(command)[1:], cwd=sample, check=True)
    assert done.stdout.splitlines() == [result]


@pytest.mark.parametrize("device", ["local-sync", "local-task"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (64, 1000)])
def test_numbers_are_the_compilers_own(
    samples: Path, compiled: Callable[..., opsplice.Program], device: str, shape: tuple[int, int]
) -> None:
    sample = samples / "cpu_dispatch"
    program = compiled(sample / "model.mlir", sample / "replace.splice")
    assert [r.action for r in program.report.replacements] == ["static dispatch"]
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    plain = Plain(sample / "model.mlir").run("main", x)
    np.testing.assert_allclose(program.run("main", x, device=device), plain, rtol=1e-5)
