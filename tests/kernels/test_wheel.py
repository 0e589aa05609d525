"""The wheel of the kernels with objects in it: it needs no compiler, and has code for more than one CPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.targets.artifacts import arch as archs

KERNELS = Path(__file__).parents[2] / "kernels"
MODEL = """
func.func @main(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %e = tensor.empty() : tensor<4x64xf32>
  %s = linalg.softmax dimension(1) ins(%x : tensor<4x64xf32>) outs(%e : tensor<4x64xf32>) -> tensor<4x64xf32>
  return %s : tensor<4x64xf32>
}
"""


# A call of C's memset makes it bitcode in the wheel, as convolutions are.
CLEARING = """
kernel cleared(x: f32[n]) -> f32[n] { cpu "cleared.c" }
pattern doubled(x: tensor<n x f32>) { addf(x, x) }
replace doubled with cleared(x)
"""
CODE = "#include <string.h>\nvoid cleared(const float *x, float *out, size_t n) { memset(out, 0, n * sizeof *out); }\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of one family in it, as pip installs it."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(KERNELS, folder / "kernels", ignore=shutil.ignore_patterns("build", "dist", "*.egg-info"))
    (folder / "kernels/opsplice_kernels/clearing.splice").write_text(CLEARING)
    (folder / "kernels/opsplice_kernels/cleared.c").write_text(CODE)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    make = ["make", "wheel", "PARTS=rows clearing", f"TARGETS={archs.host_arch()}", "PIP_FLAGS=--no-build-isolation"]
    done = subprocess.run(
        make, cwd=folder / "kernels", env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = (folder / "kernels/dist").glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target"]
    subprocess.run([*install, folder / "site", wheel], check=True)
    return folder / "site"


def test_each_file_that_a_spec_names_is_there(site: Path) -> None:
    named = {
        file
        for spec in site.glob("opsplice_kernels/*.splice")
        for file in re.findall(rf'"({archs.host_arch()}/\S+)"', spec.read_text())
    }
    assert {Path(file).suffix for file in named} == {".o", ".bc"}
    assert [file for file in named if not (site / "opsplice_kernels" / file).is_file()] == []


def test_no_compiler_is_needed_and_the_cpu_says_which_object_is_taken(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert not [path for path in site.rglob("*") if path.suffix in (".c", ".h")]
    cpus, taken = ("skylake-avx512", "haswell", "generic") if archs.host_arch() == "x86_64" else ("generic",), set()
    for cpu in cpus:
        flags = [f"--iree-llvmcpu-target-cpu={cpu}"]
        program = opsplice.compile(MODEL, ["opsplice_kernels:rows"], flags=flags, no_code=True)
        (made,) = program.report.replacements
        taken.add(made.artifacts[0].source)
        assert made.artifacts[0].source.startswith(f"{site}/opsplice_kernels/{archs.host_arch()}/softmax-")
    assert len(taken) == len(cpus)
    np.testing.assert_allclose(program.run("main", np.zeros((4, 64), np.float32)), 1 / 64, rtol=1e-6)
