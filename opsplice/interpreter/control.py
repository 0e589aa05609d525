"""Calls, control flow, and the ops at a program's boundary."""

from __future__ import annotations

from typing import Any

import numpy as np
from iree.compiler import ir

from opsplice.interpreter.handlers import HANDLERS, Machine, handles, integer, number
from opsplice.interpreter.problems import EvaluationError, unknown, wrong

HANDLERS["util.optimization_barrier"] = lambda _, op, given: given[: len(op.results)]
for _name in ("util.assume.int", "flow.tensor.transfer", "flow.tensor.tie_shape"):
    HANDLERS[_name] = HANDLERS["util.optimization_barrier"]
for _name in ("util.null", "hal.devices.get", "hal.fence.create", "hal.fence.await"):
    HANDLERS[_name] = lambda _, op, given: None


@handles("func.call", "util.call")
def _call(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    return machine.call(ir.FlatSymbolRefAttr(op.attributes["callee"]).value, operands)


@handles("scf.if")
def _if(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    region = 0 if number(op, operands[0]) else 1
    return machine.run_body(op, (), region) if len(op.regions[region].blocks) else []


@handles("scf.for")
def _for(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    low, high, step = (number(op, operand) for operand in operands[:3])
    if step <= 0:
        raise wrong(op, f"has the step {step}")
    carried = list(operands[3:])
    for at in range(low, high, step):
        carried = machine.run_body(op, [np.asarray(at), *carried])
    return carried


@handles("scf.while")
def _while(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    while True:
        goes_on, *carried = machine.run_body(op, operands)
        if not number(op, goes_on):
            return carried
        operands = machine.run_body(op, carried, 1)


@handles("util.global.load")
def _load(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    name = _name_of_global(op)
    held = machine.held()
    if name in machine.lost:
        raise EvaluationError(f"what @{name} holds is not known: {machine.lost[name]}", details=str(op.location))
    if name in held:
        return held[name]
    defined = machine.symbol(name)
    if "initial_value" not in defined.attributes:
        raise unknown(op, "of a global that nothing was stored in")
    return machine.constant(defined, "initial_value")


@handles("util.global.store")
def _store(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    name = _name_of_global(op)
    machine.held()[name] = operands[0]
    machine.lost.pop(name, None)
    return []


def _name_of_global(op: ir.Operation) -> str:
    return str(ir.FlatSymbolRefAttr(op.attributes["global"]).value)


@handles("cf.assert")
def _assert(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    """What is asserted of elements, in a dispatch, IREE does not check: such as a variance that is not negative."""
    if not machine.indices and not np.all(operands[0]):
        raise EvaluationError(f"the program asserts {op.attributes['msg']}", details=str(op.location))
    return []


@handles("hal.tensor.import", "hal.tensor.export", "hal.tensor.barrier")
def _boundary(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    """Fences come after the tensors, but for an import, which is of the first operand."""
    kinds = [result.type for result in op.results]
    return [machine.taken(operand, kind) for operand, kind in zip(operands, kinds, strict=False)]


@handles("hal.buffer_view.dim")
def _dim_of_view(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    shape, axis = np.shape(operands[0]), integer(op, "index")
    if axis >= len(shape):
        raise wrong(op, f"asks for axis {axis} of an array of rank {len(shape)}")
    return np.asarray(shape[axis])
