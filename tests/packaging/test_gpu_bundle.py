"""The bundle for machines with a GPU: built for the CPU it runs here, built for CUDA it asks for a driver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scripts import gpu_bundle

ROOT = Path(__file__).parents[2]


def python(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


# Each kernel once.
SMALL = ["scale_bias", "quick_gelu", "matmul_70x300x33", "softmax_33x1000", "layernorm_33x1000", "nibbles_3x40x96"]
FOR_THE_CPU = [*SMALL, "attention_3x40x70", "attention_32x1x128"]
FOR_CUDA = ["scale_bias_ir", *SMALL, "attention_32x1x128", "attention_16x32x32"]


def built(folder: Path, target: str, names: list[str]) -> Path:
    archive = folder / "bundle.tar.gz"
    options = [*names, f"--target={target}", f"--output={archive}", "--large=128", "--no-wheels"]
    assert gpu_bundle.main(options) == 0
    unpacked = folder / "elsewhere"
    unpacked.mkdir()
    subprocess.run(["tar", "xf", archive, "-C", unpacked], check=True)
    return unpacked / "bundle"


@pytest.fixture(scope="module")
def for_the_cpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("cpu"), "cpu", FOR_THE_CPU)


@pytest.mark.parametrize("device", ["local-sync", "local-task"])
def test_the_numbers_on_the_cpu(for_the_cpu: Path, device: str) -> None:
    done = python(for_the_cpu / "check.py", f"--device={device}", "--rounds=2")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(device)
    assert lines[-1] == "all numbers are right"
    cases = json.loads((for_the_cpu / "programs.json").read_text())["cases"]
    assert {case["name"] for case in cases} == set(FOR_THE_CPU)
    assert sum(" right " in line for line in lines) == sum(len(case["calls"]) for case in cases)
    assert sum(" us " in line for line in lines) == 3


def test_wrong_numbers(for_the_cpu: Path) -> None:
    wanted = for_the_cpu / "expected" / "softmax_33x1000.33x1000.kernel.npy"
    right = np.load(wanted)
    np.save(wanted, right + np.float32(0.01))
    try:
        done = python(for_the_cpu / "check.py", "--rounds=1")
    finally:
        np.save(wanted, right)
    assert done.returncode == 1
    assert "softmax_33x1000 33x1000, kernel: WRONG NUMBERS, off by up to 0.0" in done.stdout
    assert done.stdout.splitlines()[-1] == "2 wrong"  # IREE's own code is compared with the same numbers


def test_a_device_that_is_not_there(for_the_cpu: Path) -> None:
    done = python(for_the_cpu / "check.py", "--device=nonsense")
    assert done.returncode == 2
    assert "device 'nonsense' cannot be opened" in done.stderr


def test_for_cuda(tmp_path: Path) -> None:
    bundle = built(tmp_path, "cuda:sm_80", FOR_CUDA)
    cases = {case["name"] for case in json.loads((bundle / "programs.json").read_text())["cases"]}
    assert {"scale_bias_ir", "quick_gelu"} <= cases  # whatever compilers of CUDA C there are
    if "layernorm_33x1000" in cases:  # with nvcc or NVRTC
        for name, kernel in (("attention_32x1x128", "attention_row"), ("attention_16x32x32", "attention_tile")):
            assert f".entry {kernel}(".encode() in (bundle / f"programs/{name}.kernel.vmfb").read_bytes()
    assert b".entry scale_bias(" in (bundle / "programs/scale_bias_ir.kernel.vmfb").read_bytes()
    done = python(bundle / "check.py", "--rounds=2")
    if done.returncode == 2:
        assert "there is no CUDA driver here" in done.stderr
    else:
        assert done.returncode == 0, done.stdout + done.stderr
