"""One search: does a pattern hold with its result at one payload value?

A search solves a list of goals, each a pattern node against a payload term, with backtracking over the few real
choices: the order of commutative operands, and the level of a chain of views at which an input binds. Labels of the
pattern bind to indices of the payload, so one pattern holds under any loop order, broadcast form or reshape.

When it fails, the goal that failed furthest along is kept, and becomes the near miss.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from opsplice.matchers.dims.extents import Extent
from opsplice.matchers.ir import effects
from opsplice.matchers.ir.op_names import location_text, short
from opsplice.matchers.ir.tensor_values import defining_op, is_structured, is_tensor, shape_of
from opsplice.matchers.patterns.nodes import (
    Accumulated,
    Anything,
    Choice,
    Form,
    Graph,
    Input,
    Named,
    Number,
    Product,
    Result,
    Whole,
)
from opsplice.matchers.patterns.walk import heads, nodes_of
from opsplice.matchers.search.bindings import Attempt, Failure, size_text
from opsplice.matchers.search.labels import Sizes, ones_first, pair, rank_text, sizes_of
from opsplice.matchers.search.matches import Binding, Kind, Match, NearMiss, Size, flat
from opsplice.matchers.search.merged_dims import finer, groupings, ungrouped
from opsplice.matchers.search.verdicts import Verdicts, number_text
from opsplice.matchers.terms import address, bodies, chains, constants
from opsplice.matchers.terms.attributes import attribute_text, is_named, same_attribute
from opsplice.matchers.terms.canonical import COMPARISONS, WIDTHS, turned
from opsplice.matchers.terms.recomputation import Again
from opsplice.matchers.terms.terms import (
    UNIT,
    Access,
    Apply,
    Constant,
    DimSize,
    Flat,
    Index,
    Loop,
    Part,
    Reduce,
    Started,
    Term,
)
from opsplice.matchers.terms.views import Origin, Views
from opsplice.spec_lang.dims import dim_conditions
from opsplice.spec_lang.syntax import tree, vocabulary

# A search that takes more steps than this is given up and reported, so that no pattern can hang a compile.
MAX_STEPS = 20_000
_MAX_DEPTH = 200
_MOST_ORDERS = 24
# Failures that dims of size one elsewhere may mend.
_OF_DIMS = frozenset({Kind.DIMS, Kind.RANK, Kind.SIZE, Kind.SAME_SIZE})
# Casts to shorter floats quantise: they are part of what a program computes, and not looked through.
_LEAST_BITS = 16
_WIDENINGS = frozenset({"arith.extf", "arith.extsi"})
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


@dataclass(frozen=True)
class _Root:
    """The goal to find the payload value of the pattern's result number `number`."""

    number: int


@dataclass(frozen=True, eq=False)
class _Operand:
    """The goal that a whole tensor is `result`, or (with `through reshape`) a reshape of it."""

    result: Result


class _GaveUpError(Exception):
    """The search took too many steps."""


# A linked list of (pattern node, payload term): cheap to extend, shared between branches.
Goals = tuple[tuple[Any, Any], Any] | None


