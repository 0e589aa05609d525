"""Recurrent layers that are written out, a step after the other: numbers against onnxruntime's."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

import onnx
import onnxruntime as ort

import opsplice.onnx
from opsplice.onnx import expansion
from opsplice.onnx.model_file import Scope
from opsplice.onnx.rules.layers.recurrent import MOST_WRITTEN
from tests.onnx.models import OPSET, RANDOM, make_model, node
from tests.onnx.test_expansion import has_exact_sums_of_bytes

STEPS, INPUT, SIZE = 4, 3, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
# What a layer has besides: a direction, biases, a state to start from, and what some kinds have.
FORMS = {
    "bare": ("forward", "", {}),
    "reverse": ("reverse", "b", {}),
    "both": ("bidirectional", "b h", {}),
    "batches first": ("bidirectional", "b h", {"layout": 1}),
}
CASES = [(kind, *form) for kind in GATES for form in FORMS.values()]
CASES += [("LSTM", "bidirectional", "b h p", {}), ("LSTM", "forward", "p", {}), ("LSTM", "forward", "", {"layout": 1})]
AFTER = {"linear_before_reset": 1}
CASES += [(kind, "bidirectional", "b h lengths", {}) for kind in GATES] + [("LSTM", "forward", "lengths", {})]
CASES += [("GRU", "forward", "", AFTER), ("GRU", "bidirectional", "b h", AFTER)]


def layer(kind, direction, given, form, number):
    """A node with the names of its results, and its weights."""
    both, wide = (2 if direction == "bidirectional" else 1), GATES[kind] * SIZE
    shapes = {"w": [both, wide, INPUT], "r": [both, wide, SIZE], "b": [both, 2 * wide], "h": [both, 2, SIZE]}
    shapes |= {"c": [both, 2, SIZE], "p": [both, 3 * SIZE]}
    names = {name: f"{name}{number}" for name in [*given.split(), *(["c"] if "h" in given and kind == "LSTM" else [])]}
    if "layout" in form:
        shapes |= {name: [2, both, SIZE] for name in "hc"}
    inputs = ["t" if "layout" in form else "x", f"w{number}", f"r{number}"]
    inputs += [names.get(name, "-") for name in ("b", "lengths", "h", "c", "p")[: 5 if kind == "LSTM" else 3]]
    while inputs[-1] == "-":
        inputs.pop()
    outputs = [f"y{number}", f"last{number}", *([f"cell{number}"] if kind == "LSTM" else [])]
    floats = [name for name in ("w", "r", *names) if name in shapes]
    weights = {f"{name}{number}": RANDOM.normal(size=shapes[name]).astype(np.float32) for name in floats}
    if "lengths" in names:
        weights[names["lengths"]] = np.array([STEPS, STEPS - 3], np.int32)
    return node(kind, " ".join(inputs), " ".join(outputs), hidden_size=SIZE, direction=direction, **form), weights


def model_of(cases):
    nodes, constants = [], {}
    for number, case in enumerate(cases):
        made, weights = layer(*case, number)
        nodes.append(made)
        constants |= weights
    outputs = {name: [None] * (4 if name[0] == "y" else 3) for each in nodes for name in each.output}
    return make_model(nodes, {"x": [STEPS, 2, INPUT], "t": [2, STEPS, INPUT]}, outputs, constants, 19)


def expanded(model):
    """The model after expansion, or None where nothing was to expand."""
    written = onnx.ModelProto.FromString(model.SerializeToString())
    return written if expansion.expand(Scope.of(written.graph), {}, OPSET) else None


def computed(model, feed):
    return ort.InferenceSession(model.SerializeToString()).run(None, feed)


def test_layers_give_the_numbers_of_onnxruntime():
    """Those with batches first, which onnxruntime lacks, give those of the same layer with batches second."""
    x = RANDOM.normal(size=(STEPS, 2, INPUT)).astype(np.float32)
    model, feed = model_of(CASES), {"x": x, "t": x.swapaxes(0, 1).copy()}
    written = expanded(model)
    onnx.checker.check_model(written)
    assert not {each.op_type for each in written.graph.node} & GATES.keys()
    found = dict(zip([each.name for each in model.graph.output], computed(written, feed), strict=True))
    for each in model.graph.node:
        turned = [one for one in each.attribute if one.name == "layout"]
        for one in turned:
            each.attribute.remove(one)
            each.input[0] = "x"
            for tensor in model.graph.initializer:
                if tensor.name in each.input[5:7]:
                    array = onnx.numpy_helper.to_array(tensor).swapaxes(0, 1).copy()
                    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
            whole, *lasts = each.output
            found[whole] = found[whole].transpose(1, 2, 0, 3)
            found |= {name: found[name].swapaxes(0, 1) for name in lasts}
    for name, other in zip(found, computed(model, feed), strict=True):
        np.testing.assert_allclose(found[name], other, rtol=1e-5, atol=1e-5, err_msg=name)


def test_long_layers_stay_one_node_with_all_that_it_can_have():
    """As kernels for whole layers take it: whatever the model leaves out of inputs, results and attributes."""
    usual = {"activations": ["Sigmoid", "Tanh", "Tanh"] * 2}
    kinds = [("LSTM", "forward", "", {}), ("LSTM", "bidirectional", "b h", usual), ("GRU", "forward", "", AFTER)]
    made, weights = zip(*(layer(*kind, number) for number, kind in enumerate(kinds)), strict=True)
    del made[0].output[1:]
    made[0].attribute.remove(next(each for each in made[0].attribute if each.name == "direction"))
    outputs = {name: [None] * (4 if name[0] == "y" else 3) for each in made for name in each.output}
    model = make_model(made, {"x": ["t", 2, INPUT]}, outputs, weights[0] | weights[1] | weights[2], 19)
    written = expanded(model)
    onnx.checker.check_model(written)
    whole = [each for each in written.graph.node if each.op_type in GATES]
    given = [True] * 4 + [False, True]
    assert [[bool(name) for name in each.input] for each in whole] == [[*given, True], [*given, True], given]
    assert [len(each.output) for each in whole] == [3, 3, 2]
    forms = {"hidden_size", "direction"}
    assert [{one.name for one in each.attribute} for each in whole] == [forms, forms, forms | AFTER.keys()]
    assert expanded(written) is None
    feed = {"x": RANDOM.normal(size=(STEPS, 2, INPUT)).astype(np.float32)}
    for one, other in zip(computed(written, feed), computed(model, feed), strict=True):
        np.testing.assert_array_equal(one, other)


def test_layers_that_iree_runs():
    """IREE lowers no layer backwards by itself, and leaves peepholes out."""
    model = model_of([("LSTM", "forward", "p", {}), ("GRU", "reverse", "b", {})])
    x = RANDOM.normal(size=(STEPS, 2, INPUT)).astype(np.float32)
    feed = {"x": x, "t": x.swapaxes(0, 1).copy()}
    found = opsplice.onnx.session(model, providers=["local-sync"]).run(None, feed)
    for one, other in zip(found, computed(model, feed), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_long_layers_that_run_backwards():
    """Forwards over what is turned; IREE lowers an RNN in both directions as two."""
    kinds = ("LSTM", "reverse"), ("RNN", "bidirectional")
    made, weights = zip(*(layer(*kind, "b h", {}, number) for number, kind in enumerate(kinds)), strict=True)
    made[1].input[0] = "long"
    weights[1]["r1"] *= 0.2  # else roundings of a step grow in each of those behind it
    outputs = {name: [None] * (4 if name[0] == "y" else 3) for each in made for name in each.output}
    inputs = {"x": ["t", 2, INPUT], "long": [MOST_WRITTEN + 1, 2, INPUT]}
    model = make_model(made, inputs, outputs, weights[0] | weights[1], 19)
    sizes = {"x": [7, 2, INPUT], "long": inputs["long"]}
    feed = {name: RANDOM.normal(size=size).astype(np.float32) for name, size in sizes.items()}
    found = opsplice.onnx.session(model, providers=["local-sync"]).run(None, feed)
    for one, other in zip(found, computed(model, feed), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_layers_of_open_steps_and_batches():
    """In loops: IREE lowers no GRU and RNN of these, and takes all steps, whatever the lengths of sequences."""
    usual = {"activations": ["Relu", "Tanh"]}
    kinds = [("GRU", "bidirectional", "b", {}), ("GRU", "reverse", "", AFTER), ("GRU", "bidirectional", "b", AFTER)]
    kinds += [("RNN", "bidirectional", "b", usual), ("LSTM", "forward", "b lengths", {}), ("LSTM", "forward", "b", {})]
    kinds += [("GRU", "bidirectional", "b h lengths", {}), ("LSTM", "reverse", "b p", {})]
    made, weights = zip(*(layer(*kind, number) for number, kind in enumerate(kinds)), strict=True)
    outputs = {name: [None] * (4 if name[0] == "y" else 3) for each in made for name in each.output}
    constants = {name: array for each in weights for name, array in each.items()}
    feed = {name: constants.pop(name) for name in [*constants] if name[0] in "chl"}
    kinds = {"l": (onnx.TensorProto.INT32, ["b"]), "h": [2, "b", SIZE], "c": [1, "b", SIZE]}
    inputs = {"x": ["t", "b", INPUT]} | {name: kinds[name[0]] for name in feed}
    model = make_model(made, inputs, outputs, constants, 19)
    session = opsplice.onnx.session(model, providers=["local-sync"])
    feed["x"] = RANDOM.normal(size=(STEPS, 2, INPUT)).astype(np.float32)
    for one, other in zip(session.run(None, feed), computed(model, feed), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_states_of_a_known_number_of_rows():
    """The input cannot but have as many, whatever it says."""
    made, weights = layer("GRU", "forward", "b h", {}, 0)
    outputs = {name: [None] * (4 if name[0] == "y" else 3) for name in made.output}
    model = make_model([made], {"x": [STEPS, "b", INPUT]}, outputs, weights, 19)
    session = opsplice.onnx.session(model, providers=["local-sync"])
    assert session.get_inputs()[0].shape == [STEPS, 2, INPUT]
    feed = {"x": RANDOM.normal(size=(STEPS, 2, INPUT)).astype(np.float32)}
    for one, other in zip(session.run(None, feed), computed(model, feed), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_whole_layers_of_open_steps_and_batches_for_kernels(tmp_path):
    """Patterns see that states have as many rows as the input, and what stands for a layer is not there for them."""
    made, weights = layer("GRU", "bidirectional", "b", AFTER, 0)
    outputs = {"y0": [None] * 4, "last0": [None] * 3}
    model = make_model([made], {"x": ["t", "b", INPUT]}, outputs, weights, 19)
    spec = tmp_path / "spec.splice"
    spec.write_text("""
