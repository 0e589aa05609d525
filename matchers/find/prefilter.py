"""Which of many graphs can hold at a place, by their ops and by the axes of the result that inputs are read along.

Each graph has an outline: its ops, without indices, types, sizes or names. Equal outlines are one object, and what a
term was found to fit is kept for a place, so that what graphs share is looked at once. Of several alternatives only
those are tried that the op of a term may be. A whole outline is only looked at where the first ops fit. Of an input it
knows which labels of the result it has: a weight is not read along all axes of a result. What passes may still fail;
what is stopped could not have held.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from iree.compiler import ir

from opsplice.matchers.find.axes import Axes
from opsplice.matchers.ir.tensor_values import defining_op, shape_of
from opsplice.matchers.patterns.nodes import (
    Accumulated,
    Choice,
    Graph,
    Input,
    Named,
    Node,
    Number,
    Setting,
    Whole,
)
from opsplice.matchers.patterns.walk import least_rank
from opsplice.matchers.search.uses import is_constant
from opsplice.matchers.terms import chains, constants
from opsplice.matchers.terms.attributes import is_named
from opsplice.matchers.terms.canonical import COMPARISONS, READ_AS, SUMS_AS, WIDTHS
from opsplice.matchers.terms.ops.bands import BAND
from opsplice.matchers.terms.scalar_folding import FOLDED
from opsplice.matchers.terms.terms import Access, Apply, Constant, Loop, Reduce, Started, Term, mentions
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.syntax import tree, vocabulary

_REDUCTIONS = ("reduce", "window", "accumulated")
# How many levels of a pattern are looked at, which calls itself a few times for each.
_DEEPEST = 32
# The names under which terms that are no ops are looked up.
_NUMBER, _VALUE, _REDUCED = "a number", "a value", "a reduction by "


@dataclass(frozen=True, eq=False)
class _Outline:
    """A part of a graph: its op, and the outlines below it, None where these do not count.

    kind: "apply", "chain", "reduce", "window" (a reduction that a program may do without), "accumulated" (one that may
    start from anything), "constant", "choice" (of those in `below`), "band" (a mask by distance, spelled in any way),
    "named" (an op by its name), "tensor" (any that is a value) or "anything". what: the op or combiner; of a constant
    its value, or the lowest and (in `below`) the highest one; of a tensor its axes. casts: whether casts are looked
    through. written: of a chain, which op each of its two sides is as they are written. loops: how many loops a
    reduction may have, None for any number.
    """

    kind: str
    what: Any
    below: Any
    casts: bool
    written: tuple[_Outline, ...] | None = None
    loops: int | None = None

    @cached_property
    def turns(self) -> bool:
        """Whether the operands of its op may be the other way round."""
        return vocabulary.commutes(self.what) or self.what in COMPARISONS

    @property
    def options(self) -> tuple[_Outline, ...]:
        return self.below if self.kind == "choice" else (self,)

    @cached_property
    def size(self) -> int:
        """How many outlines it is made of: the fewer, the less of a program is read for it."""
        below = self.below if isinstance(self.below, tuple) else ()
        return 1 + sum(int(each.size) for each in below)

    @cached_property
    def smallest_first(self) -> tuple[tuple[int, _Outline], ...]:
        """The outlines below it that count, with their positions."""
        counting = [(at, each) for at, each in enumerate(self.below) if each.kind != "anything"]
        return tuple(sorted(counting, key=lambda each: each[1].size))

    @cached_property
    def able(self) -> _Able:
        """The options that terms of an op or another name may fit, by that name."""
        return _Able(self.options)

    def may_be(self, name: str) -> bool:
        """Whether a term of an op or another name may fit, for that name alone."""
        if self.kind in ("tensor", "named"):
            return name == _VALUE
        if self.kind == "constant":
            return name == _NUMBER or name in FOLDED
        if self.kind == "band":
            return name != _VALUE
        if self.kind in _REDUCTIONS:
            return name == _REDUCED + self.what or (self.kind != "reduce" and name == self.what)
        if name.startswith(_REDUCED):  # one over parts is one of theirs
            return self.what in (*SUMS_AS, name.removeprefix(_REDUCED))
        return name == self.what or self.what in READ_AS.get(name, ())


class _Able(dict[str, tuple[_Outline, ...]]):
    """Some options by the name of a term that they may fit: those for a name are found once, when it is asked for."""

    def __init__(self, options: tuple[_Outline, ...]) -> None:
        super().__init__()
        self._options = options

    def __missing__(self, name: str) -> tuple[_Outline, ...]:
        found = self[name] = tuple(option for option in self._options if option.may_be(name))
        return found


# Graphs by their outermost op and those right below it.
Groups = Mapping[_Outline, Sequence[Graph]]


class Sieve:
    """Graphs by their outlines, for places whose outermost op is theirs. known: the outlines that sieves share."""

    def __init__(self, graphs: Sequence[Graph], known: dict[Any, Any] | None = None) -> None:
        known = {} if known is None else known
        self._order = {graph: position for position, graph in enumerate(graphs)}
        self._by_first: dict[_Outline, list[tuple[_Outline, tuple[int, float], Graph]]] = {}
        for graph in graphs:
            if graph not in known:
                outlines = _Outlines(graph, known)
                known[graph] = outlines.first(), outlines.whole(), _ranks(graph)
            first, whole, ranks = known[graph]
            self._by_first.setdefault(first, []).append((whole, ranks, graph))

    def fitting(self, views: Views, value: ir.Value) -> list[Graph]:
        """The graphs that can hold with their result at a value, in order."""
        fits, term, shape = _Fits(views, value), views.root(value), shape_of(value) or ()
        rank, large = len(shape), len(shape) - shape.count(1)
        found = [
            graph
            for first, graphs in self._by_first.items()
            if fits.at_root(first, term)
            for whole, (least, most), graph in graphs
            if least <= rank and large <= most and fits.at_root(whole, term)
        ]
        return sorted(found, key=self._order.__getitem__)

    def grouped(self, names: Container[str]) -> Groups:
        """The graphs of patterns with some names, by their outermost ops."""
        return {
            first: kept
            for first, graphs in self._by_first.items()
            if (kept := [graph for *_, graph in graphs if graph.pattern.name in names])
        }

    def begun(self, views: Views, value: ir.Value, groups: Groups) -> list[Graph]:
        """Those of some graphs of which an op right below the outermost fits, in order."""
        fits, term = _Fits(views, value), views.root(value)
        begun = (each for first, each in groups.items() if fits.at_root(first, term) or fits.begins(first, term))
        return sorted(itertools.chain.from_iterable(begun), key=self._order.__getitem__)


def _ranks(graph: Graph) -> tuple[int, float]:
    """How many dims the first result of a graph has at least, and how many that are no ones at most.

    Dims of size one may be left out. Several dims may be one in the program; of a convolution only as many as its
    result has more than its image, which are those of groups.
    """
    labels = graph.results[0].labels
    if any(label.pack for label in labels):
        return 0, math.inf
    return 0 if graph.may_lack_dims else least_rank(graph), len(labels)


class _Outlines:
    """The outlines of a graph.

    known: all outlines that there are, by what they are made of.
    """

    def __init__(self, graph: Graph, known: dict[Any, _Outline]) -> None:
        self.graph = graph
        self._casts = "cast" in graph.through
        self._tensors = {p.name for p in graph.pattern.parameters if isinstance(p.type, tree.TensorType)}
        self._known = known
        self._of_node: dict[tuple[int, int], _Outline] = {}

    def first(self) -> _Outline:
        """The outermost op and those right below it. It only counts which parts are constants, not their values."""
        return self._inexact(self._down_to(1))

    def whole(self) -> _Outline:
        """All ops, of a pattern that nests deeper the outermost ones."""
        return self._down_to(_DEEPEST)

    def _down_to(self, depth: int) -> _Outline:
        if "reshape" in self.graph.through:
            return self._anything()  # what is looked through may stand between any two ops
        return self._of(self.graph.results[0].node, depth)

    def _outline(
        self,
        kind: str,
        what: Any,
        below: Any,
        written: tuple[_Outline, ...] | None = None,
        loops: int | None = None,
    ) -> _Outline:
        key = (kind, what, below, self._casts, written, loops)
        if key not in self._known:
            self._known[key] = _Outline(*key)
        return self._known[key]

    def _anything(self) -> _Outline:
        return self._outline("anything", "", None)

    def _of(self, node: Node, depth: int) -> _Outline:
        """The outline of a node down to a depth, made once for all depths but the last two: nodes are met at many."""
        key = (id(node), min(depth, 2))
        if key not in self._of_node:
            self._of_node[key] = self._make(node, depth)
        return self._of_node[key]

    def _make(self, node: Node, depth: int) -> _Outline:
        """Parts that this module does not know fit anything."""
        if isinstance(node, Apply) and node.op == BAND:
            return self._outline("band", BAND, None)
        if isinstance(node, Apply):
            operands = chains.operands(node)  # of a chain, in whatever grouping and order
            below = tuple(self._of(arg, depth - 1) for arg in operands) if depth else None
            if len(operands) == len(node.args):
                return self._outline("apply", node.op, below)
            return self._outline("chain", node.op, below, tuple(self._of(arg, 0) for arg in node.args))
        if type(node) is Reduce:
            kind = "window" if any(label.windowed for label in node.loops) else "reduce"
            any_number = len(node.loops) == 1 or any(label.pack for label in node.loops)  # several become one
            loops = None if any_number else len(node.loops)
            below = (self._of(node.body, depth - 1),) if depth else None
            return self._outline(kind, node.combiner, below, loops=loops)
        if isinstance(node, Accumulated):
            made = self._of(node.node, depth)
            return self._outline("accumulated", made.what, made.below, loops=made.loops)
        if isinstance(node, (Named, Setting)):
            return self._of(node.node, depth)
        if isinstance(node, Choice):
            return self._choice([self._of(option, depth) for option in node.options])
        if type(node) is Number and isinstance(node.low, tree.Literal):
            if node.high is None:  # told apart by the sign of zero
                return self._outline("constant", Constant(node.low.value, ""), None)
            if isinstance(node.high, tree.Literal):
                return self._outline("constant", node.low.value, node.high.value)
            return self._outline("constant", -math.inf, math.inf)
        if isinstance(node, Whole):
            return self._outline("named", node.op, None)
        if isinstance(node, Input) and node.name in self._tensors:
            return self._outline("tensor", Axes.of(self.graph, node), None)
        return self._anything()

    def _choice(self, options: Sequence[_Outline]) -> _Outline:
        if any(option.kind == "anything" for option in options):
            return self._anything()
        return self._outline("choice", "", tuple(dict.fromkeys(each for option in options for each in option.options)))

    def _inexact(self, outline: _Outline) -> _Outline:
        """An outline of depth one, with constants of any value, tensors that are no values and any number of loops."""
        if outline.kind == "constant":
            return self._outline("constant", -math.inf, math.inf)
        if outline.kind in ("tensor", "named", "band"):
            return self._anything()
        if outline.below is None:
            return self._outline(outline.kind, outline.what, None, outline.written)
        below = tuple(map(self._inexact, outline.below))
        return (
            self._choice(below)
            if outline.kind == "choice"
            else self._outline(outline.kind, outline.what, below, outline.written)
        )


class _Fits:
    """What terms fit which outlines, at one place."""

    def __init__(self, views: Views, value: ir.Value) -> None:
        self._views = views
        self._root = views.root(value).indices
        self._loops = tuple(index for index in self._root if isinstance(index, Loop))
        # By the identity of terms, which are kept so that it stays theirs: a place has few that are equal and not one.
        self._known: dict[tuple[_Outline, int], tuple[bool, Term]] = {}
        self._made: dict[int, tuple[Term, Term, str]] = {}
        self._told: dict[_Outline, tuple[tuple[Loop, ...], tuple[Loop, ...]]] = {}

    def at_root(self, outline: _Outline, term: Term) -> bool:
        """A match ends with the pattern's last op: no op that leaves a value as it is stands behind that."""
        return outline.kind == "anything" or self._fits_some_op(outline, term, is_root=True)

    def begins(self, outline: _Outline, term: Term) -> bool:
        """Whether an op right below the outermost fits, though not all do."""
        found = self._views.resolve(term)
        if outline.kind == "anything" or not isinstance(found, Apply):
            return False
        return any(self._begins(option, found) for option in outline.able[found.op] if option.what == found.op)

    def _begins(self, outline: _Outline, found: Apply) -> bool:
        if outline.kind in _REDUCTIONS:
            return isinstance(found, Started)  # it is that reduction, but for what it starts from
        pairs = zip(outline.written or outline.below or (), found.args, strict=False)
        parts = ((part, arg) for part, arg in pairs if part.kind not in ("anything", "constant"))
        return outline.below is None or any(self._fits(*each) for each in parts)

    def _fits(self, outline: _Outline, term: Term) -> bool:
        if outline.kind == "anything":
            return True
        key = (outline, id(term))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._fits_some_op(outline, term), term
        return known[0]

    def _read(self, term: Term) -> tuple[Term, Term, str]:
        """A term, what makes it, and the name that this is looked up by."""
        found = self._views.resolve(term)
        made = self._made[id(term)] = term, found, _name(found)
        return made

    def _fits_some_op(self, outline: _Outline, term: Term, *, is_root: bool = False) -> bool:
        """Whether an op fits that a term may be seen as: its own, behind casts or behind what leaves it as it is."""
        source: Term | None = term
        values = outline.able[_VALUE]
        while source is not None:
            for option in values:
                if self._fits_value(option, source):
                    return True
            _, found, name = self._made.get(id(source)) or self._read(source)
            for option in outline.able[name]:
                if self._fits_op(option, found):
                    return True
            if not isinstance(found, Apply):
                return False
            if outline.casts and found.op in WIDTHS:
                source = found.args[0]
            else:
                source = None if is_root else self._views.unchanged(found)
        return False

    def _fits_value(self, outline: _Outline, source: Term) -> bool:
        if outline.kind == "tensor":
            return isinstance(source, Access) and self._may_read(outline, source)
        return any(is_named(op.name, outline.what) for op in self._makers(source))

    def _makers(self, source: Term) -> Iterator[ir.Operation]:
        """The ops that make an element, from the last one down through views."""
        at: Term | None = source
        while isinstance(at, Access):
            self._views.reads[at.value] = None
            op = defining_op(at.value)
            if op is not None:
                yield op
            step = self._views.expand(at)
            at = None if step is None else step.term
        inner = None if at is None else self._views.maker(at)
        if inner is not None:
            yield inner

    def _may_read(self, tensor: _Outline, source: Access) -> bool:
        """Whether a tensor may be what an element is read from at some level of its views: along its axes of the
        result, and a weight if it has to be."""
        if tensor not in self._told:
            self._told[tensor] = tensor.what.told(self._root)
        apart, along = self._told[tensor]
        axes = tensor.what
        at: Term | None = source
        while isinstance(at, Access):
            fits = not any(_reads(at, loop) for loop in apart) and all(_reads(at, loop) for loop in along)
            if fits and axes.most < len(self._loops):
                fits = sum(_reads(at, loop) for loop in self._loops) <= axes.most
            if fits and (not axes.is_weight or is_constant(self._views, at.value)):
                return True
            step = self._views.expand(at)
            at = None if step is None else step.term
        return False

    def _fits_op(self, outline: _Outline, found: Any) -> bool:
        kind, what, below = outline.kind, outline.what, outline.below
        if kind == "constant":
            known = self._views.constant(found)
            return known is not None and _is_number(known, what, below)
        if kind in _REDUCTIONS:
            return self._fits_reduction(outline, found)
        spellings = self._views.readings(found, what)
        if not spellings or below is None:
            return bool(spellings)
        if kind == "chain":
            unwrap = (lambda inner: (self._behind_casts(inner), ())) if outline.casts else None
            ways = chains.groupings(self._views, what, spellings, len(below), unwrap)
            return any(self._pair_up(below, way.operands) for way in ways)
        return any(map(partial(self._fit_below, outline), spellings))

    def _fits_reduction(self, outline: _Outline, found: Any) -> bool:
        if isinstance(found, Reduce):
            too_many = outline.loops is not None and len(found.loops) > outline.loops
            return found.combiner == outline.what and not too_many and self._fits_body(outline, found.body)
        if outline.kind == "reduce" or not isinstance(found, Apply) or found.op != outline.what:
            return False
        if isinstance(found, Started):
            total = self._views.resolve(found.args[1])
            return outline.kind == "accumulated" and self._fits_reduction(outline, total)
        source = self._views.unchanged(found)  # of a window of one place there is no loop
        return source is not None and self._fits_body(outline, source)

    def _fits_body(self, outline: _Outline, body: Term) -> bool:
        return outline.below is None or self._fits(outline.below[0], body)

    def _behind_casts(self, term: Term) -> Term:
        """What makes a term, behind views and casts."""
        found = self._views.resolve(term)
        while isinstance(found, Apply) and found.op in WIDTHS:
            found = self._views.resolve(found.args[0])
        return found

    def _fit_below(self, outline: _Outline, spelling: Apply) -> bool:
        """Whether the operands of an op fit, in either order where it commutes."""
        args = spelling.args
        if len(args) != len(outline.below):
            return False
        return self._fit_each(outline, args) or (outline.turns and self._fit_each(outline, args[::-1]))

    def _fit_each(self, outline: _Outline, args: Sequence[Term]) -> bool:
        for at, part in outline.smallest_first:  # noqa: SIM110  (each step of a generator is a call)
            if not self._fits(part, args[at]):
                return False
        return True

    def _pair_up(self, below: Sequence[_Outline], found: Sequence[Term]) -> bool:
        """Whether each operand of a chain fits one of those found, looked at one by one."""
        return all(part.kind == "anything" or any(self._fits(part, term) for term in found) for part in below)


def _reads(access: Access, loop: Loop) -> bool:
    return loop in access.indices or any(
        mentions(index, loop) for index in access.indices if not isinstance(index, Loop)
    )


def _name(found: Term) -> str:
    """Under which name a term that is read is looked up among the options of an outline."""
    if isinstance(found, Apply):
        return found.op
    return _REDUCED + found.combiner if isinstance(found, Reduce) else _NUMBER if isinstance(found, Constant) else ""


def _is_number(known: Constant, low: Constant | float, high: float | None) -> bool:
    """Whether a constant is a number of a pattern, or in a range of one, as the search judges it."""
    if isinstance(low, Constant):
        return constants.same(low.value, known.value, known.type)
    return high is None or (low, high) == (-math.inf, math.inf) or constants.within(low, high, known.value, known.type)
