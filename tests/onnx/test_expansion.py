"""Quantised models and operators that are written as others: numbers against onnxruntime's, or ONNX's reference."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

import ml_dtypes
import onnx.parser
import onnx.reference
import onnxruntime as ort
from onnx import TensorProto, numpy_helper

import opsplice.onnx
from opsplice import frontends
from opsplice.common.errors import OpspliceError
from opsplice.onnx import expansion
from opsplice.onnx.model_file import Scope
from tests.onnx.models import OPSET, RANDOM, make_model, node

CONTRIB = {"com.microsoft": 1}
U8, I8 = TensorProto.UINT8, TensorProto.INT8


def check(model, feed, tolerance=1e-5, steps=0):
    """steps: by how much integers may be off: two right programs may round a tie differently."""
    found = opsplice.onnx.session(model, providers=["local-sync"]).run(None, feed)
    # Its optimiser computes in other types than the model says.
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    wanted = ort.InferenceSession(model.SerializeToString(), options).run(None, feed)
    for one, other in zip(found, wanted, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
        else:
            assert abs(one.astype(np.int64) - other.astype(np.int64)).max(initial=0) <= steps


def has_exact_sums_of_bytes():
    """On x86 without VNNI onnxruntime adds pairs of products in 16 bits, which are too few."""
    kinds = {"a": (U8, [1, 4]), "b": (I8, [4, 1])}
    model = make_model([node("MatMulInteger", "a b", "y")], kinds, {"y": (TensorProto.INT32, [1, 1])})
    given = {"a": np.full((1, 4), 255, np.uint8), "b": np.full((4, 1), 127, np.int8)}
    (found,) = ort.InferenceSession(model.SerializeToString()).run(None, given)
    return int(found[0, 0]) == 4 * 255 * 127


exact_sums_of_bytes = pytest.mark.skipif(
    not has_exact_sums_of_bytes(), reason="onnxruntime's own sums of bytes are wrong on this CPU, which lacks VNNI"
)


def floats(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def integers(kind, *shape):
    limits = np.iinfo(kind)
    return RANDOM.integers(limits.min, limits.max, shape, kind, endpoint=True)


def scale(value):
    return np.array(value, np.float32)


def test_models_with_quantize_and_dequantize():
    """A convolution with a scale for each channel and a linear layer, as quantisers write them."""
    constants = {
        "s": scale(0.05), "z": np.uint8(120),
        "wq": integers(np.int8, 8, 3, 3, 3), "ws": abs(floats(8)) * 0.01, "wz": np.zeros(8, np.int8),
        "bq": integers(np.int32, 8) // 2**22, "bs": abs(floats(8)) * 1e-3, "bz": np.zeros(8, np.int32),
        "lq": integers(np.int8, 8, 16), "ls": scale(0.01), "lz": np.int8(0),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"),
        node("DequantizeLinear", "wq ws wz", "wd", axis=0), node("DequantizeLinear", "bq bs bz", "bd", axis=0),
        node("Conv", "xd wd bd", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "r"),
        node("QuantizeLinear", "r s z", "rq"), node("DequantizeLinear", "rq s z", "rd"),
        node("GlobalAveragePool", "rd", "p"), node("Flatten", "p", "f"),
        node("DequantizeLinear", "lq ls lz", "ld"), node("MatMul", "f ld", "y"),
    ]  # fmt: skip
    model = make_model(nodes, {"x": ["n", 3, 8, 8]}, {"y": ["n", 16]}, constants)
    check(model, {"x": floats(2, 3, 8, 8)}, 1e-3)


@exact_sums_of_bytes
def test_products_of_bytes_without_zero_points():
    """IREE takes large bytes for negative ones, or does not compile the product."""
    kinds = {"u": (U8, [3, 4]), "v": (U8, [4, 2]), "batch": (U8, [2, 3, 4]), "w": (I8, [4, 2]), "ws": (I8, [2, 4, 2])}
    nodes = [
        node("MatMulInteger", "u v", "plain"),
        node("MatMulInteger", "batch w", "rows"),
        node("MatMulInteger", "batch ws", "batches"),
    ]
    shapes = {"plain": [3, 2], "rows": [2, 3, 2], "batches": [2, 3, 2]}
    model = make_model(nodes, kinds, {name: (TensorProto.INT32, shape) for name, shape in shapes.items()})
    check(model, {name: integers(np.uint8 if kind == U8 else np.int8, *shape) for name, (kind, shape) in kinds.items()})


@exact_sums_of_bytes
def test_products_of_bytes_in_batches_of_open_sizes():
    """Of rank four with two open dims, which IREE does not compile as it is."""
    constants = {"w": integers(np.int8, 4, 5), "z": np.uint8(7)}
    nodes = [node("MatMulInteger", "x w z", "y")]
    outputs = {"y": (TensorProto.INT32, ["n", "m", 3, 5])}
    model = make_model(nodes, {"x": (U8, ["n", "m", 3, 4])}, outputs, constants)
    check(model, {"x": integers(np.uint8, 2, 6, 3, 4)})


def test_products_of_bytes_in_batches_of_several_open_dims():
    """As attention that is quantized while it runs, of heads whose number ONNX does not find out."""
    kinds = {"a": (TensorProto.UINT8, list("bhmk")), "b": (TensorProto.INT8, list("bhkn"))}
    kinds |= {"z": (TensorProto.UINT8, []), "w": (TensorProto.INT8, [])}
    model = make_model([node("MatMulInteger", "a b z w", "y")], kinds, {"y": (TensorProto.INT32, list("bhmn"))})
    for b, h, m, k, n in ((2, 3, 4, 5, 6), (1, 2, 1, 7, 3)):
        feed = {
            "a": RANDOM.integers(0, 256, (b, h, m, k), np.uint8),
            "b": RANDOM.integers(-128, 128, (b, h, k, n), np.int8),
        }
        check(model, feed | {"z": np.array(200, np.uint8), "w": np.array(-7, np.int8)})


@pytest.mark.parametrize("points", [131, [131, 90, 255]])
def test_convolutions_of_bytes_with_a_zero_point_that_do_not_fit_into_floats(points):
    """Of weights without a sign that no zero point makes fit, as quantized convnets have them by default."""
    weight = RANDOM.integers(0, 256, (3, 40, 3, 3), np.uint8)
    weight.flat[:2] = 0, 255
    constants = {"w": weight, "z": np.array(points, np.uint8)}
    nodes = [node("ConvInteger", "x w t z", "y", pads=[1, 1, 1, 1], strides=[2, 2])]
    kinds = {"x": (TensorProto.UINT8, ["n", 40, 9, 7]), "t": (TensorProto.UINT8, [])}
    model = make_model(nodes, kinds, {"y": (TensorProto.INT32, ["n", 3, 5, 4])}, constants)
    feed = {"x": RANDOM.integers(0, 256, (2, 40, 9, 7), np.uint8), "t": np.array(97, np.uint8)}
    program = opsplice.onnx.session(model, providers=["local-sync"])
    wide = np.pad(feed["x"].astype(np.int64) - 97, [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))[:, :, ::2, ::2]
    centred = weight.astype(np.int64) - np.reshape(points, (-1, 1, 1, 1))
    np.testing.assert_array_equal(program.run(None, feed)[0], np.einsum("nchwij,ocij->nohw", windows, centred))


@exact_sums_of_bytes
def test_operators_on_quantised_numbers():
    """QLinearMatMul of matrices and of batches, QLinearConv, MatMulInteger, ConvInteger, DynamicQuantizeLinear."""
    constants = {
        "as": scale(0.02), "az": np.uint8(113), "bs": scale(0.01), "bz": np.uint8(130), "ys": scale(0.2),
        "yz": np.uint8(118), "b": integers(np.uint8, 6, 5), "bb": integers(np.uint8, 2, 6, 5),
        "k": integers(np.int8, 4, 3, 3, 3), "ks": abs(floats(4)) * 0.02, "kz": np.zeros(4, np.int8),
        "d": integers(np.int8, 6, 5), "dz": np.int8(0), "low": integers(np.uint8, 6, 5) // 2 + 4,
        "low4": integers(np.uint8, 4, 3, 2, 2),
    }  # fmt: skip
    nodes = [
        node("QLinearMatMul", "a as az b bs bz ys yz", "y2"),
        node("QLinearMatMul", "aa as az bb bs bz ys yz", "y3"),
        node("QLinearConv", "i as az k ks kz ys yz", "c", pads=[1, 1, 1, 1]),
        node("MatMulInteger", "a b az bz", "m"),
        node("MatMulInteger", "a low az bz", "fits"),
        node("ConvInteger", "i k az dz", "ci", pads=[0, 1, 2, 1]),
        node("ConvInteger", "i low4 az bz", "cf"),
        node("DynamicQuantizeLinear", "x", "xq xs xz"),
        node("MatMulInteger", "xq d xz dz", "total"),
        node("Cast", "total", "wide", to=TensorProto.FLOAT),
        node("Mul", "wide xs", "dynamic"),
    ]
    inputs = {"a": (U8, [4, 6]), "aa": (U8, [2, 4, 6]), "i": (U8, [1, 3, 5, 5]), "x": [3, 6]}
    outputs = {"y2": (U8, [4, 5]), "y3": (U8, [2, 4, 5]), "c": (U8, [1, 4, 5, 5]), "m": (TensorProto.INT32, [4, 5])}
    outputs |= {name: (TensorProto.INT32, shape) for name, shape in (("fits", [4, 5]), ("ci", [1, 4, 5, 5]))}
    outputs["cf"] = (TensorProto.INT32, [1, 4, 4, 4])
    model = make_model(nodes, inputs, {**outputs, "dynamic": [3, 5]}, constants)
    feed = {name: integers(np.uint8, *shape) for name, (_, shape) in list(inputs.items())[:3]}
    check(model, {**feed, "x": floats(3, 6)}, steps=1)


def test_convolutions_of_integers_with_automatic_pads():
    """IREE pads integers on all sides alike, and does not compile those that `auto_pad` puts on one side more."""
    taps = {"e": integers(np.int8, 4, 3, 2, 3), "z": np.uint8(113)}
    forms = [(way, form) for way in ("SAME_UPPER", "SAME_LOWER", "VALID") for form in ({}, {"strides": [3, 2]})]
    nodes = [node("ConvInteger", "i e z", f"y{n}", auto_pad=way, **form) for n, (way, form) in enumerate(forms)]
    sizes = [[7, 6], [3, 3]] * 2 + [[6, 4], [2, 2]]
    outputs = {f"y{number}": (TensorProto.INT32, [2, 4, *size]) for number, size in enumerate(sizes)}
    model = make_model(nodes, {"i": (U8, [2, 3, 7, 6])}, outputs, taps)
    feed = {"i": integers(np.uint8, 2, 3, 7, 6)}
    found = opsplice.onnx.session(model, providers=["local-sync"]).run(None, feed)
    for one, other in zip(found, onnx.reference.ReferenceEvaluator(model).run(None, feed), strict=True):
        np.testing.assert_array_equal(one, other)


@exact_sums_of_bytes
def test_operators_of_onnxruntime_on_quantised_numbers():
    """With biases that are integers, scales for each channel, and scales with one element, as its quantiser writes."""
    constants = {
        "s": scale(0.02), "z": np.uint8(113), "s1": np.array([0.02], np.float32), "ys": scale(0.1), "yz": np.uint8(118),
        "k": integers(np.int8, 4, 3, 3, 3), "ks": abs(floats(4)) * 0.02, "kz": np.zeros(4, np.int8),
        "kb": integers(np.int32, 4) // 2**20, "b": integers(np.int8, 36, 5), "bs": abs(floats(5)) * 0.02,
        "bz": np.zeros(5, np.int8), "bb": integers(np.int32, 5) // 2**20, "flat": np.array([1, 36]),
        "bt": integers(np.int8, 5, 5), "ws": scale(0.03), "wz": np.int8(0),
    }  # fmt: skip
    own = {"domain": "com.microsoft"}
    nodes = [
        node("QLinearConv", "i s z k ks kz ys yz kb", "c", pads=[1, 1, 1, 1]),
        node("QLinearConcat", "ys yz c ys yz c s z", "cc", axis=2, **own),
        node("QLinearSigmoid", "c ys yz s z", "cs", **own),
        node("QLinearLeakyRelu", "c ys yz s z", "cr", alpha=0.1, **own),
        node("QLinearAveragePool", "c ys yz s z", "ca", kernel_shape=[2, 2], **own),
        node("QLinearSoftmax", "c ys yz s z", "cm", axis=-1, opset=13, **own),
        node("QLinearGlobalAveragePool", "c ys yz s z", "p", channels_last=0, **own),
        node("Reshape", "c flat", "f"),
        node("QGemm", "f s1 z b bs bz bb ys yz", "g", alpha=0.5, **own),
        node("QGemm", "g ys yz bt ws wz bb", "h", transB=1, **own),
    ]  # fmt: skip
    outputs = {"c": (U8, [1, 4, 3, 3]), "cc": (U8, [1, 4, 6, 3]), "cs": (U8, [1, 4, 3, 3]), "cr": (U8, [1, 4, 3, 3])}
    outputs |= {
        "p": (U8, [1, 4, 1, 1]),
        "g": (U8, [1, 5]),
        "h": [1, 5],
        "ca": (U8, [1, 4, 2, 2]),
        "cm": (U8, [1, 4, 3, 3]),
    }
    model = make_model(nodes, {"i": (U8, [1, 3, 3, 3])}, outputs, constants, domains=CONTRIB)
    check(model, {"i": integers(np.uint8, 1, 3, 3, 3)}, 1e-3, steps=1)


def test_scales_for_blocks_integers_of_16_bits_and_constants_without_a_sign():
    constants = {
        "w4": integers(np.int8, 32, 6) // 16, "s4": abs(floats(2, 6)), "z4": integers(np.int8, 2, 6) // 16,
        "s16": scale(0.001), "z16": np.int16(300), "x8s": abs(floats(4, 2)) + 0.1,
        "w8": integers(np.uint8, 32, 6), "s8": scale(0.1), "z8": np.uint8(90), "s8s": abs(floats(6)) + 0.1,
        "v8": integers(np.uint8, 6),
    }  # fmt: skip
    nodes = [
        node("DequantizeLinear", "w4 s4 z4", "w", axis=0, block_size=16),
        node("MatMul", "x w", "y"),
        node("DequantizeLinear", "w8 s8 z8", "bytes"),
        node("MatMul", "x bytes", "product"),
        node("DequantizeLinear", "w8 s8s", "columns", axis=1),
        node("DequantizeLinear", "v8 s8 z8", "vector"),
        node("MatMul", "x columns", "products"),
        node("QuantizeLinear", "x s16 z16", "q16"),
        node("DequantizeLinear", "q16 s16 z16", "d16"),
        node("QuantizeLinear", "x x8s", "q8", axis=1, block_size=16, output_dtype=I8),
    ]
    outputs = {"y": [4, 6], "q16": (TensorProto.INT16, [4, 32]), "d16": [4, 32], "q8": (I8, [4, 32])}
    outputs |= {"product": [4, 6], "products": [4, 6], "vector": [6]}
    model = make_model(nodes, {"x": [4, 32]}, outputs, constants)
    for tensor in model.graph.initializer:
        if tensor.name in ("w4", "z4"):
            tensor.CopyFrom(numpy_helper.from_array(constants[tensor.name].astype(ml_dtypes.int4), tensor.name))
    check(model, {"x": floats(4, 32) * 10}, 1e-4)


@pytest.mark.parametrize(("bits", "columns"), [(4, 64), (4, 40), (8, 64)])
def test_weights_of_a_few_bits(bits, columns):
    """onnxruntime's MatMulNBits, with zero points that are integers or floats, or none, and with a block half full."""
    rows, block = 24, 32
    blocks = -(-columns // block)
    constants = {"w": integers(np.uint8, rows, blocks, block * bits // 8), "s": abs(floats(rows * blocks))}
    constants |= {"z": integers(np.uint8, rows * (-(-blocks * bits // 8))), "bias": floats(rows)}
    constants["f"] = abs(floats(rows * blocks)) * 5
    form = {"N": rows, "K": columns, "bits": bits, "block_size": block, "domain": "com.microsoft"}
    inputs = {"y": "x w s - - bias", "with_zeros": "x w s z", "with_floats": "x w s f"}
    if bits == 8:
        del inputs["with_floats"], constants["f"]  # onnxruntime has no such kernel
    nodes = [node("MatMulNBits", names, result, **form) for result, names in inputs.items()]
    model = make_model(nodes, {"x": ["n", columns]}, {name: ["n", rows] for name in inputs}, constants, domains=CONTRIB)
    check(model, {"x": floats(3, columns)}, 1e-3)


def test_weights_of_a_few_bits_whose_columns_have_any_block():
    """As GPTQ orders them by what they do. onnxruntime takes no zero points with these."""
    constants = {"w": integers(np.uint8, 24, 4, 16), "s": abs(floats(24, 4))}
    constants["order"] = RANDOM.permutation(np.arange(128) // 32).astype(np.int32)
    form = {"N": 24, "K": 128, "bits": 4, "block_size": 32, "domain": "com.microsoft"}
    nodes = [node("MatMulNBits", "x w s - order", "y", **form)]
    check(make_model(nodes, {"x": [3, 128]}, {"y": [3, 24]}, constants, domains=CONTRIB), {"x": floats(3, 128)}, 1e-4)


@exact_sums_of_bytes
def test_products_and_tables_of_onnxruntime():
    """Of integers with floats for results, of floats that are quantised there, and of rows that are picked."""
    constants = {
        "b": integers(np.int8, 32, 16), "bs": abs(floats(16)) * 0.01, "bz": np.zeros(16, np.int8), "bias": floats(16),
        "s": scale(0.1), "z": np.uint8(120), "table": integers(np.uint8, 20, 32), "ts": abs(floats(20, 2)),
        "tz": integers(np.uint8, 20, 1),
    }  # fmt: skip
    own, block = {"domain": "com.microsoft"}, {"block_size": 32, "gather_axis": 0, "quantize_axis": 1, "bits": 4}
    nodes = [
        node("MatMulIntegerToFloat", "a b s bs z bz bias", "wide", **own),
        node("DynamicQuantizeMatMul", "x b bs bz bias", "dynamic", **own),
        node("GatherBlockQuantized", "table i ts", "rows", **block, **own),
        node("GatherBlockQuantized", "table i ts tz", "others", **block, **own),
    ]
    shapes = {"wide": [4, 16], "dynamic": [4, 16], "rows": [2, 3, 64], "others": [2, 3, 64]}
    inputs = {"a": (U8, [4, 32]), "x": [4, 32], "i": (TensorProto.INT64, [2, 3])}
    model = make_model(nodes, inputs, shapes, constants, domains=CONTRIB)
    feed = {"a": integers(np.uint8, 4, 32), "x": floats(4, 32), "i": np.array([[0, 19, 3], [3, 7, 1]])}
    check(model, feed, 1e-4)


def test_what_is_taken_of_a_table_of_bytes_is_dequantised_and_not_all_of_it():
    constants = {"table": integers(np.uint8, 20, 6), "s": scale(0.02), "z": np.uint8(120)}
    nodes = [
        node("DequantizeLinear", "table s z", "numbers"),
        node("Gather", "numbers i", "rows"),
        node("Gather", "numbers i", "columns", axis=1),
    ]
    kinds, shapes = {"i": (TensorProto.INT64, [2, 3])}, {"rows": [2, 3, 6], "columns": [20, 2, 3]}
    model = make_model(nodes, kinds, shapes, constants)
    check(model, {"i": np.array([[0, 5, 3], [-1, 2, 1]])})
    graph = onnx.shape_inference.infer_shapes(model).graph
    expansion.expand(Scope.of(graph), {}, OPSET)
    taken = [each for each in graph.node if each.op_type == "Gather"]
    assert [each.input[0] for each in taken] == ["table", "table"]


def test_quantised_numbers_of_16_bits():
    """As onnxruntime's quantiser writes activations; they are floats in the program."""
    constants = {"s": scale(0.001), "z": np.uint16(30000), "ys": scale(0.01), "yz": np.uint16(12), "ws": scale(0.02)}
    constants |= {"w": integers(np.int8, 8, 6), "bq": integers(np.uint16, 6)}
    nodes = [
        node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"),
        node("DequantizeLinear", "w ws", "wd"), node("DequantizeLinear", "bq s z", "bd"),
        node("MatMul", "xd wd", "product"), node("Add", "product bd", "sum"),
        node("QuantizeLinear", "sum ys yz", "q"), node("DequantizeLinear", "q ys yz", "y"),
    ]  # fmt: skip
    check(make_model(nodes, {"x": [3, 8]}, {"y": [3, 6]}, constants), {"x": floats(3, 8) * 20}, 1e-5)


@pytest.mark.parametrize("kind", [np.int8, np.uint16])
def test_scales_and_zero_points_that_are_inputs(kind):
    """One, one for each channel, and one for each block of rows of an open number."""
    element = TensorProto.INT8 if kind == np.int8 else TensorProto.UINT16
    sizes = {"one": [], "each": [8], "block": ["n", 2]}
    forms = {"one": {}, "each": {"axis": 1}, "block": {"axis": 1, "block_size": 4}}
    inputs, outputs, nodes = {"x": ["n", 8], "b": (element, ["n", 8])}, {}, []
    for name, form in forms.items():
        inputs |= {f"{name}.s": sizes[name], f"{name}.z": (element, sizes[name])}
        outputs |= {f"{name}.q": (element, ["n", 8]), f"{name}.d": ["n", 8], f"{name}.y": ["n", 8]}
        numbers = f"{name}.s {name}.z"
        nodes += [
            node("QuantizeLinear", f"x {numbers}", f"{name}.q", **form),
            node("DequantizeLinear", f"b {numbers}", f"{name}.d", **form),
            node("QuantizeLinear", f"x {numbers}", f"{name}.between", **form),
            node("DequantizeLinear", f"{name}.between {numbers}", f"{name}.y", **form),
        ]
    feed = {"x": floats(3, 8), "b": integers(kind, 3, 8)}
    for name, shape in (("one", ()), ("each", (8,)), ("block", (3, 2))):
        feed |= {f"{name}.s": abs(floats(*shape)) * 0.02 + scale(0.01), f"{name}.z": integers(kind, *shape)}
    feed = {name: np.asarray(given, given.dtype) for name, given in feed.items()}
    check(make_model(nodes, inputs, outputs), feed, 1e-4, steps=1)


def test_operators_of_onnxruntime_alone():
    kinds = ["Gelu", "BiasGelu", "FastGelu"]
    nodes = [node(kind, "x" if kind == "Gelu" else "x b", kind.lower(), domain="com.microsoft") for kind in kinds]
    outputs = {kind.lower(): [3, 8] for kind in kinds}
    model = make_model(nodes, {"x": [3, 8]}, outputs, {"b": floats(8)}, domains=CONTRIB)
    check(model, {"x": floats(3, 8)}, 1e-3)


def test_functions_of_models_and_of_onnx():
    """A model's own function, and an operator that ONNX defines as one: attention with a cache and without a mask."""
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 23, "own": 1]>
        main (float[1, 2, 3, 4] q, float[1, 2, 5, 4] k, float[1, 2, 5, 4] v) => (float[1, 2, 3, 4] y) {
          a = Attention <scale: float = 0.5> (q, k, v)
          y = own.twice (a)
        }
        <domain: "own", opset_import: ["": 23]>
        twice (x) => (y) { y = Add (x, x) }"""
    )
    del model.graph.input[2]
    model.graph.node[0].input.extend(["", "keys", "values"])
    model.graph.node[0].output.extend(["all_keys", "all_values"])
    shapes = {"v": (1, 2, 5, 4), "keys": (1, 2, 2, 4), "values": (1, 2, 2, 4)}
    model.graph.initializer.extend(numpy_helper.from_array(floats(*shape), name) for name, shape in shapes.items())
    check(model, {"q": floats(1, 2, 3, 4), "k": floats(1, 2, 5, 4)}, 1e-4)


def test_reshapes_of_several_symbolic_dims():
    """IREE alone takes the second dim for 1, and computes with what is left of the rows."""
    shapes = [[-1, 32], [-1, 1, 32], [4, -1], [1, -1, 32], [-1, 4, 8], [-1, 2, 16], [0, -1, 32], [0, 0, 32], [-1]]
    nodes, outputs = [], {}
    for number, shape in enumerate(shapes):
        nodes += [node("Reshape", f"x shape{number}", f"r{number}"), node("Neg", f"r{number}", f"y{number}")]
        outputs[f"y{number}"] = [None] * len(shape)
    constants = {f"shape{number}": np.array(shape) for number, shape in enumerate(shapes)}
    model = make_model(nodes, {"x": ["batch", "length", 2, 16]}, outputs, constants)
    session = opsplice.onnx.session(model, providers=["local-sync"])
    for sizes in ((2, 4), (1, 8), (4, 1)):
        x = floats(*sizes, 2, 16)
        for found, shape in zip(session.run(None, {"x": x}), shapes, strict=True):
            wanted = [size or x.shape[axis] for axis, size in enumerate(shape)]
            np.testing.assert_array_equal(found, -x.reshape(wanted))


def test_what_iree_computes_wrongly_is_written_otherwise():
    pool = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}
    nodes = [
        node("AveragePool", "x", "even", pads=[1, 1, 1, 1], **pool),
        node("AveragePool", "x", "apart", pads=[1, 0, 1, 2], dilations=[2, 2], **pool),
        node("AveragePool", "x", "inside", kernel_shape=[3, 2], pads=[1, 0, 2, 1], strides=[1, 3]),
        node("AveragePool", "x", "within", kernel_shape=[2, 3], pads=[1, 1, 0, 2], dilations=[2, 1]),
        node("GridSample", "x grid", "inner", mode="nearest"),
        node("GridSample", "x grid", "outer", mode="linear", align_corners=1),
        node("GridSample", "x grid", "border", padding_mode="border"),
        *(
            node("GridSample", "x grid", f"mirrored{n}", mode=mode, padding_mode="reflection", align_corners=n % 2)
            for n, mode in enumerate(("nearest", "nearest", "linear", "linear"))
        ),
        *(node("Det", f"m{size}", f"d{size}") for size in (1, 2, 3, 4)),
        *(node("LpNormalization", "x", f"norm{p}", axis=-1, p=p) for p in (1, 2)),
        *(node("DepthToSpace", f"{each}", f"{each}_shuffled", blocksize=2, mode="CRD") for each in ("deep", "open")),
        node("ConvTranspose", "x w b", "grown", group=2, strides=[2, 1], pads=[1, 0, 1, 0], output_padding=[1, 0]),
    ]
    outputs = {name: [None] * 4 for name in ("even", "apart", "inside", "within")} | {"inner": [1, 2, 8, 8]}
    outputs |= {
        "outer": [1, 2, 8, 8],
        "border": [1, 2, 8, 8],
        **{f"mirrored{n}": [1, 2, 8, 8] for n in range(4)},
        "norm1": [1, 2, 4, 6],
        "norm2": [1, 2, 4, 6],
        "grown": [None] * 4,
        "deep_shuffled": [2, 3, 6, 8],
        "open_shuffled": [None] * 4,
    }
    inputs = {"x": [1, 2, 4, 6], "grid": [1, 8, 8, 2], "deep": [2, 12, 3, 4], "open": ["n", 8, "h", "w"]}
    inputs |= {f"m{size}": ["n", size, size] for size in (1, 2, 3, 4)}
    weights = {"w": floats(2, 3, 3, 2), "b": floats(6)}
    outputs |= {f"d{size}": ["n"] for size in (1, 2, 3, 4)}
    model = make_model(nodes, inputs, outputs, weights)
    ticks = np.array([-1.5, -1, -0.75, -0.5, 0, 0.25, 1, 1.1], np.float32)
    matrices = {f"m{size}": np.stack([np.eye(size)[::-1], floats(size, size)]) for size in (1, 2, 3, 4)}
    x = floats(1, 2, 4, 6)
    x[0, 0, 1] = 0
    feed = {"x": x, "grid": np.stack(np.meshgrid(ticks, ticks), -1)[None]}
    feed |= {"deep": floats(2, 12, 3, 4), "open": floats(2, 8, 3, 5)}
    check(model, feed | {name: matrix.astype(np.float32) for name, matrix in matrices.items()})


def test_operators_of_new_versions_give_the_numbers_of_the_reference():
    nodes = [
        node("Swish", "x", "swished", alpha=1.5),
        node("SwiGLU", "x x", "gated"),
        node("RotaryEmbedding", "x cosines sines", "turned", interleaved=1),
        node("RotaryEmbedding", "x few_cosines few_sines", "turned_in_part", rotary_embedding_dim=4),
        node("SpaceToDepth", "x", "deep", blocksize=2, mode="CRD"),
        node("CastLike", "x small", "limited"),
    ]
    outputs = {
        "swished": [1, 2, 4, 6],
        "gated": [1, 2, 4, 6],
        "turned": [1, 2, 4, 6],
        "turned_in_part": [1, 2, 4, 6],
        "deep": [1, 8, 2, 3],
    }
    outputs["limited"] = (TensorProto.FLOAT8E4M3FN, [1, 2, 4, 6])
    weights = {"cosines": floats(1, 4, 3), "sines": floats(1, 4, 3), "small": np.zeros(1, ml_dtypes.float8_e4m3fn)}
    weights |= {"few_cosines": floats(1, 4, 2), "few_sines": floats(1, 4, 2)}
    model = make_model(nodes, {"x": [1, 2, 4, 6]}, outputs, weights, opset=onnx.defs.onnx_opset_version())
    feed = {"x": floats(1, 2, 4, 6) * 400}
    found = opsplice.onnx.session(model, providers=["local-sync"]).run(None, feed)
    for one, other in zip(found, onnx.reference.ReferenceEvaluator(model).run(None, feed), strict=True):
        exact = other.astype(np.float32)
        # A rotation adds two products, of which each is rounded or not.
        np.testing.assert_allclose(one.astype(np.float32), exact, 1e-5, 2e-7 * np.abs(exact).max())


@pytest.mark.parametrize("opset", [7, 15])
def test_old_versions_of_operators(opset):
    weights = {name: floats(4) for name in ("gain", "bias", "mean")} | {"variance": abs(floats(4))}
    nodes = [
        node("BatchNormalization", "x gain bias mean variance", "normed"),
        node("Softmax", "normed", "shares", axis=1),
        node("Dropout", "shares", "y"),
        node("Hardmax", "normed", "largest", axis=1),
    ]
    inputs, outputs = {"x": ["n", 4, 5], "image": [1, 2, 3, 4]}, {"y": ["n", 4, 5], "largest": ["n", 4, 5]}
    if opset >= 12:
        nodes.append(node("GreaterOrEqual", "normed shares", "above"))
        nodes.append(node("LessOrEqual", "normed shares", "below"))
        outputs |= dict.fromkeys(("above", "below"), (TensorProto.BOOL, ["n", 4, 5]))
    if opset < 10:
        kinds = ("nearest", "linear")
        nodes += [node("Upsample", "image", kind, mode=kind, scales=[1.0, 1.0, 1.5, 2.0]) for kind in kinds]
    else:
        kinds = ("resized",)
        nodes.append(node("Resize", "image - factors", "resized", mode="linear"))
        weights["factors"] = scale([1, 1, 1.5, 2])
    model = make_model(nodes, inputs, outputs | {kind: [1, 2, 4, 8] for kind in kinds}, weights, opset, ir_version=7)
    check(model, {"x": floats(2, 4, 5), "image": floats(1, 2, 3, 4)})


def test_what_iree_computes_wrongly_is_refused():
    weights = {"w": floats(1, 8, 3), "r": floats(1, 8, 2), "p": floats(1, 6)}
    lstm = node("LSTM", "x w r - - - - p", "y", hidden_size=2, clip=1.0, name="/lstm")
    model = make_model([lstm], {"x": ["t", 1, 3]}, {"y": [None] * 4}, weights)
    with pytest.raises(OpspliceError, match=r"computes node '/lstm' \(LSTM\) wrongly: it leaves out the peepholes"):
        frontends.load(model)
    model = make_model([node("Det", "x", "y", name="/d")], {"x": [5, 5]}, {"y": []})
    with pytest.raises(OpspliceError, match="may be zero"):
        frontends.load(model)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_floats_of_eight_bits(name):
    """What is too large becomes the largest, if it is not to become NaN or infinity."""
    kind = np.dtype(getattr(ml_dtypes, name))
    element = onnx.helper.np_dtype_to_tensor_dtype(kind)
    nodes = [
        node("Cast", "x", "limited", to=element),
        node("Cast", "x", "open", to=element, saturate=0),
        node("CastLike", "x zero", "like"),
        node("Cast", "halves", "of_halves", to=element),
        node("QuantizeLinear", "x scale zero", "quantized"),
        node("DequantizeLinear", "quantized scale zero", "again"),
        node("Cast", "limited", "back", to=TensorProto.FLOAT16),
    ]
    small = dict.fromkeys(("limited", "open", "like", "of_halves", "quantized"), (element, [9]))
    outputs = small | {"again": [9], "back": (TensorProto.FLOAT16, [9])}
    inputs = {"x": [9], "halves": (TensorProto.FLOAT16, [9])}
    constants = {"zero": np.zeros((), kind), "scale": scale(0.4)}
    x = np.array([0.3, -17, 1e-3, 447, 1e6, -np.inf, np.nan, -0.0, 5e-6], np.float32)
    halves = np.array([0.3, -17, 1e-3, 447, 6e4, -np.inf, np.nan, -0.0, 5e-6], np.float16)
    session = opsplice.onnx.session(make_model(nodes, inputs, outputs, constants), providers=["local-sync"])
    found = dict(zip(outputs, session.run(None, {"x": x, "halves": halves}), strict=True))
    most = ml_dtypes.finfo(kind).max.astype(np.float32)
    limited = np.clip(x, -most, most).astype(kind)
    wanted = {"limited": limited, "open": x.astype(kind), "like": limited, "back": limited.astype(np.float16)}
    wanted["of_halves"] = np.clip(halves.astype(np.float32), -most, most).astype(kind)
    wanted["quantized"] = np.clip(x / np.float32(0.4), -most, most).astype(kind)
    wanted["again"] = wanted["quantized"].astype(np.float32) * np.float32(0.4)
    for each, array in wanted.items():
        assert found[each].dtype == array.dtype
        np.testing.assert_array_equal(found[each].astype(np.float32), array.astype(np.float32), err_msg=each)


def test_bits_as_other_numbers():
    """IREE's importer has no BitCast. Of the results the model says more sizes than of the operands."""
    pairs = [("float32", "int32"), ("int64", "float64"), ("uint16", "bfloat16"), ("int8", "uint8"), ("bool", "uint8")]
    x = integers(np.int64, 3)
    feed = {"float32": floats(2, 3), "int64": x, "uint16": integers(np.uint16, 5), "int8": integers(np.int8, 4)}
    feed["bool"] = np.array([True, False])
    kinds = {name: np.dtype(getattr(ml_dtypes, name, None) or name) for pair in pairs for name in pair}
    types = {name: onnx.helper.np_dtype_to_tensor_dtype(kind) for name, kind in kinds.items()}
    nodes = [node("BitCast", one, f"{one}.{other}", to=types[other]) for one, other in pairs]
    outputs = {f"{one}.{other}": (types[other], feed[one].shape) for one, other in pairs}
    inputs = {name: (types[name], [name, *array.shape[1:]]) for name, array in feed.items()}
    model = make_model(nodes, inputs, outputs, opset=26)
    found = opsplice.onnx.session(model, providers=["local-sync"]).run(None, feed)
    for array, (one, other) in zip(found, pairs, strict=True):
        assert array.dtype == kinds[other]
        assert array.tobytes() == feed[one].tobytes()


def test_what_iree_crashes_at_is_refused():
    unique = node("Unique", "x", "y", name="/u")
    with pytest.raises(OpspliceError, match=r"does not compile node '/u' \(Unique\)"):
        frontends.load(make_model([unique], {"x": [3]}, {"y": [None]}))


_INT4 = TensorProto.INT4


@pytest.mark.parametrize(
    ("nodes", "inputs", "constants", "why"),
    [
        (
            [node("QuantizeLinear", "x s", "q", output_dtype=_INT4), node("DequantizeLinear", "q s", "y")],
            {"x": [3, 4]},
            {"s": scale(0.3)},
            "integers of 4 bits",
        ),
        (
            [node("BatchNormalization", "x s s s s", "y")],
            {"x": [3]},
            {"s": np.ones(1, np.float32)},
            "normalizes no vectors",
        ),
    ],
    ids=lambda value: value[0].op_type if isinstance(value, list) else "",
)
def test_what_iree_does_not_lower_is_refused_by_the_name_of_its_node(nodes, inputs, constants, why):
    model = make_model(nodes, inputs, {"y": [None] * len(inputs["x"])}, constants)
    with pytest.raises(OpspliceError, match=rf"does not compile node .*\({nodes[0].op_type}\): .*{why}"):
        frontends.load(model)


@pytest.fixture(scope="module")
def spread():
    """A row for each of a batch, with the shape as PyTorch's exporter computes it."""
    constants = {"zero": np.int64(0), "minus": np.int64(-1), "row": np.ones((1, 4), np.float32)}
    nodes = [
        node("Shape", "x", "sizes"),
        node("Gather", "sizes zero", "batch"),
        node("Unsqueeze", "batch zeros", "first"),
        node("Concat", "first four", "wanted", axis=0),
        node("Shape", "wanted", "rank"),
        node("ConstantOfShape", "rank", "ones", value=numpy_helper.from_array(np.array([1]))),
        node("Mul", "ones minus", "minuses"),
    ]
    for given, asked, made in (("row", "once", "narrow"), ("narrow", "wanted", "wide")):
        nodes += [
            node("Equal", f"{asked} minuses", f"{asked}_unknown"),
            node("Where", f"{asked}_unknown ones {asked}", f"{asked}_shape"),
            node("Expand", f"{given} {asked}_shape", made),
        ]
    nodes.append(node("Add", "x wide", "y"))
    constants |= {"zeros": np.array([0]), "four": np.array([4]), "once": np.array([1, 4])}
    return make_model(nodes, {"x": ["batch", 4]}, {"y": ["batch", 4]}, constants)


def test_shapes_are_computed_where_sizes_are_fixed(spread):
    x = floats(3, 4)
    session = opsplice.onnx.session(spread, dims={"batch": 3}, providers=["local-sync"])
    np.testing.assert_allclose(session.run(None, {"x": x})[0], x + 1, rtol=1e-6)


def test_slices_keep_the_dims_that_are_not_sliced():
    """A row of places, as long as the input: PyTorch's exporter expands it to the batch, and 1 has to be known."""
    constants = {"zero": np.int64(0), "one": np.int64(1), "first": np.array([0]), "second": np.array([1])}
    constants["row"] = np.arange(9, dtype=np.float32)[None]
    nodes = [
        node("Shape", "x", "sizes"),
        node("Gather", "sizes one", "length"),
        node("Unsqueeze", "length first", "end"),
        node("Slice", "row first end second", "part"),
        node("Expand", "part sizes", "wide"),
        node("Add", "x wide", "y"),
    ]
    model = make_model(nodes, {"x": ["batch", "length"]}, {"y": ["batch", "length"]}, constants)
    check(model, {"x": floats(3, 5)})


def test_a_block_of_a_llama():
    """RMS norms, grouped heads, a causal mask and a gated layer, with weights as constants and a symbolic batch."""
    text = """<ir_version: 10, opset_import: ["": 23]>
        main (float[batch, 6, 16] x) => (float[batch, 6, 16] y) {
          n = RMSNormalization <epsilon: float = 0.00001> (x, gain)
          q = MatMul (n, wq)
          k = MatMul (n, wk)
          v = MatMul (n, wv)
          a = Attention <q_num_heads: int = 4, kv_num_heads: int = 2, is_causal: int = 1> (q, k, v)
          o = MatMul (a, wo)
          h = Add (x, o)
          m = RMSNormalization <epsilon: float = 0.00001> (h, gain)
          g = MatMul (m, wg)
          s = Sigmoid (g)
          t = Mul (g, s)
          u = MatMul (m, wu)
          z = Mul (t, u)
          d = MatMul (z, wd)
          y = Add (h, d)
        }"""
    shapes = {
        "wq": (16, 16),
        "wk": (16, 8),
        "wv": (16, 8),
        "wo": (16, 16),
        "wg": (16, 48),
        "wu": (16, 48),
        "wd": (48, 16),
    }
    model = onnx.parser.parse_model(text)
    weights = {"gain": np.ones(16, np.float32), **{name: floats(*shape) / 4 for name, shape in shapes.items()}}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    check(model, {"x": floats(2, 6, 16)}, 1e-4)


def test_norms_of_channels_of_any_size():
    """IREE's numbers for instances of open sizes are wrong, and it does not compile groups of such."""
    constants = {"gain": floats(12), "bias": floats(12)}
    nodes = [
        node("InstanceNormalization", "x gain bias", "instances", epsilon=1e-3),
        node("GroupNormalization", "x gain bias", "groups", num_groups=3),
        node("InstanceNormalization", "line gain bias", "rows"),
    ]
    sizes, line = ["b", 12, "h", "w"], ["b", 12, "n"]
    shapes = {"instances": sizes, "groups": sizes, "rows": line}
    model = make_model(nodes, {"x": sizes, "line": line}, shapes, constants)
    for b, h, w in ((1, 1, 2), (2, 6, 5), (3, 1, 7)):
        check(model, {"x": floats(b, 12, h, w) + 2, "line": floats(b, 12, h + w)})


@pytest.mark.parametrize("opset", [13, 17, 18])
def test_softsign_of_open_sizes(opset):
    model = make_model([node("Softsign", "x", "y")], {"x": [3, "n"]}, {"y": [3, "n"]}, opset=opset)
    check(model, {"x": floats(3, 5)})


def test_casts_to_the_type_of_another_value():
    """IREE's compiler ends the process at those to 64 bits without a sign."""
    like = {"t": np.zeros(1, np.uint64), "f": np.zeros(1, np.float64)}
    outputs = {"y": (TensorProto.DOUBLE, [3]), "z": (TensorProto.UINT64, [3])}
    model = make_model([node("CastLike", "x f", "y"), node("CastLike", "x t", "z")], {"x": [3]}, outputs, like)
    check(model, {"x": np.array([0.5, 3.9, 2**40], np.float32)})


def test_bytes_with_channels_behind():
    """As onnxruntime writes them for its own CPU kernels."""
    constants = {"s": scale(0.1), "z": np.uint8(100), "t": scale(0.12)}
    form = {"domain": "com.microsoft", "channels_last": 1}
    windows = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    nodes = [node("QLinearAveragePool", "x s z t z", "y", **windows, **form)]
    nodes.append(node("QLinearGlobalAveragePool", "x s z t z", "mean", **form))
    nodes.append(node("QLinearConv", "x s z w v o t z b", "made", **windows, **form))
    constants |= {"w": integers(np.int8, 3, 2, 3, 3) // 2, "v": scale([0.001, 0.002, 0.003]), "o": np.zeros(3, np.int8)}
    constants["b"] = np.array([-500, 0, 900], np.int32)
    outputs = {"y": (U8, [1, 4, 4, 2]), "mean": (U8, [1, 1, 1, 2]), "made": (U8, [1, 4, 4, 3])}
    model = make_model(nodes, {"x": (U8, [1, 8, 8, 2])}, outputs, constants, domains=CONTRIB)
    check(model, {"x": integers(np.uint8, 1, 8, 8, 2)}, steps=1)
