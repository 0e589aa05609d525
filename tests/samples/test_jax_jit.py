"""The sample of JAX: what it prints is what its README shows."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

for _name in ("jax", "flax", "optax"):
    pytest.importorskip(_name)


def test_the_readme_shows_what_it_prints(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(samples.parent)
    runpy.run_path(str(samples / "jax_jit" / "train.py"))["main"](tmp_path)
    printed = capsys.readouterr().out
    readme = (samples / "jax_jit" / "README.md").read_text()
    assert readme.partition("train.py\n")[2].partition("```")[0] == printed
    assert sorted(file.name for file in tmp_path.iterdir()) == ["classifier.irpa", "classifier.vmfb"]
