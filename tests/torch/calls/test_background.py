"""Graphs that are compiled while PyTorch runs them."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch
from torch import nn

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.torch.calls import background


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    opsplice.torch.reset()


@pytest.fixture
def held(monkeypatch):
    """Compiles wait until this is set."""
    go = threading.Event()
    compile_ = opsplice.compile

    def slowly(*arguments, **options):
        assert options.pop("isolate")
        assert go.wait(60)
        return compile_(*arguments, **options)  # in this process: the tests' own

    monkeypatch.setattr(opsplice, "compile", slowly)
    yield go
    go.set()
    opsplice.torch.wait()


def compiled(model, **options):
    return torch.compile(model, backend="opsplice", options={"background": True, **options})


def test_pytorch_runs_a_graph_until_its_program_is_there(held):
    model, x = nn.Linear(8, 4), torch.rand(2, 8)
    fast = compiled(model)
    wanted = model(x)
    for _ in range(3):
        torch.testing.assert_close(fast(x), wanted)
    assert opsplice.torch.reports() == ()
    held.set()
    opsplice.torch.wait()
    assert [each.part for each in opsplice.torch.reports()] == ["forward"]
    result = fast(x)
    torch.testing.assert_close(result, wanted)
    result.sum().backward()
    opsplice.torch.wait()
    first = model.weight.grad.clone()
    model.zero_grad()
    fast(x).sum().backward()
    torch.testing.assert_close(model.weight.grad, first)
    assert [each.part for each in opsplice.torch.reports()] == ["forward", "backward"]


def test_errors_are_raised_by_the_next_call(held):
    fast = compiled(nn.ReLU(), flags=["--iree-no-such-flag"])
    assert fast(torch.ones(3)).tolist() == [1, 1, 1]
    held.set()
    opsplice.torch.wait()
    for _ in range(2):
        with pytest.raises(OpspliceError, match="IREE has no flag --iree-no-such-flag"):
            fast(torch.ones(3))


# PyTorch, which takes seconds to load, has no part in it.
ENDING = """
import importlib.util, sys, time
from opsplice.isolation.isolate import call_isolated

def sleep(report):
    time.sleep(600)

def main():
    spec = importlib.util.spec_from_file_location("background", sys.argv[1])
    background = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(background)
    later = background.Later(lambda x: [x], lambda: call_isolated(sleep, method="spawn"))
    background.Later(lambda x: [x], lambda: print("never"))
    time.sleep(1)
    print(later([3]))
"""


def test_the_end_of_python_waits_for_no_compile(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "script.py").write_text(ENDING)
    command = [sys.executable, "-c", "import script; script.main()", background.__file__]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("[3]\n", "", 0)
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]
