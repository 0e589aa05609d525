"""An action of a transform spec: the function that it calls with what, or the attributes that it sets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from opsplice.matchers.capture.opaque_ops import attribute_text
from opsplice.rewrites.transform_dialect.importing.handles import Asked, Handle, NamedOp, Value, block_of, follow
from opsplice.rewrites.transform_dialect.importing.not_importable import UnreadableError

_IDLE = frozenset(
    {
        "transform.util.get_nearest_symbol_table",
        "transform.type_conversion.tensor.cast_shape_dynamic_dims",
        "transform.print",
        "transform.debug.emit_remark_at",
        "transform.yield",
    }
)
_ATTRIBUTE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")


@dataclass(frozen=True)
class Action:
    """What an action does: `called` with values, or `attributes` that it sets on the root.

    called: the function's symbol, "" for none. passed: the values that it is called with. attributes: by name, as
    `.splice` files write them. result: which result of the root a call replaces.
    """

    called: str
    passed: tuple[Value, ...]
    attributes: Mapping[str, str]
    result: int


def read_action(sequence: ir.Operation, given: Sequence[Handle | None], root: Handle) -> Action:
    """given: what the matcher's results stand for. root: the op that is matched.

    Raises UnreadableError for what rules have no words for.
    """
    return _Reader(sequence, given, root).read()


class _Reader:
    def __init__(self, sequence: ir.Operation, given: Sequence[Handle | None], root: Handle) -> None:
        self.sequence = sequence
        self.root = root
        block = block_of(sequence)
        self.ops = [op.operation for op in block.operations]
        self.handles = {a: g for a, g in zip(block.arguments, given, strict=True) if g is not None}
        self.imported: dict[ir.Value, str] = {}
        self.attributes: dict[str, str] = {}

    def read(self) -> Action:
        called: list[tuple[str, tuple[Value, ...], int]] = []
        for op in self.ops:
            if op.name == "transform.util.import_symbol":
                self.imported[op.results[0]] = ir.FlatSymbolRefAttr(op.attributes["symbol"]).value
            elif op.name in ("transform.util.cast_and_call", "transform.func.cast_and_call"):
                called.append(self._call(op))
            elif op.name == "transform.annotate":
                self._annotate(op)
            elif op.name not in _IDLE and not follow(op, self.handles):
                raise UnreadableError(op, "an action of a kind that rules have no words for")
        if len(called) + bool(self.attributes) != 1:
            raise UnreadableError(self.sequence, "an action that does other than one call or setting attributes")
        function, passed, result = called[0] if called else ("", (), 0)
        return Action(function, passed, self.attributes, result)

    def _call(self, op: ir.Operation) -> tuple[str, tuple[Value, ...], int]:
        given = [self.handles.get(v) for v in op.operands if v in self.handles]
        functions = [self.imported[v] for v in op.operands if v in self.imported]
        if "function_name" in op.attributes:
            functions.append(ir.SymbolRefAttr(op.attributes["function_name"]).value[-1])
        values = [g for g in given if isinstance(g, tuple)]
        if len(functions) != 1 or len(values) != 2:
            raise UnreadableError(op, "a call of no imported function, or with handles that stand for nothing known")
        passed, replaced = values
        result = self._result(replaced[0]) if len(replaced) == 1 else None
        if result is None:
            raise UnreadableError(op, "a call that replaces other than the root's result")
        if any(isinstance(value, Asked) and value.is_result for value in passed):
            raise UnreadableError(op, "a call that is passed what the op makes")
        return functions[0], passed, result

    def _result(self, value: Value) -> int | None:
        """Which result of the root a value is; of an op by its name any, of a template's the first."""
        if isinstance(value, Asked):
            return value.number if value.is_result else None
        return 0 if isinstance(self.root, ir.Operation) and value == self.root.results[0] else None

    def _annotate(self, op: ir.Operation) -> None:
        target = self.handles.get(op.operands[0])
        if not isinstance(target, (ir.Operation, NamedOp)) or target != self.root:
            raise UnreadableError(op, "an attribute of another op than the root")
        name, text = attribute_set(op, self.handles)
        self.attributes[name] = text


def attribute_set(op: ir.Operation, handles: Mapping[ir.Value, Handle]) -> tuple[str, str]:
    """What a `transform.annotate` sets: the attribute's name, and how `annotate` says it."""
    name = ir.StringAttr(op.attributes["name"]).value
    if not _ATTRIBUTE.fullmatch(name):
        raise UnreadableError(op, f'the name "{name}", which is more than two words and a dot')
    if len(op.operands) == 1:
        return name, name
    value = handles.get(op.operands[1])
    if not isinstance(value, ir.Attribute):
        raise UnreadableError(op, "a value that is not a constant parameter")
    return name, f"{name} = {_set_text(value)}"


def _set_text(value: ir.Attribute) -> str:
    """An attribute as `annotate` sets it: integers there are of 64 bits, and floats of no type."""
    is_typed = isinstance(value, ir.FloatAttr) or (isinstance(value, ir.IntegerAttr) and str(value.type) != "i64")
    return attribute_text(value, exactly=is_typed)
