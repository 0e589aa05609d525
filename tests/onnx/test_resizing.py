"""GridSample, written as gathered elements: numbers against onnxruntime's."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

from tests.onnx.models import RANDOM, make_model, node
from tests.onnx.test_expansion import check


def test_grid_samples_are_those_of_onnxruntime():
    """At ties, which come from how places are rounded, too; (-1/3 + 1) * 6 / 2 - 1/2 is one in f32, or is not."""
    around = ("zeros", "border", "reflection")
    ways = [("nearest", way, way == "zeros") for way in around] + [("cubic", way, way == "border") for way in around]
    nodes = [
        node("GridSample", "x grid", f"y{n}", mode=mode, padding_mode=padding, align_corners=int(corners))
        for n, (mode, padding, corners) in enumerate(ways)
    ]
    ticks = np.array([-2.7, -1.5, -1, -1 / 3, 0, 0.25, 0.77, 1.1, 5], np.float32)
    grid = np.stack(np.meshgrid(ticks, ticks), axis=-1)[None].repeat(2, axis=0)
    outputs = {f"y{n}": [2, 2, 9, 9] for n in range(len(ways))}
    model = make_model(nodes, {"x": [2, 2, 4, 6], "grid": [2, 9, 9, 2]}, outputs)
    check(model, {"x": RANDOM.normal(size=(2, 2, 4, 6)).astype(np.float32), "grid": grid}, 5e-6)
