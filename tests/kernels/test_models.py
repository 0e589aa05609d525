"""Layers of models with `--spec=opsplice_kernels` against ONNX's own reference."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

import opsplice
from benchmarks.calling import CPU
from benchmarks.programs import onnx_models
from tests.kernels import emulated_cuda

LONG = 130  # steps, more than are written out
SPEC = "opsplice_kernels"


def activated() -> onnx_models.Model:
    """A layer for each activation, one after the other."""
    graph = onnx_models.Graph()
    x = graph.input(7, 24)
    for kind in ({"op": "Relu"}, {"op": "Gelu"}, {"op": "Gelu", "approximate": "tanh"}):
        x = graph.op(kind.pop("op"), graph.linear(x, 24, 24), **kind)
    gate = graph.linear(x, 24, 24, bias=False)
    return graph.model(graph.op("Mul", gate, graph.op("Sigmoid", gate)))


def functions() -> onnx_models.Model:
    """Of single elements, the first of large numbers, which IREE's sine gets wrong; and a logarithm of rows.

    A gate and what it multiplies are one.
    """
    graph = onnx_models.Graph()
    x = graph.op("Sin", graph.op("Mul", graph.input(7, 24), graph.constant(np.float32(1e5))))
    gated = graph.op("Mul", graph.op("Mul", x, graph.op("Sigmoid", x)), graph.input(7, 24))
    return graph.model(graph.op("LogSoftmax", graph.op("Softplus", graph.op("Mish", gated)), axis=-1))


def reductions() -> onnx_models.Model:
    """Of rows, columns, images and all, one of what is computed as it is added, and one that gates what it is of."""
    graph = onnx_models.Graph()
    x, axes = graph.input(3, 40, 36), [graph.constant(np.array(each)) for each in ([2], [1], [1, 2])]
    rows = graph.op("Expand", graph.op("ReduceMean", x, axes[0]), graph.constant(np.array([3, 40, 36])))
    columns = graph.op("ReduceMax", x, axes[1])
    images = graph.op("ReduceL2", x, axes[2])
    whole = graph.op("ReduceMin", graph.op("Flatten", x), keepdims=0)
    fused = graph.op("ReduceSum", graph.op("Tanh", graph.op("Sub", x, rows)), axes[0])
    made = graph.op("Sqrt", graph.op("Abs", graph.op("Sub", x, columns)))
    gated = graph.op("Mul", made, graph.op("ReduceMean", made, axes[0]))
    y = graph.op("Add", graph.op("Mul", graph.op("Add", rows, columns), images), whole)
    return graph.model(graph.op("Add", graph.op("Add", y, fused), gated))


def poolings() -> onnx_models.Model:
    """Means of windows with zeros that count, with zeros that do not, and without any; and of all of an image."""
    graph = onnx_models.Graph()
    x, form = graph.input(2, 8, 20, 20), {"kernel_shape": [3, 3], "strides": [2, 2]}
    y = graph.op("AveragePool", x, pads=[1] * 4, count_include_pad=1, **form)
    y = graph.op("AveragePool", y, kernel_shape=[3, 3], pads=[1] * 4)
    return graph.model(graph.op("GlobalAveragePool", graph.op("AveragePool", y, **form)))


def grouped_convs() -> onnx_models.Model:
    """With a bias and what follows, of groups that the program merges before: by vectors of places and of channels."""
    graph = onnx_models.Graph()
    x = graph.op("Relu", graph.conv(graph.input(1, 32, 12, 20), 32, 32, 3, groups=4))
    return graph.model(graph.op("HardSwish", graph.conv(x, 32, 80, 3, 2, groups=2)))


def norm_of_an_activation() -> onnx_models.Model:
    """A batch norm that no filter takes up, of means of 0: a product for each element, left to the compiler."""
    graph = onnx_models.Graph()
    y = graph.op("Gelu", graph.conv(graph.input(1, 8, 40, 40), 8, 16, 3))
    none, ones = (graph.constant(np.full(16, each, np.float32)) for each in (0, 1))
    y = graph.op("BatchNormalization", y, ones, none, none, ones)
    return graph.model(graph.conv(graph.op("Relu", y), 16, 8, 1))


def pooled_volumes() -> onnx_models.Model:
    """The largest and the mean of windows in three dims, and a norm of each image of what comes out."""
    graph = onnx_models.Graph()
    y = graph.op("MaxPool", graph.input(1, 3, 6, 9, 8), kernel_shape=[2, 3, 2], strides=[1, 2, 1], pads=[1] * 6)
    y = graph.op("AveragePool", y, kernel_shape=[3, 2, 2], strides=[2, 1, 1], count_include_pad=1)
    y = graph.op("Reshape", y, graph.constant(np.array([1, 9, 4, 8])))
    return graph.model(graph.op("InstanceNormalization", y, graph.weight(9, size=1), graph.weight(9, size=1)))


def lstms() -> onnx_models.Model:
    """More steps than are written out: with a bias and all results; without, and a weight in parts, as of PyTorch."""
    graph = onnx_models.Graph()
    x, w = graph.input(LONG, 3, 10), [graph.weight(1, 64, size, size=0.3) for size in (10, 16, 16)]
    bias, state = graph.weight(1, 128, size=0.1), [graph.weight(1, 3, 16, size=0.5) for _ in range(2)]
    results = ["all", "last", "cell"]
    graph.nodes.append(onnx.helper.make_node("LSTM", [x, *w[:2], bias, "", *state], results, hidden_size=16))
    whole = graph.op("Concat", *(graph.weight(1, 32, 16, size=0.3) for _ in range(2)), axis=1)
    y = graph.op("LSTM", graph.op("Squeeze", "all", graph.constant(np.array([1]))), whole, w[2], hidden_size=16)
    return graph.model(graph.op("Add", y, graph.op("Mul", "last", "cell")))


def grus() -> onnx_models.Model:
    """The same of GRU: with a bias, a state and both results, and without."""
    graph = onnx_models.Graph()
    x, w = graph.input(LONG, 3, 10), [graph.weight(1, 48, size, size=0.3) for size in (10, 16, 16, 16)]
    given = [x, *w[:2], graph.weight(1, 96, size=0.1), "", graph.weight(1, 3, 16, size=0.5)]
    form = {"hidden_size": 16, "linear_before_reset": 1}
    graph.nodes.append(onnx.helper.make_node("GRU", given, ["all", "last"], **form))
    y = graph.op("GRU", graph.op("Squeeze", "all", graph.constant(np.array([1]))), *w[2:], **form)
    return graph.model(graph.op("Mul", y, "last"))


def computed_weights() -> onnx_models.Model:
    """A filter whose rows are normed, and a table: of weights alone, the compiler computes them once."""
    graph = onnx_models.Graph()
    w, axes = graph.weight(64, 96), graph.constant(np.array([1]))
    length = graph.op("Sqrt", graph.op("ReduceSum", graph.op("Mul", w, w), axes))
    table = graph.op("Softmax", graph.op("MatMul", graph.weight(9, 64), graph.weight(64, 96)))
    y = graph.op("MatMul", graph.input(9, 64), graph.op("Div", w, length))
    return graph.model(graph.op("Add", y, graph.op("Erf", table)))


def products() -> onnx_models.Model:
    """Of inputs alone: in batches, one of them turned, and of rows."""
    graph = onnx_models.Graph()
    x, w, v = graph.input(3, 10, 70), graph.input(3, 64, 70), graph.input(64, 130)
    y = graph.op("MatMul", x, graph.op("Transpose", w, perm=(0, 2, 1)))
    return graph.model(graph.op("Relu", graph.op("MatMul", graph.op("Tanh", y), v)))


def signed_bytes() -> onnx_models.Model:
    """Quantised with a fixed scale, with a zero point and without one, and with a bias of integers."""
    graph = onnx_models.Graph()
    scale, zero = graph.constant(np.float32(0.02)), graph.constant(np.int8(-5))
    x = graph.op("QuantizeLinear", graph.input(9, 64), scale, zero)
    parts = []
    for point, bias in (([zero], []), ([], []), ([zero], [graph.random.integers(-9999, 9999, 40).astype(np.int32)])):
        weight = graph.constant(graph.random.integers(-127, 128, (64, 40)).astype(np.int8))
        y = graph.op("MatMulInteger", x, weight, *point)
        for each in bias:
            y = graph.op("Add", y, graph.constant(each))
        y = graph.op("Cast", y, to=onnx.TensorProto.FLOAT)
        parts.append(graph.op("Mul", y, graph.constant(np.float32(0.001))))
    return graph.model(graph.op("Concat", *parts, axis=0))


def bytes_without_signs() -> onnx_models.Model:
    """Weights as onnxruntime's dynamic quantiser writes them: a zero point for each column, and one for all."""
    graph = onnx_models.Graph()
    x, zero = graph.input(9, 30), graph.constant(np.uint8(99))
    x = graph.op("QuantizeLinear", x, graph.constant(np.float32(0.02)), zero)
    parts = []
    for points in (graph.random.integers(100, 150, 40).astype(np.uint8), np.uint8(120)):
        weight = graph.constant(graph.random.integers(0, 256, (30, 40)).astype(np.uint8))
        y = graph.op("MatMulInteger", x, weight, zero, graph.constant(points))
        y = graph.op("Mul", graph.op("Cast", y, to=onnx.TensorProto.FLOAT), graph.constant(np.float32(0.001)))
        parts.append(y)
    return graph.model(graph.op("Concat", *parts, axis=0))


