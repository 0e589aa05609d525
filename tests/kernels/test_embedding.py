"""Rows of a table against numpy: of elements of each width, by numbers inside of the table and outside."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import opsplice

TYPES = {"f32": np.uint32, "f16": np.uint16, "bf16": np.uint16}


@pytest.mark.parametrize("element", TYPES)
def test_embedding(kernel, guarded, element):
    random = np.random.default_rng(1)
    sizes = ((1, 1, 1), (9, 3, 17), (40, 33, 20), (7, 70, 5))
    for (v, n, m), from_end, index in itertools.product(sizes, (0, 1), (np.int32, np.int64)):
        w = guarded(random.integers(0, 60000, (v, n)).astype(TYPES[element]))
        ids = guarded(random.integers(-2 * v, 2 * v, m).astype(index))
        out = guarded(np.zeros((m, n), TYPES[element]))
        for part in range(-(-m // 16)):
            name = f"opsplice_embedding_{element}_i{8 * index().itemsize}"
            kernel("embedding/embedding.c", name)(w, ids, from_end, out, v, n, m, part)
        wanted = np.where((ids < 0) & bool(from_end), ids + v, ids)
        np.testing.assert_array_equal(out, w[np.clip(wanted, 0, v - 1)])


@pytest.fixture(scope="module")
def given() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(2)
    return random.standard_normal((50, 12)).astype(np.float32), random.integers(0, 50, (3, 7))


def check(program: opsplice.Program, function: str, inputs, wanted) -> None:
    assert [each.pattern for each in program.report.replacements] == ["embedding"] * len(wanted), program.report
    for found, exact in zip(program.run(function, *inputs), wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(found), exact)


def test_rows_of_pytorch(given):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")

    class Rows(torch.nn.Module):
        def forward(self, w, ids):
            embedding = torch.nn.functional.embedding
            return embedding(ids, w), embedding(ids[0].int(), w, padding_idx=3), w[ids], w.index_select(0, ids[1])

    w, ids = given
    example = (torch.zeros(w.shape), torch.zeros(ids.shape, dtype=torch.int64))
    program = opsplice_torch.export(Rows().eval(), example, specs=["opsplice_kernels:embedding"])
    check(program, "main", (w, ids), [w[ids], w[ids[0]], w[ids], w[ids[1]]])


def test_rows_of_jax(given):
    jax = pytest.importorskip("jax", reason="JAX is not installed (make frontends)")

    def rows(w, ids):
        jnp = jax.numpy
        return w[ids], jnp.take(w, ids.T, axis=0), jnp.take(w, ids[0], axis=0, mode="clip")

    w, ids = given[0], given[1].astype(np.int32)
    ids[1] -= 50
    program = opsplice.compile(jax.export.export(jax.jit(rows))(w, ids), ["opsplice_kernels:embedding"])
    check(program, "main", (w, ids), [w[ids], w[ids.T], w[ids[0]]])


def test_rows_of_onnx(given, tmp_path):
    onnx = pytest.importorskip("onnx", reason="ONNX is not installed (make frontends)")
    of, types = onnx.helper, onnx.TensorProto
    w, ids = given
    inputs = [
        of.make_tensor_value_info("w", types.FLOAT, ["v", 12]),
        of.make_tensor_value_info("ids", types.INT64, list(ids.shape)),
    ]
    result = of.make_tensor_value_info("y", types.FLOAT, [*ids.shape, 12])
    graph = of.make_graph([of.make_node("Gather", ["w", "ids"], ["y"])], "main", inputs, [result])
    path = tmp_path / "model.onnx"
    onnx.save(of.make_model(graph, opset_imports=[of.make_opsetid("", 17)], ir_version=9), path)
    program = opsplice.compile(path, ["opsplice_kernels:embedding"])
    assert [each.pattern for each in program.report.replacements] == ["embedding"]
    np.testing.assert_array_equal(np.asarray(program.run("main", w, ids - 50)), w[ids])
