"""The sample of PTX for two generations of GPUs: which one is in the program. It is compiled only."""

from __future__ import annotations

from pathlib import Path

import pytest

import opsplice


@pytest.mark.parametrize(
    ("chip", "taken"), [("sm_80", "sm80"), ("sm_89", "sm80"), ("sm_90", "sm90"), ("sm_100", "sm90"), ("sm_120", "sm90")]
)
def test_the_newest_that_the_target_takes(samples: Path, chip: str, taken: str) -> None:
    sample = samples / "cuda_dispatch"
    program = opsplice.compile(sample / "model.mlir", [sample / "replace.splice"], targets=[f"cuda:{chip}"])
    assert (sample / f"axpy_{taken}.ptx").read_bytes() in program.vmfb


def test_irees_own_code_is_for_a_gpu_that_it_knows(samples: Path) -> None:
    model = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n  %0 = math.exp %x : tensor<?xf32>\n"
    program = opsplice.compile(model + "  return %0 : tensor<?xf32>\n}\n", targets=["cuda:sm_90"])
    assert b".target sm_89" in program.vmfb
