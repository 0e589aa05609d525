"""The constants of a model: as tensors among its initialisers, the large ones taken out of it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import onnx

from opsplice.onnx.model_file import STANDARD, STORED, elements, graphs, is_external, replace, tensors
from opsplice.onnx.rules.arithmetic.few_bits import WIDENED

# A constant of at least so many bytes is a parameter.
_LARGE = 4096
# What a parameter may be made of: IREE keeps bits in memory otherwise than ONNX does.
_PARAMETERS = {dtype for dtype in STORED.values() if dtype != np.bool_}


def write_tensors(graph: onnx.GraphProto) -> None:
    """Write constants that are given as numbers or sparse as tensors, which IREE's importer takes alone."""
    for each in graphs(graph):
        for node in each.node:
            if node.op_type != "Constant" or node.domain not in STANDARD:
                continue
            (given,) = node.attribute
            kind = {"f": np.float32, "i": np.int64}.get(given.name.removeprefix("value_")[:1])
            if given.name == "sparse_value":
                made = _dense(given.sparse_tensor)
            elif given.name != "value" and kind is not None:
                made = np.array(onnx.helper.get_attribute_value(given), kind)
            else:
                continue
            given.CopyFrom(onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(made)))
        for sparse in each.sparse_initializer:
            each.initializer.append(onnx.numpy_helper.from_array(_dense(sparse), sparse.values.name))
        del each.sparse_initializer[:]


def _dense(sparse: onnx.SparseTensorProto) -> np.ndarray:
    values, places = onnx.numpy_helper.to_array(sparse.values), onnx.numpy_helper.to_array(sparse.indices)
    made = np.zeros(tuple(sparse.dims), values.dtype)
    if places.ndim == 1:
        made.reshape(-1)[places] = values
    else:
        made[tuple(places.T)] = values
    return made


def take_weights(model: onnx.ModelProto, folder: Path, name: str) -> dict[str, np.ndarray]:
    """Take the large constants out of the main graph. The small ones come into the model where they are in files.

    folder: where these are. name: what messages call the model.
    """
    found = {}
    graph = model.graph
    readers: dict[str, set[str]] = defaultdict(set)
    for inner in graphs(graph):
        name_constants(inner)
        for node in inner.node:
            for each in node.input:
                readers[each].add(node.op_type)
    small = []
    for tensor in graph.initializer:
        array = elements(tensor, folder, name)
        if array.dtype in WIDENED and readers[tensor.name] == {"DequantizeLinear"}:
            array = array.astype(WIDENED[array.dtype])
            tensor = onnx.numpy_helper.from_array(array, tensor.name)
        if array.nbytes >= _LARGE and array.dtype in _PARAMETERS:
            found[tensor.name] = array
        else:
            small.append(_within(tensor, array))
    replace(graph.initializer, small)
    for tensor in tensors(model):
        if is_external(tensor):
            tensor.CopyFrom(_within(tensor, elements(tensor, folder, name)))
    replace(graph.input, (value for value in graph.input if value.name not in found))
    return found


def _within(tensor: onnx.TensorProto, array: np.ndarray) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.ascontiguousarray(array), tensor.name) if is_external(tensor) else tensor


def name_constants(graph: onnx.GraphProto) -> None:
    """Make initialisers of the constants among the nodes."""
    for node in filter(_is_constant, graph.node):
        tensor = node.attribute[0].t
        tensor.name = node.output[0]
        graph.initializer.append(tensor)
    replace(graph.node, (node for node in graph.node if not _is_constant(node)))


def _is_constant(node: onnx.NodeProto) -> bool:
    return node.op_type == "Constant" and node.domain in STANDARD and node.attribute[0].name == "value"
