"""Nodes that IREE does not compile and that no rule writes otherwise: what to say, with the name of the node."""

from __future__ import annotations

import onnx
from onnx import TensorProto

from opsplice.onnx.rules.node_writer import NodeWriter, attribute, input_name, not_compiled

_HALF_BYTES = (TensorProto.INT4, TensorProto.UINT4)


def check(on: NodeWriter, node: onnx.NodeProto) -> None:
    """Raise OpspliceError if the node is such a one."""
    if node.domain:
        return
    if node.op_type == "QuantizeLinear":
        zero = input_name(node, 2)
        if (on.element(zero) if zero else attribute(node, "output_dtype", 0)) in _HALF_BYTES:
            raise not_compiled(node, "it quantizes to no integers of 4 bits")
    if node.op_type == "BatchNormalization" and len(on.shape(node.input[0]) or "nc") == 1:
        raise not_compiled(node, "it normalizes no vectors")
