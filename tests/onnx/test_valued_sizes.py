"""Results whose sizes are values of the program: numbers against onnxruntime's."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

from onnx import TensorProto

import opsplice.onnx
from tests.onnx.models import make_model, node
from tests.onnx.test_expansion import check, floats

NUMBERS, FLAGS = TensorProto.INT64, TensorProto.BOOL
SIZES = {"h": 3, "w": 5, "rows": 2, "many": 30, "wide": 8}


def test_elements_that_are_kept():
    """IREE does not compile Compress."""
    nodes = [node("Compress", "x keep", "rows", axis=-2), node("Compress", "x few", "flat")]
    nodes.append(node("Compress", "bytes keep", "none", axis=0))
    inputs = {"x": [2, "n", 3], "keep": (FLAGS, ["k"]), "few": (FLAGS, ["few"]), "bytes": (TensorProto.UINT8, [2, 2])}
    outputs = {"rows": [2, None, 3], "flat": [None], "none": (TensorProto.UINT8, [None, 2])}
    feed = {"x": floats(2, 4, 3), "keep": np.array([False, True]), "few": np.array([True, False] * 6 + [True])}
    feed["bytes"] = np.array([[1, 200], [3, 4]], np.uint8)
    check(make_model(nodes, inputs, outputs), feed)


def test_shapes_of_fewer_dims_than_the_operand_has():
    """IREE does not lower Expand to these."""
    nodes = [node("Expand", "x two", "y"), node("Expand", "x given", "z")]
    inputs = {"x": [2, "n", 1], "given": (NUMBERS, [1])}
    model = make_model(nodes, inputs, {"y": [2, "n", 4], "z": [2, "n", None]}, {"two": np.array([1, 4])})
    check(model, {"x": floats(2, 3, 1), "given": np.array([5])})


def test_ranges():
    """Of doubles, which IREE does not compile, and of short integers that go down, of which it makes too few."""
    nodes, inputs, outputs, feed = [], {}, {}, {}
    for element, kind, numbers in (
        (TensorProto.DOUBLE, np.float64, (0.5, 3.1, 0.3)),
        (TensorProto.INT16, np.int16, (9, -4, -3)),
        (TensorProto.INT64, np.int64, (9, -4, -3)),
    ):
        names = [f"{part}_{element}" for part in ("first", "limit", "step")]
        nodes.append(node("Range", " ".join(names), f"y_{element}"))
        inputs |= {name: (element, []) for name in names}
        outputs[f"y_{element}"] = (element, [None])
        feed |= {name: np.array(number, kind) for name, number in zip(names, numbers, strict=True)}
    check(make_model(nodes, inputs, outputs), feed)


def test_one_dim_becomes_several_of_open_sizes():
    """As views of attention and windows are exported: IREE takes -1 for the size where it stands for the rest."""
    reshapes = [
        (["many", 8], [-1, "h", 8]),
        (["many", 8], ["h", -1, 8]),
        (["many", 8], [-1, "h", "w", 8]),
        (["rows", "many", "wide"], ["rows", "h", -1, "wide"]),
        (["rows", "many", 8], ["rows", -1, "h", "w", 8]),
        (["rows", 15, 8], ["rows", "h", -1, 8]),
        (["rows", "many"], ["rows", "h", -1]),
        (["rows", 8, "many"], ["rows", -1, "h", "w"]),
    ]
    named = sorted(SIZES)
    inputs = {"sizes": named} | {f"x{number}": given for number, (given, _) in enumerate(reshapes)}
    constants = {name: np.array([place]) for place, name in enumerate(named)} | {"rest": np.array([-1])}
    constants |= {"size8": np.array([8])}
    nodes = [node("Shape", "sizes", "shape"), *(node("Gather", f"shape {name}", f"size_{name}") for name in named)]
    for number, (_, wanted) in enumerate(reshapes):
        parts = ["rest" if size == -1 else "size8" if size == 8 else f"size_{size}" for size in wanted]
        nodes += [
            node("Concat", " ".join(parts), f"shape{number}", axis=0),
            node("Reshape", f"x{number} shape{number}", f"r{number}"),
            node("Neg", f"r{number}", f"y{number}"),
        ]
    outputs = {f"y{number}": [None] * len(wanted) for number, (_, wanted) in enumerate(reshapes)}
    session = opsplice.onnx.session(make_model(nodes, inputs, outputs, constants), providers=["local-sync"])
    given = {name: floats(*(SIZES.get(size, size) for size in sizes)) for name, sizes in inputs.items()}
    for number, (found, (_, wanted)) in enumerate(zip(session.run(None, given), reshapes, strict=True)):
        np.testing.assert_array_equal(found, -given[f"x{number}"].reshape([SIZES.get(size, size) for size in wanted]))


def test_shapes_made_by_way_of_floats():
    """As windows are exported: IREE does not see that the rest is meant by -1, and that a size is kept by 0."""
    constants = {"one": np.array([1]), "two": np.array([2.0], np.float32)}
    constants |= {"rest": np.array([-1]), "kept": np.array([0])}
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape one", "size"),
        node("Cast", "size", "wide", to=TensorProto.FLOAT),
        node("Div", "wide two", "half"),
        node("Ceil", "half", "whole"),
        node("Cast", "whole", "windows", to=NUMBERS),
        node("Concat", "kept windows rest", "shape1", axis=0),
        node("Concat", "rest windows", "shape2", axis=0),
        node("Reshape", "x shape1", "v"),
        node("Relu", "v", "y"),
        node("Reshape", "x shape2", "z"),
    ]
    model = make_model(nodes, {"x": [2, "n", 3]}, {"y": [2, None, None], "z": [None, None]}, constants)
    check(model, {"x": floats(2, 6, 3)})


@pytest.mark.parametrize("shape", [[-1, 6], [0, -1], [4, 9]])
def test_a_shape_that_is_given(shape):
    inputs = {"x": [2, "n", 3], "shape": (NUMBERS, [2])}
    model = make_model([node("Reshape", "x shape", "y")], inputs, {"y": [None, None]})
    check(model, {"x": floats(2, 6, 3), "shape": np.array(shape)})


def test_several_open_dims_become_one_of_a_size_that_is_computed():
    """As grids of anchors are exported: IREE takes the first dim for the one of size 1."""
    constants = {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2])}
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "height"),
        node("Gather", "shape one", "width"),
        node("Mul", "height width", "places"),
        node("Concat", "one places two", "wanted", axis=0),
        node("Reshape", "x wanted", "y"),
        node("Cast", "places", "number", to=TensorProto.FLOAT),
        node("Cast", "number", "counted", to=NUMBERS),
        node("Concat", "one counted two", "made", axis=0),
        node("Reshape", "x made", "z"),
    ]
    model = make_model(nodes, {"x": ["h", "w", 2]}, {"y": [1, None, 2], "z": [1, None, 2]}, constants)
    check(model, {"x": floats(3, 5, 2)})


@pytest.mark.parametrize("limit", [5, 2, -3])
def test_ranges_that_may_have_no_elements(limit):
    """Of fewer than none IREE makes so many that memory does not suffice."""
    inputs, feed = {}, {}
    for name, element, kind in (("n", NUMBERS, np.int64), ("f", TensorProto.FLOAT, np.float32)):
        feed |= {f"{name}_first": np.array(2, kind), f"{name}_limit": np.array(limit, kind)}
        inputs |= dict.fromkeys((f"{name}_first", f"{name}_limit"), (element, []))
    inputs["step"], feed["step"] = (NUMBERS, []), np.array(-1)
    constants = {"one": np.array(1), "down": np.array(-2), "half": np.array(0.5, np.float32)}
    rows = ["n_first n_limit one", "n_first n_limit down", "n_first n_limit step", "f_first f_limit half"]
    nodes = [node("Range", row, f"y{at}") for at, row in enumerate(rows)]
    outputs = {f"y{at}": (inputs[row.split()[0]][0], [None]) for at, row in enumerate(rows)}
    check(make_model(nodes, inputs, outputs, constants), feed)


def test_slices_along_dims_and_in_steps_that_are_given():
    """Forwards and backwards, from and to places outside, and of dims in any order."""
    nodes = [node("Slice", "x starts ends axes steps", "y"), node("Slice", "x starts ends fixed steps", "z")]
    nodes.append(node("Slice", "x starts ends axes", "ahead"))
    inputs = {"x": [4, "n", 3], **dict.fromkeys(("starts", "ends", "axes", "steps"), (NUMBERS, [2]))}
    model = make_model(nodes, inputs, dict.fromkeys(("y", "z", "ahead"), [None] * 3), {"fixed": np.array([1, 0])})
    far = np.iinfo(np.int64).max
    for starts, ends, axes, steps in (
        ([0, 1], [9, -1], [2, 0], [2, 1]),
        ([-1, far], [-far, 0], [-2, 0], [-2, -1]),
        ([-9, 2], [far, 2], [1, 2], [3, 1]),
    ):
        feed = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
        check(model, {"x": floats(4, 5, 3), **{name: np.array(value) for name, value in feed.items()}})
