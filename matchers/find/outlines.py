"""Outlines of patterns: their ops, without indices, types, sizes or names, by which they are ruled out at a place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from opsplice.matchers.find.axes import Axes
from opsplice.matchers.patterns.nodes import Accumulated, Choice, Graph, Input, Named, Node, Number, Setting, Whole
from opsplice.matchers.patterns.walk import least_rank
from opsplice.matchers.search.whole_ops import BY_DIM
from opsplice.matchers.terms import chains
from opsplice.matchers.terms.canonical import COMPARISONS, READ_AS, SUMS_AS
from opsplice.matchers.terms.ops.bands import BAND
from opsplice.matchers.terms.scalar_folding import FOLDED
from opsplice.matchers.terms.terms import Apply, Constant, Reduce
from opsplice.spec_lang.dims import dim_conditions
from opsplice.spec_lang.syntax import tree, vocabulary

REDUCTIONS = ("reduce", "window", "accumulated")
# How many levels of a pattern are looked at, which calls itself a few times for each.
_DEEPEST = 32
# The names under which terms that are no ops are looked up.
NUMBER, VALUE, REDUCED = "a number", "a value", "a reduction by "


@dataclass(frozen=True, eq=False)
class Outline:
    """A part of a graph: its op, and the outlines below it, None where these do not count.

    kind: "apply", "chain", "reduce", "window" (a reduction that a program may do without), "accumulated" (one that may
    start from anything), "constant", "choice" (of those in `below`), "band" (a mask by distance, spelled in any way),
    "named" (an op by its name), "tensor" (any that is a value) or "anything". what: the op or combiner; of a constant
    its value, or the lowest and (in `below`) the highest one; of a tensor its axes; of an op by name that and its
    attributes. casts: whether casts are looked through. written: of a chain, which op each of its two sides is as they
    are written. loops: how many loops a reduction may have, None for any number. rank: of a window how many dims a
    result has whose dims are all there; 0 where none may be lacking.
    """

    kind: str
    what: Any
    below: Any
    casts: bool
    written: tuple[Outline, ...] | None = None
    loops: int | None = None
    rank: int = 0

    @cached_property
    def turns(self) -> bool:
        """Whether the operands of its op may be the other way round."""
        return vocabulary.commutes(self.what) or self.what in COMPARISONS

    @property
    def options(self) -> tuple[Outline, ...]:
        return self.below if self.kind == "choice" else (self,)

    @cached_property
    def size(self) -> int:
        """How many outlines it is made of: the fewer, the less of a program is read for it."""
        below = self.below if isinstance(self.below, tuple) else ()
        return 1 + sum(int(each.size) for each in below)

    @cached_property
    def smallest_first(self) -> tuple[tuple[int, Outline], ...]:
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
            return name == VALUE
        if self.kind == "constant":
            return name == NUMBER or name in FOLDED
        if self.kind == "band":
            return name != VALUE
        if self.kind in REDUCTIONS:
            return name == REDUCED + self.what or (self.kind != "reduce" and name == self.what)
        if name.startswith(REDUCED):  # one over parts is one of theirs
            return self.what in (*SUMS_AS, name.removeprefix(REDUCED))
        return name == self.what or self.what in READ_AS.get(name, ())


class _Able(dict[str, tuple[Outline, ...]]):
    """Some options by the name of a term that they may fit: those for a name are found once, when it is asked for."""

    def __init__(self, options: tuple[Outline, ...]) -> None:
        super().__init__()
        self._options = options

    def __missing__(self, name: str) -> tuple[Outline, ...]:
        found = self[name] = tuple(option for option in self._options if option.may_be(name))
        return found


def ranks_of(graph: Graph) -> tuple[int, float]:
    """How many dims the first result of a graph has at least, and how many that are no ones at most.

    Dims of size one may be left out. Several dims may be one in the program; of a convolution only as many as its
    result has more than its image, which are those of groups.
    """
    labels = graph.results[0].labels
    if any(label.pack for label in labels):
        return 0, math.inf
    return 0 if graph.may_lack_dims else least_rank(graph), len(labels)


def _is_told(wanted: tree.Attribute) -> bool:
    """Whether an op alone tells that an attribute is as it is wanted: it binds nothing, nor has it a number for each
    dim, which may be in another order."""
    is_plain = not any(isinstance(item, tree.Bound) for item in wanted.items)
    return is_plain and not isinstance(wanted.value, tree.MlirText) and not wanted.name.startswith(BY_DIM)


def factor_of(graph: Graph) -> int:
    """What the number of elements of the first result is a multiple of, whichever dims of it a program has as one."""
    conditions = (each for each in graph.conditions if isinstance(each, tree.Comparison))
    known = {name: size for each in conditions for name, size in dim_conditions.fixed(each).items()}
    written = ((tie.labels, tie.size if isinstance(tie.size, int) else known.get(tie.size)) for tie in graph.ties)
    sizes = {labels: size for labels, size in written if size}
    return math.prod(sizes.get((label,), 1) for label in dict.fromkeys(graph.results[0].labels))


class Outlines:
    """The outlines of a graph.

    known: all outlines that there are, by what they are made of.
    """

    def __init__(self, graph: Graph, known: dict[Any, Outline]) -> None:
        self.graph = graph
        self._casts = "cast" in graph.through
        self._tensors = {p.name for p in graph.pattern.parameters if isinstance(p.type, tree.TensorType)}
        self._known = known
        self._of_node: dict[tuple[int, int], Outline] = {}

    def first(self) -> Outline:
        """The outermost op and those right below it. It only counts which parts are constants, not their values."""
        return self._inexact(self._down_to(1), is_root=True)

    def whole(self) -> Outline:
        """All ops, of a pattern that nests deeper the outermost ones."""
        return self._down_to(_DEEPEST)

    def _down_to(self, depth: int) -> Outline:
        if "reshape" in self.graph.through:
            return self._anything()  # what is looked through may stand between any two ops
        return self._of(self.graph.results[0].node, depth)

    def _outline(
        self,
        kind: str,
        what: Any,
        below: Any,
        written: tuple[Outline, ...] | None = None,
        loops: int | None = None,
        rank: int = 0,
    ) -> Outline:
        key = (kind, what, below, self._casts, written, loops, rank)
        if key not in self._known:
            self._known[key] = Outline(*key)
        return self._known[key]

    def _anything(self) -> Outline:
        return self._outline("anything", "", None)

    def _of(self, node: Node, depth: int) -> Outline:
        """The outline of a node down to a depth, made once for all depths but the last two: nodes are met at many."""
        key = (id(node), min(depth, 2))
        if key not in self._of_node:
            self._of_node[key] = self._make(node, depth)
        return self._of_node[key]

    def _make(self, node: Node, depth: int) -> Outline:
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
            may_lack = kind == "window" and depth and self.graph.may_lack_dims
            rank = len(self.graph.results[0].labels) if may_lack else 0
            return self._outline(kind, node.combiner, below, loops=loops, rank=rank)
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
            return self._outline("named", (node.op, tuple(filter(_is_told, node.attributes))), None)
        if isinstance(node, Input) and node.name in self._tensors:
            return self._outline("tensor", Axes.of(self.graph, node), None)
        return self._anything()

    def _choice(self, options: Sequence[Outline]) -> Outline:
        if any(option.kind == "anything" for option in options):
            return self._anything()
        return self._outline("choice", "", tuple(dict.fromkeys(each for option in options for each in option.options)))

    def _inexact(self, outline: Outline, *, is_root: bool = False) -> Outline:
        """An outline of depth one, with constants of any value, tensors that are no values, any number of loops, and
        ops by their names at the root alone."""
        if is_root and outline.kind == "named":
            return outline
        if outline.kind == "constant":
            return self._outline("constant", -math.inf, math.inf)
        if outline.kind in ("tensor", "named", "band"):
            return self._anything()
        if outline.below is None:
            return self._outline(outline.kind, outline.what, None, outline.written)
        if outline.kind == "choice":
            return self._choice([self._inexact(each, is_root=is_root) for each in outline.below])
        return self._outline(outline.kind, outline.what, tuple(map(self._inexact, outline.below)), outline.written)
