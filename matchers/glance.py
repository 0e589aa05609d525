"""A first glance at a place: can any pattern hold there, by the names of the ops that its operands come from?

This reads the program itself, not views of it, and far less of it than a look does that could be remembered. It knows
the ops that views look through; what comes from any other op may be anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from iree.compiler import ir

from opsplice.matchers.canonical import ASSOCIATIVE, BECOMES, FOLDED, MAY_VANISH, names_of
from opsplice.matchers.graph import Graph
from opsplice.matchers.index import Ends, Index, is_last
from opsplice.matchers.terms import Apply, Reduce

_DEEPEST = 16
_NOTHING: frozenset[str] = frozenset()
_UNSEEN: Any = object()
# Among the names of ops: a number, or what may be folded to one; and before those that an op may only be read as.
_NUMBER, _READ = "a number", "as "
# For what a pattern has right below its outermost op the names one of which it must go by, None for what is no op.
_Needs = tuple[frozenset[str] | None, ...]
# Where an op is read as another: which operands of the other are operands of it, in whatever place, so that an operand
# that is an op of the pattern's must be among them (`canonical.readings`); and what one of its own must come from.
_READ_FROM: dict[tuple[str | None, str | None], tuple[int, ...]] = {
    ("arith.mulf", "arith.divf"): (0,),
    ("arith.divf", "arith.mulf"): (0, 1),
    ("arith.addf", "arith.subf"): (0,),
    ("arith.subf", "arith.addf"): (0, 1),
    ("arith.negf", "arith.subf"): (1,),
    ("arith.negf", "arith.mulf"): (0, 1),
    **{(f"arith.{name}", "arith.negf"): (0,) for name in ("mulf", "divf", "subf")},
}
_READ_WITH: dict[tuple[str | None, str | None], frozenset[str]] = {
    ("arith.mulf", "arith.divf"): frozenset({"math.rsqrt", "arith.divf", _NUMBER}),
    ("arith.mulf", "arith.negf"): frozenset({_NUMBER}),
    ("arith.divf", "arith.negf"): frozenset({_NUMBER}),
    ("arith.subf", "arith.negf"): frozenset({_NUMBER}),
    ("arith.addf", "arith.subf"): frozenset({"arith.negf", _NUMBER}),
    ("arith.addf", "math.fma"): frozenset({"arith.mulf"}),
}
_ANYTHING: _Needs = ()
_VIEWS = frozenset({"tensor.expand_shape", "tensor.collapse_shape", "tensor.cast", "tensor.splat"})
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
        below, reduces = self._below(op, inner)
        self._made[op.result] = _going_by(inner, below)  # what comes next will ask for it
        if _ANYTHING in needs:
            return False
        given = [made for made in below if made is not None]
        if len(given) < len(below):
            return False
        if reduces:  # it may be the last step of what it starts from and itself, in either order
            given = [_NOTHING.union(*given, (inner.name,))] * len(given)
        names = _NOTHING.union(*given)
        for need in needs:
            if all(part is None or not part.isdisjoint(names) for part in need):
                return False
            if self._partly and any(part and not part.isdisjoint(at) for part, at in zip(need, given, strict=False)):
                return False
        return True

    def _needs_of(self, ends: Ends) -> tuple[_Needs, ...]:
        """The names that each graph wants below its outermost op."""
        found: dict[_Needs, None] = {}
        for graph in self._index.starting_at(ends):
            node: Any = graph.results[0].node
            needs = _ANYTHING
            if graph in self._local and _is_chain(node):
                # Another step of the chain stands below, but for a quotient, whose divisor is one.
                anything = self._partly or ends[1] == "arith.divf"
                needs = _ANYTHING if anything else (_either(node.op),)
            elif graph in self._local and ends[1] != _name(node):
                needs = _read_needs(ends[1], node)
            elif graph in self._local:
                below: Sequence[Any] = node.args if isinstance(node, Apply) else [node.body, node.body]
                needs = tuple(None if (name := _name(part)) is None else _either(name) for part in below)
            found[_ANYTHING if all(part is None for part in needs) else needs] = None
        return tuple(found)

    def _below(self, op: ir.Operation, inner: ir.Operation) -> tuple[list[frozenset[str] | None], bool]:
        """For each operand of an op in a body the names of the ops that make it, None if they may be any.

        And whether one of them is the running value.
        """
        block = op.regions[0].blocks[0]
        operands = list(op.operands)
        inputs = len(operands) - 1
        below: list[frozenset[str] | None] = []
        reduces = False
        for used in inner.operands:
            owner = used.owner
            if not isinstance(owner, ir.Block):
                inside = owner.operation.block == block
                made = self._of_inner(op, owner.operation, _DEEPEST) if inside else self._made_by(used, _DEEPEST)
            elif owner != block:
                made = _NOTHING
            else:
                number = ir.BlockArgument(used).arg_number
                made = self._made_by(operands[number], _DEEPEST)
                reduces = reduces or number >= inputs
            below.append(made)
        return below, reduces

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
        if name == "tensor.empty":
            return _NOTHING
        if name == "arith.constant":
            return _CONSTANT
        if name in _VIEWS:
            return self._made_by(op.operands[0], depth - 1) if depth else None
        if name.startswith(("arith.", "math.")):
            return self._of_op(op, lambda used: self._made_by(used, depth - 1) if depth else None)
        if name == "linalg.fill":
            return self._made_by(op.operands[0], depth - 1) if depth else None
        if name not in _STRUCTURED or len(op.results) != 1:
            return None
        block = op.regions[0].blocks[0]
        body = block.operations
        last = body[len(body) - 1].operation.operands[0]
        owner = last.owner
        if not isinstance(owner, ir.Block):
            if owner.operation.block == block:
                return self._of_inner(op, owner.operation, depth)
            return self._made_by(last, depth - 1) if depth else None
        if owner != block:
            return _NOTHING
        return self._made_by(op.operands[ir.BlockArgument(last).arg_number], depth - 1) if depth else None

    def _of_inner(self, op: ir.Operation, inner: ir.Operation, depth: int) -> frozenset[str] | None:
        """As `_made_by`, for an op in the body of a structured op."""
        block = op.regions[0].blocks[0]

        def made(used: ir.Value) -> frozenset[str] | None:
            owner = used.owner
            if not depth:
                return None
            if not isinstance(owner, ir.Block):
                within = owner.operation.block == block
                return self._of_inner(op, owner.operation, depth - 1) if within else self._made_by(used, depth - 1)
            number = ir.BlockArgument(used).arg_number
            return self._made_by(op.operands[number], depth - 1) if owner == block else _NOTHING

        return self._of_op(inner, made)

    def _of_op(self, op: ir.Operation, made: Callable[[ir.Value], frozenset[str] | None]) -> frozenset[str] | None:
        """The names that an op on elements may go by. made: those of what an operand comes from."""
        if op.name not in FOLDED:
            return _becoming(op)
        return _going_by(op, (made(used) for used in op.operands))


def _name(node: Any) -> str | None:
    if isinstance(node, Apply):
        return node.op
    return node.combiner if isinstance(node, Reduce) else None


def _is_chain(node: Any) -> bool:
    """Whether operands of an op may be grouped otherwise in the program."""
    return isinstance(node, Apply) and node.op in ASSOCIATIVE and any(_name(arg) == node.op for arg in node.args)


def _going_by(op: ir.Operation, below: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    """The names that an op on elements may go by: a number's too if all that it is made from may be numbers."""
    names = _becoming(op)
    if names is None or op.name not in FOLDED:
        return names
    if any(made is not None and _NUMBER not in made for made in below):
        return names
    return names | _CONSTANT


