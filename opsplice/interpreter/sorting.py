"""Sorts, and the first elements of them, as `iree_linalg_ext` has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from opsplice.interpreter.handlers import Machine, handles


@handles("iree_linalg_ext.sort")
def _sort(machine: Machine, op: ir.Operation, operands: list[Any]) -> Sequence[Any]:
    return _sorted(machine, op, operands)


@handles("iree_linalg_ext.topk")
def _topk(machine: Machine, op: ir.Operation, operands: list[Any]) -> Sequence[Any]:
    """Those of the given elements, and of what is there at first, that go before the others."""
    *given, values, places = operands
    axis = ir.IntegerAttr(op.attributes["dimension"]).value
    if len(given) == 1:
        shape = [-1 if each == axis else 1 for each in range(given[0].ndim)]
        numbers = np.arange(given[0].shape[axis], dtype=places.dtype).reshape(shape)
        given.append(np.broadcast_to(numbers, given[0].shape))
    joined = [np.concatenate(pair, axis) for pair in zip(given, (values, places), strict=True)]
    first = [slice(None)] * axis + [slice(values.shape[axis])]
    return [array[tuple(first)] for array in _sorted(machine, op, joined, 1)]


def _sorted(machine: Machine, op: ir.Operation, arrays: Sequence[np.ndarray], compared: int | None = None) -> list[Any]:
    """Arrays in the order that the op's body says, which compares all of them, or the first so many.

    Neighbours are exchanged where the second goes before the first and not the first before the second, all even pairs
    at once and then all odd ones: what is equal stays in its order. NaN counts as the largest number, as in frameworks.
    """
    axis = ir.IntegerAttr(op.attributes["dimension"]).value
    lines = [np.moveaxis(array, axis, 0).copy() for array in arrays]

    def precedes(these: Sequence[np.ndarray], those: Sequence[np.ndarray]) -> np.ndarray:
        pairs = zip(these[:compared], those[:compared], strict=True)
        return np.asarray(machine.run_body(op, [each for pair in pairs for each in pair])[0], bool)

    alike = precedes(lines, lines)
    unordered = np.zeros_like(alike)
    if lines[0].dtype.kind == "f" and alike.any():
        unordered, extremes = ~alike, [[np.full_like(line, end) for line in lines] for end in (1, 0)]
        is_descending = bool(precedes(*extremes).all())
    for turn in range(len(unordered)):
        first, second = ([line[start:end:2] for line in lines] for start, end in _neighbours(turn))
        first_unordered, second_unordered = (unordered[start:end:2] for start, end in _neighbours(turn))
        exchanged = precedes(second, first) & ~precedes(first, second)
        if unordered.any():
            misplaced = second_unordered > first_unordered if is_descending else first_unordered > second_unordered
            exchanged = np.where(first_unordered | second_unordered, misplaced, exchanged)
        for one, other in zip([*first, first_unordered], [*second, second_unordered], strict=True):
            one[...], other[...] = np.where(exchanged, other, one), np.where(exchanged, one, other)
    return [np.moveaxis(line, 0, axis) for line in lines]


def _neighbours(turn: int) -> tuple[tuple[int, int | None], tuple[int, int | None]]:
    """Where the first and the second of pairs begin and end."""
    return (turn % 2, -1), (turn % 2 + 1, None)
