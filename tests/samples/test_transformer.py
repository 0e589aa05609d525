"""The transformer sample: one spec, two frontends, the same replacements, and the numbers of the block in f64."""

from __future__ import annotations

import importlib.util
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import opsplice

SAMPLE = Path(__file__).parents[2] / "samples" / "transformer"
SPEC = SAMPLE / "transformer.splice"
LAYOUTS = {"jax.mlir": "in_out", "torch.mlir": "out_in"}


@cache
def block() -> ModuleType:
    spec = importlib.util.spec_from_file_location("block", SAMPLE / "block.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("flags", [[], ["--iree-llvmcpu-target-cpu=host"]], ids=["generic", "host"])
@pytest.mark.parametrize("model", list(LAYOUTS))
def test_every_layer_is_replaced_and_the_numbers_hold(model: str, flags: list[str]) -> None:
    program = opsplice.compile(SAMPLE / model, [SPEC], flags)
    kinds = Counter(r.kernel.removesuffix("_kn").removesuffix("_nk") for r in program.report.replacements)
    assert kinds == {"layernorm": 2, "softmax": 1, "linear_bias_gelu": 1, "linear_bias": 3}
    layout = LAYOUTS[model]
    result = program.run("main", *block().arguments(layout))
    assert np.abs(result - block().reference()).max() < 1e-5


@pytest.mark.parametrize("model", list(LAYOUTS))
def test_the_program_without_the_spec_agrees(model: str) -> None:
    # IREE lowers PyTorch's gelu with sqrt(2 / pi) off by 2e-4: see the sample's README.
    tolerance = 1e-5 if model == "jax.mlir" else 5e-4
    result = opsplice.compile(SAMPLE / model).run("main", *block().arguments(LAYOUTS[model]))
    assert np.abs(result - block().reference()).max() < tolerance


def test_weights_pick_the_kernel_of_their_layout() -> None:
    suffixes = {
        model: {r.kernel[-3:] for r in opsplice.match(SAMPLE / model, [SPEC]).replacements if "linear" in r.kernel}
        for model in LAYOUTS
    }
    assert suffixes == {"jax.mlir": {"_kn"}, "torch.mlir": {"_nk"}}
