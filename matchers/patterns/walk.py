"""Walks over the nodes of pattern graphs, whatever kinds of nodes there are."""

from __future__ import annotations

from typing import Any, get_args
from weakref import WeakKeyDictionary

from opsplice.matchers.patterns.graph import Graph, Input, Node, Number, Result, Whole
from opsplice.matchers.terms.terms import Apply, Reduce

_NODES = get_args(Node)
# The nodes that are judged themselves; any other stands for what it is made of.
_JUDGED = (Apply, Reduce, Whole, Number, Input)


_OF_GRAPHS: WeakKeyDictionary[Graph, tuple[Any, ...]] = WeakKeyDictionary()


def nodes_of(graph: Graph) -> tuple[Any, ...]:
    """The nodes of all results of a graph, each once, outer ones first."""
    if graph not in _OF_GRAPHS:
        _OF_GRAPHS[graph] = tuple(nodes_below([result.node for result in graph.results]))
    return _OF_GRAPHS[graph]


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
        elif isinstance(thing, _NODES):
            found.append(thing)
    return found


def is_judged(node: Any) -> bool:
    """Whether a node holds or fails by itself, and does not only stand for what it is made of."""
    return isinstance(node, _JUDGED)


def heads(node: Any) -> list[Any]:
    """The judged nodes that a payload may begin with where it begins with this one."""
    return [node] if is_judged(node) else [head for child in children_of(node) for head in heads(child)]
