"""Walks over pattern graphs by the fields of their dataclasses, whatever kinds of nodes there are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar, get_args, get_origin

from opsplice.matchers.patterns.nodes import (
    Choice,
    Graph,
    Input,
    Label,
    Named,
    Node,
    Number,
    Product,
    Result,
    Setting,
    Tie,
    Whole,
    Window,
)
from opsplice.matchers.terms.terms import Apply, Reduce
from opsplice.spec_lang.syntax import tree

# The classes of nodes.
KINDS = tuple(get_origin(kind) or kind for kind in get_args(Node))
# The nodes that are judged themselves; any other stands for what it is made of.
_JUDGED = (Apply, Reduce, Whole, Number, Input)


_T = TypeVar("_T")


def _once(read: Callable[[Graph], _T]) -> Callable[[Graph], _T]:
    """Remember what is read of a graph, beside its fields."""
    name = f"_{read.__name__}"

    @wraps(read)
    def reading(graph: Graph) -> _T:
        known: dict[str, _T] = graph.__dict__
        if name not in known:
            known[name] = read(graph)
        return known[name]

    return reading


@_once
def nodes_of(graph: Graph) -> tuple[Node, ...]:
    """The nodes of all results of a graph, each once, outer ones first."""
    return tuple(nodes_below([result.node for result in graph.results]))


@_once
def only_reduces(graph: Graph) -> bool:
    """Whether the pattern reduces dims, and contracts none.

    Only then the places of a result's dims of size one say nothing, and neighbouring dims may be one of the pattern's.
    """
    nodes = nodes_of(graph)
    return any(type(node) is Reduce for node in nodes) and not any(isinstance(node, Product) for node in nodes)


@_once
def has_windows(graph: Graph) -> bool:
    """Whether the pattern reads anything in windows."""
    return bool(_sums(graph))


@_once
def _sums(graph: Graph) -> tuple[Window, ...]:
    nodes = (node for node in nodes_of(graph) if isinstance(node, (Input, Whole)))
    return tuple(label for node in nodes for label in node.labels if isinstance(label, Window))


@_once
def places(graph: Graph) -> tuple[Window, ...]:
    """Where the pattern reads images in windows."""
    return tuple(each for each in _sums(graph) if not each.merged)


@_once
def merges_dims(graph: Graph) -> bool:
    """Whether the pattern reads several of its dims as one, such as a channel of a group."""
    return any(each.merged for each in _sums(graph))


@_once
def sums_windows(graph: Graph) -> bool:
    """Whether the pattern reduces over the places of windows alone: what has none of these is another op."""
    loops = [label for node in nodes_of(graph) if isinstance(node, Reduce) for label in node.loops]
    return bool(loops) and all(label.windowed for label in loops)


@_once
def told_apart(graph: Graph) -> Mapping[Label, tuple[frozenset[int], frozenset[int]]]:
    """What tells labels apart: where values are read at them, and where at others that are the same dims of inputs."""
    at: dict[Any, set[int]] = {}
    dims: dict[Label, list[tuple[str, int]]] = {}
    for node in (node for node in nodes_of(graph) if isinstance(node, Input)):
        for place, label in enumerate(node.labels):
            if isinstance(label, Label):
                dims.setdefault(label, []).append((node.name, place))
                at.setdefault(label, set()).add(id(node))
    for label, own in dims.items():
        for dim in own:
            at.setdefault(dim, set()).update(at[label])
    return {label: (frozenset(at[label]), frozenset(i for dim in own for i in at[dim])) for label, own in dims.items()}


@_once
def kept_by_reductions(graph: Graph) -> tuple[frozenset[Label], ...]:
    """The labels of the first result that each reduction keeps."""
    labels = frozenset(graph.results[0].labels)
    reductions = (node for node in nodes_of(graph) if isinstance(node, Reduce))
    return tuple(labels.intersection(tree.parts(node.body)) for node in reductions)


@_once
def ops_above_reductions(graph: Graph) -> int:
    """How many ops are at most above the nearest reduction of the first result; 0 if it has none."""
    found = _ops_above(graph.results[0].node)
    return found or 0


def _ops_above(node: Node) -> int | None:
    if isinstance(node, Reduce):
        return 0
    parts = children_of(node)[:1] if isinstance(node, Setting) else children_of(node)
    counts = [count for part in parts if (count := _ops_above(part)) is not None]
    if not counts:
        return None
    return max(counts) if isinstance(node, Choice) else min(counts) + isinstance(node, Apply)


@_once
def least_rank(graph: Graph) -> int:
    """How many dims the first result of a graph has at least: those of the image that a convolution reads."""
    inputs = (node for node in nodes_of(graph) if isinstance(node, Input))
    images = [len(node.labels) for node in inputs if any(isinstance(label, Window) for label in node.labels)]
    return min(len(graph.results[0].labels), *images) if graph.factors else 0


@_once
def endings(graph: Graph) -> tuple[Node, ...]:
    """The nodes that a pattern may end with: those that make its first result."""
    return tuple(heads(graph.results[0].node))


@_once
def ties_of(graph: Graph) -> tuple[tuple[Tie, ...], tuple[Tie, ...]]:
    """What a graph says of sizes: of parts that are read, and of ops by their names."""
    others = tuple(tie for tie in graph.ties if not isinstance(tie.node, Whole))
    return others, tuple(tie for tie in graph.ties if isinstance(tie.node, Whole))


@_once
def most_along(graph: Graph) -> Mapping[Input, float]:
    """Along how many dims of the first result each input is read at most, whatever their order: each of its labels
    there is one dim, but of a pack, and where the program reduces several together."""
    found: dict[Input, float] = {}
    for node in (node for node in nodes_of(graph) if isinstance(node, Input)):
        own = set(graph.results[0].labels).intersection(tree.parts(node.labels))
        found[node] = math.inf if only_reduces(graph) or any(label.pack for label in own) else len(own)
    return found


@_once
def names_in(graph: Graph) -> frozenset[str]:
    """The names that conditions have for nodes of a graph's results."""
    return frozenset(node.name for node in nodes_of(graph) if isinstance(node, Named))


def nodes_below(nodes: Iterable[Node]) -> list[Node]:
    """Nodes of a pattern and all that they are made of, each once, outer ones first."""
    return [part for part in tree.parts(tuple(nodes)) if isinstance(part, KINDS)]


def parts_of(graph: Graph) -> list[Any]:
    """All that a graph is made of: nodes, labels, ties, conditions and dim arithmetic, each once."""
    return list(tree.parts(tuple(getattr(graph, name) for name in graph.__dataclass_fields__ if name != "pattern")))


def children_of(node: Node) -> list[Node]:
    """The nodes that a node is made of, whatever its kind."""
    if not hasattr(node, "__dataclass_fields__") or isinstance(node, Number):
        return []
    found: list[Node] = []
    pending: list[Any] = [getattr(node, name) for name in node.__dataclass_fields__]
    while pending:
        thing = pending.pop(0)
        if isinstance(thing, (tuple, list)):
            pending[:0] = thing
        elif isinstance(thing, Result):
            pending.insert(0, thing.node)
        elif isinstance(thing, KINDS):
            found.append(thing)
    return found


def is_judged(node: Node) -> bool:
    """Whether a node holds or fails by itself, and does not only stand for what it is made of."""
    return isinstance(node, _JUDGED)


def heads(node: Node) -> list[Node]:
    """The nodes that a payload may begin with where it begins with this one: behind choices and names."""
    children = [] if is_judged(node) else children_of(node)
    children = children[:1] if isinstance(node, Setting) else children
    return [head for child in children for head in heads(child)] or [node]
