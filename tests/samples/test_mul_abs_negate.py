"""The first sample: both specs, both shapes, against IREE's own interpreter and the program without a spec."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import iree.compiler
import numpy as np
import pytest

import opsplice
from opsplice.common.store import Store
from opsplice.targets.artifacts.artifact import ArtifactRequest, CpuTarget
from opsplice.targets.backends import cpu

TARGET = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]


@pytest.fixture(scope="module")
def sample(samples: Path) -> Path:
    return samples / "mul_abs_negate"


def inputs(n: int = 5) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal(size, np.float32) for size in (n, n, 10, 10)]


def expected(values: list[np.ndarray], plus: float) -> list[np.ndarray]:
    return [-np.abs(values[0] * values[1]) + np.float32(plus), -np.abs(values[2] * values[3]) + np.float32(plus)]


def assert_equal(results: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for result, want in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize("spec", ["replace.splice", "replace.mlir"])
@pytest.mark.parametrize("n", [1, 5, 64, 1000])
def test_the_kernel_runs_in_both_places(
    sample: Path, compiled: Callable[..., opsplice.Program], spec: str, n: int
) -> None:
    program = compiled(sample / "model.mlir", sample / spec)
    assert [r.location.rpartition("/")[2] for r in program.report.replacements] == [
        "model.mlir:8:13",
        "model.mlir:11:21",
    ]
    values = inputs(n)
    assert_equal(program.run("mixed_invocation", *values), expected(values, plus=1))


def test_without_a_spec_the_compilers_own_code_runs(sample: Path) -> None:
    values = inputs()
    program = opsplice.compile(sample / "model.mlir")
    assert program.report == opsplice.Report()
    assert_equal(program.run("mixed_invocation", *values), expected(values, plus=0))


def test_the_seeds_numbers(sample: Path, compiled: Callable[..., opsplice.Program]) -> None:
    program = compiled(sample / "model.mlir", sample / "replace.splice")
    values = [np.full(5, 7), np.full(5, 4), np.full(10, -4), np.full(10, 3)]
    results = program.run("mixed_invocation", *(v.astype(np.float32) for v in values))
    assert_equal(results, [np.full(5, -27, np.float32), np.full(10, -11, np.float32)])


def test_our_engine_replaces_what_irees_interpreter_does(sample: Path, tmp_path: Path) -> None:
    """The hand-written transform spec, unchanged but for the object's path, in stock iree-compile."""
    program = opsplice.compile(sample / "model.mlir", [sample / "replace.splice"])

    request = ArtifactRequest(sample / "functions.c", ("mul_abs_negate",))
    artifact = cpu.resolve(request, CpuTarget.of("x86_64"), Store())
    shutil.copy(artifact.path, tmp_path / "functions.o")
    text = (sample / "replace.mlir").read_text().replace('"functions.c"', f'"{tmp_path / "functions.o"}"')
    (tmp_path / "replace.mlir").write_text(text)
    command = [shutil.which("iree-compile") or Path(iree.compiler.__file__).parent / "_mlir_libs/iree-compile"]
    command += [sample / "model.mlir", *TARGET, f"--iree-preprocessing-transform-spec-filename={tmp_path}/replace.mlir"]

    early = subprocess.run([*command, "--compile-to=preprocessing"], capture_output=True, text=True, check=True)
    assert early.stdout.count("util.call @call_mul_abs_negate(") == len(program.report.replacements) == 2

    subprocess.run([*command, "-o", tmp_path / "stock.vmfb"], capture_output=True, check=True)
    stock = opsplice.runtime.loaded_program.load_program(tmp_path / "stock.vmfb")
    values = inputs(77)
    assert_equal(program.run("mixed_invocation", *values), stock.call("mixed_invocation", *values))
