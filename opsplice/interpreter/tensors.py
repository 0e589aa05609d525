"""tensor: ops that make, read, cut, join and reshape whole tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from opsplice.interpreter.elements import DYNAMIC, attribute_numbers, undefined
from opsplice.interpreter.handlers import HANDLERS, Handler, Machine, handles, integer, number
from opsplice.interpreter.problems import unknown, wrong
from opsplice.interpreter.structured import at


def _mixed(op: ir.Operation, name: str, dynamic: Iterator[Any]) -> list[int]:
    """Numbers of which an attribute holds the known ones and operands the others."""
    static = attribute_numbers(op.attributes[name])
    return [number(op, next(dynamic)) if each == DYNAMIC else each for each in static]


def _shape(op: ir.Operation, given: Sequence[Any]) -> tuple[int, ...]:
    """The shape of the result, of whose open sizes the values are given."""
    sizes = iter(given)
    return tuple(number(op, next(sizes)) if size == DYNAMIC else size for size in op.results[0].type.shape)


@handles("tensor.dim")
def _dim(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    tensor, axis = operands[0], number(op, operands[1])
    if not 0 <= axis < tensor.ndim:
        raise wrong(op, f"asks for axis {axis} of a tensor of rank {tensor.ndim}")
    return np.asarray(tensor.shape[axis])


@handles("tensor.insert")
def _insert(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    made = np.array(operands[1])
    place = tuple(number(op, each) for each in operands[2:])
    at(op, made, place)
    made[place] = operands[0]
    return made


@handles("tensor.extract_slice")
def _extract_slice(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    made = at(op, operands[0], _places(op, iter(operands[1:])))
    return made.reshape(_without_units(op, made.shape))


@handles("tensor.insert_slice")
def _insert_slice(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    made = np.array(operands[1])
    places = _places(op, iter(operands[2:]))
    made[places] = _reshaped(op, operands[0], at(op, made, places).shape)
    return made


def _places(op: ir.Operation, dynamic: Iterator[Any]) -> tuple[np.ndarray, ...]:
    """The indices of a slice, one array for each axis."""
    offsets, sizes, strides = (_mixed(op, f"static_{name}", dynamic) for name in ("offsets", "sizes", "strides"))
    return np.ix_(*(a + np.arange(n) * by for a, n, by in zip(offsets, sizes, strides, strict=True)))


def _without_units(op: ir.Operation, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a slice without the dims of size one that its type leaves out."""
    wanted, spare = list(op.results[0].type.shape), len(shape) - op.results[0].type.rank
    static = attribute_numbers(op.attributes["static_sizes"])
    kept: list[int] = []
    for size, known in zip(shape, static, strict=True):
        if spare and known == 1 and (len(kept) == len(wanted) or wanted[len(kept)] != 1):
            spare -= 1
        else:
            kept.append(size)
    return tuple(kept)


@handles("tensor.pad")
def _pad(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    source, dynamic = operands[0], iter(operands[1:])
    low, high = _mixed(op, "static_low", dynamic), _mixed(op, "static_high", dynamic)
    if min([*low, *high, 0]) < 0:
        raise unknown(op, "with a negative width")
    made = _filled(machine, op, tuple(a + n + b for a, n, b in zip(low, source.shape, high, strict=True)))
    made[tuple(slice(a, a + n) for a, n in zip(low, source.shape, strict=True))] = source
    return made


def _filled(machine: Machine, op: ir.Operation, shape: tuple[int, ...]) -> np.ndarray:
    """What an op's body makes of the indices of each place."""
    indices = list(np.ogrid[tuple(slice(0, size) for size in shape)]) if shape else []
    return np.array(np.broadcast_to(machine.run_body(op, indices)[0], shape))


@handles("tensor.collapse_shape")
def _collapse(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    shape = operands[0].shape
    groups = [attribute_numbers(group) for group in op.attributes["reassociation"]]
    return operands[0].reshape([math.prod(shape[axis] for axis in group) for group in groups])


@handles("flow.tensor.reshape")
def _flow_reshape(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    known = sum(size == DYNAMIC for size in op.operands[0].type.shape)
    return _reshaped(op, operands[0], _shape(op, operands[1 + known :]))


def _reshaped(op: ir.Operation, tensor: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    if math.prod(shape) != tensor.size:
        raise wrong(op, f"makes shape {tuple(shape)} of {tensor.shape}")
    return tensor.reshape(shape)


@handles("iree_linalg_ext.scatter")
def _scatter(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    """Each slice of the updates goes to the place that its index says, in order; the body says what becomes of both."""
    if len(operands) != 3:
        raise unknown(op, "with these operands")
    updates, indices, original = operands
    dims = list(ir.DenseI64ArrayAttr(op.attributes["dimension_map"]))
    many = indices.ndim - (indices.shape[-1:] == (len(dims),))  # the dim of one index may be left out
    batch = indices.shape[:many]
    slices, places = updates.reshape(-1, *updates.shape[many:]), indices.reshape(-1, len(dims))
    if updates.shape[:many] != batch or len(slices) != len(places):
        raise unknown(op, "with these shapes")
    made = original.copy()
    for update, place in zip(slices, places, strict=True):
        start = np.zeros(made.ndim, np.int64)
        start[dims] = place
        sizes = (1,) * (made.ndim - update.ndim) + update.shape
        if (start < 0).any() or (start + sizes > made.shape).any():
            raise wrong(op, f"writes at {place.tolist()} of a tensor of shape {made.shape}")
        there = tuple(slice(first, first + size) for first, size in zip(start, sizes, strict=True))
        made[there] = machine.run_body(op, [update.reshape(sizes), made[there]])[0]
    return made


_ROWS: dict[str, Handler] = {
    "flow.tensor.splat": lambda _, op, given: np.full(_shape(op, given[1:]), given[0]),
    "tensor.cast": lambda machine, op, given: machine.taken(given[0], op.results[0].type),
    "tensor.concat": lambda _, op, given: np.concatenate(given, axis=integer(op, "dim")),
    "tensor.empty": lambda machine, op, given: undefined(_shape(op, given), machine.dtype(op.results[0].type)),
    "tensor.expand_shape": lambda _, op, given: _reshaped(
        op, given[0], _mixed(op, "static_output_shape", iter(given[1:]))
    ),
    "tensor.extract": lambda _, op, given: at(op, given[0], np.broadcast_arrays(*given[1:])),
    "tensor.from_elements": lambda machine, op, given: np.array(given, machine.dtype(op.results[0].type)).reshape(
        _shape(op, ())
    ),
    "tensor.generate": lambda machine, op, given: _filled(machine, op, _shape(op, given)),
    "tensor.rank": lambda _, op, given: np.asarray(given[0].ndim),
    "tensor.reshape": lambda _, op, given: _reshaped(op, given[0], [int(size) for size in given[1]]),
    "tensor.splat": lambda _, op, given: np.full(_shape(op, given[1:]), given[0]),
}
HANDLERS.update(_ROWS)
