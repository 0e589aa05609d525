"""Why a program cannot be evaluated."""

from __future__ import annotations

from iree.compiler import ir

from opsplice.common.errors import OpspliceError


class EvaluationError(OpspliceError):
    """The interpreter does not know an op, or the program does what no program may do."""


def unknown(op: ir.Operation, what: str = "") -> EvaluationError:
    """The error for an op that the interpreter does not know, or not in this form."""
    return EvaluationError(f"the interpreter does not know '{op.name}'{what and f' {what}'}", details=str(op.location))


def wrong(op: ir.Operation, what: str) -> EvaluationError:
    """The error for an op that does at run time what it may not do."""
    return EvaluationError(f"'{op.name}' {what}", details=str(op.location))
