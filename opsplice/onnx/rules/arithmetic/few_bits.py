"""Rules for tables and weights of numbers of a few bits, in blocks with a scale each: the program applies these."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

from opsplice.onnx.rules.node_writer import NodeWriter, attribute, input_name

_BYTE = 8
# Numbers of a few bits, each in a byte of its own.
WIDENED = {
    np.dtype(ml_dtypes.int2): np.int8,
    np.dtype(ml_dtypes.int4): np.int8,
    np.dtype(ml_dtypes.uint2): np.uint8,
    np.dtype(ml_dtypes.uint4): np.uint8,
}


def matmul_nbits(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Weights of a few bits in blocks of each row, each with a scale, and maybe a zero point.

    In f32, which kernels take; with zeros behind x where the last block is cut short.
    """
    rows, columns = attribute(node, "N", 0), attribute(node, "K", 0)
    bits, block = attribute(node, "bits", 4), attribute(node, "block_size", 32)
    packed, scales, shape = on.constant(node.input[1]), on.constant(node.input[2]), on.shape(node.input[0])
    zero, order, bias = (input_name(node, index) for index in (3, 4, 5))
    if packed is None or scales is None or shape is None or bits not in (2, 4, 8):
        return None
    if attribute(node, "weight_prepacked", 0):  # in the order of a kernel of onnxruntime's
        return None
    blocks, x = -(-columns // block), on.cast(node.input[0], TensorProto.FLOAT)
    numbers = unpacked(packed.reshape(rows, blocks, -1), bits)[..., :block]
    if order:  # the block of each column
        own = on.constant(order)
        if own is None or columns % block:
            return None
        by_block = np.argsort(own, kind="stable")
        if (own[by_block] != np.arange(columns) // block).any():
            return None
        numbers = numbers.reshape(rows, columns)[:, by_block].reshape(numbers.shape)
        x = on.put("Gather", x, by_block, axis=-1)
    middle = np.array(1 << (bits - 1), np.uint8)
    if zero:
        given = on.constant(zero)
        if given is None:
            return None
        if given.dtype == np.uint8:
            middle = unpacked(given.reshape(rows, -1), bits)[:, :blocks, None]
        else:
            middle = given.reshape(rows, blocks, 1).astype(np.float32)
    if missing := blocks * block - columns:
        x = on.put("Pad", x, [*[0] * (2 * len(shape) - 1), missing])
    weight = centred(on, numbers, middle, bits)
    scaled = on.put("Mul", weight, on.give(scales.reshape(rows, blocks, 1).astype(np.float32), large=True))
    flat = on.put("Reshape", scaled, [rows, blocks * block])
    product = on.put("MatMul", x, on.put("Transpose", flat, perm=[1, 0]))
    product = on.put("Add", product, on.cast(bias, TensorProto.FLOAT)) if bias else product
    half = on.element(node.input[0])
    return product if half == TensorProto.FLOAT else on.put("Cast", product, to=half)


def centred(on: NodeWriter, numbers: np.ndarray, middle: np.ndarray, bits: int) -> str:
    """Numbers without a sign less their zero points, as floats."""
    wanted = TensorProto.FLOAT
    if middle.dtype != np.uint8:  # a float
        return on.put("Sub", on.put("Cast", on.give(numbers, large=True), to=wanted), on.give(middle, large=True))
    if bits == _BYTE:  # differences do not fit into a byte
        sides = [(each.astype(np.int16) - 128).astype(np.int8) for each in (numbers, middle)]
        wide = [on.put("Cast", on.give(each, large=bool(each.ndim)), to=wanted) for each in sides]
        return on.put("Sub", *wide) if sides[1].any() else wide[0]
    # Kernels see by the limits that these fit into so many bits; BitwiseAnd is newer than many of these models.
    ends = [on.give(np.array(end, np.int8)) for end in (0, (1 << bits) - 1)]
    kept = on.put("Clip", on.give(numbers.astype(np.int8), large=True), *ends)
    zeros = on.give(middle.astype(np.int8), large=bool(middle.ndim))
    centred = on.put("Sub", kept, on.put("Clip", zeros, *ends) if middle.ndim else zeros)
    return on.put("Cast", centred, to=wanted)


def unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """The numbers in bytes, the lowest bits first."""
    parts = [(packed >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*packed.shape[:-1], -1)


def gather_blocks(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """GatherBlockQuantized: slices of a table of numbers of a few bits, in bytes or each by itself.

    A scale is for a block along one dim, of which the last may be cut short.
    """
    packed, scales, zero = on.constant(node.input[0]), on.constant(node.input[2]), input_name(node, 3)
    bits, block, shape = attribute(node, "bits", 4), attribute(node, "block_size", 128), on.shape(node.input[1])
    if packed is None or scales is None or shape is None or (zero and on.constant(zero) is None):
        return None
    own, last = attribute(node, "gather_axis", 0) % packed.ndim, packed.ndim - 1
    axis = attribute(node, "quantize_axis", 1) % packed.ndim
    is_packed = packed.dtype == np.uint8
    if own == axis or (axis != last if is_packed else packed.dtype not in WIDENED):
        return None

    def taken(table: np.ndarray) -> str:
        """What is read of a table, a number for each element of a block."""
        found = on.put("Gather", on.give(np.ascontiguousarray(table), large=True), node.input[1], axis=own)
        return on.cast(found, helper.np_dtype_to_tensor_dtype(scales.dtype)) if table.dtype != scales.dtype else found

    def spread(table: np.ndarray) -> str:
        return on.put("Gather", taken(table), np.arange(size) // block, axis=place)

    def opened(table: np.ndarray) -> np.ndarray:
        return unpacked(table, bits) if is_packed else table.astype(WIDENED[table.dtype])

    numbers, place = opened(packed), axis if axis < own else axis + len(shape) - 1
    size, middle = numbers.shape[axis], on.number(1 << (bits - 1) if is_packed else 0, node.input[2])
    given = opened(np.asarray(on.constant(zero)))[..., : scales.shape[-1]] if zero else None
    if size % block or axis != last:
        centred = on.put("Sub", taken(numbers), middle if given is None else spread(given))
        return on.put("Mul", centred, spread(scales))
    deep, row = ([*[0] * (len(shape) + last - 1), *sizes] for sizes in ((size // block, block), (-1,)))
    wide, apart = on.put("Reshape", taken(numbers), deep), on.give(np.array([-1]))
    middles = middle if given is None else on.put("Unsqueeze", taken(given), apart)
    scaled = on.put("Mul", on.put("Sub", wide, middles), on.put("Unsqueeze", taken(scales), apart))
    return on.put("Reshape", scaled, row)
