"""Rules for nodes on quantized numbers. Weights stay as narrow as bytes are: the program applies their scales."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper

from opsplice.onnx.rules.arithmetic import eight_bit_floats
from opsplice.onnx.rules.convolutions import zeros_around
from opsplice.onnx.rules.node_writer import FLOATS, NodeWriter, attribute, attributes, input_name

# Sums of fewer products of bytes, each less a zero point, are exact in f32.
_EXACT_TERMS = 2**24 // 255**2
# The version of Softmax that takes one dim.
_ONE_AXIS = 13
_LAST = np.iinfo(np.int64).max
_MATRIX = 2  # dims


def dequantize(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """What has a scale for each block, and constants without a sign, as kernels take some with one.

    And integers of 16 bits without a sign, which IREE has no casts for.
    """
    x, scale, zero = node.input[0], node.input[1], input_name(node, 2)
    block = attribute(node, "block_size", 0)
    narrow = on.element(x)
    if not block:
        result = _dequantized_16(on, node) or _dequantized_with_sign(on, node)
        if result is not None or narrow != TensorProto.UINT16:
            return result
    spread = [_along(on, node, each, block) for each in (scale, zero) if each]
    if None in spread:
        return None
    element = attribute(node, "output_dtype", 0) or on.element(scale)
    wide = _floats(on, x, narrow, element)
    if zero:
        wide = on.put("Sub", wide, _floats(on, str(spread[1]), narrow, element))
    return on.put("Mul", wide, on.cast(str(spread[0]), element))


def _dequantized_16(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """A constant, or what a quantisation made, with one scale: the numbers stay floats in between."""
    x, scale, zero = node.input[0], node.input[1], input_name(node, 2)
    if on.element(x) != TensorProto.UINT16 or on.shape(scale) not in ([], [1]):
        return None
    known, made = on.constant(x), on.producer(x)
    if known is not None:
        whole = on.give(known.astype(np.float32), large=bool(known.ndim))
    elif made is not None and made.op_type == "QuantizeLinear" and on.shape(made.input[1]) in ([], [1]):
        ends = [on.give(np.array(end, np.float32)) for end in (0, 65535)]
        rounded = on.put("Round", on.put("Div", made.input[0], made.input[1]))
        whole = on.put("Clip", on.put("Add", rounded, _float(on, input_name(made, 2))), *ends)
    else:
        return None
    return on.put("Mul", on.put("Sub", whole, _float(on, zero)), scale)


def _dequantized_with_sign(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    given, sizes = input_name(node, 2), on.shape(node.input[1])
    weight, zero = _with_sign(on, node.input[0], given, attribute(node, "axis", 1))
    if weight == node.input[0]:
        return None
    if zero and not given and sizes != []:  # a zero point for each scale
        zero = on.put("Expand", zero, on.put("Shape", node.input[1]))
    return on.put("DequantizeLinear", weight, node.input[1], *([zero] if zero else []), **attributes(node))


def _floats(on: NodeWriter, values: str, narrow: int, element: int = TensorProto.FLOAT) -> str:
    """Integers of a type as floats. IREE has no casts of 16 bits without a sign, so they get 32 first."""
    return on.cast(on.put("Cast", values, to=TensorProto.INT32) if narrow == TensorProto.UINT16 else values, element)


def _float(on: NodeWriter, zero: str) -> str:
    """A zero point of 16 bits without a sign as a float, which is 0 where none is given."""
    known = on.constant(zero) if zero else np.array(0)
    if known is None:
        return _floats(on, zero, TensorProto.UINT16)
    return on.give(known.astype(np.float32))


def quantize(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """What has a scale for each block, and integers of 16 bits without a sign."""
    x, scale, zero = node.input[0], node.input[1], input_name(node, 2)
    block = attribute(node, "block_size", 0)
    element = on.element(zero) if zero else attribute(node, "output_dtype", 0) or TensorProto.UINT8
    if element in eight_bit_floats.KINDS:
        return eight_bit_floats.quantized(on, node, element, _along(on, node, scale, block))
    is_in_blocks = block and element in (TensorProto.INT8, TensorProto.INT16, TensorProto.UINT8)
    if element != TensorProto.UINT16 and not is_in_blocks:
        return None
    spread = [_along(on, node, each, block) for each in (scale, zero) if each]
    if None in spread:
        return None
    whole = on.put("Round", on.put("Div", on.cast(x, TensorProto.FLOAT), on.cast(str(spread[0]), TensorProto.FLOAT)))
    if zero:
        whole = on.put("Add", whole, _floats(on, str(spread[1]), element))
    range_ = np.iinfo(helper.tensor_dtype_to_np_dtype(element))
    ends = [on.give(np.array(end, np.float32)) for end in (range_.min, range_.max)]
    return on.put("Cast", on.put("Clip", whole, *ends), to=element)


def _along(on: NodeWriter, node: onnx.NodeProto, values: str, block: int) -> str | None:
    """Scales or zero points beside the elements that they belong to, those of blocks once for each element."""
    x, (shape, sizes) = node.input[0], (on.shape(name) for name in (node.input[0], values))
    if shape is None or sizes is None:
        return None
    axis = attribute(node, "axis", 1) % max(len(shape), 1)
    if not block:
        is_one = sizes in ([], [1])
        return values if is_one else on.put("Reshape", values, [-1, *[1] * (len(shape) - axis - 1)])
    if None in sizes or shape[axis] is None:
        places = on.places(x, axis) if shape[axis] is None else on.give(np.arange(shape[axis]))
        return on.put("Gather", values, on.put("Div", places, block), axis=axis)
    wide = [*sizes[: axis + 1], block, *sizes[axis + 1 :]]
    flat = [*sizes[:axis], int(sizes[axis] or 0) * block, *sizes[axis + 1 :]]
    apart = on.put("Unsqueeze", values, [axis + 1])
    spread = on.put("Reshape", on.put("Expand", apart, wide), flat)
    if flat[axis] == shape[axis]:
        return spread
    return on.put("Slice", spread, *([each] for each in (0, shape[axis], axis)))


def on_dequantized(kind: str, inputs: int = 1, axis: int = 0) -> Callable[[NodeWriter, onnx.NodeProto], str | None]:
    """An operator on dequantised numbers, whose result is quantised.

    axis: that of scales, if an input has several.
    """

    def rule(on: NodeWriter, node: onnx.NodeProto) -> str | None:
        form, rank = attributes(node), len(on.shape(node.input[0]) or ())
        operands = [_dequantised(on, node, 3 * number, axis) for number in range(inputs)]
        if not form.pop("channels_last", 0):
            return _quantised(on, node, on.put(kind, *operands, **form), 3 * inputs)
        if not rank:
            return None
        y = on.put(kind, *(_channels_first(on, each, rank) for each in operands), **form)
        return _quantised(on, node, _channels_last(on, y, rank), 3 * inputs)

    return rule


def qlinear_conv(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """IREE adds the bias, which is an integer, without its scale. In onnxruntime's own channels may be the last dim."""
    form, rank = attributes(node), len(on.shape(node.input[0]) or ())
    x, weight = _dequantised(on, node, 0, 0), _dequantised(on, node, 3, 0)
    if (is_behind := form.pop("channels_last", 0)) and not rank:
        return None
    operands = [_channels_first(on, x, rank) if is_behind else x, weight]
    if bias := input_name(node, 8):
        operands.append(_scaled(on, bias, node.input[1], node.input[4]))
    y = on.put("Conv", *operands, **form)
    return _quantised(on, node, _channels_last(on, y, rank) if is_behind else y, 6)


