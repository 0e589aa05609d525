"""The sample of torch.compile: it trains as PyTorch does, and its README shows what it prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import opsplice


def test_a_block_trains_as_in_eager_with_its_layers_replaced(
    samples: Path, monkeypatch: pytest.MonkeyPatch, entered: Callable[[Path], None]
) -> None:
    sample = samples / "torch_compile"
    entered(sample)
    monkeypatch.chdir(samples.parent)
    import train

    assert train.train(compiled=True) == pytest.approx(train.train(compiled=False), abs=1e-4)
    shown = (sample / "README.md").read_text(encoding="utf-8")
    assert f"\n{opsplice.torch.report()}\n```" in shown
