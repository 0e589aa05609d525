"""Models for the tests of ONNX, made with its own helpers."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

OPSET = 21
RANDOM = np.random.default_rng(0)
TYPES = {"float32": TensorProto.FLOAT}


def node(kind: str, inputs: str, outputs: str, **attributes) -> NodeProto:
    """inputs, outputs: names with spaces between; `-` for one that is left out."""
    sides = ["" if name == "-" else name for name in inputs.split()], ["" if n == "-" else n for n in outputs.split()]
    return helper.make_node(kind, *sides, **attributes)


def make_model(nodes, inputs, outputs, constants=None, opset=OPSET, **more) -> ModelProto:
    """inputs, outputs: the shape of each by its name, in f32; or the type and the shape."""
    values = [[_value(name, form) for name, form in each.items()] for each in (inputs, outputs)]
    weights = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "graph of-a:test", *values, weights)
    domains = {"": opset} | more.pop("domains", {})
    imports = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
    return helper.make_model(graph, opset_imports=imports, **{"ir_version": 10, **more})


def _value(name, form):
    kind, shape = form if isinstance(form, tuple) else (TensorProto.FLOAT, form)
    return helper.make_tensor_value_info(name, kind, shape)