def fixed_bytes() -> onnx_models.Model:
    """Products between DequantizeLinear and QuantizeLinear: signed, unsigned, without zero points, and in f32.

    Scales are powers of two, so that no sum is rounded.
    """
    graph = onnx_models.Graph()
    x, scale = graph.input(9, 64), graph.constant(np.float32(2**-6))
    step, results = graph.constant(np.float32(2**-7)), []
    for kind, middle in ((np.int8, -5), (np.uint8, 120), (np.int8, None)):
        points = [] if middle is None else [graph.constant(kind(middle))]
        point = points or [graph.constant(np.int8(0))]
        x8 = graph.op("DequantizeLinear", graph.op("QuantizeLinear", x, scale, *point), scale, *points)
        products = []
        for _ in range(2):
            weight = graph.constant(graph.random.integers(-127, 128, (64, 40)).astype(np.int8))
            small = graph.op("DequantizeLinear", weight, graph.constant(np.float32(2**-10)), graph.constant(np.int8(0)))
            products.append(graph.op("MatMul", x8, small))
        y8 = graph.op("QuantizeLinear", products[0], step, *point)
        results.append(graph.op("DequantizeLinear", y8, step, *points))
        results.append(graph.op("Tanh", products[1]))
    return graph.model(graph.op("Concat", *results, axis=0))


