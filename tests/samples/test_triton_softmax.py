"""The sample of a softmax in Triton: what is in programs for GPUs, and what it computes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import opsplice

pytest.importorskip("triton", reason="triton is not installed (pip install 'opsplice[triton]')")

CODE = {
    "cuda:sm_80": [b".entry softmax_rows_", b".reqntid 64", b"ld.global.v4.b32"],
    "rocm:gfx942": [b"gfx942", b".reqd_workgroup_size"],
    "rocm:gfx1100": [b"gfx1100", b".reqd_workgroup_size"],
}


@pytest.mark.parametrize("target", CODE)
def test_what_triton_made_is_in_the_program(samples: Path, tmp_path: Path, monkeypatch, target: str) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    sample = samples / "triton_softmax"
    program = opsplice.compile(sample / "model.mlir", [sample / "replace.splice"], targets=[target])
    assert [use.kernel for use in program.report.replacements] == ["softmax_rows"] * 2
    for part in CODE[target]:
        assert part in program.vmfb


def test_the_function_is_a_softmax(samples: Path) -> None:
    pytest.importorskip("torch")
    script = "import torch; from softmax import softmax; x = torch.randn(5, 100)\n"
    script += "torch.testing.assert_close(softmax(x), torch.softmax(x, 1))"
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", script], cwd=samples / "triton_softmax", env=environment, check=True)
