"""Brings models in older versions of ONNX's operators to the oldest that IREE has all of.

ONNX's converter forgets what some operators meant by default, so these are written out before.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnx.version_converter
from onnx import helper, numpy_helper

from opsplice.onnx.model_file import STANDARD, graphs, replace

# IREE has no older GreaterOrEqual and LessOrEqual.
OLDEST = 16
# From these versions on, Hardmax takes one dim, and Resize says how it computes places.
_HARDMAX_OF_ONE_DIM = 13
_RESIZE_WITH_MODES = 11


def version(model: onnx.ModelProto) -> int:
    """The version of ONNX's operators."""
    return max((each.version for each in model.opset_import if each.domain in STANDARD), default=OLDEST)


def modern(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in the oldest version of the operators that IREE has all of; as it is where ONNX cannot convert it."""
    before = version(model)
    if before >= OLDEST:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if before < _HARDMAX_OF_ONE_DIM:
        _write_hardmax_of_rows(copy)
    try:
        made = onnx.version_converter.convert_version(copy, OLDEST)
    except (RuntimeError, ValueError, onnx.checker.ValidationError):
        return model
    if before < _RESIZE_WITH_MODES:
        _say_how_to_resize(made)
    return made


def _write_hardmax_of_rows(model: onnx.ModelProto) -> None:
    """Older ones take all dims from `axis` on as one."""
    for graph in graphs(model.graph):
        nodes = []
        for node in graph.node:
            if node.op_type != "Hardmax" or node.domain not in STANDARD:
                nodes.append(node)
                continue
            x, (y,) = node.input[0], node.output
            axis = next((each.i for each in node.attribute), 1)
            shape, rows, largest = (f"{y}.{part}" for part in ("shape", "rows", "largest"))
            nodes += [
                helper.make_node("Shape", [x], [shape], name=node.name),
                helper.make_node("Flatten", [x], [rows], name=node.name, axis=axis),
                helper.make_node("Hardmax", [rows], [largest], name=node.name, axis=1),
                helper.make_node("Reshape", [largest, shape], [y], name=node.name),
            ]
        replace(graph.node, nodes)


def _say_how_to_resize(model: onnx.ModelProto) -> None:
    """Places are those of the result divided by the scales; what shrinks takes the element behind a place."""
    for graph in graphs(model.graph):
        constants = {tensor.name: tensor for tensor in graph.initializer}
        constants |= {
            node.output[0]: each.t for node in graph.node for each in node.attribute if node.op_type == "Constant"
        }
        for node in graph.node:
            if node.op_type == "Resize" and node.domain in STANDARD:
                scales = constants.get(node.input[2])
                shrinks = scales is not None and (numpy_helper.to_array(scales).astype(np.float64) < 1).any()
                node.attribute.append(helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
                node.attribute.append(helper.make_attribute("nearest_mode", "ceil" if shrinks else "floor"))
