"""Places of largest elements in tensors of several dims."""

import numpy as np

import opsplice

LARGEST = """
func.func @main(%x: tensor<?x?x5x?xf32>) -> (tensor<?x?x?xf32>, tensor<?x?x?xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %m = tensor.dim %x, %c0 : tensor<?x?x5x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?x5x?xf32>
  %k = tensor.dim %x, %c3 : tensor<?x?x5x?xf32>
  %least = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0 : i32
  %values = tensor.empty(%m, %n, %k) : tensor<?x?x?xf32>
  %v = linalg.fill ins(%least : f32) outs(%values : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %places = tensor.empty(%m, %n, %k) : tensor<?x?x?xi32>
  %p = linalg.fill ins(%zero : i32) outs(%places : tensor<?x?x?xi32>) -> tensor<?x?x?xi32>
  %r:2 = iree_linalg_ext.arg_compare dimension(2) ins(%x : tensor<?x?x5x?xf32>)
      outs(%v, %p : tensor<?x?x?xf32>, tensor<?x?x?xi32>) {
  ^bb0(%a: f32, %b: f32):
    %more = arith.cmpf ogt, %a, %b : f32
    iree_linalg_ext.yield %more : i1
  } -> tensor<?x?x?xf32>, tensor<?x?x?xi32>
  return %r#0, %r#1 : tensor<?x?x?xf32>, tensor<?x?x?xi32>
}
"""


def test_places_in_three_open_dims():
    program = opsplice.compile(LARGEST)
    x = np.random.default_rng(0).integers(0, 4, (3, 6, 5, 7)).astype(np.float32)  # some are equal
    values, places = program.run("main", x)
    np.testing.assert_array_equal(values, x.max(2))
    np.testing.assert_array_equal(places, x.argmax(2))
