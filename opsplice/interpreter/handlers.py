"""Functions and blocks: every op finds its handler by name, and works on arrays.

A block of a linalg op, of `tensor.generate` and of `tensor.pad` runs once for many places at a time: its scalars are
then arrays over the loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from iree.compiler import ir

from opsplice.interpreter.elements import DYNAMIC, Parameters, constant, exact_dtype, is_float, rounded
from opsplice.interpreter.problems import EvaluationError, unknown, wrong

# `handler(machine, op, operands)` gives the result, or a list of several.
Handler = Callable[["Machine", ir.Operation, list[Any]], Any]
HANDLERS: dict[str, Handler] = {}

_YIELDS = ("linalg.yield", "tensor.yield", "scf.yield", "iree_linalg_ext.yield")
_TERMINATORS = ("func.return", "util.return", "scf.condition", *_YIELDS)


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Makes a function the handler of ops, or with `linalg.` of all of a dialect that have none of their own."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return register


@dataclass(frozen=True)
class _Decoded:
    """An op with its handler and operands, so that a block that runs often reads MLIR once."""

    op: ir.Operation
    handler: Handler | None
    operands: tuple[ir.Value, ...]
    results: tuple[ir.Value, ...]

    @cached_property
    def is_by_element(self) -> bool:
        """Whether it computes a tensor from others of its shape."""
        on_tensors = bool(self.results) and isinstance(self.results[0].type, ir.RankedTensorType)
        return on_tensors and self.op.name.startswith(("arith.", "math."))


@dataclass
class Machine:
    """A module, what its globals hold from call to call, and the values of the function that runs.

    indices: the loops of the blocks that run, innermost last, each an array that broadcasts over the others.
    stored: what was stored in globals; None before the first of them is asked for.
    lost: why it is not known what globals hold, by their names.
    """

    module: ir.Operation
    floats: np.dtype | None
    parameters: Parameters = field(default_factory=dict)
    values: dict[ir.Value, Any] = field(default_factory=dict)
    indices: list[Sequence[Any]] = field(default_factory=list)
    stored: dict[str, Any] | None = None
    lost: dict[str, str] = field(default_factory=dict)
    _blocks: dict[ir.Block, list[_Decoded]] = field(default_factory=dict)
    _constants: dict[ir.Operation, np.ndarray] = field(default_factory=dict)

    def dtype(self, kind: ir.Type) -> np.dtype:
        """The numpy type in which elements of an MLIR type are computed."""
        return self.floats if self.floats is not None and is_float(kind) else exact_dtype(kind)

    def rounded(self, value: Any, kind: ir.Type) -> np.ndarray:
        """Floats in the type of a result."""
        return rounded(np.asarray(value), self.dtype(kind))

    def symbol(self, name: str) -> ir.Operation:
        """The op at the top of the module that defines a symbol. Raises EvaluationError if there is none."""
        for op in self.module.regions[0].blocks[0].operations:
            attributes = op.operation.attributes
            if "sym_name" in attributes and ir.StringAttr(attributes["sym_name"]).value == name:
                return op.operation
        raise EvaluationError(f"the module has no symbol '@{name}'")

    def call(self, function: str, inputs: list[Any]) -> list[Any]:
        op = self.symbol(function)
        if not op.regions or not op.regions[0].blocks:
            raise EvaluationError(f"function '@{function}' has no body to evaluate")
        parameters = list(op.regions[0].blocks[0].arguments)
        if len(parameters) != len(inputs):
            raise EvaluationError(f"function '@{function}' takes {len(parameters)} inputs, {len(inputs)} were given")
        return self._called(op, [self.taken(each, p.type) for each, p in zip(inputs, parameters, strict=True)])

    def _called(self, op: ir.Operation, arguments: Sequence[Any]) -> list[Any]:
        """What a body gives back that sees no value of others."""
        outer, self.values = self.values, {}
        try:
            return self.run_body(op, arguments)
        finally:
            self.values = outer

    def held(self) -> dict[str, Any]:
        """What was stored in globals by now, at first by the module's initializers."""
        if self.stored is None:
            self.stored = {}
            try:
                for op in self._top("util.initializer"):
                    self._called(op, [])
            except EvaluationError:
                self.stored = None
                raise
        return self.stored

    def lose(self, why: str) -> None:
        """Forget what globals hold that functions may store in."""
        names = [op.attributes["sym_name"] for op in self._top("util.global") if "is_mutable" in op.attributes]
        self.lost.update((ir.StringAttr(name).value, why) for name in names)

    def _top(self, name: str) -> list[ir.Operation]:
        """The ops of a name at the top of the module."""
        operations = (op.operation for op in self.module.regions[0].blocks[0].operations)
        return [op for op in operations if op.name == name]

    def taken(self, value: Any, kind: ir.Type) -> Any:
        """A value that comes from outside, as the type that the program says it has."""
        if not isinstance(kind, (ir.RankedTensorType, ir.FloatType, ir.IntegerType, ir.IndexType)):
            return value
        array = np.asarray(value)
        shape = tuple(kind.shape) if isinstance(kind, ir.RankedTensorType) else ()
        if len(shape) != array.ndim or any(n not in (m, DYNAMIC) for m, n in zip(array.shape, shape, strict=True)):
            raise EvaluationError(f"an array of shape {array.shape} is not {kind}")
        return rounded(array, self.dtype(kind)) if is_float(kind) else array.astype(self.dtype(kind))

    def run_body(self, op: ir.Operation, arguments: Sequence[Any], region: int = 0) -> list[Any]:
        """What the block of an op's region gives back."""
        blocks = list(op.regions[region].blocks)
        if len(blocks) != 1:
            raise unknown(op, "with several blocks")
        return self.run(blocks[0], arguments)

    def run(self, block: ir.Block, arguments: Sequence[Any]) -> list[Any]:
        """What the terminator of a block is given."""
        if block not in self._blocks:
            self._blocks[block] = [_decoded(op.operation) for op in block.operations]
        values = self.values
        values.update(zip(block.arguments, arguments, strict=True))
        for each in self._blocks[block]:
            operands = [values[operand] for operand in each.operands]
            if each.handler is None:
                return operands
            if each.is_by_element and len({np.shape(operand) for operand in operands} - {()}) > 1:
                raise wrong(each.op, f"combines tensors of shapes {', '.join(str(np.shape(o)) for o in operands)}")
            made = each.handler(self, each.op, operands)
            values.update(zip(each.results, made if isinstance(made, list) else [made], strict=True))
        return []

    def constant(self, op: ir.Operation, name: str) -> np.ndarray:
        if op not in self._constants:
            value = constant(op.attributes[name], self.module, self.parameters)
            is_wide = self.floats is not None and value.dtype.kind in "fV"
            self._constants[op] = value.astype(self.floats) if is_wide else value
        return self._constants[op]


def _decoded(op: ir.Operation) -> _Decoded:
    mode = op.attributes.get("roundingmode", None)
    if mode is not None and ir.IntegerAttr(mode).value:
        raise unknown(op, "with a rounding mode")
    dialect = op.name.partition(".")[0] + "."
    handler = None if op.name in _TERMINATORS else HANDLERS.get(op.name) or HANDLERS.get(dialect, _unknown)
    return _Decoded(op, handler, tuple(op.operands), tuple(op.results))


def _unknown(machine: Machine, op: ir.Operation, operands: list[Any]) -> Any:
    raise unknown(op)


def integer(op: ir.Operation, name: str) -> int:
    """The number that an attribute is."""
    return int(ir.IntegerAttr(op.attributes[name]).value)


def number(op: ir.Operation, value: Any) -> int:
    """A scalar as an int. Raises EvaluationError where it is one for each place."""
    if np.ndim(value):
        raise unknown(op, "on a scalar that differs from place to place")
    return int(value)
