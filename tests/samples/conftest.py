"""What tests of samples share."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import opsplice


@pytest.fixture(scope="session")
def compiled() -> Callable[..., opsplice.Program]:
    """Compiles a sample's model, the first argument, with specs, the others: once for all tests."""
    return functools.cache(lambda model, *specs: opsplice.compile(model, specs))


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Lets a test import what is in a sample's folder: samples have modules of one name, and PyTorch keeps graphs."""
    before = set(sys.modules)

    def enter(sample: Path) -> None:
        import torch

        monkeypatch.syspath_prepend(str(sample))
        torch._dynamo.reset()
        opsplice.torch.reset()

    yield enter
    for name in set(sys.modules) - before:
        if (file := getattr(sys.modules[name], "__file__", None)) and "samples" in Path(file).parts:
            del sys.modules[name]