def _channels_first(on: NodeWriter, images: str, rank: int) -> str:
    return on.put("Transpose", images, perm=[0, rank - 1, *range(1, rank - 1)])


def _channels_last(on: NodeWriter, images: str, rank: int) -> str:
    return on.put("Transpose", images, perm=[0, *range(2, rank), 1])


def qgemm(on: NodeWriter, node: onnx.NodeProto) -> str:
    """onnxruntime's product of quantised matrices, whose sums start at integers."""
    form = attributes(node)
    operands = [_dequantised(on, node, 0, 0), _dequantised(on, node, 3, 0 if form.get("transB") else 1)]
    if bias := input_name(node, 6):
        alpha = on.give(np.array(form.get("alpha", 1.0), np.float32))
        operands.append(_scaled(on, bias, node.input[1], node.input[4], alpha))
    return _quantised(on, node, on.put("Gemm", *operands, **form), 7)


def qlinear_concat(on: NodeWriter, node: onnx.NodeProto) -> str:
    """onnxruntime's, with the result's scale before the inputs."""
    parts = [_dequantised(on, node, at, 0) for at in range(2, len(node.input), 3)]
    return _quantised(on, node, on.put("Concat", *parts, axis=attribute(node, "axis", 0)), 0)


def qlinear_softmax(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """onnxruntime's; older versions of Softmax take all dims from `axis` on as one."""
    shape, axis = on.shape(node.input[0]), attribute(node, "axis", -1)
    if shape is None or (attribute(node, "opset", 0) < _ONE_AXIS and axis not in (-1, len(shape) - 1)):
        return None
    return _quantised(on, node, on.put("Softmax", _dequantised(on, node, 0, 0), axis=axis), 3)


def matmul_to_float(on: NodeWriter, node: onnx.NodeProto) -> str:
    """MatMulIntegerToFloat: a product of integers times both scales, and a bias."""
    a, b, a_scale, b_scale, a_zero, b_zero, bias = (input_name(node, number) for number in range(7))
    return _product_of_bytes(on, (a, b, a_zero, b_zero), on.put("Mul", a_scale, b_scale), bias)


def dynamic_matmul(on: NodeWriter, node: onnx.NodeProto) -> str:
    """DynamicQuantizeMatMul: of floats that are quantised here."""
    x, b, scale, zero, bias = (input_name(node, number) for number in range(5))
    bytes_, step, middle = on.put_all("DynamicQuantizeLinear", 3, x)
    return _product_of_bytes(on, (bytes_, b, middle, zero), on.put("Mul", step, scale), bias)


def attention(on: NodeWriter, node: onnx.NodeProto) -> list[str]:
    """QAttention: Attention of the numbers that x and the weight stand for."""
    x, weight, bias, x_scale, scale, mask, x_zero, zero, past = (input_name(node, number) for number in range(9))
    x, weight = (
        on.put("DequantizeLinear", values, *(_single(on, each) for each in beside if each), axis=-1)
        for values, beside in ((x, (x_scale, x_zero)), (weight, (scale, zero)))
    )
    given = (x, weight, bias, mask, past)
    return on.put_all("Attention", len(node.output), *given, domain=node.domain, **attributes(node))


def conv_integer(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """A convolution of wider numbers less their zero points: IREE does not lower all forms of ConvInteger.

    Kernels take integers whose weights have a sign, and else floats, where these are exact.
    """
    shape = on.shape(node.input[1])
    if shape is None:
        return None
    form = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    weight, zero = _with_sign(on, node.input[1], input_name(node, 3), 0)
    terms = [size or _EXACT_TERMS for size in shape[1:]]
    sizes, taps = (on.shape(node.input[0]) or [])[2:], shape[2:]
    pads = zeros_around(node, sizes, taps) if len(sizes) == len(taps) else None
    as_floats = bool(attribute(node, "group", 1) > 1 or zero or pads is None) and math.prod(terms) < _EXACT_TERMS
    kind = TensorProto.FLOAT if as_floats else TensorProto.INT32
    apart = bool(zero) and not as_floats and attribute(node, "group", 1) == 1
    if zero and on.shape(zero) not in ([], [1]):
        zero = on.put("Reshape", zero, [-1] + [1] * (len(shape) - (2 if apart else 1)))
    x = _centred_as(on, kind, node.input[0], input_name(node, 2))
    w = _centred_as(on, kind, weight, "" if apart else zero)
    if not as_floats and pads is not None:  # IREE pads integers on all sides alike
        form = {name: value for name, value in form.items() if name not in ("pads", "auto_pad")}
        x = on.put("Pad", x, [0, 0, *pads[: len(taps)], 0, 0, *pads[len(taps) :]]) if any(pads) else x
    y = on.put("Conv", x, w, **form)
    if apart:  # the zero point of all weights times the sum of what they are multiplied with
        sums = on.put("Conv", x, on.put("Expand", on.number(1, x), np.array([1, *shape[1:]])), **form)
        y = on.put("Sub", y, on.put("Mul", sums, on.put("Cast", zero, to=kind)))
    return on.put("Cast", y, to=TensorProto.INT32) if as_floats else y


def matmul_integer(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """By weights that have a sign, if they can have one: kernels take such.

    And with a zero point, where an operand has no sign: without any, IREE takes large bytes for negative ones.
    """
    a, b, a_zero, b_zero = (input_name(node, number) for number in range(4))
    if _needs_one_matrix(on, a, b, a_zero):
        rows = on.put("MatMulInteger", on.put("Flatten", a, axis=-1), *node.input[1:])
        sizes = [on.put("Slice", on.put("Shape", each), [at], [end]) for each, at, end in ((a, 0, -1), (rows, 1, 2))]
        return on.put("Reshape", rows, on.put("Concat", *sizes, axis=0))
    if _needs_one_batch(on, node):
        ends = [on.put("Slice", on.put("Shape", each), [-2], [_LAST]) for each in (a, b)]
        flat = [
            on.put("Reshape", each, on.put("Concat", [-1], end, axis=0)) for each, end in zip((a, b), ends, strict=True)
        ]
        sizes = [on.put("Slice", on.put("Shape", each), [at], [end]) for each, at, end in ((a, 0, -1), (b, -1, _LAST))]
        y = on.put("MatMulInteger", *flat, *node.input[2:])
        return on.put("Reshape", y, on.put("Concat", *sizes, axis=0))
    weight, zero = _with_sign(on, b, b_zero) if on.element(b) == TensorProto.UINT8 else (b, b_zero)
    elements = on.element(a), on.element(weight)
    if not a_zero and not zero and TensorProto.UINT8 in elements and all(elements):
        a_zero = on.number(0, a)
    elif weight == b:
        return None
    return on.put("MatMulInteger", a, weight, a_zero, zero)


def _needs_one_matrix(on: NodeWriter, a: str, b: str, a_zero: str) -> bool:
    """Whether matrices times one are in a batch with several open dims, of which IREE does not compile the product."""
    *around, _ = on.shape(a) or [None]
    times_one = len(on.shape(b) or ()) == _MATRIX and (not a_zero or on.shape(a_zero) in ([], [1]))
    return times_one and len(around) > _MATRIX and around.count(None) > 1


def _needs_one_batch(on: NodeWriter, node: onnx.NodeProto) -> bool:
    """Whether both are batches of several open dims, as heads may be: IREE does not compile such of integers."""
    sides = [on.shape(name) or [] for name in node.input[:2]]
    batches = [side[:-_MATRIX] for side in sides]
    points = [on.shape(name) for name in node.input[2:] if name]
    return batches[0].count(None) > 1 and batches[0] == batches[1] and all(each in ([], [1]) for each in points)


def _with_sign(on: NodeWriter, weight: str, zero: str, axis: int = -1) -> tuple[str, str]:
    """Constants without a sign as some with one, and their zero points: "" if there are none, or none are left.

    axis: that of zero points, if there are several.
    """
    numbers, middle = on.constant(weight), on.constant(zero) if zero else np.array(0, np.uint8)
    if numbers is None or middle is None or numbers.dtype != np.uint8:
        return weight, zero if middle is None or middle.any() else ""
    if middle.size == 1 or middle.ndim == 1:
        along = [-1 if each == axis % max(numbers.ndim, 1) else 1 for each in range(numbers.ndim)]
        centred = numbers.astype(np.int16) - middle.astype(np.int16).reshape(along if middle.size > 1 else ())
        if not centred.size or (centred.min() >= -128 and centred.max() <= 127):
            return on.give(centred.astype(np.int8), large=True), ""
    less, points = ((each ^ 128).view(np.int8) for each in (numbers, middle))
    return on.give(less, large=True), on.give(points)


def _centred_as(on: NodeWriter, kind: int, name: str, zero: str) -> str:
    """Bytes less their zero point, as wider numbers."""
    wide = on.put("Cast", name, to=kind)
    known = on.constant(zero) if zero else None
    if not zero or (known is not None and not known.any()):
        return wide
    return on.put("Sub", wide, on.put("Cast", zero, to=kind))


def _product_of_bytes(on: NodeWriter, operands: tuple[str, ...], scale: str, bias: str) -> str:
    total = on.put("Cast", on.put("MatMulInteger", *operands), to=TensorProto.FLOAT)
    y = on.put("Mul", total, scale)
    return on.put("Add", y, bias) if bias else y


def gather(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Of a table of bytes with one scale: what is taken of it is dequantised, and not all of it in each call."""
    made = on.producer(node.input[0]) if on.element(node.input[0]) in FLOATS else None
    if made is None or made.op_type != "DequantizeLinear" or on.shape(made.input[1]) not in ([], [1]):
        return None
    if on.constant(made.input[0]) is None or on.element(made.input[0]) not in (TensorProto.INT8, TensorProto.UINT8):
        return None
    taken = on.put("Gather", made.input[0], node.input[1], **attributes(node))
    return on.put("DequantizeLinear", taken, *made.input[1:], **attributes(made))


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
    return on.scalar(name) if on.shape(name) == [1] else name
