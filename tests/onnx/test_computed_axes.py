"""Operators along dims whose numbers the program is given, or computes: numbers against onnxruntime's."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

from onnx import TensorProto

from tests.onnx.models import make_model, node
from tests.onnx.test_expansion import check, floats
from tests.onnx.test_spectra import run

NUMBERS = TensorProto.INT64
KINDS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


@pytest.mark.parametrize(("count", "every"), [(2, [[0, -1], [2, 1]]), ("k", [[], [1], [-1, 0, 1]])], ids=["two", "any"])
def test_reductions(count, every):
    nodes = [node(f"Reduce{kind}", "x axes", f"{kind}.kept") for kind in KINDS]
    nodes += [node(f"Reduce{kind}", "x axes", f"{kind}.none", noop_with_empty_axes=1) for kind in ("Max", "Sum")]
    if count == 2:
        nodes += [node(f"Reduce{kind}", "x axes", f"{kind}.less", keepdims=0) for kind in KINDS]
    outputs = {each.output[0]: [None] * (1 if each.output[0].endswith("less") else 3) for each in nodes}
    model = make_model(nodes, {"x": [2, "n", 4], "axes": (NUMBERS, [count])}, outputs)
    for axes in every:
        check(model, {"x": abs(floats(2, 3, 4)), "axes": np.array(axes, np.int64)}, 1e-4)


def test_reductions_of_integers_and_of_nothing():
    """A mean of several dims is cut off once."""
    form = {"keepdims": 0}
    nodes = [node("ReduceMean", "i axes", "mean", **form), node("ReduceL1", "i axes", "sizes")]
    nodes += [node("ReduceSum", "none axes", "zeros"), node("ReduceProd", "none axes", "ones", **form)]
    kind = TensorProto.INT32
    outputs = {"mean": (kind, [None]), "sizes": (kind, [None] * 3), "zeros": [None] * 3, "ones": [None]}
    inputs = {"i": (kind, [2, 3, 5]), "none": [2, "empty", 4], "axes": (NUMBERS, [2])}
    i = np.arange(-11, 19, dtype=np.int32).reshape(2, 3, 5)
    model = make_model(nodes, inputs, outputs)
    check(model, {"i": i, "none": np.zeros((2, 0, 4), np.float32), "axes": np.array([1, -3])})


def test_axes_that_are_computed_and_all_dims():
    """Of as many axes as there are dims a scalar is left."""
    nodes = [node("Add", "a one", "axes"), node("ReduceMax", "x axes", "y", keepdims=0)]
    model = make_model(nodes, {"x": [3, "n"], "a": (NUMBERS, [2])}, {"y": []}, {"one": np.array([1])})
    check(model, {"x": floats(3, 4), "a": np.array([-1, 0])})


def test_sums_and_products_along_a_dim():
    """onnxruntime has no running products."""
    forms = [{}, {"exclusive": 1, "reverse": 1}]
    nodes = [node("CumSum", "x axis", f"y{number}", **form) for number, form in enumerate(forms)]
    model = make_model(nodes, {"x": [2, 3, "n"], "axis": (NUMBERS, [])}, {"y0": [None] * 3, "y1": [None] * 3})
    x = floats(2, 3, 4)
    for axis in (0, 1, -1):
        check(model, {"x": x, "axis": np.array(axis)})
    products = make_model(
        [node("CumProd", "x axis", "y")], {"x": [2, 3], "axis": (NUMBERS, [1])}, {"y": [2, 3]}, opset=26
    )
    for axis in (0, -1):
        found = run(products, {"x": x[..., 0], "axis": np.array([axis])})["y"]
        np.testing.assert_allclose(found, np.cumprod(x[..., 0], axis, dtype=np.float64), 1e-5)


def test_spectra_along_a_dim():
    nodes = [node("DFT", "x - axis", "y"), node("DFT", "x - axis", "back", inverse=1)]
    model = make_model(nodes, {"x": [5, 6, 2], "axis": (NUMBERS, [])}, {"y": [5, 6, 2], "back": [5, 6, 2]})
    for axis in (0, -2):
        check(model, {"x": floats(5, 6, 2), "axis": np.array(axis)}, 5e-5)
