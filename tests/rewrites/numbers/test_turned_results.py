"""Transposed results of ops that have several."""

import numpy as np

import opsplice

LARGEST = """
  %r:2 = linalg.generic {
      indexing_maps = [affine_map<(m, k, n) -> (m, k, n)>, affine_map<(m, k, n) -> (m, n)>,
                       affine_map<(m, k, n) -> (m, n)>],
      iterator_types = ["parallel", "reduction", "parallel"]}
      ins(%x : tensor<6x5x4xf32>) outs(%v, %p : tensor<6x4xf32>, tensor<6x4xi32>) {
  ^bb0(%a: f32, %b: f32, %at: i32):
    %k = linalg.index 1 : index
    %i = arith.index_cast %k : index to i32
    %more = arith.cmpf ogt, %a, %b : f32
    %place = arith.select %more, %i, %at : i32
    %best = arith.maximumf %a, %b : f32
    linalg.yield %best, %place : f32, i32
  } -> (tensor<6x4xf32>, tensor<6x4xi32>)
"""
PROGRAM = """
func.func @{name}(%x: tensor<6x5x4xf32>) -> ({results}) {{
  %least = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0 : i32
  %values = tensor.empty() : tensor<6x4xf32>
  %v = linalg.fill ins(%least : f32) outs(%values : tensor<6x4xf32>) -> tensor<6x4xf32>
  %places = tensor.empty() : tensor<6x4xi32>
  %p = linalg.fill ins(%zero : i32) outs(%places : tensor<6x4xi32>) -> tensor<6x4xi32>
  {body}
}}
"""
TURNED = """
  %e{number} = tensor.empty() : tensor<4x6x{type}>
  %t{number} = linalg.transpose
      ins({value} : tensor<6x4x{type}>) outs(%e{number} : tensor<4x6x{type}>) permutation = [1, 0]
"""
PLACES = TURNED.format(number=1, value="%r#1", type="i32")
BOTH = LARGEST + PLACES + TURNED.format(number=0, value="%r#0", type="f32")
# Between an op and the transpose of a result there are others.
SCALED = """
  %s = linalg.generic {
      indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%r#0, %r#1 : tensor<6x4xf32>, tensor<6x4xi32>) outs(%values : tensor<6x4xf32>) {
  ^bb0(%a: f32, %b: i32, %o: f32):
    %f = arith.sitofp %b : i32 to f32
    %m = arith.mulf %a, %f : f32
    linalg.yield %m : f32
  } -> tensor<6x4xf32>
"""


def test_results_are_transposed():
    kinds = {"places": "tensor<4x6xi32>", "both": "tensor<4x6xf32>, tensor<4x6xi32>", "scaled": "tensor<4x6xf32>"}
    bodies = {
        "places": LARGEST + PLACES + f"return %t1 : {kinds['places']}",
        "both": BOTH + f"return %t0, %t1 : {kinds['both']}",
        "scaled": LARGEST
        + SCALED
        + TURNED.format(number=0, value="%s", type="f32")
        + f"return %t0 : {kinds['scaled']}",
    }
    program = opsplice.compile(
        "".join(PROGRAM.format(name=name, results=kinds[name], body=body) for name, body in bodies.items())
    )
    x = np.random.default_rng(0).standard_normal((6, 5, 4), np.float32)
    largest, places = x.max(1).T, x.argmax(1).T
    np.testing.assert_array_equal(program.run("places", x), places)
    for found, expected in zip(program.run("both", x), (largest, places), strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(program.run("scaled", x), largest * places, rtol=1e-6)
