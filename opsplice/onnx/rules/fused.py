"""Writes norms, and operators that onnxruntime's optimisers make of several nodes, as nodes of ONNX.

docs/onnx.md lists them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from opsplice.onnx.rules.node_writer import NodeWriter, attribute, input_name

# ---- activations -----------------------------------------------------------------------------------------------------


def gelu(on: NodeWriter, node: onnx.NodeProto) -> str:
    """With the error function, of onnxruntime's Gelu and BiasGelu."""
    x = _with_bias(on, node)
    shares = on.put("Add", on.put("Erf", on.put("Mul", x, on.number(np.sqrt(0.5), x))), on.number(1, x))
    return on.put("Mul", on.put("Mul", x, shares), on.number(0.5, x))


def fast_gelu(on: NodeWriter, node: onnx.NodeProto) -> str:
    """With the hyperbolic tangent."""
    x = _with_bias(on, node)
    cube = on.put("Mul", on.put("Mul", x, x), x)
    inner = on.put("Add", x, on.put("Mul", cube, on.number(0.044715, x)))
    shares = on.put("Add", on.put("Tanh", on.put("Mul", inner, on.number(np.sqrt(2 / np.pi), x))), on.number(1, x))
    return on.put("Mul", on.put("Mul", x, shares), on.number(0.5, x))


def softsign(on: NodeWriter, node: onnx.NodeProto) -> str:
    """IREE has no such operator, and ONNX says what it is from its version 18 on only."""
    size = on.put("Add", on.put("Abs", node.input[0]), on.number(1.0, node.input[0]))
    return on.put("Div", node.input[0], size)


def quick_gelu(on: NodeWriter, node: onnx.NodeProto) -> str:
    """x / (1 + exp(-alpha x))."""
    x = node.input[0]
    return on.put("Mul", x, on.put("Sigmoid", on.put("Mul", x, on.number(attribute(node, "alpha", 1.702), x))))


def _with_bias(on: NodeWriter, node: onnx.NodeProto) -> str:
    bias = input_name(node, 1)
    return on.put("Add", node.input[0], bias) if bias else node.input[0]


def _activated(on: NodeWriter, node: onnx.NodeProto, y: str, numbers: Sequence[float]) -> str | None:
    """A result with the node's activation. numbers: the activation's own."""
    kind = attribute(node, "activation", b"").decode()
    if kind in ("", "Relu", "Tanh", "Sigmoid"):
        return on.put(kind, y) if kind else y
    if kind == "Clip":
        return on.put("Clip", y, *(on.number(each, y) for each in numbers))
    names = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}.get(kind)
    return None if names is None else on.put(kind, y, **dict(zip(names, numbers, strict=False)))


# ---- products --------------------------------------------------------------------------------------------------------


