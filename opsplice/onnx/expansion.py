"""Writes nodes that IREE's importer lacks, or that IREE computes wrongly, as other nodes; docs/onnx.md lists them.

Quantised weights stay as narrow as bytes are: the program applies their scales. A rule that needs a shape or a constant
that is not known leaves its node as it is, and the compile then says that IREE does not lower it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from opsplice.errors import OpspliceError
from opsplice.frontends.reshapes import is_misread

# Operators that are functions of ONNX's own, and that IREE does not lower as they are.
FUNCTIONS = (
    "Attention",
    "CausalConvWithState",
    "LinearAttention",
    "NegativeLogLikelihoodLoss",
    "SoftmaxCrossEntropyLoss",
)

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


class Expansion:
    """A pass over a graph. kinds: the types of values, as far as they are known. weights: its large constants."""

    def __init__(
        self, graph: onnx.GraphProto, kinds: Mapping[str, onnx.TypeProto], weights: dict[str, np.ndarray]
    ) -> None:
        self.kinds, self.weights = kinds, weights
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.graph = graph
        self.added: list[onnx.NodeProto] = []
        self.changed = False
        self._count = 0
        self._node = onnx.NodeProto()

    def run(self) -> bool:
        """Rewrite the graph in place; whether anything changed."""
        nodes = []
        for node in self.graph.node:
            rule = _RULES.get((node.domain, node.op_type))
            self.added, self._node = [], node
            result = rule(self, node) if rule is not None else None
            if result is None:
                nodes.append(node)
                continue
            self.changed = True
            # The last node makes what the old one made.
            nodes += [*self.added, helper.make_node("Identity", [result], [node.output[0]], name=node.name)]
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        return self.changed

    # What rules ask.

    def shape(self, name: str) -> list[int | None] | None:
        """The sizes of a value, None for those that are not fixed; None if not even their number is known."""
        if name in self.weights:
            return list(self.weights[name].shape)
        if name in self.constants:
            return list(self.constants[name].dims)
        tensor = self.kinds[name].tensor_type if name in self.kinds else None
        if tensor is None or not tensor.HasField("shape"):
            return None
        return [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]

    def element(self, name: str) -> int:
        """ONNX's number of a value's element type, 0 if that is not known."""
        if name in self.weights:
            return helper.np_dtype_to_tensor_dtype(self.weights[name].dtype)
        if name in self.constants:
            return self.constants[name].data_type
        return self.kinds[name].tensor_type.elem_type if name in self.kinds else 0

    def constant(self, name: str) -> np.ndarray | None:
        """The elements of a constant."""
        if name in self.weights:
            return self.weights[name]
        return numpy_helper.to_array(self.constants[name]) if name in self.constants else None

    # What rules write.

    def put(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node of one result, whose name is returned."""
        output = self._fresh()
        self.added.append(helper.make_node(kind, inputs, [output], name=self._node.name, **attributes))
        return output

    def give(self, array: np.ndarray, large: bool = False) -> str:
        """A new constant."""
        name = self._fresh()
        if large:
            self.weights[name] = array
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            self.graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
        else:
            self.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def cast(self, name: str, element: int) -> str:
        return name if self.element(name) == element else self.put("Cast", name, to=element)

    def _fresh(self) -> str:
        self._count += 1
        return f"{self._node.output[0]}.{self._node.op_type}.{self._count}"


def attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """The value of an attribute."""
    return next((helper.get_attribute_value(each) for each in node.attribute if each.name == name), default)


def _input(node: onnx.NodeProto, index: int) -> str:
    """The name of an input, "" for one that is left out."""
    return node.input[index] if index < len(node.input) else ""


# ---- quantised numbers -----------------------------------------------------------------------------------------------


