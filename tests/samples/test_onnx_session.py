"""The sample of ONNX: the commands of its README, in this process, and what it says they print."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")


def test_the_readme(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (samples / "onnx_session" / "README.md").read_text()
    shown = re.findall(r"```\n(.*?)```", text, re.DOTALL)[0].splitlines()
    monkeypatch.chdir(tmp_path)
    wanted = []
    for line in shown:
        if not line.startswith("$ "):
            wanted.append(line)
            continue
        _, script, *arguments = shlex.split(line.removeprefix("$ "))
        monkeypatch.setattr(sys, "argv", [script, *arguments])
        runpy.run_path(str(samples.parent / script), run_name="__main__")
    found = capsys.readouterr().out.splitlines()
    # The last digit of the difference is the machine's.
    assert found[:-1] == wanted[:-1]
    assert float(found[-1].rpartition(" ")[2]) < 1e-5
