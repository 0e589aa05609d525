"""Products over dims, and sums of sizes."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

from onnx import TensorProto

import opsplice.onnx
from tests.onnx.models import make_model, node
from tests.onnx.test_expansion import check, floats, integers


def test_products_over_open_sizes():
    """IREE's importer takes those of fixed sizes alone."""
    axes = {"last": np.array([-1]), "two": np.array([0, 2]), "none": np.array([], np.int64)}
    nodes = [
        node("ReduceProd", "x", "a"),
        node("ReduceProd", "x last", "b", keepdims=0),
        node("ReduceProd", "x two", "c"),
        node("ReduceProd", "x two", "d", keepdims=0),
        node("ReduceProd", "x none", "e", noop_with_empty_axes=1),
        node("ReduceProd", "i last", "f"),
    ]
    shapes = {"a": [1, 1, 1], "b": ["n", "m"], "c": [1, "m", 1], "d": ["m"], "e": ["n", "m", 4]}
    outputs = shapes | {"f": (TensorProto.INT32, ["n", 1])}
    model = make_model(nodes, {"x": ["n", "m", 4], "i": (TensorProto.INT32, ["n", "k"])}, outputs, axes)
    for n, m in ((2, 3), (5, 1)):
        check(model, {"x": floats(n, m, 4), "i": integers(np.int32, n, 2) // 2**28})
    older = make_model([node("ReduceProd", "x", "y", axes=[1])], {"x": ["n", "m"]}, {"y": ["n", 1]}, opset=13)
    check(older, {"x": floats(2, 3)})


@pytest.mark.parametrize("opset", [17, 18])
def test_sums_of_sizes_of_integers_without_a_sign(opset):
    """IREE takes those above the middle for negative ones. onnxruntime has no such sums."""
    kind = (TensorProto.UINT32, [3, 5])
    axes = {"axes": [1]} if opset < 18 else {}
    made = node("ReduceL1", "x" if axes else "x last", "y", keepdims=0, **axes)
    constants = {} if axes else {"last": np.array([1])}
    session = opsplice.onnx.session(
        make_model([made], {"x": kind}, {"y": (TensorProto.UINT32, [3])}, constants, opset), providers=["local-sync"]
    )
    given = np.arange(15, dtype=np.uint32).reshape(3, 5) + np.uint32(1 << 31)
    np.testing.assert_array_equal(session.run(None, {"x": given})[0], given.sum(1, dtype=np.uint32))
