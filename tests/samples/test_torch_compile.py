"""The sample of torch.compile: it trains as PyTorch does, and its README shows what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch

import opsplice


def test_a_block_trains_as_in_eager_with_its_layers_replaced(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = samples / "torch_compile"
    monkeypatch.syspath_prepend(str(sample))
    monkeypatch.chdir(samples.parent)
    torch._dynamo.reset()
    opsplice.torch.reset()
    import train

    assert train.train(compiled=True) == pytest.approx(train.train(compiled=False), abs=1e-4)
    shown = (sample / "README.md").read_text(encoding="utf-8")
    assert f"\n{opsplice.torch.report()}\n```" in shown
