"""Layers as the frontends spell them: captured from their last op, written, loaded and found again."""

from __future__ import annotations

from pathlib import Path

import pytest

import opsplice

FOLDER = Path(__file__).parents[1] / "frontends"
KERNELS = sorted(FOLDER.glob("*/*.mlir"))
# What each layer's pattern must hold, whatever the frontend.
WORDS = {
    "attention": ["contract["],
    "bmm": ["contract["],
    "layernorm": ["rsqrt(", "reduce addf[m n -> m](x)", ", n)"],
    "linear_gelu": ["contract[", "mulf("],
    "linear_gelu_tanh": ["contract[", "tanh("],
    "linear_relu": ["contract[", "maximumf(", "0.0"],
    "linear_silu": ["exp(", "negf("],
    "matmul": ["contract[m k, k n -> m n]"],
    "matmul_i8": [": i32"],
    "rmsnorm": ["mulf(x, x)", ", n)"],
    "softmax": ["reduce maximumf[m n -> m](x)", "exp(", "reduce addf[m n -> m](e)"],
    "transpose_matmul": ["contract["],
}


@pytest.mark.parametrize("path", KERNELS, ids=[f"{p.parent.name}-{p.stem}" for p in KERNELS])
def test_round_trip(path: Path, tmp_path: Path) -> None:
    capture = opsplice.capture(path, last_op(path), name="layer")
    for word in WORDS[path.stem]:
        assert word in capture.spec
    assert capture.reference
    capture.save(tmp_path / "layer.splice")
    report = opsplice.match(path, [tmp_path / "layer.splice"])
    assert not report.kept
    assert capture.location in [replacement.location for replacement in report.replacements]
    assert [r.kernel for r in report.replacements] == ["layer_kernel"] * len(report.replacements)


def test_layers_of_different_frontends_are_one_pattern() -> None:
    """A capture from one frontend's spelling is, word for word, that from another's."""
    for layer in ("softmax", "matmul", "bmm"):
        texts = {opsplice.capture(path, last_op(path)).spec for path in KERNELS if path.stem == layer}
        assert len(texts) == 1, layer


def last_op(path: Path) -> str:
    """The op that makes the program's result."""
    from opsplice.compiling.capturing import list_ops
    from opsplice.frontends import load
    from opsplice.reports.captured import CaptureJob

    found = list_ops(lambda _event: None, CaptureJob(load(path), ()))
    return [op.handle for op in found if not op.handle.startswith("hal.")][-1]
