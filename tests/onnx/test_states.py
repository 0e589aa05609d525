"""Layers of onnxruntime that keep a state from call to call: numbers against onnxruntime's."""

import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

from opsplice import frontends
from opsplice.common.errors import OpspliceError
from tests.onnx.models import make_model, node
from tests.onnx.test_fused import MICROSOFT, compare, floats


@pytest.mark.parametrize("length", [1, 7])
def test_causal_convolutions(length):
    """Behind a state that is longer than the signal or shorter, from zeros, of spread taps."""
    constants = {"w": floats(6, 1, 4), "b": floats(6)}
    form = {"activation": "silu", **MICROSOFT}
    nodes = [
        node("CausalConvWithState", "x w b s", "y sy", **form),
        node("CausalConvWithState", "x w", "z sz", **MICROSOFT),
        node("CausalConvWithState", "x w - wide", "t st", dilation=2, **form),
    ]
    feed = {"x": floats(2, 6, length), "s": floats(2, 6, 3), "wide": floats(2, 6, 6)}
    shapes = {name: [2, 6, length] for name in "yzt"} | {"sy": [2, 6, 3], "sz": [2, 6, 3], "st": [2, 6, 6]}
    compare(nodes, feed, constants, shapes)


@pytest.mark.parametrize("form", [{"channels_last": 1}, {"state_window": 2}])
def test_other_layouts_of_states_are_refused(form):
    made = node("CausalConvWithState", "x w", "y s", **form, **MICROSOFT)
    model = make_model([made], {"x": [2, 6, 5]}, {"y": [2, 6, 5]}, {"w": floats(6, 1, 4)})
    with pytest.raises(OpspliceError, match="CausalConvWithState, with these inputs and attributes"):
        frontends.load(model)