class Search(Verdicts):
    """One attempt to match one graph with its first result at one payload value. Use it once."""

    def __init__(self, views: Views, graph: Graph, function: str, max_steps: int = MAX_STEPS) -> None:
        super().__init__(views, graph)
        self.function = function
        self.max_steps = max_steps
        self.parameters = {p.name: p for p in graph.pattern.parameters}
        self.entered: dict[tuple[int, Any], None] = {}
        self.operands: dict[int, _Operand] = {}
        self.reduced: dict[Reduce, Reduce] = {}
        self.is_view = False  # whether the root only chooses other indices of some value
        self.steps = 0
        self.gave_up = False
        self.may_place = False  # whether a dense input may be a value that is read through other dims

    def run(self, value: ir.Value, *, at_view: bool = False, as_it_is: bool = False) -> Match | None:
        """The match, or None; then `progress` and `near_miss` say how far it got and why no further.

        at_view: the value may be a view of what the pattern makes. as_it_is: it has the rank of the pattern's result.
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
            for attempt in self._attempts(value, at_view, as_it_is):
                self._undo(0)
                self.attempt, self.steps = attempt, 0
                if self._at_root(0, value, goals):
                    return None if at_view and self._holds_at_source(value) else self._match(value)
        except (_GaveUpError, RecursionError):
            self.gave_up = True
            self.furthest = Failure(
                None, "a decision", "one too large to decide", (len(self.held), 0), None, Kind.STEPS
            )
        return None

    def _attempts(self, value: ir.Value, at_view: bool, as_it_is: bool) -> Iterator[Attempt]:
        """The forms that a result and inputs may have, the plainest first; each is asked for when those before failed.

        So values that have an input's dims go before others in whose memory it lies.
        """
        yield Attempt()
        is_plain = at_view or self.is_view
        if self.may_place or (not is_plain and self.graph.strided and self._failed_at_dims()):
            yield Attempt(by_address=True)
        if not (is_plain or as_it_is):
            for access in groupings(self.views, self.graph, value):
                self.may_place = False
                yield Attempt(root=access)
                if self.may_place:
                    yield Attempt(root=access, by_address=True)
        if not self.is_view and self._may_have_ones_first(value):
            yield Attempt(ones_first=True)
        if self.graph.reordered and not is_plain:
            for order in _orders(self.graph.results[0].labels, self.views.whole(value).indices):
                if self._failed_at_dims():
                    yield Attempt(by_address=True, order=order)

    def _may_have_ones_first(self, value: ir.Value) -> bool:
        """Whether a match failed at its dims, and the result has one of size one behind others.

        The pattern reduces dims of its result, and contracts none: only then their places say nothing.
        """
        indices = self.views.whole(value).indices
        if not self._failed_at_dims() or ones_first(indices) == indices:
            return False
        nodes = nodes_of(self.graph)
        return any(type(node) is Reduce for node in nodes) and not any(isinstance(node, Product) for node in nodes)

    def _failed_at_dims(self) -> bool:
        return self.furthest is not None and self.furthest.kind in _OF_DIMS

    def _holds_at_source(self, view: ir.Value) -> bool:
        """Whether what a view rearranges is a match itself: then the view is none, nor a near miss."""
        source = view.owner.operation.operands[0]
        if Search(self.views, self.graph, self.function, self.max_steps).run(source) is None:
            return False
        self.furthest = None
        return True

    @property
    def progress(self) -> float:
        """Which part of the pattern's ops held before it failed, up to 1; 0 if hardly more than the outermost did."""
        return 0.0 if self.furthest is None else _progress(self.graph, self.furthest)

    def near_miss(self, value: ir.Value) -> NearMiss:
        """Why it failed at `value`, where `run` found no match and `progress` is not 0."""
        assert self.furthest is not None, "a search with progress has a failure"
        return self.missed(self.graph, self.furthest, value)

    def missed(self, graph: Graph, failure: Failure, value: ir.Value) -> NearMiss:
        """The near miss of a graph that failed at `value` in some way."""
        span = getattr(failure.node, "span", None)  # a condition has its own
        return NearMiss(
            pattern=graph.pattern.name,
            function=self.function,
            location=location_text(value.owner.operation),
            wanted=failure.wanted,
            found=failure.found,
            span=span or graph.spans.get(id(failure.node)),
            progress=_progress(graph, failure),
            at="" if failure.at is None else location_text(failure.at),
            kind=failure.kind,
            graph=graph,
            value=value,
            op=failure.at,
        )

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
            found = self._look(node, term)
            yield from self._apply_branches(node, found)
            source = self._unchanged(found)
            if source is not None:
                yield lambda: [(node, source)]
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
            for each in (None, *self._finer(node, term)):
                for loops in self._loop_orders(node, each or self._peek(node, term)):
                    yield lambda each=each, loops=loops: self._reduce(node, term, each, loops)

    def _has_form(self, condition: Form) -> bool | None:
        """Whether a value is made in some way. What was bound stays as it was: the value is looked at, not matched."""
        mark, furthest, place = len(self.trail), self.furthest, self.place
        held, values, terms = False, self._values(condition.name)[-1:], self._terms(condition.name)
        if not values and any(self._may_hold(condition.form.node, term) for term in terms):
            return None  # no tensor holds it, so that its dims cannot be told
        for value in values:
            whole = self.views.whole(value)
            goals = [(self.operands.setdefault(id(condition), _Operand(condition.form)), whole)]
            held = self._solve(
                _append(goals, None),
                end=lambda: self._fits() and self._meets(condition.conditions, self._static_dims()),
            )
        self._undo(mark)
        self.furthest, self.place = furthest, place
        return held != condition.negated

    def _options(self, node: Choice, term: Term) -> list[Any]:
        """The alternatives worth a try. At a root that is a view, only ops on whole tensors are."""
        options = [o for o in node.options if self._may_hold(o, term)] or list(node.options)
        first = set(heads(self.graph.results[0].node))
        if self.is_view and term == self.roots.get(0) and not first.isdisjoint(heads(node)):
            options = [o for o in options if any(isinstance(head, Whole) for head in heads(o))]
        return options

    def _name(self, node: Named, term: Term) -> list[tuple[Any, Any]]:
        self._set(self.named, (node.name, term))
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
        if result.element and not self._bind_type(result.node, result.element, self.views.element_type(value)):
            return None
        form = self.attempt if number == 0 else Attempt()
        access = form.root or self.views.whole(value)
        self._set(self.roots, number, access)
        indices = tuple(ungrouped(access.indices))
        indices = indices if form.order is None else tuple(indices[axis] for axis in form.order)
        if not self._bind_whole(result, access, ones_first(indices) if form.ones_first else indices):
            return None
        return [(result.node, access)]

    def _bind_whole(self, result: Result, access: Access, indices: tuple[Index, ...]) -> bool:
        """Give the labels of a result the fresh loops of a whole tensor, in the order of `indices`."""
        self._note_sizes(access)
        free = [label for label in result.labels if label not in self.labels]
        if len(free) != len(result.labels):
            return self._unify(result.node, result.labels, access.indices) is not None
        pairs = pair(result.labels, indices, {})
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
        """What an op that is looked through makes its result of: a cast, or one that leaves its operand as it is."""
        if not isinstance(found, Apply):
            return None
        if found.op in WIDTHS:
            own = "cast" not in self.graph.through or (isinstance(node, Apply) and node.op == found.op)
            return None if own or (vocabulary.bits(found.type) or 0) < _LEAST_BITS else found.args[0]
        source = self._unchanged(found)
        if source is None or self._single_place(node, found) is not None:
            return None
        return None if isinstance(node, Apply) and self.views.readings(found, node.op) else source

    def _unchanged(self, found: Term) -> Term | None:
        """x of `addf(x, 0.0)` and the like; None at a root, where a match ends with the op that makes x."""
        source = self.views.unchanged(found)
        if source is None or any(self.views.resolve(root) is found for root in self.roots.values()):
            return None
        return source

    def _peek(self, node: Any, term: Term) -> Term:
        """What `_look` would give, with nothing noted."""
        found = self.views.resolve(term)
        while (source := self._passed(node, found)) is not None:
            found = self.views.resolve(source)
        return found

    def _apply_branches(self, node: Apply, found: Term) -> Iterator[Any]:
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
        if isinstance(node, Product) and self._is_one_element(*spellings[0].args):
            yield lambda: self._fail(node, "a contraction of two values", "one value twice") or None
            return
        self._set(self.held, id(node))
        for goals, seen in pairings or [(straight, ())]:
            yield lambda goals=goals, seen=seen: self._pairing(goals, seen)

    def _is_one_element(self, left: Term, right: Term) -> bool:
        """Whether two terms are the same element, each read by itself and maybe widened."""
        left, right = self._inside(left)[0], self._inside(right)[0]
        if isinstance(left, Apply) and isinstance(right, Apply) and left.op == right.op in _WIDENINGS:
            return self._is_one_element(*left.args, *right.args)
        return left == right

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
            own = isinstance(found, Reduce) and found.combiner == node.combiner
            return own or self._single_place(node, found) is not None
        if isinstance(node, Number) and not dim_conditions.numbers_in(node.low):
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

    def _loop_orders(self, node: Reduce, found: Term) -> Iterator[tuple[Loop, ...]]:
        """The loops of a reduction in the orders that its labels may have them; none where what reads them tells."""
        told = not self.attempt.by_address or any(label.windowed for label in node.loops)
        if told or not isinstance(found, Reduce) or len(node.loops) != len(found.loops):
            yield ()
        else:
            yield from itertools.islice(itertools.permutations(found.loops), _MOST_ORDERS)

    def _reduce(
        self, node: Reduce, term: Term, finer: Reduce | None = None, order: tuple[Loop, ...] = ()
    ) -> list[tuple[Any, Any]] | None:
        """finer: what the reduction is over as many dims as the pattern has. order: its loops, label by label."""
        found = self._look(node, term)
        found = found if finer is None else finer
        if isinstance(found, Started) and found.op == node.combiner:
            self._set(self.held, id(node))
            start = self.views.constant(found.args[0])
            which = "another value" if start is None else constants.text(start.value, start.type)
            self._fail(node, f"a reduction by {short(node.combiner)} alone", f"one that starts at {which}", Kind.START)
            return None
        single = self._single_place(node, found)
        if single is not None:
            self._set(self.held, id(node))
            self._set(self.reductions, node, ())
            for label in node.loops:
                self._set(self.scopes, label, node)
            return [(node.body, single)]
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
        before = self.reduced.get(node)
        if before is not None and before.loops != found.loops:
            casts = "cast" in self.graph.through
            again = Again(self.views, self._chain, self._inside, casts=casts).seen(before, found)
            if again is None:
                self._fail(node, "one reduction for all its uses", "another", Kind.REDUCTION, "again")
                return None
            return self._pairing([], again)
        self._set(self.held, id(node))
        self._set(self.reductions, node, found.loops)
        self._set(self.reduced, node, found)
        for label in node.loops:
            self._set(self.scopes, label, node)
        for label, loop in zip(node.loops, order, strict=False):
            self._set(self.labels, label, (loop,))
            self._set(self.used, (node, loop))
        return [(node.body, found.body)]

    def _finer(self, node: Reduce, term: Term) -> Iterator[Reduce]:
        """A reduction that the program has over fewer dims, over as many as the pattern has."""
        found = self._peek(node, term)
        if not isinstance(found, Reduce) or found.combiner != node.combiner or len(node.loops) <= len(found.loops):
            return iter(())
        is_plain = not any(label.pack or label.windowed for label in node.loops)
        return finer(self.views, found, len(node.loops)) if is_plain else iter(())

    def _single_place(self, node: Any, found: Term) -> Term | None:
        """What a sum over a window of one place adds to zero: no loop is left of it, but the sum is there."""
        if type(node) is not Reduce or not isinstance(found, Apply) or found.op != node.combiner:
            return None
        return self.views.unchanged(found) if any(label.windowed for label in node.loops) else None

    def _number(self, node: Number, term: Term) -> list[tuple[Any, Any]] | None:
        found = self._look(node, term)
        found = self.views.constant(found) or found
        if isinstance(found, Constant) or dim_conditions.numbers_in(node.low):
            # Dims may be bound by a later goal, so numbers are compared at the end.
            self._set(self.numbers, (node, found), self.place)
            return []
        self._other_op(node, f"the constant {number_text(node)}", found)
        return None

    def _other_op(self, node: Any, wanted: str, found: Any) -> None:
        self._fail(node, wanted, self._describe(found), Kind.OP)

    def _whole_branches(self, node: Whole, term: Any) -> Iterator[Any]:
        whole = (Origin(a, op, a.value.result_number, ()) for a in self._chain(term) if (op := defining_op(a.value)))
        named = [each for each in (*whole, *self._origins(term)) if is_named(each.op.name, node.op)]
        for made in named:
            yield lambda made=made: self._whole(node, made)
        if not named:
            yield lambda: self._other_op(node, node.op, term)

    def _origins(self, term: Term) -> Iterator[Origin]:
        """The ops in bodies that make an element, from the last one down through what is looked through."""
        at: Term | None = term
        while at is not None:
            found = self.views.resolve(at)
            made = self.views.origin(found)
            if made is not None:
                self._resolve(at)
                yield made
            at = self._passed(None, found)

    def _whole(self, node: Whole, made: Origin) -> list[tuple[Any, Any]] | None:
        op, number, place = made.op, made.number, made.term if isinstance(made.term, Access) else None
        self.place = op
        if place is not None:
            self._set(self.ops, op)
        results = 1 if node.rest and node.count == 1 else len(op.results)  # what is open may have more
        if (results, number) != (node.count, node.number):
            self._fail(
                node, f"result {node.number} of {node.count}", f"result {number} of {len(op.results)}", Kind.RESULT
            )
            return None
        if len(op.operands) != len(node.operands) and not (node.rest and len(op.operands) > len(node.operands)):
            count = f"{len(node.operands)}{' or more' * node.rest} operands"
            self._fail(node, count, f"{len(op.operands)}", Kind.OPERANDS)
            return None
        if not all(self._attribute(node, attribute, op) for attribute in node.attributes):
            return None
        if not node.regions and node.body is None and effects.has_own_region(op):
            self._fail(node, f"{node.op} without a region", "a region, which the pattern does not show", Kind.REGION)
            return None
        if node.body is not None and not self._has_body(node, node.body, op):
            return None
        if place is not None and op != self.roots[0].value.owner.operation and effects.has_effects(op):
            self._fail(
                node, f"{node.op} without side effects, as it is inside the pattern", "one that has some", Kind.EFFECTS
            )
            return None
        if node.element and not self._bind_type(node, node.element, self.views.element_type(op.results[number])):
            return None
        # A scalar is the same for all elements.
        if place is not None and is_tensor(place.value) and self._unify(node, node.labels, place.indices) is None:
            return None
        self._set(self.held, id(node))
        if vocabulary.is_elementwise(op.name):
            return self._elements(node, made, place)
        pairs = zip(node.operands, op.operands, strict=False)
        return [(self.operands.setdefault(id(r), _Operand(r)), self.views.whole(operand)) for r, operand in pairs]

    def _has_body(self, node: Whole, body: tree.Code, op: ir.Operation) -> bool:
        other = bodies.difference(op, body)
        if other is None:
            self.views.reads.update(dict.fromkeys(bodies.outside(op)))
        return other is None or self._fail(node, *other, Kind.REGION)

    def _elements(self, node: Whole, made: Origin, place: Access | None) -> list[tuple[Any, Any]] | None:
        """What an op makes each element of: the same elements of its operands, none of them transposed."""
        at = [self.labels.get(label) for label in node.labels] if place is None else [place.indices]
        indices = tuple(index for group in at if group is not None for index in group)
        args = made.args if place is None else self.views.elements(made.op, indices)
        more: list[tuple[Any, Any]] = []
        for result, arg in zip(node.operands, args, strict=False):
            if result.labels and self._unify(node, result.labels, indices) is None:
                return None
            more.append((result.node, arg))
        return more

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
        indices = tuple(ungrouped(whole.indices))
        return [(result.node, whole)] if self._bind_whole(result, whole, indices) else None

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
        by_address = self.attempt.by_address and bool(levels)
        if by_address and node.name in self.graph.strided:
            yield lambda: self._placed(node, parameter, levels)
            return
        if not levels:
            where = "a value inside a fused op, which no tensor holds"
            yield lambda: self._fail(node, f"a tensor for {node.name}", where, Kind.NO_VALUE) or None
        for position in range(len(levels)):
            yield lambda position=position: self._level(node, parameter, levels, position)
        if by_address:
            yield lambda: self._placed(node, parameter, levels)

    def _level(
        self, node: Input, parameter: tree.Parameter, levels: list[Access], position: int
    ) -> list[tuple[Any, Any]] | None:
        """Bind an input to the value at one of some levels; where that fails, note whether its address may say more."""
        more = self._tensor(node, parameter, levels[position], levels[:position])
        bound = self.inputs.get(node.name)
        if more is None and not self.may_place:
            is_other = bound is not None and all(level.value != bound.value for level in levels)
            self.may_place = is_other or any(isinstance(i, (Flat, Part)) for level in levels for i in level.indices)
        return more

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
                yield Binding(value=access.value, element=self.views.element_type(access.value))

    def _wanted_elements(self, kind: tree.ScalarType) -> tuple[str, ...] | None:
        """The element types that a scalar may have, None for any."""
        choices = self.graph.variables.get(kind.name)
        known = kind.name if choices is None else self.types.get(kind.name)
        return (choices or None) if known is None else (known,)

    def _tensor(
        self, node: Input, parameter: tree.Parameter, access: Access, above: list[Access]
    ) -> list[tuple[Any, Any]] | None:
        """Bind an input to the value of an access. above: the views of it that lie between."""
        for view in above:
            self._account(view)
        assert isinstance(parameter.type, tree.TensorType)
        value = access.value
        self.place = defining_op(value) or self.place
        if not is_tensor(value):
            self._fail(node, f"a tensor for {node.name}", f"a scalar of type {value.type}", Kind.NO_VALUE)
            return None
        if not self._bind(
            node, parameter.type.element.name, Binding(value=value, element=self.views.element_type(value))
        ):
            return None
        pairs = self._unify(node, node.labels, access.indices)
        if pairs is None or not self._bind_dims(node, parameter.type, pairs, access):
            return None
        return []

    def _placed(self, node: Input, parameter: tree.Parameter, levels: list[Access]) -> list[tuple[Any, Any]] | None:
        """Bind an input to what holds its element: values in whose memory each of its dims has a stride."""
        assert isinstance(parameter.type, tree.TensorType)
        for position, access in enumerate(levels):
            bound = self._bound_labels(node, access)
            if bound is None or not is_tensor(access.value):
                continue
            sizes, indices = bound
            extents = [address.extent_of(self.views, size) for size in flat(sizes)]
            tensor = address.Tensor(self.views, extents, tuple(i for group in indices for i in group))
            places = [each for each in tensor.places(access) if _has_strides(each[1], node.labels, indices)]
            binding = self._at_places(node, places, extents)
            if binding is None:
                continue
            self._note_sizes(access)
            for view in levels[:position]:
                self._account(view)
            if not self._bind(node, parameter.type.element.name, binding):
                return None
            self._set(self.shapes, node.name, tuple(sizes))
            for dim, size, found in zip(parameter.type.dims, sizes, indices, strict=True):
                if dim.size is not None and size != dim.size:
                    self._fail(node, f"a dim of size {dim.size}", size_text(size), Kind.SIZE)
                    return None
                if dim.name is not None and not self._bind_dim(node, dim.name, size, found):
                    return None
            return []
        wanted = f"a stride for each dim of {node.name}"
        self._fail(node, wanted, "an element whose place is no sum of indices, each times a stride", Kind.DIMS)
        return None

    def _at_places(self, node: Input, places: Sequence[address.Place], extents: Sequence[Extent]) -> Binding | None:
        """What an input is that lies in memory at some places: what it is already, a dense value, or (strided) any."""
        bound = self.inputs.get(node.name)
        if bound is not None and bound.value is not None:
            known = bound.places or address.layouts(self.views, bound.value, extents)
            return bound if any(place in places for place in known) else None
        dense, is_strided = address.dense(extents), node.name in self.graph.strided
        whole = [each for each in places if each[1] == dense]
        value, layout = next(iter(whole or (places if is_strided else ())), (None, None))
        if value is None:
            return None
        apart = () if layout == dense else tuple(places)
        return Binding(value=value, element=self.views.element_type(value), places=apart)

    def _bound_labels(self, node: Input, access: Access) -> tuple[list[Sizes], list[tuple[Index, ...]]] | None:
        """The sizes and the loops of an input's labels, where all are bound, each to loops of its own."""
        known = sizes_of(access)
        sizes: list[Sizes] = []
        indices = [self.labels.get(label, ()) for label in node.labels]
        loops = [index for group in indices for index in group if index != UNIT]
        if any(not isinstance(index, Loop) for index in loops) or len(set(loops)) < len(loops):
            return None
        for label, group in zip(node.labels, indices, strict=True):
            if label not in self.labels:
                return None
            found = tuple(known.get(i, self._extent(i)) for i in group)
            if any(isinstance(size, DimSize) and not isinstance(size.value, ir.Value) for size in found):
                return None
            sizes.append(found if label.pack else found[0])
        return sizes, indices

    def _account(self, view: Access) -> None:
        step = self.views.expand(view)
        if step is not None and step.op is not None:
            self._set(self.ops, step.op)

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
            ones_first=self.attempt.ones_first,
            order=self.attempt.order,
        )

    def _root_sizes(self, access: Access) -> tuple[Size, ...]:
        """The sizes of a root, axis by axis, read off the inputs rather than off what will be replaced."""
        shape, shaped_by = shape_of(access.value) or (), _shaped_by(access.value)
        sizes: list[Size] = []
        for axis, (index, size) in enumerate(zip(access.indices, shape, strict=True)):
            sizes.append(self.extents.get(index, DimSize(shaped_by, axis)) if size is None else size)
        return tuple(sizes)


