"""The sample that calls OpenBLAS: what its README says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import command_line


def test_openblas_by_the_command_line(samples: Path) -> None:
    found = subprocess.run(
        ["cc", "-x", "c", "-fsyntax-only", "-"], input="#include <cblas.h>", text=True, capture_output=True, check=False
    )
    if found.returncode:
        pytest.skip("there is no cblas.h: apt-get install libopenblas-dev")
    folder = samples / "blas"
    _, told = (folder / "README.md").read_text().split("$ opsplice ", 1)
    line, _, wanted = told.partition("```")[0].partition("\n")
    done = command_line.opsplice(*line.split(), cwd=folder)
    assert done.stderr + done.stdout == wanted
