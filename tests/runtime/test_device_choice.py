"""Devices that nobody names: the target chooses one, and a device its target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice import cli
from opsplice.common.errors import OpspliceError
from opsplice.runtime.device_choice import devices_for, first_at_hand, targets_for

MODEL = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = arith.addf %x, %x : tensor<4xf32>
  return %r : tensor<4xf32>
}
"""
RESULT = "result[0]: 4xf32=4 4 4 4\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "model.mlir").write_text(MODEL)
    monkeypatch.chdir(tmp_path)

    def run(*options: str, model: str = "model.mlir") -> tuple[int, str]:
        code = cli.main(["run", model, "--input=4xf32=2", "--no-isolate", *options])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


@pytest.mark.parametrize("option", ["--target=vulkan:llvmpipe", "--device=vulkan", "--iree-hal-target-device=vulkan"])
def test_the_target_chooses_the_device_and_the_device_the_target(run, vulkan: None, option: str) -> None:
    assert run(option) == (0, RESULT)


def test_the_first_device_at_hand_is_taken(vulkan: None) -> None:
    assert first_at_hand(["metal", "vulkan", "local-task"]) == "vulkan"
    with pytest.raises(OpspliceError, match="no device 'metal or nowhere'"):
        first_at_hand(["metal", "nowhere"])


def test_a_program_knows_its_device(run, vulkan: None, tmp_path: Path) -> None:
    program = opsplice.compile(MODEL, targets=["vulkan:llvmpipe"])
    np.testing.assert_array_equal(program.run("main", np.ones(4, np.float32)), np.full(4, 2))
    np.testing.assert_array_equal(np.asarray(program.direct("main")([np.ones(4, np.float32)])[0]), np.full(4, 2))
    program.save(tmp_path / "model.vmfb")
    assert run(model="model.vmfb") == (0, RESULT)
    code, said = run("--device=local-sync", model="model.vmfb")
    assert code == 1
    assert "model.vmfb is for the device 'vulkan', not for 'local-sync'" in said
    assert "run it with --device=vulkan" in said


def test_a_device_that_is_lost_is_opened_again(vulkan: None, monkeypatch: pytest.MonkeyPatch) -> None:
    program, other = (opsplice.compile(MODEL, targets=["vulkan:llvmpipe"]) for _ in range(2))
    loaded = program._loaded(None, (), ())
    ones = np.ones(4, np.float32)

    def fails(*_: object) -> None:
        raise RuntimeError("native_semaphore.cc:154: INTERNAL; [vkSignalSemaphore] VK_ERROR_DEVICE_LOST")

    monkeypatch.setattr(loaded, "_invoker", lambda _: fails)
    with pytest.raises(OpspliceError, match="DEVICE_LOST") as raised:
        program.run("main", ones)
    assert raised.value.hint == "the device is lost; the next call of the program opens it again"
    for one in other, program:  # while the program that lost it is held
        np.testing.assert_array_equal(one.run("main", ones), np.full(4, 2))
        assert one._loaded(None, (), ()).device is not loaded.device


def test_what_is_not_at_hand_is_said_before_anything_is_compiled(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opsplice.commands.run.compile_job", lambda _: pytest.fail("it compiles"))
    code, said = run("--target=metal")
    assert code == 1
    assert "this machine has no device 'metal'" in said
    code, said = run("--device=nowhere")
    assert code == 1
    assert "there is no device 'nowhere'" in said


def test_targets_and_devices() -> None:
    assert devices_for(["vulkan:ada", "rocm:gfx942", "vulkan"]) == ["vulkan", "hip"]
    assert devices_for(["vulkan-spirv"]) == ["vulkan"]
    assert devices_for(["cpu", "vulkan"]) == devices_for(["x86_64"]) == devices_for([]) == []
    assert targets_for("local-task") == targets_for("local-sync") == ()
    assert targets_for("cuda://0") == ("cuda",)
    assert targets_for("hip") == ("rocm",)
    assert targets_for("metal") == ("metal",)
