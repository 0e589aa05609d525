"""The face of the interpreter. It brings in the modules that say what ops do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from opsplice.interpreter import affine, arithmetic, attention, control, sorting, structured, tensors  # noqa: F401
from opsplice.interpreter.elements import Parameters
from opsplice.interpreter.handlers import Machine


def evaluate(
    module: ir.Module,
    function: str,
    inputs: Sequence[Any],
    floats: type[np.floating] | None = None,
    parameters: Parameters | None = None,
) -> list[np.ndarray]:
    """The results of a function of a module, one array for each.

    inputs: arrays or numbers, converted to the types of the parameters.
    floats: what to compute all floats in, in the place of the program's own types (numpy.float64, mostly).
    parameters: the bytes of weights that the module does not hold, by their scope and name.
    Raises EvaluationError for ops that the interpreter does not know, and for inputs that do not fit.
    """
    machine = Machine(module.operation, None if floats is None else np.dtype(floats), parameters or {})
    with np.errstate(all="ignore"):
        return [np.asarray(result) for result in machine.call(function, list(inputs))]
