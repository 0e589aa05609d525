"""Rules for results whose sizes are values of the program: Compress, Expand and Range."""

from __future__ import annotations

import onnx
from onnx import TensorProto

from opsplice.onnx.rules.node_writer import FLOATS, NodeWriter, attribute

# The integers of which IREE computes ranges.
_COUNTING = (TensorProto.INT32, TensorProto.INT64)


def compress(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """A Gather at the places that are to stay: IREE does not compile it."""
    x, condition = node.input
    if on.shape(x) is None:
        return None
    axis = attribute(node, "axis", None)
    places = on.put("Reshape", on.put("NonZero", condition), [-1])
    flat = on.put("Reshape", x, [-1]) if axis is None else x
    return on.put("Gather", flat, places, axis=axis or 0)


def expand(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """To a shape of fewer dims, with ones before: IREE does not lower it."""
    x, (given, wanted) = node.input[0], (on.shape(name) for name in node.input)
    if given is None or not wanted or wanted[0] is None or wanted[0] >= len(given):
        return None
    return on.put("Expand", x, on.put("Concat", [1] * (len(given) - wanted[0]), node.input[1], axis=0))


def range_(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Of other types than IREE counts in: as many steps as there are, each times the step."""
    element = on.element(node.input[0])
    if element in (0, TensorProto.FLOAT, *_COUNTING):
        return None
    kind = TensorProto.DOUBLE if element in FLOATS else TensorProto.INT64
    start, limit, step = (on.cast(name, kind) for name in node.input)
    if kind == TensorProto.INT64:
        return on.put("Cast", on.put("Range", start, limit, step), to=element)
    steps = on.put("Ceil", on.put("Div", on.put("Sub", limit, start), step))
    numbers = on.cast(on.count(on.put("Max", on.put("Cast", steps, to=TensorProto.INT64), 0)), kind)
    made = on.put("Add", start, on.put("Mul", numbers, step))
    return made if kind == element else on.put("Cast", made, to=element)
