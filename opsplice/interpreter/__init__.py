"""What an MLIR program computes, op by op in numpy: slow, simple, and independent of IREE and of the matchers.

It is a third oracle. A program and its rewritten form can be compared without compiling either, and where IREE's own
code is wrong it says so. `evaluate(module, "main", [x, y])` computes with the element types of the program, each op
rounded once; `floats=numpy.float64` computes every float in f64 instead, so that reordered sums come to the same.

Programs are those of phase `input` to `preprocessing`: linalg, tensor, arith, math, scf and calls. An op that it does
not know is an EvaluationError that names the op. What MLIR leaves undefined in an element (a division of integers by
zero, a float that an integer type cannot hold) is zero; reading outside a tensor is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.interpreter import arithmetic, control, linalg_ext, structured, tensors  # noqa: F401
from opsplice.interpreter.elements import Parameters
from opsplice.interpreter.handlers import Machine
from opsplice.interpreter.problems import EvaluationError

__all__ = ["EvaluationError", "Program", "evaluate"]


class Program:
    """A module whose functions are called one after the other: what one stores in a global, the next one loads.

    floats: what to compute all floats in, in the place of the program's own types (numpy.float64, mostly).
    parameters: the bytes of weights that the module does not hold, by their scope and name.
    """

    def __init__(
        self, module: ir.Module, floats: type[np.floating] | None = None, parameters: Parameters | None = None
    ) -> None:
        self._machine = Machine(module.operation, None if floats is None else np.dtype(floats), parameters or {})

    def call(self, function: str, inputs: Sequence[Any]) -> list[np.ndarray]:
        """The results of a function, one array for each.

        inputs: arrays or numbers, converted to the types of the parameters.
        Raises EvaluationError for ops that the interpreter does not know, and for inputs that do not fit.
        """
        try:
            with np.errstate(all="ignore"):
                return [np.asarray(result) for result in self._machine.call(function, list(inputs))]
        except OpspliceError:
            self._machine.lose(f"@{function} may have changed it, which could not be evaluated")
            raise


def evaluate(
    module: ir.Module,
    function: str,
    inputs: Sequence[Any],
    floats: type[np.floating] | None = None,
    parameters: Parameters | None = None,
) -> list[np.ndarray]:
    """The results of a function of a module that was not called before: see `Program`."""
    return Program(module, floats, parameters).call(function, inputs)
