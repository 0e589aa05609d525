"""What an MLIR program computes, op by op in numpy: slow, simple, and independent of IREE and of the matchers.

It is a third oracle. A program and its rewritten form can be compared without compiling either, and where IREE's own
code is wrong it says so. `evaluate(module, "main", [x, y])` computes with the element types of the program, each op
rounded once; `floats=numpy.float64` computes every float in f64 instead, so that reordered sums come to the same.

Programs are those of phase `input` to `preprocessing`: linalg, tensor, arith, math, scf and calls. An op that it does
not know is an EvaluationError that names the op. What MLIR leaves undefined in an element (a division of integers by
zero, a float that an integer type cannot hold) is zero; reading outside a tensor is an error.
"""

from opsplice.interpreter.evaluation import evaluate
from opsplice.interpreter.problems import EvaluationError

__all__ = ["EvaluationError", "evaluate"]
