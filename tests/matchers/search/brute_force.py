"""An engine without an index or a memory: every graph is tried at every op, and each op is read anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from opsplice.matchers.find.index import OPAQUE_REGIONS, Index
from opsplice.matchers.ir.op_names import function_around
from opsplice.matchers.patterns.nodes import Graph
from opsplice.matchers.search.matches import Match, NearMiss
from opsplice.matchers.search.search import Search
from opsplice.matchers.search.uses import count_of
from opsplice.matchers.terms.ops.reshape_ops import SPLITS
from opsplice.matchers.terms.views import Views


def find(module: ir.Module, graphs: Sequence[Graph]) -> list[Match]:
    """Every match, place by place in program order, and in the order of the graphs."""
    matches = []
    index = Index(graphs)
    for op in _ops(module):
        function = function_around(op)
        for value in _values(op):
            views = Views()
            for graph in index.starting_at_value(value) if op.name in SPLITS else graphs:
                match = Search(views, graph, function).run(value, at_view=index.is_at_view(graph, value))
                if match is not None:
                    matches.append(match)
    return matches


def near_misses(module: ir.Module, graphs: Sequence[Graph], most: int) -> list[NearMiss]:
    """The nearest misses of each pattern, of every graph whose outermost op is at a place."""
    found: dict[str, list[NearMiss]] = {graph.pattern.name: [] for graph in graphs}
    index = Index(graphs)
    for op in _ops(module):
        function = function_around(op)
        for value in _values(op):
            views = Views()
            for graph in index.starting_at_value(value):
                search = Search(views, graph, function)
                if search.run(value, at_view=index.is_at_view(graph, value)) is None and search.progress > 0:
                    found[graph.pattern.name].append(search.near_miss(value))
    nearest = (sorted(misses, key=lambda miss: -miss.progress)[:most] for misses in found.values())
    return [miss for misses in nearest for miss in misses]


def _values(op: ir.Operation) -> list[ir.Value]:
    """The results of an op at which patterns are found: not those of several, behind the first, that nothing uses."""
    return [value for value in op.results if not value.result_number or count_of(value)]


def facts(match: Match) -> dict[str, Any]:
    """All that a match says."""
    return {name: getattr(match, name) for name in Match.__dataclass_fields__}


def _ops(module: ir.Module) -> list[ir.Operation]:
    """Every op that makes something, outside of the bodies of others, in program order."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if len(op.results):
            found.append(op)
        return ir.WalkResult.SKIP if op.name.startswith(OPAQUE_REGIONS) else ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found
