import numpy as np

import opsplice

MODEL = """
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %size = math.absf %x : tensor<4x8xf32>
  %sum = arith.addf %size, %one : tensor<4x8xf32>
  %y = arith.divf %x, %sum : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
"""


def test_soft_sign() -> None:
    program = opsplice.compile(MODEL, ["acme_kernels"], require_match=True)
    x = np.linspace(-5, 5, 32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_allclose(program.run("main", x), x / (1 + np.abs(x)), rtol=1e-6)


def test_the_library() -> None:
    assert [finding for finding in opsplice.check_library("acme_kernels") if finding.outcome == "failed"] == []
