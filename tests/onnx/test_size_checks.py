"""Open sizes that differ: an error says so, where IREE reads what lies behind an operand."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")

import opsplice
from tests.onnx.models import make_model, node

KINDS = {"x": ["k", 3], "y": ["m", "n"], "z": [1, "n"], "s": ["p", 2], "t": ["q", "r"]}
NODES = [
    node("Add", "x y", "sum"),
    node("Mul", "sum z", "product"),
    node("Concat", "s t", "joined", axis=1),
]


def made(**sizes):
    shape = {"x": (4, 3), "y": (4, 3), "z": (1, 3), "s": (5, 2), "t": (5, 6)} | sizes
    return [np.random.default_rng(0).standard_normal(each, np.float32) for each in shape.values()]


def test_open_sizes_are_equal():
    results = {"product": ["k", 3], "joined": ["p", "all"]}
    program = opsplice.compile(make_model(NODES, KINDS, results))
    x, y, z, s, t = given = made()
    product, joined = program.run("main", *given)
    np.testing.assert_allclose(product, (x + y) * z, 1e-6)
    np.testing.assert_array_equal(joined, np.concatenate([s, t], 1))
    with pytest.raises(opsplice.OpspliceError, match=r"inputs 1 and 2 of 'Add of sum' differ in an open size"):
        program.run("main", *made(y=(1, 3)))
    with pytest.raises(opsplice.OpspliceError, match=r"inputs 1 and 2 of 'Concat of joined' differ in an open size"):
        program.run("main", *made(t=(4, 6)))
