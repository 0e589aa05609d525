"""Broadcasts of StableHLO to dims of one are reshapes; others stay."""

from __future__ import annotations

import numpy as np
import pytest
from iree.compiler import ir

import opsplice
from opsplice.frontends import stablehlo
from opsplice.matchers.ir.op_names import ops_in
from opsplice.pipeline.compiler import Compilation


@pytest.mark.parametrize(
    ("given", "dims", "wanted", "is_reshape"),
    [
        ("4x6x7", "1, 2, 3", "1x4x6x7", True),
        ("1x4x6", "0, 1, 2", "1x4x6x1", True),
        ("4x6", "0, 2", "4x1x6", True),
        ("4x6", "0, 2", "4x3x6", False),
        ("4x1", "0, 1", "4x6", False),
        ("4x6", "1, 0", "6x4", False),
        ("1x1", "1, 0", "1x1", False),
    ],
)
def test_what_repeats_nothing_and_keeps_the_order_is_a_reshape(given, dims, wanted, is_reshape):
    text = f"""func.func @f(%x: tensor<{given}xf32>) -> tensor<{wanted}xf32> {{
      %r = stablehlo.broadcast_in_dim %x, dims = [{dims}] : (tensor<{given}xf32>) -> tensor<{wanted}xf32>
      return %r : tensor<{wanted}xf32> }}"""
    with Compilation() as compilation, compilation.context:
        module = ir.Module.parse(text)
        stablehlo.mend(module)
        assert module.operation.verify()
        assert len(list(ops_in(module.operation, "stablehlo.reshape"))) == is_reshape
        assert len(list(ops_in(module.operation, "stablehlo.broadcast_in_dim"))) == (not is_reshape)


def test_scalars_are_broadcast():
    text = """func.func @f(%x: tensor<f32>) -> tensor<1xf32> {
      %r = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<1xf32>
      return %r : tensor<1xf32> }"""
    with Compilation() as compilation, compilation.context:
        module = ir.Module.parse(text)
        stablehlo.mend(module)
        assert len(list(ops_in(module.operation, "stablehlo.broadcast_in_dim"))) == 1


def test_complex_sizes_and_quotients_have_no_squares():
    text = """
    func.func @main(%x: tensor<2x?xcomplex<f32>>, %y: tensor<2x?xcomplex<f32>>)
        -> (tensor<2x?xf32>, tensor<2x?xcomplex<f32>>) {
      %a = stablehlo.abs %x : (tensor<2x?xcomplex<f32>>) -> tensor<2x?xf32>
      %q = stablehlo.divide %y, %x : tensor<2x?xcomplex<f32>>
      return %a, %q : tensor<2x?xf32>, tensor<2x?xcomplex<f32>>
    }"""
    x = np.array([[3e20 + 4e20j, 1e-25, 1j], [3e-25 - 4e-25j, -1e20j, 2 - 3j]], np.complex64)
    y = np.full_like(x, 1 + 2j)
    size, quotient = opsplice.compile(text).run("main", x, y)
    exact = x.astype(np.complex128)
    np.testing.assert_allclose(size, np.abs(exact), 1e-6)
    np.testing.assert_allclose(quotient, y / exact, 1e-6)


@pytest.mark.parametrize("combined", ["add", "multiply", "maximum"])
def test_padded_windows_begin_once(combined):
    """As XLA has it, which leaves out what lies outside."""
    text = f"""
    func.func @main(%x: tensor<3xf32>, %start: tensor<f32>) -> tensor<4xf32> {{
      %r = "stablehlo.reduce_window"(%x, %start) ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.{combined} %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }}) {{window_dimensions = array<i64: 2>, window_strides = array<i64: 1>,
           padding = dense<[[1, 1]]> : tensor<1x2xi64>}} : (tensor<3xf32>, tensor<f32>) -> tensor<4xf32>
      return %r : tensor<4xf32>
    }}"""
    wanted = {"add": [6, 8, 10, 8], "multiply": [5, 10, 30, 15], "maximum": [5, 5, 5, 5]}[combined]
    found = opsplice.compile(text).run("main", np.array([1, 2, 3], np.float32), np.float32(5))
    np.testing.assert_array_equal(found, wanted)


