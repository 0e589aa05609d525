"""iree_linalg_ext.quantize_affine and dequantize_affine: numbers as integers, by a scale and a zero point, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from iree.compiler import ir

from opsplice.interpreter import scalars
from opsplice.interpreter.arithmetic import wide
from opsplice.interpreter.handlers import Machine, handles, integer
from opsplice.interpreter.problems import unknown
from opsplice.interpreter.structured import loops_of, over


@handles("iree_linalg_ext.quantize_affine")
def _quantize(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    x, scale, *zero = _beside(op, operands)
    made, is_signed = op.operands[0].type, "storage_unsigned" not in op.attributes
    whole = np.rint(machine.rounded(wide(x) / wide(scale), made))
    if zero:
        whole = machine.rounded(wide(whole) + wide(zero[0]), made)
    kept = wide(whole).clip(integer(op, "quant_min"), integer(op, "quant_max"))
    return scalars.to_integer(kept, machine.dtype(op.results[0].type), is_signed)


@handles("iree_linalg_ext.dequantize_affine")
def _dequantize(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    x, scale, *zero = _beside(op, operands)
    whole = wide(scalars.unsigned(x) if "input_unsigned" in op.attributes else x)
    made = op.results[0].type
    return machine.rounded(wide(machine.rounded(whole - (wide(zero[0]) if zero else 0), made)) * wide(scale), made)


def _beside(op: ir.Operation, operands: list[Any]) -> list[np.ndarray]:
    """What the op reads, all in the order of its loops."""
    *labels, result = loops_of(op)
    if result != list(range(np.ndim(operands[-1]))):
        raise unknown(op, "with a result in another order")
    return [over(np.asarray(operand), own, result) for operand, own in zip(operands, labels, strict=False)]
