"""The names of chips: those that IREE takes are taken, and no other comes to IREE, which would crash."""

from __future__ import annotations

import re

import pytest

from opsplice.cli import main
from opsplice.common.errors import OpspliceError
from opsplice.frontends import ModuleSource
from opsplice.pipeline import chips
from opsplice.pipeline.compiler import Compilation, run
from opsplice.pipeline.devices import target_step
from opsplice.rewrites.ir.executable_targets import ProgramTarget, targets_of


def target(text: str) -> ProgramTarget:
    with Compilation() as compilation:
        compilation.load(ModuleSource(content="module {}"))
        run(compilation, [target_step([text], [])], to="preprocessing")
        (found,) = targets_of(compilation.module)
        return found


@pytest.mark.parametrize("device", chips.CHIPS)
def test_iree_knows_each_of_them(device):
    for chip in chips.CHIPS[device]:
        assert target(f"{device}:{chip}").arch, chip


@pytest.mark.parametrize(
    ("text", "arch", "built"),
    [
        ("cuda:sm_80", "sm_80", "sm_80"),
        ("cuda:SM_80", "sm_80", "sm_80"),
        ("cuda:sm_88", "sm_88", "sm_87"),
        ("cuda:sm_90a", "sm_90a", "sm_89"),
        ("cuda:sm_100f", "sm_100f", "sm_89"),
        ("cuda:ada", "sm_89", "sm_89"),
        ("vulkan:RDNA3", "rdna3", "rdna3"),
        ("vulkan:gfx1030", "gfx1030", ""),
        ("vulkan:adreno-750", "adreno-750", "adreno-750"),
        ("rocm:mi300x", "gfx942", "gfx942"),
    ],
)
def test_the_chip_that_is_meant_and_the_one_that_code_is_for(text, arch, built):
    found = target(text)
    assert found.arch == arch
    assert f'#iree_gpu.target<arch = "{built}"' in found.text


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("cuda:TYPO", "knows no chip 'TYPO' for cuda", "sm_80"),
        ("cuda:80", "knows no chip '80' for cuda", "did you mean sm_80"),
        ("cuda:sm_10", "knows no chip 'sm_10' for cuda", "the oldest that IREE 3.13 knows is sm_60"),
        ("vulkan:llvmpip", "knows no chip 'llvmpip' for vulkan", "did you mean llvmpipe?"),
        ("vulkan:", "knows no chip '' for vulkan", "llvmpipe"),
        ("rocm:gfx43", "knows no chip 'gfx43' for rocm", "gfx942"),
        ("rocm", "does not say for which chip", "rocm:gfx942"),
        ("metal:m1", "names a chip, but metal has no chips to choose from", None),
    ],
)
def test_other_names(text, message, hint):
    with pytest.raises(OpspliceError, match=re.escape(message)) as error:
        target_step([text], [])
    assert hint is None or hint in error.value.hint


def test_a_flag_says_the_chip():
    assert target_step(["rocm"], ["--iree-rocm-target=gfx942"]).phase == "start"


@pytest.mark.parametrize("text", ["", ",", "vulkan,,cpu"])
def test_no_name(text, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["match", "x.mlir", "--spec=x.splice", f"--target={text}"])
    assert exit_.value.code == 2
    assert "lacks a name" in capsys.readouterr().err
