"""Sorts, and the first elements of them, as `iree_linalg_ext` has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from opsplice.interpreter.handlers import HANDLERS, Machine, handles, integer


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
