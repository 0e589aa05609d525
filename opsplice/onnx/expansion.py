"""Writes nodes that IREE's importer lacks, or that IREE computes wrongly, as other nodes; docs/onnx.md lists them.

A rule that needs a shape or a constant that is not known leaves its node as it is, and the compile then says that IREE
does not lower it. `quantized.py` has the rules for quantized numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper

from opsplice.frontends.reshapes import is_misread
from opsplice.onnx import attention, fused, quantized, recurrent, resizing
from opsplice.onnx.model_file import replace
from opsplice.onnx.node_writer import NodeWriter, attribute, attributes, input_name, wrongly_computed

# Operators that are functions of ONNX's own, and that IREE does not lower as they are.
FUNCTIONS = (
    "Attention",
    "CausalConvWithState",
    "LinearAttention",
    "NegativeLogLikelihoodLoss",
    "RotaryEmbedding",
    "SoftmaxCrossEntropyLoss",
    "SwiGLU",
    "Swish",
)


def known_of(domain: str) -> list[str]:
    """The operators of a domain that there are rules for."""
    return sorted(kind for each, kind in _RULES if each == domain)


def expand(
    graph: onnx.GraphProto, kinds: Mapping[str, onnx.TypeProto], weights: dict[str, np.ndarray], version: int
) -> bool:
    """Rewrite a graph in place; whether anything changed. For the arguments see `NodeWriter`."""
    writer, nodes, changed = NodeWriter(graph, kinds, weights, version), [], False
    for node in graph.node:
        rule = _RULES.get((node.domain, node.op_type))
        if node.domain and not writer.element(next(filter(None, node.input), "")):
            rule = None  # what makes its operand has to be written first
        writer.start(node)
        result = rule(writer, node) if rule is not None else None
        if result is None:
            writer.undo()
            nodes.append(node)
            continue
        changed = True
        # The last nodes make what the old one made.
        made = zip([result] if isinstance(result, str) else result, node.output, strict=False)
        ends = [helper.make_node("Identity", [own], [output], name=node.name) for own, output in made if output]
        nodes += [*writer.added, *ends]
    read = {name for node in nodes for name in node.input} | {value.name for value in graph.output}
    replace(graph.node, (node for node in nodes if node.op_type != "QuantizeLinear" or node.output[0] in read))
    return changed


# ---- shapes ----------------------------------------------------------------------------------------------------------


def _reshape(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """What IREE misreads, through one dim."""
    given, sizes = on.shape(node.input[0]), on.constant(node.input[1])
    if given is None or sizes is None or 0 in sizes:
        return None
    if not is_misread(given, [None if size < 0 else int(size) for size in sizes]):
        return None
    return on.put("Reshape", on.put("Reshape", node.input[0], on.give(np.array([-1]))), node.input[1])


# ---- norms -----------------------------------------------------------------------------------------------------------


def _rms_norm(on: NodeWriter, node: onnx.NodeProto) -> str | None:
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


def _group_norm(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Of groups of channels, or of each channel, of sizes that are not fixed: in IREE, instances come out wrong."""
    x, gain, bias = node.input
    shape, element = on.shape(x), on.element(x)
    is_fixed = node.op_type == "InstanceNormalization" and None not in (shape or ())
    if shape is None or not element or shape[1] is None or len(shape) <= _MATRIX or is_fixed:
        return None
    groups, stash = attribute(node, "num_groups", shape[1]), attribute(node, "stash_type", TensorProto.FLOAT)
    wide = on.put("Reshape", on.cast(x, stash), on.give(np.array([0, groups, -1])))
    centered = on.put("Sub", wide, on.mean(wide))
    epsilon = on.put("Cast", on.give(np.array(attribute(node, "epsilon", 1e-5), np.float32)), to=stash)
    deviation = on.put("Sqrt", on.put("Add", on.mean(on.put("Mul", centered, centered)), epsilon))
    normed = on.put("Cast", on.put("Div", centered, deviation), to=element)
    channels = on.put("Reshape", normed, on.give(np.array([0, groups, shape[1] // groups, -1])))
    scale, shift = (on.put("Reshape", each, on.give(np.array([1, groups, -1, 1]))) for each in (gain, bias))
    return on.put("Reshape", on.put("Add", on.put("Mul", channels, scale), shift), on.put("Shape", x))


def _matmul(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Sums of no products, at which IREE's compiler crashes, and vectors times batches, which it does not lower."""
    sides = [on.shape(name) for name in node.input]
    result = on.shape(node.output[0])
    if None in sides or not all(sides):
        return None
    if (sides[0] or [])[-1] == 0 and result is not None and None not in result:
        kind = helper.tensor_dtype_to_np_dtype(on.element(node.input[0]))
        return on.give(np.zeros([size or 0 for size in result], kind))
    ranks = [len(side or ()) for side in sides]
    if min(ranks) > 1 or max(ranks) <= _MATRIX:
        return None
    added = 0 if ranks[0] == 1 else -1  # the dim of size one
    matrices = [
        on.put("Unsqueeze", name, on.give(np.array([added]))) if rank == 1 else name
        for name, rank in zip(node.input, ranks, strict=True)
    ]
    return on.put("Squeeze", on.put("MatMul", *matrices), on.give(np.array([-2 if added == 0 else -1])))


def _of_pairs(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Of several tensors of different shapes, two at a time: IREE compiles no others."""
    if len(node.input) <= _PAIR:
        return None
    kind = "Add" if node.op_type == "Sum" else node.op_type
    return functools.reduce(lambda one, other: on.put(kind, one, other), node.input)


def _norm_of_none(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Over no dims, so of each element: IREE's importer crashes."""
    axes = on.constant(input_name(node, 1))
    if axes is None or axes.size or not attribute(node, "noop_with_empty_axes", 0):
        return None
    kinds = {"ReduceL2": "Abs", "ReduceLogSum": "Log"}
    return on.put(kinds.get(node.op_type, "Identity"), node.input[0])


def _scan(on: NodeWriter, node: onnx.NodeProto) -> list[str] | None:
    """One that runs forwards along the first dims, over what is turned: IREE has all run so."""
    form = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    scanned = form["num_scan_inputs"]
    states = len(node.input) - scanned
    counts = {"input": scanned, "output": len(node.output) - states}
    ways = {
        f"{side}_{what}": form.pop(f"scan_{side}_{what}", [0] * count)
        for side, count in counts.items()
        for what in ("directions", "axes")
    }
    if not any(map(any, ways.values())):
        return None

    def turned(name: str, is_backwards: int) -> str:
        places = (on.give(np.array([each])) for each in (-1, np.iinfo(np.int64).min, 0, -1))
        return on.put("Slice", name, *places) if is_backwards else name

    def moved(name: str, of: str, axis: int, to_front: bool) -> str:
        rank = len(on.shape(of) or ())
        if axis and not rank:
            raise wrongly_computed(node, "it scans along the first dims")
        others = [each for each in range(rank) if each != axis % rank]
        order = [axis % rank, *others] if rank else []
        return on.put("Transpose", name, perm=order if to_front else np.argsort(order).tolist()) if axis else name

    inputs = [
        turned(moved(name, name, axis, True), way)
        for name, axis, way in zip(node.input[states:], ways["input_axes"], ways["input_directions"], strict=True)
    ]
    made = on.put_all("Scan", len(node.output), *node.input[:states], *inputs, **form)
    outputs = zip(made[states:], node.output[states:], ways["output_axes"], ways["output_directions"], strict=True)
    return [*made[:states], *(moved(turned(name, way), of, axis, False) for name, of, axis, way in outputs)]


# ---- what IREE computes wrongly --------------------------------------------------------------------------------------


def _lp_norm(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Zeros stay zeros, which IREE divides by their norm."""
    x, element = node.input[0], on.element(node.input[0])
    if not element:
        return None
    whole = on.put("Mul", x, x) if (squared := attribute(node, "p", 2) == 2) else on.put("Abs", x)
    norm = on.put("ReduceSum", whole, on.give(np.array([attribute(node, "axis", -1)])), keepdims=1)
    norm = on.put("Sqrt", norm) if squared else norm
    zero, one = (on.give(np.array(number, helper.tensor_dtype_to_np_dtype(element))) for number in (0, 1))
    return on.put("Div", x, on.put("Where", on.put("Equal", norm, zero), one, norm))


def _average_pool(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """With zeros around that are counted: IREE counts what lies behind them, too, where `ceil_mode` leads there.

    Where zeros do not count, IREE computes for each element how many there are; they are counted here, for each place.
    """
    kernel = attribute(node, "kernel_shape", [])
    pads = attribute(node, "pads", [0] * 2 * len(kernel))
    kept = {name: attribute(node, name, [1] * len(kernel)) for name in ("strides", "dilations")}
    are_counted, has_ceiling = attribute(node, "count_include_pad", 0), attribute(node, "ceil_mode", 0)
    if attribute(node, "auto_pad", b"NOTSET") != b"NOTSET":
        return None
    if not are_counted:
        sizes = [size for size in (on.shape(node.input[0]) or [])[2:] if size is not None]
        is_known = len(sizes) == len(kernel) and on.element(node.input[0]) == TensorProto.FLOAT
        if has_ceiling or not any(pads) or not is_known:
            return None
        shares = _shares_inside(sizes, kernel, pads, **kept)
        mean = on.put("AveragePool", node.input[0], kernel_shape=kernel, pads=pads, count_include_pad=1, **kept)
        return on.put("Mul", mean, on.give(shares[None, None])) if np.isfinite(shares).all() else None
    if not has_ceiling:
        return None
    around = [0, 0, *pads[: len(kernel)], 0, 0, *pads[len(kernel) :]]
    padded = on.put("Pad", node.input[0], on.give(np.array(around)))
    return on.put("AveragePool", padded, kernel_shape=kernel, ceil_mode=1, **kept)


def _shares_inside(
    sizes: list[int], kernel: list[int], pads: list[int], strides: list[int], dilations: list[int]
) -> np.ndarray:
    """For each place of a window, its elements as a part of those that lie inside of the image, as f32."""
    shares = np.ones((), np.float32)
    for axis, (size, taps, step, apart) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
        room = size + pads[axis] + pads[axis + len(kernel)] - apart * (taps - 1)
        starts = np.arange(0, max(room, 0), step) - pads[axis]
        places = starts[:, None] + apart * np.arange(taps)
        inside = ((places >= 0) & (places < size)).sum(1)
        with np.errstate(divide="ignore"):
            shares = np.multiply.outer(shares, taps / inside)
    return shares.astype(np.float32)


def _conv_transpose(on: NodeWriter, node: onnx.NodeProto) -> str | None:
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


def _determinant(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """By rows: IREE divides by the elements of the diagonal, also by zero."""
    shape = on.shape(node.input[0])
    size = shape[-1] if shape else None
    if size is None or not 0 < size <= _LARGEST_DETERMINANT:
        raise wrongly_computed(node, "it divides by elements that may be zero")

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


def _grid_sample(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Elements by their places: IREE takes the wrong ones at ties, outside, and where images are not square."""
    shape, places = on.shape(node.input[0]), on.shape(node.input[1])
    mode, padding = attribute(node, "mode", b"linear"), attribute(node, "padding_mode", b"zeros")
    if shape is None or places is None or len(shape) != 4 or None in (*shape, *places):
        raise wrongly_computed(
            node, "it takes elements of other places; with fixed sizes in 2-D it is written otherwise"
        )
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
_MATRIX = 2  # dims
_PAIR = 2


def _lstm(on: NodeWriter, node: onnx.NodeProto) -> list[str] | None:
    results = recurrent.written_out(on, node)
    if results is None and input_name(node, 7):
        raise wrongly_computed(node, "it leaves out the peepholes (input P)")
    return results


def _unsigned(on: NodeWriter, node: onnx.NodeProto) -> str | list[str] | None:
    """Of integers without a sign, which IREE takes for integers with one: of wider ones, or of floats."""
    element = on.element(node.input[0])
    if element not in (TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64):
        return None
    if node.op_type == "Abs":
        return on.put("Identity", node.input[0])
    if element != TensorProto.UINT8:  # IREE has no casts back to wider ones
        raise wrongly_computed(node, "it takes large numbers without a sign for negative ones")
    wide = TensorProto.FLOAT if node.op_type == "MaxPool" else TensorProto.INT32
    inputs = [on.cast(name, wide) if on.element(name) == element else name for name in node.input]
    first, *others = on.put_all(node.op_type, len(node.output), *inputs, **attributes(node))
    return [on.put("Cast", first, to=element), *others]


# ---- onnxruntime's own operators -------------------------------------------------------------------------------------


def _of_onnx(on: NodeWriter, node: onnx.NodeProto) -> list[str]:
    """What is one of ONNX's operators by now."""
    return on.put_all(node.op_type, len(node.output), *node.input, **attributes(node))


_RULES: dict[tuple[str, str], Callable[[NodeWriter, onnx.NodeProto], str | list[str] | None]] = {
    ("", "Abs"): _unsigned,
    ("", "Attention"): attention.standard,
    ("", "AveragePool"): _average_pool,
    ("", "CastLike"): quantized.cast_like,
    ("", "Clip"): _unsigned,
    ("", "ConvInteger"): quantized.conv_integer,
    ("", "ConvTranspose"): _conv_transpose,
    ("", "DepthToSpace"): resizing.depth_to_space,
    ("", "Det"): _determinant,
    ("", "Div"): _unsigned,
    ("", "GRU"): recurrent.written_out,
    ("", "GridSample"): _grid_sample,
    ("", "GroupNormalization"): _group_norm,
    ("", "InstanceNormalization"): _group_norm,
    ("", "LSTM"): _lstm,
    ("", "LpNormalization"): _lp_norm,
    ("", "MatMul"): _matmul,
    ("", "MatMulInteger"): quantized.matmul_integer,
    ("", "Max"): _of_pairs,
    ("", "MaxPool"): _unsigned,
    ("", "Min"): _of_pairs,
    ("", "Mod"): _unsigned,
    ("", "QLinearConv"): quantized.qlinear_conv,
    ("", "QLinearMatMul"): quantized.on_dequantized("MatMul", 2, -1),
    ("", "DequantizeLinear"): quantized.dequantize,
    ("", "QuantizeLinear"): quantized.quantize,
    ("", "ReduceL2"): _norm_of_none,
    ("", "ReduceLogSum"): _norm_of_none,
    ("", "ReduceLogSumExp"): _norm_of_none,
    ("", "Reshape"): _reshape,
    ("", "Resize"): resizing.resize,
    ("", "RMSNormalization"): _rms_norm,
    ("", "RNN"): recurrent.written_out,
    ("", "Scan"): _scan,
    ("", "SpaceToDepth"): resizing.space_to_depth,
    ("", "Sum"): _of_pairs,
    ("", "TopK"): _unsigned,
    ("com.microsoft", "MatMulNBits"): quantized.matmul_nbits,
    ("com.microsoft", "Attention"): attention.attention,
    ("com.microsoft", "BiasGelu"): fused.gelu,
    ("com.microsoft", "DequantizeLinear"): _of_onnx,
    ("com.microsoft", "DynamicQuantizeMatMul"): quantized.dynamic_matmul,
    ("com.microsoft", "EmbedLayerNormalization"): fused.embedding_norm,
    ("com.microsoft", "FastGelu"): fused.fast_gelu,
    ("com.microsoft", "FusedConv"): fused.convolution,
    ("com.microsoft", "FusedGemm"): fused.gemm,
    ("com.microsoft", "FusedMatMul"): fused.matmul,
    ("com.microsoft", "Gelu"): fused.gelu,
    ("com.microsoft", "GatherBlockQuantized"): quantized.gather_blocks,
    ("com.microsoft", "GroupQueryAttention"): attention.group_query,
    ("com.microsoft", "LayerNormalization"): fused.layer_norm,
    ("com.microsoft", "MatMulIntegerToFloat"): quantized.matmul_to_float,
    ("com.microsoft", "MultiHeadAttention"): attention.multi_head,
    ("com.microsoft", "QGemm"): quantized.qgemm,
    ("com.microsoft", "QLinearAdd"): quantized.on_dequantized("Add", 2),
    ("com.microsoft", "QLinearAveragePool"): quantized.on_dequantized("AveragePool"),
    ("com.microsoft", "QLinearConcat"): quantized.qlinear_concat,
    ("com.microsoft", "QLinearGlobalAveragePool"): quantized.on_dequantized("GlobalAveragePool"),
    ("com.microsoft", "QLinearLeakyRelu"): quantized.on_dequantized("LeakyRelu"),
    ("com.microsoft", "QLinearMul"): quantized.on_dequantized("Mul", 2),
    ("com.microsoft", "QLinearSigmoid"): quantized.on_dequantized("Sigmoid"),
    ("com.microsoft", "QLinearSoftmax"): quantized.qlinear_softmax,
    ("com.microsoft", "QuantizeLinear"): _of_onnx,
    ("com.microsoft", "QuickGelu"): fused.quick_gelu,
    ("com.microsoft", "RotaryEmbedding"): attention.rotary,
    ("com.microsoft", "SimplifiedLayerNormalization"): fused.rms_norm,
    ("com.microsoft", "SkipLayerNormalization"): fused.skip_norm,
    ("com.microsoft", "SkipSimplifiedLayerNormalization"): fused.skip_rms_norm,
}
