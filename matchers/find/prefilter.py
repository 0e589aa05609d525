"""Which of many graphs can hold at a place, by the ops near the root alone.

Each graph has an outline: its ops down to some depth, without indices, types, sizes or names. Graphs with the same
outline are judged together, and an outline is only looked at where the one a level less deep fits. What passes may
still fail; what is stopped could not have held.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from iree.compiler import ir

from opsplice.matchers.patterns.nodes import Accumulated, Choice, Graph, Named, Node, Number, Setting
from opsplice.matchers.terms import chains, constants
from opsplice.matchers.terms.canonical import COMPARISONS, WIDTHS
from opsplice.matchers.terms.terms import Apply, Constant, Reduce, Started, Term
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.syntax import tree, vocabulary

_DEEPEST = 4

# What fits anything.
_ANYTHING: Any = None


class _Outline(NamedTuple):
    """A part of a graph: its op, and the outlines below it down to some depth, None at the deepest.

    kind: "apply", "chain", "reduce", "window" (a reduction that a program may do without), "accumulated" (one that may
    start from anything), "constant" or "choice" (of those in `below`). what: the op or the combiner; of a constant its
    value, or the lowest and (in `below`) the highest one. casts: whether casts are looked through. written: of a chain,
    which op each of its two sides is as they are written.
    """

    kind: str
    what: Any
    below: Any
    casts: bool
    written: tuple[Any, ...] | None = None


_REDUCTIONS = ("reduce", "window", "accumulated")
_ANY_CONSTANT = _Outline("constant", -math.inf, math.inf, True)


class Sieve:
    """Graphs by their outlines, for places whose outermost op is that of the graphs."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._first = _level([(_Outlines(graph), position) for position, graph in enumerate(graphs)], 1)

    def sort(self, views: Views, value: ir.Value) -> tuple[list[Graph], list[Graph]]:
        """The graphs that can hold with their result at a value, in order; and those that only some of its ops fit.

        A graph of which none of the ops right below its outermost fits is in neither.
        """
        fitting: list[tuple[int, Graph]] = []
        near: list[tuple[int, Graph]] = []
        term = views.root(value)
        pending = [self._first]
        while pending:
            levels = pending.pop()
            for outline, level in levels.items():
                if _fits_at_root(outline, term, views):
                    fitting += level.graphs
                    pending.append(level.deeper)
                elif levels is not self._first or _begins(outline, term, views):
                    near += level.all()
        return [graph for _, graph in sorted(fitting, key=_position)], [g for _, g in sorted(near, key=_position)]


def _position(entry: tuple[int, Graph]) -> int:
    return entry[0]


class _Level:
    """The graphs of one outline: those that have no deeper one, and the others by it."""

    def __init__(self, graphs: list[tuple[_Outlines, int]], depth: int) -> None:
        self.graphs: list[tuple[int, Graph]] = []
        rest = []
        for outlines, position in graphs:
            if depth >= _DEEPEST or outlines.at(depth) == outlines.at(depth + 1):
                self.graphs.append((position, outlines.graph))
            else:
                rest.append((outlines, position))
        self.deeper = _level(rest, depth + 1)

    def all(self) -> Iterator[tuple[int, Graph]]:
        yield from self.graphs
        for level in self.deeper.values():
            yield from level.all()


def _level(graphs: list[tuple[_Outlines, int]], depth: int) -> dict[Any, _Level]:
    groups: dict[Any, list[tuple[_Outlines, int]]] = {}
    for outlines, position in graphs:
        groups.setdefault(outlines.at(depth), []).append((outlines, position))
    return {outline: _Level(group, depth) for outline, group in groups.items()}


class _Outlines:
    """The outlines of a graph, by depth. At the first it only counts which parts are constants, not their values."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._casts = "cast" in graph.through
        self._made: dict[tuple[int, int], Any] = {}

    def at(self, depth: int) -> Any:
        if self.graph.through - {"cast"}:
            return _ANYTHING  # what is looked through may stand between any two ops
        root = self.graph.results[0].node
        return self._of(root, depth) if depth > 1 else _inexact(self._of(root, depth))

    def _of(self, node: Node, depth: int) -> Any:
        key = (id(node), depth)
        if key not in self._made:
            self._made[key] = self._make(node, depth)
        return self._made[key]

    def _make(self, node: Node, depth: int) -> Any:
        """Parts that this module does not know fit anything."""
        if isinstance(node, Apply):
            operands = chains.operands(node)  # of a chain, in whatever grouping and order
            below = tuple([self._of(arg, depth - 1) for arg in operands]) if depth else None
            if len(operands) == len(node.args):
                return _Outline("apply", node.op, below, self._casts)
            written = tuple(self._of(arg, 0) for arg in node.args)
            return _Outline("chain", node.op, below, self._casts, written)
        if type(node) is Reduce:
            kind = "window" if any(label.windowed for label in node.loops) else "reduce"
            return _Outline(kind, node.combiner, self._of(node.body, depth - 1) if depth else None, self._casts)
        if isinstance(node, Accumulated):
            return self._of(node.node, depth)._replace(kind="accumulated")
        if isinstance(node, (Named, Setting)):
            return self._of(node.node, depth)
        if isinstance(node, Choice):
            options = tuple(dict.fromkeys(self._of(option, depth) for option in node.options))
            return _ANYTHING if _ANYTHING in options else _Outline("choice", "", options, self._casts)
        if type(node) is Number and isinstance(node.low, tree.Literal):
            if node.high is None:  # told apart by the sign of zero
                return _Outline("constant", Constant(node.low.value, ""), None, self._casts)
            if isinstance(node.high, tree.Literal):
                return _Outline("constant", node.low.value, node.high.value, self._casts)
            return _ANY_CONSTANT
        return _ANYTHING


def _inexact(outline: Any) -> Any:
    """An outline of depth one, with constants of any value."""
    if outline is _ANYTHING or outline.kind == "constant":
        return _ANYTHING if outline is _ANYTHING else _ANY_CONSTANT
    if outline.below is None:
        return outline
    below = _inexact(outline.below) if outline.kind in _REDUCTIONS else tuple(map(_inexact, outline.below))
    return outline._replace(below=below)


def _fits_at_root(outline: Any, term: Term, views: Views) -> bool:
    """A match ends with the pattern's last op: no op that leaves a value as it is stands behind that."""
    if outline is not _ANYTHING and outline.kind == "choice":
        return any(_fits_at_root(option, term, views) for option in outline.below)
    return outline is _ANYTHING or _fits_op(outline, _made_by(outline, term, views), views)


