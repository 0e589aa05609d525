"""Parts of complex constants that are put in place, as gradients of transforms of real numbers have them."""

from __future__ import annotations

import numpy as np

import opsplice

MODEL = """
func.func @main(%x: tensor<3x7xcomplex<f32>>) -> tensor<3x7xcomplex<f32>> {
  %two = stablehlo.constant dense<(2.0, -1.0)> : tensor<7xcomplex<f32>>
  %one = stablehlo.constant dense<(1.0, 3.0)> : tensor<1xcomplex<f32>>
  %at = stablehlo.constant dense<2> : tensor<i32>
  %weights = stablehlo.dynamic_update_slice %two, %one, %at
      : (tensor<7xcomplex<f32>>, tensor<1xcomplex<f32>>, tensor<i32>) -> tensor<7xcomplex<f32>>
  %each = stablehlo.broadcast_in_dim %weights, dims = [1] : (tensor<7xcomplex<f32>>) -> tensor<3x7xcomplex<f32>>
  %r = stablehlo.multiply %x, %each : tensor<3x7xcomplex<f32>>
  return %r : tensor<3x7xcomplex<f32>>
}
"""


def test_a_part_of_a_constant_is_another():
    x = (np.arange(21).reshape(3, 7) + 1j).astype(np.complex64)
    weights = np.full(7, 2 - 1j)
    weights[2] = 1 + 3j
    np.testing.assert_allclose(opsplice.compile(MODEL).run("main", x), x * weights, rtol=1e-6)
