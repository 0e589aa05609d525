"""Mixtures of experts, as onnxruntime-genai's model builder writes them: numbers against onnxruntime's."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

from opsplice import frontends
from opsplice.common.errors import OpspliceError
from tests.onnx.models import RANDOM, make_model, node
from tests.onnx.test_fused import MICROSOFT, compare, floats

EXPERTS, WIDTH, INNER = 4, 32, 64
GATED = {
    "activation_type": "swiglu",
    "swiglu_fusion": 1,
    "activation_alpha": 1.7,
    "activation_beta": 1.0,
    "swiglu_limit": 1.5,
}


@pytest.mark.parametrize("length", ["n", 1])
def test_experts_of_floats(length):
    """Shares of all scores, or of the chosen ones; of rows, and of a batch of them."""
    forms = [{}, {"k": 3, "normalize_routing_weights": 1}]
    forms += [{"k": 2, "activation_type": kind} for kind in ("silu", "gelu", "identity")]
    forms.append({"k": 2, "normalize_routing_weights": 1, **GATED})
    constants = {"v": floats(EXPERTS, INNER, WIDTH) / 4, "b": floats(EXPERTS, INNER), "g": floats(EXPERTS, 2 * INNER)}
    constants |= {
        "vg": floats(EXPERTS, 2 * INNER, WIDTH) / 4,
        "w": floats(EXPERTS, WIDTH, INNER) / 4,
        "c": floats(EXPERTS, WIDTH),
    }
    nodes = [
        node("MoE", f"x s {'vg g' if 'swiglu_fusion' in form else 'v b'} w c", f"y{number}", **form, **MICROSOFT)
        for number, form in enumerate(forms)
    ]
    nodes.append(node("MoE", "deep s v - w", "z", k=2, **MICROSOFT))
    rows = 5 if length == "n" else 1
    feed = {"x": floats(rows, WIDTH), "s": floats(rows, EXPERTS), "deep": floats(1, rows, WIDTH)}
    shapes = {f"y{number}": [rows, WIDTH] for number in range(len(forms))} | {"z": [1, rows, WIDTH]}
    compare(nodes, feed, constants, shapes)


def test_experts_of_few_bits():
    """With a scale for each row or for each block, with and without zero points, and with shares of their own."""
    forms = [
        ({}, 0, False, False),
        ({"activation_type": "silu"}, 16, True, False),
        ({"activation_type": "silu"}, 0, True, False),
        ({"expert_weight_bits": 8, **GATED}, 0, False, False),
        (GATED, 32, False, False),
        ({"activation_type": "silu"}, 32, False, True),
        ({"activation_type": "silu", "normalize_routing_weights": 1}, 32, False, True),
    ]
    nodes, constants, shapes = [], {}, {}
    for number, (form, block, has_zeros, has_shares) in enumerate(forms):
        bits, fused = form.get("expert_weight_bits", 4), 2 if "swiglu_fusion" in form else 1
        for name, rows, terms in (("v", fused * INNER, WIDTH), ("w", WIDTH, INNER)):
            blocks = (terms // block,) if block else ()
            last = terms // block if block else rows
            packed = {
                "": (EXPERTS, rows, terms * bits // 8),
                "z": (EXPERTS, *((rows,) if block else ()), last * bits // 8),
            }
            constants |= {
                f"{name}{key}{number}": RANDOM.integers(0, 256, shape, np.uint8) for key, shape in packed.items()
            }
            constants[f"{name}s{number}"] = RANDOM.uniform(0.01, 0.05, (EXPERTS, rows, *blocks)).astype(np.float32)
        constants |= {f"b{number}": floats(EXPERTS, fused * INNER), f"c{number}": floats(EXPERTS, WIDTH)}
        zeros = f"vz{number} wz{number} -" if has_zeros else "- - -"
        inputs = f"x s v{number} vs{number} b{number} w{number} ws{number} c{number} - - - {zeros}"
        form = form | ({"block_size": block} if block else {})
        inputs += " shares" if has_shares else ""
        nodes.append(node("QMoE", inputs, f"y{number}", k=2, weights_prepacked=0, **form, **MICROSOFT))
        shapes[f"y{number}"] = [5, WIDTH]
    feed = {"x": floats(5, WIDTH), "s": floats(5, EXPERTS), "shares": RANDOM.random((5, EXPERTS)).astype(np.float32)}
    used = {name for each in nodes for name in each.input}
    compare(nodes, feed, {name: array for name, array in constants.items() if name in used}, shapes)


@pytest.mark.parametrize("form", [{"use_sparse_mixer": 1}, {"activation_type": "geglu", "swiglu_fusion": 1}])
def test_experts_that_are_refused(form):
    constants = {"v": floats(EXPERTS, INNER, WIDTH), "w": floats(EXPERTS, WIDTH, INNER)}
    made = node("MoE", "x s v - w", "y", **form, **MICROSOFT)
    model = make_model([made], {"x": [5, WIDTH], "s": [5, EXPERTS]}, {"y": [5, WIDTH]}, constants)
    with pytest.raises(OpspliceError, match="MoE, with these inputs and attributes, which is not supported"):
        frontends.load(model)
