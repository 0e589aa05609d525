"""What goes along with a computation that is cut out of a program."""

from __future__ import annotations

import numpy as np
import pytest
from iree.compiler import ir
from iree.compiler.api import Session

from opsplice.interpreter import evaluate
from opsplice.interpreter.elements import constant
from opsplice.matchers.find import engine
from opsplice.matchers.ir.op_names import ops_in
from opsplice.matchers.patterns.compiled import compile_patterns
from opsplice.matchers.terms.views import Views
from opsplice.measuring.cutting import work
from opsplice.measuring.cutting.cuts import CutError, Cuts, Piece, _weight
from opsplice.measuring.cutting.work import Work
from opsplice.spec_lang.loading.loader import load_text


def test_room_for_a_result_may_be_a_view() -> None:
    text = """func.func @main(%x: tensor<2x4x8xf32>, %w: tensor<2x8x3xf32>) -> tensor<2x4x3xf32> {
      %zero = arith.constant 0.0 : f32
      %room = tensor.empty() : tensor<8x3xf32>
      %view = tensor.expand_shape %room [[0, 1], [2]] output_shape [2, 4, 3] : tensor<8x3xf32> into tensor<2x4x3xf32>
      %fill = linalg.fill ins(%zero : f32) outs(%view : tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
      %r = linalg.batch_matmul ins(%x, %w : tensor<2x4x8xf32>, tensor<2x8x3xf32>)
        outs(%fill : tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
      return %r : tensor<2x4x3xf32>
    }"""
    context = Session().context
    module = ir.Module.parse(text, context)
    (product,) = ops_in(module.operation, "linalg.batch_matmul")
    cut, given = Cuts(context).add(product, Views())
    assert [str(value.type) for value in given] == ["tensor<2x4x8xf32>", "tensor<2x8x3xf32>"]
    assert cut.operations({}) == 2 * 2 * 4 * 8 * 3


def test_of_a_table_as_many_bytes_are_moved_as_there_are_results() -> None:
    text = """func.func @main(%w: tensor<1000x8xf32>, %ids: tensor<3xi64>) -> tensor<3x8xf32> {
      %room = tensor.empty() : tensor<3x8xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m)>, affine_map<(m, n) -> (m, n)>],
          iterator_types = ["parallel", "parallel"]} ins(%ids : tensor<3xi64>) outs(%room : tensor<3x8xf32>) {
      ^bb0(%id: i64, %out: f32):
        %row = arith.index_cast %id : i64 to index
        %column = linalg.index 1 : index
        %x = tensor.extract %w[%row, %column] : tensor<1000x8xf32>
        linalg.yield %x : f32
      } -> tensor<3x8xf32>
      return %r : tensor<3x8xf32>
    }"""
    context = Session().context
    module = ir.Module.parse(text, context)
    (read,) = ops_in(module.operation, "linalg.generic")
    cut, _ = Cuts(context).add(read, Views())
    assert cut.bytes_moved({}) == 2 * 3 * 8 * 4 + 3 * 8


def test_weights_are_moved_too_and_a_single_number_is_not() -> None:
    text = """func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {
      %w = arith.constant dense<[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]> : tensor<3x4xi8>
      %zeros = arith.constant dense<0> : tensor<4xi8>
      %r = linalg.generic {indexing_maps = [affine_map<(n, k) -> (n)>, affine_map<(n, k) -> (k, n)>,
          affine_map<(n, k) -> (n)>], iterator_types = ["parallel", "reduction"]}
          ins(%x, %w : tensor<4xi8>, tensor<3x4xi8>) outs(%zeros : tensor<4xi8>) {
      ^bb0(%a: i8, %b: i8, %sum: i8):
        %product = arith.muli %a, %b : i8
        %next = arith.addi %sum, %product : i8
        linalg.yield %next : i8
      } -> tensor<4xi8>
      return %r : tensor<4xi8>
    }"""
    module = ir.Module.parse(text, Session().context)
    assert Work.of(module.operation).held == 3 * 4


@pytest.mark.parametrize("element", ["f64", "f32", "f16", "bf16", "f8E4M3FN", "i64", "i8"])
def test_weights_of_every_type_of_whole_bytes_are_tried(element: str) -> None:
    with Session().context, ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            made = _weight(ir.Type.parse(f"tensor<20x50x{element}>"))
        numbers = constant(made.owner.attributes["value"], module.operation, {}).astype(np.float64)
    assert numbers.shape == (20, 50)
    assert 0.9 < np.std(numbers) < (20 if element[0] == "i" else 1.1)


