"""Where patterns can start: an index on the outermost op, and the ops of a module that it picks.

MLIR's own pattern driver does the walk. It calls back for ops of the names asked for and for nothing else, so ops that
no pattern can start at cost no Python. The scalar ops inside structured ops are among those that it calls for: what a
`linalg.generic` computes is told by the op that its body ends with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from iree.compiler import ir
from iree.compiler._mlir_libs._mlir import rewrite

from opsplice.matchers.canonical import BECOMES
from opsplice.matchers.graph import Graph, Whole
from opsplice.matchers.terms import Apply, Reduce
from opsplice.matchers.views import defining_op, is_structured

# Ops whose regions are other programs, or scalar code that belongs to the op itself.
_OPAQUE_REGIONS = ("linalg.", "iree_linalg_ext.", "flow.dispatch", "flow.executable", "stream.executable", "hal.")
_FUNCTIONS = (".func", ".initializer")
# linalg.softmax has no body; it ends with a division.
_SOFTMAX, _SOFTMAX_ENDS = "linalg.softmax", "arith.divf"


class Index:
    """Which graphs can start at an op, by the name of the op that makes the element."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._order = {graph: position for position, graph in enumerate(graphs)}
        self._by_name: dict[str, list[Graph]] = {}
        self._anywhere = [graph for graph in graphs if _outermost(graph) is None]
        self._rearranged = [graph for graph in graphs if graph.rearranged]
        for graph in graphs:
            name = _outermost(graph)
            if name is not None:
                self._by_name.setdefault(name, []).append(graph)
        self._starting: dict[tuple[str, str | None], tuple[Graph, ...]] = {}

    @property
    def names(self) -> frozenset[str] | None:
        """The names of ops and of ops in bodies that some graph can start at; None if it may be any."""
        if self._anywhere or self._rearranged:
            return None
        names = {name for name in (*self._by_name, *BECOMES) if self._named(name)}
        return frozenset(names | {_SOFTMAX} if _SOFTMAX_ENDS in names else names)

    def starting_at(self, op: ir.Operation, number: int) -> tuple[Graph, ...]:
        """The graphs that can start at a result of an op, in the order in which they were given."""
        name = op.name
        key = (name, _body_op(op, number) if name.startswith("linalg.") else None)
        known = self._starting.get(key)
        if known is None:
            known = self._starting[key] = self._find(*key)
        return known

    def _find(self, name: str, inner: str | None) -> tuple[Graph, ...]:
        if not name.startswith("linalg."):
            found = self._named(name)
        else:
            found = [*self._by_name.get(name, []), *(self._named(inner) if inner else self._rearranged)]
        return tuple(sorted(dict.fromkeys([*found, *self._anywhere]), key=self._order.__getitem__))

    def _named(self, name: str) -> list[Graph]:
        """The graphs whose outermost op has the name, or a name that canonical spelling makes of it."""
        return [graph for each in (name, *BECOMES.get(name, ())) for graph in self._by_name.get(each, [])]


def _outermost(graph: Graph) -> str | None:
    """The name of the op that a graph's first result ends with; None if it may be any."""
    node: Any = graph.results[0].node
    if type(node) is Apply or type(node) is Whole:
        return None if "*" in node.op else node.op
    return node.combiner if type(node) is Reduce else None


def _body_op(op: ir.Operation, number: int) -> str | None:
    """The op whose result a structured op yields; for linalg.softmax, the division that it ends with."""
    if op.name == _SOFTMAX:
        return _SOFTMAX_ENDS
    if not is_structured(op):
        return None
    body = op.regions[0].blocks[0].operations
    inner = defining_op(body[len(body) - 1].operands[number])
    return None if inner is None else inner.name


# ---- candidates --------------------------------------------------------------------------------------------------


def candidates(module: ir.Module, names: frozenset[str] | None) -> Iterator[tuple[str, ir.Operation]]:
    """Each op that makes something and has one of the names, or a body with an op of that name, in program order.

    With it comes the name of its function. names: None asks for every op.
    """
    picker = None if names is None else _Picker(module.context, names)
    with module.context:
        for top in module.body.operations:
            op = top.operation
            if not len(op.regions):
                continue
            if picker is None:
                yield from _walked(op)
            else:
                yield from picker.pick(op)


def _walked(top: ir.Operation) -> list[tuple[str, ir.Operation]]:
    found: list[tuple[str, ir.Operation]] = []
    function = ""

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal function
        name = op.name
        if name.endswith(_FUNCTIONS):
            function = _symbol(op)
        elif len(op.results):
            found.append((function, op))
        return ir.WalkResult.SKIP if name.startswith(_OPAQUE_REGIONS) else ir.WalkResult.ADVANCE

    top.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


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

    def pick(self, top: ir.Operation) -> list[tuple[str, ir.Operation]]:
        self._found.clear()
        rewrite.walk_and_apply_patterns(top, self._patterns)
        places: dict[ir.Operation, str | None] = {}  # the function of what stands in an op; None if that is opaque
        picked: list[tuple[str, ir.Operation]] = []
        nested = not _is_straight(top)
        last: ir.Operation | None = None
        for op in self._found:
            parent = op.parent
            if parent is not None and parent.name.startswith("linalg."):
                op, parent = parent, parent.parent
            elif len(op.regions):
                nested = nested or not op.name.startswith(_OPAQUE_REGIONS)
            if last is not None and op == last:
                continue
            last = op
            if parent not in places:
                places[parent] = _function_around(parent)
            function = places[parent]
            if function is not None and len(op.results):
                picked.append((function, op))
        self._found.clear()
        if not nested:
            return picked
        # The driver visits blocks by dominance, and what is inside an op before the op itself.
        wanted = {op for _, op in picked}
        return [entry for entry in _walked(top) if entry[1] in wanted]


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
            function = _symbol(op)
        op = op.parent
    return function or ""


def _symbol(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value if "sym_name" in op.attributes else ""
