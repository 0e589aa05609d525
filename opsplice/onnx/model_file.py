"""Reads ONNX models and the weights beside them, of which nothing is trusted: names, sizes and places are checked."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from opsplice.common.errors import OpspliceError
from opsplice.common.files import check_file

_NAMES = dict(onnx.TensorProto.DataType.items())

# How raw data stores elements, by their type: little-endian. Types of which several are in a byte are not among these.
STORED: dict[int, np.dtype] = {
    _NAMES[name]: onnx.helper.tensor_dtype_to_np_dtype(_NAMES[name])
    for name in (
        *("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "COMPLEX64", "COMPLEX128", "BOOL"),
        *("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"),
        *("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"),
    )
}
# ONNX's own domain of operators.
STANDARD = ("", "ai.onnx")
_ONNXRUNTIME = "com.microsoft"
# Operators that onnxruntime takes in any version, with the version of ONNX that has them. The checker refuses an older
# GroupNormalization, with a scale for each group.
_SINCE = {"GroupNormalization": 21, "LayerNormalization": 17, "SimplifiedLayerNormalization": math.inf}


def type_name(number: int) -> str:
    """ONNX's word for an element type: `float16`, `uint8`."""
    return next((name.lower() for name, known in _NAMES.items() if known == number), f"type {number}")


def read_model(path: Path, name: str) -> tuple[onnx.ModelProto, list[Path]]:
    """A model that ONNX's own checker accepts, with its tensors still in the files that it names, and these files.

    Raises OpspliceError.
    """
    model = onnx.ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except DecodeError:
        raise OpspliceError(f"{name} is not an ONNX model, or is damaged", hint="export it again") from None
    if not model.HasField("graph") or not model.opset_import:
        raise OpspliceError(f"{name} is not an ONNX model: it has no graph, or says no version of its operators")
    _rename(model)
    folder = path.parent
    files = {_place(tensor, folder, name) for tensor in tensors(model) if is_external(tensor)}
    _check(model, name)
    return model, sorted(files)


def is_shaped(value: onnx.ValueInfoProto) -> bool:
    """Whether a value is not said to be a tensor of unknown rank, or of unknown type."""
    kind = value.type.WhichOneof("value")
    return kind is not None and (kind != "tensor_type" or value.type.tensor_type.HasField("shape"))


def _check(model: onnx.ModelProto, name: str) -> None:
    """Raise OpspliceError for what ONNX's checker refuses, but for results without a shape, which can be computed."""
    if shapeless := next((value.name for value in model.graph.input if not is_shaped(value)), ""):
        raise OpspliceError(
            f"input '{shapeless}' of {name} has no shape",
            hint="IREE needs the number of dims of each input: give it a shape, of symbolic dims for sizes that vary",
        )
    outputs = list(model.graph.output)
    replace(model.graph.output, filter(is_shaped, outputs))
    try:
        onnx.checker.check_model(_without_weights(model))
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        raise OpspliceError(f"{name} is not a valid ONNX model", details=str(error)[:2000]) from None
    replace(model.graph.output, outputs)


def _rename(model: onnx.ModelProto) -> None:
    """Move operators that onnxruntime writes into ONNX's domain, where the checker does not know them, to its own.

    Of that its optimisers leave out the version, which the checker asks for.
    """
    version = max((each.version for each in model.opset_import if each.domain in STANDARD), default=1)
    names = {name for name, since in _SINCE.items() if version < since}
    nodes = [node for graph in graphs(model.graph) for node in graph.node]
    for node in nodes:
        if node.op_type in names and not node.domain:
            node.domain = _ONNXRUNTIME
    is_used = any(node.domain == _ONNXRUNTIME for node in nodes)
    if is_used and _ONNXRUNTIME not in {each.domain for each in model.opset_import}:
        model.opset_import.append(onnx.helper.make_opsetid(_ONNXRUNTIME, 1))


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether the elements are in a file of their own."""
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def elements(tensor: onnx.TensorProto, folder: Path, name: str) -> np.ndarray:
    """The elements of a tensor, those in a file mapped, not read. Raises OpspliceError where they are not all there."""
    shape = tuple(tensor.dims)
    if any(dim < 0 for dim in shape):
        raise OpspliceError(f"tensor '{tensor.name}' of {name} has a negative size")
    if is_external(tensor):
        return _mapped(tensor, _place(tensor, folder, name), shape, name)
    try:
        return onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError, OverflowError, KeyError) as error:  # KeyError: a type that there is not
        raise OpspliceError(f"tensor '{tensor.name}' of {name} is damaged: {str(error).lower()[:200]}") from None


def tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """All constants of a model: the weights of its graphs and the values of attributes."""
    for graph in graphs(model.graph):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
        for node in graph.node:
            yield from _of_attributes(node)
    for function in model.functions:
        for node in function.node:
            yield from _of_attributes(node)


def replace(field: Any, messages: Iterable[Any]) -> None:
    """Put other messages into a repeated field."""
    kept = list(messages)
    del field[:]
    field.extend(kept)


def sizes_of(tensor: onnx.TypeProto.Tensor | None) -> list[int | None] | None:
    """The sizes of a type of tensors, None for those that are open; None if not even their number is known."""
    if tensor is None or not tensor.HasField("shape"):
        return None
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and those in its nodes: branches and bodies of loops."""
    pending = [graph]
    while pending:
        each = pending.pop()
        yield each
        pending += [inner for node in each.node for inner in subgraphs(node)]


