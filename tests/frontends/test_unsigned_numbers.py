"""StableHLO's ops on integers without a sign, which IREE does not compile, or takes for integers with one."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice

PROGRAMS = """
func.func @moved_{w}(%x: tensor<2x5xui{w}>, %n: tensor<i32>) -> (tensor<2x5xui{w}>, tensor<2x5xui{w}>) {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r = stablehlo.reverse %x, dims = [1] : tensor<2x5xui{w}>
  %is_none = stablehlo.compare EQ, %n, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %one_of = "stablehlo.if"(%is_none) ({{
    stablehlo.return %x : tensor<2x5xui{w}>
  }}, {{
    %more = stablehlo.divide %r, %x : tensor<2x5xui{w}>
    stablehlo.return %more : tensor<2x5xui{w}>
  }}) : (tensor<i1>) -> tensor<2x5xui{w}>
  %s:2 = stablehlo.while(%i = %n, %y = %r) : tensor<i32>, tensor<2x5xui{w}>
  cond {{
    %go = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }} do {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.subtract %i, %one : tensor<i32>
    %z = stablehlo.maximum %x, %y : tensor<2x5xui{w}>
    stablehlo.return %j, %z : tensor<i32>, tensor<2x5xui{w}>
  }}
  return %one_of, %s#1 : tensor<2x5xui{w}>, tensor<2x5xui{w}>
}}
func.func @largest_so_far_{w}(%x: tensor<2x5xui{w}>) -> tensor<2x5xui{w}> {{
  %low = stablehlo.constant dense<0> : tensor<ui{w}>
  %r = "stablehlo.reduce_window"(%x, %low) ({{
  ^bb0(%a: tensor<ui{w}>, %b: tensor<ui{w}>):
    %c = stablehlo.maximum %a, %b : tensor<ui{w}>
    stablehlo.return %c : tensor<ui{w}>
  }}) {{padding = dense<[[0, 0], [4, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 5>}}
      : (tensor<2x5xui{w}>, tensor<ui{w}>) -> tensor<2x5xui{w}>
  return %r : tensor<2x5xui{w}>
}}
"""
TOP = """
func.func @top_{w}(%x: tensor<2x5xui{w}>) -> (tensor<2x4xui{w}>, tensor<2x4xi32>) {{
  %v, %i = chlo.top_k(%x, k = 4) : tensor<2x5xui{w}> -> (tensor<2x4xui{w}>, tensor<2x4xi32>)
  return %v, %i : tensor<2x4xui{w}>, tensor<2x4xi32>
}}
"""
PRODUCTS = """
func.func @dots(%x: tensor<3x8xui8>, %y: tensor<8x4xui8>, %w: tensor<8x4xf32>, %wide: tensor<8x4xi32>)
    -> (tensor<3x4xui32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xi32>, tensor<3x4xui8>) {
  %direct = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
      : (tensor<3x8xui8>, tensor<8x4xui8>) -> tensor<3x4xui32>
  %floats = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
      : (tensor<3x8xui8>, tensor<8x4xui8>) -> tensor<3x4xf32>
  %f = stablehlo.convert %x : (tensor<3x8xui8>) -> tensor<3x8xf32>
  %scaled = stablehlo.dot_general %f, %w, contracting_dims = [1] x [0]
      : (tensor<3x8xf32>, tensor<8x4xf32>) -> tensor<3x4xf32>
  %i = stablehlo.convert %x : (tensor<3x8xui8>) -> tensor<3x8xi32>
  %integers = stablehlo.dot_general %i, %wide, contracting_dims = [1] x [0]
      : (tensor<3x8xi32>, tensor<8x4xi32>) -> tensor<3x4xi32>
  %same = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
      : (tensor<3x8xui8>, tensor<8x4xui8>) -> tensor<3x4xui8>
  return %direct, %floats, %scaled, %integers, %same
      : tensor<3x4xui32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xi32>, tensor<3x4xui8>
}
func.func @windows(%x: tensor<1x6x3xui8>, %k: tensor<2x3x4xui8>) -> tensor<1x5x4xui32> {
  %r = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<1x6x3xui8>, tensor<2x3x4xui8>) -> tensor<1x5x4xui32>
  return %r : tensor<1x5x4xui32>
}
"""
WIDTHS = (8, 16, 32, 64)


@pytest.fixture(scope="module")
def programs():
    return [opsplice.compile("".join(text.format(w=w) for w in WIDTHS)) for text in (PROGRAMS, TOP)]


def numbers(width: int) -> np.ndarray:
    most = 2**width - 1
    return np.array([[3, most, 1, most // 2 + 1, 7], [most, 1, most // 2, 1, most]], f"u{width // 8}")


@pytest.mark.parametrize("width", WIDTHS)
def test_moves_branches_and_loops(programs, width):
    x = numbers(width)
    for n, one_of, largest in ((0, x, x[:, ::-1]), (1, x[:, ::-1] // x, np.maximum(x, x[:, ::-1]))):
        chosen, looped = programs[0].run(f"moved_{width}", x, np.array(n, np.int32))
        np.testing.assert_array_equal(chosen.view(x.dtype), one_of)
        np.testing.assert_array_equal(looped.view(x.dtype), largest)


@pytest.mark.parametrize("width", WIDTHS)
def test_windows(programs, width):
    x = numbers(width)
    largest = programs[0].run(f"largest_so_far_{width}", x)
    np.testing.assert_array_equal(largest.view(x.dtype), np.maximum.accumulate(x, 1))


@pytest.mark.parametrize("width", WIDTHS)
def test_the_largest_are_those_without_a_sign(programs, width):
    x = numbers(width)
    values, places = programs[1].run(f"top_{width}", x)
    wanted = np.array([[1, 3, 4, 0], [0, 4, 2, 1]])
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(values.view(x.dtype), np.take_along_axis(x, wanted, 1))


def test_products_take_numbers_without_a_sign():
    """IREE extended them with a sign, also where a conversion to wider numbers stood before the product."""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 256, shape).astype(np.uint8) for shape in ((3, 8), (8, 4)))
    w, wide = rng.normal(size=(8, 4)).astype(np.float32), rng.integers(-1000, 1000, (8, 4)).astype(np.int32)
    program = opsplice.compile(PRODUCTS)
    direct, floats, scaled, integers, same = program.run("dots", x, y, w, wide)
    whole = x.astype(np.int64) @ y.astype(np.int64)
    np.testing.assert_array_equal(direct.view(np.uint32), whole)
    np.testing.assert_array_equal(floats, whole)
    np.testing.assert_allclose(scaled, x.astype(np.float64) @ w, rtol=1e-5)
    np.testing.assert_array_equal(integers, x.astype(np.int64) @ wide)
    np.testing.assert_array_equal(same.view(np.uint8), whole.astype(np.uint8))
    image, taps = (rng.integers(0, 256, shape).astype(np.uint8) for shape in ((1, 6, 3), (2, 3, 4)))
    sums = sum(image[:, tap : tap + 5].astype(np.int64) @ taps[tap] for tap in range(2))
    np.testing.assert_array_equal(program.run("windows", image, taps).view(np.uint32), sums)


def test_kernels_take_products_of_bytes_without_a_sign():
    w = np.random.default_rng(0).integers(-128, 128, (8, 32)).astype(np.int8)
    text = f"""
func.func @main(%x: tensor<3x8xui8>) -> tensor<3x32xi32> {{
  %w = stablehlo.constant dense<{w.tolist()}> : tensor<8x32xi8>
  %a = stablehlo.convert %x : (tensor<3x8xui8>) -> tensor<3x8xi32>
  %b = stablehlo.convert %w : (tensor<8x32xi8>) -> tensor<8x32xi32>
  %r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<3x8xi32>, tensor<8x32xi32>) -> tensor<3x32xi32>
  return %r : tensor<3x32xi32>
}}"""
    program = opsplice.compile(text, ["opsplice_kernels"])
    assert [each.pattern for each in program.report.replacements] == ["byte_linear"]
    x = np.array([[0, 127, 128, 255, 1, 200, 3, 129]] * 3, np.uint8)
    np.testing.assert_array_equal(program.run("main", x), x.astype(int) @ w)
