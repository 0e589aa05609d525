"""Results whose sizes are values of the program: numbers against onnxruntime's."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

from onnx import TensorProto

from tests.onnx.models import make_model, node
from tests.onnx.test_expansion import check, floats

NUMBERS, FLAGS = TensorProto.INT64, TensorProto.BOOL


def test_elements_that_are_kept():
    """IREE does not compile Compress."""
    nodes = [node("Compress", "x keep", "rows", axis=-2), node("Compress", "x few", "flat")]
    nodes.append(node("Compress", "bytes keep", "none", axis=0))
    inputs = {"x": [2, "n", 3], "keep": (FLAGS, ["k"]), "few": (FLAGS, ["few"]), "bytes": (TensorProto.UINT8, [2, 2])}
    outputs = {"rows": [2, None, 3], "flat": [None], "none": (TensorProto.UINT8, [None, 2])}
    feed = {"x": floats(2, 4, 3), "keep": np.array([False, True]), "few": np.array([True, False] * 6 + [True])}
    feed["bytes"] = np.array([[1, 200], [3, 4]], np.uint8)
    check(make_model(nodes, inputs, outputs), feed)


def test_shapes_of_fewer_dims_than_the_operand_has():
    """IREE does not lower Expand to these."""
    nodes = [node("Expand", "x two", "y"), node("Expand", "x given", "z")]
    inputs = {"x": [2, "n", 1], "given": (NUMBERS, [1])}
    model = make_model(nodes, inputs, {"y": [2, "n", 4], "z": [2, "n", None]}, {"two": np.array([1, 4])})
    check(model, {"x": floats(2, 3, 1), "given": np.array([5])})


def test_ranges():
    """Of doubles, which IREE does not compile, and of short integers that go down, of which it makes too few."""
    nodes, inputs, outputs, feed = [], {}, {}, {}
    for element, kind, numbers in (
        (TensorProto.DOUBLE, np.float64, (0.5, 3.1, 0.3)),
        (TensorProto.INT16, np.int16, (9, -4, -3)),
        (TensorProto.INT64, np.int64, (9, -4, -3)),
    ):
        names = [f"{part}_{element}" for part in ("first", "limit", "step")]
        nodes.append(node("Range", " ".join(names), f"y_{element}"))
        inputs |= {name: (element, []) for name in names}
        outputs[f"y_{element}"] = (element, [None])
        feed |= {name: np.array(number, kind) for name, number in zip(names, numbers, strict=True)}
    check(make_model(nodes, inputs, outputs), feed)
