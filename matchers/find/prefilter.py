"""Which of many graphs can hold at a place, by their ops and by the axes of the result that inputs are read along.

Each graph has an outline: its ops, without indices, types, sizes or names. Equal outlines are one object, and what a
term was found to fit is kept for a place, so that what graphs share is looked at once. Of several alternatives only
those are tried that the op of a term may be. A whole outline is only looked at where the first ops fit. Of an input it
knows which labels of the result it has: a weight is not read along all axes of a result. Of the result it knows the
sizes that are numbers, in types or in conditions. What passes may still fail; what is stopped could not have held.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from iree.compiler import ir

from opsplice.matchers.find.outlines import NUMBER, REDUCED, REDUCTIONS, VALUE, Outline, Outlines, factor_of, ranks_of
from opsplice.matchers.ir.tensor_values import defining_op, shape_of
from opsplice.matchers.patterns.nodes import Graph
from opsplice.matchers.search.labels import has_ones_of_filters, is_in_windows
from opsplice.matchers.search.uses import is_constant
from opsplice.matchers.terms import chains, constants
from opsplice.matchers.terms.attributes import is_as_wanted, is_named
from opsplice.matchers.terms.canonical import WIDTHS
from opsplice.matchers.terms.terms import UNIT, Access, Apply, Constant, Loop, Reduce, Started, Term, mentions
from opsplice.matchers.terms.views import Views

# Graphs by their outermost op and those right below it.
Groups = Mapping[Outline, Sequence[Graph]]


class Sieve:
    """Graphs by their outlines, for places whose outermost op is theirs. known: the outlines that sieves share."""

    def __init__(self, graphs: Sequence[Graph], known: dict[Any, Any] | None = None) -> None:
        known = {} if known is None else known
        self._order = {graph: position for position, graph in enumerate(graphs)}
        self._by_first: dict[Outline, list[tuple[Outline, tuple[int, float], int, Graph]]] = {}
        for graph in graphs:
            if graph not in known:
                outlines = Outlines(graph, known)
                known[graph] = outlines.first(), outlines.whole(), ranks_of(graph), factor_of(graph)
            first, *others = known[graph]
            self._by_first.setdefault(first, []).append((*others, graph))

    def fitting(self, views: Views, value: ir.Value) -> list[Graph]:
        """The graphs that can hold with their result at a value, in order."""
        fits, term, shape = _Fits(views, value), views.root(value), shape_of(value) or ()
        rank, large = len(shape), len(shape) - shape.count(1)
        size = math.prod(size or 0 for size in shape or (None,))
        found = []
        for first, graphs in self._by_first.items():
            ranked = [each for each in graphs if each[1][0] <= rank and large <= each[1][1]]
            if ranked and fits.at_root(first, term):
                # Sizes last: what fits is what tells places apart, for near misses too.
                found += [each for whole, _, factor, each in ranked if fits.at_root(whole, term) and not size % factor]
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


class _Fits:
    """What terms fit which outlines, at one place."""

    def __init__(self, views: Views, value: ir.Value) -> None:
        self._views = views
        self._root = views.root(value).indices
        self._loops = tuple(index for index in self._root if isinstance(index, Loop))
        # By the identity of terms, which are kept so that it stays theirs: a place has few that are equal and not one.
        self._known: dict[tuple[Outline, int], tuple[bool, Term]] = {}
        self._made: dict[int, tuple[Term, Term, str]] = {}
        self._told: dict[Outline, tuple[tuple[Loop, ...], tuple[Loop, ...]]] = {}

    def at_root(self, outline: Outline, term: Term) -> bool:
        """A match ends with the pattern's last op: no op that leaves a value as it is stands behind that."""
        return outline.kind == "anything" or self._fits_some_op(outline, term, is_root=True)

    def begins(self, outline: Outline, term: Term) -> bool:
        """Whether an op right below the outermost fits, though not all do."""
        found = self._views.resolve(term)
        if outline.kind == "anything" or not isinstance(found, Apply):
            return False
        return any(self._begins(option, found) for option in outline.able[found.op] if option.what == found.op)

    def _begins(self, outline: Outline, found: Apply) -> bool:
        if outline.kind in REDUCTIONS:
            return isinstance(found, Started)  # it is that reduction, but for what it starts from
        pairs = zip(outline.written or outline.below or (), found.args, strict=False)
        parts = ((part, arg) for part, arg in pairs if part.kind not in ("anything", "constant"))
        return outline.below is None or any(self._fits(*each) for each in parts)

    def _fits(self, outline: Outline, term: Term) -> bool:
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

    def _fits_some_op(self, outline: Outline, term: Term, *, is_root: bool = False) -> bool:
        """Whether an op fits that a term may be seen as: its own, behind casts or behind what leaves it as it is."""
        source: Term | None = term
        values = outline.able[VALUE]
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

    def _fits_value(self, outline: Outline, source: Term) -> bool:
        if outline.kind == "tensor":
            return isinstance(source, Access) and self._may_read(outline, source)
        name, attributes = outline.what
        named = (op for op in self._makers(source) if is_named(op.name, name))
        return any(all(is_as_wanted(at, op.attributes.get(at.name, None)) for at in attributes) for op in named)

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

    def _may_read(self, tensor: Outline, source: Access) -> bool:
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

    def _fits_op(self, outline: Outline, found: Any) -> bool:
        kind, what, below = outline.kind, outline.what, outline.below
        if kind == "constant":
            known = self._views.constant(found)
            return known is not None and _is_number(known, what, below)
        if kind in REDUCTIONS:
            return self._fits_reduction(outline, found)
        spellings = self._views.readings(found, what)
        if not spellings or below is None:
            return bool(spellings)
        if kind == "chain":
            unwrap = (lambda inner: (self._behind_casts(inner), ())) if outline.casts else None
            ways = chains.groupings(self._views, what, spellings, len(below), unwrap)
            return any(self._pair_up(below, way.operands) for way in ways)
        return any(map(partial(self._fit_below, outline), spellings))

    def _fits_reduction(self, outline: Outline, found: Any) -> bool:
        if isinstance(found, Reduce):
            too_many = outline.loops is not None and len(found.loops) > outline.loops
            body, count = found.body, len(found.loops)
            return found.combiner == outline.what and not too_many and self._fits_body(outline, body, count)
        if outline.kind == "reduce" or not isinstance(found, Apply) or found.op != outline.what:
            return False
        if isinstance(found, Started):
            total = self._views.resolve(found.args[1])
            return outline.kind == "accumulated" and self._fits_reduction(outline, total)
        source = self._views.unchanged(found)  # of a window of one place there is no loop
        return source is not None and self._fits_body(outline, source)

    def _fits_body(self, outline: Outline, body: Term, loops: int = 0) -> bool:
        if outline.below is None:
            return True
        return (len(self._root) >= outline.rank or self._has_places(body, loops)) and self._fits(outline.below[0], body)

    def _has_places(self, body: Term, loops: int) -> bool:
        """Whether anything that a reduction is of may be read in windows, or a last dim is that of one place."""
        found = self._views.resolve(body)
        if isinstance(found, Apply) and loops > 1 and self._root[-1:] == (UNIT,):
            return True
        for source in found.args if isinstance(found, Apply) else (body,):
            at: Term | None = source
            while isinstance(at, Access):
                if has_ones_of_filters(at.indices) or is_in_windows(at.indices):
                    return True
                step = self._views.expand(at)
                at = None if step is None else step.term
            if at is source:
                return True  # what makes it in the same op is not looked into
        return False

    def _behind_casts(self, term: Term) -> Term:
        """What makes a term, behind views and casts."""
        found = self._views.resolve(term)
        while isinstance(found, Apply) and found.op in WIDTHS:
            found = self._views.resolve(found.args[0])
        return found

    def _fit_below(self, outline: Outline, spelling: Apply) -> bool:
        """Whether the operands of an op fit, in either order where it commutes."""
        args = spelling.args
        if len(args) != len(outline.below):
            return False
        return self._fit_each(outline, args) or (outline.turns and self._fit_each(outline, args[::-1]))

    def _fit_each(self, outline: Outline, args: Sequence[Term]) -> bool:
        for at, part in outline.smallest_first:  # noqa: SIM110  (each step of a generator is a call)
            if not self._fits(part, args[at]):
                return False
        return True

    def _pair_up(self, below: Sequence[Outline], found: Sequence[Term]) -> bool:
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
    return REDUCED + found.combiner if isinstance(found, Reduce) else NUMBER if isinstance(found, Constant) else ""


def _is_number(known: Constant, low: Constant | float, high: float | None) -> bool:
    """Whether a constant is a number of a pattern, or in a range of one, as the search judges it."""
    if isinstance(low, Constant):
        return constants.same(low.value, known.value, known.type)
    return high is None or (low, high) == (-math.inf, math.inf) or constants.within(low, high, known.value, known.type)
