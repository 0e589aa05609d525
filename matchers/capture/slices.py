"""Which part of a program is meant: from the ops that a user points at to the values that it makes and starts from.

A place takes the op and what leads up to it: the ops above that nothing else uses, up to arguments, weights and the
first contraction, which belongs to it unless a reduction lies between. A range of lines takes its own ops and no other;
with `to`, all that lies between the two; with `inputs`, all down to these. It reads the program and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.common.reaching import reachable
from opsplice.matchers.explain.pointing import Lines, NamedOp, Ops, Place, parse_place
from opsplice.matchers.ir.op_names import around, location_text
from opsplice.matchers.ir.tensor_values import defining_op, shape_of
from opsplice.matchers.terms.ops.parts_of_dims import INSERT
from opsplice.matchers.terms.terms import UNIT, Access, Apply, Constant, DimSize, Index, Reduce, Term
from opsplice.matchers.terms.views import Views, is_view

_CASTS = frozenset(f"arith.{n}" for n in ("extf", "truncf", "extsi", "extui", "trunci", "sitofp", "uitofp"))
RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast")
_MAX_SHOWN = 8


@dataclass(frozen=True)
class Slice:
    """A part of a program: the values that it makes, the ops that it may read, the values that it starts from.

    unread: ops that lead up to it and have no expression. named: values of ops that are to be known by their names;
    bare: those of which nothing but the name counts. tensors: inputs of rank 0 that are not scalars. is_template: it
    stands for programs in which what reductions start from, and what ops by name write to, may be anything.
    """

    roots: tuple[ir.Value, ...]
    ops: frozenset[ir.Operation]
    inputs: frozenset[ir.Value]
    unread: frozenset[ir.Operation] = frozenset()
    named: frozenset[ir.Value] = frozenset()
    bare: frozenset[ir.Value] = frozenset()
    tensors: frozenset[ir.Value] = frozenset()
    is_template: bool = False

    def starts_at(self, value: ir.Value) -> bool:
        """Whether a value is made outside."""
        return value in self.inputs or defining_op(value) not in self.ops


def select(ops: Ops, views: Views, at: Sequence[str], to: Sequence[str] = (), inputs: Sequence[str] = ()) -> Slice:
    """The slice that a user's words mean. See the module for what they take.

    at, to: places. inputs: places, or SSA names such as `%5`. Raises OpspliceError for a place that is none or has no
    op, and where it is not clear which value is meant.
    """
    return _Selection(ops, views).select(at, to, inputs)


class _Selection:
    def __init__(self, ops: Ops, views: Views) -> None:
        self.ops = ops
        self.views = views

    def select(self, at: Sequence[str], to: Sequence[str], inputs: Sequence[str]) -> Slice:
        part = self._taken(at, to, inputs)
        return replace(part, roots=tuple(dict.fromkeys(self._source(root, part) for root in part.roots)))

    def _taken(self, at: Sequence[str], to: Sequence[str], inputs: Sequence[str]) -> Slice:
        places = [parse_place(text) for text in at]
        pointed = [self._pointed(place) for place in places]
        made = [self._unviewed(self._sink(place, found)) for place, found in zip(places, pointed, strict=True)]
        sinks = list(dict.fromkeys(made))
        block = sinks[0].block
        if any(sink.block != block for sink in sinks):
            raise OpspliceError("the places are in different functions", hint="one kernel replaces one connected part")
        roots = [value for sink in sinks for value in self._results(sink)]
        given = frozenset(value for text in inputs for value in self._values(text, block, roots))
        if to:
            tops = {op for text in to for op in self._pointed(parse_place(text))}
            return Slice(tuple(roots), self._between(sinks, tops), given)
        if given:
            return Slice(tuple(roots), frozenset(above(sinks, given)), given)
        ranges = [_is_all(place, found) for place, found in zip(places, pointed, strict=True)]
        own = {op for found, ranged in zip(pointed, ranges, strict=True) if ranged for op in found}
        own -= {op for op in own if op.name == "arith.constant" and not self.is_constant(op.results[0])}  # weights
        starts = list(dict.fromkeys(sink for sink, ranged in zip(made, ranges, strict=True) if not ranged))
        cone, unread = self._cone(starts) if starts else (set(), set())
        return Slice(tuple(roots), frozenset(own | cone), given, frozenset(unread))

    def _pointed(self, place: Place) -> list[ir.Operation]:
        found = self.ops.at(place)
        if isinstance(place, NamedOp) and not place.number and len(found) > 1 and not _is_all(place, found):
            raise OpspliceError(f"there are {len(found)} ops called {place}", hint=f"say which: {place}#1 is the first")
        return found

    # ---- what is made ---------------------------------------------------------------------------------------------

    def _sink(self, place: Place, found: list[ir.Operation]) -> ir.Operation:
        """The op at a place that no other op there needs."""
        useful = [op for op in found if self._makes(op)]
        computing = [op for op in useful if not self._only_views(op)]
        if not useful:
            names = ", ".join(dict.fromkeys(op.name for op in found))
            hint = "point at an op that makes a tensor; without --at, capture lists them"
            raise OpspliceError(f"nothing at {place} computes a tensor: {names}", hint=hint)
        sinks: list[ir.Operation] = []
        for op in reversed(computing or useful):
            if not any(op in above([sink]) for sink in sinks if sink.block == op.block):
                sinks.append(op)
        if len(sinks) == 1:
            return sinks[0]
        listed = [f"  {self.ops.handle(op)}  {location_text(op)}" for op in reversed(sinks)]
        if len(listed) > _MAX_SHOWN:
            listed[_MAX_SHOWN:] = [f"  and {len(listed) - _MAX_SHOWN} more"]
        raise OpspliceError(
            f"{len(sinks)} results are made at {place}",
            details="\n".join(listed),
            hint=f'point at one: --at "{self.ops.handle(sinks[-1])}"; at several, with --at for each, for one kernel',
        )

    def _makes(self, op: ir.Operation) -> bool:
        """Whether an op makes a tensor that is more than room or a constant."""
        if op.name in ("tensor.empty", "tensor.dim") or op.name.startswith(("hal.", "util.")):
            return False
        return any(self._is_tensor(value) and not self.is_constant(value) for value in op.results)

    def _is_tensor(self, value: ir.Value) -> bool:
        return isinstance(value.type, ir.RankedTensorType)

    def is_constant(self, value: ir.Value) -> bool:
        return shape_of(value) is not None and isinstance(
            self.views.resolve(self.views.whole(value)), (Constant, DimSize)
        )

    def _only_views(self, op: ir.Operation) -> bool:
        step = self.views.expand(self.views.whole(op.results[0])) if self._is_tensor(op.results[0]) else None
        return step is not None and is_view(step)

    def _unviewed(self, op: ir.Operation) -> ir.Operation:
        """The op that makes what an op only gives another shape, which is where a pattern is found."""
        while (source := self._same_elements(op)) is not None:
            made = defining_op(source)
            if made is None or not self._is_tensor(source) or made.name.startswith("hal."):
                message = f"nothing is computed at {location_text(op)}: {op.name} gives an argument another shape"
                raise OpspliceError(message, hint="point at an op that computes; without --at, capture lists them")
            op = made
        return op

    def _source(self, root: ir.Value, part: Slice) -> ir.Value:
        """The value of a slice that has a root's elements in their order: one transposed twice is the one before."""
        whole = access = self.views.whole(root)
        found = root
        while (step := self.views.expand(access)) is not None and isinstance(step.term, Access):
            access = step.term
            if part.starts_at(access.value):
                break
            if _nontrivial(access.indices) == _nontrivial(whole.indices):
                found = access.value
        return found

    def _same_elements(self, op: ir.Operation) -> ir.Value | None:
        """The value whose elements an op hands on in their order, if it does no more."""
        if op.name in RESHAPES:
            return op.operands[0]
        if not self._only_views(op):
            return None
        whole = self.views.whole(op.results[0])
        step = self.views.expand(whole)
        assert step is not None, "it is a view"
        same = isinstance(step.term, Access) and _nontrivial(step.term.indices) == _nontrivial(whole.indices)
        return step.term.value if same and isinstance(step.term, Access) else None

    def _results(self, sink: ir.Operation) -> list[ir.Value]:
        """The results of an op that are read: those that are used, if any is."""
        tensors = [value for value in sink.results if self._is_tensor(value)]
        used = [value for value in tensors if any(True for _ in value.uses)]
        return used or tensors[:1]

    # ---- what it is made from -------------------------------------------------------------------------------------

    def _between(self, sinks: list[ir.Operation], tops: set[ir.Operation]) -> frozenset[ir.Operation]:
        """The ops on the ways from `tops` to the sinks, both included."""
        reached = above(sinks)
        lead: set[ir.Operation] = set()
        for op in self.ops.all:
            if op in reached and (op in tops or any(defining_op(v) in lead for v in _read(op))):
                lead.add(op)
        if not all(sink in lead for sink in sinks):
            hint = "--to is where the computation starts, further up in the program"
            raise OpspliceError("the result of --at does not depend on the result of --to", hint=hint)
        return frozenset(lead)

    def _cone(self, starts: Sequence[ir.Operation]) -> tuple[set[ir.Operation], set[ir.Operation]]:
        """The ops that lead up to some, these included, and those that would if there were an expression for them."""
        block = starts[0].block
        reached = above(starts)
        order = [op for op in self.ops.all if op in reached and op.block == block]
        cone = set(starts)
        unread: set[ir.Operation] = set()
        reduced = {op for op in starts if self._reduces(op)}
        closed = {op for op in starts if self._contracts(op)}
        for op in reversed(order):
            if op in cone:
                continue
            users = [user for user in _users(op, block) if user.name != "tensor.dim"]
            if not users or not all(user in cone for user in users):
                continue
            if all(_fills_up(user, op) for user in users):
                cone.add(op)
                continue
            if self._term(op) is None:
                unread |= {op} if self._makes(op) else set()
                continue
            view = self._only_views(op)
            if not view and not self._is_cast(op) and any(user in closed for user in users):
                continue
            below = any(user in reduced for user in users)
            contracts = self._contracts(op)
            if contracts and below:
                continue
            cone.add(op)
            if below or (self._reduces(op) and not contracts):
                reduced.add(op)
            if contracts or (any(user in closed for user in users)):
                closed.add(op)
        return cone, unread

    def _term(self, op: ir.Operation) -> Term | None:
        """What an op makes, None where it has no expression."""
        for value in op.results:
            if self._is_tensor(value) and (step := self.views.expand(self.views.whole(value))) is not None:
                return step.term
        return None

    def _is_cast(self, op: ir.Operation) -> bool:
        term = self._term(op)
        return isinstance(term, Apply) and term.op in _CASTS and isinstance(term.args[0], Access)

    def _reduces(self, op: ir.Operation) -> bool:
        pending: list[Term | None] = [self._term(op)]
        while pending:
            term = pending.pop()
            if isinstance(term, Reduce):
                return True
            if isinstance(term, Apply):
                pending += term.args
        return False

    def _contracts(self, op: ir.Operation) -> bool:
        """Whether an op sums products of two different values, as contractions and convolutions do."""
        term = self._term(op)
        if isinstance(term, Apply) and len(term.args) == 2:
            term = term.args[1]  # what the sum starts from comes first
        if not isinstance(term, Reduce) or not isinstance(term.body, Apply):
            return False
        return term.body.op in ("arith.mulf", "arith.muli") and term.body.args[0] != term.body.args[1]

    # ---- inputs ---------------------------------------------------------------------------------------------------

    def _values(self, text: str, block: ir.Block, roots: Sequence[ir.Value]) -> list[ir.Value]:
        """The values that an input names."""
        if not text.startswith("%"):
            made = [op for op in self._pointed(parse_place(text)) if self._makes(op) or op.name.startswith("hal.")]
            values = [v for op in made for v in op.results if self._is_tensor(v) and v not in roots]
            if not values:
                raise OpspliceError(f"nothing at {text} makes a tensor that could be an input")
            return values
        state = ir.AsmState(block.owner.operation)
        known = [*block.arguments, *(r for op in block.operations for r in op.operation.results)]
        for value in known:
            if value.get_name(state).split(":")[0] == text:
                return [value]
        hint = "names are those of the program after input conversion; without --at, capture lists them"
        raise OpspliceError(f"there is no value {text}", hint=hint)


