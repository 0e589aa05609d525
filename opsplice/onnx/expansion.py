"""Writes nodes that IREE's importer lacks, or that IREE computes wrongly, as other nodes; docs/onnx.md lists them.

A rule that needs a shape or a constant that is not known leaves its node as it is, and the compile then says that IREE
does not lower it. `quantized.py` has the rules for quantized numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper

from opsplice.onnx.model_file import Scope, names_read, replace
from opsplice.onnx.rules import (
    attention,
    convolutions,
    einsum,
    fused,
    loops,
    padding,
    pooling,
    quantized,
    resizing,
    scattering,
    uncompiled_nodes,
    valued_sizes,
)
from opsplice.onnx.rules.arithmetic import computed_axes, eight_bit_floats, few_bits, integers
from opsplice.onnx.rules.detection import regions, suppression
from opsplice.onnx.rules.layers import classical, experts, recurrent, states
from opsplice.onnx.rules.node_writer import (
    FLOATS,
    OF_NUMBERS,
    NodeWriter,
    attribute,
    attributes,
    input_name,
    not_compiled,
    wrongly_computed,
)
from opsplice.onnx.rules.signals import spectra

# Operators that are functions of ONNX's own, and that IREE does not lower as they are.
FUNCTIONS = {
    ("", "Attention"),
    ("", "CausalConvWithState"),
    ("", "LinearAttention"),
    ("", "NegativeLogLikelihoodLoss"),
    ("", "RMSNormalization"),
    ("", "RotaryEmbedding"),
    ("", "SoftmaxCrossEntropyLoss"),
    ("", "SwiGLU"),
    ("", "Swish"),
    ("ai.onnx.preview", "FlexAttention"),
}


def known_of(domain: str) -> list[str]:
    """The operators of a domain that there are rules for."""
    return sorted(kind for each, kind in _RULES if each == domain)


def expand(
    scope: Scope, weights: dict[str, np.ndarray], version: int, around: NodeWriter | None = None, last: bool = False
) -> bool:
    """Rewrite a graph and those in its nodes in place; whether anything changed. For arguments see `NodeWriter`.

    last: by the rules for what would be a constant by now if it could become one.
    """
    rules = _LAST_RULES if last else _RULES
    graph, writer, nodes, changed = scope.graph, NodeWriter(scope, weights, version, around), [], False
    for node in graph.node:
        rule = rules.get((node.domain, node.op_type))
        if node.domain and not writer.element(next(filter(None, node.input), "")):
            rule = None  # what makes its operand has to be written first
        writer.start(node)
        uncompiled_nodes.check(writer, node)
        result = _sum_of_halves(writer, node) or (rule(writer, node) if rule is not None else None)
        if result is None:
            writer.undo()
            nodes.append(node)
            continue
        changed = True
        # The last nodes make what the old one made.
        made = zip([result] if isinstance(result, str) else result, node.output, strict=False)
        ends = [helper.make_node("Identity", [own], [output], name=node.name) for own, output in made if output]
        nodes += [*writer.added, *ends]
    replace(graph.node, nodes)
    read = names_read(graph)
    replace(graph.node, (node for node in nodes if node.op_type != "QuantizeLinear" or node.output[0] in read))
    inner = [expand(each, weights, version, writer, last) for each in Scope.of(graph, scope).inner()]
    return changed or any(inner)


# ---- products and sums -----------------------------------------------------------------------------------------------


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
        on.put("Unsqueeze", name, [added]) if rank == 1 else name for name, rank in zip(node.input, ranks, strict=True)
    ]
    return on.put("Squeeze", on.put("MatMul", *matrices), [-2 if added == 0 else -1])


def _of_pairs(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Of several tensors of different shapes, two at a time: IREE compiles no others."""
    if len(node.input) <= _PAIR:
        return None
    kind = "Add" if node.op_type == "Sum" else node.op_type
    return functools.reduce(lambda one, other: on.put(kind, one, other), node.input)


def _norm(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Over no dims, so of each element, and of integers of 64 bits without a sign: IREE's compiler crashes."""
    if on.element(node.input[0]) == TensorProto.UINT64:
        return _computed_as(on, node, TensorProto.DOUBLE)
    axes = on.constant(input_name(node, 1))
    if axes is None or axes.size or not attribute(node, "noop_with_empty_axes", 0):
        return None
    kinds = {"ReduceL2": "Abs", "ReduceLogSum": "Log"}
    return on.put(kinds.get(node.op_type, "Identity"), node.input[0])


# ---- what IREE computes wrongly --------------------------------------------------------------------------------------

_SUMS = {f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "LogSumExp", "Mean", "Prod", "Sum", "SumSquare")}
_SUMS |= {"AveragePool", "CumSum", "GlobalAveragePool", "GlobalLpPool", "LogSoftmax", "LpPool"}


