"""Portable artifacts of StableHLO, which jax.export writes: bytecode of a dialect that no program is written in."""

from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.frontends import load
from opsplice.pipeline.compiler import CompileError

FOLDER = Path(__file__).parent / "portable"
SOFTMAX = FOLDER / "softmax.mlirbc"


@pytest.mark.parametrize("model", [SOFTMAX, SOFTMAX.read_bytes()], ids=["file", "bytes"])
def test_it_is_known_without_a_flag(model):
    assert load(model).portable_version == "1.15.0"
    x, w = np.random.default_rng(0).standard_normal((2, 8, 16), np.float32)
    scores = np.exp(x[:4, :8] @ w)
    found = opsplice.compile(model, flags=["--iree-llvmcpu-target-cpu=generic"]).run(None, x[:4, :8], w)
    np.testing.assert_allclose(found, scores / scores.sum(-1, keepdims=True), rtol=1e-5)


def test_patterns_are_found_in_it(tmp_path):
    spec = tmp_path / "softmax.splice"
    spec.write_text('import "opsplice:nn"\nannotate softmax with {seen}\n')
    (found,) = opsplice.match(SOFTMAX, [spec]).replacements
    assert found.location.startswith("model.py:")


def test_other_modules_are_none():
    assert not load("module {}").portable_version
    assert not load(b"ML\xefR\x0dMLIR23.0\0rest").portable_version


def test_one_that_is_too_new_or_damaged_says_what_to_do():
    newer = SOFTMAX.read_bytes()[:-100].replace(b"_v1.15.0", b"_v9.15.0")
    with pytest.raises(CompileError) as error:
        opsplice.match(newer, [])
    assert error.value.hint == (
        "it is StableHLO 9.15.0, damaged or newer than IREE 3.13: give its text, or an older version"
    )


def test_symbolic_shapes_say_what_to_do():
    with pytest.raises(CompileError) as error:
        opsplice.match(FOLDER / "softmax_symbolic.mlirbc", [])
    assert error.value.hint == (
        "IREE compiles no StableHLO with symbolic shapes: export the model for each shape it is called with"
    )
