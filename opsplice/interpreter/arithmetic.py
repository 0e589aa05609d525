"""arith and math, on scalars and whole tensors alike: the tables of `scalars`, and the ops that are more than a row."""

from __future__ import annotations

from typing import Any

import numpy as np
from iree.compiler import ir

from opsplice.interpreter import scalars
from opsplice.interpreter.elements import exact_dtype, is_float, rounded
from opsplice.interpreter.handlers import HANDLERS, Handler, Machine, handles, integer


def wide(value: Any) -> np.ndarray:
    """A float in f64, in which ops on floats are computed."""
    return np.asarray(value).astype(np.float64)


def signed(value: Any) -> np.ndarray:
    """An integer as it is; i1 as 0 and -1."""
    array = np.asarray(value)
    return -array.astype(np.int8) if array.dtype == np.bool_ else array


def _unsigned(value: Any) -> np.ndarray:
    array = np.asarray(value)
    return array.astype(np.uint8) if array.dtype == np.bool_ else scalars.unsigned(array)


def _wrapped(machine: Machine, op: ir.Operation, value: np.ndarray) -> np.ndarray:
    """An integer cut to the bits of the result's type."""
    dtype = machine.dtype(op.results[0].type)
    return value % 2 == 1 if dtype == np.bool_ else value.astype(dtype)


def _converted(machine: Machine, op: ir.Operation, value: np.ndarray) -> np.ndarray:
    """An integer as a float of the result's type."""
    dtype = machine.dtype(op.results[0].type)
    return value.astype(dtype) if dtype.itemsize >= 4 else rounded(value.astype(np.float64), dtype)


def _rounded(machine: Machine, op: ir.Operation, value: Any) -> np.ndarray:
    return machine.rounded(value, op.results[0].type)


_ROWS: dict[tuple[str, ...], Handler] = {
    ("arith.constant",): lambda machine, op, _: machine.constant(op, "value"),
    ("arith.select",): lambda _, op, given: np.where(*given),
    tuple(scalars.FLOATS): lambda machine, op, given: _rounded(machine, op, scalars.FLOATS[op.name](*map(wide, given))),
    tuple(scalars.TESTS): lambda _, op, given: scalars.TESTS[op.name](wide(given[0])),
    tuple(scalars.INTEGERS): lambda machine, op, given: _wrapped(
        machine, op, np.asarray(scalars.INTEGERS[op.name](*map(signed, given)))
    ),
    ("arith.cmpf",): lambda _, op, given: scalars.FLOAT_PREDICATES[integer(op, "predicate")](*map(wide, given)),
    ("arith.cmpi",): lambda _, op, given: scalars.INTEGER_PREDICATES[integer(op, "predicate")](*map(signed, given)),
    ("arith.extf", "arith.truncf"): lambda machine, op, given: _rounded(machine, op, given[0]),
    ("arith.extsi", "arith.trunci", "arith.index_cast"): lambda machine, op, given: _wrapped(
        machine, op, signed(given[0])
    ),
    ("arith.extui", "arith.index_castui"): lambda machine, op, given: _wrapped(machine, op, _unsigned(given[0])),
    ("arith.sitofp",): lambda machine, op, given: _converted(machine, op, signed(given[0])),
    ("arith.uitofp",): lambda machine, op, given: _converted(machine, op, _unsigned(given[0])),
    ("arith.fptosi", "arith.fptoui"): lambda machine, op, given: scalars.to_integer(
        wide(given[0]), machine.dtype(op.results[0].type), op.name == "arith.fptosi"
    ),
}
HANDLERS.update((name, handler) for names, handler in _ROWS.items() for name in names)


@handles("arith.bitcast", "tensor.bitcast")
def _bitcast(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    """Bits are those of the program's own type, whatever floats are computed in."""
    taken, made = op.operands[0].type, op.results[0].type
    bits = rounded(operands[0], exact_dtype(taken)) if is_float(taken) else np.asarray(operands[0])
    return np.ascontiguousarray(bits).view(exact_dtype(made)).reshape(bits.shape).astype(machine.dtype(made))
