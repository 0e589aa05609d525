"""The sample of kernels that are told strides: one rule for each computation, and nothing is copied."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplice


def linear(x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return x @ (w.T if w.shape[0] == len(bias) else w) + bias


def attention(qkv: np.ndarray) -> np.ndarray:
    q, k, v = (part.reshape(16, 4, 8).swapaxes(0, 1) for part in np.split(qkv, 3, axis=1))
    weights = np.exp(0.25 * q @ k.swapaxes(1, 2))
    return (weights / weights.sum(2, keepdims=True) @ v).swapaxes(0, 1).reshape(16, 32)


MODELS = {
    "torch": ("layer", linear, [(8, 32), (16, 32), (16,)], "product"),
    "jax": ("layer", linear, [(8, 32), (32, 16), (16,)], "product"),
    "qkv": ("attention", attention, [(16, 96)], "attend"),
}


@pytest.mark.parametrize("model", MODELS)
def test_each_layout_is_one_dispatch(samples: Path, tmp_path: Path, model: str) -> None:
    function, compute, shapes, kernel = MODELS[model]
    flags = [f"--iree-hal-dump-executable-sources-to={tmp_path}"]
    program = opsplice.compile(samples / f"views/{model}.mlir", [samples / "views/views.splice"], flags)
    assert [r.kernel for r in program.report.replacements] == [kernel]
    assert len(list(tmp_path.iterdir())) == 1
    given = [np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in shapes]
    np.testing.assert_allclose(program.run(function, *given), compute(*given), rtol=1e-4, atol=1e-5)
