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


@pytest.mark.parametrize("kind", ["Concat", "Slice"])
def test_what_has_no_dims_is_an_error_of_the_model(kind):
    """Along its first dim nothing can be joined or cut; IREE's compiler crashes at some."""
    one = {name: np.array([number]) for name, number in zip("sean", (3, 0, 0, -1), strict=True)}
    nodes = [node("Slice", "x s e a n", "r") if kind == "Slice" else node("Concat", "x y", "r", axis=0)]
    model = make_model(nodes, {"x": [], "y": []}, {"r": []}, one if kind == "Slice" else None)
    with pytest.raises(opsplice.OpspliceError) as caught:
        opsplice.compile(model, isolate=True)
    assert "Traceback" not in str(caught.value)
    assert "ZeroDivision" not in str(caught.value)
