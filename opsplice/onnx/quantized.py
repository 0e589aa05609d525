"""Rules for nodes on quantized numbers. Weights stay as narrow as bytes are: the program applies their scales."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

from opsplice.onnx.node_writer import NodeWriter, attribute, input_name, wrongly_computed

_INT32 = TensorProto.INT32
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


def qlinear_matmul(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Exact sums of integers, scaled: IREE's own are wrong for batches of matrices."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input
    shapes = on.shape(a), on.shape(b)
    if None in shapes or all(len(shape or ()) == 2 for shape in shapes) or on.shape(a_scale) not in ([], [1]):
        return None
    integers = [on.put("Sub", on.cast(x, _INT32), on.cast(zero, _INT32)) for x, zero in ((a, a_zero), (b, b_zero))]
    total = on.put("Cast", on.put("MatMul", *integers), to=TensorProto.FLOAT)
    scales = [on.cast(scale, TensorProto.FLOAT) for scale in (a_scale, b_scale, y_scale)]
    return on.put("QuantizeLinear", on.put("Mul", total, on.put("Mul", *scales[:2])), scales[2], y_zero)


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


def on_dequantized(kind: str) -> Callable[[NodeWriter, onnx.NodeProto], str]:
    """An operator on dequantised numbers."""

    def rule(on: NodeWriter, node: onnx.NodeProto) -> str:
        inputs = [on.put("DequantizeLinear", *filter(None, node.input[at : at + 3])) for at in (0, 3)]
        return on.put("QuantizeLinear", on.put(kind, *inputs), *filter(None, node.input[6:8]))

    return rule
