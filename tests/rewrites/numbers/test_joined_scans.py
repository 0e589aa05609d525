"""Running sums in tensors of many open dims."""

import numpy as np

import opsplice

# x, along a dim, of which the others are in `rest`, with their sizes.
SUMS = """
func.func @along{dim}(%x: tensor<?x?x5x?xf32>) -> tensor<?x?x5x?xf32> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %m = tensor.dim %x, %c0 : tensor<?x?x5x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?x5x?xf32>
  %k = tensor.dim %x, %c3 : tensor<?x?x5x?xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty(%m, %n, %k) : tensor<?x?x5x?xf32>
  %sums = tensor.empty({sizes}) : tensor<{rest}xf32>
  %start = linalg.fill ins(%zero : f32) outs(%sums : tensor<{rest}xf32>) -> tensor<{rest}xf32>
  %r:2 = iree_linalg_ext.scan dimension({dim}) inclusive(true) ins(%x : tensor<?x?x5x?xf32>)
      outs(%empty, %start : tensor<?x?x5x?xf32>, tensor<{rest}xf32>) {{
  ^bb0(%a: f32, %b: f32):
    %sum = arith.addf %a, %b : f32
    iree_linalg_ext.yield %sum : f32
  }} -> tensor<?x?x5x?xf32>, tensor<{rest}xf32>
  return %r#0 : tensor<?x?x5x?xf32>
}}
"""
FORMS = {0: ("?x5x?", "%n, %k"), 2: ("?x?x?", "%m, %n, %k"), 3: ("?x?x5", "%m, %n")}


def test_sums_along_each_dim():
    functions = [SUMS.format(dim=dim, rest=rest, sizes=sizes) for dim, (rest, sizes) in FORMS.items()]
    program = opsplice.compile("".join(functions))
    x = np.random.default_rng(0).integers(-4, 4, (3, 6, 5, 7)).astype(np.float32)
    for dim in FORMS:
        np.testing.assert_array_equal(program.run(f"along{dim}", x), x.cumsum(dim))