def _sum_of_halves(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """In f32, as onnxruntime has it: IREE rounds after each term."""
    if node.op_type not in _SUMS or on.element(node.input[0]) not in (TensorProto.FLOAT16, TensorProto.BFLOAT16):
        return None
    return _computed_as(on, node, TensorProto.FLOAT)


def _computed_as(on: NodeWriter, node: onnx.NodeProto, kind: int) -> str:
    """The same of its first operand as another type, and back."""
    made = on.put(node.op_type, on.put("Cast", node.input[0], to=kind), *node.input[1:], **attributes(node))
    return on.put("Cast", made, to=on.element(node.input[0]))


def _determinant(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """By rows: IREE divides by the elements of the diagonal, also by zero."""
    shape = on.shape(node.input[0])
    size = shape[-1] if shape else None
    if size is None or not 0 < size <= _LARGEST_DETERMINANT:
        raise wrongly_computed(node, "it divides by elements that may be zero")

    def element(row: int, column: int) -> str:
        whole_row = on.put("Gather", node.input[0], row, axis=-2)
        return on.put("Gather", whole_row, column, axis=-1)

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


_LARGEST_DETERMINANT = 4
_MATRIX = 2  # dims
_PAIR = 2


def _lstm(on: NodeWriter, node: onnx.NodeProto) -> list[str] | None:
    results = recurrent.written_out(on, node)
    if results is None and input_name(node, 7):
        raise wrongly_computed(node, "it leaves out the peepholes (input P)")
    return results


def _last_of_equals(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """The first one from behind: IREE takes the first one always."""
    axis = attribute(node, "axis", 0)
    if not attribute(node, "select_last_index", 0):
        return None
    form = attributes(node) | {"select_last_index": 0}
    found = on.put(node.op_type, on.backwards(node.input[0], axis), **form)
    return on.put("Sub", on.put("Sub", on.size(node.input[0], axis), 1), found)


def _unique(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """IREE's compiler ends the process."""
    raise not_compiled(node, "its compiler crashes")


def _equal(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Of floats: IREE takes what is no number for equal to all."""
    if on.element(node.input[0]) not in FLOATS or node.doc_string == OF_NUMBERS:
        return None
    return on.put("And", on.put("LessOrEqual", *node.input), on.put("GreaterOrEqual", *node.input))


def _extreme(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Max and Min of two tensors at a time, as IREE compiles no others of different shapes; what is no number stays.

    IREE leaves it out where it is the first of two.
    """
    if len(node.input) != _PAIR:
        return _of_pairs(on, node)
    one, other = node.input
    if on.element(one) not in FLOATS or node.doc_string == OF_NUMBERS:
        return None
    if on.constant(one) is not None or on.constant(other) is not None:
        is_sorted = on.constant(one) is not None
        return None if is_sorted else on.put(node.op_type, other, one, doc_string=OF_NUMBERS)
    both = on.put(node.op_type, one, other, doc_string=OF_NUMBERS)
    return on.put("Where", on.put("IsNaN", one), one, both)


def _clip(on: NodeWriter, node: onnx.NodeProto) -> str | list[str] | None:
    """What is no number stays, of which IREE makes a bound."""
    if on.element(node.input[0]) not in FLOATS:
        return integers.wider(on, node)
    y = node.input[0]
    for kind, bound in (("Max", input_name(node, 1)), ("Min", input_name(node, 2))):
        if bound:
            y = on.put(kind, bound, y, doc_string=OF_NUMBERS)
    return on.put("Identity", y) if y == node.input[0] else y


def _log_sum_exp(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Less the largest, so that no sum is infinite, as IREE's are."""
    if (same := _norm(on, node)) is not None:
        return same
    x, element, shape, named = node.input[0], on.element(node.input[0]), on.shape(node.input[0]), input_name(node, 1)
    axes = on.constant(named) if named else np.array(attribute(node, "axes", []), np.int64)
    if element not in FLOATS or shape is None or axes is None:
        return None
    axes = axes if axes.size else np.arange(len(shape))
    given = on.give(axes)
    largest = on.largest(x, axes)
    largest = on.put("Where", on.put("IsInf", largest), on.number(0, x), largest)
    powers = on.put("Exp", on.put("Sub", x, largest))
    total = on.put("Log", on.put("ReduceSum", powers, given, keepdims=1))
    result = on.put("Add", total, largest)
    return result if attribute(node, "keepdims", 1) else on.put("Squeeze", result, given)


def _running_product(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """In as many steps as doubling takes: of two elements, of four, and so on."""
    x, axis = node.input[0], on.constant(node.input[1])
    shape = on.shape(x)
    if shape is None or axis is None:
        return None
    at = int(axis) % len(shape)
    size = shape[at]
    if size is None:
        return None
    is_backwards = attribute(node, "reverse", 0)

    def moved(product: str, by: int) -> str:
        """With ones in the place of what is moved in: of doubles, IREE does not compile Pad and Slice."""
        places = on.put("Add", np.arange(size), by if is_backwards else -by)
        inside = on.put("Min", on.put("Max", places, 0), size - 1)
        is_outside = on.put("Unsqueeze", on.put("Not", on.put("Equal", places, inside)), np.arange(1, len(shape) - at))
        return on.put("Where", is_outside, on.number(1, x), on.put("Gather", product, inside, axis=at))

    product = moved(x, 1) if attribute(node, "exclusive", 0) else x
    for step in range((size - 1).bit_length()):
        product = on.put("Mul", product, moved(product, 2**step))
    return product if product != x else on.put("Identity", x)


# ---- onnxruntime's own operators -------------------------------------------------------------------------------------


def _of_onnx(on: NodeWriter, node: onnx.NodeProto) -> list[str]:
    """What is one of ONNX's operators by now."""
    return on.put_all(node.op_type, len(node.output), *node.input, **attributes(node))


def _expand_dims(on: NodeWriter, node: onnx.NodeProto) -> str:
    x, axis = node.input
    return on.put("Unsqueeze", x, on.put("Reshape", on.cast(axis, TensorProto.INT64), [1]))


_Rules = dict[tuple[str, str], Callable[[NodeWriter, onnx.NodeProto], str | list[str] | None]]
_RULES: _Rules = {
    ("", "Abs"): integers.wider,
    ("", "AffineGrid"): resizing.affine_grid,
    ("", "ArgMax"): _last_of_equals,
    ("", "ArgMin"): _last_of_equals,
    ("", "Attention"): attention.standard,
    ("", "AveragePool"): pooling.average_pool,
    ("", "Cast"): eight_bit_floats.cast,
    ("", "CastLike"): eight_bit_floats.cast_like,
    ("", "Clip"): _clip,
    ("", "Col2Im"): convolutions.blocks_summed,
    ("", "Compress"): valued_sizes.compress,
    ("", "ConstantOfShape"): integers.made_without_sign,
    ("", "Conv"): convolutions.convolution,
    ("", "ConvInteger"): quantized.conv_integer,
    ("", "ConvTranspose"): convolutions.conv_transpose,
    ("", "CumProd"): _running_product,
    ("", "DFT"): spectra.spectrum,
    ("", "DeformConv"): convolutions.at_offsets,
    ("", "DepthToSpace"): resizing.depth_to_space,
    ("", "Det"): _determinant,
    ("", "Div"): integers.wider,
    ("", "Einsum"): einsum.einsum,
    ("", "Equal"): _equal,
    ("", "EyeLike"): integers.made_without_sign,
    ("", "Expand"): valued_sizes.expand,
    ("", "GRU"): recurrent.written_out,
    ("", "Gather"): quantized.gather,
    ("", "GatherND"): scattering.gather_nd,
    ("", "GridSample"): resizing.grid_sample,
    ("", "GroupNormalization"): fused.group_norm,
    ("", "InstanceNormalization"): fused.group_norm,
    ("", "LSTM"): _lstm,
    ("", "LpNormalization"): fused.lp_norm,
    ("", "LpPool"): pooling.lp_pool,
    ("", "MatMul"): _matmul,
    ("", "MatMulInteger"): quantized.matmul_integer,
    ("", "Max"): _extreme,
    ("", "MaxPool"): pooling.max_pool,
    ("", "MaxUnpool"): scattering.unpooled,
    ("", "MeanVarianceNormalization"): fused.mean_variance_norm,
    ("", "Min"): _extreme,
    ("", "Mod"): integers.wider,
    ("", "Neg"): integers.negative,
    ("", "NonMaxSuppression"): suppression.suppressed,
    ("", "Pad"): padding.pad,
    ("", "Pow"): integers.power,
    ("", "QLinearConv"): quantized.qlinear_conv,
    ("", "QLinearMatMul"): quantized.on_dequantized("MatMul", 2, -1),
    ("", "DequantizeLinear"): quantized.dequantize,
    ("", "QuantizeLinear"): quantized.quantize,
    ("", "Range"): valued_sizes.range_,
    ("", "ReduceL1"): integers.sum_of_sizes,
    ("", "ReduceL2"): _norm,
    ("", "ReduceLogSum"): _norm,
    ("", "ReduceLogSumExp"): _log_sum_exp,
    ("", "ReduceMean"): integers.mean,
    ("", "Reshape"): valued_sizes.reshape,
    ("", "Resize"): resizing.resize,
    ("", "ReverseSequence"): scattering.reverse_sequence,
    ("", "RNN"): recurrent.written_out,
    ("", "RoiAlign"): regions.aligned,
    ("", "Scan"): loops.scan,
    ("", "ScatterElements"): scattering.scatter_elements,
    ("", "ScatterND"): scattering.scatter_nd,
    ("", "Sign"): integers.sign,
    ("", "Slice"): padding.cut,
    ("", "Softsign"): fused.softsign,
    ("", "SpaceToDepth"): resizing.space_to_depth,
    ("", "STFT"): spectra.short_spectra,
    ("", "Sum"): _of_pairs,
    ("", "TensorScatter"): scattering.into_cache,
    ("", "TopK"): integers.wider,
    ("", "Unique"): _unique,
    ("ai.onnx.ml", "ArrayFeatureExtractor"): classical.picked,
    ("ai.onnx.ml", "Binarizer"): classical.binarized,
    ("ai.onnx.ml", "LinearClassifier"): classical.classified,
    ("ai.onnx.ml", "LinearRegressor"): classical.regressed,
    ("ai.onnx.ml", "Normalizer"): classical.normalized,
    ("ai.onnx.ml", "Scaler"): classical.scaled,
    ("com.microsoft", "MatMulNBits"): few_bits.matmul_nbits,
    ("com.microsoft", "Attention"): attention.attention,
    ("com.microsoft", "BiasGelu"): fused.gelu,
    ("com.microsoft", "CausalConvWithState"): states.causal_convolution,
    ("com.microsoft", "DequantizeLinear"): _of_onnx,
    ("com.microsoft", "DynamicQuantizeLSTM"): recurrent.dynamically_quantized,
    ("com.microsoft", "DynamicQuantizeMatMul"): quantized.dynamic_matmul,
    ("com.microsoft", "EmbedLayerNormalization"): fused.embedding_norm,
    ("com.microsoft", "ExpandDims"): _expand_dims,
    ("com.microsoft", "FastGelu"): fused.fast_gelu,
    ("com.microsoft", "FusedConv"): fused.convolution,
    ("com.microsoft", "FusedGemm"): fused.gemm,
    ("com.microsoft", "FusedMatMul"): fused.matmul,
    ("com.microsoft", "Gelu"): fused.gelu,
    ("com.microsoft", "GatherBlockQuantized"): few_bits.gather_blocks,
    ("com.microsoft", "GatherND"): _of_onnx,
    ("com.microsoft", "GroupNormalization"): fused.group_norm,
    ("com.microsoft", "GroupQueryAttention"): attention.group_query,
    ("com.microsoft", "LayerNormalization"): fused.layer_norm,
    ("com.microsoft", "MatMulIntegerToFloat"): quantized.matmul_to_float,
    ("com.microsoft", "MoE"): experts.mixture,
    ("com.microsoft", "MultiHeadAttention"): attention.multi_head,
    ("com.microsoft", "QAttention"): quantized.attention,
    ("com.microsoft", "QGemm"): quantized.qgemm,
    ("com.microsoft", "QLinearAdd"): quantized.on_dequantized("Add", 2),
    ("com.microsoft", "QLinearAveragePool"): quantized.on_dequantized("AveragePool"),
    ("com.microsoft", "QLinearConcat"): quantized.qlinear_concat,
    ("com.microsoft", "QLinearConv"): quantized.qlinear_conv,
    ("com.microsoft", "QLinearGlobalAveragePool"): quantized.on_dequantized("GlobalAveragePool"),
    ("com.microsoft", "QLinearLeakyRelu"): quantized.on_dequantized("LeakyRelu"),
    ("com.microsoft", "QLinearMul"): quantized.on_dequantized("Mul", 2),
    ("com.microsoft", "QLinearSigmoid"): quantized.on_dequantized("Sigmoid"),
    ("com.microsoft", "QLinearSoftmax"): quantized.qlinear_softmax,
    ("com.microsoft", "QMoE"): experts.of_few_bits,
    ("com.microsoft", "QuantizeLinear"): _of_onnx,
    ("com.microsoft", "QuickGelu"): fused.quick_gelu,
    ("com.microsoft", "RotaryEmbedding"): attention.rotary,
    ("com.microsoft", "SimplifiedLayerNormalization"): fused.rms_norm,
    ("com.microsoft", "SkipLayerNormalization"): fused.skip_norm,
    ("com.microsoft", "SkipSimplifiedLayerNormalization"): fused.skip_rms_norm,
    ("com.microsoft", "TransposeMatMul"): fused.matmul,
    ("com.microsoft", "Trilu"): _of_onnx,
}
# For what only the program knows.
_LAST_RULES: _Rules = {
    **{("", kind): computed_axes.reduced for kind in computed_axes.REDUCTIONS},
    **{("", kind): computed_axes.along for kind in computed_axes.ALONG},
    ("", "Slice"): padding.cut_by_values,
}
