"""Weights that a program comes with: in memory, in an archive beside it, and in archives that a user names."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.frontends import load as load_source
from opsplice.runtime.weights import Arrays
from tests.archives import safetensors
from tests.command_line import opsplice as command

MODEL = """
util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<3xf32>
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %w = util.global.load @w : tensor<3xf32>
  %0 = arith.mulf %w, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}
"""
X = np.array([1, 10, 100], np.float32)


def aligned(values: list[float]) -> np.ndarray:
    room = np.zeros(4 * len(values) + 64, np.uint8)
    start = -room.ctypes.data % 64
    array = room[start : start + 4 * len(values)].view(np.float32)
    array[:] = values
    return array


@pytest.fixture(scope="module")
def plain() -> opsplice.Program:
    return opsplice.compile(MODEL)


@pytest.fixture
def program(plain: opsplice.Program) -> opsplice.Program:
    return dataclasses.replace(plain, parameters=(Arrays({"w": aligned([2, 3, 4])}),))


def test_a_source_brings_its_weights_into_the_program() -> None:
    arrays = Arrays({"w": np.array([2, 3, 4], np.float32)})
    source = dataclasses.replace(load_source(MODEL), parameters=(arrays,))
    program = opsplice.compile(source)
    assert program.parameters == (arrays,)
    assert program.run("main", X).tolist() == [2, 30, 400]
    # Weights do not travel to the processes that compile.
    assert pickle.loads(pickle.dumps(source)).parameters == ()


def test_aligned_weights_stay_where_they_are(program: opsplice.Program) -> None:
    assert program.run("main", X).tolist() == [2, 30, 400]
    (weights,) = program.parameters
    weights.arrays["w"][:] = 1  # the program reads the same memory
    assert program.run("main", X).tolist() == [1, 10, 100]


def test_a_saved_program_finds_its_weights_beside_it(program: opsplice.Program, tmp_path: Path) -> None:
    path = program.save(tmp_path / "m.vmfb")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.irpa", "m.vmfb"]
    assert opsplice.load(path).run("main", X).tolist() == [2, 30, 400]
    assert command("run", path, "--input=3xf32=2").stdout == "result[0]: 3xf32=4 6 8\n"
    # It is saved again, in the same place too, and moves with its archive alone.
    opsplice.load(path).save(path)
    moved = opsplice.load(path).save(tmp_path / "n.vmfb")
    (tmp_path / "n.irpa").rename(tmp_path / "away.irpa")
    with pytest.raises(opsplice.OpspliceError, match="--parameters"):
        opsplice.load(moved).run("main", X)
    assert opsplice.load(moved, parameters=tmp_path / "away.irpa").run("main", X).tolist() == [2, 30, 400]
    assert opsplice.load(moved.read_bytes(), parameters=[tmp_path / "m.irpa"]).run("main", X).tolist() == [2, 30, 400]


def test_weights_that_are_named_take_the_place_of_a_programs_own(program: opsplice.Program, tmp_path: Path) -> None:
    other = tmp_path / "other.safetensors"
    other.write_bytes(safetensors("w", np.full(3, 7, np.float32)))
    path = program.save(tmp_path / "m.vmfb")
    for given in (other, f"model={other}"):
        assert program.run("main", X, parameters=[given]).tolist() == [7, 70, 700]
        assert opsplice.load(path, parameters=given).run("main", X).tolist() == [7, 70, 700]
    assert command("run", path, "--input=3xf32=2", f"--parameters={other}").stdout == "result[0]: 3xf32=14 14 14\n"
    # An archive of another scope does not.
    assert program.run("main", X, parameters=[f"more={other}"]).tolist() == [2, 30, 400]


def test_a_program_and_its_weights_are_written_both_or_neither(program: opsplice.Program, tmp_path: Path) -> None:
    (tmp_path / "m.irpa").mkdir()
    with pytest.raises(opsplice.OpspliceError, match=r"cannot write .*m\.irpa: it is a folder"):
        program.save(tmp_path / "m.vmfb")
    assert [file.name for file in tmp_path.iterdir()] == ["m.irpa"]
    damaged = tmp_path / "damaged.irpa"
    damaged.write_bytes(b"IRPA")
    path = dataclasses.replace(program, parameters=()).save(tmp_path / "k.vmfb")
    with pytest.raises(opsplice.OpspliceError, match="cannot read the parameters"):
        opsplice.load(path, parameters=damaged).save(tmp_path / "l.vmfb")
    assert not (tmp_path / "l.vmfb").exists()
    with pytest.raises(opsplice.OpspliceError, match=r"call the program \.vmfb"):
        program.save(tmp_path / "k.irpa")
