from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def mlp():
    """A layer with a weight large enough for an archive, a symbolic batch, and a softmax."""
    pytest.importorskip("onnx", reason="the package 'onnx' is not installed")
    import numpy as np

    from tests.onnx.models import RANDOM, make_model, node

    nodes = [node("MatMul", "x w", "y", name="/layer/MatMul"), node("Softmax", "y", "z", axis=-1)]
    weight = RANDOM.normal(size=(64, 32)).astype(np.float32)
    return make_model(nodes, {"x": ["batch", 64]}, {"z": ["batch", 32]}, {"w": weight})