kernel whole(x: f32[t, m, k], w: f32[d, g, k], r: f32[d, g, n], b: f32[d, gg], h: f32[d, m, n])
    -> (y: f32[t + 0, d, m + 0, n], last: f32[d, m + 0, n]) {
  cpu "whole.c"
}
pattern gru(x: tensor<t x m x k x f32>, w: tensor<d x g x k x f32>, r: tensor<d x g x n x f32>, b: tensor<d x gg x f32>,
    h: tensor<d x m x n x f32>) {
  y, last = "torch.operator"(x, w, r, b, _, h) {name = "onnx.GRU", ...}
  y, last
}
replace gru at start with whole(...)
""")
    file = tmp_path / "model.onnx"
    file.write_bytes(model.SerializeToString())
    assert len(opsplice.match(file, [spec]).replacements) == 1


@pytest.mark.parametrize(
    ("inputs", "form"),
    [
        ({"x": [STEPS, 2, INPUT]}, {"clip": 1.0}),
        ({"x": [STEPS, 2, INPUT]}, {"activations": ["Relu", "Tanh"]}),
    ],
)
def test_other_layers_stay(inputs, form):
    made, weights = layer("GRU", "forward", "b", form, 0)
    model = make_model([made], inputs, {"y0": [None] * 4, "last0": [None] * 3}, weights, 19)
    assert expanded(model) is None


@pytest.mark.parametrize("scales", ["one", "each", "with zero points"])
def test_weights_of_bytes_as_onnxruntime_quantises_them(scales):
    """Its numbers are off by what rounding inputs and states to bytes does, an LSTM's of the same weights are not."""
    both, wide = 2, 4 * SIZE
    columns = [both, wide] if scales == "each" else [both]
    shapes = {"w": [both, INPUT, wide], "r": [both, SIZE, wide]}
    constants = {name: RANDOM.integers(-127, 128, shape).astype(np.int8) for name, shape in shapes.items()}
    for name in shapes:
        constants[f"{name}s"] = RANDOM.uniform(0.002, 0.005, columns).astype(np.float32)
        constants[f"{name}z"] = np.full(columns, 5 if scales == "with zero points" else 0, np.int8)
    constants["b"] = RANDOM.normal(size=[both, 2 * wide]).astype(np.float32)
    form, given = {"hidden_size": SIZE, "direction": "bidirectional"}, {"x": [STEPS, 2, INPUT]}
    results = {"y": [STEPS, both, 2, SIZE], "h": [both, 2, SIZE], "c": [both, 2, SIZE]}
    quantised = node("DynamicQuantizeLSTM", "x w r b", "y h c", domain="com.microsoft", **form)
    quantised.input.extend(["", "", "", "", "ws", "wz", "rs", "rz"])
    model = make_model([quantised], given, results, constants, domains={"com.microsoft": 1})
    x = RANDOM.normal(size=given["x"]).astype(np.float32)
    found = opsplice.onnx.session(model, providers=["local-sync"]).run(None, {"x": x})
    rounded = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    for name in shapes:
        scale, zero = (constants.pop(f"{name}{each}").reshape(both, 1, -1) for each in "sz")
        constants[name] = ((constants[name].astype(np.float32) - zero) * scale).transpose(0, 2, 1)
    exact = make_model([node("LSTM", "x w r b", "y h c", **form)], given, results, constants)
    wanted = ort.InferenceSession(exact.SerializeToString()).run(None, {"x": x})
    for one, other, near in zip(found, wanted, rounded, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
        if has_exact_sums_of_bytes():
            np.testing.assert_allclose(one, near, atol=0.03)
