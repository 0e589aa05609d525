"""Windows over images: numbers and places against onnxruntime's."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

import onnxruntime as ort
from onnx import TensorProto

import opsplice.onnx
from opsplice.common.errors import OpspliceError
from tests.onnx.models import RANDOM, make_model, node
from tests.onnx.test_expansion import check, floats, integers


def test_windows_that_round_up():
    """Where the last window lies partly behind the image, and where one more would begin there."""
    form = {"ceil_mode": 1}
    nodes = [
        node("AveragePool", "x", "inside", kernel_shape=[2, 1], strides=[2, 2], pads=[0, 0, 1, 0], **form),
        node("AveragePool", "x", "all", kernel_shape=[3, 2], strides=[2, 3], pads=[1, 0, 1, 1], count_include_pad=1,
             **form),
        node("MaxPool", "x", "behind", kernel_shape=[2, 2], strides=[2, 3], pads=[0, 0, 1, 1], **form),
        node("MaxPool", "x", "apart", kernel_shape=[3, 3], strides=[1, 3], dilations=[2, 1], pads=[2, 1, 2, 0], **form),
    ]  # fmt: skip
    outputs = {"inside": [1, 2, 4, 3], "all": [1, 2, 5, 2], "behind": [1, 2, 4, 2], "apart": [1, 2, 8, 3]}
    model = make_model(nodes, {"x": [1, 2, 8, 6]}, outputs, opset=22)
    check(model, {"x": floats(1, 2, 8, 6)})


def test_a_window_far_larger_than_its_image():
    """Zeros behind the image, 256 million of them here, are not added up: EfficientNet ends so."""
    form = {"kernel_shape": [16_000, 16_000], "ceil_mode": 1}
    apart = {"kernel_shape": [3, 9], "dilations": [4, 3], "strides": [3, 18], "ceil_mode": 1}
    nodes = [
        node("AveragePool", "x", "mean", strides=[16_000, 16_000], count_include_pad=1, **form),
        node("AveragePool", "x", "inside", strides=[16_000, 17_000], pads=[0, 0, 0, 3], **form),
        node("MaxPool", "x", "largest", strides=[16_000, 16_000], **form),
        node("LpPool", "x", "norm", strides=[16_000, 16_000], **form),
        node("MaxPool", "x", "apart", **apart),
        node("AveragePool", "x", "few", count_include_pad=1, pads=[0, 0, 0, 8], **apart),
    ]
    outputs = {each.output[0]: [1, 2, None, None] for each in nodes}
    check(make_model(nodes, {"x": [1, 2, 7, 8]}, outputs, opset=22), {"x": floats(1, 2, 7, 8)})


def test_a_large_window_over_an_image_of_open_sizes():
    form = {"kernel_shape": [900, 1100], "strides": [1800, 1200], "dilations": [2, 1], "pads": [0, 2, 1, 3]}
    model = make_model(
        [node("AveragePool", "x", "y", ceil_mode=1, **form)],
        {"x": ["n", 2, "h", "w"]},
        {"y": ["n", 2, None, None]},
        opset=22,
    )
    check(model, {"x": floats(2, 2, 7, 9)})


def test_windows_with_more_around_at_one_end():
    """Of open sizes IREE makes results of a negative size, or does not compile."""
    nodes = [
        node("MaxPool", "x", "y", kernel_shape=[3, 3], pads=[0, 1, 2, 1], strides=[2, 1]),
        node("MaxPool", "x", "z", kernel_shape=[3, 2], auto_pad="SAME_LOWER"),
    ]
    outputs = {"y": ["n", 3, None, None], "z": ["n", 3, None, None]}
    check(make_model(nodes, {"x": ["n", 3, "h", "w"]}, outputs), {"x": floats(2, 3, 8, 7)})


def test_places_of_maxima_count_the_elements_of_all_images():
    """IREE counts them in each image."""
    nodes = [node("MaxPool", "x", "y at", kernel_shape=[2, 2], strides=[2, 1])]
    outputs = {"y": ["n", 3, 2, 4], "at": (TensorProto.INT64, ["n", 3, 2, 4])}
    check(make_model(nodes, {"x": ["n", 3, 4, 5]}, outputs), {"x": floats(2, 3, 4, 5)})
    by_column = [node("MaxPool", "x", "y at", kernel_shape=[2, 2], strides=[2, 1], storage_order=1)]
    with pytest.raises(OpspliceError, match="row by row"):
        opsplice.onnx.session(make_model(by_column, {"x": [1, 3, 4, 5]}, outputs), cache=False)


def test_largest_bytes_of_volumes():
    """IREE's compiler crashes at those with a sign."""
    kinds = {"x": (TensorProto.INT8, [1, 2, 4, 5, 3])}
    model = make_model(
        [node("MaxPool", "x", "y", kernel_shape=[3, 2, 1], strides=[1, 1, 2])],
        kinds,
        {"y": (TensorProto.INT8, [1, 2, 2, 4, 2])},
    )
    check(model, {"x": integers(np.int8, 1, 2, 4, 5, 3)})


