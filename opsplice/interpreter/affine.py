"""iree_linalg_ext.quantize_affine and dequantize_affine: numbers as integers, by a scale and a zero point, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from opsplice.interpreter import scalars
from opsplice.interpreter.arithmetic import wide
from opsplice.interpreter.handlers import Machine, handles
from opsplice.interpreter.problems import unknown
from opsplice.interpreter.structured import plain_dims


@handles("iree_linalg_ext.quantize_affine")
def _quantize(machine: Machine, op: ir.Operation, operands: list[Any]) -> Sequence[Any]:
    x, scale, *zero = _beside(op, operands)
    made, is_signed = op.operands[0].type, "storage_unsigned" not in op.attributes
    whole = np.rint(machine.rounded(wide(x) / wide(scale), made))
    if zero:
        whole = machine.rounded(wide(whole) + wide(zero[0]), made)
    least, largest = (ir.IntegerAttr(op.attributes[name]).value for name in ("quant_min", "quant_max"))
    return [scalars.to_integer(wide(whole).clip(least, largest), machine.dtype(op.results[0].type), is_signed)]


@handles("iree_linalg_ext.dequantize_affine")
def _dequantize(machine: Machine, op: ir.Operation, operands: list[Any]) -> Sequence[Any]:
    x, scale, *zero = _beside(op, operands)
    whole = wide(scalars.unsigned(x) if "input_unsigned" in op.attributes else x)
    made = op.results[0].type
    return [machine.rounded(wide(machine.rounded(whole - (wide(zero[0]) if zero else 0), made)) * wide(scale), made)]


def _beside(op: ir.Operation, operands: list[Any]) -> list[np.ndarray]:
    """What the op reads, all in the order of its loops."""
    maps = [ir.AffineMapAttr(each).value for each in op.attributes["indexing_maps"]]
    found, rank = [], np.ndim(operands[-1])
    if plain_dims(maps[-1]) != list(range(rank)):
        raise unknown(op, "with a result in another order")
    for operand, indexing in zip(operands[:-1], maps, strict=False):
        labels = [loop for loop in plain_dims(indexing) if loop is not None]
        array = np.asarray(operand)
        if len(labels) != array.ndim:
            raise unknown(op, "with indices that are not loops")
        array = np.transpose(array, np.argsort(labels))
        found.append(np.expand_dims(array, tuple(loop for loop in range(rank) if loop not in labels)))
    return found