def quantised_gemms() -> onnx_models.Model:
    """With a bias and a scale for each column, as onnxruntime's quantiser writes them."""
    graph = onnx_models.Graph()
    x = graph.input(9, 63)
    x = graph.op("Relu", graph.op("Gemm", x, graph.weight(63, 40), graph.weight(40, size=0.1)))
    x = graph.op("Gemm", x, graph.weight(20, 40), graph.weight(20, size=0.1), transB=1)
    return onnx_models.quantised(graph.model(x), fixed=True, per_channel=True)


def quantised_convs(per_channel: bool) -> onnx_models.Model:
    """Some of bytes with bytes behind, and one whose numbers are f32."""
    graph = onnx_models.Graph()
    x = graph.op("Relu", graph.conv(graph.input(2, 3, 20, 18), 3, 40, 3, 2))
    x = graph.conv(graph.op("Relu", graph.conv(x, 40, 64, 1)), 64, 20, 3)
    model = onnx_models.quantised(graph.model(x), fixed=True, per_channel=per_channel)
    del model.proto.graph.node[-2:]  # the last numbers are not quantised
    model.proto.graph.output[0].name = model.proto.graph.node[-1].output[0]
    return model


def quantised_sums() -> onnx_models.Model:
    """Of bytes that two layers make, of a large image."""
    graph = onnx_models.Graph()
    x = graph.input(2, 32, 9, 8)
    y = graph.op("Relu", graph.op("Add", x, graph.conv(x, 32, 32, 3)))
    return onnx_models.quantised(graph.model(y), fixed=True)


