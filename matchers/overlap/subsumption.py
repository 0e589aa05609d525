"""Pattern graphs against each other: does one hold wherever another does, and could both hold in one program?

A graph is matched against another graph as a search matches it against a program: labels bind to labels, inputs to
inputs. `inner` lets inputs stand for ops of the other pattern too, which a program fulfils where it keeps that part as
a value of its own.

Incomplete on purpose: what is not understood is never covered, so nothing is claimed of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from opsplice.matchers.overlap.graph_facts import (
    Group,
    Sizes,
    free_labels,
    key,
    number_range,
    ops_and_numbers,
    possible_types,
    type_name,
)
from opsplice.matchers.patterns.nodes import Graph, Input, Label, Node, Number, Product, Result, Whole
from opsplice.matchers.patterns.walk import nodes_of
from opsplice.matchers.terms import constants as numbers
from opsplice.matchers.terms.terms import Apply, Reduce
from opsplice.spec_lang.dims import dim_conditions
from opsplice.spec_lang.syntax import tree, vocabulary

# The fields that are compared by what they mean. Any other, of whatever kind of part, has to be equal.
_COMPARED = frozenset(
    {"pattern", "results", "ties", "conditions", "variables", "spans", "size", "through"}
    | {"args", "attributes", "type", "operands", "labels", "element", "loops", "body", "low", "high"}
    | {"id", "name", "node", "pack"}
)
_MAX_STEPS = 4000

_Goal = tuple[Node, Node]


@dataclass(frozen=True)
class Cover:
    """How a graph holds where another one does.

    sizes: for each dim of the covering graph its size in terms of the other's dims; one that cannot be told is a name
    that neither has. needs: what has to hold for the sizes that the covering graph wants equal.
    """

    sizes: Mapping[str, tree.DimExpr]
    needs: tuple[tree.Condition, ...]


def covers(graph: Graph, other: Graph, *, inner: bool = False) -> Cover | None:
    """How `graph` holds with its result at every place where `other` does; None if that is not certain.

    The conditions of the two are left to the caller. inner: see above; the covering graph's result is then a result of
    the other's wherever its inputs are values.
    """
    if not _alike(graph, other) or not 1 <= len(graph.results) <= len(other.results):
        return None
    if len(graph.results) != 1 and len(graph.results) != len(other.results):
        return None
    if not other.through <= graph.through:
        return None
    if not ops_and_numbers(graph) <= ops_and_numbers(other):
        return None
    # Of the further results nothing is known of whether they are rearranged.
    pairs = list(zip(graph.results, other.results, strict=False))
    return _Comparison(graph, other, left_inner=inner).run(pairs)


def covers_part(graph: Graph, other: Graph) -> Cover | None:
    """How `graph` holds at an op inside `other`, wherever a program keeps that op's result as a value of its own."""
    if len(graph.results) != 1 or graph.rearranged or not other.through <= graph.through:
        return None
    if not ops_and_numbers(graph) <= ops_and_numbers(other):
        return None
    tops = {id(result.node) for result in other.results}
    for node in nodes_of(other):
        if isinstance(node, (Apply, Reduce)) and id(node) not in tops:
            found = _Comparison(graph, other, left_inner=True).run_inside(graph.results[0], node)
            if found is not None:
                return found
    return None


def overlap(graph: Graph, other: Graph) -> Cover | None:
    """How both could hold with their first results at one value; None if no program is known where they do."""
    if graph.rearranged != other.rearranged:
        return None
    pair = (graph.results[0], other.results[0])
    return _Comparison(graph, other, left_inner=True, right_inner=True).run([pair])


@cache
def _equal_fields(kinds: tuple[Any, ...]) -> frozenset[str]:
    return frozenset(name for kind in kinds for name in kind.__dataclass_fields__) - _COMPARED


def _alike(left: Any, right: Any) -> bool:
    """Whether two parts have the same in all fields that are not compared by what they mean."""
    pairs = (
        (getattr(left, name, None), getattr(right, name, None)) for name in _equal_fields((type(left), type(right)))
    )
    return all(mine is other or dim_conditions.key(mine) == dim_conditions.key(other) for mine, other in pairs)


