"""Layers and models as ONNX writes them, with random weights, for `benchmarks.models`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSETS = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]


@dataclass(frozen=True)
class Model:
    """A model with one result, and inputs for it by name."""

    proto: onnx.ModelProto
    inputs: dict[str, np.ndarray]


@dataclass
class Graph:
    """Nodes in order; every method returns the name of a value. takes_weights: weights are inputs."""

    takes_weights: bool = False
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    inputs: dict[str, np.ndarray] = field(default_factory=dict)

    def input(self, *shape: int) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.random.standard_normal(shape, np.float32)
        return name

    def constant(self, value: Any) -> str:
        if self.takes_weights and np.ndim(value) and np.asarray(value).dtype == np.float32:
            name = f"x{len(self.inputs)}"
            self.inputs[name] = value
            return name
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, *shape: int, size: float | None = None) -> str:
        spread = size if size is not None else 1 / np.sqrt(np.prod(shape[1:]) if len(shape) > 2 else shape[0])
        return self.constant((self.random.standard_normal(shape) * spread).astype(np.float32))

    def op(self, kind: str, *operands: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(operands), [name], **attributes))
        return name

    def model(self, result: str, shape: tuple[int, ...] | None = None) -> Model:
        infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in self.inputs.items()]
        info = helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "main", infos, [info], self.weights)
        proto = helper.make_model(graph, opset_imports=_OPSETS, ir_version=10)
        return Model(onnx.shape_inference.infer_shapes(proto), self.inputs)

    # ---- layers -----------------------------------------------------------------------------------------------------

    def linear(self, x: str, k: int, n: int, bias: bool = True) -> str:
        y = self.op("MatMul", x, self.weight(k, n))
        return self.op("Add", y, self.weight(n, size=0.1)) if bias else y

    def layernorm(self, x: str, n: int) -> str:
        gain = self.constant(self.random.uniform(0.5, 1.5, n).astype(np.float32))
        return self.op("LayerNormalization", x, gain, self.weight(n, size=0.1), axis=-1, epsilon=1e-5)

    def rmsnorm(self, x: str, n: int) -> str:
        gain = self.constant(self.random.uniform(0.5, 1.5, n).astype(np.float32))
        mean = self.op("ReduceMean", self.op("Mul", x, x), self.constant(np.array([-1])), keepdims=1)
        root = self.op("Sqrt", self.op("Add", mean, self.constant(np.float32(1e-5))))
        return self.op("Mul", self.op("Div", x, root), gain)

    def heads(self, x: str, rows: int, heads: int, size: int, perm: tuple[int, ...] = (0, 2, 1, 3)) -> str:
        shaped = self.op("Reshape", x, self.constant(np.array([1, rows, heads, size])))
        return self.op("Transpose", shaped, perm=perm)

    def attention(self, q: str, kt: str, v: str, size: int, mask: str = "") -> str:
        """Of queries [1, heads, m, d], keys [1, heads, d, n] and values [1, heads, n, d]."""
        scores = self.op("Mul", self.op("MatMul", q, kt), self.constant(np.float32(size**-0.5)))
        if mask:
            scores = self.op("Add", scores, mask)
        return self.op("MatMul", self.op("Softmax", scores, axis=-1), v)

    def merged(self, x: str, rows: int, width: int) -> str:
        return self.op("Reshape", self.op("Transpose", x, perm=(0, 2, 1, 3)), self.constant(np.array([1, rows, width])))

    def conv(self, x: str, c: int, o: int, size: int, stride: int = 1, groups: int = 1) -> str:
        """With the bias that a batch norm becomes."""
        f = self.weight(o, c // groups, size, size)
        return self.op(
            "Conv",
            *(x, f, self.weight(o, size=0.1)),
            pads=[size // 2] * 4,
            strides=[stride] * 2,
            group=groups,
            kernel_shape=[size] * 2,
        )

    def batch_norm(self, x: str, c: int) -> str:
        gain, variance = (self.constant(self.random.uniform(0.5, 1.5, c).astype(np.float32)) for _ in range(2))
        return self.op("BatchNormalization", x, gain, self.weight(c, size=0.5), self.weight(c, size=0.5), variance)

    def relu6(self, x: str) -> str:
        return self.op("Clip", x, self.constant(np.float32(0)), self.constant(np.float32(6)))

    def pooled(self, x: str, c: int, classes: int = 1000) -> str:
        return self.linear(self.op("Flatten", self.op("GlobalAveragePool", x)), c, classes)


def one(kind: str, *shape: int, **attributes: Any) -> Model:
    """One op of one input."""
    graph = Graph()
    return graph.model(graph.op(kind, graph.input(*shape), **attributes))


def layernorm(m: int, n: int) -> Model:
    graph = Graph()
    return graph.model(graph.layernorm(graph.input(m, n), n))


def linear(m: int, k: int, n: int, bias: bool = True) -> Model:
    graph = Graph()
    return graph.model(graph.linear(graph.input(m, k), k, n, bias))


def int8_linear(m: int, k: int, n: int) -> Model:
    """As onnxruntime's dynamic quantisation writes it, with a scale for each column."""
    graph = Graph()
    x = graph.input(m, k)
    graph.nodes.append(helper.make_node("DynamicQuantizeLinear", [x], ["bytes", "scale", "zero"]))
    weight = graph.constant(graph.random.integers(-127, 128, (k, n)).astype(np.int8))
    scales = graph.constant((graph.random.uniform(0.5, 1.5, n) / 127 / np.sqrt(k)).astype(np.float32))
    y = graph.op("Cast", graph.op("MatMulInteger", "bytes", weight, "zero"), to=TensorProto.FLOAT)
    y = graph.op("Mul", y, graph.op("Mul", "scale", scales))
    return graph.model(graph.op("Add", y, graph.weight(n, size=0.1)))


