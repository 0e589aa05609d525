"""What a search has bound so far: labels to indices, names to values, dims to sizes, variables to types.

Everything is held in dicts that only grow along a path of the search; a trail says what to take back on a dead end. The
failure that came furthest along is kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from iree.compiler import ir

from opsplice.matchers.patterns.nodes import Graph, Input, Label, Node, Number, Result, Wanted, Window, labels_in
from opsplice.matchers.search.failures import Failure, Listener, Why
from opsplice.matchers.search.labels import (
    Sizes,
    aligned,
    factors,
    nontrivial,
    pair,
    sizes_of,
    turns,
    unflattened,
    window_sizes,
)
from opsplice.matchers.search.matches import Binding, Size
from opsplice.matchers.search.merged_dims import Finer, is_along_others, ungrouped
from opsplice.matchers.search.uses import results_with
from opsplice.matchers.terms.terms import UNIT, Access, DimSize, Index, Loop, Reduce, Sum, Term
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.syntax import tree


@dataclass(frozen=True, eq=False)
class Operand:
    """The goal that a whole tensor is `result`, or (with `through reshape`) a reshape of it.

    order: its dims in the order of the pattern's, None where they are in that order.
    """

    result: Result
    order: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Root:
    """The goal to find the payload value of the pattern's result number `number`, beside the first one's."""

    number: int


# Labels with the indices that they are.
Pairs = list[tuple[Label, tuple[Index, ...]]]
# What is to be shown: that a part of the pattern is a term.
Goal = tuple[Node | Operand | Root | Finer, Term]
# A way to show it: what is then to be shown, or None where it fails.
Branch = Callable[[], Sequence[Goal] | None]


@dataclass(frozen=True)
class Attempt:
    """In which form the first result is looked for, and how inputs are bound.

    root: an access to the result in which several labels are one dim. ones_first: its dims of size one come before its
    others. order: its axes in the order of the pattern's. by_address: inputs bind by where their elements lie, too.
    by_windows: its axes are in the order in which what is read in windows has them, whose own dims are in any order.
    lacks: how many of the pattern's dims it has not.
    """

    root: Access | None = None
    ones_first: bool = False
    order: tuple[int, ...] | None = None
    by_address: bool = False
    by_windows: bool = False
    lacks: int = 0


class State:
    """The state of one search, and the ways to add to it. A way that returns False or None has noted why."""

    def __init__(self, views: Views, graph: Graph, listener: Listener) -> None:
        self.views = views
        self.listener = listener
        self.graph = graph
        self.attempt = Attempt()
        self.labels: dict[Label, tuple[Index, ...]] = {}
        self.inputs: dict[str, Binding] = {}
        self.dims: dict[str, tuple[Sizes, tuple[Index, ...]]] = {}
        self.dims_again: dict[tuple[str, Sizes, tuple[Index, ...]], Any] = {}
        self.types: dict[str, str] = {}
        self.ops: dict[ir.Operation, None] = {}
        self.held: dict[int, ir.Operation | None] = {}  # each node that held, by its id, with the op that it held at
        self.reductions: dict[Reduce[Node, Label], tuple[Loop, ...]] = {}
        self.scopes: dict[Label, Reduce[Node, Label]] = {}
        self.used: dict[tuple[Reduce[Node, Label], Index], None] = {}
        self.numbers: dict[tuple[Number, Any], ir.Operation | None] = {}
        self.roots: dict[int, Access] = {}
        self.shapes: dict[str, tuple[Sizes, ...]] = {}
        self.extents: dict[Index, Size] = {}
        self.lacking: dict[Label, None] = {}  # those of dims that the program lacks
        self.scaled: dict[Reduce, None] = {}  # sums that have constant factors, which are no part of what is matched
        self.equal: dict[tuple[Index, Size], None] = {}
        self.named: dict[tuple[str, Term], None] = {}  # by name all terms: a program may compute a part twice
        self.integers: dict[str, int] = {}  # bound to attributes
        self.choices: dict[int, int] = {}  # which alternative was taken, by the choice's number
        self.trail: list[tuple[dict[Any, Any], Any]] = []
        self.furthest: Failure | None = None
        self.stays = False  # whether no other order of dims mends what failed furthest along
        self.held_without_strides = -1  # how many ops held, at most, where an input's dims had no strides
        self.wants_factors = False  # whether sums are to have no such factors
        self.met_windows = False  # whether what is read in windows was met where the pattern has windows
        # What is looked at: the payload op and the term that were read last, the value and the binding of an input, and
        # the labels and indices that are compared.
        self.place: ir.Operation | None = None
        self.term: Term | None = None
        self.value: ir.Value | None = None
        self.binding: Binding | None = None
        self.asked: tuple[tuple[Label, ...], tuple[Index, ...]] = ((), ())

    def set(self, table: dict[Any, Any], key: Any, value: Any = None) -> None:
        if key not in table:
            table[key] = value
            self.trail.append((table, key))

    def hold(self, node: Node) -> None:
        """Note that a part of the pattern holds."""
        self.set(self.held, id(node), self.place)

    def undo(self, mark: int) -> None:
        while len(self.trail) > mark:
            table, key = self.trail.pop()
            del table[key]

    def fail(self, node: Wanted, why: Why, *operands: Any, along: tuple[Index, ...] = ()) -> Literal[False]:
        """Note why a part of the pattern does not hold; operands: as `Why` says. along: what an input is read at."""
        if why is Why.NO_STRIDES or why is Why.OTHER_PLACES:
            self.held_without_strides = max(self.held_without_strides, len(self.held))
        further = self.is_furthest
        if further or self._says_more(why):
            self.furthest = Failure(node, why, operands, self._reached, self.place)
            self.listener.failed(self.furthest)
        if further or (self.stays and self.furthest is not None and self._reached == self.furthest.held):
            self.stays = is_along_others(node, along or self.asked[1], self.reductions)
        return False

    @property
    def is_furthest(self) -> bool:
        """Whether no path came further: only then it matters why this one ends."""
        return self.furthest is None or self._reached > self.furthest.held

    def _says_more(self, why: Why) -> bool:
        """Whether a path ends at a dim where another one found another value of an input: all its values are tried."""
        known = self.furthest
        if known is None or known.why is not Why.SAME_VALUE or why is not Why.DIM:
            return False
        return known.held == self._reached

    @property
    def _reached(self) -> tuple[int, int]:
        return len(self.held), len(self.trail)

    def element(self, name: str) -> str:
        """The element type that a type variable stands for, or (in a pattern that is used) that is written for it."""
        return self.types.get(name, name)

    def terms_of(self, name: str) -> list[Term]:
        """What a name stands for in the payload, each time that it is met."""
        return [term for own, term in self.named if own == name]

    def values_of(self, name: str) -> list[ir.Value]:
        """The payload values that hold what has a name: from the one that is used down to those that an op makes."""
        bound = self.inputs.get(name)
        if bound is not None:
            return [] if bound.value is None else [bound.value]
        found: dict[ir.Value, None] = {}
        for named in self.terms_of(name):
            term = named
            while isinstance(term, Access):
                found[term.value] = None
                step = self.views.expand(term)
                if step is None:
                    break
                term = step.term
            inner = self.views.inner(term)
            if inner is not None:
                found.update(dict.fromkeys(results_with(inner)))
        return list(found)

    # ---- values and types -----------------------------------------------------------------------------------------

    def bind(self, node: Input, element: str, binding: Binding) -> bool:
        """Bind an input, or check that it is bound so."""
        self.binding = binding
        is_bound = self._bound(node, element, binding)
        self.binding = None
        return is_bound

    def _bound(self, node: Input, element: str, binding: Binding) -> bool:
        bound = self.inputs.get(node.name)
        if bound is not None and not bound.is_same(binding):
            return self.fail(node, Why.SAME_VALUE)
        if not self.bind_type(node, element, binding.element):
            return False
        self.set(self.inputs, node.name, binding)
        return True

    def bind_type(self, node: Node, name: str, element: str) -> bool:
        """Check an element type by name, or bind a type variable to it."""
        choices = self.graph.variables.get(name)
        wanted = name if choices is None else self.types.get(name)
        if wanted is not None:
            return wanted == element or self.fail(node, Why.TYPE, wanted, element)
        if choices and element not in choices:
            return self.fail(node, Why.TYPE, choices, element)
        self.set(self.types, name, element)
        return True

    # ---- labels and dims ------------------------------------------------------------------------------------------

    def bind_whole(self, result: Result, access: Access, indices: tuple[Index, ...]) -> bool:
        """Give the labels of a result the fresh loops of a whole tensor, in the order of `indices`."""
        self.note_sizes(access)
        free = [label for label in result.labels if label not in self.labels]
        if len(free) != len(result.labels):
            return self.unify(result.node, result.labels, indices) is not None
        pairs = pair(result.labels, indices, {})
        if pairs is None:
            return self.fail(result.node, Why.RANK, result.labels, len(access.indices))
        for label, indices in pairs:
            self.set(self.labels, label, indices)
        return True

    def leave_open(self, result: Result, access: Access) -> None:
        """Have the labels of a result be its loops in any order, which is told by what is read in windows."""
        self.note_sizes(access)
        scope = Reduce("", result.labels, result.node)
        self.set(self.reductions, scope, nontrivial(tuple(ungrouped(access.indices))))
        for label in result.labels:
            self.set(self.scopes, label, scope)

    def turn(
        self, node: Node, labels: tuple[Label, ...], indices: tuple[Index, ...], order: tuple[int, ...], present: int
    ) -> Pairs | None:
        """Bind labels to indices in an order, so many of them `present` in the program, and those of the result that
        are left to the loops that are."""
        for label in [at for at, axis in zip(labels, order, strict=False) if axis >= present]:  # with packs none is
            for each in labels_in(label):
                self.set(self.lacking, each)
        indices = tuple(indices[axis] for axis in order)
        pairs, wanted = self.unify(node, labels, indices), self.graph.results[0].labels
        if pairs is None or not self.bind_left(self.scopes[wanted[0]]):
            return None
        order, dims = self.order_read() or (), [*[UNIT] * self.attempt.lacks, *ungrouped(self.roots[0].indices)]
        own = [axis for axis in order if dims[axis] != UNIT]
        if order and (self.graph.reordered or own == sorted(own)):
            return pairs
        turned = tuple(wanted[at] for at in sorted(range(len(order)), key=order.__getitem__))
        return self.fail(node, Why.TURNED, wanted, turned) or None

    def bind_left(self, scope: Reduce[Node, Label]) -> bool:
        """Bind the labels of a reduction that nothing reads to the loops that nothing reads, if these are as many."""
        left = [loop for loop in self.reductions[scope] if (scope, loop) not in self.used]
        free = [label for label in scope.loops if label not in self.labels]
        if not (left or free):
            return True
        singles = sum(not label.pack for label in free)
        pairs = pair(tuple(free), (*left, *[UNIT] * (singles - len(left))), {})
        if pairs is None:
            return self.fail(scope, Why.REDUCED_MORE)
        for label, indices in pairs:
            self.set(self.labels, label, indices)
            for index in nontrivial(indices):
                self.set(self.used, (scope, index))
        return True

    def order_read(self) -> tuple[int, ...] | None:
        """The dims of the first result in the order of its labels, None where these are not its dims."""
        dims = [*[UNIT] * self.attempt.lacks, *ungrouped(self.roots[0].indices)]
        units = (axis for axis, index in enumerate(dims) if index == UNIT)
        wanted = [index for label in self.graph.results[0].labels for index in self.labels[label]]
        order = [next(units, None) if index == UNIT else dims.index(index) for index in wanted]
        told = tuple(axis for axis in order if axis is not None)
        return told if len(told) == len(order) == len(dims) else None

    def unify(self, node: Node, labels: tuple[Label, ...], indices: tuple[Index, ...]) -> Pairs | None:
        """Bind labels to indices, or check that they are bound so. Indices of size-one dims may be dropped."""
        self.asked = (labels, indices)
        pairs = self._unified(node, labels, indices)
        self.asked = ((), ())
        return pairs

    def _unified(self, node: Node, labels: tuple[Label, ...], indices: tuple[Index, ...]) -> Pairs | None:
        pairs = pair(labels, indices, self.labels)
        if self.attempt.ones_first and not (pairs and all(itertools.starmap(self._may_be, pairs))):
            pairs = aligned(labels, indices, self.labels) or pairs
        if pairs is None:
            self.fail(node, Why.RANK, labels, len(indices))
            return None
        for label, found in pairs:
            if not self._unify_label(node, label, found):
                return None
        return pairs

    def _may_be(self, label: Label, found: tuple[Index, ...]) -> bool:
        """Whether a label is bound to these indices, or not yet."""
        bound = self.labels.get(label)
        if bound is None or nontrivial(bound) == nontrivial(found):
            return True
        return label.pack and unflattened(bound) == unflattened(found)

    def _unify_label(self, node: Node, label: Label, found: tuple[Index, ...]) -> bool:
        if isinstance(label, Window):
            return self._unify_window(node, label, found[0])
        bound = self.labels.get(label)
        if bound is not None:
            return self._may_be(label, found) or self.fail(node, Why.DIM, label)
        scope = self.scopes.get(label)
        if scope is not None:
            loops = self.reductions[scope]
            real = nontrivial(found)
            if len({*real}) < len(real) or any(i not in loops or (scope, i) in self.used for i in real):
                return self.fail(node, Why.REDUCED_DIM, label, False)
            if not real and not label.pack and not self._may_be_single(scope):
                return self.fail(node, Why.REDUCED_DIM, label, True)
            for index in real:
                self.set(self.used, (scope, index))
        self.set(self.labels, label, found)
        return True

    def _may_be_single(self, scope: Reduce[Node, Label]) -> bool:
        """Whether a label of a reduction may stand for a dim of size one, over which no program needs a loop."""
        if any(label.pack for label in scope.loops):
            return True  # how many loops the pack has is known at the end
        singles = sum(self.labels.get(label) == (UNIT,) for label in scope.loops)
        return singles < len(scope.loops) - len(self.reductions[scope])

    def _unify_window(self, node: Node, window: Window, found: Index) -> bool:
        """A sum of labels against one of indices: labels that are bound take their index, then the others one each."""
        if isinstance(found, Sum) and found.constant != 0:
            return self.fail(node, Why.WINDOW, window)
        left = factors(found)
        bound = [term for term in window.terms if term[1] in self.labels]
        free = [term for term in window.terms if term[1] not in self.labels]
        for factor, label in bound:
            (index,) = self.labels[label]
            if index != UNIT and not self._same_factor(node, factor, left.pop(index, 0)):
                return False
        if len(left) > len(free):
            return self.fail(node, Why.WINDOW, window)
        for (factor, label), (index, times) in zip(free, self._shared_out(free, left), strict=True):
            if not self._unify_label(node, label, (index,)):
                return False
            if index != UNIT and not self._same_factor(node, factor, times):
                return False
        return True

    def _shared_out(self, free: Sequence[tuple[int | str, Label]], left: dict[Index, int]) -> list[tuple[Index, int]]:
        """For each label of a window one of the indices that are left, if it can one that the label runs over."""
        found: list[tuple[Index, int] | None] = []
        for _, label in free:
            own = next((index for index in left if self._runs_over(label, index)), None)
            found.append(None if own is None else (own, left.pop(own)))
        rest = itertools.chain(left.items(), itertools.repeat((UNIT, 0)))
        return [next(rest) if each is None else each for each in found]

    def _runs_over(self, label: Label, index: Index) -> bool:
        scope = self.scopes.get(label)
        return scope is None or index in self.reductions[scope]

    def turns(
        self, labels: Sequence[Label | Window], indices: tuple[Index, ...], lacks: int, *, ones: int | None = None
    ) -> Sequence[tuple[int, ...]]:
        """The orders in which indices may be those of labels, of which the program lacks the last ones, `lacks`."""
        return turns(labels, indices, self.may_become, lacks, {*ungrouped(self.roots[0].indices)}, ones)

    def may_become(self, label: Label | Window, index: Index) -> bool:
        """Whether an index may be a label's, as far as its loops tell."""
        if not isinstance(label, Window):
            own = self.labels.get(label)
            return self._may_be(label, (index,)) if own else index == UNIT or self._runs_over(label, index)
        if isinstance(index, Sum) and index.constant != 0:
            return False
        parts = factors(index)
        known = [own[0] for _, each in label.terms if (own := self.labels.get(each)) is not None and own[0] is not UNIT]
        if not parts.keys() >= {*known}:
            return False
        free = [each for _, each in label.terms if each not in self.labels]
        rest = [part for part in parts if part not in known]
        return not rest or any(
            all(itertools.starmap(self._runs_over, zip(some, rest, strict=True)))
            for some in itertools.permutations(free, len(rest))
        )

    def _same_factor(self, node: Node, wanted: int | str, found: int) -> bool:
        if isinstance(wanted, int):
            return wanted == found or self.fail(node, Why.STEP, wanted, found)
        return self.bind_dim(node, wanted, found, (UNIT,))

    def bind_dims(self, node: Input, kind: tree.TensorType, pairs: Pairs, access: Access) -> bool:
        sizes = self.note_sizes(access)
        for index, extent in sizes.items():
            self.set(self.extents, index, extent)
        sizes |= window_sizes(access)
        shape: list[Sizes] = []
        for dim, (_, indices) in zip(kind.dims, pairs, strict=True):
            found = tuple(sizes.get(i, 1) for i in indices)
            size: Sizes = found if dim.pack is not None else found[0]
            shape.append(size)
            if dim.size is not None and size != dim.size:
                return self.fail(node, Why.SIZE, dim.size, size)
            if dim.name is not None and not self.bind_dim(node, dim.name, size, indices):
                return False
        self.set(self.shapes, node.name, tuple(shape))
        return True

    def bind_dim(self, node: Node, name: str, size: Sizes, indices: tuple[Index, ...]) -> bool:
        """Bind a dim, or note that it has another size too. Sizes known at run time are compared at the end."""
        self.set(self.dims, name, (size, indices))
        if not self.may_have_size(node, name, size):
            return False
        self.set(self.dims_again, (name, size, indices), node)
        return True

    def may_have_size(self, node: Node, name: str | None, size: Sizes) -> bool:
        """Whether a dim is not known to be of another size."""
        known = self.dims[name][0] if name in self.dims else size
        is_other = isinstance(known, int) and isinstance(size, int) and known != size
        return not is_other or self.fail(node, Why.SAME_SIZE, name, known, size)

    def note_sizes(self, access: Access) -> dict[Index, Size]:
        sizes = sizes_of(access)
        for index, size in sizes.items():
            self.set(self.equal, (index, size))
        return sizes

    def extent(self, index: Index) -> Size:
        if index == UNIT:
            return 1
        if isinstance(index, Loop) and index.size is not None:
            return index.size
        dim = index.dim if isinstance(index, Loop) else None
        if dim is None or any(root.value == dim.value for root in self.roots.values()):
            dim = DimSize(index, 0)  # what is replaced is not there to be asked for its sizes
        return self.extents.get(index, dim)
