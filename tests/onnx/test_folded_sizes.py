"""Sizes that a model computes of those of its inputs, where some of them are open."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

import onnx
import onnx.shape_inference
from onnx import numpy_helper

from opsplice.onnx import importing
from opsplice.onnx.folded_sizes import fold, keep_elements
from tests.onnx.models import make_model, node
from tests.onnx.test_expansion import check, floats


@pytest.mark.parametrize("chosen", [("Gather", "shape one"), ("Slice", "shape one two")], ids=["gather", "slice"])
def test_a_known_size_beside_an_open_one_is_a_number(chosen):
    """With the batch open, the windows of an image of 8 rows are 4 rows: IREE takes a view of sizes that it knows."""
    constants = {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2])}
    kind, inputs = chosen
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "batch"),
        node(kind, inputs, "rows"),
        node("Div", "rows two", "half"),
        node("Concat", "batch half two", "wanted", axis=0),
        node("Reshape", "x wanted", "y"),
    ]
    model = onnx.shape_inference.infer_shapes(
        make_model(nodes, {"x": ["batch", 8]}, {"y": ["batch", None, 2]}, constants), data_prop=True
    )
    assert fold(model)
    assert [each.op_type for each in model.graph.node] == ["Shape", "Gather", "Concat", "Reshape"]
    found = {each.name: numpy_helper.to_array(each).tolist() for each in model.graph.initializer}
    assert (found["rows"], found["half"]) == ([8], [4])
    check(model, {"x": floats(3, 8)})


def test_sizes_by_way_of_floats_are_numbers():
    """As MobileViT has them: a sum of two such views was refused as it ran."""
    constants = {"height": np.array(16.0, np.float32), "patch": np.array(2.0, np.float32), "rest": np.array([-1])}
    constants |= {"zero": np.array([0])}
    nodes = [
        node("Div", "height patch", "patches"),
        node("Ceil", "patches", "whole"),
        node("Mul", "whole patch", "rows"),
        node("Cast", "rows", "size", to=onnx.TensorProto.INT64),
        node("Unsqueeze", "size zero", "sizes"),
        node("Concat", "sizes rest", "wanted", axis=0),
        node("Reshape", "x wanted", "y"),
    ]
    model = onnx.shape_inference.infer_shapes(
        make_model(nodes, {"x": [64]}, {"y": [None, None]}, constants), data_prop=True
    )
    while fold(model):
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    assert [each.op_type for each in model.graph.node] == ["Reshape"]
    check(model, {"x": floats(64)})


def test_sizes_are_computed_before_nodes_are_written_for_open_ones():
    """As EfficientNet has amounts to pad by: its last pool was written for an image of any size."""
    constants = {"none": np.array([0, 0]), "around": np.array([1, 2])}
    nodes = [
        node("Concat", "none around none around", "pads", axis=0),
        node("Pad", "x pads", "wide"),
        node("AveragePool", "wide", "y", kernel_shape=[64, 64], strides=[64, 64], ceil_mode=1),
    ]
    model = make_model(nodes, {"x": [1, 2, 5, 4]}, {"y": [1, 2, 1, 1]}, constants)
    typed, _ = importing._typed(model, {}, "a model")
    pool = next(each for each in typed.graph.node if each.op_type == "AveragePool")
    assert list(onnx.helper.get_node_attr_value(pool, "kernel_shape")) == [7, 8]
    check(model, {"x": floats(1, 2, 5, 4)})


@pytest.mark.parametrize("batch", ["batch", None], ids=["named", "without a name"])
def test_the_size_of_what_is_left_is_known_where_the_open_sizes_are_the_same(batch):
    """As Swin has the places of an image in a row and back, with an open batch: IREE did not compile Swin v2's."""
    constants = {"zero": np.array([0]), "rest": np.array([-1]), "four": np.array([4]), "eight": np.array([8])}
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "rows"),
        node("Concat", "rows rest four", "flat", axis=0),
        node("Reshape", "x flat", "places"),
        node("Concat", "rows eight eight four", "square", axis=0),
        node("Reshape", "places square", "y"),
    ]
    model = make_model(nodes, {"x": [batch, 8, 8, 4]}, {"y": [batch, 8, 8, 4]}, constants)
    typed = onnx.shape_inference.infer_shapes(model, data_prop=True)
    keep_elements(typed)
    (places,) = (value for value in typed.graph.value_info if value.name == "places")
    assert places.type.tensor_type.shape.dim[1].dim_value == (64 if batch else 0)
    check(model, {"x": floats(3, 8, 8, 4)})


