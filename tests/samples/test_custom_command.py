"""The sample of commands: numpy's matrix product in a program, against the compiler's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import opsplice
from tests.plain import Plain


@pytest.mark.parametrize("device", ["local-sync", "local-task"])
@pytest.mark.parametrize("rows", [1, 7, 256])
def test_numpy_multiplies(samples: Path, compiled: Callable[..., opsplice.Program], device: str, rows: int) -> None:
    sample = samples / "custom_command"
    program = compiled(sample / "model.mlir", sample / "matmul.splice")
    assert [r.action for r in program.report.replacements] == ["command", "command"]
    random = np.random.default_rng(0)
    x, w1, w2 = (random.standard_normal(shape, np.float32) for shape in ((rows, 64), (64, 128), (128, 32)))
    result = program.run("layers", x, w1, w2, device=device)
    np.testing.assert_allclose(result, np.tanh(x @ w1) @ w2, rtol=1e-4, atol=1e-4)
    plain = Plain(sample / "model.mlir").run("layers", x, w1, w2)
    np.testing.assert_allclose(result, plain, rtol=1e-3, atol=1e-4)
