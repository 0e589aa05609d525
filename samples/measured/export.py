"""Writes the models of the demo: python export.py. It needs torch and onnx (`make frontends`).

    bert.mlir    2 encoder layers, 128 tokens, width 256, from torch
    llama.mlir   2 decoder layers, one step behind 256 tokens, grouped heads, from torch
    resnet.mlir  a stem and 2 stages at 64x64, batch norms, from torch
    int8.mlir    a dynamically quantised MLP, bytes by bytes, from ONNX

Weights are arguments; `demo.py` makes them from a seed.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import torch
from iree.compiler import ir
from torch import nn
from torch.nn.functional import gelu, silu

from opsplice import frontends

HERE = Path(__file__).parent


class Encoder(nn.Module):
    """A layer of BERT."""

    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (each(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (self.q, self.k, self.v))
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), dim=-1)
        x = self.first(x + self.out((weights @ v).transpose(1, 2).flatten(2)))
        return self.second(x + self.down(gelu(self.up(x))))


class Decoder(nn.Module):
    """A layer of llama, with a cache."""

    def __init__(self, width: int = 256, heads: int = 4, groups: int = 2) -> None:
        super().__init__()
        self.heads, self.groups, size = heads, groups, width // heads
        self.q, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)
        self.first, self.second = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        q = self.q(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (each(y).unflatten(-1, (self.groups, -1)).transpose(1, 2) for each in (self.k, self.v))
        k, v = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
        k, v = (each.repeat_interleave(self.heads // self.groups, dim=1) for each in (k, v))
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        y = self.second(x)
        return x + self.down(silu(self.gate(y)) * self.up(y))


class Step(nn.Module):
    """One token behind those of the caches."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Decoder(), Decoder()])

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, keys, values)
        return x


class Residual(nn.Module):
    """A block of ResNet."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.first, self.second = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(self.two(torch.relu(self.first(self.one(x)))))
        return torch.relu(y + self.short(x))


def resnet() -> nn.Module:
    stem = [nn.Conv2d(3, 32, 7, 2, 3, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    blocks = [Residual(32, 32, 1), Residual(32, 32, 1), Residual(32, 64, 2)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 100))


class Lifted(nn.Module):
    """A module whose weights are arguments behind its inputs."""

    def __init__(self, module: nn.Module, inputs: int) -> None:
        super().__init__()
        self.held, self.count = [module], inputs
        self.names = [n for n, v in module.state_dict().items() if v.is_floating_point()]

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        state = dict(zip(self.names, given[self.count :], strict=True))
        return torch.func.functional_call(self.held[0], state, given[: self.count])


def exported(module: nn.Module, *inputs: torch.Tensor) -> str:
    """A module of torch as MLIR."""
    lifted = Lifted(module.eval(), len(inputs))
    state = module.state_dict()
    program = torch.export.export(lifted, (*inputs, *(state[name] for name in lifted.names)))
    with tempfile.TemporaryDirectory() as folder:
        torch.export.save(program, Path(folder) / "model.pt2")
        return text(Path(folder) / "model.pt2")


def quantised() -> str:
    """Two layers as onnxruntime quantises them, as MLIR."""
    import onnx
    from onnx import TensorProto, helper

    nodes, values = [], [("x", TensorProto.FLOAT, (64, 256))]

    def op(kind: str, *operands: str, results: int = 1, **attributes: object) -> str:
        names = [f"{kind}{len(nodes)}_{number}" for number in range(results)]
        nodes.append(helper.make_node(kind, list(operands), names, **attributes))
        return names[0]

    def weight(kind: int, *shape: int) -> str:
        values.append((f"w{len(values)}", kind, shape))
        return values[-1][0]

    def layer(x: str, k: int, n: int) -> str:
        op("DynamicQuantizeLinear", x, results=3)
        q, scale, zero = nodes[-1].output
        product = op("MatMulInteger", q, weight(TensorProto.INT8, k, n), zero)
        scaled = op("Mul", op("Cast", product, to=TensorProto.FLOAT), op("Mul", scale, weight(TensorProto.FLOAT, 1)))
        return op("Add", scaled, weight(TensorProto.FLOAT, n))

    y = layer(op("Relu", layer("x", 256, 1024)), 1024, 256)
    given = [helper.make_tensor_value_info(*value) for value in values]
    result = helper.make_tensor_value_info(y, TensorProto.FLOAT, (64, 256))
    graph = helper.make_graph(nodes, "main", given, [result])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
        return text(path)


def text(path: Path) -> str:
    """A model's file as MLIR without places."""
    source = frontends.load(path)
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(source.read(), context)
        for function in module.body.operations:
            del function.attributes["iree.reflection"]
        return str(module)


def main() -> None:
    torch.manual_seed(0)
    cache = torch.randn(1, 2, 256, 64)
    models = {
        "bert": exported(nn.Sequential(Encoder(), Encoder()), torch.randn(1, 128, 256)),
        "llama": exported(Step(), torch.randn(1, 1, 256), cache, cache),
        "resnet": exported(resnet(), torch.randn(1, 3, 64, 64)),
        "int8": quantised(),
    }
    for name, model in models.items():
        (HERE / f"{name}.mlir").write_text(model)


if __name__ == "__main__":
    main()
