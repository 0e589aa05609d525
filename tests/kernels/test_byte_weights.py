"""Weights of bytes as ONNX's quantisers write them: with zero points for all, or for each column or channel."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is not installed (make frontends)")

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


def compared(graph, result, kernel, folder):
    model = graph.model(result)
    (folder / "model.onnx").write_bytes(model.proto.SerializeToString())
    program = opsplice.compile(folder / "model.onnx", ["opsplice_kernels:quantised"], [CPU])
    assert kernel in [each.kernel for each in program.report.replacements if each.outcome == "replaced"], program.report
    (wanted,) = ReferenceEvaluator(model.proto).run(None, model.inputs)
    np.testing.assert_array_equal(program.run("main", *model.inputs.values()), wanted)
