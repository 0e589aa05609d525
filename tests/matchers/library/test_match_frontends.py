"""One spec over the same layers as JAX, PyTorch, torch-mlir and ONNX spell them: what matches, and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from opsplice.frontends.source import ModuleSource
from opsplice.matchers.find import engine
from opsplice.matchers.patterns.compiled import compile_patterns
from opsplice.pipeline.compiler import Compilation
from opsplice.spec_lang.loading.loader import load

FOLDER = Path(__file__).parents[1] / "frontends"
KERNELS = sorted(FOLDER.glob("*/*.mlir"))

# A transposed weight is a tensor too, so a linear layer over one matches both ways; so does a norm inside a norm.
LINEAR = {"jax": {"matmul": 1, "linear_kn": 1}}
LINEAR_TRANSPOSED = {"matmul": 1, "linear_kn": 1, "linear_nk": 1}
EXPECTED = {
    "attention": {"batch_matmul": 2, "softmax": 1},
    "bmm": {"batch_matmul": 1},
    "layernorm": {"layernorm": 1, "rmsnorm": 1},
    "linear_gelu": {"gelu_erf": 1},
    "linear_gelu_tanh": {"gelu_tanh": 1},
    "linear_relu": {"relu": 1},
    "linear_silu": {"silu": 1},
    "matmul": {"matmul": 1},
    "matmul_i8": {"matmul_i8": 1},
    "rmsnorm": {"rmsnorm": 1},
    "softmax": {"softmax": 1},
    "transpose_matmul": {"matmul": 1},
}


@pytest.fixture(scope="module")
def graphs():
    spec = load(FOLDER / "layers.splice")
    return list(compile_patterns(spec))


@pytest.mark.parametrize("path", KERNELS, ids=[f"{p.parent.name}-{p.stem}" for p in KERNELS])
def test_layers(path, graphs):
    frontend, layer = path.parent.name, path.stem
    expected = dict(EXPECTED[layer])
    if layer.startswith("linear"):
        expected |= LINEAR.get(frontend, LINEAR_TRANSPOSED)
    with Compilation() as compilation:
        compilation.load(ModuleSource(path=path))
        compilation.run_to("preprocessing")
        found = engine.find(compilation.module, graphs)
        assert Counter(m.pattern.name for m in found.matches) == expected


def test_every_frontend_has_the_main_layers():
    for layer in ("softmax", "layernorm", "rmsnorm", "linear_relu", "linear_gelu_tanh", "matmul", "bmm"):
        assert {p.parent.name for p in KERNELS if p.stem == layer} == {"jax", "torch", "torch_mlir", "onnx"}
