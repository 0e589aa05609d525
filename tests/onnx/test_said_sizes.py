"""Sizes that a model says of its values, which its operators contradict: onnxruntime goes by the operators."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

from onnx import TensorProto, helper

from opsplice.onnx import importing
from opsplice.onnx.model_file import sizes_of
from tests.onnx.models import make_model, node
from tests.onnx.test_expansion import check, floats


def said(model, **shapes):
    """The model, which says the shapes of values by their names."""
    model.graph.value_info.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()
    )
    return model


def sizes(model):
    typed, _ = importing._typed(model, {}, "a model")
    values = (*typed.graph.value_info, *typed.graph.output)
    return {value.name: sizes_of(value.type.tensor_type) for value in values if value.name in ("a", "b", "y")}


@pytest.mark.parametrize("batch", [1, 3])
def test_a_batch_that_was_opened_at_the_inputs_alone(batch):
    """As many images came out as had been said, with numbers of others."""
    nodes = [
        node("Conv", "x w", "a", pads=[1] * 4),
        node("Relu", "a", "b"),
        node("GlobalAveragePool", "b", "c"),
        node("Flatten", "c", "y"),
    ]
    model = make_model(nodes, {"x": ["batch", 3, 8, 8]}, {"y": [1, 4]}, {"w": floats(4, 3, 3, 3)})
    check(said(model, a=[1, 4, 8, 8], b=[1, 4, 8, 8], c=[1, 4, 1, 1]), {"x": floats(batch, 3, 8, 8)})


def test_ranks_stay_where_operators_do_not_tell_sizes():
    """The shape of the reshape is an input: that it has two dims is only said, and that one has two elements, too."""
    nodes = [node("Reshape", "x shape", "a"), node("Relu", "a", "b"), node("Relu", "x", "y")]
    inputs = {"x": ["n", 2], "shape": (TensorProto.INT64, [2])}
    model = make_model(nodes, inputs, {"b": ["m", 2], "y": [1, 2]})
    assert sizes(said(model, a=["m", 2])) == {"a": [None, None], "b": [None, None], "y": [None, 2]}
    check(model, {"x": floats(2, 2), "shape": np.array([1, 4])})


def test_what_nothing_contradicts_is_believed():
    """As of values that a dim's name or an operator leaves open."""
    nodes = [node("Reshape", "x shape", "a"), node("Relu", "a", "y")]
    inputs = {"x": ["n", 2], "shape": (TensorProto.INT64, [2])}
    model = said(make_model(nodes, inputs, {"y": ["m", 4]}), a=["m", 4])
    assert sizes(model) == {"a": [None, 4], "y": [None, 4]}


def test_constants_that_are_said_to_be_scalars():
    """As onnxruntime-genai's model builder says: ONNX does not infer the types of such a model."""
    nodes = [node("Constant", "", "axes", value=helper.make_tensor("", TensorProto.INT64, [1], [1]))]
    nodes.append(node("ReduceSum", "x axes", "y", keepdims=0))
    model = make_model(nodes, {"x": ["n", 3]}, {"y": ["n"]})
    model.graph.value_info.append(helper.make_tensor_value_info("axes", TensorProto.INT64, []))
    check(model, {"x": floats(2, 3)})