def matmul(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """FusedMatMul: of transposed matrices, times a number."""
    sides = []
    for name, side in zip(node.input, "AB", strict=True):
        shape = on.shape(name)
        if shape is None:
            return None
        order = given = list(range(len(shape)))
        if attribute(node, f"transBatch{side}", 0) and len(shape) > _MATRIX:  # rows come before batches
            order = [*order[1:-1], 0, order[-1]]
        if attribute(node, f"trans{side}", 0) and len(shape) > 1:
            order = [*order[:-2], order[-1], order[-2]]
        sides.append(name if order == given else on.put("Transpose", name, perm=order))
    product = on.put("MatMul", *sides)
    alpha = attribute(node, "alpha", 1.0)
    return product if alpha == 1 else on.put("Mul", product, on.number(alpha, node.input[0]))


def gemm(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """FusedGemm."""
    form = {name: attribute(node, name, default) for name, default in _GEMM.items()}
    numbers = [attribute(node, f"activation_{name}", default) for name, default in (("alpha", 0.01), ("beta", 0.5))]
    return _activated(on, node, on.put("Gemm", *node.input, **form), numbers)


def convolution(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """FusedConv: with what is added to the result, and an activation."""
    named = {each.name for each in node.attribute} - {"activation", "activation_params"}
    y = on.put("Conv", *node.input[:3], **{name: attribute(node, name, None) for name in sorted(named)})
    if added := input_name(node, 3):
        y = on.put("Add", y, added)
    return _activated(on, node, y, attribute(node, "activation_params", []))


_MATRIX = 2  # dims
_GEMM = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}


# ---- norms -----------------------------------------------------------------------------------------------------------


def group_norm(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Of groups of channels, or of each channel, of sizes that are not fixed: in IREE, instances come out wrong."""
    x, gain, bias = node.input
    shape, element = on.shape(x), on.element(x)
    is_fixed = node.op_type == "InstanceNormalization" and None not in (shape or ())
    if shape is None or not element or shape[1] is None or len(shape) <= _MATRIX or is_fixed:
        return None
    groups, stash = attribute(node, "num_groups", shape[1]), attribute(node, "stash_type", TensorProto.FLOAT)
    wide = on.put("Reshape", on.cast(x, stash), [0, groups, -1])
    centered = on.put("Sub", wide, on.mean(wide))
    epsilon = on.put("Cast", np.array(attribute(node, "epsilon", 1e-5), np.float32), to=stash)
    normed = on.put("Cast", on.put("Div", centered, _root_of_mean(on, centered, epsilon)), to=element)
    channels = on.put("Reshape", normed, [0, groups, shape[1] // groups, -1])
    scale, shift = (on.put("Reshape", each, [1, groups, -1, 1]) for each in (gain, bias))
    return on.put("Reshape", on.put("Add", on.put("Mul", channels, scale), shift), on.put("Shape", x))


def mean_variance_norm(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Over all dims but that of channels, or given ones: ONNX leaves the shape open where none are given."""
    x, axes = node.input[0], attribute(node, "axes", [0, 2, 3])
    if not on.element(x):
        return None
    centred = on.put("Sub", x, on.mean(x, axes))
    deviation = on.put("Sqrt", on.mean(on.put("Mul", centred, centred), axes))
    return on.put("Div", centred, on.put("Add", deviation, on.number(1e-9, x)))


def lp_norm(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Zeros stay zeros, which IREE divides by their norm."""
    x, element = node.input[0], on.element(node.input[0])
    if not element:
        return None
    whole = on.put("Mul", x, x) if (squared := attribute(node, "p", 2) == 2) else on.put("Abs", x)
    norm = on.put("ReduceSum", whole, [attribute(node, "axis", -1)], keepdims=1)
    norm = on.put("Sqrt", norm) if squared else norm
    zero, one = (on.give(np.array(number, helper.tensor_dtype_to_np_dtype(element))) for number in (0, 1))
    return on.put("Div", x, on.put("Where", on.put("Equal", norm, zero), one, norm))


def skip_norm(on: NodeWriter, node: onnx.NodeProto) -> list[str]:
    """SkipLayerNormalization: of a sum, which is the last result."""
    x, skip, gain = node.input[:3]
    return _normed(on, node, [x, skip, input_name(node, 4)], gain, input_name(node, 3))


def skip_rms_norm(on: NodeWriter, node: onnx.NodeProto) -> list[str]:
    """SkipSimplifiedLayerNormalization: of a sum, which is the last result."""
    x, skip, gain = node.input[:3]
    return _normed(on, node, [x, skip, input_name(node, 3)], gain, None)


def rms_norm(on: NodeWriter, node: onnx.NodeProto) -> list[str] | None:
    """SimplifiedLayerNormalization of the last dim."""
    return _norm(on, node, None)


def layer_norm(on: NodeWriter, node: onnx.NodeProto) -> list[str] | None:
    """LayerNormalization of the last dim in a model of a version of ONNX that has none."""
    return _norm(on, node, input_name(node, 2))


def _norm(on: NodeWriter, node: onnx.NodeProto, bias: str | None) -> list[str] | None:
    shape = on.shape(node.input[0])
    if shape is None or attribute(node, "axis", -1) not in (-1, len(shape) - 1):
        return None
    y, mean, spread, _ = _normed(on, node, [node.input[0]], node.input[1], bias, 1e-5)
    return [y, spread] if bias is None else [y, mean, spread]


def embedding_norm(on: NodeWriter, node: onnx.NodeProto) -> list[str] | None:
    """EmbedLayerNormalization, as BERT begins."""
    words, segments, *tables = (input_name(node, number) for number in range(7))
    word_table, place_table, segment_table, gain, bias = tables
    places = on.put("Gather", place_table, input_name(node, 8) or on.places(words, 1))
    parts = [on.put("Gather", word_table, words), places]
    if segments:
        parts.append(on.put("Gather", segment_table, segments))
    y, *_, total = _normed(on, node, parts, gain, bias)
    mask = input_name(node, 7)
    present = on.cast(mask, TensorProto.INT32) if mask else on.put("Mul", words, on.number(0, words))
    return [y, on.put("ReduceSum", present, [1], keepdims=0), total]


def _root_of_mean(on: NodeWriter, x: str, epsilon: str, axes: Sequence[int] = (-1,)) -> str:
    """The root of the mean of squares and epsilon, over the last dim or others, which stay."""
    return on.put("Sqrt", on.put("Add", on.mean(on.put("Mul", x, x), axes), epsilon))


def _normed(
    on: NodeWriter, node: onnx.NodeProto, parts: Sequence[str], gain: str, bias: str | None, epsilon: float = 1e-12
) -> list[str]:
    """A norm of a sum over the last dim, its mean, one by its spread, and the sum. bias: None for one without mean."""
    total = parts[0]
    for part in filter(None, parts[1:]):
        total = on.put("Add", total, part)
    element = on.element(gain)
    wide = total if element == TensorProto.FLOAT else on.put("Cast", total, to=TensorProto.FLOAT)
    mean = "" if bias is None else on.mean(wide)
    centred = on.put("Sub", wide, mean) if mean else wide
    least = on.give(np.array(attribute(node, "epsilon", epsilon), np.float32))
    root = _root_of_mean(on, centred, least)
    normed = on.put("Div", centred, root)
    normed = normed if wide == total else on.put("Cast", normed, to=element)
    y = on.put("Mul", normed, gain)
    return [on.put("Add", y, bias) if bias else y, mean, on.put("Reciprocal", root), total]
