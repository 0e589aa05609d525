"""Rotary embeddings against numpy: of halves and of pairs, in any layout, as frontends write them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import opsplice

# Each with what rounding may add, as a part of the number.
TYPES = {"f32": (np.float32, 1e-5), "f16": (np.float16, 2.0**-11), "bf16": (ml_dtypes.bfloat16, 2.0**-8)}


def turned(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, *, pairs: bool) -> np.ndarray:
    """x [..., m, n], turned by cosines and sines of [m, n]."""
    half = x.shape[-1] // 2
    halves = np.concatenate((-x[..., half:], x[..., :half]), -1)
    other = np.stack((-x[..., 1::2], x[..., ::2]), -1).reshape(x.shape) if pairs else halves
    return x * cos + other * sin


def arranged(memory: np.ndarray, m: int, h: int, layout: str) -> np.ndarray:
    """The memory of a tensor of m places as [m, 2, h], as it lies in a layout."""
    shape = {"halves": (m, 2, h), "pairs": (m, h, 2), "any": (2, h, m)}[layout]
    order = {"halves": (0, 1, 2), "pairs": (0, 2, 1), "any": (2, 0, 1)}[layout]
    return memory.reshape(shape).transpose(order)


@pytest.mark.parametrize("layout", ["halves", "pairs", "any"])
@pytest.mark.parametrize("element", TYPES)
def test_rope(kernel, guarded, element, layout):
    kind, unit = TYPES[element]
    random = np.random.default_rng(4)
    for m, h in ((1, 1), (3, 5), (2, 64), (4, 37)):
        given = [guarded(random.standard_normal(2 * m * h).astype(kind)) for _ in range(3)]
        out = guarded(np.zeros(2 * m * h, kind))
        parts = [arranged(each, m, h, layout) for each in (*given, out)]
        steps = [step // out.itemsize for each in parts for step in each.strides]
        kernel("rope/rope.c", f"opsplice_rope_{element}")(*given, out, 1, m, 2, h, *steps, 0)
        wanted = turned(*(each.reshape(m, 2 * h).astype(float) for each in parts[:3]), pairs=False)
        np.testing.assert_allclose(parts[3].reshape(m, 2 * h).astype(float), wanted, rtol=unit, atol=2e-6)


@pytest.mark.parametrize("layout", ["halves", "pairs", "any"])
@pytest.mark.parametrize("apart", [1, 2])
def test_rope_with_one_cosine_for_both_of_a_pair(kernel, guarded, apart, layout):
    """apart: how far cosines lie from each other; those of complex numbers have their sines in between."""
    random, (m, h) = np.random.default_rng(6), (3, 21)
    x, out = guarded(random.standard_normal(2 * m * h).astype(np.float32)), guarded(np.zeros(2 * m * h, np.float32))
    cos, sin = (guarded(random.standard_normal(apart * m * h).astype(np.float32)) for _ in range(2))
    parts = [arranged(each, m, h, layout) for each in (x, out)]
    steps = [step // 4 for step in parts[0].strides], [step // 4 for step in parts[1].strides]
    one = [apart * h, apart] * 2
    function = kernel("rope/rope.c", "opsplice_rope_by_halves_f32")
    function(x, cos, sin, out, 1, m, 2, h, *steps[0], *one, *steps[1], 0)
    first, second = parts[0][:, 0].astype(float), parts[0][:, 1].astype(float)
    c, s = (each[::apart].reshape(m, h).astype(float) for each in (cos, sin))
    wanted = np.stack((first * c - second * s, second * c + first * s), 1)
    np.testing.assert_allclose(parts[1], wanted, rtol=1e-5, atol=2e-6)


@pytest.fixture(scope="module")
def given() -> tuple[np.ndarray, ...]:
    """Queries [batch, places, heads, numbers], cosines and sines."""
    random = np.random.default_rng(5)
    return tuple(random.standard_normal(shape).astype(np.float32) for shape in ((2, 6, 3, 16), (6, 16), (6, 16)))


def check(program: opsplice.Program, inputs, patterns, wanted) -> None:
    assert sorted(each.pattern for each in program.report.replacements) == patterns, program.report
    for found, exact in zip(program.run("main", *inputs), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(found), exact, rtol=1e-5, atol=1e-5)


def test_rope_of_pytorch(given):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")

    class Turned(torch.nn.Module):
        def forward(self, x, cos, sin):
            first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
            in_front = x.transpose(1, 2)
            pairs = torch.stack((-in_front[..., 1::2], in_front[..., ::2]), -1).flatten(-2)
            c, s = cos[:, None], sin[:, None]
            return x * c + torch.cat((-second, first), -1) * s, in_front * cos + pairs * sin

    sizes = {"x": {0: "batch", 1: "places"}, "cos": {0: "places"}, "sin": {0: "places"}}
    example = tuple(torch.from_numpy(each) for each in given)
    program = opsplice_torch.export(Turned().eval(), example, dynamic=sizes, specs=["opsplice_kernels:rope"])
    for places in (6, 4):
        x, cos, sin = given[0][:, :places], given[1][:places], given[2][:places]
        in_front = x.transpose(0, 2, 1, 3)
        halves = turned(in_front, cos, sin, pairs=False).transpose(0, 2, 1, 3)
        check(program, (x, cos, sin), ["rope", "rope"], [halves, turned(in_front, cos, sin, pairs=True)])


def test_rope_of_onnx(given, tmp_path):
    onnx = pytest.importorskip("onnx", reason="ONNX is not installed (make frontends)")
    of, float32 = onnx.helper, onnx.TensorProto.FLOAT
    numbers = {"zero": [0], "eight": [8], "sixteen": [16], "last": [-1]}
    constants = [onnx.numpy_helper.from_array(np.array(each), name) for name, each in numbers.items()]
    nodes = [
        of.make_node("Slice", ["x", "zero", "eight", "last"], ["first"]),
        of.make_node("Slice", ["x", "eight", "sixteen", "last"], ["second"]),
        of.make_node("Neg", ["second"], ["negated"]),
        of.make_node("Concat", ["negated", "first"], ["turned"], axis=-1),
        of.make_node("Mul", ["x", "cos"], ["left"]),
        of.make_node("Mul", ["turned", "sin"], ["right"]),
        of.make_node("Add", ["left", "right"], ["y"]),
    ]
    x, cos, sin = given[0].transpose(0, 2, 1, 3).copy(), *given[1:]
    inputs = [of.make_tensor_value_info(n, float32, each.shape) for n, each in (("x", x), ("cos", cos), ("sin", sin))]
    graph = of.make_graph(nodes, "main", inputs, [of.make_tensor_value_info("y", float32, x.shape)], constants)
    path = tmp_path / "model.onnx"
    onnx.save(of.make_model(graph, opset_imports=[of.make_opsetid("", 17)], ir_version=9), path)
    program = opsplice.compile(path, ["opsplice_kernels:rope"])
    assert [each.pattern for each in program.report.replacements] == ["rope"], program.report
    found = np.asarray(program.run("main", x, cos, sin))
    np.testing.assert_allclose(found, turned(x, cos, sin, pairs=False), rtol=1e-5, atol=1e-5)


def test_rope_of_jax(given):
    jax = pytest.importorskip("jax", reason="JAX is not installed (make frontends)")
    jnp = jax.numpy

    def both(x, cos, sin):
        first, second = jnp.split(x, 2, -1)
        c, s = cos[:, None, :8], sin[:, None, :8]
        whole = x * cos[:, None] + jnp.concatenate((-second, first), -1) * sin[:, None]
        # The other way round, and with a part of the row left as it is: neither is a rotation of x.
        wrong = x * cos[:, None] + jnp.concatenate((-first, second), -1) * sin[:, None]
        return whole, jnp.concatenate((first * c - second * s, second * c + first * s), -1), wrong

    x, cos, sin = given
    program = opsplice.compile(jax.export.export(jax.jit(both))(*given), ["opsplice_kernels:rope"])
    in_front = x.transpose(0, 2, 1, 3)
    halves = [
        turned(in_front, *each, pairs=False).transpose(0, 2, 1, 3)
        for each in ((cos, sin), (np.tile(cos[:, :8], 2), np.tile(sin[:, :8], 2)))
    ]
    swapped = np.concatenate((-x[..., :8], x[..., 8:]), -1)
    wrong = x * cos[:, None] + swapped * sin[:, None]
    check(program, given, ["rope", "rope_by_halves"], [*halves, wrong])


@pytest.mark.parametrize("is_open", [False, True], ids=["of one size", "of open places"])
@pytest.mark.parametrize("element", ["float32", "bfloat16"])
def test_complex_rope_of_pytorch(element, is_open):
    """Pairs are complex numbers, turned by a product with others, as in llama's own code and in diffusers."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")

    class Rope(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("turns", torch.polar(torch.ones(32, 8), torch.randn(32, 8)))

        def forward(self, x):
            pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * self.turns[: x.shape[1], None]).flatten(3).type_as(x)

    layer, dynamic = Rope().eval(), {"x": {1: torch.export.Dim("places", max=32)}} if is_open else None
    x = torch.randn(2, 7, 3, 16).to(getattr(torch, element))
    program = opsplice_torch.export(layer, (x,), dynamic=dynamic, specs=["opsplice_kernels:rope"])
    assert [each.pattern for each in program.report.replacements] == ["rope_by_halves"], str(program.report)
    x = torch.randn(2, 12 if is_open else 7, 3, 16).to(x.dtype)
    numbers = x.float().numpy() if element == "float32" else x.float().numpy().astype(ml_dtypes.bfloat16)
    found = np.asarray(program.run("main", numbers)).astype(np.float32)
    np.testing.assert_allclose(
        found, layer(x).float().numpy(), rtol=2.0**-8 if element == "bfloat16" else 1e-6, atol=1e-6
    )
