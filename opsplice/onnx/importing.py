"""Imports an ONNX model: a module of one function, `main`, and an archive of its weights.

IREE's own importer turns each node into one operator of the Torch dialect. Around it, here: symbolic dims are bound,
nodes that IREE lacks or computes wrongly are expanded (`expansion`), nodes without a name get one for messages, small
constants become plain ones that patterns can see, and large ones parameters.

Only the child process of an import loads this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from iree.compiler import ir
from iree.compiler.dialects import util
from iree.compiler.extras import onnx_importer

from opsplice.common.errors import OpspliceError
from opsplice.frontends.declarations import declare_function
from opsplice.frontends.importing import ARCHIVE, MODULE, Request
from opsplice.onnx import enclosed_nodes, versions
from opsplice.onnx.body_names import part_names
from opsplice.onnx.expansion import FUNCTIONS, expand
from opsplice.onnx.folded_sizes import (
    fold,
    forced_sizes,
    give_constants,
    keep_counts,
    keep_elements,
    keep_whole_dims,
)
from opsplice.onnx.imported_ops import TO_SIGNLESS, write_out
from opsplice.onnx.model_constants import name_constants, take_weights, write_tensors
from opsplice.onnx.model_file import (
    STANDARD,
    STORED,
    Scope,
    elements,
    graphs,
    is_shaped,
    kinds,
    names_read,
    read_model,
    replace,
    type_name,
)
from opsplice.onnx.node_checks import check_domains, check_types
from opsplice.onnx.rules import loop_states, loops
from opsplice.onnx.rules.convolutions import say_pads
from opsplice.onnx.said_sizes import leave_out_false_sizes
from opsplice.onnx.size_checks import check_sizes
from opsplice.runtime.weights import SCOPE, Arrays, write_archive

_FUNCTION = "main"
# Each size that depends on another takes a round: as many as a deep model has of its convolutions.
_MOST_ROUNDS = 1000


def import_model(request: Request) -> dict[str, Any]:
    """See `frontends.importing`. Facts: what a session shows of the model, and the compiler's flags for it."""
    name = request.name
    model, files = read_model(request.path, name)
    _bind(model, request.dims, name)
    facts = _facts(model, name)
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    part_names(model.graph)
    _name_nodes(model.graph)
    write_tensors(model.graph)
    weights = take_weights(model, request.path.parent, name)
    for graph in graphs(model.graph):
        _keep_useful_types(graph)
    model, forced = _typed(model, weights, name)
    for told, value in zip(facts["outputs"], model.graph.output, strict=True):
        if not told:
            told.update(_described(value, name))
    for value in (*facts["inputs"], *facts["outputs"]):
        value["shape"] = [forced.get(size, size) for size in value["shape"]]
    _emit(model, weights, request)
    facts["flags"] = ["--iree-input-demote-f64-to-f32=false"] if _has_doubles(model) else []
    facts["depends"] = [str(path) for path in files]
    return facts


# ---- the signature ---------------------------------------------------------------------------------------------------


def _bind(model: onnx.ModelProto, dims: Mapping[str, int], name: str) -> None:
    """Give symbolic dims their sizes, wherever they are named."""
    known = sorted({dim.dim_param for value in model.graph.input for dim in _dims(value.type) if dim.dim_param})
    for each, size in dims.items():
        if each not in known:
            listed = f"it has: {', '.join(known)}" if known else "all its sizes are fixed, or have no name"
            raise OpspliceError(f"{name} has no symbolic dim '{each}'", hint=listed)
        if size < 0:
            raise OpspliceError(f"dim '{each}' cannot be {size}", hint="give the size that inputs have")
    for graph in graphs(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            for dim in _dims(value.type):
                if dim.dim_param in dims:
                    dim.dim_value = dims[dim.dim_param]


def _dims(kind: onnx.TypeProto) -> Any:
    return kind.tensor_type.shape.dim


def _facts(model: onnx.ModelProto, name: str) -> dict[str, Any]:
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    return {
        "inputs": [_described(value, name) for value in graph.input if value.name not in constants],
        "constants": [value.name for value in graph.input if value.name in constants],
        "outputs": [_described(value, name) if is_shaped(value) else {} for value in graph.output],
        "metadata": {
            "producer_name": model.producer_name,
            "graph_name": graph.name,
            "domain": model.domain,
            "description": model.doc_string,
            "graph_description": graph.doc_string,
            "version": model.model_version,
            "custom_metadata_map": {entry.key: entry.value for entry in model.metadata_props},
        },
    }


def _described(value: onnx.ValueInfoProto, name: str) -> dict[str, Any]:
    kind = value.type.WhichOneof("value")
    tensor = value.type.tensor_type
    if kind != "tensor_type" or tensor.elem_type not in STORED:
        what = (
            type_name(tensor.elem_type) if kind == "tensor_type" else str(kind).removesuffix("_type").replace("_", " ")
        )
        raise OpspliceError(
            f"'{value.name}' of {name} is a {what}, which IREE has no type for",
            hint="inputs and outputs are tensors of numbers; take the others out of the graph, into your program",
        )
    shape = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim]
    return {"name": value.name, "type": type_name(tensor.elem_type), "shape": shape}


