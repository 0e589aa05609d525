"""What a program has where a pattern is compared with it: terms followed through views, casts and neutral ops."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from iree.compiler import ir

from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.patterns.nodes import Accumulated, Choice, Input, Named, Node, Number, Setting, labels_in
from opsplice.matchers.patterns.walk import merges_dims, most_along, sums_windows
from opsplice.matchers.search.failures import Why
from opsplice.matchers.search.labels import has_ones_of_filters, is_in_windows
from opsplice.matchers.search.merged_dims import is_of_several, leaves
from opsplice.matchers.search.state import State
from opsplice.matchers.terms import chains
from opsplice.matchers.terms.canonical import WIDENINGS, WIDTHS
from opsplice.matchers.terms.terms import UNIT, Access, Apply, Loop, Reduce, Started, Term, mentions
from opsplice.spec_lang.dims import dim_conditions
from opsplice.spec_lang.syntax import tree, vocabulary

# Casts to shorter floats quantise: they are part of what a program computes, and not looked through.
_LEAST_BITS = 16


class Reader:
    """Reads terms for a search, and notes in its state which ops that goes through."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.views = state.views
        self.graph = state.graph
        self.parameters = {p.name: p for p in state.graph.pattern.parameters}
        # By the identity of terms, which are kept so that it stays theirs.
        self._may_hold: dict[tuple[int, int], tuple[bool, Term]] = {}

    def resolve(self, term: Term) -> Term:
        """Follow a term through views, and note the ops on the way as accounted for."""
        found = self.state.term = self._followed(term)
        self.state.listener.resolved(term, found)
        return found

    def _followed(self, term: Term) -> Term:
        while isinstance(term, Access):
            self.state.place = defining_op(term.value) or self.state.place
            step = self.views.expand(term)
            if step is None:
                return term
            for op in step.ops:
                self.state.set(self.state.ops, op)
            term = step.term
        return term

    def look(self, node: Node, term: Term) -> Term:
        """`_resolve`, and through casts where the pattern asks for it, but for one that the pattern itself names."""
        found = self.resolve(term)
        while (source := self.passed(node, found)) is not None:
            found = self.resolve(source)
        return found

    def inside(self, term: Term) -> tuple[Term, tuple[ir.Operation, ...]]:
        """What `_look` would give, and the ops that were read to come to it."""
        found, seen = chains.unwrapped(self.views, term)
        while (source := self.passed(None, found)) is not None:
            found, more = chains.unwrapped(self.views, source)
            seen += more
        return found, seen

    def passed(self, node: Node | None, found: Term) -> Term | None:
        """What an op that is looked through makes its result of: a cast, or one that leaves its operand as it is."""
        if not isinstance(found, Apply):
            return None
        if found.op in WIDTHS:
            own = "cast" not in self.graph.through or (isinstance(node, Apply) and node.op == found.op)
            return None if own or (vocabulary.bits(found.type) or 0) < _LEAST_BITS else found.args[0]
        source = self.unchanged(found)
        if source is None or self.single_place(node, found) is not None:
            return None
        return None if isinstance(node, Apply) and self.views.readings(found, node.op) else source

    def unchanged(self, found: Term) -> Term | None:
        """x of `addf(x, 0.0)` and the like; None at a root, where a match ends with the op that makes x."""
        source = self.views.unchanged(found)
        if source is None or any(self.views.resolve(root) is found for root in self.state.roots.values()):
            return None
        return source

    def peek(self, node: Node, term: Term) -> Term:
        """What `_look` would give, with nothing noted."""
        found = self.views.resolve(term)
        while not (isinstance(node, Apply) and isinstance(found, Apply) and found.op == node.op):
            source = self.passed(node, found)
            if source is None:
                break
            found = self.views.resolve(source)
        return found

    def chain(self, term: Term) -> Iterator[Access]:
        """The accesses from a term down through views: each is a value that holds the element."""
        at: Term | None = term
        while at is not None:
            if not isinstance(at, Access):
                at = self.passed(None, at)
                continue
            yield at
            step = self.views.expand(at)
            at = None if step is None else step.term

    def is_one_element(self, left: Term, right: Term) -> bool:
        """Whether two terms are the same element, each read by itself and maybe widened."""
        left, right = self.inside(left)[0], self.inside(right)[0]
        if isinstance(left, Apply) and isinstance(right, Apply) and left.op == right.op in WIDENINGS:
            return self.is_one_element(*left.args, *right.args)
        return left == right

    def meet(self, accesses: Iterable[Access]) -> None:
        """Note whether what the pattern reads in windows is read so, if its dims may be in another order then."""
        if (self.graph.strided or self.graph.reordered) and not self.state.met_windows:
            may_step = not sums_windows(self.graph)
            self.state.met_windows = any(self.in_windows(access, may_step) for access in accesses)

    def in_windows(self, access: Access, may_step: bool = True) -> bool:
        """Whether an access is one of a convolution, and of no product of matrices, of groups of them neither."""
        return is_in_windows(access.indices, may_step, not merges_dims(self.graph))

    def may_filter(self, pairs: Iterable[tuple[Node, Term]]) -> bool:
        """Whether one factor is read in windows, or the other, a filter, has a place of its own, even of size one."""
        filters = [each for each in pairs if _is_filter(each[0])]
        if not filters or not self.graph.may_lack_dims or self.state.roots[0].indices[-1:] == (UNIT,):
            return True
        others = [term for node, term in pairs if node is not filters[0][0]]
        return any(self.in_windows(level) for term in others for level in self.chain(term)) or any(
            has_ones_of_filters(level.indices) for level in self.chain(filters[0][1])
        )

    def single_place(self, node: Node | None, found: Term) -> Term | None:
        """What a sum over a window of one place adds to zero: no loop is left of it, but the sum is there."""
        if type(node) is not Reduce or not isinstance(found, Apply) or found.op != node.combiner:
            return None
        return self.views.unchanged(found) if any(label.windowed for label in node.loops) else None

    def accumulation(self, node: Accumulated, term: Term) -> Term:
        """Without what it starts from, if it starts from anything."""
        found = self.peek(node, term)
        return found.args[1] if isinstance(found, Started) and found.op == node.node.combiner else term

    def may_hold(self, node: Node, term: Term) -> bool:
        """False only if a goal must fail for its outermost op alone. It is asked again and again, on each path."""
        known = self._may_hold.get((id(node), id(term)))
        if known is None:
            known = self._read_outermost(node, term), term
            if len(self.graph.results) == 1:  # others change what ops are looked through, where they are bound
                self._may_hold[id(node), id(term)] = known
        return known[0]

    def _read_outermost(self, node: Node, term: Term) -> bool:
        if isinstance(node, Apply):
            return bool(self.views.readings(self.peek(node, term), node.op))
        if isinstance(node, (Named, Setting)):
            return self.may_hold(node.node, term)
        if isinstance(node, Choice):
            return any(self.may_hold(option, term) for option in node.options)
        if isinstance(node, Input) and not isinstance(self.parameters[node.name].type, tree.ScalarType):
            return any(self._may_be_along(node, access) for access in self.chain(term))
        if isinstance(node, Reduce):
            found = self.peek(node, term)
            own = isinstance(found, Reduce) and found.combiner == node.combiner
            return own or self.single_place(node, found) is not None
        if isinstance(node, Number) and not dim_conditions.numbers_in(node.low):
            return self.views.constant(self.peek(node, term)) is not None
        if isinstance(node, Accumulated):
            return self.may_hold(node.node, self.accumulation(node, term))
        return True

    def _may_be_along(self, node: Input, access: Access) -> bool:
        """Whether an input may be read at an access: along no more dims of the result than it has labels of it."""
        root, most = self.state.roots.get(0), most_along(self.graph).get(node, math.inf)
        if root is None or most == math.inf:
            return True
        loops = [index for index in leaves(root.indices) if isinstance(index, Loop)]
        told = [index for index in access.indices if not is_of_several(index)]  # others may be along fewer loops
        return sum(any(mentions(index, loop) for index in told) for loop in loops) <= most

    def is_read_otherwise(self, node: Node, term: Term) -> bool:
        """Whether bound labels tell that an input cannot be a term: that is read along dims of others than its labels,
        or, where no dim of an input may be one along which it stays the same, not along all of its own."""
        levels = list(self.chain(term)) if isinstance(node, Input) else []
        if not isinstance(node, Input) or not levels:
            return False
        own = {index for label in node.labels for each in labels_in(label) for index in self.state.labels.get(each, ())}
        known = {index for indices in self.state.labels.values() for index in indices if isinstance(index, Loop)}
        read = {loop for loop in known if any(mentions(index, loop) for index in levels[0].indices)}
        rest = {loop for loop in read if any(mentions(index, loop) for index in levels[-1].indices)}
        return bool(rest - own) or (self.graph.may_lack_dims and not known & own <= read)

    def other_op(self, node: Node, found: Term) -> None:
        """Note that the program has another op than the one that is wanted."""
        self.state.term, self.state.value = found, found.value if isinstance(found, Access) else None
        self.state.fail(node, Why.OP, found)
        self.state.value = None


def _is_filter(node: Node) -> bool:
    own = node.node if isinstance(node, Named) else node
    if isinstance(own, Choice):  # of one that may be widened
        first, *others = own.options
        is_widened = isinstance(first, Apply) and first.op in WIDENINGS and others == [first.args[0]]
        return is_widened and _is_filter(others[0])
    return isinstance(own, Input) and any(label.windowed for label in own.labels)