def kinds(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    """The types of the graph's values by name, as far as they are said."""
    return {value.name: value.type for value in (*graph.value_info, *graph.output, *graph.input)}


def names_read(graph: onnx.GraphProto) -> set[str]:
    """What the nodes and the results of a graph, and of those in its nodes, are made of."""
    every = list(graphs(graph))
    read = {name for each in every for node in each.node for name in node.input}
    return read | {value.name for each in every for value in each.output}


@dataclass(frozen=True)
class Scope:
    """A graph, with the values and constants that its nodes can name: its own, and those of the graphs around it.

    values: the types, as far as they are known.
    """

    graph: onnx.GraphProto
    values: Mapping[str, onnx.ValueInfoProto]
    constants: Mapping[str, onnx.TensorProto]

    @classmethod
    def of(cls, graph: onnx.GraphProto, around: Scope | None = None) -> Scope:
        """The scope of a graph that a node of another one holds, or of a model's own."""
        values = {value.name: value for value in (*graph.value_info, *graph.output, *graph.input)}
        constants = {tensor.name: tensor for tensor in graph.initializer}
        if around is not None:
            values, constants = {**around.values, **values}, {**around.constants, **constants}
        return cls(graph, values, constants)

    def inner(self) -> Iterator[Scope]:
        """The scopes of the graphs that its nodes hold."""
        for node in self.graph.node:
            for each in subgraphs(node):
                yield Scope.of(each, self)


def scopes(graph: onnx.GraphProto) -> Iterator[Scope]:
    """That of a graph and those in it, of branches and of bodies of loops."""
    pending = [Scope.of(graph)]
    while pending:
        each = pending.pop()
        yield each
        pending += each.inner()


def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs that a node holds."""
    found = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            found.append(attribute.g)
        found += attribute.graphs
    return found


def _of_attributes(node: onnx.NodeProto) -> Iterator[onnx.TensorProto]:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors


def _external(tensor: onnx.TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _place(tensor: onnx.TensorProto, folder: Path, name: str) -> Path:
    """The file with a tensor's elements, which is in the model's folder.

    The folder is the one that the model was named in or, where that is a link, the one that it is really in: downloads
    are often kept so.
    """
    location = _external(tensor).get("location", "")
    what = f"tensor '{tensor.name}' of {name} is in a file '{location}'"
    if not location or os.path.isabs(location) or "\0" in location or ".." in Path(location).parts:
        raise OpspliceError(
            f"{what}, which is not a place in the model's folder",
            hint="such a model could read any file of yours; save it again with its weights beside it",
        )
    path = folder / location
    if not path.exists():
        raise OpspliceError(
            f"{what}, and {path} is not there", hint="models with large weights are several files: put all in a folder"
        )
    check_file(path, None)
    homes = {os.path.realpath(folder), os.path.realpath(_real_folder(folder, name))}
    real = os.path.realpath(path)
    if not any(os.path.commonpath((home, real)) == home for home in homes):
        raise OpspliceError(
            f"{what}, a link to {real}, which is outside of the model's folder",
            hint="put a copy of the file there if you trust the model",
        )
    return path


def _real_folder(folder: Path, name: str) -> Path:
    return Path(os.path.realpath(folder / Path(name).name)).parent


def _mapped(tensor: onnx.TensorProto, path: Path, shape: tuple[int, ...], name: str) -> np.ndarray:
    dtype = STORED.get(tensor.data_type)
    if dtype is None:
        raise OpspliceError(
            f"tensor '{tensor.name}' of {name} has elements of {type_name(tensor.data_type)} in a file of their own, "
            "which is not supported",
            hint="save the model with its weights in it, or convert them",
        )
    entries = _external(tensor)
    count = int(np.prod(shape, dtype=object)) if shape else 1
    wanted = count * dtype.itemsize
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", wanted))
    except ValueError:
        raise OpspliceError(f"tensor '{tensor.name}' of {name} has a place in {path} that is not a number") from None
    size = path.stat().st_size
    if length != wanted or offset < 0:
        raise OpspliceError(
            f"tensor '{tensor.name}' of {name} takes {wanted} bytes, and {length} are said to be its own"
        )
    if offset + wanted > size:
        raise OpspliceError(
            f"{path} ends before tensor '{tensor.name}': it has {size} bytes, {offset + wanted} are needed",
            hint="the file is cut off: download or export it again",
        )
    if not count:
        return np.empty(shape, dtype)
    return np.memmap(path, np.uint8, "r", offset, (wanted,)).view(dtype).reshape(shape)


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """What the checker is to see: it looks for files from the folder that the process is in, and ours are checked."""
    if not any(is_external(tensor) for tensor in tensors(model)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for tensor in tensors(copy):
        if is_external(tensor):
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]
            tensor.dims[:] = [0]
            tensor.raw_data = b""
    return copy