def _has_doubles(model: onnx.ModelProto) -> bool:
    values = (value for graph in graphs(model.graph) for value in (*graph.input, *graph.output, *graph.value_info))
    return any(value.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE for value in values)


# ---- the graph -------------------------------------------------------------------------------------------------------


def _name_nodes(graph: onnx.GraphProto) -> None:
    """What messages and reports call a node that has no name: its operator and its first result."""
    for each in graphs(graph):
        for node in each.node:
            if not node.name:
                node.name = f"{node.op_type} of {next(filter(None, node.output), 'nothing')}"


def _keep_useful_types(graph: onnx.GraphProto) -> None:
    """Leave one type for each result of the model and of a node, and none without a shape.

    ONNX would not add a shape to such, which converters to half precision note. A constant has its tensor's type,
    whatever is said: onnxruntime-genai's model builder says of all that they are scalars.
    """
    made = {name for node in graph.node for name in node.output} - {value.name for value in graph.output}
    shaped = [value for value in graph.value_info if value.type.tensor_type.HasField("shape")]
    replace(graph.value_info, (value for value in shaped if value.name in made))


def _typed(model: onnx.ModelProto, weights: dict[str, np.ndarray], name: str) -> tuple[onnx.ModelProto, dict[str, int]]:
    """The model with nodes that IREE takes, and a type for each value; and sizes that symbolic dims have to have.

    Large constants are inputs meanwhile. Raises OpspliceError for a value of the main graph that gets no type.
    """
    own = len(model.graph.input)
    for each, array in weights.items():
        model.graph.input.append(
            onnx.helper.make_tensor_value_info(each, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        )
    model = versions.modern(model)
    leave_out_false_sizes(model, lambda bare: _inferred(bare, name))
    say_pads(model.graph)
    _say_defaults(model, {"STFT"})  # of which ONNX takes the number of bins for that of all
    forced: dict[str, int] = {}
    # Operators that ONNX does not know have types only when they are expanded, and shapes depend on other shapes.
    for _ in range(_MOST_ROUNDS):
        model = _inferred(model, name)
        if more := forced_sizes(model):
            forced |= more
            _bind(model, more, name)
            continue
        changed = False
        for edit in (fold, give_constants, keep_whole_dims, keep_counts, keep_elements, loop_states.type_states):
            changed |= edit(model)
        if loops.rewrite(model.graph) or changed:
            continue  # nodes of branches and of rounds have no types yet, and sizes that seem open may be known then
        changed = expand(Scope.of(model.graph), weights, versions.version(model))
        functions = {
            (node.domain, node.op_type)
            for each in graphs(model.graph)
            for node in each.node
            if (node.domain, node.op_type) in FUNCTIONS
        }
        if functions:
            model = _inlined(model, sorted(functions), name)
        changed = changed or bool(functions) or loops.run_open_scans(model.graph)
        if not changed and not expand(Scope.of(model.graph), weights, versions.version(model), last=True):
            break
    loops.check(model.graph, name)
    check_domains(model.graph, name)
    model = _inferred(model, name)
    graph = model.graph
    graph.value_info.extend(graph.input[own:])
    del graph.input[own:]
    for each in set(weights) - names_read(graph):
        del weights[each]
    check_types(model, name)
    enclosed_nodes.enclose(graph)
    return model, forced


def _inferred(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    try:
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        raise OpspliceError(f"the types of {name} do not fit together", details=str(error)[:2000]) from None
    for each in [*graphs(model.graph)][1:]:
        _keep_useful_types(each)  # ONNX says of the results of a function's bodies that they are scalars, too
    return model


def _inlined(model: onnx.ModelProto, functions: list[tuple[str, str]], name: str) -> onnx.ModelProto:
    """The model with nodes as ONNX's own functions, which the inliner chooses by the types of all inputs."""
    _say_defaults(model, {kind for _, kind in functions})
    known = kinds(model.graph)
    for tensor in model.graph.initializer:
        if tensor.name not in known:
            kind = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            model.graph.value_info.append(kind)
    model.graph.value_info.add(name="", type=onnx.TypeProto())  # the inliner asks for what a node leaves out, too
    try:
        model = onnx.inliner.inline_selected_functions(model, functions, inline_schema_functions=True)
    except RuntimeError as error:
        raise OpspliceError(f"ONNX cannot expand operators of {name}", details=str(error)[:2000]) from None
    replace(model.graph.value_info, (value for value in model.graph.value_info if value.name))
    _name_nodes(model.graph)
    write_tensors(model.graph)
    for each in graphs(model.graph):
        name_constants(each)
    return model


def _say_defaults(model: onnx.ModelProto, operators: set[str]) -> None:
    """Write attributes that nodes leave out, whose value the inliner does not look up."""
    for node in (each for graph in graphs(model.graph) for each in graph.node):
        if node.op_type in operators and node.domain in STANDARD:
            known = onnx.defs.get_schema(node.op_type, versions.version(model)).attributes
            said = {each.name for each in node.attribute}
            node.attribute.extend(
                each.default_value for name, each in known.items() if name not in said and each.default_value.name
            )


# ---- the module ------------------------------------------------------------------------------------------------------


class _Types(onnx_importer.ContextCache):
    """Has constants as plain ones, of which the compiler and patterns see the elements."""

    __slots__ = ()

    def tensor_proto_to_attr(self, tensor: onnx.TensorProto) -> ir.Attribute:
        array = elements(tensor, Path(), "the model")
        kind = self.tensor_proto_to_builtin_type(tensor)
        if array.dtype.kind == "V":
            array = array.view(f"u{array.dtype.itemsize}")
        with ir.Location.unknown():
            return ir.DenseElementsAttr.get(np.ascontiguousarray(array), type=kind)


def _emit(model: onnx.ModelProto, weights: Mapping[str, np.ndarray], request: Request) -> None:
    model.graph.name = _FUNCTION
    info = onnx_importer.ModelInfo(model)
    context = ir.Context()
    module = info.create_module(context)
    types = _Types(context)
    try:
        importer = onnx_importer.NodeImporter.define_function(info.main_graph, module.operation, types)
        declare_function(
            importer._p.operation, list(info.main_graph.input_map), [out.name for out in model.graph.output]
        )
        with context:
            _load_weights(importer, module, types, weights)
        importer.import_all()
        with context:
            enclosed_nodes.mark(module)
            write_out(module)
            check_sizes(module)
        verified = module.operation.verify()
    except (onnx_importer.OnnxImportError, ir.MLIRError) as error:
        raise OpspliceError(f"IREE cannot import {request.name}", details=str(error)[:2000]) from None
    assert verified
    with (request.folder / MODULE).open("wb") as file:
        module.operation.write_bytecode(file)
    if weights:
        flat = {name: np.ascontiguousarray(array).reshape(-1).view(np.uint8) for name, array in weights.items()}
        write_archive(request.folder / ARCHIVE, [Arrays(flat)])


def _load_weights(importer: Any, module: ir.Module, types: _Types, weights: Mapping[str, np.ndarray]) -> None:
    for number, (name, array) in enumerate(weights.items()):
        element = types.tensor_element_type(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
        torch_type = types.get_vtensor_type(array.shape, element)
        with ir.Location.name(name):
            signless = ir.Type.parse(TO_SIGNLESS.sub(r"i\1", str(element)))
            kind = ir.RankedTensorType.get(array.shape, signless)
            parameter = f"#flow.parameter.named<{ir.StringAttr.get(SCOPE)}::{ir.StringAttr.get(name)}> : {kind}"
            symbol = f"parameter{number}"
            with ir.InsertionPoint.at_block_begin(module.body):
                util.GlobalOp(symbol, kind, sym_visibility="private", initial_value=ir.Attribute.parse(parameter))
            with ir.InsertionPoint(importer._b):
                loaded = util.GlobalLoadOp(kind, symbol).result
                converted = ir.Operation.create("torch_c.from_builtin_tensor", results=[torch_type], operands=[loaded])
        importer._nv_map[name] = converted.result
