"""The sample of a library: built to a wheel, installed in a fresh environment, and used there by its name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import opsplice

# What runs in the environment, that has this one's packages besides.
USE = """
import json
import sys

import numpy as np
import opsplice

x = np.random.default_rng(0).standard_normal((3, 64), np.float32)
gain = np.linspace(0.5, 2, 64, dtype=np.float32)
normed = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * gain
for spec in sys.argv[2:]:
    program = opsplice.compile(sys.argv[1], [spec])
    np.testing.assert_allclose(program.run("main", x, gain), normed / (1 + np.exp(-normed)), rtol=1e-5, atol=1e-6)
    print(json.dumps([[r.pattern, r.kernel, r.artifacts[0].source] for r in program.report.replacements if not r.lost]))
assert "tiny_layers" not in sys.modules
(library,) = [each for each in opsplice.libraries() if each.name == "tiny_layers"]
print(json.dumps([library.version, library.license, library.folder, [part.name for part in library.parts]]))
"""


@pytest.fixture(scope="module")
def sample(samples: Path) -> Path:
    return samples / "library"


@pytest.fixture(scope="module")
def wheel(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # A build leaves files among the sources.
    copy = folder / "tiny_layers"
    subprocess.run(["cp", "-r", str(sample / "tiny_layers"), str(copy)], check=True)
    pip("wheel", "--no-build-isolation", "--wheel-dir", str(folder), str(copy))
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel in it, and opsplice as it is installed here."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    made = folder / "bin" / "python"
    pip("--python", str(made), "install", str(wheel))
    (site,) = folder.glob("lib/*/site-packages")
    here = sysconfig.get_path("purelib")
    (site / "opsplice_of_the_tests.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    return made


def pip(*arguments: str) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        *arguments,
        "--no-deps",
        "--no-index",
        "--quiet",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_wheel_is_for_every_platform_and_has_the_specs(wheel: Path) -> None:
    assert wheel.name == "tiny_layers-1.0-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("tiny_layers.splice", "rms_norm.splice", "rms_norm.c", "swish.splice", "swish.c"):
        assert f"tiny_layers/specs/{name}" in names


def test_it_is_used_by_its_name_where_it_is_installed(python: Path, sample: Path, tmp_path: Path) -> None:
    script = tmp_path / "use.py"
    script.write_text(USE)
    command = [
        str(python),
        str(script),
        str(sample / "use/model.mlir"),
        "tiny_layers",
        str(sample / "use/own_kernel.splice"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=os.environ)
    assert done.returncode == 0, done.stderr
    by_name, by_import, about = map(json.loads, done.stdout.splitlines())
    folder = next(python.parent.parent.glob("lib/*/site-packages/tiny_layers/specs"))
    assert by_name == [
        ["rms_norm", "rms_norm_rows", f"{folder}/rms_norm.c"],
        ["swish", "swish_all", f"{folder}/swish.c"],
    ]
    assert by_import == [
        ["rms_norm", "rms_norm_rows", f"{folder}/rms_norm.c"],
        ["swish", "swish_all", f"{sample}/use/own_swish.c"],
    ]
    assert about == [
        "1.0",
        "Apache-2.0 WITH LLVM-exception",
        str(folder),
        ["tiny_layers:rms_norm", "tiny_layers:swish", "tiny_layers:tiny_layers"],
    ]


def test_it_passes_its_check(sample: Path) -> None:
    findings = opsplice.check_library(sample / "tiny_layers")
    assert {finding.outcome for finding in findings} == {"ok"}
    assert {f.subject for f in findings if f.step == "numbers"} == {"rms_norm", "swish"}
