"""JAX: `opsplice.jax.jit(f, specs=[...])`, which is to `jax.jit` what `opsplice.compile` is to IREE's compiler."""

from opsplice.jax.function import Function, NotSplicedWarning, jit
from opsplice.jax.lowering import Lowered
from opsplice.reports.frontend_reports import FunctionReport, ProgramReport

__all__ = ["Function", "FunctionReport", "Lowered", "NotSplicedWarning", "ProgramReport", "jit"]
