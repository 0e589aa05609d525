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
    modes = ((0, 0), (1, 0), (0, 1))
    for (v, n, m), (from_end, zeros), index in itertools.product(sizes, modes, (np.int32, np.int64)):
        w = guarded(random.integers(0, 60000, (v, n)).astype(TYPES[element]))
        ids = guarded(random.integers(-2 * v, 2 * v, m).astype(index))
        out = guarded(np.zeros((m, n), TYPES[element]))
        for part in range(-(-m // 16)):
            name = f"opsplice_embedding_{element}_i{8 * index().itemsize}"
            kernel("embedding/embedding.c", name)(w, ids, from_end, zeros, out, v, n, m, part)
        wanted = np.where((ids < 0) & bool(from_end), ids + v, ids)
        shown = w[np.clip(wanted, 0, v - 1)]
        np.testing.assert_array_equal(out, np.where(((ids < 0) | (ids >= v))[:, None], 0, shown) if zeros else shown)


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


def test_numbers_that_are_part_of_a_product_of_open_sizes(tmp_path):
    """As places of tokens are, which a mask tells. The kernel takes them as one row."""
    onnx = pytest.importorskip("onnx", reason="ONNX is not installed (make frontends)")
    of, types = onnx.helper, onnx.TensorProto
    table = np.random.default_rng(3).standard_normal((30, 8)).astype(np.float32)
    constants = {"table": table, "one": np.array([1]), "most": np.array([99])}
    nodes = [
        of.make_node("Mul", ["x", "y"], ["product"]),
        of.make_node("Shape", ["past"], ["start"]),
        of.make_node("Slice", ["product", "start", "most", "one", "one"], ["part"]),
        of.make_node("Gather", ["table", "part"], ["rows"]),
    ]
    sizes = {"x": ["b", "n"], "y": ["b", "n"], "past": ["p"]}
    inputs = [of.make_tensor_value_info(name, types.INT64, each) for name, each in sizes.items()]
    outputs = [of.make_tensor_value_info("rows", types.FLOAT, ["b", "m", 8])]
    weights = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = of.make_graph(nodes, "g", inputs, outputs, weights)
    onnx.save(of.make_model(graph, opset_imports=[of.make_opsetid("", 17)], ir_version=9), tmp_path / "model.onnx")
    program = opsplice.compile(tmp_path / "model.onnx", specs=["opsplice_kernels:embedding"])
    assert len(program.report.replacements) == 1
    x, y = np.arange(12).reshape(2, 6) - 6, np.array([[1, 2, 3, 4, 5, 0]] * 2)
    for start in (0, 1, 5):
        found = program.run("main", x, y, np.zeros(start, np.int64))
        np.testing.assert_array_equal(found, table[(x * y)[:, start:]])


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


ONE_HOT = """
func.func @{name}(%w: tensor<50x12xf32>, %ids: tensor<3x7xi32>) -> tensor<3x7x12xf32> {{
  %empty = tensor.empty() : tensor<3x7x50xf32>
  %hot = linalg.generic {{indexing_maps = [affine_map<(a, b, v) -> (a, b)>, affine_map<(a, b, v) -> (a, b, v)>],
      iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%ids : tensor<3x7xi32>) outs(%empty : tensor<3x7x50xf32>) {{
    ^bb0(%id: i32, %out: f32):
      %at = linalg.index {axis} : index
      {counted}
      %same = arith.cmpi {predicate}, %id, %row : i32
      %number = arith.{cast} %same : i1 to f32
      linalg.yield %number : f32
  }} -> tensor<3x7x50xf32>
  %zero = arith.constant {start} : f32
  %none = tensor.empty() : tensor<3x7x12xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%none : tensor<3x7x12xf32>) -> tensor<3x7x12xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(a, b, n, v) -> (a, b, v)>, affine_map<(a, b, n, v) -> (v, n)>,
      affine_map<(a, b, n, v) -> (a, b, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}}
      ins(%hot, %w : tensor<3x7x50xf32>, tensor<50x12xf32>) outs(%zeros : tensor<3x7x12xf32>) {{
    ^bb0(%x: f32, %y: f32, %sum: f32):
      %xy = arith.mulf %x, %y : f32
      %more = {combined} : f32
      linalg.yield %more : f32
  }} -> tensor<3x7x12xf32>
  return %r : tensor<3x7x12xf32>
}}
"""
ROWS = {
    "axis": 2, "counted": "%row = arith.index_cast %at : index to i32", "predicate": "eq", "cast": "uitofp",
    "start": "0.0", "combined": "arith.addf %sum, %xy",
}  # fmt: skip
FROM_ONE = """%number_of = arith.index_cast %at : index to i32
      %one = arith.constant 1 : i32
      %row = arith.addi %number_of, %one : i32"""
# The first is one, and the others are like it but for one part.
PRODUCTS = {
    "rows": ROWS,
    "from_one": ROWS | {"counted": FROM_ONE},
    "by_column": ROWS | {"axis": 1},
    "all_below": ROWS | {"predicate": "slt"},
    "others": ROWS | {"predicate": "ne"},
    "minus_one": ROWS | {"cast": "sitofp"},
    "from_half": ROWS | {"start": "0.5"},
    "largest": ROWS | {"combined": "arith.maximumf %sum, %xy"},
}


def test_products_with_one_hot_rows_are_rows(given):
    """With zeros for numbers outside of the table; and what only looks like that is left alone."""
    table, _ = given
    text = "".join(ONE_HOT.format(name=name, **form) for name, form in PRODUCTS.items())
    program = opsplice.compile(text, specs=["opsplice_kernels:embedding"])
    found = {each.function.lstrip("@"): each.dims["zeros"] for each in program.report.replacements}
    assert found == {"rows": 1}, program.report
    ids = np.random.default_rng(3).integers(-60, 110, (3, 7)).astype(np.int32)
    ids[0, :2] = 0, 49
    wanted = np.where(((ids >= 0) & (ids < 50))[..., None], table[np.clip(ids, 0, 49)], 0)
    np.testing.assert_array_equal(np.asarray(program.run("rows", table, ids)), wanted)


def test_products_with_one_hot_rows_of_jax(given):
    jax = pytest.importorskip("jax", reason="JAX is not installed (make frontends)")
    w, ids = given[0], given[1].astype(np.int32)
    ids[0, :3] = -1, 50, 49

    def rows(w, ids):
        one_hot, halves = jax.nn.one_hot(ids, 50), jax.nn.one_hot(ids, 50, dtype=jax.numpy.float16)
        return (
            one_hot @ w,
            jax.numpy.einsum("bsv,vn->bsn", jax.nn.one_hot(ids.T, 50), w),
            halves @ w.astype(halves.dtype),
            (ids[..., None] == jax.numpy.arange(50)).astype(w.dtype) @ w,
        )

    program = opsplice.compile(jax.export.export(jax.jit(rows))(w, ids), ["opsplice_kernels:embedding"])
    wanted = np.where(((ids >= 0) & (ids < 50))[..., None], w[np.clip(ids, 0, 49)], 0)
    found = [np.asarray(each) for each in program.run("main", w, ids)]
    np.testing.assert_array_equal(found[0], wanted)
    np.testing.assert_array_equal(found[1], wanted.swapaxes(0, 1))
    np.testing.assert_array_equal(found[2], wanted.astype(np.float16))
    np.testing.assert_array_equal(found[3], wanted)
    assert [each.dims["zeros"] for each in program.report.replacements] == [1, 1, 1, 1], program.report
