"""The engine: find every place where a pattern holds, and change nothing.

The module is walked once. An index on the outermost op picks the patterns that could start at an op;
`matchers.search` then tries each of them there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from iree.compiler import ir

from opsplice.matchers.canonical import STARTS
from opsplice.matchers.graph import Graph, Whole
from opsplice.matchers.match import Found, Match, NearMiss
from opsplice.matchers.search import Search
from opsplice.matchers.terms import Apply, Reduce
from opsplice.matchers.views import Views, defining_op, is_structured

# Ops whose regions are other programs, or scalar code that belongs to the op itself.
_OPAQUE_REGIONS = ("linalg.", "iree_linalg_ext.", "flow.dispatch", "flow.executable", "stream.executable", "hal.")
_MAX_NEAR_MISSES = 5


def find(module: ir.Module, graphs: Sequence[Graph]) -> Found:
    """Every match of every graph in the module, in program order, with the nearest misses of each pattern.

    Matches of different graphs may overlap; settling that is the planner's work.
    """
    index = _Index(graphs)
    views = Views()
    matches: list[Match] = []
    misses: dict[str, list[NearMiss]] = {}
    for function, op in _candidates(module, index.wants):
        for number, value in enumerate(op.results):
            for graph in index.starting_at(op, number):
                outcome = Search(views, graph, function).run(value)
                if isinstance(outcome, Match):
                    matches.append(outcome)
                elif outcome is not None:
                    misses.setdefault(outcome.pattern, []).append(outcome)
    nearest = [m for found in misses.values() for m in _nearest(found)]
    return Found(tuple(matches), tuple(nearest))


def _nearest(misses: list[NearMiss]) -> list[NearMiss]:
    return sorted(misses, key=lambda m: -m.progress)[:_MAX_NEAR_MISSES]


def _candidates(module: ir.Module, wants: Callable[[str], bool]) -> list[tuple[str, ir.Operation]]:
    """Each op that some pattern could start at, with the name of its function, in program order."""
    found: list[tuple[str, ir.Operation]] = []
    function = ""

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal function
        name = op.name
        if name.endswith(".func"):
            function = ir.StringAttr(op.attributes["sym_name"]).value
        elif wants(name) and len(op.results):
            found.append((function, op))
        return ir.WalkResult.SKIP if name.startswith(_OPAQUE_REGIONS) else ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


class _Index:
    """Which graphs can start at an op, by the name of the op that makes the element."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._by_name: dict[str, list[Graph]] = {}
        for graph in graphs:
            self._by_name.setdefault(_key(graph.results[0].node), []).append(graph)

    def wants(self, name: str) -> bool:
        return name.startswith("linalg.") or name in self._by_name or name in STARTS

    def starting_at(self, op: ir.Operation, number: int) -> list[Graph]:
        name = op.name
        found = self._by_name.get(name, [])
        inner = _body_op(op, number) if name.startswith("linalg.") else name
        if inner is None:
            return found
        if inner in STARTS:
            return [*found, *(g for gs in self._by_name.values() for g in gs if g not in found)]
        return [*found, *self._by_name.get(inner, [])] if inner != name else found


def _key(node: Any) -> str:
    if isinstance(node, Apply):
        return node.op
    if isinstance(node, Reduce):
        return node.combiner
    return node.op if isinstance(node, Whole) else ""


def _body_op(op: ir.Operation, number: int) -> str | None:
    """The op whose result a structured op yields; for linalg.softmax, the division that it ends with."""
    if op.name == "linalg.softmax":
        return "arith.divf"
    if not is_structured(op):
        return None
    body = op.regions[0].blocks[0].operations
    value = body[len(body) - 1].operands[number]
    inner = defining_op(value)
    return None if inner is None else inner.name
