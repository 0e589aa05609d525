"""Windows that have one place along a dim, and do not reach the end of their input."""

from __future__ import annotations

import numpy as np
from iree.compiler import ir

import opsplice
from opsplice.matchers.ir.op_names import ops_in
from opsplice.pipeline.compiler import Compilation
from opsplice.rewrites.numbers import windowed_ops

CONVOLVED = """
func.func @convolved(%x: tensor<1x2x4x9xf32>, %w: tensor<3x2x3x3xf32>) -> tensor<1x3x1x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x3x1x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x3x1x4xf32>) -> tensor<1x3x1x4xf32>
  %r = linalg.conv_2d_nchw_fchw {strides = dense<2> : vector<2xi64>, dilations = dense<1> : vector<2xi64>}
    ins(%x, %w : tensor<1x2x4x9xf32>, tensor<3x2x3x3xf32>) outs(%z : tensor<1x3x1x4xf32>) -> tensor<1x3x1x4xf32>
  return %r : tensor<1x3x1x4xf32>
}
"""
POOLED = """
func.func @pooled(%x: tensor<1x2x6x9xf32>) -> tensor<1x2x1x4xf32> {
  %low = arith.constant -1.0 : f32
  %e = tensor.empty() : tensor<1x2x1x4xf32>
  %z = linalg.fill ins(%low : f32) outs(%e : tensor<1x2x1x4xf32>) -> tensor<1x2x1x4xf32>
  %w = tensor.empty() : tensor<3x3xf32>
  %r = linalg.pooling_nchw_max {strides = dense<[4, 2]> : vector<2xi64>, dilations = dense<[2, 1]> : vector<2xi64>}
    ins(%x, %w : tensor<1x2x6x9xf32>, tensor<3x3xf32>) outs(%z : tensor<1x2x1x4xf32>) -> tensor<1x2x1x4xf32>
  return %r : tensor<1x2x1x4xf32>
}
"""
# The gradient of a filter: the loop over the window is that of the 1x2 places, two apart.
OF_FILTER = """
func.func @of_filter(%x: tensor<1x2x5x7xf32>, %g: tensor<3x2x1x2xf32>) -> tensor<1x3x4x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x3x4x5xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x3x4x5xf32>) -> tensor<1x3x4x5xf32>
  %r = linalg.conv_2d_nchw_fchw {strides = dense<1> : vector<2xi64>, dilations = dense<2> : vector<2xi64>}
    ins(%x, %g : tensor<1x2x5x7xf32>, tensor<3x2x1x2xf32>) outs(%z : tensor<1x3x4x5xf32>) -> tensor<1x3x4x5xf32>
  return %r : tensor<1x3x4x5xf32>
}
"""
# With zeros around, and an open batch.
ADDED = """
func.func @added(%x: tensor<?x2x2x4xf32>) -> tensor<?x2x1x4xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x2x2x4xf32>
  %padded = tensor.pad %x low[0, 0, 1, 0] high[0, 0, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<?x2x2x4xf32> to tensor<?x2x4x4xf32>
  %e = tensor.empty(%n) : tensor<?x2x1x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x2x1x4xf32>) -> tensor<?x2x1x4xf32>
  %w = tensor.empty() : tensor<2x1xf32>
  %r = linalg.pooling_nchw_sum {strides = dense<[3, 1]> : vector<2xi64>, dilations = dense<1> : vector<2xi64>}
    ins(%padded, %w : tensor<?x2x4x4xf32>, tensor<2x1xf32>) outs(%z : tensor<?x2x1x4xf32>) -> tensor<?x2x1x4xf32>
  return %r : tensor<?x2x1x4xf32>
}
"""
RNG = np.random.default_rng(0)


def test_such_windows_compile_and_have_the_numbers_of_their_part():
    program = opsplice.compile(CONVOLVED + POOLED + OF_FILTER, isolate=True)
    x, w = RNG.random((1, 2, 4, 9), dtype=np.float32), RNG.random((3, 2, 3, 3), dtype=np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, :1:2, ::2]
    np.testing.assert_allclose(
        program.run("convolved", x, w), np.einsum("nchwij,fcij->nfhw", windows, w), rtol=1e-5, atol=0
    )
    x = RNG.random((1, 2, 6, 9), dtype=np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x[:, :, :5:2], (3, 3), (2, 3))[:, :, :, ::2]
    np.testing.assert_array_equal(program.run("pooled", x), windows.max((-1, -2)))
    x, g = RNG.random((1, 2, 5, 7), dtype=np.float32), RNG.random((3, 2, 1, 2), dtype=np.float32)
    taps = np.stack([x[:, :, :4, :5], x[:, :, :4, 2:]], -1)
    wanted = np.einsum("nchwj,fcj->nfhw", taps, g[:, :, 0])
    np.testing.assert_allclose(program.run("of_filter", x, g), wanted, rtol=1e-5)


def test_windows_of_open_batches_read_the_zeros_around():
    x = RNG.random((3, 2, 2, 4), dtype=np.float32)
    np.testing.assert_array_equal(opsplice.compile(ADDED, isolate=True).run("added", x), x[:, :, :1])


def test_windows_of_several_places_and_whole_inputs_stay():
    several = CONVOLVED.replace("2x4x9", "2x6x9").replace("3x1x4", "3x2x4")
    whole = CONVOLVED.replace("2x4x9", "2x3x9")
    one_tap = CONVOLVED.replace("3x2x3x3", "3x2x1x1").replace("3x1x4", "3x2x5")
    for text, count in ((CONVOLVED, 1), (several, 0), (whole, 0), (one_tap, 0)):
        with Compilation() as compilation, compilation.context:
            module = ir.Module.parse(text)
            windowed_ops.mend(module)
            assert module.operation.verify()
            assert len(ops_in(module.operation, "tensor.extract_slice")) == count
