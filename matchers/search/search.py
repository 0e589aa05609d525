"""One search: does a pattern hold with its result at one payload value?

A search solves a list of goals, each a pattern node against a payload term, with backtracking over the few real
choices: the order of commutative operands, and the level of a chain of views at which an input binds. Labels of the
pattern bind to indices of the payload, so one pattern holds under any loop order, broadcast form or reshape.

When it fails, the goal that failed furthest along is kept, and becomes the near miss.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from iree.compiler import ir

from opsplice.matchers.patterns.nodes import (
    Accumulated,
    Anything,
    Choice,
    Form,
    Graph,
    Input,
    Label,
    Named,
    Node,
    Number,
    Place,
    Setting,
    Whole,
)
from opsplice.matchers.patterns.walk import (
    endings,
    has_windows,
    heads,
    kept_by_reductions,
    only_reduces,
    ops_above_reductions,
)
from opsplice.matchers.search.failures import QUIET, Failure, Kind, Listener, Why
from opsplice.matchers.search.inputs import Inputs
from opsplice.matchers.search.labels import ones_first
from opsplice.matchers.search.matches import Match, NearMiss
from opsplice.matchers.search.merged_dims import Finer, Kept, finest, groupings, kept_below, merged, ungrouped
from opsplice.matchers.search.operators import Operators
from opsplice.matchers.search.reading import Reader
from opsplice.matchers.search.roots import Roots, orders, placings_by_kept
from opsplice.matchers.search.state import Attempt, Branch, Goal, Operand, Root, State
from opsplice.matchers.search.verdicts import Verdicts
from opsplice.matchers.search.whole_ops import WholeOps
from opsplice.matchers.terms.ops.reshape_ops import TRANSPOSE, before_reshapes
from opsplice.matchers.terms.terms import UNIT, Access, Apply, Index, LoopIndex, Reduce, Term
from opsplice.matchers.terms.views import Views

# A search that takes more steps than this is given up and reported, so that no pattern can hang a compile.
MAX_STEPS = 20_000
_MAX_DEPTH = 200
# From how many ops on that hold it is worth it to take a result's dims apart for the strides of an input.
_MANY_HELD = 8
# Failures that dims of size one elsewhere may mend.
_OF_DIMS = frozenset({Kind.DIMS, Kind.RANK, Kind.SIZE, Kind.SAME_SIZE})


class _GaveUpError(Exception):
    """The search took too many steps."""


# A linked list of (pattern node, payload term): cheap to extend, shared between branches.
Goals = tuple[Goal, "Goals"] | None


class Search:
    """One attempt to match one graph with its first result at one payload value. Use it once."""

    def __init__(
        self,
        views: Views,
        graph: Graph,
        function: str,
        max_steps: int = MAX_STEPS,
        *,
        listener: Listener = QUIET,
    ) -> None:
        self.views = views
        self.graph = graph
        self.function = function
        self.max_steps = max_steps
        self.state = State(views, graph, listener)
        # Not its own method, which would keep what was searched until Python looks for cycles.
        self.verdicts = Verdicts(self.state, partial(Search._has_form, weakref.proxy(self)))
        self.reader = Reader(self.state)
        self.inputs = Inputs(self.state, self.reader)
        self.wholes = WholeOps(self.state, self.reader)
        self.operators = Operators(self.state, self.reader)
        self.roots = Roots(self.state)
        self.entered: dict[tuple[int, Term], None] = {}
        self.kept: dict[Access, Iterator[Kept]] = {}
        self.is_view = False  # whether the root only chooses other indices of some value
        self.steps = 0
        self.gave_up = False

    @property
    def furthest(self) -> Failure | None:
        """What failed furthest along."""
        return self.state.furthest

    def run(self, value: ir.Value, *, at_view: bool = False, forms: int | None = None) -> Match | None:
        """The match, or None; then `progress` and `near_miss` say how far it got and why no further.

        at_view: the value may be a view of what the pattern makes. forms: how many forms of a result are tried, the
        plainest first; None: all. A match that takes constant factors along, as scales of queries and keys, goes before
        one whose inputs have them.
        """
        match = self._run(value, at_view, forms)
        if match is None or not self.state.scaled:
            return match
        other = Search(self.views, self.graph, self.function, self.max_steps)
        other.state.wants_factors = True
        return other._run(value, at_view, forms) or match

    def _run(self, value: ir.Value, at_view: bool, forms: int | None) -> Match | None:
        goals: Goals = None
        for number in range(len(self.graph.results) - 1, 0, -1):
            goals = ((Root(number), Access(value, ())), goals)
        try:
            if not (at_view or self.graph.rearranged):
                step = self.views.expand(self.views.root(value))
                self.is_view = step is None or isinstance(step.term, Access)
                if self.is_view and not any(isinstance(head, Whole) for head in endings(self.graph)):
                    return None  # a view of something: a match, if there is one, is where that something is made
            for attempt in itertools.islice(self._attempts(value, at_view), forms):
                is_open = attempt.by_windows or not attempt.by_address
                if not (is_open or self.roots.has_written_sizes(value, attempt)):
                    continue
                self.state.undo(0)
                self.state.attempt, self.steps = attempt, 0
                if self._at_root(value, goals):
                    return None if at_view and self._holds_at_source(value) else self.roots.match(self.function)
        except (_GaveUpError, RecursionError):
            self.gave_up = True
            self.state.furthest = Failure(None, Why.STEPS, (), (len(self.state.held), 0), None)
        return None

    def _attempts(self, value: ir.Value, at_view: bool) -> Iterator[Attempt]:
        """The forms that a result and inputs may have, the plainest first; each is asked for when those before failed.

        So values that have an input's dims go before others in whose memory it lies.
        """
        is_plain = at_view or self.is_view
        may_lack = self.graph.may_lack_dims and not has_windows(self.graph)
        if not is_plain and has_windows(self.graph) and self.graph.lacked(*self._outer_dims(value)):
            yield from self._by_windows(value)  # in the pattern's order its dims are too few
            return
        yield Attempt()
        if self.inputs.may_place or (not is_plain and self.inputs.may_stride and self._failed_at_dims()):
            yield Attempt(by_address=True)
        if not is_plain and not may_lack:
            yield from self._taken_apart(value)
        if not self.is_view and self._may_have_ones_first(value):
            yield Attempt(ones_first=True)
        if at_view and not self.graph.may_lack_dims and not self.state.met_windows:
            yield from self._reordered(value, (None,))
        if is_plain:
            return
        if may_lack:
            yield from self._with_fewer_dims(value)
        elif self.state.met_windows or self.graph.may_lack_dims:
            yield from self._by_windows(value)
        elif self.graph.reordered:
            yield from self._reordered(value, self._split_roots(value))
            may_merge = only_reduces(self.graph) and self._failed_at_dims()
            for root in merged(self.views, value) if may_merge else ():
                for order in orders(self.graph, tuple(ungrouped(root.indices))):
                    if self._failed_at_dims():
                        yield Attempt(root=root, by_address=True, order=order)

    def _reordered(self, value: ir.Value, roots: Iterable[Access | None]) -> Iterator[Attempt]:
        """Those of some accesses to a result, None for its own, with its dims in other orders."""
        if self.graph.reordered:
            for root in roots:
                indices = tuple(ungrouped((root or self.views.root(value)).indices))
                tried = None if root is not None else tuple(range(len(indices)))
                by_strides = root is not None and not self._failed_at_dims()  # no other order gives these
                for order in orders(self.graph, indices)[: 1 if by_strides else None]:
                    if order != tried and (by_strides or self._failed_at_dims()):
                        yield Attempt(root=root, by_address=True, order=order)

    def _taken_apart(self, value: ir.Value) -> Iterator[Attempt]:
        """Those with as many dims as the pattern's, several for one that the program splits below."""
        for access in groupings(self.views, self.graph, value):
            self.inputs.may_place = False
            yield Attempt(root=access)
            if self.inputs.may_place:
                yield Attempt(root=access, by_address=True)

    def _by_windows(self, value: ir.Value) -> Iterator[Attempt]:
        """Those with dims in the order that windows tell: where a program may lack dims, with as few as it has."""
        missing = self.graph.lacked(*self._outer_dims(value))
        yield Attempt(by_address=True, by_windows=True, lacks=missing)
        for lacks in range(missing, -1, -1) if self.state.met_windows else ():
            for root in groupings(self.views, self.graph, value, lacks):
                yield Attempt(root=root, by_address=True, by_windows=True, lacks=lacks)

    def _outer_dims(self, value: ir.Value) -> tuple[tuple[Label, ...], tuple[Index, ...]]:
        return self.graph.results[0].labels, self.views.root(value).indices

    def _with_fewer_dims(self, value: ir.Value) -> Iterator[Attempt]:
        """Those in which dims that the program lacks, and its own of size one, are any of the pattern's."""
        labels, whole = self._outer_dims(value)[0], self.views.root(value)
        most = max(map(len, kept_by_reductions(self.graph)), default=None)
        if most is not None and all(len(kept.surely) > most for kept in self._kept_below(whole)):
            return  # whatever its dims are taken apart into
        for lacks in range(self.graph.lacked(labels, whole.indices), -1, -1):
            if not lacks:
                yield from self._taken_apart(value)
            for root in itertools.chain((whole,), groupings(self.views, self.graph, value, lacks)):
                if not self._failed_at_dims():
                    return  # whatever order its dims have
                for order in self._placings(value, root, lacks):
                    if self._failed_at_dims():
                        yield Attempt(root=root, by_address=True, order=order, lacks=lacks)

    def _placings(self, value: ir.Value, root: Access, lacks: int) -> Iterator[tuple[int, ...]]:
        """The orders of indices in which a reduction of the program keeps what one of the pattern does."""
        indices = (*[UNIT] * lacks, *ungrouped(root.indices))
        waiting = placings_by_kept(self.graph, indices)
        if root != self.views.root(value) and not self._may_keep(value, root, lacks, waiting):
            return
        reduces = bool(kept_by_reductions(self.graph))
        below = (each.maybe for each in self._kept_below(root)) if reduces else (frozenset[Index](),)
        told = set[tuple[int, ...]]()
        for loops in below if waiting else ():
            kept = frozenset(axis for axis, index in enumerate(indices) if index in loops)
            new = [order for order in waiting.get(kept, ()) if order not in told]
            told.update(new)
            yield from new

    def _may_keep(self, value: ir.Value, root: Access, lacks: int, wanted: Iterable[frozenset[int]]) -> bool:
        """Whether a reduction may keep some of the wanted axes of a root: the dims of the result that these are of."""
        whole = self.views.root(value)
        dims = [*[-1] * lacks, *(dim for dim, index in enumerate(root.indices) for _ in ungrouped((index,)))]
        if not kept_by_reductions(self.graph):
            return True
        asked = [{whole.indices[dims[axis]] for axis in axes} for axes in wanted]
        return any(kept.surely <= each <= kept.maybe for kept in self._kept_below(whole) for each in asked)

    def _kept_below(self, root: Access) -> Iterator[Kept]:
        """`kept_below` of an access, each read once."""
        started = self.kept.get(root) or kept_below(self.views, root, ops_above_reductions(self.graph))
        own, self.kept[root] = itertools.tee(started)
        return own

    def _split_roots(self, value: ir.Value) -> Iterator[Access | None]:
        """A result as it is (None), and with the dims that the program splits below if labels take these."""
        yield None
        has_pack = any(label.pack for label in self.graph.results[0].labels)
        yield from groupings(self.views, self.graph, value)  # of a pack there are none
        is_worth_it = has_pack and (self._failed_at_dims() or self._failed_at_strides())
        if is_worth_it and (split := finest(self.views, value)) is not None:
            yield split

    def _may_have_ones_first(self, value: ir.Value) -> bool:
        """Whether a match failed at its dims, and the result has one of size one behind others."""
        indices = self.views.root(value).indices
        return self._failed_at_dims() and ones_first(indices) != indices and only_reduces(self.graph)

    def _failed_at_dims(self) -> bool:
        """Whether what came furthest failed at its dims, and others may mend that."""
        furthest = self.state.furthest
        return furthest is not None and furthest.kind in _OF_DIMS and not self.state.stays

    def _failed_at_strides(self) -> bool:
        """Whether an input's dims had no strides where many ops held, and no path went on to more of the pattern."""
        held, furthest = self.state.held_without_strides, self.state.furthest
        return furthest is not None and held >= max(_MANY_HELD, furthest.held[0])

    def _holds_at_source(self, view: ir.Value) -> bool:
        """Whether what a view rearranges is a match itself: then the view is none, nor a near miss."""
        op = view.owner.operation
        source = op.operands[0] if op.name == TRANSPOSE else before_reshapes(view)
        if Search(self.views, self.graph, self.function, self.max_steps).run(source) is None:
            return False
        self.state.furthest = None
        return True

    @property
    def progress(self) -> float:
        """Which part of the pattern's ops held before it failed, up to 1; 0 if hardly more than the outermost did."""
        return 0.0 if self.state.furthest is None else _progress(self.graph, self.state.furthest)

    def near_miss(self, value: ir.Value) -> NearMiss:
        """Why it failed at `value`, where `run` found no match and `progress` is not 0."""
        graph, failure = self.graph, self.state.furthest
        assert failure is not None, "a search with progress has a failure"
        span = getattr(failure.node, "span", None)  # a condition has its own
        return NearMiss(
            pattern=graph.pattern.name,
            function=self.function,
            why=failure.why,
            span=span or graph.spans.get(id(failure.node)),
            progress=_progress(graph, failure),
            value=value,
            op=failure.at,
            node=failure.node,
            operands=failure.operands,
            graph=graph,
        )

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
            entry = len(self.state.trail)
            self.state.set(self.entered, (id(node), term))
            branches = list(self._branches(node, term))
            if len(branches) == 1:
                # No choice: go on in this loop, so that depth grows with choices only.
                more = branches[0]()
                if more is None:
                    return False
                goals = _append(more, rest)
                continue
            for branch in branches:
                mark = len(self.state.trail)
                more = branch()
                if more is not None and self._solve(_append(more, rest), depth + 1, end):
                    return True
                self.state.undo(mark)
            self.state.undo(entry)
            return False
        return self.verdicts.holds() if end is None else end()

    def _branches(self, node: Any, term: Any) -> Iterable[Branch]:
        """The ways in which a node may match a term: each a function that gives further goals, or None if it fails."""
        kind = type(node)
        if kind is Input:
            return self.inputs.branches(node, term)
        if kind is Number:
            return [lambda: self.operators.number(node, term)]
        if kind is Whole:
            return self.wholes.branches(node, term)
        if kind is Reduce:
            return self.operators.reduce_branches(node, term)
        if kind is Choice:
            return [partial(self._choose, node, option, term) for option in self._options(node, term)]
        if kind is Named:
            return [lambda: self._name(node, term)]
        if kind is Setting:
            return [lambda: [(node.node, term), (node.target, node.value)]]
        if kind is Accumulated:
            return [lambda: self._accumulated(node, term)]
        if kind is Anything:
            return [list]
        if kind is Operand:
            return [partial(self.wholes.operand, node.result, each, node.order) for each in self.wholes.levels(term)]
        if kind is Place:
            return [lambda: self.operators.place(node, term)]
        if kind is Finer:
            return self.operators.finer_branches(node.node, term)
        if kind is LoopIndex:
            return [lambda: None if self.state.unify(node, (node.index,), (term.index,)) is None else []]
        return self._of_op(node, term) if isinstance(node, Apply) else self._of_root(node.number)

    def _of_op(self, node: Apply[Node], term: Term) -> Iterator[Branch]:
        found = self.reader.look(node, term)
        yield from self.operators.apply_branches(node, found)
        source = self.reader.unchanged(found)
        if source is not None:
            yield lambda: [(node, source)]

    def _of_root(self, number: int) -> list[Branch]:
        others, head = self.roots.others(number), self.graph.results[number].node
        terms = [self.views.whole(value) for value in others]
        if not any(self.reader.may_hold(head, term) for term in terms):
            beside = tuple(self.reader.peek(head, t) for t in terms[: len(self.state.roots[0].value.owner.results) - 1])
            return [lambda: self.state.fail(head, Why.NO_RESULT_NEAR, number, beside) or None]
        return [partial(self.roots.bind, number, value) for value in others]

    def _has_form(self, condition: Form) -> bool | None:
        """Whether a value is made in some way. What was bound stays as it was: the value is looked at, not matched."""
        mark, furthest, place = len(self.state.trail), self.state.furthest, self.state.place
        held, values, terms = False, self.state.values_of(condition.name)[-1:], self.state.terms_of(condition.name)
        if not values and any(self.reader.may_hold(condition.form.node, term) for term in terms):
            return None  # no tensor holds it, so that its dims cannot be told
        for value in values:
            whole = self.views.whole(value)
            goals = [(self.wholes.goal(condition, condition.form), whole)]
            held = self._solve(_append(goals, None), end=partial(self.verdicts.fits_with, condition.conditions))
        self.state.undo(mark)
        self.state.furthest, self.state.place = furthest, place
        return held != condition.negated

    def _options(self, node: Choice, term: Term) -> list[Node]:
        """The alternatives worth a try. At a root that is a view, only ops on whole tensors are."""
        options = [o for o in node.options if self.reader.may_hold(o, term)] or list(node.options)
        if not self.is_view or term != self.state.roots.get(0):
            return options
        if set(endings(self.graph)).isdisjoint(heads(node)):
            return options
        return [o for o in options if any(isinstance(head, Whole) for head in heads(o))]

    def _choose(self, node: Choice, option: Node, term: Term) -> list[Goal] | None:
        """Take an alternative, here and wherever the pattern uses what it is one of."""
        number = node.options.index(option)
        self.state.set(self.state.choices, node.number, number)
        if self.state.choices[node.number] != number:
            self.state.fail(node, Why.ALTERNATIVE)
            return None
        return [(option, term)]

    def _name(self, node: Named, term: Term) -> list[Goal]:
        self.state.set(self.state.named, (node.name, term))
        return [(node.node, term)]

    def _accumulated(self, node: Accumulated, term: Term) -> list[Goal]:
        self.reader.look(node, term)
        return [(node.node, self.reader.accumulation(node, term))]

    def _at_root(self, value: ir.Value, rest: Goals) -> bool:
        more = self.roots.bind(0, value)
        return more is not None and self._solve(_append(more, rest))


def _progress(graph: Graph, failure: Failure) -> float:
    is_end = not failure.held[0] and any(failure.node is head for head in endings(graph))
    if is_end and failure.kind not in (Kind.START, Kind.REGION):
        return 0.0
    if failure.kind is Kind.OP and failure.held[0] < 2:
        return 0.0  # many an op is like the outermost one of a pattern, and that says nothing
    return max(1, failure.held[0]) / max(1, graph.size)


def _append(more: Sequence[Goal], rest: Goals) -> Goals:
    for goal in reversed(more):
        rest = (goal, rest)
    return rest
