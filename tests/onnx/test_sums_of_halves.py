"""Sums of f16 are added up in f32, as onnxruntime has them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper

import opsplice.onnx

AXES = (2, 3)


def test_sums_are_rounded_once() -> None:
    x = np.random.default_rng(0).random((2, 4, 32, 64)).astype(np.float16)
    wide = x.astype(np.float64)
    wanted = {
        "ReduceMean": wide.mean(AXES, keepdims=True),
        "ReduceSum": wide.sum(AXES, keepdims=True),
        "ReduceL1": wide.sum(AXES, keepdims=True),
        "ReduceL2": np.sqrt((wide**2).sum(AXES, keepdims=True)),
        "ReduceSumSquare": (wide**2).sum(AXES, keepdims=True),
        "GlobalAveragePool": wide.mean(AXES, keepdims=True),
        "AveragePool": wide.mean(AXES, keepdims=True),
        "LogSoftmax": wide - np.log(np.exp(wide).sum(-1, keepdims=True)),
    }
    forms = {"AveragePool": {"kernel_shape": x.shape[2:]}}
    nodes = [helper.make_node(k, ["x", *["axes"] * k.startswith("Reduce")], [k], **forms.get(k, {})) for k in wanted]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, it.shape) for name, it in wanted.items()]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT16, x.shape)]
    graph = helper.make_graph(nodes, "sums", given, results, [numpy_helper.from_array(np.array(AXES), "axes")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = opsplice.onnx.session(model.SerializeToString())
    for each, found in zip(session.get_outputs(), session.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(found.astype(np.float64), wanted[each.name], rtol=6e-4, err_msg=each.name)
