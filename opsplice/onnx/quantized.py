"""Rules for nodes on quantized numbers. Weights stay as narrow as bytes are: the program applies their scales."""

from __future__ import annotations

import functools
from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

from opsplice.onnx.node_writer import NodeWriter, attribute, input_name, wrongly_computed

_EIGHT_BIT_FLOATS = (
    TensorProto.FLOAT8E4M3FN,
    TensorProto.FLOAT8E4M3FNUZ,
    TensorProto.FLOAT8E5M2,
    TensorProto.FLOAT8E5M2FNUZ,
)
# Numbers of a few bits, each in a byte of its own.
WIDENED = {
    np.dtype(ml_dtypes.int2): np.int8,
    np.dtype(ml_dtypes.int4): np.int8,
    np.dtype(ml_dtypes.uint2): np.uint8,
    np.dtype(ml_dtypes.uint4): np.uint8,
}


def dequantize(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """What has a scale for each block."""
    x, scale, zero = node.input[0], node.input[1], input_name(node, 2)
    block = attribute(node, "block_size", 0)
    if not block:
        return None
    spread = [_along(on, node, each, block) for each in (scale, zero) if each]
    if None in spread:
        return None
    element = attribute(node, "output_dtype", 0) or on.element(scale)
    wide = on.cast(x, element)
    if zero:
        wide = on.put("Sub", wide, on.cast(str(spread[1]), element))
    return on.put("Mul", wide, on.cast(str(spread[0]), element))


def quantize(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """What has a scale for each block."""
    x, scale, zero = node.input[0], node.input[1], input_name(node, 2)
    block = attribute(node, "block_size", 0)
    element = on.element(zero) if zero else attribute(node, "output_dtype", 0) or TensorProto.UINT8
    if element in _EIGHT_BIT_FLOATS:
        raise wrongly_computed(node, "numbers that are too large become NaN")
    if not block or element not in (TensorProto.INT8, TensorProto.INT16, TensorProto.UINT8):
        return None
    spread = [_along(on, node, each, block) for each in (scale, zero) if each]
    if None in spread:
        return None
    whole = on.put("Round", on.put("Div", on.cast(x, TensorProto.FLOAT), on.cast(str(spread[0]), TensorProto.FLOAT)))
    if zero:
        whole = on.put("Add", whole, on.cast(str(spread[1]), TensorProto.FLOAT))
    range_ = np.iinfo(helper.tensor_dtype_to_np_dtype(element))
    ends = [on.give(np.array(end, np.float32)) for end in (range_.min, range_.max)]
    return on.put("Cast", on.put("Clip", whole, *ends), to=element)


def _along(on: NodeWriter, node: onnx.NodeProto, values: str, block: int) -> str | None:
    """Scales or zero points, each as often as there are elements in its block."""
    shape, sizes = on.shape(node.input[0]), on.shape(values)
    if shape is None or sizes is None:
        return None
    axis = attribute(node, "axis", 1) % max(len(shape), 1)
    if None in sizes or shape[axis] is None:
        return None
    wide = [*sizes[: axis + 1], block, *sizes[axis + 1 :]]
    flat = [*sizes[:axis], int(sizes[axis] or 0) * block, *sizes[axis + 1 :]]
    apart = on.put("Unsqueeze", values, on.give(np.array([axis + 1])))
    spread = on.put("Reshape", on.put("Expand", apart, on.give(np.array(wide))), on.give(np.array(flat)))
    if flat[axis] == shape[axis]:
        return spread
    return on.put("Slice", spread, *(on.give(np.array([each])) for each in (0, shape[axis], axis)))


def matmul_nbits(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Weights of a few bits in blocks of each row, each with a scale, and maybe a zero point."""
    rows, columns = attribute(node, "N", 0), attribute(node, "K", 0)
    bits, block = attribute(node, "bits", 4), attribute(node, "block_size", 32)
    packed, scales = on.constant(node.input[1]), on.constant(node.input[2])
    zero, order, bias = (input_name(node, index) for index in (3, 4, 5))
    if packed is None or scales is None or order or bits not in (2, 4, 8):
        return None
    blocks = -(-columns // block)
    numbers = _unpacked(packed.reshape(rows, blocks, -1), bits)[..., :block]
    middle = np.array(1 << (bits - 1), np.uint8)
    if zero:
        given = on.constant(zero)
        if given is None or given.dtype != np.uint8:
            return None
        middle = _unpacked(given.reshape(rows, -1), bits)[:, :blocks, None]
    # Differences of numbers of 8 bits may not fit into a byte with a sign.
    if bits == 8 and not (abs(numbers.astype(np.int16) - middle) < 128).all():
        return None
    # Kernels see by the limits that these fit into so many bits; BitwiseAnd is newer than many of these models.
    ends = [on.give(np.array(end, np.int8)) for end in (0, (1 << bits) - 1)] if bits < 8 else []
    large = [numbers, middle] if zero else [numbers]
    kept = [on.give(each.astype(np.int8), large=True) for each in large]
    limited = [on.put("Clip", each, *ends) if ends else each for each in kept]
    centred = on.put("Sub", limited[0], limited[1] if zero else on.give(middle.astype(np.int8)))
    weight = on.put("Cast", centred, to=helper.np_dtype_to_tensor_dtype(scales.dtype))
    scaled = on.put("Mul", weight, on.give(np.ascontiguousarray(scales.reshape(rows, blocks, 1)), large=True))
    flat = on.put("Reshape", scaled, on.give(np.array([rows, blocks * block])))
    if blocks * block != columns:
        flat = on.put("Slice", flat, *(on.give(np.array([each])) for each in (0, columns, 1)))
    product = on.put("MatMul", node.input[0], on.put("Transpose", flat, perm=[1, 0]))
    return on.put("Add", product, bias) if bias else product


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """The numbers in bytes, the lowest bits first."""
    parts = [(packed >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*packed.shape[:-1], -1)


def on_dequantized(kind: str, inputs: int = 1, axis: int = 0) -> Callable[[NodeWriter, onnx.NodeProto], str]:
    """An operator on dequantised numbers, whose result is quantised. axis: that of scales, if an input has several."""

    def rule(on: NodeWriter, node: onnx.NodeProto) -> str:
        form = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        y = on.put(kind, *(_dequantised(on, node, 3 * number, axis) for number in range(inputs)), **form)
        return _quantised(on, node, y, 3 * inputs)

    return rule


def qlinear_conv(on: NodeWriter, node: onnx.NodeProto) -> str:
    """IREE adds the bias, which is an integer, without its scale."""
    form = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    operands = [_dequantised(on, node, 0, 0), _dequantised(on, node, 3, 0)]
    if bias := input_name(node, 8):
        operands.append(_scaled(on, bias, node.input[1], node.input[4]))
    return _quantised(on, node, on.put("Conv", *operands, **form), 6)


def qgemm(on: NodeWriter, node: onnx.NodeProto) -> str:
    """onnxruntime's product of quantised matrices, whose sums start at integers."""
    form = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    operands = [_dequantised(on, node, 0, 0), _dequantised(on, node, 3, 0 if form.get("transB") else 1)]
    if bias := input_name(node, 6):
        alpha = on.give(np.array(form.get("alpha", 1.0), np.float32))
        operands.append(_scaled(on, bias, node.input[1], node.input[4], alpha))
    return _quantised(on, node, on.put("Gemm", *operands, **form), 7)


def qlinear_concat(on: NodeWriter, node: onnx.NodeProto) -> str:
    """onnxruntime's, with the result's scale before the inputs."""
    parts = [_dequantised(on, node, at, 0) for at in range(2, len(node.input), 3)]
    return _quantised(on, node, on.put("Concat", *parts, axis=attribute(node, "axis", 0)), 0)


def qlinear_global_average_pool(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """onnxruntime's, with the channels in front."""
    if attribute(node, "channels_last", 0):
        return None
    return _quantised(on, node, on.put("GlobalAveragePool", _dequantised(on, node, 0, 0)), 3)


def _dequantised(on: NodeWriter, node: onnx.NodeProto, at: int, axis: int) -> str:
    """The numbers that an operand stands for, behind which are its scale and its zero point, which may be left out."""
    beside = [_single(on, name) for number in (1, 2) if (name := input_name(node, at + number))]
    return on.put("DequantizeLinear", node.input[at], *beside, axis=axis)


def _quantised(on: NodeWriter, node: onnx.NodeProto, y: str, at: int) -> str:
    """By the scale and the zero point that are operands from `at` on; as it is without a scale."""
    beside = [_single(on, name) for number in (0, 1) if (name := input_name(node, at + number))]
    return on.put("QuantizeLinear", y, *beside) if beside else y


def _scaled(on: NodeWriter, integers: str, *scales: str) -> str:
    """Integers of 32 bits times all scales."""
    product = on.put("Cast", integers, to=TensorProto.FLOAT)
    factor = functools.reduce(lambda one, other: on.put("Mul", one, other), (_single(on, each) for each in scales))
    return on.put("Mul", product, factor)


def _single(on: NodeWriter, name: str) -> str:
    """A scale or a zero point: one for the whole tensor as a scalar, as ONNX's own operators want it."""
    return on.put("Reshape", name, on.give(np.array([], np.int64))) if on.shape(name) == [1] else name
