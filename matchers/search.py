"""One search: does a pattern hold with its result at one payload value?

A search solves a list of goals, each a pattern node against a payload term, with backtracking over the few real
choices: the order of commutative operands, and the level of a chain of views at which an input binds. Labels of the
pattern bind to indices of the payload, so one pattern holds under any loop order, broadcast form or reshape.

When it fails, the goal that failed furthest along is kept, and becomes the near miss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from opsplice.matchers import chains, conditions, effects, numbers, uses
from opsplice.matchers.attributes import attribute_text, is_named, same_attribute
from opsplice.matchers.bounds import bounds_of
from opsplice.matchers.canonical import COMPARISONS, WIDTHS, turned
from opsplice.matchers.extents import Extent, product
from opsplice.matchers.graph import (
    Accumulated,
    Anything,
    Asked,
    Choice,
    Form,
    Graph,
    Input,
    Label,
    Named,
    Number,
    Result,
    Tie,
    Whole,
    Window,
    heads,
)
from opsplice.matchers.ir_names import location_text, short
from opsplice.matchers.labels import (
    Sizes,
    kept,
    nontrivial,
    pair,
    rank_text,
    sizes_of,
    unflattened,
    window_sizes,
)
from opsplice.matchers.match import Binding, Kind, Match, NearMiss, Size
from opsplice.matchers.sizes import Classes
from opsplice.matchers.terms import (
    UNIT,
    Access,
    Apply,
    Constant,
    DimSize,
    Index,
    Loop,
    Reduce,
    Started,
    Sum,
    Term,
)
from opsplice.matchers.views import Views, defining_op, element_type, is_tensor, shape_of
from opsplice.spec_lang import ops, tree

# A search that takes more steps than this is given up and reported, so that no pattern can hang a compile.
MAX_STEPS = 20_000
_MAX_DEPTH = 200
_MAX_FACTORS = 6
# What `through reshape` looks through where an op works on whole tensors, besides what is a view for all ops.
_RESHAPES = frozenset(
    {
        *(f"torch.aten.{n}" for n in ("view", "reshape", "permute", "expand", "unsqueeze", "squeeze.dim")),
        "torch.aten.contiguous",
        *(f"torch.aten.{n}" for n in ("transpose.int", "t", "flatten.using_ints", "broadcast_to", "_unsafe_view")),
        *(f"stablehlo.{n}" for n in ("reshape", "transpose", "broadcast_in_dim")),
        *(f"tosa.{n}" for n in ("reshape", "transpose")),
        *(f"flow.tensor.{n}" for n in ("reshape", "bitcast")),
    }
)
_CASTS = frozenset(f"arith.{n}" for n in ("index_cast", "index_castui", "sitofp", "uitofp", "truncf", "extf"))


@dataclass(frozen=True)
class _Root:
    """The goal to find the payload value of the pattern's result number `number`."""

    number: int


@dataclass(frozen=True)
class _Failure:
    """Where a path ended. held: how many ops of the pattern held on it, and how much was bound; at: a payload op."""

    node: Any
    wanted: str
    found: str
    held: tuple[int, int]
    at: ir.Operation | None
    kind: Kind


@dataclass(frozen=True, eq=False)
class _Operand:
    """The goal that a whole tensor is `result`, or (with `through reshape`) a reshape of it."""

    result: Result


class _GaveUpError(Exception):
    """The search took too many steps."""


# A linked list of (pattern node, payload term): cheap to extend, shared between branches.
Goals = tuple[tuple[Any, Any], Any] | None


