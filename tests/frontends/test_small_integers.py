"""StableHLO's integers of 4 bits: they wrap around as those do, in sizes that IREE does not compile by itself."""

from __future__ import annotations

import numpy as np
import pytest

import opsplice

PROGRAM = """
func.func private @less(%x: tensor<4x6x{t}>, %y: tensor<6x{t}>) -> tensor<4x6x{t}> {{
  %b = stablehlo.broadcast_in_dim %y, dims = [1] : (tensor<6x{t}>) -> tensor<4x6x{t}>
  %r = stablehlo.subtract %x, %b : tensor<4x6x{t}>
  return %r : tensor<4x6x{t}>
}}
func.func @main(%w: tensor<4x6xi32>, %n: tensor<i32>)
    -> (tensor<4x6xi32>, tensor<4x6xf32>, tensor<4x6xi1>, tensor<4x6x{t}>) {{
  %one = stablehlo.constant dense<1> : tensor<i32>
  %y = stablehlo.constant dense<[0, 1, 2, 5, 6, 7]> : tensor<6x{t}>
  %x = stablehlo.convert %w : (tensor<4x6xi32>) -> tensor<4x6x{t}>
  %s:2 = stablehlo.while(%i = %n, %z = %x) : tensor<i32>, tensor<4x6x{t}>
  cond {{
    %go = stablehlo.compare GE, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }} do {{
    %j = stablehlo.subtract %i, %one : tensor<i32>
    %more = stablehlo.multiply %z, %x : tensor<4x6x{t}>
    stablehlo.return %j, %more : tensor<i32>, tensor<4x6x{t}>
  }}
  %less = call @less(%s#1, %y) : (tensor<4x6x{t}>, tensor<6x{t}>) -> tensor<4x6x{t}>
  %a = stablehlo.convert %less : (tensor<4x6x{t}>) -> tensor<4x6xi32>
  %b = stablehlo.convert %x : (tensor<4x6x{t}>) -> tensor<4x6xf32>
  %c = stablehlo.compare LT, %less, %x : (tensor<4x6x{t}>, tensor<4x6x{t}>) -> tensor<4x6xi1>
  return %a, %b, %c, %less : tensor<4x6xi32>, tensor<4x6xf32>, tensor<4x6xi1>, tensor<4x6x{t}>
}}
"""


@pytest.mark.parametrize(("kind", "low"), [("i4", -8), ("ui4", 0)])
def test_they_wrap_around(kind: str, low: int) -> None:
    def wrapped(numbers: np.ndarray) -> np.ndarray:
        return (numbers - low) % 16 + low

    w = np.arange(-12, 12, dtype=np.int32).reshape(4, 6)
    x = wrapped(w)
    less = wrapped(x**4 - np.array([0, 1, 2, 5, 6, 7]))
    found = opsplice.compile(PROGRAM.format(t=kind), isolate=True).run("main", w, np.int32(3))
    for one, other in zip(found, (less, x, less < x, less), strict=True):
        np.testing.assert_array_equal(one.astype(np.int32), other)
