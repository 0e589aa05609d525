"""Elements that an op looks up come from memory where a reduction reads them, in tensors of many open dims.

    %g = linalg.generic { yield tensor.extract %x[...] }     %g = linalg.generic
    %c = linalg.generic {select} ins(%g, %mask)           => %m = util.optimization_barrier %g
    %r = linalg.generic {+, reduction} ins(%c)               %c = linalg.generic {select} ins(%m, %mask)
                                                             ...

IREE 3.13 looks up a tile of all dims, element by element, in code without loops: for AVX-512 LLVM does not come to an
end with four dims. PyTorch's `flip`, which gradients of running sums have, is such an op.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.common.reaching import reachable
from opsplice.matchers.ir.op_names import ops_in
from opsplice.matchers.ir.tensor_values import is_elementwise
from opsplice.rewrites.ir import emit


@emit.of_each("linalg.generic")
def mend(op: ir.Operation) -> None:
    """Put what an op looks up into memory if a reduction reads it, where inputs are converted."""
    kind = op.results[0].type
    if kind.rank < 4 or kind.has_static_shape or not any(ops_in(op, "tensor.extract")):
        return
    if any(_is_reduction(user) for value in reachable([op.results[0]], _computed_from) for user in _users(value)):
        emit.put_behind(op.results[0], emit.held)


def _computed_from(value: ir.Value) -> list[ir.Value]:
    return [user.results[0] for user in _users(value) if is_elementwise(user)]


def _is_reduction(op: ir.Operation) -> bool:
    return op.name == "linalg.generic" and not is_elementwise(op)


def _users(value: ir.Value) -> list[ir.Operation]:
    return [use.owner for use in value.uses]
