"""Where patterns can start: an index on the outermost op.

What a `linalg.generic` computes is told by the op that its body ends with.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from opsplice.matchers.dims.size_reader import BITCAST
from opsplice.matchers.ir.tensor_values import defining_op, is_structured, shape_of
from opsplice.matchers.patterns.nodes import Graph, Node, Product, Whole
from opsplice.matchers.patterns.walk import endings, has_windows, nodes_of
from opsplice.matchers.terms.canonical import BECOMES, READ_AS, WIDTHS, names_of
from opsplice.matchers.terms.ops.index_reads import EXTRACT, TAKE
from opsplice.matchers.terms.ops.index_reductions import ARG_COMPARE, POSITION, of_generic
from opsplice.matchers.terms.ops.one_hots import SELECT
from opsplice.matchers.terms.ops.parts_of_dims import CONCAT, INSERT, STACK
from opsplice.matchers.terms.ops.reshape_ops import SPLITS, TRANSPOSE, before_reshapes
from opsplice.matchers.terms.ops.structured_ops import Structured
from opsplice.matchers.terms.terms import Apply, Reduce

# Ops whose regions are other programs, or scalar code that belongs to the op itself.
OPAQUE_REGIONS = ("linalg.", "iree_linalg_ext.", "flow.dispatch", "flow.executable", "stream.executable", "hal.")
# The scalar ops that a tensor op without a body of its own may end with.
_ENDS_WITH = {
    "linalg.softmax": ("arith.divf",),
    "iree_linalg_ext.attention": ("arith.addf",),
    "iree_linalg_ext.dequantize_affine": ("arith.mulf",),
    "iree_linalg_ext.quantize_affine": ("arith.fptosi", "arith.fptoui"),
    ARG_COMPARE: (POSITION,),
    EXTRACT: (TAKE,),
    CONCAT: (STACK,),
    INSERT: (STACK,),
    BITCAST: (STACK,),
}
# What a sum may be read as, too: one with one-hot rows.
_SUMS = {"arith.addf": (SELECT,)}


# What makes a value: the name of the op, and for a structured op the name of the op that its body ends with.
Ends = tuple[str, str | None]


class Index:
    """Which graphs can start at an op, by the name of the op that makes the element."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._order = {graph: position for position, graph in enumerate(graphs)}
        self._by_name: dict[str, list[Graph]] = {}
        self._anywhere = [graph for graph in graphs if None in _outermost(graph)]
        self._rearranged = [graph for graph in graphs if graph.rearranged]
        self._cast = [graph for graph in graphs if "cast" in graph.through]
        self._ranked = {graph: rank for graph in graphs if (rank := _rank(graph)) is not None}
        self._wanting_ones = {graph: rank for graph, rank in self._ranked.items() if not has_windows(graph)}
        self._behind_turns = frozenset(graph for graph in self._ranked if _may_end_behind_turns(graph))
        for graph in graphs:
            for name in _outermost(graph):
                if name is not None:
                    self._by_name.setdefault(name, []).append(graph)
        self._starting: dict[Ends, tuple[Graph, ...]] = {}

    @property
    def names(self) -> frozenset[str] | None:
        """The names of ops and of ops in bodies that some graph can start at; None if it may be any."""
        if self._anywhere or self._rearranged:
            return None
        every = (*self._by_name, *BECOMES, *READ_AS, *_ENDS_WITH, *_SUMS, *WIDTHS)
        names = {name for name in every if self._named(name)}
        views = (*SPLITS, *[TRANSPOSE] * bool(self._behind_turns))
        return frozenset(names.union(views) if self._ranked else names)

    def starting_at_value(self, value: ir.Value) -> tuple[Graph, ...]:
        """The graphs that can have their result at a value, in the order in which they were given."""
        op = value.owner
        assert isinstance(op, (ir.Operation, ir.OpView)), "an argument is no result"
        if op.name in SPLITS:
            return self._starting_at_split(op.operation)
        found = self.starting_at(ends_of(value))
        if op.name != TRANSPOSE or not self._behind_turns or defining_op(op.operands[0]) is None:
            return found
        turned = self._behind_turns.intersection(self.starting_at(ends_of(op.operands[0])))
        wanted = [graph for graph in turned if self._ranked[graph] == len(shape_of(value) or ())]
        return tuple(sorted({*found, *wanted}, key=self._order.__getitem__))

    def is_at_view(self, graph: Graph, value: ir.Value) -> bool:
        """Whether a value only splits or turns the dims of what the last op of a graph that starts there makes."""
        name = value.owner.name
        return name in SPLITS or (name == TRANSPOSE and graph in self._behind_turns)

    def starting_at(self, ends: Ends) -> tuple[Graph, ...]:
        """The graphs that can start at a value that an op makes, in the order in which they were given."""
        known = self._starting.get(ends)
        if known is None:
            known = self._starting[ends] = self._find(*ends)
        return known

    def _starting_at_split(self, op: ir.Operation) -> tuple[Graph, ...]:
        """The graphs that want the rank of a split result, where what is split is made with another rank.

        A batch and its heads are often one dim where attention is made, and two where masks for each batch are known.
        Where one of the dims is of size one, graphs with windows do without: their images have all dims in programs.
        """
        shape, before, source = shape_of(op.results[0]), shape_of(op.operands[0]), before_reshapes(op.results[0])
        if shape is None or before is None or len(before) >= len(shape) or defining_op(source) is None:
            return ()
        wanting = self._wanting_ones if 1 in shape else self._ranked
        return tuple(g for g in self.starting_at(ends_of(source)) if wanting.get(g) == len(shape))

    def _find(self, name: str, inner: str | None) -> tuple[Graph, ...]:
        if not name.startswith("linalg."):
            found = self._named(name)
        else:
            found = [*self._by_name.get(name, []), *(self._named(inner) if inner else self._rearranged)]
        return tuple(sorted(dict.fromkeys([*found, *self._anywhere]), key=self._order.__getitem__))

    def _named(self, name: str) -> list[Graph]:
        """The graphs whose outermost op has the name, or a name that canonical spelling makes of it."""
        ends = (name, *_ENDS_WITH.get(name, ()), *_SUMS.get(name, ()))
        names = dict.fromkeys(spelling for each in ends for spelling in names_of(each))
        found = [graph for each in names for graph in self._by_name.get(each, [])]
        return found + self._cast if name in WIDTHS else found


