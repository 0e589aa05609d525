"""Leaves out the sizes that a model says of its values where its operators make others, as onnxruntime does.

A batch is often opened by the dims of the inputs alone, with the values behind still said to be of one image; PyTorch's
exporter says so of values whose batch was 1 in its example.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx

from opsplice.onnx.model_file import graphs, is_shaped, kinds

# How ONNX names a size that it does not find out.
_UNKNOWN = "unk__"


def leave_out_false_sizes(model: onnx.ModelProto, infer: Callable[[onnx.ModelProto], onnx.ModelProto]) -> None:
    """Where one size that is said is false, none is believed that `infer` does not find without what is said."""
    found = [kinds(graph) for graph in graphs(infer(_without_sizes(model)).graph)]
    said = [
        (value, known.get(value.name))
        for graph, known in zip(graphs(model.graph), found, strict=True)
        for value in (*graph.value_info, *graph.output)
        if is_shaped(value)
    ]
    if any(kind is not None and _is_false(value.type, kind) for value, kind in said):
        for value, kind in said:
            _correct(value.type, kind)


def _without_sizes(model: onnx.ModelProto) -> onnx.ModelProto:
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for graph in graphs(bare.graph):
        del graph.value_info[:]
        for value in filter(is_shaped, graph.output):
            value.type.tensor_type.ClearField("shape")
    return bare


def _is_false(said: onnx.TypeProto, found: onnx.TypeProto) -> bool:
    if not found.tensor_type.HasField("shape"):
        return False
    one, other = said.tensor_type.shape.dim, found.tensor_type.shape.dim
    return len(one) != len(other) or any(
        dim.HasField("dim_value") and _is_known(made) and dim.dim_value != made.dim_value
        for dim, made in zip(one, other, strict=True)
    )


def _is_known(dim: onnx.TensorShapeProto.Dimension) -> bool:
    """Whether it is a number, or the name of an input's size."""
    return dim.HasField("dim_value") or bool(dim.dim_param and not dim.dim_param.startswith(_UNKNOWN))


def _correct(said: onnx.TypeProto, found: onnx.TypeProto | None) -> None:
    if found is not None and found.tensor_type.HasField("shape"):
        said.tensor_type.shape.CopyFrom(found.tensor_type.shape)
    for dim in said.tensor_type.shape.dim:
        if found is None or not _is_known(dim):
            dim.Clear()
