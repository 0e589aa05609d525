import textwrap

import pytest

from tests import kept_phases

MODEL = """\
func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %0 = arith.mulf %a, %b : tensor<?xf32>
  %1 = math.absf %0 : tensor<?xf32>
  %2 = arith.negf %1 : tensor<?xf32>
  return %2 : tensor<?xf32>
}
"""

GENERIC = "--iree-llvmcpu-target-cpu=generic"


@pytest.fixture
def write_module(tmp_path):
    """Writes MLIR text into a file and returns its path."""

    def write(text=MODEL, name="model.mlir"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return write


@pytest.fixture
def model(write_module):
    return write_module()


@pytest.fixture
def generic():
    """The flag that names the CPU, so that no warning is due."""
    return GENERIC


@pytest.fixture(autouse=True)
def _every_phase_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are about the compiler itself: nothing is taken from earlier runs."""
    monkeypatch.setattr(kept_phases, "FOLDER", None)
    monkeypatch.delenv(kept_phases.VARIABLE)