class Search:
    """One attempt to match one graph with its first result at one payload value. Use it once."""

    def __init__(self, views: Views, graph: Graph, function: str, max_steps: int = MAX_STEPS) -> None:
        self.views = views
        self.graph = graph
        self.function = function
        self.max_steps = max_steps
        self.parameters = {p.name: p for p in graph.pattern.parameters}
        # State is held in dicts that only grow along a path; the trail says what to take back on a dead end.
        self.labels: dict[Label, tuple[Index, ...]] = {}
        self.inputs: dict[str, Binding] = {}
        self.dims: dict[str, tuple[Sizes, tuple[Index, ...]]] = {}
        self.dims_again: dict[tuple[str, Sizes, tuple[Index, ...]], Any] = {}
        self.types: dict[str, str] = {}
        self.ops: dict[ir.Operation, None] = {}
        self.held: dict[int, None] = {}
        self.reductions: dict[Reduce, tuple[Loop, ...]] = {}
        self.scopes: dict[Label, Reduce] = {}
        self.used: dict[tuple[Reduce, Index], None] = {}
        self.numbers: dict[tuple[Number, Any], ir.Operation | None] = {}
        self.entered: dict[tuple[int, Any], None] = {}
        self.roots: dict[int, Access] = {}
        self.shapes: dict[str, tuple[Sizes, ...]] = {}
        self.extents: dict[Index, Size] = {}
        self.equal: dict[tuple[Index, Size], None] = {}
        self.named: dict[str, Term] = {}
        self.integers: dict[str, int] = {}  # bound to attributes
        self.operands: dict[int, _Operand] = {}
        self.is_view = False  # whether the root only chooses other indices of some value
        self.trail: list[tuple[dict, Any]] = []
        self.steps = 0
        self.gave_up = False
        self.furthest: _Failure | None = None
        self.place: ir.Operation | None = None  # the payload op that was read last

    def run(self, value: ir.Value, *, at_view: bool = False) -> Match | None:
        """The match, or None; then `progress` and `near_miss` say how far it got and why no further.

        at_view: the value may be a view of what the pattern makes.
        """
        first = self.graph.results[0]
        goals: Goals = None
        for number in range(len(self.graph.results) - 1, 0, -1):
            goals = ((_Root(number), None), goals)
        try:
            if not (at_view or self.graph.rearranged):
                step = self.views.expand(self.views.whole(value))
                self.is_view = step is None or isinstance(step.term, Access)
                if self.is_view and not any(isinstance(head, Whole) for head in heads(first.node)):
                    return None  # a view of something: a match, if there is one, is where that something is made
            if self._at_root(0, value, goals):
                return self._match(value)
        except (_GaveUpError, RecursionError):
            self.gave_up = True
            self.furthest = _Failure(
                None, "a decision", "one too large to decide", (len(self.held), 0), None, Kind.STEPS
            )
        return None

    @property
    def progress(self) -> float:
        """Which part of the pattern's ops held before it failed, up to 1; 0 if hardly more than the outermost did."""
        failure = self.furthest
        if failure is None:
            return 0.0
        if failure.kind is not Kind.START and any(failure.node is head for head in heads(self.graph.results[0].node)):
            return 0.0
        if failure.kind is Kind.OP and failure.held[0] < 2:
            return 0.0  # many an op is like the outermost one of a pattern, and that says nothing
        return max(1, failure.held[0]) / max(1, self.graph.size)

    def near_miss(self, value: ir.Value) -> NearMiss:
        """Why it failed at `value`, where `run` found no match and `progress` is not 0."""
        failure = self.furthest
        assert failure is not None, "a search with progress has a failure"
        span = getattr(failure.node, "span", None)  # a condition has its own
        return NearMiss(
            pattern=self.graph.pattern.name,
            function=self.function,
            location=location_text(value.owner.operation),
            wanted=failure.wanted,
            found=failure.found,
            span=span or self.graph.spans.get(id(failure.node)),
            progress=self.progress,
            at="" if failure.at is None else location_text(failure.at),
            kind=failure.kind,
            graph=self.graph,
            value=value,
        )

    # ---- state ----------------------------------------------------------------------------------------------------

    def _set(self, table: dict, key: Any, value: Any = None) -> None:
        if key not in table:
            table[key] = value
            self.trail.append((table, key))

    def _undo(self, mark: int) -> None:
        while len(self.trail) > mark:
            table, key = self.trail.pop()
            del table[key]

    def _fail(self, node: Any, wanted: str, found: str, kind: Kind = Kind.OTHER) -> bool:
        held = (len(self.held), len(self.trail))
        if self.furthest is None or held > self.furthest.held:
            self.furthest = _Failure(node, wanted, found, held, self.place, kind)
        return False

    def _other_op(self, node: Any, wanted: str, found: Any) -> None:
        self._fail(node, wanted, self._describe(found), Kind.OP)

    # ---- goals ----------------------------------------------------------------------------------------------------

    def _solve(self, goals: Goals, depth: int = 0, end: Callable[[], bool] | None = None) -> bool:
        """Whether all goals can be met together, and then `end` holds: by default what can only be judged last."""
        while goals is not None:
            self.steps += 1
            if self.steps > self.max_steps or depth > _MAX_DEPTH:
                raise _GaveUpError
            (node, term), rest = goals
            if (id(node), term) in self.entered:
                goals = rest  # a shared part of the pattern: its goals are solved or still ahead on this path
                continue
            entry = len(self.trail)
            self._set(self.entered, (id(node), term))
            branches = list(self._branches(node, term))
            if len(branches) == 1:
                # No choice: go on in this loop, so that depth grows with choices only.
                more = branches[0]()
                if more is None:
                    return False
                goals = _append(more, rest)
                continue
            for branch in branches:
                mark = len(self.trail)
                more = branch()
                if more is not None and self._solve(_append(more, rest), depth + 1, end):
                    return True
                self._undo(mark)
            self._undo(entry)
            return False
        return self._holds() if end is None else end()

    def _branches(self, node: Any, term: Any) -> Iterator[Any]:
        """The ways in which a node may match a term: each a function that gives further goals, or None if it fails."""
        if isinstance(node, _Root):
            others = self._other_roots(node.number)
            if not others:
                wanted = f"result {node.number + 1} of the pattern near result 1"
                head = self.graph.results[node.number].node
                yield lambda: self._fail(head, wanted, "no tensor made from the same inputs", Kind.NO_VALUE) or None
            for value in others:
                yield lambda value=value: self._bind_root(node.number, value)
        elif isinstance(node, Input):
            yield from self._input_branches(node, term)
        elif isinstance(node, Number):
            yield lambda: self._number(node, term)
        elif isinstance(node, Whole):
            yield from self._whole_branches(node, term)
        elif isinstance(node, Apply):
            yield from self._apply_branches(node, term)
        elif isinstance(node, Choice):
            for option in self._options(node, term):
                yield lambda option=option: [(option, term)]
        elif isinstance(node, Named):
            yield lambda: self._name(node, term)
        elif isinstance(node, Accumulated):
            yield lambda: self._accumulated(node, term)
        elif isinstance(node, _Operand):
            for access in self._levels(term):
                yield lambda access=access: self._operand(node.result, access)
        elif isinstance(node, Anything):
            yield list
        else:
            yield lambda: self._reduce(node, term)

    def _options(self, node: Choice, term: Term) -> list[Any]:
        """The alternatives worth a try. At a root that is a view, only ops on whole tensors are."""
        options = [o for o in node.options if self._may_hold(o, term)] or list(node.options)
        first = set(heads(self.graph.results[0].node))
        if self.is_view and term == self.roots.get(0) and not first.isdisjoint(heads(node)):
            options = [o for o in options if any(isinstance(head, Whole) for head in heads(o))]
        return options

    def _name(self, node: Named, term: Term) -> list[tuple[Any, Any]]:
        self._set(self.named, node.name, term)
        return [(node.node, term)]

    def _accumulated(self, node: Accumulated, term: Term) -> list[tuple[Any, Any]]:
        self._look(node, term)
        return [(node.node, self._accumulation(node, term))]

    def _accumulation(self, node: Accumulated, term: Term) -> Term:
        """Without what it starts from, if it starts from anything."""
        found = self._peek(node, term)
        return found.args[1] if isinstance(found, Started) and found.op == node.node.combiner else term

    # ---- roots ----------------------------------------------------------------------------------------------------

    def _at_root(self, number: int, value: ir.Value, rest: Goals) -> bool:
        more = self._bind_root(number, value)
        return more is not None and self._solve(_append(more, rest))

    def _bind_root(self, number: int, value: ir.Value) -> list[tuple[Any, Any]] | None:
        result = self.graph.results[number]
        if not is_tensor(value):
            self._fail(result.node, "a tensor", f"a value of type {value.type}", Kind.NO_VALUE)
            return None
        if result.element and not self._bind_type(result.node, result.element, element_type(value)):
            return None
        access = self.views.whole(value)
        self._set(self.roots, number, access)
        if not self._bind_whole(result, access):
            return None
        return [(result.node, access)]

    def _bind_whole(self, result: Result, access: Access) -> bool:
        """Give the labels of a result the fresh loops of a whole tensor."""
        self._note_sizes(access)
        if result.labels is None:
            return True
        free = [label for label in result.labels if label not in self.labels]
        if len(free) != len(result.labels):
            return self._unify(result.node, result.labels, access.indices) is not None
        pairs = pair(result.labels, access.indices, {})
        if pairs is None:
            return self._fail(result.node, f"rank {rank_text(result.labels)}", f"rank {len(access.indices)}", Kind.RANK)
        for label, indices in pairs:
            self._set(self.labels, label, indices)
        return True

    def _other_roots(self, number: int) -> list[ir.Value]:
        """Where a further result could be: beside the first root, or made from what is bound already."""
        taken = {access.value for access in self.roots.values()}
        seen: dict[ir.Value, None] = dict.fromkeys(self.roots[0].value.owner.operation.results)
        frontier = [b.value for b in self.inputs.values() if b.value is not None]
        frontier += [r for op in self.ops for r in op.results]
        for _ in range(8):
            users = [r for v in frontier for use in v.uses for r in use.owner.operation.results]
            frontier = [r for r in users if r not in seen]
            seen.update(dict.fromkeys(frontier))
            if len(seen) > 512 or not frontier:
                break
        return [v for v in seen if v not in taken and is_tensor(v)]

    # ---- nodes ----------------------------------------------------------------------------------------------------

    def _resolve(self, term: Term) -> Term:
        """Follow a term through views, and note the ops on the way as accounted for."""
        while isinstance(term, Access):
            self.place = defining_op(term.value) or self.place
            step = self.views.expand(term)
            if step is None:
                return term
            if step.op is not None:
                self._set(self.ops, step.op)
            term = step.term
        return term

    def _look(self, node: Any, term: Term) -> Term:
        """`_resolve`, and through casts where the pattern asks for it, but for one that the pattern itself names."""
        found = self._resolve(term)
        while (source := self._passed(node, found)) is not None:
            found = self._resolve(source)
        return found

    def _inside(self, term: Term) -> tuple[Term, tuple[ir.Operation, ...]]:
        """What `_look` would give, and the ops that were read to come to it."""
        found, seen = chains.unwrapped(self.views, term)
        while (source := self._passed(None, found)) is not None:
            found, more = chains.unwrapped(self.views, source)
            seen += more
        return found, seen

    def _passed(self, node: Any, found: Term) -> Term | None:
        """What a cast that is looked through is a cast of."""
        if "cast" not in self.graph.through or not isinstance(found, Apply) or found.op not in WIDTHS:
            return None
        return None if isinstance(node, Apply) and node.op == found.op else found.args[0]

    def _peek(self, node: Any, term: Term) -> Term:
        """What `_look` would give, with nothing noted."""
        found = self.views.resolve(term)
        while (source := self._passed(node, found)) is not None:
            found = self.views.resolve(source)
        return found

    def _apply_branches(self, node: Apply, term: Term) -> Iterator[Any]:
        found = self._look(node, term)
        spellings = self.views.readings(found, node.op)
        if not spellings or len(spellings[0].args) != len(node.args):
            yield lambda: self._other_op(node, short(node.op), found)
            return
        if node.op in COMPARISONS:
            spellings = self._compared(node, spellings[0])
        given = dict(spellings[0].attributes)
        wrong = next(((n, v) for n, v in node.attributes if given.get(n) != v), None)
        if wrong is not None:
            name, value = wrong
            yield (
                lambda: (
                    self._fail(node, f"{name} = {value}", f"{name} = {given.get(name, 'nothing')}", Kind.ATTRIBUTE)
                    or None
                )
            )
            return
        if node.type and not self._bind_type(node, node.type, spellings[0].type):
            yield lambda: None
            return
        straight = list(zip(node.args, spellings[0].args, strict=True))
        respelled = not (isinstance(found, Apply) and found.op == node.op)
        wanted = chains.operands(node)
        if len(wanted) > len(node.args):
            pairings = self._chain_pairings(node.op, wanted, spellings)
        else:
            pairings = [(list(zip(node.args, s.args, strict=True)), ()) for s in spellings]
            if _is_commutative(node.op) and node.args[0] is not node.args[1]:
                pairings += [(list(zip(node.args, reversed(s.args), strict=True)), ()) for s in spellings]
            if len(pairings) > 1 or respelled:  # what cannot hold is not tried, so that choices do not multiply
                pairings = [p for p in pairings if all(self._may_hold(*goal) for goal in p[0])]
        if respelled and not pairings:
            yield lambda: self._other_op(node, short(node.op), found)
            return
        self._set(self.held, id(node))
        for goals, seen in pairings or [(straight, ())]:
            yield lambda goals=goals, seen=seen: self._pairing(goals, seen)

    def _compared(self, node: Apply, found: Apply) -> tuple[Apply, ...]:
        """A comparison as it is and with its sides swapped: those that have the predicate that is wanted."""
        wanted = dict(node.attributes).get("predicate", "")
        other = turned(found, wanted)
        same = dict(found.attributes).get("predicate") == wanted
        return (found,) if other is None else (found, other) if same else (other,)

    def _pairing(self, goals: list[tuple[Any, Any]], seen: tuple[ir.Operation, ...]) -> list[tuple[Any, Any]]:
        for op in seen:
            self._set(self.ops, op)
        return goals

    def _chain_pairings(
        self, op: str, wanted: tuple[Any, ...], spellings: tuple[Apply, ...]
    ) -> list[tuple[list[tuple[Any, Any]], tuple[ir.Operation, ...]]]:
        """Each way in which the operands of a chain may pair up, with the payload ops that the chain goes through."""
        return [
            (pairs, grouping.seen)
            for grouping in chains.groupings(self.views, op, spellings, len(wanted), self._inside)
            for pairs in chains.pairings(wanted, grouping.operands, self._may_hold)
        ]

    def _may_hold(self, node: Any, term: Term) -> bool:
        """False only if a goal must fail for its outermost op alone."""
        if isinstance(node, Apply):
            return bool(self.views.readings(self._peek(node, term), node.op))
        if isinstance(node, Reduce):
            found = self._peek(node, term)
            return isinstance(found, Reduce) and found.combiner == node.combiner
        if isinstance(node, Number) and not conditions.names_in(node.low):
            return self.views.constant(self._peek(node, term)) is not None
        if isinstance(node, Input) and not isinstance(self.parameters[node.name].type, tree.ScalarType):
            return next(self._chain(term), None) is not None
        if isinstance(node, Choice):
            return any(self._may_hold(option, term) for option in node.options)
        if isinstance(node, Named):
            return self._may_hold(node.node, term)
        if isinstance(node, Accumulated):
            return self._may_hold(node.node, self._accumulation(node, term))
        return True

    def _reduce(self, node: Reduce, term: Term) -> list[tuple[Any, Any]] | None:
        found = self._look(node, term)
        if isinstance(found, Started) and found.op == node.combiner:
            self._set(self.held, id(node))
            start = self.views.constant(found.args[0])
            which = "another value" if start is None else numbers.text(start.value, start.type)
            self._fail(node, f"a reduction by {short(node.combiner)} alone", f"one that starts at {which}", Kind.START)
            return None
        if not isinstance(found, Reduce) or found.combiner != node.combiner:
            self._other_op(node, f"a reduction by {short(node.combiner)}", found)
            return None
        packs = any(label.pack for label in node.loops)
        if len(node.loops) < len(found.loops) and not packs:
            self._fail(
                node,
                f"a reduction over {_dims(len(node.loops))}",
                f"one over {_dims(len(found.loops))}",
                Kind.REDUCTION,
            )
            return None
        if self.reductions.get(node, found.loops) != found.loops:
            self._fail(node, "one reduction for all its uses", "another that computes the same again", Kind.REDUCTION)
            return None
        self._set(self.held, id(node))
        self._set(self.reductions, node, found.loops)
        for label in node.loops:
            self._set(self.scopes, label, node)
        return [(node.body, found.body)]

    def _number(self, node: Number, term: Term) -> list[tuple[Any, Any]] | None:
        found = self._look(node, term)
        found = self.views.constant(found) or found
        if isinstance(found, Constant) or conditions.names_in(node.low):
            # Dims may be bound by a later goal, so numbers are compared at the end.
            self._set(self.numbers, (node, found), self.place)
            return []
        self._other_op(node, f"the constant {_number_text(node)}", found)
        return None

    def _whole_branches(self, node: Whole, term: Term) -> Iterator[Any]:
        nothing = True
        for access in self._chain(term):
            op = defining_op(access.value)
            if op is not None and is_named(op.name, node.op):
                nothing = False
                yield lambda access=access, op=op: self._whole(node, access, op)
        if nothing:
            yield lambda: self._other_op(node, node.op, term)

    def _whole(self, node: Whole, access: Access, op: ir.Operation) -> list[tuple[Any, Any]] | None:
        self.place = op
        self._set(self.ops, op)
        if (len(op.results), ir.OpResult(access.value).result_number) != (node.count, node.number):
            found = f"result {ir.OpResult(access.value).result_number} of {len(op.results)}"
            self._fail(node, f"result {node.number} of {node.count}", found, Kind.RESULT)
            return None
        if len(op.operands) != len(node.operands) and not (node.rest and len(op.operands) > len(node.operands)):
            count = f"{len(node.operands)}{' or more' * node.rest} operands"
            self._fail(node, count, f"{len(op.operands)}", Kind.OPERANDS)
            return None
        if not all(self._attribute(node, attribute, op) for attribute in node.attributes):
            return None
        if not node.regions and effects.has_own_region(op):
            self._fail(node, f"{node.op} without a region", "a region, which the pattern does not show", Kind.REGION)
            return None
        if op != self.roots[0].value.owner.operation and effects.has_effects(op):
            self._fail(
                node, f"{node.op} without side effects, as it is inside the pattern", "one that has some", Kind.EFFECTS
            )
            return None
        if node.element and not self._bind_type(node, node.element, element_type(access.value)):
            return None
        if node.labels is not None and self._unify(node, node.labels, access.indices) is None:
            return None
        self._set(self.held, id(node))
        pairs = zip(node.operands, op.operands, strict=False)
        return [(self.operands.setdefault(id(r), _Operand(r)), self.views.whole(operand)) for r, operand in pairs]

    def _attribute(self, node: Whole, wanted: tree.Attribute, op: ir.Operation) -> bool:
        found = op.attributes.get(wanted.name, None)
        found_text = "none" if found is None else str(found)
        if wanted.variable is not None:
            if not isinstance(found, (ir.IntegerAttr, ir.BoolAttr)):
                return self._fail(node, f"an integer {wanted.name}", found_text, Kind.ATTRIBUTE)
            value = int(found.value)
            self._set(self.integers, wanted.variable, value)
            known = self.integers[wanted.variable]
            return known == value or self._fail(node, f"{wanted.name} = {known}", str(value), Kind.ATTRIBUTE)
        if wanted.absent:
            return found is None or self._fail(node, f"no {wanted.name}", found_text, Kind.ATTRIBUTE)
        choices = wanted.choices or (() if wanted.value is None else (wanted.value,))
        if found is not None and (not choices or any(same_attribute(choice, found, wanted.span) for choice in choices)):
            return True
        if not choices:
            return self._fail(node, f"an attribute {wanted.name}", found_text, Kind.ATTRIBUTE)
        written = ", ".join(map(attribute_text, choices))
        return self._fail(
            node,
            f"{wanted.name} in {{{written}}}" if wanted.choices else f"{wanted.name} = {written}",
            found_text,
            Kind.ATTRIBUTE,
        )

    def _levels(self, term: Access) -> Iterator[Access]:
        """A whole tensor, and with `through reshape` what it is a reshape of, each as a whole."""
        yield term
        if "reshape" not in self.graph.through:
            return
        op = defining_op(term.value)
        while op is not None and len(op.operands):
            step = self.views.expand(self.views.whole(term.value))
            if op.name not in _RESHAPES and (step is None or not isinstance(step.term, Access)):
                return
            term = self.views.whole(op.operands[0])
            yield term
            op = defining_op(term.value)

    def _operand(self, result: Result, whole: Access) -> list[tuple[Any, Any]] | None:
        return [(result.node, whole)] if self._bind_whole(result, whole) else None

    # ---- inputs ---------------------------------------------------------------------------------------------------

    def _chain(self, term: Term) -> Iterator[Access]:
        """The accesses from a term down through views: each is a value that holds the element."""
        at: Term | None = term
        while at is not None:
            if not isinstance(at, Access):
                at = self._passed(None, at)
                continue
            yield at
            step = self.views.expand(at)
            at = None if step is None else step.term

    def _input_branches(self, node: Input, term: Term) -> Iterator[Any]:
        parameter = self.parameters[node.name]
        if isinstance(parameter.type, tree.ScalarType):
            yield lambda: self._scalar(node, parameter, term)
            return
        levels = list(self._chain(term))
        if not levels:
            where = "a value inside a fused op, which no tensor holds"
            yield lambda: self._fail(node, f"a tensor for {node.name}", where, Kind.NO_VALUE) or None
        for position, access in enumerate(levels):
            yield lambda access=access, above=levels[:position]: self._tensor(node, parameter, access, above)

    def _scalar(self, node: Input, parameter: tree.Parameter, term: Term) -> list[tuple[Any, Any]] | None:
        assert isinstance(parameter.type, tree.ScalarType)
        wanted = self._wanted_elements(parameter.type)
        levels = list(self._scalars(node, term))
        binding = next((b for b in levels if wanted is None or b.element in wanted), levels[0] if levels else None)
        if binding is None:
            self._fail(node, f"a scalar for {node.name}", self._describe(self._look(node, term)), Kind.NO_VALUE)
            return None
        return [] if self._bind(node, parameter.type.name, binding) else None

    def _scalars(self, node: Input, term: Term) -> Iterator[Binding]:
        """The constants that a term is, and the values that hold it alone, from the nearest on."""
        at: Term | None = term
        while at is not None:
            found = self._resolve(at)
            known = self.views.constant(found)
            if known is not None:
                yield Binding(constant=known.value, element=known.type)
            at = self._passed(node, found)
        for access in self._chain(term):
            if not access.indices:
                yield Binding(value=access.value, element=element_type(access.value))

    def _wanted_elements(self, kind: tree.ScalarType) -> tuple[str, ...] | None:
        """The element types that a scalar may have, None for any."""
        choices = self.graph.variables.get(kind.name)
        known = kind.name if choices is None else self.types.get(kind.name)
        return (choices or None) if known is None else (known,)

    def _tensor(
        self, node: Input, parameter: tree.Parameter, access: Access, above: list[Access]
    ) -> list[tuple[Any, Any]] | None:
        for view in above:
            step = self.views.expand(view)
            if step is not None and step.op is not None:
                self._set(self.ops, step.op)
        assert isinstance(parameter.type, tree.TensorType)
        value = access.value
        self.place = defining_op(value) or self.place
        if not is_tensor(value):
            self._fail(node, f"a tensor for {node.name}", f"a scalar of type {value.type}", Kind.NO_VALUE)
            return None
        if not self._bind(node, parameter.type.element.name, Binding(value=value, element=element_type(value))):
            return None
        pairs = self._unify(node, node.labels, access.indices)
        if pairs is None or not self._bind_dims(node, parameter.type, pairs, access):
            return None
        return []

    def _bind(self, node: Input, element: str, binding: Binding) -> bool:
        bound = self.inputs.get(node.name)
        if bound is not None and not (bound == binding and numbers.identical(bound.constant, binding.constant)):
            return self._fail(node, f"the same value for {node.name} as before", "another value", Kind.SAME_VALUE)
        if not self._bind_type(node, element, binding.element):
            return False
        self._set(self.inputs, node.name, binding)
        return True

    def _bind_type(self, node: Any, name: str, element: str) -> bool:
        """Check an element type by name, or bind a type variable to it."""
        choices = self.graph.variables.get(name)
        wanted = name if choices is None else self.types.get(name)
        if wanted is not None:
            return wanted == element or self._fail(node, f"element type {wanted}", element, Kind.TYPE)
        if choices and element not in choices:
            return self._fail(node, f"an element type in {{{', '.join(choices)}}}", element, Kind.TYPE)
        self._set(self.types, name, element)
        return True

    # ---- labels and dims ------------------------------------------------------------------------------------------

    def _unify(
        self, node: Any, labels: tuple[Label, ...], indices: tuple[Index, ...]
    ) -> list[tuple[Label, tuple[Index, ...]]] | None:
        """Bind labels to indices, or check that they are bound so. Indices of size-one dims may be dropped."""
        pairs = pair(labels, indices, self.labels)
        if pairs is None:
            self._fail(node, f"rank {rank_text(labels)}", f"rank {len(indices)}", Kind.RANK)
            return None
        for label, found in pairs:
            if not self._unify_label(node, label, found):
                return None
        return pairs

    def _unify_label(self, node: Any, label: Label, found: tuple[Index, ...]) -> bool:
        if isinstance(label, Window):
            return self._unify_window(node, label, found[0])
        bound = self.labels.get(label)
        if bound is not None:
            same = nontrivial(bound) == nontrivial(found) or (label.pack and unflattened(bound) == unflattened(found))
            return same or self._fail(node, f"dim {label.name} here", "another dim or order of dims", Kind.DIMS)
        scope = self.scopes.get(label)
        if scope is not None:
            loops = self.reductions[scope]
            real = nontrivial(found)
            if any(i not in loops or (scope, i) in self.used for i in real):
                return self._fail(node, f"the reduced dim {label.name} here", "another dim", Kind.DIMS)
            if not real and not label.pack and not self._may_be_single(scope):
                return self._fail(node, f"the reduced dim {label.name} here", "a dim of size 1", Kind.DIMS)
            for index in real:
                self._set(self.used, (scope, index))
        self._set(self.labels, label, found)
        return True

    def _may_be_single(self, scope: Reduce) -> bool:
        """Whether a label of a reduction may stand for a dim of size one, over which no program needs a loop."""
        singles = sum(self.labels.get(label) == (UNIT,) for label in scope.loops)
        return singles < len(scope.loops) - len(self.reductions[scope])

    def _unify_window(self, node: Any, window: Window, found: Index) -> bool:
        """A sum of labels against one of indices: labels that are bound take their index, then the others one each."""
        if isinstance(found, Sum):
            left = {index: factor for factor, index in found.terms}
        else:
            left = {} if found == UNIT else {found: 1}
        bound = [term for term in window.terms if term[1] in self.labels]
        free = [term for term in window.terms if term[1] not in self.labels]
        for factor, label in bound:
            (index,) = self.labels[label]
            if index != UNIT and not self._same_factor(node, factor, left.pop(index, 0)):
                return False
        if len(left) > len(free):
            return self._fail(node, f"{window.name} here", "other dims")
        rest = [*left.items(), *[(UNIT, 0)] * (len(free) - len(left))]
        for (factor, label), (index, times) in zip(free, rest, strict=True):
            if not self._unify_label(node, label, (index,)):
                return False
            if index != UNIT and not self._same_factor(node, factor, times):
                return False
        return True

    def _same_factor(self, node: Any, wanted: int | str, found: int) -> bool:
        if isinstance(wanted, int):
            return wanted == found or self._fail(node, f"{wanted} times a dim", f"{found} times it")
        return self._bind_dim(node, wanted, found, (UNIT,))

    def _bind_dims(
        self,
        node: Input,
        kind: tree.TensorType,
        pairs: list[tuple[Label, tuple[Index, ...]]],
        access: Access,
    ) -> bool:
        self._note_sizes(access)
        sizes = sizes_of(access)
        for index, extent in sizes.items():
            self._set(self.extents, index, extent)
        sizes |= window_sizes(access)
        shape: list[Sizes] = []
        for dim, (_, indices) in zip(kind.dims, pairs, strict=True):
            found = tuple(sizes.get(i, 1) for i in indices)
            size: Sizes = found if dim.pack is not None else found[0]
            shape.append(size)
            if dim.size is not None and size != dim.size:
                return self._fail(node, f"a dim of size {dim.size}", _size_text(size), Kind.SIZE)
            if dim.name is not None and not self._bind_dim(node, dim.name, size, indices):
                return False
        self._set(self.shapes, node.name, tuple(shape))
        return True

    def _bind_dim(self, node: Any, name: str, size: Sizes, indices: tuple[Index, ...]) -> bool:
        """Bind a dim, or note that it has another size too. Sizes known at run time are compared at the end."""
        self._set(self.dims, name, (size, indices))
        known = self.dims[name][0]
        if isinstance(known, int) and isinstance(size, int) and known != size:
            return self._fail(node, f"{_own_name(name)} = {known}", str(size), Kind.SAME_SIZE)
        self._set(self.dims_again, (name, size, indices), node)
        return True

    def _note_sizes(self, access: Access) -> None:
        for index, size in sizes_of(access).items():
            self._set(self.equal, (index, size))

    # ---- the end --------------------------------------------------------------------------------------------------

    def _holds(self) -> bool:
        """What can only be judged when everything is bound: sizes, numbers, and the pattern's conditions."""
        self.place = None  # what was looked at last is not to blame
        for factor in self.graph.factors:  # of a dim of size one nobody can tell by how much it steps
            self._set(self.dims, factor, (1, (UNIT,)))
        if not (self._reduces_all() and self._independent()):
            return False
        for tie in self.graph.ties:
            self._trust(tie)
        classes = Classes(self.equal)
        if not all(self._tied(tie) for tie in self.graph.ties):
            return False
        if not all(self._same_dim_size(classes, *again) for again in self.dims_again.items()):
            return False
        sizes = self._static_dims()
        for (node, found), place in self.numbers.items():
            self.place = place
            if not self._same_number(node, found, sizes, classes):
                return False
            self._set(self.held, id(node))
        self.place = None
        for where in self.graph.conditions:
            if conditions.holds(where, sizes, self._judge) is not True:
                return self._condition_failed(where, sizes)
        return True

    def _condition_failed(self, where: Any, sizes: conditions.Sizes) -> bool:
        failed = conditions.first_failure(where, sizes, self._judge)
        kind = Kind.CONDITION
        if isinstance(failed, Asked) and failed.kind != "weight":
            kind = Kind.USE
            shared = [v for v in self._values(failed.name) if uses.user_outside(v, self.ops) is not None]
            self.place = next((op for op in map(defining_op, shared) if op is not None), None)
        return self._fail(failed, conditions.written(failed), self._what_is(failed, sizes), kind)

    def _what_is(self, condition: Any, sizes: conditions.Sizes) -> str:
        """What there is where a condition does not hold."""
        if isinstance(condition, tree.Membership):
            return self._element(condition.variable)
        if isinstance(condition, Asked):
            other = self._other_user(condition.name)
            if condition.kind == "weight":
                return "a value that is computed or given at run time"
            if other is None:
                return "no other use of it"
            return f"the value is also used by {other.name} at {location_text(other)}"
        if isinstance(condition, Form):
            value = self._values(condition.name)[-1:]
            return self._describe(self.views.whole(value[0])) if value else "a value inside a fused op"
        names = sorted(conditions.names_in(condition))
        known = {n: _size_text(self.dims[n][0]) if n in self.dims else str(sizes.get(n, "unknown")) for n in names}
        return ", ".join(f"{_own_name(n)} = {text}" for n, text in known.items()) or "that it does not hold"

    # ---- what conditions ask ----------------------------------------------------------------------------------------

    def _judge(self, condition: Any) -> bool | None:
        if isinstance(condition, tree.Membership):
            return self._element(condition.variable) in {choice.name for choice in condition.choices}
        if isinstance(condition, tree.Predicate):
            return uses.is_inside(self.roots[0].value.owner.operation, condition.value)
        if isinstance(condition, Form):
            return self._has_form(condition)
        if condition.kind == "weight":
            return self._is_weight(condition.name)
        return (self._other_user(condition.name) is None) == (condition.kind == "only")

    def _element(self, name: str) -> str:
        """The element type that a type variable stands for, or (in a pattern that is used) that is written for it."""
        return self.types.get(name, name)

    def _values(self, name: str) -> list[ir.Value]:
        """The payload values that hold what has a name: from the one that is used down to the one that an op makes."""
        bound = self.inputs.get(name)
        if bound is not None:
            return [] if bound.value is None else [bound.value]
        found = []
        term = self.named.get(name)
        while isinstance(term, Access):
            found.append(term.value)
            step = self.views.expand(term)
            if step is None:
                break
            term = step.term
        return found

    def _is_weight(self, name: str) -> bool:
        bound = self.inputs.get(name)
        if bound is not None and bound.value is None:
            return True  # a scalar constant
        values = self._values(name)
        if not values:
            return isinstance(self.named.get(name), Constant)
        return uses.is_constant(self.views, values[-1])

    def _other_user(self, name: str) -> ir.Operation | None:
        users = (uses.user_outside(value, self.ops) for value in self._values(name))
        return next((user for user in users if user is not None), None)

    def _has_form(self, condition: Form) -> bool:
        """Whether a value is made in some way. What was bound stays as it was: the value is looked at, not matched."""
        mark, furthest, place = len(self.trail), self.furthest, self.place
        held = False
        for value in self._values(condition.name)[-1:]:
            whole = self.views.whole(value)
            goals = [(self.operands.setdefault(id(condition), _Operand(condition.form)), whole)]
            held = self._solve(_append(goals, None), end=lambda: True)
        self._undo(mark)
        self.furthest, self.place = furthest, place
        return held != condition.negated

    def _reduces_all(self) -> bool:
        """Whether the labels of each reduction are its loops, all of them: one that nothing reads counts too."""
        for node, loops in self.reductions.items():
            left = [loop for loop in loops if (node, loop) not in self.used]
            free = [label for label in node.loops if label not in self.labels]
            singles = sum(not label.pack for label in free)
            pairs = pair(tuple(free), (*left, *[UNIT] * (singles - len(left))), {})
            if pairs is None:
                return self._fail(
                    node, f"a reduction over {' '.join(la.name for la in node.loops)}", "more dims", Kind.REDUCTION
                )
            for label, indices in pairs:
                self._set(self.labels, label, indices)
        return True

    def _independent(self) -> bool:
        """Whether no input is made from a result: a replacement needs its inputs before it has results."""
        if len(self.roots) == 1:
            return True
        roots = {access.value.owner.operation for access in self.roots.values()}
        pending = [b.value for b in self.inputs.values() if b.value is not None]
        seen: set[ir.Operation] = set()
        while pending:
            op = defining_op(pending.pop())
            if op is None or op in seen:
                continue
            if op in roots:
                return self._fail(
                    self.graph.results[0].node, "inputs that need no result", "one made from a result", Kind.ORDER
                )
            seen.add(op)
            if any(_may_use(op, root) for root in roots):
                pending.extend(op.operands)
        return True

    def _trust(self, tie: Tie) -> None:
        """Take the pattern's word for the run-time sizes of what an op by name makes: nothing else tells them."""
        if not isinstance(tie.node, Whole) or isinstance(tie.size, int) or tie.size not in self.dims:
            return
        known, _ = self.dims[tie.size]
        indices = tuple(i for label in tie.labels for i in self.labels.get(label, ()))
        sizes = known if isinstance(known, tuple) else (known,)
        if len(sizes) != len(indices):
            return
        for index, size in zip(indices, sizes, strict=True):
            if isinstance(index, Loop) and index.size is None:
                self._set(self.equal, (self._extent(index), size))
                self._set(self.equal, (index, size))
                self._set(self.extents, index, size)

    def _tied(self, tie: Tie) -> bool:
        """Whether labels have the size that the pattern writes for them."""
        bound = [self.labels.get(label) for label in tie.labels]
        if None in bound:
            return True  # no part of the payload was looked at under them
        indices = tuple(i for group in bound if group is not None for i in group)
        sizes = tuple(self._extent(i) for i in indices)
        size: Sizes = sizes if tie.pack or len(sizes) != 1 else sizes[0]
        if isinstance(tie.size, int):
            return size == tie.size or self._fail(tie.node, f"a dim of size {tie.size}", _size_text(size), Kind.SIZE)
        return self._bind_dim(tie.node, tie.size, size, indices)

    def _extent(self, index: Index) -> Size:
        if index == UNIT:
            return 1
        if isinstance(index, Loop) and index.size is not None:
            return index.size
        return self.extents.get(index, DimSize(index, 0))

    def _same_dim_size(self, classes: Classes, again: tuple[str, Sizes, tuple[Index, ...]], node: Any) -> bool:
        name, size, indices = again
        known, known_indices = self.dims[name]
        if isinstance(known, int) and known == size:
            return True  # a factor in a window may be a dim's size, and has no index
        left, right = kept(known, known_indices), kept(size, indices)
        if len(left) == len(right):
            pairs = zip(left, right, strict=True)
            if all(
                classes.same(a, b) or classes.same(i, j) or self._same_extent((a,), (b,)) for (a, i), (b, j) in pairs
            ):
                return True
        elif isinstance(size, tuple) and self._same_extent([s for s, _ in left], [s for s, _ in right]):
            return True  # the same dims of a pack, flattened in one of the two
        found = "another size that is dynamic" if known == size or _is_dynamic(size) else _size_text(size)
        return self._fail(node, f"{_own_name(name)} = {_size_text(known)}", found, Kind.SAME_SIZE)

    def _same_number(self, node: Number, found: Term, sizes: conditions.Sizes, classes: Classes) -> bool:
        low = conditions.evaluate(node.low, sizes)
        if not isinstance(found, Constant):
            return self._same_dim(node, found, classes)
        if low is None:
            return self._fail(
                node, f"the constant {_number_text(node)}, which is dynamic", str(found.value), Kind.CONSTANT
            )
        if node.high is not None:
            high = conditions.evaluate(node.high, sizes)
            good = high is not None and numbers.within(low, high, found.value, found.type)
        else:
            good = numbers.same(low, found.value, found.type)
        given = numbers.text(found.value, found.type)
        return good or self._fail(node, f"the constant {_number_text(node)}", given, Kind.CONSTANT)

    def _same_dim(self, node: Number, found: Term, classes: Classes) -> bool:
        """A dim that is only known at run time, read from the tensor and cast to the element type."""
        given = self._computed(found)
        wanted = self._factors(node.low) if node.high is None else None
        if given is not None and wanted is not None:
            if len(given) == len(wanted) == 1 and classes.same(given[0], wanted[0]):
                return True
            if self._same_extent(wanted, given):
                return True
        return self._fail(node, f"the constant {_number_text(node)}", self._describe(found), Kind.CONSTANT)

    def _computed(self, term: Term, depth: int = 0) -> list[Size | ir.Value] | None:
        """The sizes and numbers whose product a term is, whatever it is cast to; None if it is none."""
        term = self.views.resolve(term)
        while isinstance(term, Apply) and term.op in _CASTS:
            term = self.views.resolve(term.args[0])
        if isinstance(term, Apply) and term.op == "arith.muli" and depth < _MAX_FACTORS:
            left, right = (self._computed(arg, depth + 1) for arg in term.args)
            return None if left is None or right is None else left + right
        if isinstance(term, Constant):
            return [term.value] if isinstance(term.value, int) and term.value > 0 else None
        if isinstance(term, DimSize):
            return [term]
        return [term.value] if isinstance(term, Access) and not term.indices else None

    def _factors(self, expr: tree.DimExpr) -> list[Size] | None:
        """The sizes whose product dim arithmetic is, None if it is no product of sizes."""
        if isinstance(expr, tree.Literal):
            return [expr.value] if isinstance(expr.value, int) and expr.value > 0 else None
        if isinstance(expr, tree.DimRef) and expr.name in self.dims:
            size = self.dims[expr.name][0]
            return list(size) if isinstance(size, tuple) else [size]
        if not isinstance(expr, tree.Arithmetic) or expr.op != "*":
            return None
        left, right = self._factors(expr.left), self._factors(expr.right)
        return None if left is None or right is None else left + right

    def _same_extent(self, left: Sequence[Size | ir.Value], right: Sequence[Size | ir.Value]) -> bool:
        """Whether two products of sizes are equal, by what they are computed from and by what is known to be equal."""
        first, second = (
            product(Extent(s) if isinstance(s, int) else self.views.extent(s) for s in side) for side in (left, right)
        )
        if first == second or not (first.atoms and second.atoms):
            return first == second
        classes = self._equal_atoms()
        return first.renamed(classes.first) == second.renamed(classes.first)

    def _equal_atoms(self) -> Classes:
        """What is known to be equal, with the atoms that run-time sizes are."""
        sizes = dict.fromkeys(thing for two in self.equal for thing in two if isinstance(thing, DimSize))
        atoms = ((size, self.views.extent(size).atom) for size in sizes)
        return Classes([*self.equal, *((size, atom) for size, atom in atoms if atom is not None)])

    def _static_dims(self) -> dict[str, conditions.Known | tuple[conditions.Known, ...]]:
        def number(size: Size) -> conditions.Known:
            return size if isinstance(size, int) else bounds_of(size, self.views.reads)

        sizes: dict[str, conditions.Known | tuple[conditions.Known, ...]] = dict(self.integers)
        for name, (size, _) in self.dims.items():
            sizes[name] = tuple(map(number, size)) if isinstance(size, tuple) else number(size)
            if isinstance(size, tuple):
                sizes[f"rank({name})"] = len(size)
        return sizes | {f"bits({name})": ops.bits(element) for name, element in self.types.items()}

    def _match(self, value: ir.Value) -> Match:
        sizes = [(name, size) for name, (size, _) in self.dims.items()]
        return Match(
            pattern=self.graph.pattern,
            roots=tuple(self.roots[i].value for i in range(len(self.graph.results))),
            root_sizes=tuple(self._root_sizes(self.roots[i]) for i in range(len(self.graph.results))),
            inputs=dict(self.inputs),
            shapes=dict(self.shapes),
            dims={n: size for n, size in (*sizes, *self.integers.items()) if "." not in n},
            types={n: element for n, element in self.types.items() if "." not in n},
            ops=tuple(self.ops),
            held=len(self.held),
            function=self.function,
            location=location_text(value.owner.operation),
        )

    def _root_sizes(self, access: Access) -> tuple[Size, ...]:
        """The sizes of a root, axis by axis, read off the inputs rather than off what will be replaced."""
        shape = shape_of(access.value) or ()
        sizes: list[Size] = []
        for axis, (index, size) in enumerate(zip(access.indices, shape, strict=True)):
            sizes.append(self.extents.get(index, DimSize(access.value, axis)) if size is None else size)
        return tuple(sizes)

    def _describe(self, term: Term) -> str:
        if isinstance(term, Constant):
            return f"the constant {numbers.text(term.value, term.type)}"
        if isinstance(term, Apply):
            return short(term.op)
        if isinstance(term, Reduce):
            return f"a reduction by {short(term.combiner)}"
        if isinstance(term, Access):
            op = defining_op(term.value)
            return op.name if op is not None else f"an argument of {term.value.owner.owner.operation.name}"
        return "an index or a size"


# ---- pieces ------------------------------------------------------------------------------------------------------


def _is_commutative(name: str) -> bool:
    op = ops.find(name)
    return op is not None and op.commutative


def _append(more: list[tuple[Any, Any]], rest: Goals) -> Goals:
    for goal in reversed(more):
        rest = (goal, rest)
    return rest


def _is_dynamic(size: Sizes) -> bool:
    return any(isinstance(s, DimSize) for s in (size if isinstance(size, tuple) else (size,)))


def _own_name(name: str) -> str:
    """A dim as its own pattern calls it."""
    return name.rpartition(".")[2]


def _may_use(op: ir.Operation, root: ir.Operation) -> bool:
    """False if an op comes before a root in its block, so that nothing that it uses can be made from the root."""
    return op.block != root.block or not op.is_before_in_block(root)


def _size_text(size: Sizes) -> str:
    if isinstance(size, tuple):
        return " x ".join(map(_size_text, size)) or "nothing"
    return str(size) if isinstance(size, int) else "a dynamic size"


def _dims(count: int) -> str:
    return "1 dim" if count == 1 else f"{count} dims"


def _number_text(node: Number) -> str:
    low = conditions.text(node.low)
    return low if node.high is None else f"{low}..{conditions.text(node.high)}"