def _qlinear_matmul(on: Expansion, node: onnx.NodeProto) -> str | None:
    """Exact sums of integers, scaled: IREE's own are wrong for batches of matrices."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input
    shapes = on.shape(a), on.shape(b)
    if None in shapes or all(len(shape or ()) == 2 for shape in shapes) or on.shape(a_scale) not in ([], [1]):
        return None
    integers = [on.put("Sub", on.cast(x, _INT32), on.cast(zero, _INT32)) for x, zero in ((a, a_zero), (b, b_zero))]
    total = on.put("Cast", on.put("MatMul", *integers), to=TensorProto.FLOAT)
    scales = [on.cast(scale, TensorProto.FLOAT) for scale in (a_scale, b_scale, y_scale)]
    return on.put("QuantizeLinear", on.put("Mul", total, on.put("Mul", *scales[:2])), scales[2], y_zero)


def _dequantize(on: Expansion, node: onnx.NodeProto) -> str | None:
    """What has a scale for each block."""
    x, scale, zero = node.input[0], node.input[1], _input(node, 2)
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


def _quantize(on: Expansion, node: onnx.NodeProto) -> str | None:
    """What has a scale for each block."""
    x, scale, zero = node.input[0], node.input[1], _input(node, 2)
    block = attribute(node, "block_size", 0)
    element = on.element(zero) if zero else attribute(node, "output_dtype", 0) or TensorProto.UINT8
    if element in _EIGHT_BIT_FLOATS:
        raise _wrong(node, "numbers that are too large become NaN")
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


def _along(on: Expansion, node: onnx.NodeProto, values: str, block: int) -> str | None:
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


# ---- shapes ----------------------------------------------------------------------------------------------------------


def _reshape(on: Expansion, node: onnx.NodeProto) -> str | None:
    """What IREE misreads, through one dim."""
    given, sizes = on.shape(node.input[0]), on.constant(node.input[1])
    if given is None or sizes is None or 0 in sizes:
        return None
    if not is_misread(given, [None if size < 0 else int(size) for size in sizes]):
        return None
    return on.put("Reshape", on.put("Reshape", node.input[0], on.give(np.array([-1]))), node.input[1])


# ---- norms -----------------------------------------------------------------------------------------------------------


def _rms_norm(on: Expansion, node: onnx.NodeProto) -> str | None:
    x, scale = node.input
    shape, element = on.shape(x), on.element(x)
    if shape is None or not element:
        return None
    axis = attribute(node, "axis", -1) % len(shape)
    stash = attribute(node, "stash_type", TensorProto.FLOAT)
    wide = on.cast(x, stash)
    mean = on.put("ReduceMean", on.put("Mul", wide, wide), on.give(np.arange(axis, len(shape))))
    epsilon = on.put("Cast", on.give(np.array(attribute(node, "epsilon", 1e-5), np.float32)), to=stash)
    normed = on.put("Div", wide, on.put("Sqrt", on.put("Add", mean, epsilon)))
    return on.put("Mul", normed if wide == x else on.put("Cast", normed, to=element), scale)


# ---- what IREE computes wrongly --------------------------------------------------------------------------------------


def _lp_norm(on: Expansion, node: onnx.NodeProto) -> str | None:
    """Zeros stay zeros, which IREE divides by their norm."""
    x, element = node.input[0], on.element(node.input[0])
    if not element:
        return None
    whole = on.put("Mul", x, x) if (squared := attribute(node, "p", 2) == 2) else on.put("Abs", x)
    norm = on.put("ReduceSum", whole, on.give(np.array([attribute(node, "axis", -1)])), keepdims=1)
    norm = on.put("Sqrt", norm) if squared else norm
    zero, one = (on.give(np.array(number, helper.tensor_dtype_to_np_dtype(element))) for number in (0, 1))
    return on.put("Div", x, on.put("Where", on.put("Equal", norm, zero), one, norm))


def _average_pool(on: Expansion, node: onnx.NodeProto) -> str | None:
    """With zeros around that are counted: IREE counts what lies behind them, too, where `ceil_mode` leads there."""
    automatic = attribute(node, "auto_pad", b"NOTSET") != b"NOTSET"
    if automatic or not (attribute(node, "ceil_mode", 0) and attribute(node, "count_include_pad", 0)):
        return None
    kernel = attribute(node, "kernel_shape", [])
    pads = attribute(node, "pads", [0] * 2 * len(kernel))
    around = [0, 0, *pads[: len(kernel)], 0, 0, *pads[len(kernel) :]]
    kept = {name: attribute(node, name, [1] * len(kernel)) for name in ("strides", "dilations")}
    padded = on.put("Pad", node.input[0], on.give(np.array(around)))
    return on.put("AveragePool", padded, kernel_shape=kernel, ceil_mode=1, **kept)


def _conv_transpose(on: Expansion, node: onnx.NodeProto) -> str | None:
    """Of each channel apart, which IREE does not take: as a plain convolution over spread elements."""
    group, (shape, weight) = attribute(node, "group", 1), (on.shape(name) for name in node.input[:2])
    placed = any(attribute(node, name, b"NOTSET") not in (b"NOTSET", []) for name in ("auto_pad", "output_shape"))
    if group == 1 or not weight or weight[0] != group or None in weight or not shape or None in shape[2:] or placed:
        return None
    sizes, kernel = ([size or 0 for size in each[2:]] for each in (shape, weight))
    dims = len(kernel)
    strides, apart = (attribute(node, name, [1] * dims) for name in ("strides", "dilations"))
    pads, more = attribute(node, "pads", [0] * 2 * dims), attribute(node, "output_padding", [0] * dims)
    reach = [step * (size - 1) for step, size in zip(apart, kernel, strict=True)]
    before = [far - pad for far, pad in zip(reach, pads[:dims], strict=True)]
    ends = zip(reach, pads[dims:], more, strides, strict=True)
    after = [far - pad + added - (stride - 1) for far, pad, added, stride in ends]
    if min(*before, *after) < 0:
        return None
    lines = on.put("Reshape", node.input[0], on.give(np.array([0, 0, *(n for size in sizes for n in (size, 1))])))
    gaps = [n for stride in strides for n in (0, stride - 1)]
    lines = on.put("Pad", lines, on.give(np.array([0] * (2 * dims + 4) + gaps)))
    spread = on.put("Reshape", lines, on.give(np.array([0, 0, *np.multiply(sizes, strides)])))
    padded = on.put("Pad", spread, on.give(np.array([0, 0, *before, 0, 0, *after])))
    mirrored = on.put("Reshape", node.input[1], on.give(np.array([-1, 1, *kernel])))
    for number, size in enumerate(kernel):
        mirrored = on.put("Gather", mirrored, on.give(np.arange(size)[::-1]), axis=number + 2)
    return on.put("Conv", padded, mirrored, *node.input[2:], group=group, dilations=apart)


def _determinant(on: Expansion, node: onnx.NodeProto) -> str | None:
    """By rows: IREE divides by the elements of the diagonal, also by zero."""
    shape = on.shape(node.input[0])
    size = shape[-1] if shape else None
    if size is None or not 0 < size <= _LARGEST_DETERMINANT:
        raise _wrong(node, "it divides by elements that may be zero")

    def element(row: int, column: int) -> str:
        whole_row = on.put("Gather", node.input[0], on.give(np.array(row)), axis=-2)
        return on.put("Gather", whole_row, on.give(np.array(column)), axis=-1)

    def minor(row: int, columns: tuple[int, ...]) -> str:
        if len(columns) == 1:
            return element(row, columns[0])
        total = ""
        for number, column in enumerate(columns):
            rest = minor(row + 1, columns[:number] + columns[number + 1 :])
            term = on.put("Mul", element(row, column), rest)
            total = on.put("Sub" if number % 2 else "Add", total, term) if total else term
        return total

    return minor(0, tuple(range(size)))


def _grid_sample(on: Expansion, node: onnx.NodeProto) -> str | None:
    """Elements by their places: IREE takes the wrong ones at ties, outside, and where images are not square."""
    shape, places = on.shape(node.input[0]), on.shape(node.input[1])
    mode, padding = attribute(node, "mode", b"linear"), attribute(node, "padding_mode", b"zeros")
    if shape is None or places is None or len(shape) != 4 or None in (*shape, *places):
        raise _wrong(node, "it takes elements of other places; with fixed sizes in 2-D it is written otherwise")
    if mode not in (b"linear", b"bilinear", b"nearest") or padding not in (b"zeros", b"border"):
        return None
    sizes = [int(size or 0) for size in shape]
    last = np.array([sizes[3] - 1, sizes[2] - 1], np.float32)  # of columns and rows, as grids have them
    corners = attribute(node, "align_corners", 0)
    half = on.give(last / 2 if corners else (last + 1) / 2)
    place = on.put("Add", on.put("Mul", node.input[1], half), on.give(last / 2))
    zero, end = on.give(np.zeros(2, np.float32)), on.give(last)
    if padding == b"border":
        place = on.put("Min", on.put("Max", place, zero), end)
    flat = on.put("Reshape", node.input[0], on.give(np.array([*sizes[:2], -1])))
    row_starts = on.give(np.array([1, sizes[3]], np.float32))
    apart = on.give(np.array([-1]))

    nothing = on.cast(on.give(np.zeros(1, np.float32)), on.element(node.input[0]))

    def product(pairs: str) -> str:
        """Of the two numbers for each place, for all channels."""
        parts = [on.put("Gather", pairs, on.give(np.array(column)), axis=-1) for column in (0, 1)]
        return on.put("Unsqueeze", on.put("Mul", *parts), on.give(np.array([1])))

    def taken(at: str) -> str:
        within = on.put("Min", on.put("Max", at, zero), end)
        number = on.put("ReduceSum", on.put("Mul", within, row_starts), apart, keepdims=0)
        index = on.put("Reshape", on.put("Cast", number, to=TensorProto.INT64), on.give(np.array([sizes[0], 1, -1])))
        count = int(places[1] or 0) * int(places[2] or 0)
        wide = on.put("Expand", index, on.give(np.array([*sizes[:2], count])))
        values = on.put("GatherElements", flat, wide, axis=2)
        inside = product(on.put("Cast", on.put("Equal", at, within), to=TensorProto.FLOAT))
        values = on.put("Reshape", values, on.give(np.array([*sizes[:2], *places[1:3]])))
        return on.put("Where", on.put("Cast", inside, to=TensorProto.BOOL), values, nothing)

    if mode == b"nearest":
        return taken(on.put("Round", place))
    floor = on.put("Floor", place)
    above = on.put("Sub", place, floor)
    below = on.put("Sub", on.give(np.ones(2, np.float32)), above)
    total = ""
    for corner in ((0, 0), (1, 0), (0, 1), (1, 1)):
        picked = on.give(np.array(corner, np.float32))
        kept = on.put("Where", on.put("Equal", picked, on.give(np.ones(2, np.float32))), above, below)
        share = product(kept)
        term = on.put("Mul", taken(on.put("Add", floor, picked)), share)
        total = on.put("Add", total, term) if total else term
    return total


_LARGEST_DETERMINANT = 4


def _lstm(_on: Expansion, node: onnx.NodeProto) -> None:
    if _input(node, 7):
        raise _wrong(node, "it leaves out the peepholes (input P)")


def _wrong(node: onnx.NodeProto, how: str) -> OpspliceError:
    return OpspliceError(
        f"IREE 3.13 computes node '{node.name}' ({node.op_type}) wrongly: {how}",
        hint="write it with other operators, or run that part elsewhere",
    )


# ---- onnxruntime's own operators -------------------------------------------------------------------------------------


def _matmul_nbits(on: Expansion, node: onnx.NodeProto) -> str | None:
    """Weights of a few bits in blocks of each row, each with a scale, and maybe a zero point."""
    rows, columns = attribute(node, "N", 0), attribute(node, "K", 0)
    bits, block = attribute(node, "bits", 4), attribute(node, "block_size", 32)
    packed, scales = on.constant(node.input[1]), on.constant(node.input[2])
    zero, order, bias = (_input(node, index) for index in (3, 4, 5))
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


def _gelu(approximate: str) -> Callable[[Expansion, onnx.NodeProto], str]:
    def rule(on: Expansion, node: onnx.NodeProto) -> str:
        bias = _input(node, 1)
        x = on.put("Add", node.input[0], bias) if bias else node.input[0]
        return on.put("Gelu", x, approximate=approximate)

    return rule


def _quantized(kind: str) -> Callable[[Expansion, onnx.NodeProto], str]:
    """An operator on dequantised numbers."""

    def rule(on: Expansion, node: onnx.NodeProto) -> str:
        inputs = [on.put("DequantizeLinear", *filter(None, node.input[at : at + 3])) for at in (0, 3)]
        return on.put("QuantizeLinear", on.put(kind, *inputs), *filter(None, node.input[6:8]))

    return rule


_RULES: dict[tuple[str, str], Callable[[Expansion, onnx.NodeProto], str | None]] = {
    ("", "AveragePool"): _average_pool,
    ("", "ConvTranspose"): _conv_transpose,
    ("", "Det"): _determinant,
    ("", "GridSample"): _grid_sample,
    ("", "LSTM"): _lstm,
    ("", "LpNormalization"): _lp_norm,
    ("", "QLinearMatMul"): _qlinear_matmul,
    ("", "DequantizeLinear"): _dequantize,
    ("", "QuantizeLinear"): _quantize,
    ("", "Reshape"): _reshape,
    ("", "RMSNormalization"): _rms_norm,
    ("com.microsoft", "MatMulNBits"): _matmul_nbits,
    ("com.microsoft", "Gelu"): _gelu("none"),
    ("com.microsoft", "BiasGelu"): _gelu("none"),
    ("com.microsoft", "FastGelu"): _gelu("tanh"),
    ("com.microsoft", "QLinearAdd"): _quantized("Add"),
    ("com.microsoft", "QLinearMul"): _quantized("Mul"),
}