def test_of_what_a_root_is_taken_all_numbers_are_positive() -> None:
    """Else half of the channels of a batch norm are NaN, which no kernel computes wrong, and some compute twice."""
    text = """func.func @main(%x: tensor<8xf32>, %variance: tensor<8xf32>) -> tensor<8xf32> {
      %eps = arith.constant 1.0e-5 : f32
      %room = tensor.empty() : tensor<8xf32>
      %scale = linalg.generic {
        indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]
      } ins(%variance : tensor<8xf32>) outs(%room : tensor<8xf32>) {
      ^bb0(%in: f32, %out: f32):
        %added = arith.addf %in, %eps : f32
        linalg.yield %added : f32
      } -> tensor<8xf32>
      %n = linalg.generic {
        indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
        iterator_types = ["parallel"]
      } ins(%x, %scale : tensor<8xf32>, tensor<8xf32>) outs(%room : tensor<8xf32>) {
      ^bb0(%in: f32, %by: f32, %out: f32):
        %root = math.rsqrt %by : f32
        %scaled = arith.mulf %in, %root : f32
        linalg.yield %scaled : f32
      } -> tensor<8xf32>
      return %n : tensor<8xf32>
    }"""
    with Session().context:
        module = ir.Module.parse(text)
        (function,) = module.body.operations
        assert work.Work.of(function.operation).positive == {1}
        assert [work.has_root(argument) for argument in function.arguments] == [False, True]
        lines = [f"%a{n + 1} = arith.addf %a{n}, %a{n} : f32" for n in range(2000)]
        doubled = "func.func @main(%a0: f32) { " + "\n".join(lines) + "\n return }"
        chain = ir.Module.parse(doubled)
        assert not work.has_root(chain.body.operations[0].arguments[0])
    with Session().context, ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            made = _weight(ir.Type.parse("tensor<1000xf32>"), is_positive=True)
        numbers = constant(made.owner.attributes["value"], module.operation, {}).astype(np.float64)
    assert numbers.min() >= 0.25
    assert 0.5 < np.std(numbers) < 0.7


def test_weights_of_parts_of_bytes_are_not_tried() -> None:
    with Session().context, ir.Location.unknown(), pytest.raises(CutError, match="weights of type tensor<4xi4>"):
        _weight(ir.Type.parse("tensor<4xi4>"))


@pytest.mark.parametrize(
    ("given", "room", "wanted"),
    [
        # The room of the result has a size that is a product of two of the input's.
        ("%a, %b, 4", "[[0, 1], [2]]", "tensor<?x?x4xf32>"),
        # The input has a product of two sizes; the first of them is 1 in the function.
        ("%ab, 4", "[[0], [1]]", "tensor<?x4xf32>"),
    ],
)
def test_sizes_are_computed_from_those_of_inputs(given: str, room: str, wanted: str) -> None:
    text = f"""func.func @main(%a: index, %b: index, %x: {wanted}) -> tensor<?x?x4xf32> {{
      %ab = arith.muli %a, %b : index
      %four = arith.constant 4 : index
      %tied = flow.tensor.tie_shape %x : {wanted}{{{given.rpartition(",")[0]}}}
      %rows = tensor.collapse_shape %tied {room} : {wanted} into tensor<?x4xf32>
      %room = tensor.empty(%ab) : tensor<?x4xf32>
      %n = linalg.generic {{
        indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]
      }} ins(%rows : tensor<?x4xf32>) outs(%room : tensor<?x4xf32>) {{
      ^bb0(%in: f32, %out: f32):
        %minus = arith.negf %in : f32
        linalg.yield %minus : f32
      }} -> tensor<?x4xf32>
      %sizes = tensor.from_elements %a, %b, %four : tensor<3xindex>
      %y = tensor.reshape %n(%sizes) : (tensor<?x4xf32>, tensor<3xindex>) -> tensor<?x?x4xf32>
      %r = math.exp %y : tensor<?x?x4xf32>
      return %r : tensor<?x?x4xf32>
    }}"""
    context = Session().context
    module = ir.Module.parse(text, context)
    names = ("tensor.collapse_shape", "linalg.generic", "tensor.reshape", "math.exp")
    ops = [op for name in names for op in ops_in(module.operation, name)]
    tied = ops[0].operands[0]
    piece = Piece((tied,), tuple(ops[-1].results), frozenset(ops), "")
    cuts = Cuts(context)
    cut, _ = cuts.add(piece, Views())
    sizes = dict.fromkeys(cut.symbols, 6)
    x = np.random.default_rng(0).normal(size=cut.inputs[0].shape(sizes))
    room_of = np.zeros(cut.results[0].shape(sizes))
    (result,) = evaluate(ir.Module.parse(cuts.text(), context), cut.function, [x, room_of], np.float64)
    np.testing.assert_array_equal(result, np.exp(-x).reshape(room_of.shape))


@pytest.mark.parametrize("batch", ["b x", "...b x"])
def test_open_sizes_of_one_dim_of_the_pattern_are_tried_as_one(batch: str) -> None:
    text = """func.func @main(%x: tensor<?x4x8xf32>, %w: tensor<?x8x3xf32>) -> tensor<?x4x3xf32> {
      %c0 = arith.constant 0 : index
      %zero = arith.constant 0.0 : f32
      %n = tensor.dim %x, %c0 : tensor<?x4x8xf32>
      %room = tensor.empty(%n) : tensor<?x4x3xf32>
      %fill = linalg.fill ins(%zero : f32) outs(%room : tensor<?x4x3xf32>) -> tensor<?x4x3xf32>
      %r = linalg.batch_matmul ins(%x, %w : tensor<?x4x8xf32>, tensor<?x8x3xf32>)
        outs(%fill : tensor<?x4x3xf32>) -> tensor<?x4x3xf32>
      return %r : tensor<?x4x3xf32>
    }"""
    label = batch.removesuffix(" x")
    spec = load_text(
        f"pattern p(x: tensor<{batch} m x k x f32>, w: tensor<{batch} k x n x f32>) {{ "
        f"contract[{label} m k, {label} k n -> {label} m n](x, w) }}"
    )
    context = Session().context
    module = ir.Module.parse(text, context)
    (match,) = engine.find(module, compile_patterns(spec)).matches
    cut, _ = Cuts(context).add(match, Views())
    assert [part.shape(dict.fromkeys(cut.symbols, 5))[0] for part in cut.inputs] == [5, 5]
    assert len(cut.symbols) == 1