def _becoming(op: ir.Operation) -> frozenset[str] | None:
    name = op.name
    if name in MAY_VANISH:
        return None
    names = _SINGLE.get(name)
    if names is None:
        forms = (name, *BECOMES.get(name, ()))
        names = _SINGLE[name] = frozenset((*forms, *(_READ + other for other in names_of(name) if other not in forms)))
    return names


def _read_needs(name: str | None, node: Any) -> _Needs:
    """What an op of a name needs to be read as the outermost one of a pattern."""
    pair = (name, _name(node))
    if pair == ("math.rsqrt", "arith.divf"):  # of one by a root
        return (frozenset(),) if _name(node.args[0]) else _ANYTHING
    with_ = _READ_WITH.get(pair)
    if not isinstance(node, Apply) or pair not in _READ_FROM:
        return _ANYTHING if with_ is None else (with_,)
    names = [_name(node.args[at]) for at in _READ_FROM[pair]]
    from_ = frozenset[str]().union(*(_either(n) for n in names if n)) if all(names) else None
    return tuple(need for need in (with_, from_) if need is not None)


def _either(name: str) -> frozenset[str]:
    """A name for what goes by it, and for what may be read as that."""
    return frozenset({name, _READ + name})


_CONSTANT = frozenset({_NUMBER})
_SINGLE: dict[str, frozenset[str]] = {"arith.constant": _CONSTANT}