def test_windows_of_open_sizes():
    """IREE puts those elsewhere that `auto_pad` and `ceil_mode` place by the sizes."""
    form = {"kernel_shape": [3, 2], "strides": [2, 3]}
    forms = [
        ("AveragePool", {"auto_pad": "SAME_UPPER"}),
        ("AveragePool", {"auto_pad": "SAME_LOWER", "count_include_pad": 1}),
        ("AveragePool", {"ceil_mode": 1, "pads": [1, 0, 1, 1], "count_include_pad": 1}),
        ("AveragePool", {"ceil_mode": 1, "pads": [1, 0, 0, 1], "dilations": [2, 1]}),
        ("MaxPool", {"auto_pad": "SAME_LOWER"}),
        ("MaxPool", {"ceil_mode": 1, "pads": [0, 0, 1, 1], "dilations": [2, 1]}),
        ("LpPool", {"auto_pad": "SAME_UPPER"}),
    ]
    nodes = [node(kind, "x", f"y{n}", **form, **more) for n, (kind, more) in enumerate(forms)]
    nodes += [node("MaxPool", "b", "z", auto_pad="SAME_LOWER", **form)]
    outputs = {each.output[0]: [None] * 4 for each in nodes} | {"z": (TensorProto.UINT8, [None] * 4)}
    inputs = {"x": ["n", 3, "h", "w"], "b": (TensorProto.UINT8, ["n", 3, "h", "w"])}
    model = make_model(nodes, inputs, outputs, opset=22)
    for size in ((2, 3, 9, 10), (1, 3, 8, 8), (2, 3, 7, 7)):
        check(model, {"x": floats(*size), "b": integers(np.uint8, *size)})


def test_kernels_take_windows_of_open_sizes():
    """A window as large as the image may come to be is still one; the reduction of an open dim is none."""
    nodes = [
        node("MaxPool", "x", "largest", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        node("AveragePool", "x", "counted", kernel_shape=[3, 3], dilations=[2, 1], pads=[1] * 4, count_include_pad=1),
        node("AveragePool", "x", "inside", kernel_shape=[2, 3], pads=[1] * 4),
        node("GlobalMaxPool", "x", "all"),
    ]
    outputs = {each.output[0]: [None] * 4 for each in nodes}
    model = make_model(nodes, {"x": ["n", 3, "h", "w"]}, outputs, opset=22)
    session = opsplice.onnx.session(model, specs=["opsplice_kernels"], cache=False)
    taken = [(str(each.pattern), each.location) for each in session.report.replacements if not each.lost]
    assert [pattern for pattern, _ in taken] == ["pooled"] * 3, session.report
    reference = ort.InferenceSession(model.SerializeToString())
    for size in ((2, 3, 9, 10), (1, 3, 5, 3)):
        x = floats(*size)
        for found, wanted in zip(session.run(None, {"x": x}), reference.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("size", "opset", "message"), [("w", 22, "open sizes"), (8, 20, "version 20")])
def test_windows_that_are_refused(size, opset, message):
    """Places of open sizes would count what lies around; older versions of ONNX count one more than runtimes do."""
    outputs = "y at" if size == "w" else "y"
    nodes = [node("MaxPool", "x", outputs, kernel_shape=[2], strides=[3], pads=[0, 1], ceil_mode=1)]
    model = make_model(nodes, {"x": [1, 1, size]}, {"y": [1, 1, None]}, opset=opset)
    with pytest.raises(OpspliceError, match=message):
        opsplice.onnx.session(model, cache=False)


def test_means_of_random_windows():
    """Sizes, taps, steps and what lies around, each drawn."""
    nodes, outputs = [], {}
    for number in range(6):
        taps, steps = RANDOM.integers(1, 4, 2), RANDOM.integers(1, 3, 2)
        pads = [int(RANDOM.integers(0, tap)) for tap in (*taps, *taps)]
        form = {"kernel_shape": taps.tolist(), "strides": steps.tolist(), "pads": pads, "ceil_mode": 1}
        outputs[f"y{number}"] = [1, 2, None, None]
        nodes.append(node("AveragePool", "x", f"y{number}", count_include_pad=number % 2, **form))
    check(make_model(nodes, {"x": [1, 2, 9, 8]}, outputs, opset=22), {"x": floats(1, 2, 9, 8)})


@pytest.mark.parametrize("power", [1, 2, 3])
def test_norms_of_windows(power):
    """IREE lowers those alone whose pads are given, and whose taps lie beside each other."""
    form = {"kernel_shape": [3, 2], "p": power}
    nodes = [
        node("LpPool", "x", "upper", auto_pad="SAME_UPPER", strides=[2, 1], **form),
        node("LpPool", "x", "lower", auto_pad="SAME_LOWER", strides=[2, 3], **form),
        node("LpPool", "x", "valid", auto_pad="VALID", **form),
        node("LpPool", "x", "apart", dilations=[2, 1], **form),
        node("LpPool", "x", "more", dilations=[2, 1], strides=[3, 4], ceil_mode=1, **form),
    ]
    model = make_model(nodes, {"x": [1, 2, 8, 6]}, {each.output[0]: [1, 2, None, None] for each in nodes}, opset=22)
    check(model, {"x": floats(1, 2, 8, 6)})
