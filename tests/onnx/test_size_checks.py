"""Open sizes that differ: an error says so, where IREE reads what lies behind an operand."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")

from onnx import TensorProto

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


@pytest.mark.parametrize("turned", [False, True], ids=["behind", "in front"])
def test_a_part_of_a_dim_of_one_is_repeated(turned):
    """As the biases of MPT are, of which a model takes those of the last places: `bias[:, -n:, -n:]` of 2 x 1 x 16."""
    bias = np.random.default_rng(1).standard_normal((2, 1, 16), np.float32)
    numbers = {"bias": bias, "end": np.array([1 << 40, 1 << 40]), "axes": np.array([1, 2]), "minus": np.array([-1])}
    nodes = [
        node("Shape", "x", "n", start=1, end=2),
        node("Mul", "n minus", "last"),
        node("Concat", "last last", "start", axis=0),
        node("Slice", "bias start end axes", "cut"),
        node("Add", "cut x" if turned else "x cut", "y"),
    ]
    program = opsplice.compile(make_model(nodes, {"x": [2, "n", "n"]}, {"y": [2, "n", "n"]}, numbers))
    for n in (1, 5, 16):
        x = np.random.default_rng(n).standard_normal((2, n, n), np.float32)
        np.testing.assert_allclose(program.run("main", x), x + bias[:, :, -n:], 1e-6)


def test_no_part_of_a_dim_of_one_is_no_part_of_one():
    numbers = {"end": np.array([1 << 40]), "axes": np.array([0])}
    nodes = [node("Slice", "one start end axes", "cut"), node("Add", "x cut", "y")]
    kinds = {"x": ["n", 3], "one": [1, 3]}
    program = opsplice.compile(make_model(nodes, kinds | {"start": (TensorProto.INT64, [1])}, {"y": ["m", 3]}, numbers))
    x, one = np.ones((4, 3), np.float32), np.ones((1, 3), np.float32)
    np.testing.assert_array_equal(program.run("main", x, one, np.array([0])), x + one)
    with pytest.raises(opsplice.OpspliceError, match=r"input 2 of 'Add of y' is empty, and another one is not"):
        program.run("main", x, one, np.array([1]))


def test_a_part_of_a_dim_of_one_is_joined_to_others_of_its_size_alone():
    numbers = {"start": np.array([0]), "end": np.array([1 << 40]), "axes": np.array([0])}
    nodes = [node("Slice", "one m end axes", "cut"), node("Concat", "x cut", "y", axis=1)]
    kinds = {"x": ["n", 3], "one": [1, 3], "m": (TensorProto.INT64, [1])}
    program = opsplice.compile(make_model(nodes, kinds, {"y": ["n", 6]}, numbers))
    one = np.ones((1, 3), np.float32)
    np.testing.assert_array_equal(program.run("main", one, one, np.array([0])), np.ones((1, 6)))
    for rows, start in ((4, 0), (1, 1)):
        with pytest.raises(opsplice.OpspliceError, match=r"inputs 1 and 2 of 'Concat of y' differ in an open size"):
            program.run("main", np.ones((rows, 3), np.float32), one, np.array([start]))


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
