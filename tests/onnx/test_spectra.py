"""Spectra and running products: numbers against numpy's, which computes in f64."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

from onnx import helper

import opsplice.onnx
from tests.onnx.models import RANDOM, make_model, node
from tests.onnx.test_expansion import check, floats


def run(model, feed):
    names = [each.name for each in model.graph.output]
    return dict(zip(names, opsplice.onnx.session(model, providers=["local-sync"]).run(None, feed), strict=True))


def test_spectra_of_signals_of_open_lengths_and_batches_and_of_all_bins():
    nodes = [node("STFT", "x step window", "half"), node("STFT", "x step - length", "all", onesided=0)]
    nodes.append(node("STFT", "fixed step window", "whole", onesided=0))
    nodes.append(node("STFT", "batch step window", "each"))
    constants = {"step": np.array(16), "window": np.abs(floats(64)), "length": np.array(30)}
    outputs = dict.fromkeys(("half", "all", "whole", "each"), [None] * 4)
    model = make_model(nodes, {"x": ["n", "t", 1], "fixed": [2, 99, 1], "batch": ["b", 99]}, outputs, constants)
    check(model, {"x": floats(2, 200, 1), "fixed": floats(2, 99, 1), "batch": floats(3, 99)}, 1e-4)


@pytest.mark.parametrize("length", [None, 5, 12, 13])
def test_spectra_along_a_dim(length):
    """Of 9 places, so cut or with zeros behind where there is another length; onnxruntime is off by 3e-5."""
    size, given = ("length", {"length": np.array(length)}) if length else ("-", {})
    real, numbers = floats(2, 9, 8, 1), floats(2, 9, 8, 2)
    nodes = [
        node("DFT", f"real {size} along", "all"),
        node("DFT", f"real {size} along", "half", onesided=1),
        node("DFT", f"numbers {size} along", "of_complex"),
        node("DFT", f"numbers {size} along", "inverse", inverse=1),
        node("DFT", f"numbers {size} along", "to_real", inverse=1, onesided=1),
    ]
    outputs = dict.fromkeys((each.output[0] for each in nodes), [None] * 4)
    constants = given | {"along": np.array(-3)}
    inputs = {"real": ["n", 9, "w", 1], "numbers": [2, 9, 8, 2]}
    found = run(make_model(nodes, inputs, outputs, constants), {"real": real, "numbers": numbers})
    single, double = real[..., 0].astype(np.float64), numbers.astype(np.float64) @ np.array([1, 1j])
    transforms = [("all", np.fft.fft, single), ("half", np.fft.rfft, single), ("of_complex", np.fft.fft, double)]
    for name, transform, x in [*transforms, ("inverse", np.fft.ifft, double), ("to_real", np.fft.irfft, double)]:
        wanted = transform(x, length, axis=1)
        parts = [wanted] if name == "to_real" else [wanted.real, wanted.imag]
        np.testing.assert_allclose(found[name], np.stack(parts, -1), rtol=1e-5, atol=2e-6, err_msg=name)


def test_spectra_as_older_models_have_them():
    nodes = [node("DFT", "x", "rows", axis=1), node("DFT", "x", "half", axis=2, onesided=1)]
    nodes.append(node("DFT", "x", "inverse", axis=2, inverse=1))
    model = make_model(nodes, {"x": [2, 9, 8, 1]}, dict.fromkeys(("rows", "half", "inverse"), [None] * 4), opset=17)
    check(model, {"x": floats(2, 9, 8, 1)}, 5e-5)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32])
def test_running_products(kind):
    """onnxruntime has none, and IREE does not compile what pads doubles with ones."""
    forms = [{}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}]
    nodes = [node("CumProd", f"x {axis}", f"{axis}{n}", **f) for axis in ("row", "last") for n, f in enumerate(forms)]
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    outputs = {each.output[0]: (element, [None, None]) for each in nodes}
    constants = {"row": np.array(0), "last": np.array(-1)}
    model = make_model(nodes, {"x": (element, [3, 5])}, outputs, constants, opset=26)
    x = RANDOM.integers(-4, 5, (3, 5)).astype(kind)
    for name, found in run(model, {"x": x}).items():
        axis, form = (0 if name.startswith("row") else 1), forms[int(name[-1])]
        turned = np.flip(x, axis) if "reverse" in form else x
        if "exclusive" in form:
            turned = np.concatenate([np.ones_like(turned.take([0], axis)), turned], axis)
            turned = turned.take(range(x.shape[axis]), axis)
        wanted = np.cumprod(turned, axis, dtype=kind)
        np.testing.assert_array_equal(found, np.flip(wanted, axis) if "reverse" in form else wanted, err_msg=name)
