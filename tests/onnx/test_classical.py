"""Operators of scikit-learn's models, which ONNX has in a domain of their own: numbers against onnxruntime's."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

from onnx import TensorProto

from tests.onnx.models import RANDOM, make_model, node
from tests.onnx.test_expansion import check

ML = {"domain": "ai.onnx.ml"}
BOTH = {"": 17, "ai.onnx.ml": 3}
X = RANDOM.normal(size=(7, 4)).astype(np.float32)


def numbers(count):
    return RANDOM.normal(size=count).tolist()


def test_what_is_done_to_features():
    x = X.copy()
    x[2] = 0
    nodes = [
        node("Scaler", "x", "scaled", offset=numbers(4), scale=numbers(4), **ML),
        node("Scaler", "i", "whole", offset=[0.5], scale=[2.0], **ML),
        node("Binarizer", "x", "one_or_none", threshold=0.2, **ML),
        node("Normalizer", "x", "l1", norm="L1", **ML),
        node("Normalizer", "x", "l2", norm="L2", **ML),
        node("Normalizer", "x", "largest", norm="MAX", **ML),
        node("ArrayFeatureExtractor", "x places", "taken", **ML),
        node("LinearRegressor", "x", "values", coefficients=numbers(8), intercepts=numbers(2), targets=2, **ML),
    ]
    shapes = {name: [7, 4] for name in ("scaled", "whole", "one_or_none", "l1", "l2", "largest")}
    inputs = {"x": [7, 4], "i": (TensorProto.INT64, [7, 4])}
    constants = {"places": np.array([3, 0, 3])}
    model = make_model(nodes, inputs, shapes | {"taken": [7, 3], "values": [7, 2]}, constants, domains=BOTH)
    check(model, {"x": x, "i": np.arange(28).reshape(7, 4)})


@pytest.mark.parametrize("kind", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_labels_and_scores(kind):
    more = {"coefficients": numbers(12), "intercepts": numbers(3), "classlabels_ints": [4, 9, 2], **ML}
    nodes = [node("LinearClassifier", "x", "label score", post_transform=kind, **more)]
    outputs = {"label": (TensorProto.INT64, ["rows"]), "score": ["rows", 3]}
    check(make_model(nodes, {"x": ["rows", 4]}, outputs, domains=BOTH), {"x": X})


def test_labels_that_are_looked_up():
    """ONNX knows nothing of the shape of what is looked up: what is reshaped was taken for one element."""
    nodes = [
        node("ArgMax", "x", "best", axis=1),
        node("ArrayFeatureExtractor", "labels best", "row", **ML),
        node("Reshape", "row line", "label"),
    ]
    constants = {"labels": np.array([4, 9, 2, 6]), "line": np.array([-1])}
    outputs = {"label": (TensorProto.INT64, [None])}
    check(make_model(nodes, {"x": ["rows", 4]}, outputs, constants, domains=BOTH), {"x": X})