def nibble_linear(m: int, k: int, n: int, bits: int = 4) -> Model:
    """Weights of a few bits in blocks of 32."""
    graph, blocks = Graph(), -(-k // 32)
    weight = graph.constant(graph.random.integers(1, 256, (n, blocks, 4 * bits), np.uint8))
    scales = graph.constant((graph.random.uniform(0.5, 1.5, n * blocks) / 8 / np.sqrt(k)).astype(np.float32))
    form = {"N": n, "K": k, "bits": bits, "block_size": 32, "domain": "com.microsoft"}
    return graph.model(graph.op("MatMulNBits", graph.input(m, k), weight, scales, **form), (m, n))


def as_type(model: Model, kind: Any) -> Model:
    """The same with its floats as another type, such as `np.float16`, which holds no numbers beyond its own."""
    proto, limits = onnx.ModelProto.FromString(model.proto.SerializeToString()), np.finfo(kind)
    for weight in proto.graph.initializer:
        if (value := numpy_helper.to_array(weight)).dtype.kind == "f":
            weight.CopyFrom(numpy_helper.from_array(value.clip(limits.min, limits.max).astype(kind), weight.name))
    for info in (*proto.graph.input, *proto.graph.output):
        info.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    del proto.graph.value_info[:]
    inputs = {name: value.astype(kind) for name, value in model.inputs.items()}
    return Model(onnx.shape_inference.infer_shapes(proto), inputs)


def quantised(model: Model, fixed: bool = False, **form: Any) -> Model:
    """The same with products of bytes, as onnxruntime quantises it: dynamically, or with fixed scales everywhere.

    form: what its quantiser takes besides, such as `per_channel`. Numbers become u8 by default, which CPUs multiply
    faster than s8.
    """
    from onnxruntime import quantization

    samples = iter([model.inputs])

    class Samples(quantization.CalibrationDataReader):
        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(samples, None)

    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        if fixed:
            form = {"activation_type": quantization.QuantType.QUInt8, **form}
            quantization.quantize_static(model.proto, file, Samples(), **form)
        else:
            quantization.quantize_dynamic(model.proto, file, **form)
        return Model(onnx.load(file), model.inputs)


def attention(heads: int, m: int, d: int) -> Model:
    graph = Graph()
    q, k, v = (graph.input(1, heads, m, d) for _ in range(3))
    return graph.model(graph.attention(q, graph.op("Transpose", k, perm=(0, 1, 3, 2)), v, d))


def bert_layer(m: int = 128, width: int = 768, heads: int = 12) -> Model:
    graph, size = Graph(), width // heads
    x = graph.input(1, m, width)
    q, k, v = (
        graph.heads(graph.linear(x, width, width), m, heads, size, perm)
        for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
    )
    y = graph.linear(graph.merged(graph.attention(q, k, v, size), m, width), width, width)
    x = graph.layernorm(graph.op("Add", x, y), width)
    y = graph.linear(graph.op("Gelu", graph.linear(x, width, 4 * width)), 4 * width, width)
    return graph.model(graph.layernorm(graph.op("Add", x, y), width))


def llama_layer(m: int, past: int, width: int = 1024, heads: int = 16, hidden: int = 2816) -> Model:
    """A layer of `m` new rows behind a cache of `past` keys; without rotation of positions."""
    graph, size = Graph(), width // heads
    x = graph.input(1, m, width)
    y = graph.rmsnorm(x, width)
    q = graph.heads(graph.linear(y, width, width, bias=False), m, heads, size)
    k = graph.heads(graph.linear(y, width, width, bias=False), m, heads, size)
    v = graph.heads(graph.linear(y, width, width, bias=False), m, heads, size)
    mask = ""
    if past:
        k = graph.op("Concat", graph.input(1, heads, past, size), k, axis=2)
        v = graph.op("Concat", graph.input(1, heads, past, size), v, axis=2)
    else:
        mask = graph.constant(np.triu(np.full((m, m), -1e9, np.float32), 1))
    kt = graph.op("Transpose", k, perm=(0, 1, 3, 2))
    y = graph.merged(graph.attention(q, kt, v, size, mask), m, width)
    x = graph.op("Add", x, graph.linear(y, width, width, bias=False))
    y = graph.rmsnorm(x, width)
    gate, up = (graph.linear(y, width, hidden, bias=False) for _ in range(2))
    y = graph.op("Mul", graph.op("Mul", gate, graph.op("Sigmoid", gate)), up)
    return graph.model(graph.op("Add", x, graph.linear(y, hidden, width, bias=False)))


def conv(c: int, size: int, o: int, kernel: int, stride: int = 1, groups: int = 1) -> Model:
    graph = Graph()
    return graph.model(graph.op("Relu", graph.conv(graph.input(1, c, size, size), c, o, kernel, stride, groups)))


def conv_of_inputs(c: int, size: int, o: int) -> Model:
    """A convolution whose filter is not a weight."""
    graph = Graph()
    return graph.model(graph.op("Conv", graph.input(1, c, size, size), graph.input(o, c, 3, 3), pads=[1] * 4))


def normed_convs(takes_weights: bool = False, c: int = 3, o: int = 40, size: int = 20) -> Model:
    """As PyTorch has them before their norms are folded: a convolution and a depthwise one."""
    graph = Graph(takes_weights)
    y = graph.op("Conv", graph.input(1, c, size, size), graph.weight(o, c, 3, 3), strides=[2, 2])
    y = graph.relu6(graph.batch_norm(y, o))
    y = graph.op("Conv", y, graph.weight(o, 1, 3, 3), group=o, pads=[1] * 4)
    return graph.model(graph.op("Relu", graph.batch_norm(y, o)))


def varied_convs(batch: int | str = 2) -> Model:
    """Convolutions of each kind: zeros on one side more than on the other, groups, one dim, and all activations."""
    graph = Graph()
    x = graph.input(2, 4, 13, 12)

    def conv(x: str, f: tuple[int, ...], activation: str = "", **attributes: Any) -> str:
        y = graph.op("Conv", x, graph.weight(*f), graph.weight(f[0], size=0.1), **attributes)
        return (
            y
            if not activation
            else graph.op(activation, y)
            if activation != "Silu"
            else graph.op("Mul", y, graph.op("Sigmoid", y))
        )

    y = conv(x, (36, 4, 3, 3), "Silu", pads=[0, 1, 2, 1])
    y = conv(y, (36, 1, 3, 2), "Relu", group=36, pads=[1, 0, 1, 1], dilations=[1, 2])
    y = conv(y, (36, 18, 3, 3), group=2, strides=[2, 2], pads=[1, 1, 1, 1])
    y = conv(y, (8, 36, 1, 1), "HardSwish")
    y = graph.op("Reshape", y, graph.constant(np.array([0, 8, -1])))
    y = conv(y, (33, 8, 3), "Gelu", strides=[2], pads=[2, 0])
    y = conv(y, (33, 1, 5), "Relu", group=33, pads=[2, 2])
    model = graph.model(y)
    model.proto.graph.input[0].type.tensor_type.shape.dim[0].CopyFrom(_dim(batch))
    del model.proto.graph.value_info[:]
    return model


def volumes_and_transposed_convs() -> Model:
    """Convolutions in three dims, in two and in one; all but the first are transposed."""
    graph = Graph()
    y = graph.op("Conv", graph.input(1, 3, 2, 6, 3), graph.weight(4, 3, 2, 3, 3), pads=[1, 1, 1, 0, 1, 1])
    f, bias = graph.weight(4, 4, 3, 3, 3), graph.weight(4)
    y = graph.op("ConvTranspose", y, f, bias, pads=[1] * 6, strides=[2, 1, 3], output_padding=[1, 0, 0])
    y = graph.op("Reshape", graph.op("Relu", y), graph.constant(np.array([1, 16, 6, 7])))
    y = graph.op("ConvTranspose", y, graph.weight(16, 5, 4, 3), graph.weight(5), pads=[1] * 4, strides=[2, 2])
    y = graph.op("Reshape", graph.op("Relu", y), graph.constant(np.array([1, 5, 156])))
    return graph.model(graph.op("ConvTranspose", y, graph.weight(5, 3, 7), pads=[2, 2], strides=[3]))


def _dim(size: int | str) -> onnx.TensorShapeProto.Dimension:
    dim = onnx.TensorShapeProto.Dimension()
    setattr(dim, "dim_value" if isinstance(size, int) else "dim_param", size)
    return dim


def resnet18(size: int = 224, width: int = 64) -> Model:
    graph = Graph()
    x = graph.op("Relu", graph.conv(graph.input(1, 3, size, size), 3, width, 7, 2))
    x = graph.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    before = width
    for c in (width * factor for factor in (1, 1, 2, 2, 4, 4, 8, 8)):
        stride = 1 if c == before else 2
        y = graph.op("Relu", graph.conv(x, before, c, 3, stride))
        y = graph.conv(y, c, c, 3)
        if stride == 2:
            x = graph.conv(x, before, c, 1, 2)
        x, before = graph.op("Relu", graph.op("Add", y, x)), c
    return graph.model(graph.pooled(x, 8 * width))


def mobilenet_v2(size: int = 224) -> Model:
    graph = Graph()
    x = graph.relu6(graph.conv(graph.input(1, 3, size, size), 3, 32, 3, 2))
    before = 32
    for expansion, c, count, first in (
        *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    ):
        for number in range(count):
            stride, hidden, y = first if number == 0 else 1, before * expansion, x
            if expansion > 1:
                y = graph.relu6(graph.conv(y, before, hidden, 1))
            y = graph.relu6(graph.conv(y, hidden, hidden, 3, stride, hidden))
            y = graph.conv(y, hidden, c, 1)
            x, before = (graph.op("Add", x, y) if stride == 1 and before == c else y), c
    return graph.model(graph.pooled(graph.relu6(graph.conv(x, 320, 1280, 1)), 1280))


MODELS: dict[str, Callable[[], Model]] = {
    "softmax 512x1024": lambda: one("Softmax", 512, 1024, axis=-1),
    "layernorm 128x768": lambda: layernorm(128, 768),
    "gelu 128x3072": lambda: one("Gelu", 128, 3072),
    "gelu tanh 128x3072": lambda: one("Gelu", 128, 3072, approximate="tanh"),
    "attention 12 heads 512x64": lambda: attention(12, 512, 64),
    "linear 128x768x3072": lambda: linear(128, 768, 3072),
    "linear 1x1024x2816": lambda: linear(1, 1024, 2816, bias=False),
    "f16 linear 128x768x3072": lambda: as_type(linear(128, 768, 3072), np.float16),
    "f16 linear 1x1024x2816": lambda: as_type(linear(1, 1024, 2816, bias=False), np.float16),
    "int8 linear 128x768x3072": lambda: int8_linear(128, 768, 3072),
    "int8 linear 1x768x3072": lambda: int8_linear(1, 768, 3072),
    "4-bit linear 1x4096x4096": lambda: nibble_linear(1, 4096, 4096),
    "4-bit linear 128x1024x2816": lambda: nibble_linear(128, 1024, 2816),
    "conv 3x3 64 at 56": lambda: conv(64, 56, 64, 3),
    "conv 3x3 stride 2 64 to 128 at 56": lambda: conv(64, 56, 128, 3, 2),
    "conv 7x7 stride 2 3 to 64 at 224": lambda: conv(3, 224, 64, 7, 2),
    "conv 3x3 512 at 7": lambda: conv(512, 7, 512, 3),
    "conv 1x1 96 to 576 at 14": lambda: conv(96, 14, 576, 1),
    "int8 conv 3x3 64 at 56": lambda: quantised(conv(64, 56, 64, 3), fixed=True, per_channel=True),
    "int8 conv 1x1 96 to 576 at 14": lambda: quantised(conv(96, 14, 576, 1), fixed=True, per_channel=True),
    "depthwise 3x3 144 at 56": lambda: conv(144, 56, 144, 3, 1, 144),
    "depthwise 3x3 stride 2 96 at 112": lambda: conv(96, 112, 96, 3, 2, 96),
    "BERT layer, 128 rows": bert_layer,
    "int8 BERT layer, 128 rows": lambda: quantised(bert_layer()),
    "int8 BERT layer, fixed scales": lambda: quantised(bert_layer(), fixed=True),
    "llama layer, prefill of 128": lambda: llama_layer(128, 0),
    "llama layer, decode behind 512": lambda: llama_layer(1, 512),
    "f16 llama layer, prefill of 128": lambda: as_type(llama_layer(128, 0), np.float16),
    "f16 llama layer, decode behind 512": lambda: as_type(llama_layer(1, 512), np.float16),
    "ResNet-18 at 224": resnet18,
    "int8 ResNet-18, fixed scales": lambda: quantised(resnet18(), fixed=True),
    "int8 ResNet-18, scales for channels": lambda: quantised(resnet18(), fixed=True, per_channel=True),
    "MobileNetV2 at 224": mobilenet_v2,
}
