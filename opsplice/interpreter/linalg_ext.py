"""iree_linalg_ext: attention, numbers made integers by a scale and a zero point and back, and sorts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from opsplice.interpreter import scalars
from opsplice.interpreter.arithmetic import wide
from opsplice.interpreter.handlers import HANDLERS, Machine, handles, integer
from opsplice.interpreter.problems import unknown
from opsplice.interpreter.structured import loops_of, over, softmax


@handles("iree_linalg_ext.attention")
def _attention(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    """The scores, what the body makes of them, a softmax, and the values weighted by it.

    In f64 between its ops, but for the body, which has the types that it says.
    """
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


@handles("iree_linalg_ext.quantize_affine")
def _quantize(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    x, scale, *zero = _beside(op, operands)
    made, is_signed = op.operands[0].type, "storage_unsigned" not in op.attributes
    whole = np.rint(machine.rounded(wide(x) / wide(scale), made))
    if zero:
        whole = machine.rounded(wide(whole) + _zero_point(op, zero[0]), made)
    kept = wide(whole).clip(integer(op, "quant_min"), integer(op, "quant_max"))
    return scalars.to_integer(kept, machine.dtype(op.results[0].type), is_signed)


@handles("iree_linalg_ext.dequantize_affine")
def _dequantize(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    x, scale, *zero = _beside(op, operands)
    made, is_signed = op.results[0].type, "input_unsigned" not in op.attributes
    whole = wide(x if is_signed else scalars.unsigned(x))
    centred = whole - (_zero_point(op, zero[0]) if zero else 0)
    return machine.rounded(wide(machine.rounded(centred, made)) * wide(scale), made)


def _zero_point(op: ir.Operation, zero: np.ndarray) -> np.ndarray:
    return wide(scalars.unsigned(zero) if "zp_unsigned" in op.attributes else zero)


def _beside(op: ir.Operation, operands: list[Any]) -> list[np.ndarray]:
    """What the op reads, all in the order of its loops."""
    *labels, result = loops_of(op)
    if result != list(range(np.ndim(operands[-1]))):
        raise unknown(op, "with a result in another order")
    return [over(np.asarray(operand), own, result) for operand, own in zip(operands, labels, strict=False)]


@handles("iree_linalg_ext.topk")
def _topk(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    """Those of the given elements, and of what is there at first, that go before the others."""
    *given, values, places = operands
    axis = integer(op, "dimension")
    if len(given) == 1:
        shape = [-1 if each == axis else 1 for each in range(given[0].ndim)]
        numbers = np.arange(given[0].shape[axis], dtype=places.dtype).reshape(shape)
        given.append(np.broadcast_to(numbers, given[0].shape))
    joined = [np.concatenate(pair, axis) for pair in zip(given, (values, places), strict=True)]
    first = [slice(None)] * axis + [slice(values.shape[axis])]
    return [array[tuple(first)] for array in _sorted(machine, op, joined, 1)]


def _sorted(machine: Machine, op: ir.Operation, arrays: Sequence[np.ndarray], compared: int) -> list[Any]:
    """Arrays in the order that the op's body says, which compares the first so many of them.

    Neighbours are exchanged where the second goes before the first and not the first before the second, all even pairs
    at once and then all odd ones: what is equal stays in its order. NaN counts as the largest number, as in frameworks.
    """
    axis = integer(op, "dimension")
    lines = [np.moveaxis(array, axis, 0).copy() for array in arrays]

    def precedes(these: Sequence[np.ndarray], those: Sequence[np.ndarray]) -> np.ndarray:
        pairs = zip(these[:compared], those[:compared], strict=True)
        return np.asarray(machine.run_body(op, [each for pair in pairs for each in pair])[0], bool)

    alike = precedes(lines, lines)
    unordered, is_descending = np.zeros_like(alike), False
    if lines[0].dtype.kind == "f" and alike.any():
        unordered, extremes = ~alike, [[np.full_like(line, end) for line in lines] for end in (1, 0)]
        is_descending = bool(precedes(*extremes).all())
    lines.append(unordered)
    for turn in range(len(unordered)):
        first, second = [line[turn % 2 : -1 : 2] for line in lines], [line[turn % 2 + 1 :: 2] for line in lines]
        misplaced = second[-1] > first[-1] if is_descending else first[-1] > second[-1]
        follows = precedes(second, first) & ~precedes(first, second)
        exchanged = np.where(first[-1] | second[-1], misplaced, follows)
        for one, other in zip(first, second, strict=True):
            one[...], other[...] = np.where(exchanged, other, one), np.where(exchanged, one, other)
    return [np.moveaxis(line, 0, axis) for line in lines[:-1]]


HANDLERS["iree_linalg_ext.sort"] = lambda machine, op, given: _sorted(machine, op, given, len(given))
