"""Walks over the nodes of pattern graphs, whatever kinds of nodes there are."""

from __future__ import annotations

from typing import Any

from opsplice.matchers.graph import Input, Label, Number, Result
from opsplice.matchers.terms import Apply, Loop

_NODE_MODULES = (Input.__module__, Apply.__module__)


def nodes_below(nodes: list[Any]) -> list[Any]:
    """Nodes of a pattern and all that they are made of, each once, outer ones first."""
    found: dict[int, Any] = {}
    pending = nodes[::-1]
    while pending:
        node = pending.pop()
        if id(node) not in found:
            found[id(node)] = node
            pending.extend(reversed(children_of(node)))
    return list(found.values())


def children_of(node: Any) -> list[Any]:
    """The nodes that a node is made of, whatever its kind."""
    if not hasattr(node, "__dataclass_fields__") or isinstance(node, Number):
        return []
    found: list[Any] = []
    pending: list[Any] = [getattr(node, name) for name in node.__dataclass_fields__]
    while pending:
        thing = pending.pop(0)
        if isinstance(thing, (tuple, list)):
            pending[:0] = thing
        elif isinstance(thing, Result):
            pending.insert(0, thing.node)
        elif type(thing).__module__ in _NODE_MODULES and not isinstance(thing, (Label, Loop)):
            found.append(thing)
    return found
