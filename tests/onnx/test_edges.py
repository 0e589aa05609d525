"""Elements at the edges: behind the end of a tensor, around it, the last of several that are equal."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

import onnx.reference
from onnx import TensorProto

import opsplice.onnx
from tests.onnx.models import make_model, node
from tests.onnx.test_expansion import check, floats

NAN, INFINITE = np.nan, np.inf


@pytest.mark.parametrize("size", [5, "n"], ids=["fixed", "open"])
def test_slices_that_go_backwards_from_behind_the_end(size):
    """IREE reads what lies there."""
    constants = {"far": np.array([2**31]), "start": np.array([-(2**31)]), "last": np.array([1]), "back": np.array([-2])}
    nodes = [node("Slice", "x far start last back", "y")]
    model = make_model(nodes, {"x": [4, size]}, {"y": [4, 3 if size == 5 else "m"]}, constants)
    check(model, {"x": floats(4, 5)})


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize("sizes", [[4, 5], ["h", "w"]], ids=["fixed", "open"])
def test_what_is_put_around(mode, sizes):
    """Of vectors and images: IREE's compiler does not end at some, and does not lower others."""
    constants = {"two": np.array([0, 0, 2, 1, 0, 0, 1, 3]), "one": np.array([2, 1])}
    nodes = [node("Pad", "x two", "y", mode=mode), node("Pad", "v one", "z", mode=mode)]
    around = [size + 3 if isinstance(size, int) else None for size in (sizes[0], 6 if sizes[1] == 5 else "w")]
    outputs = {"y": [1, 2, around[0], None], "z": [None]}
    model = make_model(nodes, {"x": [1, 2, *sizes], "v": sizes[1:]}, outputs, constants)
    check(model, {"x": floats(1, 2, 4, 5), "v": floats(5)})


@pytest.mark.parametrize("sizes", [[4, 5], ["h", "w"]], ids=["fixed", "open"])
def test_negative_pads_leave_elements_out(sizes):
    """IREE moves the rest elsewhere, or does not compile it."""
    constants = {"both": np.array([0, 2, 0, -2]), "out": np.array([-1, 1, -1, -2]), "three": np.array(3, np.float32)}
    nodes = [node("Pad", "x both", "y"), node("Pad", "x out three", "z")]
    model = make_model(nodes, {"x": sizes}, {"y": [None, None], "z": [None, None]}, constants)
    check(model, {"x": floats(4, 5)})


def test_the_last_of_equal_elements():
    """IREE takes the first one always."""
    nodes = [
        node("ArgMax", "x", "a", axis=-1, select_last_index=1),
        node("ArgMin", "x", "b", axis=0, keepdims=0, select_last_index=1),
    ]
    outputs = {"a": (TensorProto.INT64, ["n", 1]), "b": (TensorProto.INT64, [9])}
    check(make_model(nodes, {"x": ["n", 9]}, outputs), {"x": floats(3, 9).round()})


def test_what_is_no_number():
    """Equal to nothing, and neither bounded nor left out."""
    x = np.array([NAN, -2, 0, 3, INFINITE, -INFINITE, NAN], np.float32)
    y = np.array([1, NAN, 0, NAN, -1, 5, NAN], np.float32)
    nodes = [
        node("Sign", "x", "sign"), node("Clip", "x low high", "clip"), node("Max", "x zero", "relu"),
        node("Max", "x y", "max"), node("Min", "x y high", "min"), node("Equal", "x y", "same"),
        node("Equal", "x x", "number"),
    ]  # fmt: skip
    constants = {name: np.array(value, np.float32) for name, value in (("low", -1), ("high", 1), ("zero", 0))}
    outputs = {name: [7] for name in ("sign", "clip", "relu", "max", "min")}
    flags = {name: (TensorProto.BOOL, [7]) for name in ("same", "number")}
    model = make_model(nodes, {"x": [7], "y": [7]}, outputs | flags, constants)
    feed = {"x": x, "y": y}
    found = opsplice.onnx.session(model, providers=["local-sync"]).run(None, feed)
    wanted = onnx.reference.ReferenceEvaluator(model).run(None, feed)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_logarithms_of_sums_of_large_powers():
    """A power of 300 is infinite, and its sum's logarithm is not."""
    constants = {"axes": np.array([-1, 0])}
    nodes = [node("ReduceLogSumExp", "x axes", "y", keepdims=0), node("ReduceLogSumExp", "x", "z")]
    model = make_model(nodes, {"x": ["n", 4, 5]}, {"y": [4], "z": [1, 1, 1]}, constants)
    check(model, {"x": floats(3, 4, 5) * 90 + 200})