def test_operations_are_counted_of_open_sizes_too_and_seen_through_quantising() -> None:
    text = """func.func @main(%x: tensor<?x4xi8>, %w: tensor<4x6xf32>) -> tensor<?x6xf32> {
      %c0 = arith.constant 0 : index
      %zero = arith.constant 0.0 : f32
      %scale = arith.constant 0.5 : f32
      %n = tensor.dim %x, %c0 : tensor<?x4xi8>
      %room = tensor.empty(%n) : tensor<?x4xf32>
      %y = iree_linalg_ext.dequantize_affine <indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>,
          affine_map<(i, j) -> (i, j)>], quant_min = -128, quant_max = 127>
        ins(%x, %scale : tensor<?x4xi8>, f32) outs(%room : tensor<?x4xf32>) -> tensor<?x4xf32>
      %empty = tensor.empty(%n) : tensor<?x6xf32>
      %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x6xf32>) -> tensor<?x6xf32>
      %r = linalg.matmul ins(%y, %w : tensor<?x4xf32>, tensor<4x6xf32>) outs(%fill : tensor<?x6xf32>) -> tensor<?x6xf32>
      return %r : tensor<?x6xf32>
    }"""
    context = Session().context
    module = ir.Module.parse(text, context)
    (product,) = ops_in(module.operation, "linalg.matmul")
    cut, _ = Cuts(context).add(product, Views())
    (symbol,) = cut.symbols
    assert cut.operations({symbol: 10}) == 10 * 4 * 6 * 2
    assert cut.longest_sum == 4
    assert cut.bytes_moved({symbol: 10}) == 4 * (10 * 4 + 4 * 6 + 10 * 6)


@pytest.mark.parametrize("height", [5, None])
def test_zeros_between_the_elements_of_a_transposed_convolution_are_no_operations(height: int | None) -> None:
    text = f"""
    func.func @f(%x: tensor<1x2x{height or "?"}x7xf32>, %w: tensor<3x2x4x4xf32>, %e: tensor<1x2x?x18xf32>,
                 %h: index, %out: tensor<1x3x?x15xf32>) -> tensor<1x3x?x15xf32> {{
      %s = tensor.insert_slice %x into %e[0, 0, 2, 2] [1, 2, {height or "%h"}, 7] [1, 1, 2, 2]
          : tensor<1x2x{height or "?"}x7xf32> into tensor<1x2x?x18xf32>
      %r = linalg.conv_2d_nchw_fchw ins(%s, %w : tensor<1x2x?x18xf32>, tensor<3x2x4x4xf32>)
          outs(%out : tensor<1x3x?x15xf32>) -> tensor<1x3x?x15xf32>
      return %r : tensor<1x3x?x15xf32>
    }}"""
    module = ir.Module.parse(text, Session().context)
    (op,) = ops_in(module.operation, "linalg.conv_2d_nchw_fchw")
    assert work.operations(op, open_size=12) == 2 * 3 * 12 * 15 * 2 * 4 * 4 // 4


def test_operations_of_attention_are_those_of_its_products() -> None:
    text = """
    func.func @f(%q: tensor<2x8x4xf32>, %k: tensor<2x16x4xf32>, %v: tensor<2x16x3xf32>, %s: f32) -> tensor<2x8x3xf32> {
      %e = tensor.empty() : tensor<2x8x3xf32>
      %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(b, m, e, d, n) -> (b, m, d)>,
          affine_map<(b, m, e, d, n) -> (b, n, d)>, affine_map<(b, m, e, d, n) -> (b, n, e)>,
          affine_map<(b, m, e, d, n) -> ()>, affine_map<(b, m, e, d, n) -> (b, m, e)>]>
        ins(%q, %k, %v, %s : tensor<2x8x4xf32>, tensor<2x16x4xf32>, tensor<2x16x3xf32>, f32)
        outs(%e : tensor<2x8x3xf32>) {
      ^bb0(%x: f32):
        iree_linalg_ext.yield %x : f32
      } -> tensor<2x8x3xf32>
      return %r : tensor<2x8x3xf32>
    }"""
    module = ir.Module.parse(text, Session().context)
    (op,) = ops_in(module.operation, "iree_linalg_ext.attention")
    assert work.operations(op) == 2 * 8 * 16 * (2 * 4 + 4 + 2 * 3)
