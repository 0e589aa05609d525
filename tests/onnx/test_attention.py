"""ONNX's own Attention, in all its forms: numbers against ONNX's reference, and found as one computation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")

from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import opsplice
from benchmarks.calling import CPU
from tests.onnx.models import RANDOM, make_model, node

OPSET = 25
KERNELS = Path(__file__).parents[2] / "kernels" / "opsplice_kernels" / "attention.splice"
BOOL = TensorProto.BOOL
BY_HEADS, MERGED = [2, 4, 20, 8], [2, 20, 32]


def floats(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def kinds_of(feed):
    return {name: (helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for name, x in feed.items()}


def compiled(tmp_path, model):
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return opsplice.compile(path, specs=[KERNELS], flags=[CPU])


def compare(program, model, feed):
    found = program.run("main", *feed.values())
    for each, one, other in zip(model.graph.output, found, ReferenceEvaluator(model).run(None, feed), strict=True):
        assert one.shape == other.shape, each.name
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4, err_msg=each.name)


def test_every_form_is_one_match(tmp_path):
    """Grouped heads, merged or apart, masks, windows, caches, lengths; rows without any key are zeros."""
    feed = {"q": floats(*BY_HEADS), "k": floats(2, 2, 24, 8), "v": floats(2, 2, 24, 12)}
    feed |= {"x": floats(*MERGED), "y": floats(2, 24, 16), "old": floats(2, 2, 7, 8), "added": floats(2, 1, 20, 24)}
    keep = RANDOM.random((20, 24)) > 0.3
    keep[3] = False
    feed |= {"keep": keep, "short": floats(20, 21), "counts": np.array([24, 17])}
    three = {"q_num_heads": 4, "kv_num_heads": 2}
    nodes = [
        node("Attention", "q k v", "grouped"),
        node("Attention", "q k v", "causal", is_causal=1, scale=0.3),
        node("Attention", "x y y", "merged", is_causal=1, **three),
        node("Attention", "q k k - old old", "kept k1 v1", is_causal=1),
        node("Attention", "q k v keep", "chosen"),
        node("Attention", "q k v keep", "both", is_causal=1),
        node("Attention", "q k v added", "biased", is_causal=1, softcap=3.0),
        node("Attention", "q k v short", "cut", softmax_precision=1),
        node("Attention", "q k v - - - counts", "ragged", is_causal=1),
        node("Attention", "q k v", "near", left_window_size=4, right_window_size=2),
    ]
    shapes = {each: [2, 4, 20, 12] for each in ("grouped", "causal", "chosen", "both", "biased", "cut", "ragged")}
    shapes |= {
        "kept": [2, 4, 20, 8],
        "k1": [2, 2, 31, 8],
        "v1": [2, 2, 31, 8],
        "merged": MERGED,
        "near": [2, 4, 20, 12],
    }
    shapes = {name: shapes[name] for each in nodes for name in each.output}
    kinds = kinds_of(feed)
    model = make_model(nodes, kinds, shapes, opset=OPSET)
    program = compiled(tmp_path, model)
    kernels = [each.kernel for each in program.report.replacements if not each.lost]
    assert sorted(kernels) == ["attention_rows"] * 4 + ["banded_attention_rows"] * 6, program.report
    compare(program, model, feed)


def test_sizes_that_are_open(tmp_path):
    """A step of decoding behind a cache of any length: a causal mask is a band that begins behind it."""
    nodes = [
        node("Attention", "q k v - ok ov", "y pk pv", is_causal=1),
        node("Attention", "x z z mask", "m", q_num_heads=4, kv_num_heads=2),
    ]
    old, mask = ["b", 2, "p", 8], (BOOL, ["b", 1, "m", "t"])
    kinds = {"q": ["b", 4, "m", 8], "k": ["b", 2, "m", 8], "v": ["b", 2, "m", 8], "ok": old, "ov": old}
    kinds |= {"x": ["b", "m", 32], "z": ["b", "s", 16], "mask": mask}
    shapes = {"y": ["b", 4, "m", 8], "pk": ["b", 2, "t1", 8], "pv": ["b", 2, "t1", 8], "m": ["b", "m", 32]}
    model = make_model(nodes, kinds, shapes, opset=OPSET)
    program = compiled(tmp_path, model)
    kernels = [each.kernel for each in program.report.replacements if not each.lost]
    assert sorted(kernels) == ["attention_rows", "banded_attention_rows"], program.report
    for b, m, p, s, t in ((1, 1, 9, 5, 5), (2, 6, 3, 7, 4)):
        feed = {"q": floats(b, 4, m, 8), "k": floats(b, 2, m, 8), "v": floats(b, 2, m, 8), "ok": floats(b, 2, p, 8)}
        feed |= {"ov": floats(b, 2, p, 8), "x": floats(b, m, 32), "z": floats(b, s, 16)}
        compare(program, model, feed | {"mask": RANDOM.random((b, 1, m, t)) > 0.3})


@pytest.mark.parametrize("mode", range(4))
def test_scores_as_a_result(tmp_path, mode):
    # ONNX's reference caps the product, too, which is in mode 0 what comes before that.
    nodes = [node("Attention", "q k k keep", "y - - scores", qk_matmul_output_mode=mode, softcap=2.0 * (mode > 0))]
    keep = RANDOM.random((5, 7)) > 0.3
    keep[3] = False
    feed = {"q": floats(1, 4, 5, 8), "k": floats(1, 2, 7, 8), "keep": keep}
    kinds = kinds_of(feed)
    model = make_model(nodes, kinds, {"y": [1, 4, 5, 8], "scores": [1, 4, 5, 7]}, opset=OPSET)
    compare(compiled(tmp_path, model), model, feed)


def test_halves(tmp_path):
    """Scores whose squares are beyond what f16 holds, with a softmax in f32."""
    kind = TensorProto.FLOAT16
    feed = {"q": 12 * floats(1, 2, 5, 64), "k": 12 * floats(1, 1, 7, 64)}
    feed = {name: x.astype(np.float16) for name, x in feed.items()}
    nodes = [node("Attention", "q k k", "y", is_causal=1, softmax_precision=1)]
    model = make_model(nodes, kinds_of(feed), {"y": (kind, [1, 2, 5, 64])}, opset=OPSET)
    (found,) = (compiled(tmp_path, model).run("main", *feed.values()),)
    (wanted,) = ReferenceEvaluator(model).run(None, feed)
    np.testing.assert_allclose(np.asarray(found, np.float32), wanted.astype(np.float32), rtol=2e-2, atol=5e-2)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("steps", [1, 5])
def test_linear_attention(rule, steps, tmp_path):
    """From a state and without one, of heads that share keys. ONNX's own function of it is a Scan."""
    feed = {"q": floats(2, steps, 16), "k": floats(2, steps, 8), "v": floats(2, steps, 6), "s": floats(2, 2, 4, 3)}
    gate, rate = "gated" in rule, "delta" in rule
    feed |= ({"g": floats(2, steps, 8)} if gate else {}) | ({"b": floats(2, steps, 2)} if rate else {})
    form, heads = {"update_rule": rule}, {"q_num_heads": 4, "kv_num_heads": 2}
    others = f"{'g' if gate else '-'} {'b' if rate else '-'}"
    nodes = [
        node("LinearAttention", f"q k v s {others}", "y ps", **form, **heads),
        node("LinearAttention", f"q k v - {others}", "z pz", **form, **heads),
    ]
    results = {"y": [2, steps, 12], "ps": [2, 2, 4, 3], "z": [2, steps, 12], "pz": [2, 2, 4, 3]}
    model = make_model(nodes, kinds_of(feed), results, opset=27)
    compare(compiled(tmp_path, model), model, feed)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_attention_with_graphs_that_change_scores_and_shares(kind):
    """FlexAttention is ONNX's own function, of the domain of previews."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))

    def graph(name, nodes, constants):
        value = [helper.make_tensor_value_info(each, TensorProto.FLOAT, list("bhls")) for each in (name, "changed")]
        given = [helper.make_tensor(each, TensorProto.FLOAT, [], [number]) for each, number in constants.items()]
        return helper.make_graph(nodes, name, value[:1], value[1:], given)

    capped = [node("Div", "scores cap", "small"), node("Tanh", "small", "bound"), node("Mul", "bound cap", "changed")]
    flex = node(
        "FlexAttention",
        "q k v",
        "y",
        domain="ai.onnx.preview",
        score_mod=graph("scores", capped, {"cap": 2.0}),
        prob_mod=graph("shares", [node("Mul", "shares half", "changed")], {"half": 0.5}),
    )
    shapes = {"q": [2, 4, 3, 8], "k": [2, 2, 5, 8], "v": [2, 2, 5, 6]}
    outputs = {"y": (element, [2, 4, 3, 6])}
    inputs = {name: (element, shape) for name, shape in shapes.items()}
    model = make_model([flex], inputs, outputs, opset=26, domains={"ai.onnx.preview": 1}, ir_version=13)
    feed = {name: RANDOM.normal(size=shape).astype(kind) for name, shape in shapes.items()}
    (found,) = opsplice.onnx.session(model, providers=["local-sync"]).run(None, feed)
    q, k, v = (feed[name].astype(np.float64) for name in "qkv")
    k, v = (each.repeat(2, axis=1) for each in (k, v))
    scores = np.exp(2 * np.tanh(q @ k.swapaxes(2, 3) / np.sqrt(8) / 2))
    wanted = scores / scores.sum(-1, keepdims=True) / 2 @ v
    tolerance = 1e-5 if kind == np.float32 else 2e-3
    np.testing.assert_allclose(found.astype(np.float64), wanted, tolerance, tolerance)