def test_two_functions_convert_the_same_reshape():
    """IREE joins both conversions too late, and crashed."""
    text = """
    func.func @main(%x: tensor<2x3xf16>) -> (tensor<f32>, tensor<6xf32>) {
      %y = stablehlo.reshape %x : (tensor<2x3xf16>) -> tensor<6xf16>
      %sum = call @sum(%y) : (tensor<6xf16>) -> tensor<f32>
      %twice = call @twice(%y) : (tensor<6xf16>) -> tensor<6xf32>
      return %sum, %twice : tensor<f32>, tensor<6xf32>
    }
    func.func private @sum(%y: tensor<6xf16>) -> tensor<f32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %wide = stablehlo.convert %y : (tensor<6xf16>) -> tensor<6xf32>
      %sum = stablehlo.reduce(%wide init: %zero) applies stablehlo.add across dimensions = [0]
          : (tensor<6xf32>, tensor<f32>) -> tensor<f32>
      return %sum : tensor<f32>
    }
    func.func private @twice(%y: tensor<6xf16>) -> tensor<6xf32> {
      %wide = stablehlo.convert %y : (tensor<6xf16>) -> tensor<6xf32>
      %twice = stablehlo.add %wide, %wide : tensor<6xf32>
      return %twice : tensor<6xf32>
    }"""
    x = np.arange(6, dtype=np.float16).reshape(2, 3)
    total, twice = opsplice.compile(text, isolate=True).run("main", x)
    assert total == 15
    np.testing.assert_array_equal(twice, 2 * x.ravel())


def test_calls_of_what_is_only_declared_stay():
    """An array is read behind calls, and a function without a body has none to look into."""
    text = """
    func.func private @elsewhere(tensor<12xf32>) -> tensor<12xf32>
    func.func private @here(%x: tensor<12xf32>) -> tensor<12xf32> {
      %y = func.call @elsewhere(%x) : (tensor<12xf32>) -> tensor<12xf32>
      return %y : tensor<12xf32>
    }
    func.func @f(%x: tensor<3x4xf32>) -> (tensor<12xf32>, tensor<12xf32>) {
      %r = stablehlo.reshape %x : (tensor<3x4xf32>) -> tensor<12xf32>
      %y = func.call @here(%r) : (tensor<12xf32>) -> tensor<12xf32>
      %z = stablehlo.add %r, %r : tensor<12xf32>
      return %y, %z : tensor<12xf32>, tensor<12xf32>
    }"""
    with Compilation() as compilation:
        module = ir.Module.parse(text, compilation.context)
        stablehlo.mend(module)
        callees = [str(op.attributes["callee"]) for op in ops_in(module.operation, "func.call")]
        assert "@elsewhere" in callees
        assert "@here" not in callees


def test_truths_that_products_convert_are_ones():
    """IREE took them for -1 in the sums of rows, and compiled no product of a vector with a matrix."""
    text = """
    func.func @main(%x: tensor<2x3xi32>, %y: tensor<2x3xf32>, %z: tensor<3xi1>, %w: tensor<3x2xi32>)
        -> (tensor<2xf32>, tensor<2xi32>) {
      %one = stablehlo.constant dense<1> : tensor<2x3xi32>
      %is_one = stablehlo.compare EQ, %x, %one : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi1>
      %ones = stablehlo.convert %is_one : (tensor<2x3xi1>) -> tensor<2x3xf32>
      %rows = stablehlo.dot_general %ones, %y, batching_dims = [0] x [0], contracting_dims = [1] x [1]
          : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2xf32>
      %numbers = stablehlo.convert %z : (tensor<3xi1>) -> tensor<3xi32>
      %sums = stablehlo.dot %numbers, %w : (tensor<3xi32>, tensor<3x2xi32>) -> tensor<2xi32>
      return %rows, %sums : tensor<2xf32>, tensor<2xi32>
    }"""
    x, y = np.array([[1, 0, 1], [0, 2, 1]], np.int32), np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    w = np.array([[1, 2], [3, 4], [5, 6]], np.int32)
    rows, sums = opsplice.compile(text).run("main", x, y, np.array([True, False, True]), w)
    np.testing.assert_array_equal(rows, [4, 6])
    np.testing.assert_array_equal(sums, [6, 8])
