"""Convolutions and transposed ones: numbers against onnxruntime's."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

import opsplice.onnx
from opsplice.common.errors import OpspliceError
from tests.onnx.models import make_model, node
from tests.onnx.test_expansion import check, floats


def test_transposed_convolutions_whose_ends_differ():
    """IREE lowers those alone that leave out as much at both ends, and whose sizes follow from that."""
    forms = [
        {"pads": [1, 0, 0, 1]},
        {"pads": [0, 1, 1, 1], "strides": [2, 2], "output_padding": [1, 1], "dilations": [2, 1]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 3]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 3], "output_padding": [1, 2]},
        {"output_shape": [12, 9], "strides": [2, 2]},
        {"output_shape": [13, 10], "strides": [2, 2], "output_padding": [1, 0], "auto_pad": "SAME_UPPER"},
    ]
    nodes = [node("ConvTranspose", "x w b", f"y{n}", **form) for n, form in enumerate(forms)]
    nodes += [node("ConvTranspose", "x g", f"z{n}", group=3, **form) for n, form in enumerate(forms)]
    nodes += [node("ConvTranspose", "open w b", f"o{n}", **form) for n, form in enumerate(forms)]
    nodes += [node("ConvTranspose", "open g", f"p{n}", group=3, **form) for n, form in enumerate(forms[1:3])]
    weights = {"w": floats(3, 4, 3, 2), "b": floats(4), "g": floats(3, 1, 3, 2)}
    outputs = {each.output[0]: [None] * 4 for each in nodes}
    model = make_model(nodes, {"x": [2, 3, 6, 5], "open": ["n", 3, "h", "w"]}, outputs, weights)
    check(model, {"x": floats(2, 3, 6, 5), "open": floats(2, 3, 6, 5)}, 1e-4)


def test_transposed_convolutions_of_images_with_zeros_around():
    """IREE takes these zeros for those between the places, and puts the image elsewhere."""
    around = np.array([0, 0, 1, 2, 0, 0, 0, 1])
    nodes = [node("Pad", "x around", "p"), node("Pad", "x around none", "q"), node("Relu", "p", "r")]
    nodes += [node("ConvTranspose", f"{each} w", f"y{each}", strides=[2, 3]) for each in "pqr"]
    weights = {"w": floats(3, 4, 3, 2), "around": around, "none": np.float32(0)}
    model = make_model(nodes, {"x": [2, 3, 6, 5]}, {f"y{each}": [None] * 4 for each in "pqr"}, weights)
    check(model, {"x": floats(2, 3, 6, 5)}, 1e-4)


def test_convolutions_at_offsets():
    """Of images and offsets in groups, with masks or not; places outside of an image are zeros."""
    form = {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2], "group": 2, "offset_group": 2}
    nodes = [node("DeformConv", "x w to", "plain"), node("DeformConv", "x v far b mask", "parted", **form)]
    shapes = {"x": [4, 7, 9], "to": [12, 5, 8], "far": [24, 4, 8], "mask": [12, 4, 8]}
    weights = {"w": floats(6, 4, 3, 2), "v": floats(6, 2, 3, 2), "b": floats(6)}
    inputs = {name: ["n", *shape] for name, shape in shapes.items()}
    model = make_model(nodes, inputs, dict.fromkeys(("plain", "parted"), [None] * 4), weights, opset=22)
    check(model, {name: 2 * floats(2, *shape) for name, shape in shapes.items()}, 5e-5)


def test_blocks_that_overlap_are_summed():
    forms = {"plain": {}, "apart": {"pads": [1, 0, 1, 2], "strides": [2, 3]}, "wide": {"dilations": [2, 1]}}
    counts = {"plain": 48, "apart": 15, "wide": 42}
    nodes = [node("Col2Im", f"x{name} image block", name, **form) for name, form in forms.items()]
    nodes.append(node("Col2Im", "line length steps", "short", strides=[2]))
    inputs = {f"x{name}": ["n", 18, count] for name, count in counts.items()} | {"line": [2, 6, 4]}
    constants = {"image": np.array([9, 8]), "block": np.array([2, 3]), "length": np.array([10]), "steps": np.array([3])}
    model = make_model(nodes, inputs, dict.fromkeys(forms, [None] * 4) | {"short": [None] * 3}, constants)
    check(model, {f"x{name}": floats(2, 18, count) for name, count in counts.items()} | {"line": floats(2, 6, 4)})


def test_convolutions_of_each_channel_of_volumes():
    """IREE has such of images alone."""
    forms = [
        {},
        {"pads": [2, 0, 1, 1, 1, 0], "strides": [2, 1, 2], "dilations": [2, 1, 1]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 1, 2]},
    ]
    nodes = [node("Conv", "x w b", f"y{n}", group=3, **form) for n, form in enumerate(forms)]
    nodes += [node("Conv", "open w b", f"z{n}", group=3, **form) for n, form in enumerate(forms[:2])]
    outputs = {each.output[0]: [None] * 5 for each in nodes}
    weights = {"w": floats(3, 1, 3, 2, 3), "b": floats(3)}
    model = make_model(nodes, {"x": [2, 3, 6, 5, 4], "open": ["n", 3, "d", "h", "w"]}, outputs, weights)
    check(model, {"x": floats(2, 3, 6, 5, 4), "open": floats(4, 3, 6, 5, 4)}, 1e-5)


def test_zeros_around_volumes_of_open_sizes_are_refused():
    """How many there are at each end follows from the size where windows lie some elements apart."""
    nodes = [node("Conv", "x w", "y", name="deep", group=3, auto_pad="SAME_UPPER", strides=[2, 1, 1])]
    model = make_model(nodes, {"x": ["n", 3, "d", 5, 4]}, {"y": [None] * 5}, {"w": floats(3, 1, 3, 2, 3)})
    with pytest.raises(OpspliceError, match=r"'deep' \(Conv\): how many zeros"):
        opsplice.onnx.session(model, cache=False)