def _made_by(outline: Any, term: Term, views: Views) -> Term:
    return _behind_casts(views, term, outline.what) if outline.casts else views.resolve(term)


def _fits(outline: Any, term: Term, views: Views) -> bool:
    if outline is _ANYTHING:
        return True
    if outline.kind == "choice":
        return any(_fits(option, term, views) for option in outline.below)
    found = _made_by(outline, term, views)
    if _fits_op(outline, found, views):
        return True
    source = views.unchanged(found)
    return source is not None and _fits(outline, source, views)


def _fits_op(outline: Any, found: Term, views: Views) -> bool:
    kind, what, below, casts, _ = outline
    if kind == "constant":
        known = views.constant(found)
        return known is not None and _is_number(known, what, below)
    if kind in _REDUCTIONS:
        return _fits_reduction(outline, found, views)
    spellings = views.readings(found, what)
    if not spellings or below is None:
        return bool(spellings)
    if kind == "chain":
        unwrap = (lambda inner: (_behind_casts(views, inner), ())) if casts else None
        return any(
            _pair_up(below, grouping.operands, views)
            for grouping in chains.groupings(views, what, spellings, len(below), unwrap)
        )
    return any(_fit_below(what, below, spelling.args, views) for spelling in spellings)


def _fits_reduction(outline: Any, found: Term, views: Views) -> bool:
    if isinstance(found, Reduce):
        return found.combiner == outline.what and _fits(outline.below, found.body, views)
    if outline.kind == "reduce" or not isinstance(found, Apply) or found.op != outline.what:
        return False
    if isinstance(found, Started):
        return outline.kind == "accumulated" and _fits_reduction(outline, views.resolve(found.args[1]), views)
    source = views.unchanged(found)  # of a window of one place there is no loop
    return source is not None and _fits(outline.below, source, views)


def _behind_casts(views: Views, term: Term, wanted: str = "") -> Term:
    """What makes a term, behind views and casts, but for a cast that is wanted itself."""
    found = views.resolve(term)
    while isinstance(found, Apply) and found.op in WIDTHS and found.op != wanted:
        found = views.resolve(found.args[0])
    return found


def _fit_below(what: str, below: Sequence[Any], args: Sequence[Term], views: Views) -> bool:
    """Whether the operands of an op fit, in either order where it commutes."""
    if len(args) != len(below):
        return False
    if all(_fits(part, arg, views) for part, arg in zip(below, args, strict=True)):
        return True
    if not (vocabulary.commutes(what) or what in COMPARISONS):
        return False
    return all(_fits(part, arg, views) for part, arg in zip(below, reversed(args), strict=True))


def _pair_up(below: Sequence[Any], found: Sequence[Term], views: Views) -> bool:
    """Whether each operand of a chain fits one of those found, looked at one by one."""
    return all(part is _ANYTHING or any(_fits(part, term, views) for term in found) for part in below)


def _begins(outline: Any, term: Term, views: Views) -> bool:
    """Whether an op right below the outermost fits, though not all do."""
    if outline is not _ANYTHING and outline.kind == "choice":
        return any(_begins(option, term, views) for option in outline.below)
    found = views.resolve(term)
    if outline is _ANYTHING or not isinstance(found, Apply) or found.op != outline.what:
        return False
    if outline.below is None:
        return True
    if outline.kind in _REDUCTIONS:
        return isinstance(found, Started)  # it is that reduction, but for what it starts from
    pairs = zip(outline.below if outline.written is None else outline.written, found.args, strict=False)
    return any(part is not _ANYTHING and part.kind != "constant" and _fits(part, arg, views) for part, arg in pairs)


def _is_number(known: Constant, low: Constant | float, high: float | None) -> bool:
    """Whether a constant is a number of a pattern, or in a range of one, as the search judges it."""
    if isinstance(low, Constant):
        return constants.same(low.value, known.value, known.type)
    return high is None or (low, high) == (-math.inf, math.inf) or constants.within(low, high, known.value, known.type)
