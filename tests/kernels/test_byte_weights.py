"""Weights of bytes as ONNX's quantisers write them: with zero points for all, or for each column or channel."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is not installed (make frontends)")

import onnx
from onnx.reference import ReferenceEvaluator

import opsplice
from benchmarks.programs import onnx_models

CPU = "--iree-llvmcpu-target-cpu=host"


def between_bytes(graph, kind, weight, scales, points, axis, **form):
    """A layer between DequantizeLinear and QuantizeLinear, whose numbers are floats again at the end."""
    step, zero = graph.constant(np.float32(2**-6)), graph.constant(np.uint8(120))
    shape = (2, 6, 9, 8) if kind == "Conv" else (9, 64)
    x = graph.op("DequantizeLinear", graph.op("QuantizeLinear", graph.input(*shape), step, zero), step, zero)
    w = graph.op("DequantizeLinear", *map(graph.constant, (weight, scales, points)), axis=axis)
    y = graph.op("QuantizeLinear", graph.op(kind, x, w, **form), step, zero)
    return graph.op("DequantizeLinear", y, step, zero)


def made(graph, kind, *shape):
    limits = np.iinfo(kind)
    return graph.random.integers(limits.min, limits.max, shape, kind, endpoint=True)


# Scales are powers of two, so that no sum is rounded.
SCALE, SCALES = np.float32(2**-10), np.full(40, 2**-10, np.float32)


@pytest.mark.parametrize("points", ["one", "no sign", "of columns"])
def test_products_of_weights_with_zero_points(points, tmp_path):
    graph = onnx_models.Graph()
    kind = np.uint8 if points == "no sign" else np.int8
    middles = made(graph, kind, 40) if points == "of columns" else kind(7)
    scales = SCALES if points == "of columns" else SCALE
    y = between_bytes(graph, "MatMul", made(graph, kind, 64, 40), scales, middles, 1)
    compared(graph, y, "byte_linear", tmp_path)


def test_convolutions_of_channels_whose_middle_differs(tmp_path):
    """Weights without a sign, each of which fits into a byte with one once it is less the middle of its channel."""
    graph = onnx_models.Graph()
    middles = np.where(np.arange(40) % 2, 127, 128).astype(np.uint8)
    weight = np.clip(made(graph, np.uint8, 40, 6, 3, 3), 1, 254)
    y = between_bytes(graph, "Conv", weight, SCALES, middles, 0, pads=[1] * 4)
    compared(graph, y, "byte_convolution", tmp_path)


@pytest.mark.parametrize(("kind", "k"), [(np.float16, 64), (np.float32, 72)])
def test_blocks_of_few_bits_of_halves_and_cut_short(kind, k, tmp_path):
    """By kernels, which take f32 and whole blocks, and not as floats of the whole weight."""
    graph = onnx_models.Graph()
    operands = made(graph, np.uint8, 40, -(-k // 32), 16), (graph.random.random((40, -(-k // 32))) + 0.1).astype(kind)
    form = {"K": k, "N": 40, "bits": 4, "block_size": 32, "domain": "com.microsoft"}
    result = graph.op("MatMulNBits", graph.input(3, k), *map(graph.constant, operands), **form)
    model = graph.model(result, (3, 40)).proto
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    report = opsplice.match(tmp_path / "model.onnx", ["opsplice_kernels:weight_only"])
    assert [each.kernel for each in report.replacements if each.outcome == "replaced"] == ["nibble_linear"], report


def compared(graph, result, kernel, folder):
    model = graph.model(result)
    (folder / "model.onnx").write_bytes(model.proto.SerializeToString())
    program = opsplice.compile(folder / "model.onnx", ["opsplice_kernels:quantised"], [CPU])
    assert kernel in [each.kernel for each in program.report.replacements if each.outcome == "replaced"], program.report
    (wanted,) = ReferenceEvaluator(model.proto).run(None, model.inputs)
    np.testing.assert_array_equal(program.run("main", *model.inputs.values()), wanted)
