"""A first glance at a place: can any pattern hold there, by the names of the ops that its operands come from?

This reads the program itself, not views of it, and far less of it than a look does that could be remembered. It knows
the ops that views look through; what comes from any other op may be anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from opsplice.matchers.canonical import ASSOCIATIVE, MAY_VANISH, names_of
from opsplice.matchers.graph import Graph
from opsplice.matchers.index import Ends, Index, is_last
from opsplice.matchers.terms import Apply, Reduce

_DEEPEST = 16
_NOTHING: frozenset[str] = frozenset()
_UNSEEN: Any = object()
# The names of the ops that a pattern has right below its outermost op, None for what is no op.
_Needs = tuple[str | None, ...]
_ANYTHING: _Needs = ()
_VIEWS = frozenset({"tensor.expand_shape", "tensor.collapse_shape", "tensor.cast", "tensor.splat"})
_OPAQUE = frozenset({"tensor.empty", "arith.constant"})
# Ops of which a body, if they have one, makes each element.
_STRUCTURED = ("linalg.generic", "linalg.matmul", "linalg.batch_matmul", "linalg.transpose", "linalg.broadcast")


class Glance:
    """Whether a place is worth a look.

    local: the graphs of which the parts are known; any other may hold anywhere.
    partly: whether a place counts where only some of the ops below a pattern's outermost can be.
    """

    def __init__(self, index: Index, local: frozenset[Graph], partly: bool) -> None:
        self._index = index
        self._local = local
        self._partly = partly
        self._needs: dict[Ends, tuple[_Needs, ...]] = {}
        self._made: dict[ir.Value, frozenset[str] | None] = {}

    def forget(self) -> None:
        self._made.clear()

    def __len__(self) -> int:
        return len(self._made)

    def is_hopeless(self, op: ir.Operation, inner: ir.Operation) -> bool:
        """Whether no graph can hold at the one result of a structured op that has `inner` in its body."""
        ends = (op.name, inner.name)
        needs = self._needs.get(ends)
        if needs is None:
            needs = self._needs[ends] = self._needs_of(ends)
        if not is_last(inner):
            return False
        self._made[op.result] = _becoming(inner)  # what comes next will ask for it
        if _ANYTHING in needs:
            return False
        given = self._given(op, inner)
        if given is None:
            return False
        names = _NOTHING.union(*given)
        for need in needs:
            if all(name is None or name in names for name in need):
                return False
            if self._partly and any(name in at for name, at in zip(need, given, strict=False)):
                return False
        return True

    def _needs_of(self, ends: Ends) -> tuple[_Needs, ...]:
        """The names that each graph wants below its outermost op."""
        found: dict[_Needs, None] = {}
        for graph in self._index.starting_at(ends):
            node: Any = graph.results[0].node
            needs = _ANYTHING
            if graph in self._local and _name(node) == ends[1] and not _is_chain(node):
                below: Sequence[Any] = node.args if isinstance(node, Apply) else [node.body, node.body]
                needs = tuple(map(_name, below))
            found[_ANYTHING if not any(needs) else needs] = None
        return tuple(found)

    def _given(self, op: ir.Operation, inner: ir.Operation) -> list[frozenset[str]] | None:
        """For each operand of an op in a body the names of the ops that make it; None if they may be any."""
        block = op.regions[0].blocks[0]
        operands = list(op.operands)
        inputs = len(operands) - 1
        given: list[frozenset[str]] = []
        reduces = False
        for used in inner.operands:
            owner = used.owner
            if not isinstance(owner, ir.Block):
                made = _becoming(owner.operation) if owner.operation.block == block else self._made_by(used, _DEEPEST)
            elif owner != block:
                made = _NOTHING
            else:
                number = ir.BlockArgument(used).arg_number
                made = self._made_by(operands[number], _DEEPEST)
                reduces = reduces or number >= inputs
            if made is None:
                return None
            given.append(made)
        if reduces:  # it may be the last step of what it starts from and itself, in either order
            return [_NOTHING.union(*given, (inner.name,))] * len(given)
        return given

    def _made_by(self, value: ir.Value, depth: int) -> frozenset[str] | None:
        """The name of the op that makes an element of a value, through views, and names that it may become."""
        made = self._made.get(value, _UNSEEN)
        if made is _UNSEEN:
            made = self._made[value] = self._find(value, depth)
        return made

    def _find(self, value: ir.Value, depth: int) -> frozenset[str] | None:
        owner = value.owner
        if isinstance(owner, ir.Block):
            return _NOTHING
        op = owner.operation
        name = op.name
        if name in _OPAQUE:
            return _NOTHING
        if name in _VIEWS:
            return self._made_by(op.operands[0], depth - 1) if depth else None
        if name.startswith(("arith.", "math.")):
            return _becoming(op)
        if name == "linalg.fill":
            return self._made_by(op.operands[0], depth - 1) if depth else None
        if name not in _STRUCTURED or len(op.results) != 1:
            return None
        block = op.regions[0].blocks[0]
        body = block.operations
        last = body[len(body) - 1].operation.operands[0]
        owner = last.owner
        if not isinstance(owner, ir.Block):
            made = owner.operation
            return _becoming(made) if made.block == block else self._made_by(last, depth - 1) if depth else None
        if owner != block:
            return _NOTHING
        return self._made_by(op.operands[ir.BlockArgument(last).arg_number], depth - 1) if depth else None


def _name(node: Any) -> str | None:
    if isinstance(node, Apply):
        return node.op
    return node.combiner if isinstance(node, Reduce) else None


def _is_chain(node: Any) -> bool:
    """Whether operands of an op may be grouped otherwise in the program."""
    return isinstance(node, Apply) and node.op in ASSOCIATIVE and any(_name(arg) == node.op for arg in node.args)


def _becoming(op: ir.Operation) -> frozenset[str] | None:
    name = op.name
    if name in MAY_VANISH:
        return None
    names = _SINGLE.get(name)
    if names is None:
        names = _SINGLE[name] = frozenset(names_of(name))
    return names


_SINGLE: dict[str, frozenset[str]] = {"arith.constant": _NOTHING}