def quantised_rows(fixed: bool) -> onnx_models.Model:
    """Convolutions of bytes along one dim: zeros on one side, a stride, and windows of one place."""
    graph, forms = onnx_models.Graph(), ({"pads": [4, 0], "dilations": [2]}, {"strides": [2], "pads": [1, 1]}, {})
    x = graph.input(2, 40, 37)
    for filters, form in zip(((36, 40, 3), (36, 36, 4), (9, 36, 1)), forms, strict=True):
        x = graph.op("Relu", graph.op("Conv", x, graph.weight(*filters), graph.weight(filters[0], size=0.1), **form))
    return onnx_models.quantised(graph.model(x), fixed=fixed)


def integer_convolutions() -> onnx_models.Model:
    """ConvInteger with zeros around, of weights without a sign that can have one or not, and for each channel alone."""
    graph = onnx_models.Graph()
    scale, zero, middle = (graph.constant(each) for each in (np.float32(0.02), np.uint8(117), np.uint8(100)))

    def weight(kind, low, high, *shape):
        return graph.constant(graph.random.integers(low, high, shape).astype(kind))

    layers = [
        ([weight(np.int8, -128, 128, 40, 3, 3, 3), zero, graph.constant(np.int8(0))], {"pads": [1, 0, 1, 2]}),
        ([weight(np.uint8, 20, 220, 40, 40, 1, 1), zero, middle], {"strides": [2, 2]}),
        ([weight(np.int8, -128, 128, 40, 1, 3, 3), zero], {"group": 40, "pads": [1] * 4}),
        ([weight(np.uint8, 0, 256, 40, 40, 3, 3), zero, middle], {"pads": [1] * 4}),
    ]
    x = graph.input(2, 3, 20, 18)
    for operands, form in layers:
        x = graph.op("QuantizeLinear", x, scale, zero)
        x = graph.op("Cast", graph.op("ConvInteger", x, *operands, **form), to=onnx.TensorProto.FLOAT)
        x = graph.op("Mul", x, graph.constant(np.array([0.0001], np.float32)))
        x = graph.op("Add", x, graph.weight(1, 40, 1, 1, size=0.1))
    return graph.model(x)


