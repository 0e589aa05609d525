"""Operators that find objects in images, and spectra of signals: numbers against onnxruntime's."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

from onnx import TensorProto

from tests.onnx.models import RANDOM, make_model, node
from tests.onnx.test_expansion import check, floats

NUMBERS = TensorProto.INT64


def shares(*shape):
    return RANDOM.random(shape).astype(np.float32)


@pytest.mark.parametrize("sizes", [(2, 3, 12), ("n", 3, "k")])
def test_boxes_that_stay(sizes):
    """Corners in any order, centres, all boxes that there are, and none."""
    batch, classes, count = sizes
    inputs = {"boxes": [batch, count, 4], "scores": [batch, classes, count]}
    limits = {"few": np.array([4]), "all": np.array(2**62), "part": np.array([0.4], np.float32)}
    limits |= {"least": np.array([0.3], np.float32), "beyond": np.array(2, np.float32)}
    nodes = [
        node("NonMaxSuppression", "boxes scores few part least", "corners"),
        node("NonMaxSuppression", "boxes scores all part", "centres", center_point_box=1),
        node("NonMaxSuppression", "boxes scores few part beyond", "none"),
    ]
    model = make_model(nodes, inputs, {each.output[0]: (NUMBERS, [None, 3]) for each in nodes}, limits)
    check(model, {"boxes": shares(2, 12, 4), "scores": shares(2, 3, 12)})


REGIONS = [
    {"coordinate_transformation_mode": "output_half_pixel"},
    {"sampling_ratio": 2},
    {"sampling_ratio": 2, "mode": "max"},
    {"mode": "max"},
]


@pytest.mark.parametrize("count", [0, 5])
def test_parts_of_images(count):
    """Regions at the edges and outside, and none at all; as many points in each as the region is large, or fixed."""
    inputs = {"x": ["n", 3, "h", "w"], "regions": ["r", 4], "batches": (NUMBERS, ["r"])}
    form = {"output_height": 3, "output_width": 2, "spatial_scale": 0.5}
    nodes = [node("RoiAlign", "x regions batches", f"y{at}", **form, **more) for at, more in enumerate(REGIONS)]
    model = make_model(nodes, inputs, {each.output[0]: [None, 3, 3, 2] for each in nodes}, opset=16)
    corners = 10 * shares(count, 2) - 1
    regions = np.concatenate([corners, corners + 9 * shares(count, 2)], 1)
    check(model, {"x": floats(2, 3, 8, 7), "regions": regions, "batches": RANDOM.integers(0, 2, count)})
