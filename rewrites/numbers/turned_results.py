"""One of several results of an op is transposed in memory.

    %r:2 = linalg.generic (largest elements and their places)      %r:2 = linalg.generic
    %t = linalg.transpose %r#1                                 =>  %m = util.optimization_barrier %r#1
                                                                   %t = linalg.transpose %m

IREE 3.13 writes the transposed result in place of all of them: such an op does not compile, and two of them end the
compiler's process. Adaptive pools of open sizes have several results, too: sums, and how many elements these are of.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.common.reaching import reachable
from opsplice.matchers.ir.tensor_values import VIEWS, is_elementwise
from opsplice.rewrites.ir import emit


@emit.of_each("linalg.generic")
def mend(op: ir.Operation) -> None:
    """Put the results of an op with several into memory if they are transposed, where inputs are converted."""
    for result in op.results if len(op.results) > 1 else ():
        if _is_transposed(result):
            emit.put_behind(result, emit.held)


def _is_transposed(value: ir.Value) -> bool:
    """Whether a value is transposed, or a view of it or what is computed from its elements."""

    def onward(each: ir.Value) -> list[ir.Value]:
        return [user.results[0] for user in users(each) if user.name in VIEWS or is_elementwise(user)]

    def users(each: ir.Value) -> list[ir.Operation]:
        return [use.owner for use in each.uses]

    return any(user.name == "linalg.transpose" for each in reachable([value], onward) for user in users(each))
