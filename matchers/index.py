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


# What makes a value: the name of the op, and for a structured op the name of the op that its body ends with.
Ends = tuple[str, str | None]
# A value with the name of its function.
Candidate = tuple[str, ir.Value, Ends]


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
        self._starting: dict[Ends, tuple[Graph, ...]] = {}

    @property
    def names(self) -> frozenset[str] | None:
        """The names of ops and of ops in bodies that some graph can start at; None if it may be any."""
        if self._anywhere or self._rearranged:
            return None
        names = {name for name in (*self._by_name, *BECOMES) if self._named(name)}
        return frozenset(names | {_SOFTMAX} if _SOFTMAX_ENDS in names else names)

    def starting_at(self, ends: Ends) -> tuple[Graph, ...]:
        """The graphs that can start at a value that an op makes, in the order in which they were given."""
        known = self._starting.get(ends)
        if known is None:
            known = self._starting[ends] = self._find(*ends)
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


def candidates(module: ir.Module, names: frozenset[str] | None) -> Iterator[Candidate]:
    """Each value that an op of one of the names makes, or a body that ends with such an op, in program order.

    names: None asks for every op; what comes may then be of any name.
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


def _walked(top: ir.Operation) -> Iterator[Candidate]:
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
    for function, op in found:
        for value in op.results:
            yield function, value, _ends(op, value)


def _ends(op: ir.Operation, value: ir.Value) -> Ends:
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
        picked: dict[ir.Value, Candidate] = {}
        out_of_order = not _is_straight(top)
        for op in self._found:
            parent = op.parent
            assert parent is not None, "only the module itself stands in nothing"
            around = parent.name
            if around.startswith("linalg."):
                values = _yielded_as(op, parent)
                if not values:
                    continue
                out_of_order = out_of_order or len(parent.results) > 1
                ends: Ends | None = (around, op.name)
                parent = parent.parent
            else:
                values, ends = op.results, None
                out_of_order = out_of_order or (len(op.regions) > 0 and not op.name.startswith(_OPAQUE_REGIONS))
            if parent not in functions:
                functions[parent] = _function_around(parent)
            function = functions[parent]
            if function is not None:
                for value in values:
                    if value not in picked:
                        picked[value] = (function, value, ends or _ends(op, value))
        self._found.clear()
        if not out_of_order:
            return list(picked.values())
        # The driver visits blocks by dominance, what is inside an op before the op itself, and ops in a body in the
        # order of the body, whatever result they make.
        return [picked[value] for _, value, _ in _walked(top) if value in picked]


def _yielded_as(op: ir.Operation, around: ir.Operation) -> list[ir.Value]:
    """The results of a structured op that an op in its body is the last step of."""
    found = []
    for result in op.results:
        for use in result.uses:
            if use.owner.name == "linalg.yield":
                found.append(around.results[use.operand_number])
    return found


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
