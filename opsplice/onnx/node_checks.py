"""Refuses nodes that IREE would take wrongly: operators that are not ONNX's, results without types or ranks."""

from __future__ import annotations

import onnx

from opsplice.common.errors import OpspliceError
from opsplice.onnx import versions
from opsplice.onnx.expansion import known_of
from opsplice.onnx.model_file import STANDARD, graphs, kinds

_MOST_SAID = 300


def check_domains(graph: onnx.GraphProto, name: str) -> None:
    """Refuse what is not ONNX's: IREE's importer takes operators by their names alone, whosoever they are."""
    for node in (node for each in graphs(graph) for node in each.node):
        if node.domain in STANDARD:
            continue
        known, form = known_of(node.domain), ""
        if node.op_type in known:
            form = ", with these inputs and attributes"
        raise OpspliceError(
            f"node '{node.name}' of {name} is {node.domain}.{node.op_type}{form}, which is not supported",
            hint=f"of {node.domain} these are: {', '.join(known)}"
            if known and not form
            else "export the model without it, or write it with ONNX's operators",
        )


def check_types(model: onnx.ModelProto, name: str) -> None:
    """Refuse a result of the main graph whose type or rank ONNX does not infer."""
    known = kinds(model.graph)
    for node in model.graph.node:
        for output in filter(None, node.output):
            if output not in known or known[output].WhichOneof("value") is None:
                raise OpspliceError(
                    f"node '{node.name}' of {name} has a result '{output}' of unknown type",
                    hint=_why_unknown(node, known, versions.version(model)),
                )
            _check_rank(node, output, known[output], name)


def _why_unknown(node: onnx.NodeProto, known: dict[str, onnx.TypeProto], version: int) -> str:
    operator = f"{node.domain or 'ai.onnx'}.{node.op_type}"
    try:
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return f"the operator {operator} is not one of ONNX's, or is newer than the installed package 'onnx'"
    inputs = {each: known[each] for each in node.input if each in known}
    try:
        onnx.shape_inference.infer_node_outputs(schema, node, inputs)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        return f"ONNX refuses the inputs of {operator}: {str(error)[:_MOST_SAID]}; export the model again"
    return f"ONNX does not infer the result of {operator} from these inputs"


def _check_rank(node: onnx.NodeProto, output: str, kind: onnx.TypeProto, name: str) -> None:
    if kind.WhichOneof("value") == "tensor_type" and not kind.tensor_type.HasField("shape"):
        raise OpspliceError(
            f"node '{node.name}' of {name} has a result '{output}' of unknown rank ({node.op_type})",
            hint="IREE needs the number of dims of each value: bind symbolic dims with --dim (dims= in Python), or "
            "make the shape that it depends on a constant",
        )
