"""Elements at places that are values: numbers against onnxruntime's."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

from onnx import TensorProto

import opsplice.onnx
from tests.onnx.models import RANDOM, make_model, node
from tests.onnx.test_expansion import check, floats


@pytest.mark.parametrize("sizes", [[2, 5, 3], ["a", "b", "c"]], ids=["fixed", "open"])
def test_extremes_that_are_scattered(sizes):
    """IREE lowers sums and products alone; indices count from the end, too, and meet at some places."""
    nodes = [
        node("ScatterElements", "x at new", f"{kind}{axis}", axis=axis, reduction=kind)
        for kind, axis in (("max", 0), ("min", -1), ("max", 1))
    ]
    kinds = {"x": [3, "n", 4], "at": (TensorProto.INT32, sizes), "new": sizes}
    model = make_model(nodes, kinds, {each.output[0]: [3, "n", 4] for each in nodes})
    at = RANDOM.integers(-3, 3, (2, 5, 3)).astype(np.int32)
    check(model, {"x": floats(3, 5, 4), "at": at, "new": floats(2, 5, 3)})


def test_places_of_an_open_number_of_dims():
    """It follows from the dims of the updates, or of the result."""
    nodes = [
        node("ScatterND", "x at new", "elements"),
        node("GatherND", "x at", "taken"),
        node("GatherND", "x within", "rows", batch_dims=1),
    ]
    places = TensorProto.INT64, ["k", "d"]
    kinds = {"x": ["n", "m", 3], "at": places, "new": ["k", 3], "within": (TensorProto.INT64, ["n", None])}
    model = make_model(nodes, kinds, {"elements": ["n", "m", 3], "taken": ["k", 3], "rows": ["n", 3]})
    at = np.array([[0, 1], [2, -1], [1, 0]])
    check(model, {"x": floats(3, 4, 3), "at": at, "new": floats(3, 3), "within": at[:, 1:]})


def test_truth_values_that_are_scattered():
    """Their sum is whether one is true, their product whether all are; IREE compares them as numbers with a sign."""
    kinds = ("add", "mul", "max", "min")
    nodes = [node("ScatterND", "x at new", f"nd_{kind}", reduction=kind) for kind in kinds]
    nodes += [node("ScatterElements", "x places new", kind, axis=1, reduction=kind) for kind in kinds]
    flags = TensorProto.BOOL, [4, 2]
    inputs = {"x": flags, "new": flags, "at": (TensorProto.INT64, [4, 1]), "places": (TensorProto.INT64, [4, 2])}
    model = make_model(nodes, inputs, {each.output[0]: flags for each in nodes})
    feed = {"x": np.array([[True, True], [False, False], [True, False], [False, True]])}
    feed |= {"new": feed["x"][:, ::-1], "at": np.arange(4)[:, None], "places": np.tile(np.array([0, 1]), (4, 1))}
    found = opsplice.onnx.session(model, providers=["local-sync"]).run(None, feed)
    either, both = feed["x"] | feed["new"], feed["x"] & feed["new"]
    for one, wanted in zip(found, (either, both) * 4, strict=True):
        np.testing.assert_array_equal(one, wanted)


@pytest.mark.parametrize("kind", [np.uint8, np.uint32])
def test_extremes_of_integers_without_a_sign_that_are_scattered(kind):
    """IREE takes those above the middle for negative ones."""
    element = TensorProto.UINT8 if kind == np.uint8 else TensorProto.UINT32
    nodes = [node("ScatterElements", "x places new", each, axis=1, reduction=each) for each in ("max", "min")]
    nodes += [node("ScatterND", "x rows new", f"{each}_of_rows", reduction=each) for each in ("max", "min")]
    numbers, places = (element, [3, 4]), (TensorProto.INT64, [3, 4])
    inputs = {"x": numbers, "new": numbers, "places": places, "rows": (TensorProto.INT64, [3, 1])}
    model = make_model(nodes, inputs, {each.output[0]: numbers for each in nodes})
    feed = {name: RANDOM.integers(0, np.iinfo(kind).max, (3, 4), kind) for name in ("x", "new")}
    check(model, feed | {"places": RANDOM.integers(0, 4, (3, 4)), "rows": np.array([[2], [0], [1]])})


@pytest.mark.parametrize("sizes", [[2, 6, 3], ["b", "s", "l"]], ids=["fixed", "open"])
def test_new_elements_of_caches(sizes):
    batch, whole, new = sizes
    nodes = [node("TensorScatter", "cache new at", "line"), node("TensorScatter", "cache new", "start")]
    nodes.append(node("TensorScatter", "cache new round", "ring", mode="circular"))
    places = (TensorProto.INT64, [batch])
    inputs = {"cache": [batch, 3, whole, 4], "new": [batch, 3, new, 4], "at": places, "round": places}
    model = make_model(nodes, inputs, dict.fromkeys(("line", "start", "ring"), [None] * 4), opset=24)
    feed = {"cache": floats(2, 3, 6, 4), "new": floats(2, 3, 3, 4), "at": np.array([1, 3]), "round": np.array([0, 5])}
    check(model, feed, 0)


def test_pooled_elements_at_their_places():
    """Those of a larger tensor lie as in the one that was pooled, with zeros behind."""
    nodes = [node("MaxPool", "x", "pooled places", kernel_shape=[2, 2], strides=[2, 2])]
    nodes.append(node("MaxUnpool", "pooled places", "same", kernel_shape=[2, 2], strides=[2, 2]))
    check(make_model(nodes, {"x": [2, 2, 6, 4]}, {"same": [None] * 4}), {"x": floats(2, 2, 6, 4)}, 0)
    larger = [node("MaxUnpool", "x places size", "y", kernel_shape=[2, 2], strides=[2, 2])]
    places = (TensorProto.INT64, [1, 1, 2, 2])
    model = make_model(
        larger, {"x": [1, 1, 2, 2], "places": places}, {"y": [None] * 4}, {"size": np.array([1, 1, 5, 5])}
    )
    feed = {"x": np.array([[[[1, 2], [3, 4]]]], np.float32), "places": np.array([[[[5, 7], [13, 15]]]])}
    (found,) = opsplice.onnx.session(model, providers=["local-sync"]).run(None, feed)
    wanted = np.zeros((1, 1, 5, 5), np.float32)
    wanted[0, 0, 1, [1, 3]], wanted[0, 0, 3, [1, 3]] = (1, 2), (3, 4)
    np.testing.assert_array_equal(found, wanted)


def test_nothing_is_put_anywhere():
    """As exporters write a shift by a whole window: IREE's compiler ends the process."""
    constants = {
        "shape": np.array([4, 3, 5]),
        "at": np.zeros((0, 1), np.int64),
        "none": np.zeros((0, 3, 5), np.float32),
    }
    nodes = [
        node("ConstantOfShape", "shape", "zeros"),
        node("ScatterND", "zeros at none", "same"),
        node("Add", "same x", "y"),
    ]
    check(make_model(nodes, {"x": [4, 3, 5]}, {"y": [4, 3, 5]}, constants), {"x": floats(4, 3, 5)})
