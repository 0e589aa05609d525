"""Loops over nothing that read single elements of tensors are written without a loop.

    linalg.generic {iterator_types = []} ins(%a : tensor<f32>) outs(%o : tensor<f32>) {
      %e = tensor.extract %x[%i, %j]; linalg.yield %a - %e
    }
        =>
    %1 = tensor.extract %a[]; %e = tensor.extract %x[%i, %j]; tensor.insert (%1 - %e) into %o[]

IREE 3.13 crashes where it makes vectors of such a loop, if what is read says where the next element is. Other such
loops are left to it: of two results whose insertions stand side by side it makes one of the wrong type.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.op_names import last_op, ops_in
from opsplice.rewrites.ir import emit

# When dispatches are formed, which join such loops.
PHASE = "executable-sources"
_READ = "tensor.extract"


@emit.of_each("linalg.generic")
def mend(op: ir.Operation) -> None:
    (body,) = op.regions[0].blocks
    if len(ir.ArrayAttr(op.attributes["iterator_types"])) or not any(_is_led(read, op) for read in ops_in(op, _READ)):
        return
    values = dict(zip(body.arguments, op.operands, strict=True))
    for argument, operand in values.items():
        if isinstance(operand.type, ir.RankedTensorType):
            values[argument] = emit.value(_READ, [operand], argument.type)
    for each in list(body.operations)[:-1]:
        emit.copy(each.operation, values)
    count = len(op.results)
    starts, made = list(op.operands)[-count:], last_op(body).operands
    pairs = ([values.get(value, value), start] for value, start in zip(made, starts, strict=True))
    emit.replace(op, *(emit.value("tensor.insert", pair, pair[1].type) for pair in pairs))


def _is_led(read: ir.Operation, op: ir.Operation) -> bool:
    """Whether an op in the body of another says where an element is read."""
    owners = [index.owner for index in list(read.operands)[1:]]
    return any(isinstance(owner, ir.OpView | ir.Operation) and owner.operation.parent == op for owner in owners)
