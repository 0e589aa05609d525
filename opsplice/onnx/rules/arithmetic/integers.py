"""Rules for integers: those without a sign as wider ones, and what IREE computes of floats alone."""

from __future__ import annotations

import functools

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from opsplice.onnx.rules.node_writer import FLOATS, NodeWriter, attributes, input_name, wrongly_computed

_WIDER = {
    TensorProto.UINT8: TensorProto.INT32,
    TensorProto.UINT16: TensorProto.INT32,
    TensorProto.UINT32: TensorProto.INT64,
}
_WITHOUT_SIGN = (*_WIDER, TensorProto.UINT64)
_PRODUCTS = (2, 3)
_NEAR = np.float64(2**-40)


def wider(on: NodeWriter, node: onnx.NodeProto) -> str | list[str] | None:
    """Of integers without a sign, which IREE takes for integers with one: of wider ones."""
    element = on.element(node.input[0])
    if element not in _WITHOUT_SIGN:
        return None
    if node.op_type == "Abs":
        return on.put("Identity", node.input[0])
    if element not in _WIDER:
        raise wrongly_computed(node, "it takes large numbers without a sign for negative ones")
    inputs = [on.cast(name, _WIDER[element]) if on.element(name) == element else name for name in node.input]
    first, *others = on.put_all(node.op_type, len(node.output), *inputs, **attributes(node))
    return [on.put("Cast", first, to=element), *others]


def made_without_sign(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Constants of integers of 16 or 64 bits without a sign, cast from some with one: IREE's compiler crashes."""
    form = attributes(node)
    value = form.get("value")
    element = form.get("dtype", on.element(node.input[0])) if value is None else value.data_type
    if element not in (TensorProto.UINT16, TensorProto.UINT64) or (value is None and node.op_type != "EyeLike"):
        return None
    if value is None:
        form["dtype"] = TensorProto.INT64
    else:
        form["value"] = numpy_helper.from_array(numpy_helper.to_array(value).astype(np.int64))
    return on.put("Cast", on.put(node.op_type, node.input[0], **form), to=element)


def sign(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Of floats: of what is no number IREE makes 0. Its compiler ends the process at integers without a sign."""
    x, element = node.input[0], on.element(node.input[0])
    if element in _WITHOUT_SIGN:
        return on.put("Min", x, on.number(1, x))
    if element not in FLOATS:
        return None
    zero = on.number(0, x)
    above, below = (on.put("Cast", on.put(kind, x, zero), to=element) for kind in ("Greater", "Less"))
    return on.put("Where", on.put("IsNaN", x), x, on.put("Sub", above, below))


def power(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Of integers: products, or of doubles, as onnxruntime computes them. IREE lowers none, or ends the process."""
    x, element = node.input[0], on.element(node.input[0])
    if element in (0, *FLOATS):
        return None
    exponent = on.constant(node.input[1])
    if exponent is not None and exponent.ndim == 0 and exponent in _PRODUCTS:
        return functools.reduce(lambda made, _: on.put("Mul", made, x), range(int(exponent) - 1), x)
    power = on.put("Pow", *(on.cast(each, TensorProto.DOUBLE) for each in node.input))
    whole = on.put("Round", power)  # IREE's powers may be a little below whole numbers
    apart, near = (on.put("Abs", each) for each in (on.put("Sub", power, whole), whole))
    is_whole = on.put("LessOrEqual", apart, on.put("Mul", near, _NEAR))
    return on.put("Cast", on.put("Where", is_whole, whole, power), to=element)


def negative(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Of integers, which IREE negates as floats of 32 bits."""
    x = node.input[0]
    return on.put("Sub", on.number(0, x), x) if on.element(x) not in (0, *FLOATS) else None


def mean(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Of integers: their sum, divided as integers are. IREE does not lower it."""
    x, element = node.input[0], on.element(node.input[0])
    if element in (0, *FLOATS):
        return None
    total = _total(on, node)
    return on.put("Div", total, on.put("Cast", on.put("Div", on.put("Size", x), on.put("Size", total)), to=element))


def sum_of_sizes(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """ReduceL1 of integers without a sign: their sum. IREE takes large ones for negative ones, which it turns."""
    return _total(on, node) if on.element(node.input[0]) in _WITHOUT_SIGN else None


def _total(on: NodeWriter, node: onnx.NodeProto) -> str:
    """The sum of what a reduction takes together, of which older versions have their axes as attributes."""
    axes, form = input_name(node, 1), attributes(node)
    if given := form.pop("axes", None):
        axes = on.give(np.array(given))
    return on.put("ReduceSum", node.input[0], *filter(None, [axes]), **form)