def _may_end_behind_turns(graph: Graph) -> bool:
    """Whether a graph is a product whose result has one order of its dims, which a program may make of another one.

    Those that take any order take what is turned, too, and those that turn it themselves start there anyway.
    """
    is_plain = not graph.reordered and not graph.rearranged and len(graph.results) == 1 and not has_windows(graph)
    by_name = any(name is None or name == TRANSPOSE for name in _outermost(graph))
    return is_plain and not by_name and any(isinstance(node, Product) for node in nodes_of(graph))


def _outermost(graph: Graph) -> tuple[str | None, ...]:
    """The names of the ops that a graph's first result may end with; None among them if it may be any."""
    return tuple(dict.fromkeys(map(_name, endings(graph))))


def _name(node: Node) -> str | None:
    if isinstance(node, Apply) or type(node) is Whole:
        return None if "*" in node.op else node.op
    return node.combiner if type(node) is Reduce else None


def _rank(graph: Graph) -> int | None:
    """How many dims the first result has, None if any number."""
    labels = graph.results[0].labels
    return None if any(label.pack for label in labels) else len(labels)


def _body_op(op: ir.Operation, number: int) -> str | None:
    """The op whose result a structured op yields; for one without a body, the op that it ends with."""
    if op.name in _ENDS_WITH:
        return _ENDS_WITH[op.name][0]
    if not is_structured(op):
        return None
    structured = Structured.of(op) if number and len(op.results) > 1 else None
    if structured is not None and of_generic(structured) is not None:
        return POSITION
    body = op.regions[0].blocks[0].operations
    inner = defining_op(body[len(body) - 1].operands[number])
    return None if inner is None else _ENDS_WITH.get(inner.name, (inner.name,))[0]


def ends_of(value: ir.Value) -> Ends:
    """What makes the result of an op."""
    op = value.owner.operation
    name = op.name
    return name, _body_op(op, value.result_number) if name.startswith("linalg.") else None
