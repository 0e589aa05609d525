"""Where patterns can start: an index on the outermost op, and the ops of a module that it picks.

MLIR's own pattern driver does the walk. It calls back for ops of the names asked for and for nothing else, so ops that
no pattern can start at cost no Python. The scalar ops inside structured ops are among those that it calls for: what a
`linalg.generic` computes is told by the op that its body ends with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from iree.compiler import ir, rewrite

from opsplice.matchers.canonical import BECOMES, READ_AS, names_of
from opsplice.matchers.graph import Graph, Whole, heads
from opsplice.matchers.ir_names import symbol_of
from opsplice.matchers.terms import Apply, Reduce
from opsplice.matchers.views import defining_op, is_structured, shape_of

# Ops whose regions are other programs, or scalar code that belongs to the op itself.
_OPAQUE_REGIONS = ("linalg.", "iree_linalg_ext.", "flow.dispatch", "flow.executable", "stream.executable", "hal.")
_FUNCTIONS = (".func", ".initializer")
# The scalar op that a tensor op without a body of its own ends with.
_ENDS_WITH = {"linalg.softmax": "arith.divf", "iree_linalg_ext.attention": "arith.addf"}
# The op that makes several dims of one.
SPLIT = "tensor.expand_shape"


# What makes a value: the name of the op, and for a structured op the name of the op that its body ends with.
Ends = tuple[str, str | None]
# The name of a function, an op in it, and an op of a wanted name in its body, if there is one.
Candidate = tuple[str, ir.Operation, ir.Operation | None]


class Index:
    """Which graphs can start at an op, by the name of the op that makes the element."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._order = {graph: position for position, graph in enumerate(graphs)}
        self._by_name: dict[str, list[Graph]] = {}
        self._anywhere = [graph for graph in graphs if None in _outermost(graph)]
        self._rearranged = [graph for graph in graphs if graph.rearranged]
        self._ranked = {graph: rank for graph in graphs if (rank := _rank(graph)) is not None}
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
        names = {name for name in (*self._by_name, *BECOMES, *READ_AS, *_ENDS_WITH) if self._named(name)}
        return frozenset(names | {SPLIT} if self._ranked else names)

    def starting_at(self, ends: Ends) -> tuple[Graph, ...]:
        """The graphs that can start at a value that an op makes, in the order in which they were given."""
        known = self._starting.get(ends)
        if known is None:
            known = self._starting[ends] = self._find(*ends)
        return known

    def starting_at_split(self, op: ir.Operation) -> tuple[Graph, ...]:
        """The graphs that want the rank of a split result, where what is split is made with another rank.

        A batch and its heads are often one dim where attention is made, and two where masks for each batch are known.
        """
        made, shape = defining_op(op.operands[0]), shape_of(op.results[0])
        if made is None or shape is None or 1 in shape or made.name == SPLIT:
            return ()
        return tuple(g for g in self.starting_at(ends_of(op.operands[0])) if self._ranked.get(g) == len(shape))

    def _find(self, name: str, inner: str | None) -> tuple[Graph, ...]:
        if not name.startswith("linalg."):
            found = self._named(name)
        else:
            found = [*self._by_name.get(name, []), *(self._named(inner) if inner else self._rearranged)]
        return tuple(sorted(dict.fromkeys([*found, *self._anywhere]), key=self._order.__getitem__))

    def _named(self, name: str) -> list[Graph]:
        """The graphs whose outermost op has the name, or a name that canonical spelling makes of it."""
        names = dict.fromkeys((*names_of(name), *names_of(_ENDS_WITH.get(name, name))))
        return [graph for each in names for graph in self._by_name.get(each, [])]


def _outermost(graph: Graph) -> tuple[str | None, ...]:
    """The names of the ops that a graph's first result may end with; None among them if it may be any."""
    return tuple(dict.fromkeys(map(_name, heads(graph.results[0].node))))


def _name(node: Any) -> str | None:
    if type(node) is Apply or type(node) is Whole:
        return None if "*" in node.op else node.op
    return node.combiner if type(node) is Reduce else None


def _rank(graph: Graph) -> int | None:
    """How many dims the first result has, None if any number."""
    labels = graph.results[0].labels
    return None if labels is None or any(label.pack for label in labels) else len(labels)


