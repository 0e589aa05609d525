"""Writes operators of ai.onnx.ml, as scikit-learn's models have them, with other operators.

docs/onnx.md lists them.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from opsplice.onnx.rules.node_writer import NodeWriter, attribute


def picked(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """ArrayFeatureExtractor: elements of the last dim. What is made of one dim has two."""
    shape = on.shape(node.input[0])
    if not shape:
        return None
    x = node.input[0] if len(shape) > 1 else on.put("Reshape", node.input[0], [1, -1])
    return on.put("Gather", x, on.put("Reshape", node.input[1], [-1]), axis=-1)


def scaled(on: NodeWriter, node: onnx.NodeProto) -> str:
    """Scaler: (x - offset) * scale."""
    moved = on.put("Sub", on.cast(node.input[0], TensorProto.FLOAT), _numbers(node, "offset", 0))
    return on.put("Mul", moved, _numbers(node, "scale", 1))


def binarized(on: NodeWriter, node: onnx.NodeProto) -> str:
    """Binarizer: 1 for what is larger than a number, else 0."""
    is_larger = on.put("Greater", node.input[0], on.number(attribute(node, "threshold", 0.0), node.input[0]))
    return on.put("Cast", is_larger, to=on.element(node.input[0]))


def normalized(on: NodeWriter, node: onnx.NodeProto) -> str:
    """Normalizer: rows divided by their norm, or by their largest element. What is 0 stays so."""
    x, kind = on.cast(node.input[0], TensorProto.FLOAT), attribute(node, "norm", b"MAX").decode()
    if kind != "MAX":
        return on.put("LpNormalization", x, axis=-1, p=int(kind[1:]))
    largest = on.largest(x, np.array([-1]))
    zero = np.float32(0)
    return on.put("Div", x, on.put("Where", on.put("Equal", largest, zero), np.float32(1), largest))


def regressed(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """LinearRegressor."""
    if attribute(node, "post_transform", b"NONE") != b"NONE":
        return None
    return _linear(on, node, int(attribute(node, "targets", 1)))


def classified(on: NodeWriter, node: onnx.NodeProto) -> list[str] | None:
    """LinearClassifier: the label of the largest score, and the scores; none with a single score for two labels."""
    labels, kind = attribute(node, "classlabels_ints", []), attribute(node, "post_transform", b"NONE").decode()
    if kind not in _TRANSFORMS or not labels or len(attribute(node, "intercepts", [])) != len(labels):
        return None
    scores = _linear(on, node, len(labels))
    best = on.put("ArgMax", scores, axis=-1, keepdims=0)
    label = on.put("Gather", np.array(labels, np.int64), best)
    attributes = {"axis": -1} if kind == "SOFTMAX" else {}
    return [label, on.put(_TRANSFORMS[kind], scores, **attributes)]


_TRANSFORMS = {"NONE": "Identity", "SOFTMAX": "Softmax", "LOGISTIC": "Sigmoid"}


def _linear(on: NodeWriter, node: onnx.NodeProto, rows: int) -> str:
    weights = np.array(attribute(node, "coefficients", []), np.float32).reshape(rows, -1)
    products = on.put("MatMul", on.cast(node.input[0], TensorProto.FLOAT), np.ascontiguousarray(weights.T))
    return on.put("Add", products, _numbers(node, "intercepts", 0))


def _numbers(node: onnx.NodeProto, name: str, otherwise: float) -> np.ndarray:
    return np.array(attribute(node, name, [otherwise]), np.float32)