def _orders(labels: tuple[Any, ...], indices: tuple[Index, ...]) -> list[tuple[int, ...]]:
    """The other orders of a result's axes: a pack takes what other labels leave, with all axes of size one."""
    axes = [axis for axis, index in enumerate(indices) if index != UNIT]
    singles = sum(not label.pack for label in labels)
    pack = next((at for at, label in enumerate(labels) if label.pack), None)
    if len(axes) < singles or (pack is None and len(indices) != singles):
        return []
    found: list[tuple[int, ...]] = []
    for chosen in itertools.islice(itertools.permutations(axes, singles), _MOST_ORDERS):
        rest = tuple(axis for axis in range(len(indices)) if axis not in chosen)
        found.append(chosen if pack is None else (*chosen[:pack], *rest, *chosen[pack:]))
    return [order for order in found if order != tuple(range(len(indices)))]


def _has_strides(layout: address.Layout, labels: tuple[Any, ...], indices: list[tuple[Index, ...]]) -> bool:
    """Whether each label that is no pack has one stride at most."""
    runs = iter(layout.dims)
    each = [[len(next(runs)) for _ in group] for group in indices]
    return all(label.pack or sum(counts) <= 1 for label, counts in zip(labels, each, strict=True))


def _progress(graph: Graph, failure: Failure) -> float:
    if failure.kind not in (Kind.START, Kind.REGION) and any(
        failure.node is head for head in heads(graph.results[0].node)
    ):
        return 0.0
    if failure.kind is Kind.OP and failure.held[0] < 2:
        return 0.0  # many an op is like the outermost one of a pattern, and that says nothing
    return max(1, failure.held[0]) / max(1, graph.size)


# ---- pieces ------------------------------------------------------------------------------------------------------


def _is_commutative(name: str) -> bool:
    op = vocabulary.find(name)
    return op is not None and op.commutative


def _shaped_by(root: ir.Value) -> ir.Value:
    """A value of a root's shape that is there before it: what a `linalg` op starts from."""
    op = defining_op(root)
    if op is None or not is_structured(op) or len(op.results) > 1:
        return root
    return op.operands[len(op.operands) - 1]


def _append(more: list[tuple[Any, Any]], rest: Goals) -> Goals:
    for goal in reversed(more):
        rest = (goal, rest)
    return rest


def _dims(count: int) -> str:
    return "1 dim" if count == 1 else f"{count} dims"
