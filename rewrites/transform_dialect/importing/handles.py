"""What the handles of a transform spec stand for, and the ops that go from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from iree.compiler import ir

from opsplice.rewrites.transform_dialect.importing import includes
from opsplice.rewrites.transform_dialect.importing.not_importable import UnreadableError

_NAVIGATION = frozenset(
    f"transform.{name}"
    for name in ("get_defining_op", "get_operand", "get_producer_of_operand", "get_result", "merge_handles")
)
ANY = "*.*"
# What the interpreter compares by its name alone in a template.
NAME_ONLY = "match.operation_name_only"
_MOST_OPERANDS = 1000


@dataclass(eq=False)
class Asked:
    """An operand or result of an op of which only the name is known, and what is asked of it.

    number: its place; position: its place among all operands that are asked for, those of the root first. kind: the
    type that it has to be compatible with; element: at least the type of its elements. axes: the names of its dims, by
    their place. producer: what makes it.
    """

    number: int
    is_result: bool
    position: int
    kind: ir.Type | None = None
    element: str = ""
    axes: dict[int, str] = field(default_factory=dict)
    producer: NamedOp | None = None


@dataclass(eq=False)
class NamedOp:
    """An op of one of some names, and what is asked of its operands and results.

    absent: attributes that it lacks. body: what its one region holds, as MLIR, if that is asked. first: the position of
    its first operand. counts: how many loops, inputs and inits a structured op has (`rank`, `num_inputs`, `num_inits`).
    loops: the questions for the kinds of its loops.
    """

    names: tuple[str, ...]
    op: ir.Operation
    absent: list[str] = field(default_factory=list)
    body: str | None = None
    first: int = 0
    values: dict[tuple[bool, int], Asked] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    loops: list[ir.Operation] = field(default_factory=list)

    def value(self, number: int, is_result: bool) -> Asked:
        return self.values.setdefault((is_result, number), Asked(number, is_result, self.first + number))

    def producer(self, number: int, op: ir.Operation) -> NamedOp:
        """What makes an operand: any op, until more is asked of it."""
        value = self.value(number, is_result=False)
        if value.producer is None:
            value.producer = NamedOp((ANY,), op, first=_MOST_OPERANDS * (value.position + 1))
        return value.producer


# A value of a template, or of an op that is known by its name only.
Value: TypeAlias = ir.Value | Asked
# What a handle stands for: an op, a tuple of values, or for a parameter an attribute.
Handle = Any


def block_of(sequence: ir.Operation) -> ir.Block:
    """The body of a named sequence. Raises UnreadableError for one that has none, or that includes another."""
    includes.check(sequence)
    if sequence.name != "transform.named_sequence" or not len(sequence.regions[0].blocks):
        raise UnreadableError(sequence, "no sequence with a body")
    return sequence.regions[0].blocks[0]


def argument_of(value: Value) -> int | None:
    """Which argument of the template, or operand of the named op, a value is; None for what ops make."""
    if isinstance(value, Asked):
        return None if value.is_result else value.position
    return ir.BlockArgument(value).arg_number if isinstance(value.owner, ir.Block) else None


def follow(op: ir.Operation, handles: dict[ir.Value, Handle]) -> bool:
    """Note what the results of a navigating op stand for. Whether it is such an op."""
    source = handles.get(op.operands[0]) if len(op.operands) else None
    if op.name == "transform.param.constant":
        handles[op.results[0]] = op.attributes["value"]
    elif op.name == "transform.merge_handles":
        merged = [handles.get(v) for v in op.operands]
        handles[op.results[0]] = tuple(v for m in merged if isinstance(m, tuple) for v in m)
    elif op.name == "transform.get_defining_op" and isinstance(source, tuple) and len(source) == 1:
        if argument_of(source[0]) is None and isinstance(source[0], ir.Value):
            handles[op.results[0]] = source[0].owner.operation
    elif op.name == "transform.get_producer_of_operand" and isinstance(source, NamedOp):
        handles[op.results[0]] = source.producer(ir.IntegerAttr(op.attributes["operand_number"]).value, op)
    elif op.name == "transform.get_producer_of_operand" and isinstance(source, ir.Operation):
        value = source.operands[ir.IntegerAttr(op.attributes["operand_number"]).value]
        if not isinstance(value.owner, ir.Block):
            handles[op.results[0]] = value.owner.operation
    elif op.name in ("transform.get_operand", "transform.get_result") and source is not None:
        handles[op.results[0]] = _picked(op, source)
    else:
        return op.name in _NAVIGATION
    return True


def _picked(op: ir.Operation, source: Handle) -> tuple[Value, ...] | None:
    positions = list(ir.DenseI64ArrayAttr(op.attributes["raw_position_list"]))
    is_result = op.name == "transform.get_result"
    if isinstance(source, NamedOp):
        if "is_all" in op.attributes or "is_inverted" in op.attributes or min(positions) < 0:
            raise UnreadableError(op, "operands or results that are not named by their place from the start")
        return tuple(source.value(i, is_result) for i in positions)
    if not isinstance(source, ir.Operation):
        return None
    values = source.results if is_result else source.operands
    every = range(len(values))
    if "is_all" in op.attributes:
        return tuple(values)
    if "is_inverted" in op.attributes:
        left_out = {every[i] for i in positions}
        return tuple(values[i] for i in every if i not in left_out)
    return tuple(values[every[i]] for i in positions)


def asked_of_dim(op: ir.Operation, dim_of: Callable[[int], str]) -> list[str]:
    """The conditions that an op asks for. dim_of: the name of a dim of the value that it checks, by its axis."""
    if op.name not in ("transform.iree.match.dim_bounds", "transform.iree.match.dim_is_multiple_of"):
        raise UnreadableError(op, "a check that patterns have no words for")
    dim = dim_of(ir.IntegerAttr(op.attributes["dim"]).value)
    found = []
    if op.name == "transform.iree.match.dim_is_multiple_of":
        found.append(f"{dim} % {ir.IntegerAttr(op.attributes['size']).value} == 0")
    for name, comparison in (("lower_bound", ">="), ("upper_bound", "<=")):
        if name in op.attributes:
            found.append(f"{dim} {comparison} {ir.IntegerAttr(op.attributes[name]).value}")
    return found


def value_of(op: ir.Operation, handles: Mapping[ir.Value, Handle]) -> Value:
    """The one value that a check is of."""
    values = handles.get(op.operands[0])
    if not isinstance(values, tuple) or len(values) != 1:
        raise UnreadableError(op, "a check of a handle that stands for nothing known")
    found: Value = values[0]
    return found