def weights_of_bytes() -> onnx_models.Model:
    """Weights alone are bytes, with signs and without, and scales for all and for each channel or column."""
    graph = onnx_models.Graph()

    def weight(kind: type, *shape: int, axis: int | None = None) -> str:
        limits, count = np.iinfo(kind), 1 if axis is None else shape[axis]
        scales = (graph.random.random(count) * 0.01).astype(np.float32)
        points = np.full(count, limits.max // 2 + 1 if limits.min == 0 else 0, kind)
        beside = [graph.constant(each.reshape(()) if axis is None else each) for each in (scales, points)]
        numbers = graph.constant(graph.random.integers(limits.min, limits.max + 1, shape).astype(kind))
        return graph.op("DequantizeLinear", numbers, *beside, **({} if axis is None else {"axis": axis}))

    x = graph.input(2, 16, 5, 6)
    x = graph.op("Relu", graph.op("Conv", x, weight(np.uint8, 24, 16, 3, 3, axis=0), graph.weight(24, size=0.1)))
    x = graph.op("Gemm", graph.op("Flatten", x), weight(np.uint8, 40, 288), graph.weight(40, size=0.1), transB=1)
    x = graph.op("Relu", graph.op("MatMul", graph.op("Relu", x), weight(np.int8, 40, 33)))
    return graph.model(graph.op("MatMul", x, weight(np.uint8, 33, 24, axis=1)))


def quantised_activations() -> onnx_models.Model:
    """Of bytes that become bytes."""
    graph = onnx_models.Graph()
    x = graph.op("Gelu", graph.linear(graph.input(7, 24), 24, 24, bias=False))
    return onnx_models.quantised(graph.model(graph.linear(x, 24, 24, bias=False)), fixed=True)


def halves(m: int, past: int) -> onnx_models.Model:
    return onnx_models.as_type(onnx_models.llama_layer(m, past, 64, 2, 96), np.float16)


LLAMA = {"attention_rows": 1, "rmsnorm_rows": 2, "linear_packed": 7}
# The mask of several queries is a constant table, and causal.
PREFILL = {"banded_attention_rows": 1, "rmsnorm_rows": 2, "linear_packed": 7}
HALF_PREFILL = {"half_linear_packed": 7, "banded_attention_rows": 1, "rmsnorm_rows": 2}
HALF_LLAMA = {"half_linear_packed": 7, "attention_rows": 1, "rmsnorm_rows": 2}
CONVOLUTIONS = {"convolution_packed": 4, "depthwise_rows": 2}
VOLUMES = {"convolution_packed": 4}
HALF_CONVOLUTIONS = CONVOLUTIONS | {"activation_all": 2}
MODELS = {
    "bert": (lambda: onnx_models.bert_layer(9, 64, 2), {"attention_rows": 1, "layernorm_rows": 2, "linear_packed": 6}),
    "prefill": (lambda: onnx_models.llama_layer(9, 0, 64, 2, 96), PREFILL),
    # One row, where what is added to it looks like a bias: no product is computed twice.
    "decode": (lambda: onnx_models.llama_layer(1, 70, 64, 2, 96), LLAMA),
    "prefill in f16": (lambda: halves(9, 0), HALF_PREFILL),
    "decode in f16": (lambda: halves(1, 70), HALF_LLAMA),
    "lstms": (lstms, {"lstm_steps": 2}),
    "grus": (grus, {"gru_steps": 2}),
    "products": (products, {"product_unpacked": 1, "linear_unpacked": 1}),
    "products in f16": (lambda: onnx_models.as_type(products(), np.float16), {"half_linear_unpacked": 1}),
    "functions": (functions, {"activation_all": 4, "log_softmax_rows": 1}),
    "reductions": (reductions, {"reduced_rows": 4, "reduced_columns": 1}),
    "poolings": (poolings, {"pooling": 3}),
    "activated": (activated, {"linear_packed": 4}),
    "int8": (lambda: onnx_models.int8_linear(5, 64, 40), {"quantise_bytes": 1, "byte_linear": 1}),
    "int8 of an odd width": (lambda: onnx_models.int8_linear(5, 63, 40), {"quantise_bytes": 1, "byte_linear": 1}),
    "bytes with fixed scales": (fixed_bytes, {"byte_linear": 6}),
    "bytes with scales for columns": (quantised_gemms, {"byte_linear": 2}),
    "activations of bytes": (quantised_activations, {"byte_linear": 2, "byte_activation": 1}),
    "convolutions of bytes": (
        lambda: quantised_convs(False),
        {"quantise_linear": 1, "byte_convolution": 3},
    ),
    "convolutions of bytes with scales for channels": (
        lambda: quantised_convs(True),
        {"quantise_linear": 1, "byte_convolution": 3},
    ),
    "sums of bytes": (
        quantised_sums,
        {"quantise_linear": 1, "byte_convolution": 1, "byte_addition": 1, "dequantise_linear": 1},
    ),
    "convolutions of bytes in rows": (
        lambda: quantised_rows(True),
        {"quantise_linear": 1, "byte_convolution": 3},
    ),
    "convolutions of integers in rows": (
        lambda: quantised_rows(False),
        {"quantise_bytes": 3, "byte_convolution": 3},
    ),
    "convolutions of integers": (
        integer_convolutions,
        {"quantise_linear": 2, "byte_convolution": 3, "depthwise_rows": 1},
    ),
    "int8 bert": (
        lambda: onnx_models.quantised(onnx_models.bert_layer(9, 64, 2)),
        {"attention_rows": 1, "layernorm_rows": 2, "activation_all": 1, "quantise_bytes": 4, "byte_linear": 6},
    ),
    "four bits": (lambda: onnx_models.nibble_linear(3, 96, 40), {"nibble_linear": 1}),
    "eight bits": (lambda: onnx_models.nibble_linear(3, 96, 40, bits=8), {"byte_blocks": 1}),
    "weights of bytes": (weights_of_bytes, {"convolution_packed": 1, "byte_columns": 2, "linear_packed": 1}),
    "signed bytes": (signed_bytes, {"byte_linear": 3}),
    "bytes without signs": (bytes_without_signs, {"byte_linear": 2}),
    "normed": (onnx_models.normed_convs, {"convolution_packed": 1, "depthwise_rows": 1}),
    "normed by inputs": (
        lambda: onnx_models.normed_convs(takes_weights=True),
        {"convolution_packed": 1, "depthwise_rows": 1},
    ),
    "norm of an activation": (norm_of_an_activation, {"convolution_packed": 2}),
    "filter that is an input": (lambda: onnx_models.conv_of_inputs(5, 14, 40), {"convolution_packed": 1}),
    "convolutions": (onnx_models.varied_convs, CONVOLUTIONS),
    "convolutions of a dynamic batch": (lambda: onnx_models.varied_convs("batch"), CONVOLUTIONS),
    "convolutions of f16": (lambda: onnx_models.as_type(onnx_models.varied_convs(), np.float16), HALF_CONVOLUTIONS),
    "convolutions of f16 by inputs": (
        lambda: onnx_models.as_type(onnx_models.conv_of_inputs(16, 20, 24), np.float16),
        {"convolution_packed": 1},
    ),
    "volumes and transposed convolutions": (onnx_models.volumes_and_transposed_convs, VOLUMES),
    "those of f16": (lambda: onnx_models.as_type(onnx_models.volumes_and_transposed_convs(), np.float16), VOLUMES),
    "computed weights": (computed_weights, {"linear_packed": 1}),
    "pooled volumes": (pooled_volumes, {"pooling": 2, "groupnorm_images": 1}),
    "groups of channels": (grouped_convs, {"convolution_packed": 2}),
    "winograd": (lambda: onnx_models.conv(24, 12, 32, 3), {"convolution_packed": 1}),
    "resnet": (lambda: onnx_models.resnet18(32, 8), {"convolution_packed": 20, "pooling": 1, "linear_packed": 1}),
}


class MatMulNBits(OpRun):
    """onnxruntime's operator, for blocks of 32 numbers of four or eight bits without zero points."""

    op_domain = "com.microsoft"

    def _run(self, x, w, scales, bits=None, **_form):
        halves = np.stack([w & 15, w >> 4], axis=-1).reshape(*w.shape[:2], -1)
        numbers = halves - 8.0 if bits == 4 else w - 128.0
        weight = (numbers * scales.reshape(*w.shape[:2], 1)).reshape(w.shape[0], -1)
        return ((x @ weight.T[: x.shape[-1]]).astype(np.float32),)


@pytest.mark.parametrize("name", MODELS)
def test_numbers(name, tmp_path):
    """On workers as programs have them by default, whose stacks are small."""
    compared(*MODELS[name], SPEC, [CPU], tmp_path, "local-task")


@pytest.mark.parametrize(
    ("name", "wanted"), [("int8", {"byte_row": 1}), ("signed bytes", {"byte_row": 2}), ("four bits", {"nibble_row": 1})]
)
def test_few_bits_by_kernels_for_cuda(name, wanted, tmp_path):
    make, _ = MODELS[name]
    compared(make, wanted, emulated_cuda.spec(tmp_path), [], tmp_path, "local-sync")


@pytest.mark.parametrize(("make", "kernel"), [(lstms, "lstm_steps"), (grus, "gru_steps")])
def test_an_open_number_of_steps(make, kernel, tmp_path):
    model, file = make().proto, tmp_path / "model.onnx"
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value == LONG:
                dim.dim_param = "steps"
    file.write_bytes(model.SerializeToString())
    program = opsplice.compile(file, [SPEC], [CPU])
    assert [each.kernel for each in program.report.replacements if not each.lost] == [kernel] * 2, program.report
    for steps in (1, 7):
        x = np.random.default_rng(steps).standard_normal((steps, 3, 10), np.float32)
        (wanted,) = ReferenceEvaluator(model).run(None, {model.graph.input[0].name: x})
        np.testing.assert_allclose(program.run("main", x), wanted, rtol=1e-4, atol=1e-5)


def test_what_follows_groups_is_done_by_their_kernel(tmp_path):
    (tmp_path / "model.onnx").write_bytes(grouped_convs().proto.SerializeToString())
    found = [each for each in opsplice.match(tmp_path / "model.onnx", [SPEC]).replacements if not each.lost]
    assert [each.dims.get("activation") for each in found] == [1, 6]


def test_transposed_convolutions_read_images_without_the_zeros_between(tmp_path):
    (tmp_path / "model.onnx").write_bytes(onnx_models.volumes_and_transposed_convs().proto.SerializeToString())
    found = [each for each in opsplice.match(tmp_path / "model.onnx", [SPEC]).replacements if not each.lost]
    apart = [tuple(each.dims.get(dim, 1) for dim in ("ud", "uh", "uw")) for each in found]
    assert sorted(apart) == [(1, 1, 1), (1, 1, 3), (1, 2, 2), (2, 1, 3)]


def compared(make, wanted, spec, flags, folder, device):
    model, file = make(), folder / "model.onnx"
    file.write_bytes(model.proto.SerializeToString())
    program = opsplice.compile(file, [spec], flags)
    found = [each.kernel for each in program.report.replacements if not each.lost]
    assert {kernel: found.count(kernel) for kernel in found} == wanted, program.report
    exact = onnx_models.as_type(model, np.float32)
    (reference,) = ReferenceEvaluator(exact.proto, new_ops=[MatMulNBits]).run(None, exact.inputs)
    got = program.run("main", *model.inputs.values(), device=device)
    limit = 1e-4 if got.dtype == np.float32 else 8e-3
    np.testing.assert_allclose(got, reference, rtol=limit, atol=limit)


def test_bytes_are_no_numbers_of_four_bits(tmp_path):
    (tmp_path / "model.onnx").write_bytes(onnx_models.nibble_linear(3, 64, 40, bits=8).proto.SerializeToString())
    report = opsplice.match(tmp_path / "model.onnx", ["opsplice_kernels:weight_only"])
    assert [each.kernel for each in report.replacements if not each.lost] == ["byte_blocks"]


def test_an_lstm_of_bytes_reads_bytes_in_each_step(tmp_path):
    graph = onnx_models.Graph()
    numbers = np.random.default_rng(0).integers(-128, 128, (1, 8, 32), np.int8)
    parts = [graph.constant(each) for each in (numbers, np.full(1, 0.01, np.float32), np.zeros(1, np.int8))]
    given = [graph.input(3, 2, 8), parts[0], parts[0], "", "", "", "", "", *parts[1:], *parts[1:]]
    model = graph.model(graph.op("DynamicQuantizeLSTM", *given, domain="com.microsoft", hidden_size=8)).proto
    model.graph.output[0].type.CopyFrom(onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, (3, 1, 2, 8)))
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    report = opsplice.match(tmp_path / "model.onnx", ["opsplice_kernels:weight_only"])
    # One product with all inputs, and one with the state in each step but the first, whose state is zeros.
    assert [each.kernel for each in report.replacements if not each.lost] == ["byte_columns"] * 3
