"""Complex constants that parts are put into are hidden from IREE.

    %r = tensor.insert_slice %part into %c, of a constant %c    =>    into a `util.optimization_barrier` of it

Of a part and a constant IREE 3.13 makes a padding of the part with a number, for which it writes an `arith.constant`
that no complex number can be: gradients of `jnp.fft.rfft` have such weights.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.rewrites.ir import emit


@emit.of_each("tensor.insert_slice")
def hide(op: ir.Operation) -> None:
    """Change an insertion, where inputs are converted."""
    whole = op.operands[1]
    maker = defining_op(whole)
    is_complex = isinstance(ir.RankedTensorType(whole.type).element_type, ir.ComplexType)
    if maker is not None and maker.name == "arith.constant" and is_complex:
        op.operands[1] = emit.value("util.optimization_barrier", [whole], whole.type)