def test_the_count_of_chosen_elements_is_known():
    """Along an open dim, of which ONNX says nothing: a size of 1 was not known to be one that is repeated."""
    nodes = [node("TopK", "x one", "most at", axis=0), node("Sub", "x most", "y")]
    model = make_model(nodes, {"x": ["n", 3]}, {"y": ["n", 3]}, {"one": np.array([1])})
    check(model, {"x": floats(5, 3)})


def test_dims_that_a_mask_is_spread_along():
    """As masks of encoders are exported: -1 keeps a dim of size 1, and the other sizes are open."""
    constants = {name: np.array(number) for name, number in (("at0", 0), ("at1", 1), ("times", -1))}
    constants |= {"axis": np.array([0]), "rest": np.array([-1]), "axes": np.array([1, 2])}
    one = numpy_helper.from_array(np.array([1]))
    nodes = [
        node("Shape", "x", "sizes"), node("Gather", "sizes at0", "batch"), node("Gather", "sizes at1", "length"),
        node("Unsqueeze", "batch axis", "rows"), node("Unsqueeze", "length axis", "columns"),
        node("Concat", "rows rest columns columns", "parts", axis=0), node("Reshape", "parts rest", "wanted"),
        node("Shape", "wanted", "rank"), node("ConstantOfShape", "rank", "ones", value=one),
        node("Mul", "ones times", "left"), node("Equal", "wanted left", "stays"),
        node("Where", "stays ones wanted", "shape"),
        node("Unsqueeze", "x axes", "keys"), node("Expand", "keys shape", "mask"), node("Add", "scores mask", "y"),
    ]  # fmt: skip
    inputs = {"x": ["n", "t"], "scores": ["n", 4, "t", "t"]}
    check(
        make_model(nodes, inputs, {"y": ["n", 4, "t", "t"]}, constants),
        {"x": floats(2, 5), "scores": floats(2, 4, 5, 5)},
    )


def test_heads_become_rows_of_a_number_that_the_program_computes():
    """As PyTorch's attention is exported: IREE takes the first two sizes for the same, and reads what lies behind."""
    constants = {name: np.array(number) for name, number in (("at0", 0), ("at1", 1), ("wide", [32]), ("axis", [0]))}
    nodes = [
        node("Shape", "x", "sizes"), node("Gather", "sizes at0", "length"), node("Gather", "sizes at1", "heads"),
        node("Mul", "length heads", "all"), node("Div", "all four", "count"), node("Unsqueeze", "count axis", "rows"),
        node("Concat", "rows wide", "shape", axis=0), node("Reshape", "x shape", "y"), node("Relu", "y", "z"),
    ]  # fmt: skip
    model = make_model(nodes, {"x": ["t", "h", 8]}, {"z": [None, 32]}, constants | {"four": np.array(4)})
    check(model, {"x": floats(5, 8, 8)})


def test_sizes_are_known_however_many_depend_on_one_another():
    """As EnCodec pads before each of its convolutions, by what the size of the one before leaves."""
    nodes, steps = [], 40
    for step in range(steps):
        nodes += [
            node("Shape", f"x{step}", f"shape{step}"),
            node("Max", f"shape{step} one", f"sizes{step}"),
            node("Reshape", f"x{step} sizes{step}", f"x{step + 1}"),
        ]
    typed, _ = importing._typed(
        make_model(nodes, {"x0": [2, 3]}, {f"x{steps}": None}, {"one": np.array([1])}), {}, "a model"
    )
    assert {each.op_type for each in typed.graph.node} == {"Reshape"}
