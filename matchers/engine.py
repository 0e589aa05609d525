"""The engine: find every place where a pattern holds, and change nothing.

The module is walked once. An index on the outermost op picks the patterns that could start at an op;
`matchers.search` then tries each of them there.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from iree.compiler import ir

from opsplice.matchers.canonical import BECOMES, READ_AS
from opsplice.matchers.graph import Graph, Whole, heads
from opsplice.matchers.match import Found, Match, NearMiss
from opsplice.matchers.search import MAX_STEPS, Search
from opsplice.matchers.terms import Apply, Reduce
from opsplice.matchers.views import Views, defining_op, is_structured, shape_of

# Ops whose regions are other programs, or scalar code that belongs to the op itself.
_OPAQUE_REGIONS = ("linalg.", "iree_linalg_ext.", "flow.dispatch", "flow.executable", "stream.executable", "hal.")
# The scalar op that a tensor op without a body of its own ends with.
_ENDS_WITH = {"linalg.softmax": "arith.divf", "iree_linalg_ext.attention": "arith.addf"}
# The op that makes several dims of one.
_SPLIT = "tensor.expand_shape"
_MAX_NEAR_MISSES = 5
_LEAST_STEPS = 1000


def find(module: ir.Module, graphs: Sequence[Graph]) -> Found:
    """Every match of every graph in the module, in program order, with the nearest misses of each pattern.

    Matches of different graphs may overlap; settling that is the planner's work. What is found holds values of the
    module, which are only good while the module is alive and unchanged.
    """
    index = _Index(graphs)
    views = Views()
    matches: list[Match] = []
    misses = {graph.pattern.name: _Nearest() for graph in graphs}
    max_steps = dict.fromkeys(graphs, MAX_STEPS)
    for function, op in _candidates(module, index.wants):
        for number, value in enumerate(op.results):
            split = op.name == _SPLIT
            for graph in index.starting_at_split(op) if split else index.starting_at(op, number):
                search = Search(views, graph, function, max_steps[graph])
                match = search.run(value, at_view=split)
                if match is not None:
                    matches.append(match)
                    continue
                misses[graph.pattern.name].add(search, value)
                if search.gave_up:  # a pattern that is too large everywhere must not cost the full price each time
                    max_steps[graph] = max(max_steps[graph] // 2, _LEAST_STEPS)
    return Found(tuple(matches), tuple(m for nearest in misses.values() for m in nearest.near_misses()))


class _Nearest:
    """The searches of one pattern that got furthest."""

    def __init__(self) -> None:
        self._searches: list[tuple[Search, ir.Value]] = []

    def add(self, search: Search, value: ir.Value) -> None:
        if search.progress > 0:
            self._searches.append((search, value))
            self._searches.sort(key=lambda entry: -entry[0].progress)
            del self._searches[_MAX_NEAR_MISSES:]

    def near_misses(self) -> list[NearMiss]:
        return [search.near_miss(value) for search, value in self._searches]


def _candidates(module: ir.Module, wants: Callable[[str], bool]) -> list[tuple[str, ir.Operation]]:
    """Each op that some pattern could start at, with the name of its function, in program order."""
    found: list[tuple[str, ir.Operation]] = []
    function = ""

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal function
        name = op.name
        if name.endswith((".func", ".initializer")):
            function = ir.StringAttr(op.attributes["sym_name"]).value if "sym_name" in op.attributes else ""
        elif wants(name) and len(op.results):
            found.append((function, op))
        return ir.WalkResult.SKIP if name.startswith(_OPAQUE_REGIONS) else ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


class _Index:
    """Which graphs can start at an op, by the name of the op that makes the element."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._by_name: dict[str, list[Graph]] = {}
        self._globs: dict[str, list[Graph]] = {}
        for graph in graphs:
            for key in dict.fromkeys(_key(head) for head in heads(graph.results[0].node)):
                table = self._globs if "*" in key else self._by_name
                table.setdefault(key, []).append(graph)
        self._rearranged = [graph for graph in graphs if graph.rearranged]
        self._ranked = {graph: _rank(graph) for graph in graphs if _rank(graph) is not None}

    def wants(self, name: str) -> bool:
        return name.startswith("linalg.") or bool(self._named(name)) or (name == _SPLIT and bool(self._ranked))

    def starting_at(self, op: ir.Operation, number: int) -> list[Graph]:
        name = op.name
        if not name.startswith("linalg."):
            return self._named(name)
        inner = _body_op(op, number)
        found = [*self._exactly(name), *(self._named(inner) if inner else self._rearranged)]
        return list(dict.fromkeys(found))

    def starting_at_split(self, op: ir.Operation) -> list[Graph]:
        """The graphs that want the rank of a split result, where what is split is made with another rank.

        A batch and its heads are often one dim where attention is made, and two where masks for each batch are known.
        """
        made, shape = defining_op(op.operands[0]), shape_of(op.results[0])
        if made is None or shape is None or 1 in shape or made.name == _SPLIT or not self.wants(made.name):
            return []
        number = ir.OpResult(op.operands[0]).result_number
        return [graph for graph in self.starting_at(made, number) if self._ranked.get(graph) == len(shape)]

    def _named(self, name: str) -> list[Graph]:
        """The graphs whose outermost op has the name, or a name that canonical spelling makes of it."""
        found = (graph for each in _names(name) for graph in self._exactly(each))
        return list(dict.fromkeys(found))

    def _exactly(self, name: str) -> list[Graph]:
        globs = [g for key, graphs in self._globs.items() if fnmatch.fnmatchcase(name, key) for g in graphs]
        return [*self._by_name.get(name, []), *globs]


def _rank(graph: Graph) -> int | None:
    """How many dims the first result has, None if any number."""
    labels = graph.results[0].labels
    return None if labels is None or any(label.pack for label in labels) else len(labels)


def _key(node: Any) -> str:
    if isinstance(node, Apply):
        return node.op
    if isinstance(node, Reduce):
        return node.combiner
    return node.op if isinstance(node, Whole) else ""


@lru_cache(maxsize=256)
def _names(name: str) -> tuple[str, ...]:
    """An op's name and the names of what it may be read as."""
    forms = (_ENDS_WITH.get(name, name), *BECOMES.get(name, ()))
    return tuple(dict.fromkeys((name, *forms, *(other for form in forms for other in READ_AS.get(form, ())))))


def _body_op(op: ir.Operation, number: int) -> str | None:
    """The op whose result a structured op yields; for linalg.softmax, the division that it ends with."""
    if op.name in _ENDS_WITH:
        return _ENDS_WITH[op.name]
    if not is_structured(op):
        return None
    body = op.regions[0].blocks[0].operations
    value = body[len(body) - 1].operands[number]
    inner = defining_op(value)
    return None if inner is None else inner.name
