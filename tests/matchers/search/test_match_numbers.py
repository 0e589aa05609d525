"""Which numbers of a program a pattern's numbers stand for."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsplice.matchers.terms import constants


def matches(find, op: str, number: str, wanted: str, element: str) -> int:
    payload = f"""
    func.func @f(%x: tensor<4x8x{element}>) -> tensor<4x8x{element}> {{
      %c = arith.constant dense<{number}> : tensor<4x8x{element}>
      %r = {op} %x, %c : tensor<4x8x{element}>
      return %r : tensor<4x8x{element}>
    }}"""
    return find(payload, f"pattern p(x: tensor<m x n x {element}>) {{ {op.split('.')[1]}(x, {wanted}) }}").count


@pytest.mark.parametrize("op", ["math.copysign", "arith.divf", "arith.addf", "arith.maximumf"])
def test_the_two_zeros_are_two_numbers(find, op):
    for number in ("0.0", "-0.0"):
        for wanted in ("0.0", "-0.0"):
            assert matches(find, op, number, wanted, "f32") == (number == wanted)
    assert matches(find, op, "-0.0", "const(0.0..1.0)", "f32") == 1


def test_one_scalar_is_not_both_zeros(find):
    payload = """
    func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {{
      %a = arith.constant dense<0.0> : tensor<8xf32>
      %b = arith.constant dense<{second}> : tensor<8xf32>
      %y = arith.addf %x, %a : tensor<8xf32>
      %r = math.copysign %y, %b : tensor<8xf32>
      return %r : tensor<8xf32>
    }}"""
    scalar = "pattern p(x: tensor<n x f32>, z: f32) { copysign(addf(x, z), z) }"
    written = "pattern p(x: tensor<n x f32>) { copysign(addf(x, 0.0), 0.0) }"
    for spec in (scalar, written):
        assert find(payload.format(second="0.0"), spec).count == 1
        assert find(payload.format(second="-0.0"), spec).count == 0


@pytest.mark.parametrize(("op", "sides"), [("xori", "%y, %n"), ("andi", "%n, %y"), ("ori", "%n, %y")])
def test_truths_that_are_computed_from_constants_are_constants(find, op, sides):
    """So a mask that keeps all chooses nothing, nor does its opposite."""
    payload = f"""
    func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {{
      %keep = arith.constant dense<true> : tensor<8xi1>
      %by = arith.{op} %keep, %keep : tensor<8xi1>
      %n = math.sin %x : tensor<8xf32>
      %chosen = arith.select %by, {sides} : tensor<8xi1>, tensor<8xf32>
      %r = math.exp %chosen : tensor<8xf32>
      return %r : tensor<8xf32>
    }}"""
    assert find(payload, "pattern p(x: tensor<n x f32>) { exp(sin(x)) }").count == 1
    assert find(payload, "pattern p(x: tensor<n x f32>) { exp(select(_, x, _)) }").count == 0


def test_one_scalar_is_not_a_constant_and_an_input(find):
    payload = """
    func.func @f(%x: tensor<8xf32>, %s: f32) -> tensor<8xf32> {{
      %c = arith.constant 2.0 : f32
      %a = tensor.splat {first} : tensor<8xf32>
      %b = tensor.splat {second} : tensor<8xf32>
      %y = arith.addf %x, %a : tensor<8xf32>
      %r = arith.mulf %y, %b : tensor<8xf32>
      return %r : tensor<8xf32>
    }}"""
    spec = "pattern p(x: tensor<n x f32>, s: f32) { mulf(addf(x, s), s) }"
    for first in ("%s", "%c"):
        for second in ("%s", "%c"):
            assert find(payload.format(first=first, second=second), spec).count == (first == second)


def test_a_sum_may_start_at_either_zero(find):
    payload = """
    func.func @f(%x: tensor<4x8xf32>) -> tensor<4xf32> {{
      %z = arith.constant dense<{start}> : tensor<4xf32>
      %r = linalg.reduce {{ arith.addf }} ins(%x : tensor<4x8xf32>) outs(%z : tensor<4xf32>) dimensions = [1]
      return %r : tensor<4xf32>
    }}"""
    for start in ("0.0", "-0.0"):
        spec = "pattern p(x: tensor<m x n x f32>) { reduce addf[m n -> m](x) }"
        assert find(payload.format(start=start), spec).count == 1


@pytest.mark.parametrize("zero", ["0.0", "-0.0"])
def test_a_negation_is_a_difference_from_either_zero(find, zero):
    payload = """
    func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
      %r = arith.negf %x : tensor<8xf32>
      return %r : tensor<8xf32>
    }"""
    assert find(payload, f"pattern p(x: tensor<n x f32>) {{ subf({zero}, x) }}").count == 1


@pytest.mark.parametrize(
    ("op", "number", "wanted", "element", "count"),
    [
        ("arith.subf", "1.00195", "1.0", "f16", 0),
        ("arith.mulf", "2.0039", "2.0", "f16", 0),
        ("arith.addf", "63.0", "64.0", "bf16", 0),
        ("arith.addf", "1.0e-06", "1e-06", "f16", 1),
        ("arith.addf", "1.0e-05", "1e-06", "f16", 0),
        ("arith.mulf", "0.7978845608", "0.7978845608028654", "f16", 1),
        ("arith.mulf", "0.7978845608", "0.7978845608028654", "bf16", 1),
        ("arith.mulf", "0.7978", "0.7978845608028654", "f32", 0),
        ("arith.mulf", "0.797884583", "0.7978845608028654", "f32", 1),
        ("arith.addf", "1.0e-40", "1e-40", "f32", 1),
        ("arith.addf", "16777215.0", "16777216", "f32", 0),
        ("arith.addf", "65504.0", "1e6", "f16", 0),
        ("arith.addf", "0x7C00", "1e6", "f16", 0),
        ("arith.addf", "0x7C00", "inf", "f16", 1),
        ("arith.addi", "9007199254740992", "9007199254740993", "i64", 0),
        ("arith.addi", "9007199254740993", "9007199254740993", "i64", 1),
        ("arith.addi", "3", "const(7 / 2)", "i32", 0),
        ("arith.addi", "44", "300", "i8", 0),
        ("arith.maxui", "-56", "200", "i8", 1),
        ("arith.maxui", "-56", "199", "i8", 0),
        ("arith.maxui", "-1", "4294967295", "i32", 1),
        ("arith.maxui", "-56", "const(150..255)", "i8", 1),
        ("arith.maxui", "-56", "const(-60..-50)", "i8", 1),
        ("arith.maxui", "-56", "const(0..100)", "i8", 0),
        ("arith.mulf", "0.7", "const(0.7..0.8)", "f32", 1),
        ("arith.mulf", "0.8", "const(0.7..0.8)", "f16", 1),
        ("arith.mulf", "0.699", "const(0.7..0.8)", "f16", 0),
        ("arith.maximumf", "0x7C00", "const(70000.0..80000.0)", "f16", 0),  # infinity: the range has none
        ("arith.maximumf", "0x7C00", "const(1.0..70000.0)", "f16", 0),
        ("arith.maximumf", "0xFC00", "const(-1e30..-1e4)", "f16", 0),
        ("arith.maximumf", "0x7F800000", "const(1e39..1e40)", "f32", 0),
        ("arith.maximumf", "65504.0", "const(65510.0..70000.0)", "f16", 1),
        ("arith.maximumf", "0.0", "const(1e-12..1e-10)", "f16", 1),  # what f16 holds of 1e-12
        ("arith.maximumf", "-0.0", "const(1e-12..1e-10)", "f16", 0),
        ("arith.maximumf", "0.0", "const(-1e-10..-1e-12)", "f16", 0),
    ],
)
def test_numbers_as_the_element_type_holds_them(find, op, number, wanted, element, count):
    assert matches(find, op, number, wanted, element) == count


@pytest.mark.parametrize("element", ["f16", "bf16", "f32"])
def test_a_size_is_not_the_size_less_one(find, element):
    def mean(divisor: int) -> str:
        return f"""
        func.func @f(%x: tensor<4x128x{element}>) -> tensor<4x{element}> {{
          %z = arith.constant dense<0.0> : tensor<4x{element}>
          %n = arith.constant dense<{divisor}.0> : tensor<4x{element}>
          %s = linalg.reduce {{ arith.addf }} ins(%x : tensor<4x128x{element}>) outs(%z : tensor<4x{element}>)
            dimensions = [1]
          %r = arith.divf %s, %n : tensor<4x{element}>
          return %r : tensor<4x{element}>
        }}"""

    spec = f"pattern p(x: tensor<m x n x {element}>) {{ divf(reduce addf[m n -> m](x), n) }}"
    assert [find(mean(divisor), spec).count for divisor in (127, 128, 129)] == [0, 1, 0]


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
def test_a_product_with_a_reciprocal_is_a_quotient(find, element):
    for divisor in (3.0, 10.0, 49.0, 127.0):
        payload = f"""
        func.func @f(%x: tensor<8x{element}>) -> tensor<8x{element}> {{
          %c = arith.constant dense<{1 / divisor!r}> : tensor<8x{element}>
          %r = arith.mulf %x, %c : tensor<8x{element}>
          return %r : tensor<8x{element}>
        }}"""
        assert find(payload, f"pattern p(x: tensor<n x {element}>) {{ divf(x, {divisor}) }}").count == 1
        assert find(payload, f"pattern p(x: tensor<n x {element}>) {{ divf(x, {divisor + 2}) }}").count == 0


@given(st.floats(width=64))
def test_rounding_is_that_of_the_machine(value):
    for element, code in (("f32", "f"), ("f16", "e")):
        try:
            (expected,) = struct.unpack(code, struct.pack(code, value))
        except OverflowError:
            expected = math.copysign(math.inf, value)
        assert constants.identical(constants.rounded(value, element), expected)
    assert constants.identical(constants.rounded(value, "f64"), value)


@given(st.floats(width=32, allow_nan=False))
def test_a_number_in_words_is_that_number(value):
    assert constants.same(float(constants.text(value, "f32")), value, "f32")


@pytest.mark.parametrize(
    ("wanted", "found", "element", "same"),
    [
        (float.fromhex("0x1.708p+53"), math.nextafter(float.fromhex("0x1.708p+53"), math.inf), "f64", False),
        (math.inf, 3, "i32", False),
        (2**32 + 3, 3, "i32", False),
        (-(2**31) - 1, 2**31 - 1, "i32", False),
        (2**32 - 1, -1, "i32", True),
        (0.5, 0, "i32", False),
    ],
)
def test_a_whole_number_is_no_neighbour_and_no_remainder(wanted, found, element, same):
    assert constants.same(wanted, found, element) is same
