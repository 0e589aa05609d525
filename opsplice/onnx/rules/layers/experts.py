"""Rules for mixtures of experts of onnxruntime: each row of x goes to the k experts with the best scores.

MoE, QMoE: x of a row by its experts' first weights -> activation -> by their second weights -> weighed sum
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from opsplice.onnx.rules.arithmetic.few_bits import centred, unpacked
from opsplice.onnx.rules.node_writer import NodeWriter, attribute, input_name

# The weight of each expert [experts, columns, terms], and what is added [experts, columns].
_Layer = tuple[str, str]


def mixture(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """MoE, whose shares are parts of the softmax of all scores."""
    first, first_bias, second, second_bias = (input_name(node, number) for number in range(2, 6))
    best, experts = _best(on, node, on.put("Softmax", _wide(on, node.input[1]), axis=-1))
    shares = _of_one(on, best) if attribute(node, "normalize_routing_weights", 0) else best
    return _mixed(on, node, [(first, first_bias), (second, second_bias)], experts, shares, any(node.input[6:]))


def of_few_bits(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """QMoE of integers, whose shares are the softmax of the best scores, or chosen among numbers of their own."""
    layers = []
    for number, (weight, scale, bias, zero) in enumerate(((2, 3, 4, 11), (5, 6, 7, 12)), 1):
        bits = attribute(node, f"fc{number}_expert_weight_bits", 0) or attribute(node, "expert_weight_bits", 4)
        made = _dequantized(on, [input_name(node, each) for each in (weight, scale, zero)], bits)
        if made is None:
            return None
        layers.append((made, input_name(node, bias)))
    best, experts = _best(on, node, _wide(on, node.input[1]))
    if given := input_name(node, 14):
        shares = on.put("GatherElements", _wide(on, given), experts, axis=1)
        shares = _of_one(on, shares) if attribute(node, "normalize_routing_weights", 0) else shares
    else:
        shares = on.put("Softmax", best, axis=-1)
    other = any([*node.input[8:11], *node.input[13:14], *node.input[15:]])
    other = other or attribute(node, "quant_type", b"int") != b"int"
    return _mixed(on, node, layers, experts, shares, other)


def _dequantized(on: NodeWriter, names: list[str], bits: int) -> str | None:
    """A weight of numbers of a few bits with a scale, and maybe a zero point, for each row or each block of it."""
    packed, scales, zeros = (on.constant(name) if name else None for name in names)
    if packed is None or scales is None or (names[2] and zeros is None) or bits not in (2, 4, 8):
        return None
    numbers = unpacked(packed, bits)
    count, rows, terms = numbers.shape
    blocks = scales.size // (count * rows)
    middle = np.array(1 << (bits - 1), np.uint8)
    if zeros is not None:
        middle = unpacked(zeros, bits)[..., : blocks if zeros.ndim == numbers.ndim else rows]
        middle = middle.reshape(count, rows, blocks, 1)
    less = centred(on, numbers.reshape(count, rows, blocks, -1), middle, bits)
    wide = scales.astype(np.float32).reshape(count, rows, blocks, 1)
    return on.put("Reshape", on.put("Mul", less, on.give(wide, large=True)), [count, rows, terms])


# ---- parts -----------------------------------------------------------------------------------------------------------


def _wide(on: NodeWriter, value: str) -> str:
    return on.cast(value, TensorProto.FLOAT)


def _best(on: NodeWriter, node: onnx.NodeProto, scores: str) -> tuple[str, str]:
    """The k largest scores of each row, and the experts that they are of."""
    best, experts = on.put_all("TopK", 2, scores, [attribute(node, "k", 1)], axis=-1)
    return best, experts


def _of_one(on: NodeWriter, shares: str) -> str:
    return on.put("Div", shares, on.put("ReduceSum", shares, [-1], keepdims=1))


def _mixed(
    on: NodeWriter, node: onnx.NodeProto, layers: list[_Layer], experts: str, shares: str, other: bool
) -> str | None:
    """The weighed sum of what the experts make of each row. other: whether the node has inputs not read here."""
    x, k = node.input[0], attribute(node, "k", 1)
    mixer = any(attribute(node, each, 0) for each in ("use_sparse_mixer", "swiglu_limit_after_activation"))
    if other or mixer or on.shape(node.input[1]) is None or not on.element(x):
        return None
    count, width = (on.shape(node.input[1]) or [None])[-1], (on.shape(x) or [None])[-1]
    if count is None or width is None:
        return None
    own = on.put("Reshape", experts, [1, -1])
    member = on.put("Unsqueeze", on.put("Equal", own, np.arange(count).reshape(-1, 1)), [2])
    rows = on.put("Unsqueeze", on.put("Reshape", _wide(on, x), [-1, width]), [1])
    y = on.put("Reshape", on.put("Expand", rows, [1, k, 1]), [-1, width])  # a row for each of its experts

    def product(rows: str, layer: _Layer) -> str:
        """By the weight of each row's expert: all others see zeros, which is what the kernel for it matches."""
        weight, bias = layer
        apart = on.put("Where", member, on.put("Unsqueeze", rows, [0]), np.float32(0))
        y = on.put(
            "ReduceSum",
            on.put("MatMul", apart, on.put("Transpose", _wide(on, weight), perm=[0, 2, 1])),
            [0],
            keepdims=0,
        )
        return (
            on.put("Add", y, on.put("Gather", _wide(on, bias), on.put("Reshape", experts, [-1]), axis=0)) if bias else y
        )

    inner = _activated(on, node, product(y, layers[0]))
    if inner is None:
        return None
    y = on.put("Reshape", product(inner, layers[1]), [-1, k, width])
    y = on.put("ReduceSum", on.put("Mul", y, on.put("Unsqueeze", shares, [2])), [1], keepdims=0)
    return on.cast(on.put("Reshape", y, on.put("Shape", x)), on.element(x))


def _activated(on: NodeWriter, node: onnx.NodeProto, y: str) -> str | None:
    kind, fusion = attribute(node, "activation_type", b"relu").decode(), attribute(node, "swiglu_fusion", 0)
    if kind in ("identity", "relu"):
        return on.put("Relu", y) if kind == "relu" else y
    if kind == "silu":
        return on.put("Mul", y, on.put("Sigmoid", y))
    if kind == "gelu":
        cube = on.put("Mul", on.put("Mul", y, y), y)
        inner = on.put(
            "Mul", on.put("Add", y, on.put("Mul", cube, np.float32(0.044715))), np.float32(np.sqrt(2 / np.pi))
        )
        return on.put("Mul", on.put("Mul", y, np.float32(0.5)), on.put("Add", on.put("Tanh", inner), np.float32(1)))
    if kind != "swiglu" or fusion not in (1, 2):
        return None
    # Both halves of a row, or one after the other.
    pairs = on.put("Reshape", y, [0, -1, 2] if fusion == 1 else [0, 2, -1])
    gate, line = (on.put("Gather", pairs, number, axis=-1 if fusion == 1 else 1) for number in (0, 1))
    limit = attribute(node, "swiglu_limit", None)
    if limit is not None:
        gate = on.put("Clip", gate, "", np.float32(limit))
        line = on.put("Clip", line, np.float32(-limit), np.float32(limit))
    share = on.put("Sigmoid", on.put("Mul", gate, np.float32(attribute(node, "activation_alpha", 1.0))))
    line = on.put("Add", line, np.float32(attribute(node, "activation_beta", 0.0)))
    return on.put("Mul", on.put("Mul", gate, share), line)
