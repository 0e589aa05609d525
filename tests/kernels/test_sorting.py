"""Sorts and the first elements of rows against numpy's stable sorts."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice
from benchmarks.calling import CPU

SIZES = ((1, 1), (7, 1), (7, 7), (40, 5), (64, 64), (100, 17), (191, 190))


def rows(n: int, seed: int = 0) -> np.ndarray:
    """With many equal elements, zeros of both signs, infinities and NaN."""
    x = np.round(np.random.default_rng(seed).standard_normal((3, n)) * 4).astype(np.float32)
    x[1] *= -1.0
    if n > 20:
        x[2, [2, 5, 9, 11]] = np.inf, -np.inf, np.nan, np.inf
    return x


def order(x: np.ndarray, is_smallest: bool) -> np.ndarray:
    """Indices of a stable sort in which NaN is the largest."""
    is_nan = np.isnan(x)
    known = np.where(is_nan, 0, x)
    return np.lexsort((known, is_nan) if is_smallest else (-known, ~is_nan), axis=1)


@pytest.mark.parametrize("is_smallest", [0, 1])
@pytest.mark.parametrize(("n", "k"), SIZES)
def test_first_in_order(kernel, guarded, n, k, is_smallest):
    x = guarded(rows(n))
    values, at = guarded(np.zeros((3, k), np.float32)), guarded(np.zeros((3, k), np.int64))
    alone, places = guarded(np.zeros((3, k), np.float32)), guarded(np.zeros((3, k), np.int64))
    for row in range(3):
        kernel("sorting/sorting.c", "opsplice_first")(x, is_smallest, values, at, 3, n, k, row)
        kernel("sorting/sorting.c", "opsplice_first_values")(x, is_smallest, alone, 3, n, k, row)
        kernel("sorting/sorting.c", "opsplice_first_places")(x, is_smallest, places, 3, n, k, row)
    wanted = order(x, bool(is_smallest))[:, :k]
    np.testing.assert_array_equal(at, wanted)
    np.testing.assert_array_equal(places, wanted)
    sorted_values = np.take_along_axis(x, wanted, 1)
    np.testing.assert_array_equal(values.view(np.uint32), sorted_values.view(np.uint32))
    np.testing.assert_array_equal(alone, sorted_values)


@pytest.mark.parametrize(("n", "k"), SIZES)
def test_top(kernel, guarded, n, k):
    x = rows(n, 1)
    x[1, ::3] *= -1
    if n > 20:
        x[0, [1, 8]] = -np.nan, np.nan
    x = guarded(x)
    values, at = guarded(np.zeros((3, k), np.float32)), guarded(np.zeros((3, k), np.int32))
    for row in range(3):
        kernel("sorting/sorting.c", "opsplice_top")(x, values, at, 3, n, k, row)
    bits = x.view(np.int32).astype(np.int64)
    ordered = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    wanted = np.argsort(-ordered, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(at, wanted)
    np.testing.assert_array_equal(values.view(np.uint32), np.take_along_axis(x, wanted, 1).view(np.uint32))


TOP = """
func.func @main(%x: tensor<5x300xf32>) -> (tensor<5x8xf32>, tensor<5x8xi32>) {
  %low = arith.constant dense<0xFF800000> : tensor<5x8xf32>
  %none = arith.constant dense<2147483647> : tensor<5x8xi32>
  %r:2 = iree_linalg_ext.topk dimension(1) ins(%x : tensor<5x300xf32>)
      outs(%low, %none : tensor<5x8xf32>, tensor<5x8xi32>) {
  ^bb0(%new: f32, %kept: f32):
    %0 = arith.cmpf ogt, %new, %kept : f32
    iree_linalg_ext.yield %0 : i1
  } -> tensor<5x8xf32>, tensor<5x8xi32>
  return %r#0, %r#1 : tensor<5x8xf32>, tensor<5x8xi32>
}
func.func @sorted(%x: tensor<5x300xf32>) -> tensor<5x300xf32> {
  %r = iree_linalg_ext.sort dimension(1) outs(%x : tensor<5x300xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.cmpf ole, %a, %b : f32
    iree_linalg_ext.yield %0 : i1
  } -> tensor<5x300xf32>
  return %r : tensor<5x300xf32>
}
"""


def test_places_alone(tmp_path):
    onnx = pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
    from benchmarks.programs.onnx_models import Graph

    graph = Graph()
    operands = [graph.input(3, 500), graph.constant(np.array([7]))]
    graph.nodes.append(onnx.helper.make_node("TopK", operands, ["values", "places"], largest=0))
    model = graph.model(graph.op("Cast", "places", to=onnx.TensorProto.FLOAT))
    (tmp_path / "model.onnx").write_bytes(model.proto.SerializeToString())
    program = opsplice.compile(tmp_path / "model.onnx", ["opsplice_kernels:sorting"], flags=[CPU])
    assert [each.kernel for each in program.report.replacements if not each.lost] == ["first_places"]
    (x,) = model.inputs.values()
    np.testing.assert_array_equal(program.run("main", x), np.argsort(x, 1, kind="stable")[:, :7])


def test_the_largest_of_a_vector_of_open_size(tmp_path):
    """As detectors choose boxes: as many as there are, or fewer."""
    onnx = pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
    kinds = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    nodes = [onnx.helper.make_node("TopK", ["x", "k"], ["values", "places"])]
    given = [onnx.helper.make_tensor_value_info(*each) for each in (("x", kinds[0], ["n"]), ("k", kinds[1], [1]))]
    made = [onnx.helper.make_tensor_value_info(*each, ["m"]) for each in zip(("values", "places"), kinds, strict=True)]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "boxes", given, made), ir_version=9)
    onnx.save(model, tmp_path / "model.onnx")
    program = opsplice.compile(tmp_path / "model.onnx", ["opsplice_kernels"], [CPU])
    assert [each.kernel for each in program.report.replacements if not each.lost] == ["first_in_order"]
    for n, k in ((300, 7), (5, 5), (1, 1)):
        x = np.random.default_rng(n).permutation(n).astype(np.float32)
        values, places = program.run("main", x, np.array([k]))
        np.testing.assert_array_equal(places, np.argsort(-x)[:k])
        np.testing.assert_array_equal(values, x[places])


def test_top_k_of_jax_and_sorted_values():
    x = np.full((5, 300), -np.inf, np.float32)
    x[:4] = np.round(np.random.default_rng(0).standard_normal((4, 300)) * 9)
    x[4, 7], x[3, 5] = 1, np.nan
    plain, spliced = (opsplice.compile(TOP, specs, flags=[CPU]) for specs in ([], ["opsplice_kernels:sorting"]))
    assert [each.pattern for each in spliced.report.replacements] == ["top_k", "first_value"]
    np.testing.assert_array_equal(spliced.run("sorted", x[:3][[0, 1, 2, 0, 1]]), np.sort(x[:3][[0, 1, 2, 0, 1]]))
    for ours, theirs in zip(spliced.run("main", x), plain.run("main", x), strict=True):
        np.testing.assert_array_equal(ours, theirs)


# Of rows whose number is open, the first `size` of them.
OPEN = """
func.func @main(%x: tensor<?x40xf32>, %few: tensor<i32>) -> (tensor<?x3xf32>, tensor<?x3xi64>) {
  %c0 = arith.constant 0 : index
  %m = tensor.dim %x, %c0 : tensor<?x40xf32>
  %number = tensor.extract %few[] : tensor<i32>
  %less = arith.index_cast %number : i32 to index
  %0 = tensor.empty(%m) : tensor<?x40xi64>
  %1 = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
      outs(%0 : tensor<?x40xi64>) {
  ^bb0(%out: i64):
    %column = linalg.index 1 : index
    %here = arith.index_cast %column : index to i64
    linalg.yield %here : i64
  } -> tensor<?x40xi64>
  %2:2 = iree_linalg_ext.sort dimension(1) outs(%x, %1 : tensor<?x40xf32>, tensor<?x40xi64>) {
  ^bb0(%a: f32, %b: f32, %i: i64, %j: i64):
    %3 = arith.cmpf oge, %a, %b : f32
    iree_linalg_ext.yield %3 : i1
  } -> tensor<?x40xf32>, tensor<?x40xi64>
  %4 = tensor.extract_slice %2#0[0, 0] [SIZE, 3] [1, 1] : tensor<?x40xf32> to tensor<?x3xf32>
  %5 = tensor.extract_slice %2#1[0, 0] [SIZE, 3] [1, 1] : tensor<?x40xi64> to tensor<?x3xi64>
  return %4, %5 : tensor<?x3xf32>, tensor<?x3xi64>
}
"""


@pytest.mark.parametrize(("size", "pattern"), [("%m", "largest"), ("%less", "descending")])
def test_open_rows(size, pattern):
    """All rows of a sort of open size, and those that are left where a slice takes fewer of them."""
    program = opsplice.compile(OPEN.replace("SIZE", size), ["opsplice_kernels:sorting"], flags=[CPU])
    assert [each.pattern for each in program.report.replacements if each.outcome == "replaced"] == [pattern]
    x = rows(40)
    values, at = program.run("main", x, np.array(2, np.int32))
    wanted = order(x, False)[:, :3]
    rows_left = 3 if size == "%m" else 2
    np.testing.assert_array_equal(at, wanted[:rows_left])
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, 1)[:rows_left])


def test_gates_of_jax():
    """In a portable artifact of StableHLO, and with all rules of the library, one of which applies to it as it is."""
    jax = pytest.importorskip("jax", reason="JAX is not installed (make frontends)")

    def gates(x):
        chances, experts = jax.lax.top_k(jax.nn.softmax(x, -1), 2)
        each = jax.nn.one_hot(experts, x.shape[-1]) * (chances / chances.sum(-1, keepdims=True))[..., None]
        return each.sum(-2)

    x = np.random.default_rng(0).standard_normal((2, 24, 16), np.float32)
    program = opsplice.compile(jax.export.export(jax.jit(gates))(x), ["opsplice_kernels"], flags=[CPU])
    used = [each.kernel for each in program.report.replacements if each.outcome == "replaced"]
    assert used == ["softmax_rows", "top"]
    chances = np.exp(x.astype(float))
    chances[chances < np.sort(chances)[..., -2:-1]] = 0
    np.testing.assert_allclose(program.run("main", x), chances / chances.sum(-1, keepdims=True), rtol=1e-5)