@dataclass
class _State:
    """What is bound along a path.

    labels: left ones to right ones; taken: the other way round. stands: what an input, by side and name, stands for.
    elements, same: what element types may be, and what left type variables are. done: the goals that were met.
    """

    labels: dict[Label, Group] = dataclasses.field(default_factory=dict)
    taken: dict[Label, Label] = dataclasses.field(default_factory=dict)
    stands: dict[tuple[str, str], Any] = dataclasses.field(default_factory=dict)
    elements: dict[tuple[str, str], frozenset[str] | None] = dataclasses.field(default_factory=dict)
    same: dict[str, str] = dataclasses.field(default_factory=dict)
    reductions: tuple[tuple[Reduce[Node, Label], Reduce[Node, Label]], ...] = ()
    numbers: tuple[tuple[Number, Number], ...] = ()
    done: dict[tuple[int, int], None] = dataclasses.field(default_factory=dict)

    def copy(self) -> _State:
        tables: dict[str, Any] = {name: dict(value) for name, value in vars(self).items() if isinstance(value, dict)}
        return dataclasses.replace(self, **tables)


class _Comparison:
    """One attempt to make the left graph hold where the right one does. Use it once."""

    def __init__(self, left: Graph, right: Graph, *, left_inner: bool = False, right_inner: bool = False) -> None:
        self.left = left
        self.right = right
        self.left_inner = left_inner
        self.right_inner = right_inner
        self.left_kinds = {p.name: p.type for p in left.pattern.parameters}
        self.right_kinds = {p.name: p.type for p in right.pattern.parameters}
        self.steps = 0

    def run(self, pairs: Iterable[tuple[Result, Result]]) -> Cover | None:
        state = _State()
        goals = []
        for left, right in pairs:
            if not _alike(left, right) or not self._labels(left.labels, right.labels, state):
                return None
            if self.right.through and left.element and not self._same_result(left, right, state):
                return None
            goals.append((left.node, right.node))
        return self._solve(goals, state)

    def _same_result(self, left: Result, right: Result, state: _State) -> bool:
        """Whether results are of one type where casts may lie before them."""
        return bool(right.element) and self._same_element(left.element, right.element, state)

    def run_inside(self, result: Result, node: Node) -> Cover | None:
        """With the left result at a node of the right graph, under whatever labels that has."""
        if key(result.node) != key(node):
            return None
        return self._solve([(result.node, node)], _State(), (result.labels, node))

    # ---- the search -----------------------------------------------------------------------------------------------

    def _solve(self, goals: list[_Goal], state: _State, inside: tuple[Group, Node] | None = None) -> Cover | None:
        goals = list(goals)
        while goals:
            self.steps += 1
            if self.steps > _MAX_STEPS:
                return None
            left, right = goals.pop(0)
            if (id(left), id(right)) in state.done:
                continue
            state.done[(id(left), id(right))] = None
            branches = self._branches(left, right, state)
            for branch in branches[:-1]:
                found = self._solve([*branch, *goals], state.copy(), inside)
                if found is not None:
                    return found
            if not branches:
                return None
            goals = [*branches[-1], *goals]
        if inside is not None and not self._is_whole(*inside, state):
            return None
        return self._cover(state)

    def _branches(self, left: Node, right: Node, state: _State) -> list[list[_Goal]]:
        """The ways in which a left node may hold where a right one does, each as further goals."""
        if (isinstance(left, type(right)) or isinstance(right, type(left))) and not _alike(left, right):
            return []
        if isinstance(left, Input):
            return self._left_input(left, right, state)
        if isinstance(right, Input):
            return self._right_input(left, right, state)
        either = self.right_inner and isinstance(left, Apply) and isinstance(right, Apply)  # one may hold as the other
        if type(left) is not type(right) and not (either or (type(left) is Apply and isinstance(right, Product))):
            return []
        match left, right:
            case Number(), Number():
                state.numbers += ((left, right),)
                return [[]] if self._same_number(left, right, None) else []
            case Apply(), Apply():
                return self._apply(left, right, state)
            case Reduce(), Reduce():
                state.reductions += ((left, right),)
                return [[(left.body, right.body)]]
            case Whole(), Whole():
                return self._whole(left, right, state)
        return []

    def _apply(self, left: Apply[Node], right: Apply[Node], state: _State) -> list[list[_Goal]]:
        given = dict(right.attributes)
        known = all(given.get(n, None if not self.right_inner else v) == v for n, v in left.attributes)
        if len(left.args) != len(right.args) or not known:
            return []
        if left.type and not self._same_element(left.type, right.type, state):
            return []
        orders = [list(zip(left.args, right.args, strict=True))]
        if vocabulary.commutes(left.op) and left.args[0] is not left.args[1]:
            orders.append(list(zip(left.args, reversed(right.args), strict=True)))
        return [order for order in orders if all(self._may_hold(*goal) for goal in order)]

    def _may_hold(self, left: Node, right: Node) -> bool:
        """False only if a goal must fail for the outermost nodes alone."""
        if isinstance(left, Input):
            return isinstance(right, (Input, Number)) or self.left_inner
        if isinstance(right, Input):
            return self.right_inner and not isinstance(left, Number)
        if isinstance(left, Number):
            return isinstance(right, Number) and self._same_number(left, right, None)
        return key(left) == key(right)

    def _whole(self, left: Whole, right: Whole, state: _State) -> list[list[_Goal]]:
        given = {a.name: dim_conditions.key(a) for a in right.attributes}
        known = all(given.get(a.name) == dim_conditions.key(a) for a in left.attributes)
        if not known or len(left.operands) != len(right.operands):
            return []
        if left.element and not self._same_element(left.element, right.element, state):
            return []
        groups = [(left.labels, right.labels)]
        groups += [(a.labels, b.labels) for a, b in zip(left.operands, right.operands, strict=True)]
        for mine, others in groups:
            if not self._labels(mine, others, state):
                return []
        return [[(a.node, b.node) for a, b in zip(left.operands, right.operands, strict=True)]]

    # ---- inputs ---------------------------------------------------------------------------------------------------

    def _left_input(self, left: Input, right: Node, state: _State) -> list[list[_Goal]]:
        kind = self.left_kinds[left.name]
        known = state.stands.get(("left", left.name))
        scalar = isinstance(kind, tree.ScalarType)
        if isinstance(right, Input):
            if known is not None and not (isinstance(known, Input) and known.name == right.name):
                return []
            other = self.right_kinds[right.name]
            if isinstance(other, tree.ScalarType) and not scalar:
                return []
            if not self._same_element(kind.element.name, other.element.name, state):
                return []
            whole = self._labels(left.labels, right.labels, state)
            if not whole and not (self.left_inner and self._spans(left.labels, right, state, more=True)):
                return []
        elif known is not None and known is not right:
            return []
        elif isinstance(right, Number):
            if not scalar or not self._takes_number(left, right, kind.element.name):
                return []
        elif scalar or not self.left_inner or not self._spans(left.labels, right, state):
            return []
        state.stands[("left", left.name)] = right
        return [[]]

    def _right_input(self, left: Node, right: Input, state: _State) -> list[list[_Goal]]:
        """A right input that stands for an op of the left graph: possible, but not always so."""
        if not self.right_inner or isinstance(left, Number):
            return []
        known = state.stands.get(("right", right.name))
        if isinstance(self.right_kinds[right.name], tree.ScalarType) or (known is not None and known is not left):
            return []
        reached = [state.labels.get(label) for label in free_labels(left)]
        bound = [label for group in reached if group is not None for label in group]
        if None in reached or not set(bound) <= set(right.labels):
            return []
        state.stands[("right", right.name)] = left
        return [[]]

    def _takes_number(self, left: Input, right: Number, element: str) -> bool:
        """Whether a scalar parameter takes a constant: its type must be that of all that the other pattern holds."""
        elements = {kind.element.name for kind in self.right_kinds.values()}
        if any(isinstance(node, (Apply, Whole)) and type_name(node) for node in nodes_of(self.right)):
            return False
        literal = right.high is None and isinstance(right.low, tree.Literal)
        return literal and elements == {element} and element not in self.left.variables

    # ---- labels ---------------------------------------------------------------------------------------------------

    def _labels(self, left: Group, right: Group, state: _State) -> bool:
        """Bind left labels to right ones, position by position; a pack takes what the others leave."""
        packs = [label for label in left if label.pack and label not in state.labels]
        if len(packs) > 1:
            return False
        fixed = sum(len(state.labels.get(label, (label,))) for label in left if label not in packs)
        room = len(right) - fixed
        if room < 0 or (room and not packs):
            return False
        at = 0
        for label in left:
            length = room if label in packs else len(state.labels.get(label, (label,)))
            if not self._bind(label, right[at : at + length], state):
                return False
            at += length
        return True

    def _bind(self, left: Label, right: Group, state: _State) -> bool:
        if left in state.labels:
            return state.labels[left] == right
        if not left.pack and (right[0].pack or not _alike(left, right[0])):
            return False
        if any(state.taken.get(label, left) != left for label in right):
            return False
        state.labels[left] = right
        state.taken.update(dict.fromkeys(right, left))
        return True

    def _spans(self, left: Group, node: Node, state: _State, *, more: bool = False) -> bool:
        """Bind the labels of an input to those that a part of the other pattern depends on, in some order.

        more: the input has others besides, so that the part is repeated along them.
        """
        bound = [label for la in left for label in state.labels.get(la, ())]
        rest = [label for label in free_labels(node) if label not in bound]
        for label in (la for la in left if la not in state.labels):
            if label.pack:
                taken, rest = tuple(rest), []
            elif not rest:
                return False
            else:
                taken, rest = (rest[0],), rest[1:]
            if not self._bind(label, taken, state):
                return False
        return not rest and (not more or sum(len(state.labels[la]) for la in left) > len(free_labels(node)))

    def _is_whole(self, labels: Group, node: Node, state: _State) -> bool:
        """Whether result labels are all that a node depends on, so that it can be the whole result."""
        bound = [label for la in labels for label in state.labels.get(la, ())]
        return all(la in state.labels for la in labels) and set(free_labels(node)) <= set(bound)

    # ---- element types --------------------------------------------------------------------------------------------

    def _same_element(self, left: str, right: str, state: _State) -> bool:
        mine, others = possible_types(left, self.left), possible_types(right, self.right)
        if self.right_inner:  # is there a type that both can be?
            both = _both(mine, others)
            for name in (("left", left), ("right", right)):
                both = _both(both, state.elements.get(name))
            state.elements[("left", left)] = state.elements[("right", right)] = both
            return both is None or bool(both)
        if left in self.left.variables:
            if state.same.setdefault(left, right) != right:
                return False
            return mine is None or (others is not None and others <= mine)
        return others == mine

    # ---- at the end -----------------------------------------------------------------------------------------------

    def _cover(self, state: _State) -> Cover | None:
        for left, right in state.reductions:
            loops = [state.labels.get(label) for label in left.loops]
            flat = [label for group in loops if group is not None for label in group]
            if None in loops or set(flat) != set(right.loops) or len(flat) != len(right.loops):
                return None
        sizes, needs = self._sizes(state)
        for mine, other in state.numbers:
            if not self._same_number(mine, other, sizes):
                return None
        return Cover(sizes, tuple(needs))

    def _sizes(self, state: _State) -> tuple[dict[str, tree.DimExpr], list[tree.Condition]]:
        written = Sizes(self.right)
        sizes: dict[str, tree.DimExpr] = {}
        groups: dict[str, Group] = {}
        needs: list[tree.Condition] = []
        for tie in self.left.ties:
            reached = [state.labels.get(label) for label in tie.labels]
            group = tuple(label for bound in reached if bound is not None for label in bound)
            if None in reached:
                continue  # below an input that stands for an op: no label of it is in the other pattern
            size = written.of(group)
            if isinstance(tie.size, int):
                needs.append(dim_conditions.equality(size, tree.Literal(written.span, tie.size)))
            elif tie.size not in sizes:
                sizes[tie.size], groups[tie.size] = size, group
            elif groups[tie.size] != group:
                needs += self._equal(groups[tie.size], group, written)
        for name in self._names():
            sizes.setdefault(name, tree.DimRef(written.span, f"#{name}"))
        return sizes, needs

    def _equal(self, left: Group, right: Group, written: Sizes) -> list[tree.Condition]:
        if len(left) != len(right):
            return [dim_conditions.equality(written.of(left), tree.DimRef(written.span, "#another rank"))]
        return [dim_conditions.equality(written.of((a,)), written.of((b,))) for a, b in zip(left, right, strict=True)]

    def _names(self) -> set[str]:
        names = {tie.size for tie in self.left.ties if isinstance(tie.size, str)}
        names |= {dim.name for kind in self.left_kinds.values() for dim in kind.dims if dim.name is not None}
        for condition in self.left.conditions:
            names |= dim_conditions.names_in(condition)
        return names

    def _same_number(self, left: Number, right: Number, sizes: Mapping[str, tree.DimExpr] | None) -> bool:
        """Whether the left number is met wherever the right one is. sizes: None while they are not known yet."""
        mine, others = number_range(left), number_range(right)
        if mine is None or others is None:
            if sizes is None:
                return True
            low, high = dim_conditions.substituted(left.low, sizes), dim_conditions.substituted(left.high, sizes)
            return bool(dim_conditions.key((low, high)) == dim_conditions.key((right.low, right.high)))
        if left.high is None and mine[0] == 0 and not self._same_zero(mine[0], right, others[0]):
            return False
        if self.right_inner:
            return max(mine[0], others[0]) <= min(mine[1], others[1])
        return mine[0] <= others[0] and others[1] <= mine[1]

    def _same_zero(self, zero: float, right: Number, low: float) -> bool:
        """Whether a zero is the right number, or (to overlap) in its range; a range has zero in both signs."""
        return self.right_inner if right.high is not None else numbers.identical(zero, low)


def _both(left: frozenset[str] | None, right: frozenset[str] | None) -> frozenset[str] | None:
    if left is None or right is None:
        return left if right is None else right
    return left & right