def above(ops: Iterable[ir.Operation], stop: frozenset[ir.Value] = frozenset()) -> set[ir.Operation]:
    """The ops that lead to some, these included, without those that only values of `stop` need."""

    def makers(op: ir.Operation) -> list[ir.Operation]:
        return [made for v in _read(op) if v not in stop and (made := defining_op(v)) is not None]

    return set(reachable(ops, makers))


def _nontrivial(indices: tuple[Index, ...]) -> tuple[Index, ...]:
    return tuple(index for index in indices if index != UNIT)


def _read(op: ir.Operation) -> list[ir.Value]:
    """The values that an op reads, those that its regions take from outside among them."""
    values = list(op.operands)
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                values += [v for v in _read(inner.operation) if not _within(v, op)]
    return values


def _within(value: ir.Value, op: ir.Operation) -> bool:
    owner = value.owner
    holder = owner.owner if isinstance(owner, ir.Block) else owner.operation.parent
    return holder is not None and holder.operation == op


def _fills_up(op: ir.Operation, begun: ir.Operation) -> bool:
    """Whether an op inserts a further part into a tensor that another one began."""
    return op.name == begun.name == INSERT and bool(op.operands[1] == begun.results[0] != op.operands[0])


def _users(op: ir.Operation, block: ir.Block) -> list[ir.Operation]:
    """The ops of the block that use a result, in their regions or themselves."""
    users = [use.owner.operation for value in op.results for use in value.uses]
    return [next(holder for holder in around(user) if holder.block == block) for user in users]


def _is_all(place: Place, found: Sequence[ir.Operation]) -> bool:
    """Whether a place means the ops there and no other: a range of lines, a node of the model."""
    if isinstance(place, Lines):
        return place.ranged
    return any(op.name != place.name for op in found)