def _body_op(op: ir.Operation, number: int) -> str | None:
    """The op whose result a structured op yields; for one without a body, the op that it ends with."""
    if op.name in _ENDS_WITH:
        return _ENDS_WITH[op.name]
    if not is_structured(op):
        return None
    body = op.regions[0].blocks[0].operations
    inner = defining_op(body[len(body) - 1].operands[number])
    return None if inner is None else inner.name


# ---- candidates --------------------------------------------------------------------------------------------------


def candidates(module: ir.Module, names: frozenset[str] | None) -> Iterator[Candidate]:
    """Each op that makes something and has one of the names, or such an op in its body, in program order.

    names: None asks for every op. More may come than was asked for: `Index.starting_at` judges.
    """
    picker = None if names is None else _Picker(module.context, names)
    with module.context:
        for top in module.body.operations:
            op = top.operation
            if not len(op.regions):
                continue
            yield from _walked(op) if picker is None else picker.pick(op)


def _walked(top: ir.Operation) -> list[Candidate]:
    found: list[Candidate] = []
    function = ""

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal function
        name = op.name
        if name.endswith(_FUNCTIONS):
            function = symbol_of(op)
        elif len(op.results):
            found.append((function, op, None))
        return ir.WalkResult.SKIP if name.startswith(_OPAQUE_REGIONS) else ir.WalkResult.ADVANCE

    top.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def ends_of(value: ir.Value) -> Ends:
    """What makes the result of an op."""
    op = value.owner.operation
    name = op.name
    return name, _body_op(op, value.result_number) if name.startswith("linalg.") else None


class _Picker:
    """Picks ops by name with a set of patterns that never hold."""

    def __init__(self, context: ir.Context, names: frozenset[str]) -> None:
        self._found: list[ir.Operation] = []
        patterns = rewrite.RewritePatternSet(context)
        for name in sorted(names):
            patterns.add(name, self._visit)
        self._patterns = patterns.freeze()

    def _visit(self, op: Any, _rewriter: Any) -> bool:
        self._found.append(op.operation)
        return True  # it does not hold

    def pick(self, top: ir.Operation) -> list[Candidate]:
        self._found.clear()
        rewrite.walk_and_apply_patterns(top, self._patterns)
        functions: dict[ir.Operation, str | None] = {}
        picked: dict[ir.Operation, Candidate] = {}
        straight = _is_straight(top)
        for op in self._found:
            parent = op.parent
            assert parent is not None, "only the module itself stands in nothing"
            around = parent.name
            inner: ir.Operation | None = None
            if around.startswith("linalg."):
                # A named op multiplies before it adds; most bodies of others are a single op.
                if around != "linalg.generic" and not is_last(op):
                    continue
                inner, op, parent = op, parent, parent.parent
            elif len(op.regions):
                straight = straight and op.name.startswith(_OPAQUE_REGIONS)
            if parent not in functions:
                functions[parent] = _function_around(parent)
            function = functions[parent]
            if function is not None:
                picked[op] = (function, op, inner)
        self._found.clear()
        if straight:
            return [entry for entry in picked.values() if len(entry[1].results)]
        # The driver visits blocks by dominance, and what is inside an op before the op itself.
        return [picked[op] for _, op, _ in _walked(top) if op in picked]


def is_last(op: ir.Operation) -> bool:
    """Whether an op in a body makes what the body yields."""
    return any(use.owner.name == "linalg.yield" for result in op.results for use in result.uses)


def _is_straight(op: ir.Operation) -> bool:
    """Whether an op is a function of one block."""
    return op.name.endswith(_FUNCTIONS) and all(len(list(region.blocks)) < 2 for region in op.regions)


def _function_around(op: ir.Operation | None) -> str | None:
    """The name of the function that an op is or stands in, "" for none; None if an op around keeps its inside."""
    function: str | None = None
    while op is not None:
        name = op.name
        if name.startswith(_OPAQUE_REGIONS):
            return None
        if function is None and name.endswith(_FUNCTIONS):
            function = symbol_of(op)
        op = op.parent
    return function or ""
