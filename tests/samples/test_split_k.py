"""The sample of a product whose sum is split over workgroups: two kernels, and what lies between them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplice


@pytest.mark.parametrize(("spec", "kernel"), [("replace.splice", "combine"), ("atomics.splice", "add_partial")])
def test_parts_of_a_sum_are_added(samples: Path, spec: str, kernel: str) -> None:
    sample = samples / "split_k"
    program = opsplice.compile(sample / "model.mlir", [sample / spec])
    assert [r.kernel for r in program.report.replacements] == [kernel]
    x = np.random.default_rng(0).standard_normal((4, 4096), np.float32)
    wanted = x.astype(np.float64) @ np.full((4096, 10), 0.5)
    for device in ("local-sync", "local-task"):
        np.testing.assert_allclose(program.run("classify", x, device=device), wanted, rtol=1e-3, atol=1e-3)
