"""Rules for operators along dims whose numbers the program computes, or is given: IREE lowers none of them.

A reduction takes one dim after the other. Of a dim either all is kept or what the reduction makes of it:

    y = Concat(y[up to its size, or to 0], ReduceSum(y, d)[up to 0, or to 1], axis=d)
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from opsplice.onnx.rules.node_writer import AXES_ARE_INPUTS, FLOATS, NodeWriter, attribute, attributes, input_name
from opsplice.onnx.rules.valued_sizes import OF_SIZES

# Of which more than one dim at a time is another number than of one after the other.
_IN_PARTS = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceMean", "ReduceSumSquare")
REDUCTIONS = (*_IN_PARTS, "ReduceLogSumExp", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum")
ALONG = {"CumProd": 1, "CumSum": 1, "DFT": 2}  # which input it is


def along(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """An operator whose result has the shape of its operand: along each dim, and the one that is wanted."""
    x, axis = node.input[0], input_name(node, ALONG[node.op_type])
    shape, form = on.shape(x), attributes(node)
    if not axis or on.constant(axis) is not None or shape is None or form.get("onesided") or on.shape(axis) is None:
        return None
    dims = len(shape) - (node.op_type == "DFT")  # the last one has the parts of complex numbers
    before, wanted = node.input[: ALONG[node.op_type]], on.scalar(on.cast(axis, TensorProto.INT64))
    wanted = on.put("Where", on.put("Less", wanted, 0), on.put("Add", wanted, len(shape)), wanted)
    result = on.put(node.op_type, *before, 0, **form)
    for dim in range(1, dims):
        result = on.put("Where", on.put("Equal", wanted, dim), on.put(node.op_type, *before, dim, **form), result)
    return result


def reduced(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """A reduction over dims that only the program knows."""
    x, axes = node.input[0], input_name(node, 1)
    shape, given, element = on.shape(x), on.shape(axes), on.element(x)
    if not axes or on.constant(axes) is not None or shape is None or given is None or not element:
        return None
    if node.op_type in _IN_PARTS:
        return _in_parts(on, node)
    is_reduced, made = _reduced_dims(on, node, axes, len(shape)), x
    for dim in range(len(shape)):
        one = on.put("Cast", on.put("Gather", is_reduced, [dim]), to=TensorProto.INT64)
        all_of_it = on.put("Mul", on.put("Sub", 1, one), on.put("Shape", x, start=dim, end=dim + 1))
        parts = [
            on.put("Slice", part, [0], end, [dim])
            for part, end in ((made, all_of_it), (_of_dim(on, node.op_type, made, dim), one))
        ]
        made = on.put("Concat", *parts, axis=dim)
    if attribute(node, "keepdims", 1):
        return made
    return _without(on, node, made, is_reduced, len(shape), given)


def _in_parts(on: NodeWriter, node: onnx.NodeProto) -> str:
    """What is done with each element, a sum over the dims, and what is done with that."""
    x, element, form = node.input[0], on.element(node.input[0]), attributes(node)
    terms = x
    if node.op_type in ("ReduceL2", "ReduceSumSquare"):
        terms = on.put("Mul", x, x)
    elif node.op_type == "ReduceL1":
        terms = on.put("Abs", x)
    total = on.put("ReduceSum", terms, node.input[1], **form)
    if node.op_type == "ReduceMean":
        count = on.put("Div", on.put("Size", x), on.put("Max", on.put("Size", total), 1))
        return on.put("Div", total, on.put("Cast", count, to=element))
    if node.op_type == "ReduceLogSum":
        return on.put("Log", total)
    if node.op_type != "ReduceL2":
        return on.put("Identity", total)
    if element in FLOATS:
        return on.put("Sqrt", total)
    return on.put("Cast", on.put("Sqrt", on.put("Cast", total, to=TensorProto.DOUBLE)), to=element)


def _of_dim(on: NodeWriter, kind: str, x: str, dim: int) -> str:
    """A reduction of one dim, which stays. Some have the dims as an attribute in older versions."""
    if on.version < AXES_ARE_INPUTS and kind != "ReduceSum":
        return on.put(kind, x, axes=[dim], keepdims=1)
    return on.put(kind, x, [dim], keepdims=1)


def _reduced_dims(on: NodeWriter, node: onnx.NodeProto, axes: str, rank: int) -> str:
    """Which dims are reduced: those that are named, or else all, or none."""
    wanted = on.put("Unsqueeze", on.cast(axes, TensorProto.INT64), [1])
    wanted = on.put("Where", on.put("Less", wanted, 0), on.put("Add", wanted, rank), wanted)
    named = on.put("Cast", on.put("Equal", wanted, np.arange(rank)), to=TensorProto.INT64)
    is_reduced = on.put("Greater", on.put("ReduceSum", named, [0], keepdims=0), 0)
    if attribute(node, "noop_with_empty_axes", 0):
        return is_reduced
    return on.put("Or", is_reduced, on.put("Equal", on.put("Size", axes), 0))


def _without(
    on: NodeWriter, node: onnx.NodeProto, made: str, is_reduced: str, rank: int, given: list[int | None]
) -> str | None:
    """Without the dims that are reduced, if it is known how many these are.

    Of the kept ones, each size goes to the place that as many are before.
    """
    wanted = on.shape(node.output[0])
    count = len(wanted) if wanted is not None else rank - given[0] if given[0] else None
    if count is None:
        return None
    if count == 0:
        return on.scalar(made)
    is_kept = on.put("Cast", on.put("Not", is_reduced), to=TensorProto.INT64)
    place = on.put("Where", is_reduced, -1, on.put("CumSum", is_kept, 0, exclusive=1))
    goes = on.put("Cast", on.put("Equal", place, np.arange(count)[:, None]), to=TensorProto.INT64)
    sizes = on.put("ReduceSum", on.put("Mul", goes, on.put("Shape", made)), [1], keepdims=0)
    return on.put("Reshape", made, sizes, allowzero=1, doc_string=OF_SIZES)
