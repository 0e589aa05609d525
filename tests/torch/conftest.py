"""What the tests of PyTorch's frontend share."""

from __future__ import annotations

import pytest

import opsplice


@pytest.fixture(autouse=True)
def _fresh():
    """The same numbers each time, and no graph or report of another test."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    torch.manual_seed(0)
    torch._dynamo.reset()
    opsplice.torch.reset()
