"""An engine without an index or a memory: every graph is tried at every op, each time anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from opsplice.matchers.graph import Graph
from opsplice.matchers.index import candidates
from opsplice.matchers.match import Match
from opsplice.matchers.search import Search
from opsplice.matchers.views import Views


def find(module: ir.Module, graphs: Sequence[Graph]) -> list[Match]:
    """Every match, place by place in program order, and in the order of the graphs."""
    matches = []
    for function, value in candidates(module, None):
        for graph in graphs:
            match = Search(Views(), graph, function).run(value)
            if match is not None:
                matches.append(match)
    return matches


def facts(match: Match) -> dict[str, Any]:
    """All that a match says."""
    return {name: getattr(match, name) for name in Match.__dataclass_fields__}
