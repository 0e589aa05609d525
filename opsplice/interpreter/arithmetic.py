"""arith and math, on scalars and whole tensors alike: the tables of `scalars`, and the ops that are more than a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from opsplice.interpreter import scalars
from opsplice.interpreter.elements import exact_dtype, is_float, rounded
from opsplice.interpreter.handlers import Machine, handles


def wide(value: Any) -> np.ndarray:
    """A float in f64, in which ops on floats are computed."""
    return np.asarray(value).astype(np.float64)


def signed(value: Any) -> np.ndarray:
    """An integer as it is; i1 as 0 and -1."""
    array = np.asarray(value)
    return -array.astype(np.int8) if array.dtype == np.bool_ else array


def wrapped(value: Any, dtype: np.dtype) -> np.ndarray:
    """An integer cut to the bits of a type."""
    array = np.asarray(value)
    return array % 2 == 1 if dtype == np.bool_ else array.astype(dtype)


@handles("arith.constant")
def _constant(machine: Machine, op: ir.Operation, operands: list[Any]) -> Sequence[Any]:
    return [machine.constant(op, "value")]


@handles(*scalars.FLOATS)
def _float(machine: Machine, op: ir.Operation, operands: list[Any]) -> Sequence[Any]:
    return [machine.rounded(scalars.FLOATS[op.name](*map(wide, operands)), op.results[0].type)]


@handles(*scalars.TESTS)
def _test(machine: Machine, op: ir.Operation, operands: list[Any]) -> Sequence[Any]:
    return [scalars.TESTS[op.name](wide(operands[0]))]


@handles(*scalars.INTEGERS)
def _integer(machine: Machine, op: ir.Operation, operands: list[Any]) -> Sequence[Any]:
    made = scalars.INTEGERS[op.name](*map(signed, operands))
    return [wrapped(made, machine.dtype(op.results[0].type))]


@handles("arith.cmpf")
def _compare_floats(machine: Machine, op: ir.Operation, operands: list[Any]) -> Sequence[Any]:
    predicate = ir.IntegerAttr(op.attributes["predicate"]).value
    return [scalars.FLOAT_PREDICATES[predicate](*map(wide, operands))]


@handles("arith.cmpi")
def _compare_integers(machine: Machine, op: ir.Operation, operands: list[Any]) -> Sequence[Any]:
    predicate = ir.IntegerAttr(op.attributes["predicate"]).value
    return [scalars.INTEGER_PREDICATES[predicate](*map(signed, operands))]


@handles("arith.select")
def _select(machine: Machine, op: ir.Operation, operands: list[Any]) -> Sequence[Any]:
    return [np.where(*operands)]


@handles("arith.extf", "arith.truncf")
def _resize_float(machine: Machine, op: ir.Operation, operands: list[Any]) -> Sequence[Any]:
    return [machine.rounded(operands[0], op.results[0].type)]


@handles("arith.extsi", "arith.trunci", "arith.index_cast")
def _resize_signed(machine: Machine, op: ir.Operation, operands: list[Any]) -> Sequence[Any]:
    return [wrapped(signed(operands[0]), machine.dtype(op.results[0].type))]


@handles("arith.extui", "arith.index_castui")
def _resize_unsigned(machine: Machine, op: ir.Operation, operands: list[Any]) -> Sequence[Any]:
    return [wrapped(_unsigned(operands[0]), machine.dtype(op.results[0].type))]


@handles("arith.sitofp")
def _to_float(machine: Machine, op: ir.Operation, operands: list[Any]) -> Sequence[Any]:
    return [_from_integer(machine, op, signed(operands[0]))]


@handles("arith.uitofp")
def _unsigned_to_float(machine: Machine, op: ir.Operation, operands: list[Any]) -> Sequence[Any]:
    return [_from_integer(machine, op, _unsigned(operands[0]))]


def _from_integer(machine: Machine, op: ir.Operation, value: np.ndarray) -> np.ndarray:
    dtype = machine.dtype(op.results[0].type)
    return value.astype(dtype) if dtype.itemsize >= 4 else rounded(value.astype(np.float64), dtype)


def _unsigned(value: Any) -> np.ndarray:
    array = np.asarray(value)
    return array.astype(np.uint8) if array.dtype == np.bool_ else scalars.unsigned(array)


@handles("arith.fptosi", "arith.fptoui")
def _to_integer(machine: Machine, op: ir.Operation, operands: list[Any]) -> Sequence[Any]:
    dtype = machine.dtype(op.results[0].type)
    return [scalars.to_integer(wide(operands[0]), dtype, op.name == "arith.fptosi")]


@handles("arith.bitcast", "tensor.bitcast")
def _bitcast(machine: Machine, op: ir.Operation, operands: list[Any]) -> Sequence[Any]:
    """Bits are those of the program's own type, whatever floats are computed in."""
    taken, made = op.operands[0].type, op.results[0].type
    bits = rounded(operands[0], exact_dtype(taken)) if is_float(taken) else np.asarray(operands[0])
    return [np.ascontiguousarray(bits).view(exact_dtype(made)).reshape(bits.shape).astype(machine.dtype(made))]
