"""iree_linalg_ext.attention: the scores, what the body makes of them, a softmax, and the values weighted by it."""

from __future__ import annotations

from typing import Any

import numpy as np
from iree.compiler import ir

from opsplice.interpreter.arithmetic import wide
from opsplice.interpreter.handlers import Machine, handles
from opsplice.interpreter.problems import unknown
from opsplice.interpreter.structured import loops_of, over, softmax


@handles("iree_linalg_ext.attention")
def _attention(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    """In f64 between its ops, but for the body, which has the types that it says."""
    labels = loops_of(op)
    if len(operands) not in (5, 6) or len(labels) != len(operands):
        raise unknown(op, "with these operands")
    (query, key, value), scale = (wide(operand) for operand in operands[:3]), wide(operands[3])
    rows, columns, out = labels[0], labels[1], labels[-1]
    summed = [loop for loop in rows if loop in columns and loop not in out]
    scored = sorted({*rows, *columns} - set(summed))
    scores = np.einsum(query, rows, key, columns, scored) * scale
    if len(operands) == 6:
        # A mask of truths takes out what is false.
        mask = np.where(operands[4], 0.0, -np.inf) if operands[4].dtype == np.bool_ else wide(operands[4])
        scores = scores + over(mask, labels[4], scored)
    element = op.regions[0].blocks[0].arguments[0].type
    made = wide(machine.run_body(op, [machine.rounded(scores, element)])[0])
    scores = np.broadcast_to(made, np.shape(scores))  # a body that reads no score makes one number
    gone = [loop for loop in scored if loop in labels[2] and loop not in out]
    if len(gone) != 1:
        raise unknown(op, "over several dims")
    weights = softmax(scores, scored.index(gone[0]))
    return machine.rounded(np.einsum(weights, scored, value, labels[2], out), op.results[0].type)
