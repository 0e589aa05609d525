"""What is known of one pattern's graph alone: its ops and numbers, sizes, element types, and labels that are free."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from opsplice.matchers.patterns.nodes import Asked, Form, Graph, Input, Label, Node, Number, Whole, Within
from opsplice.matchers.patterns.walk import children_of, nodes_of
from opsplice.matchers.terms.canonical import WIDTHS
from opsplice.matchers.terms.ops.bands import BAND
from opsplice.matchers.terms.terms import Apply, Reduce
from opsplice.spec_lang.dims import dim_conditions
from opsplice.spec_lang.syntax import tree, vocabulary

Group = tuple[Label, ...]


def is_understood(graph: Graph) -> bool:
    """Whether a graph is made of what is understood here. Nothing may be claimed of others."""
    if graph.through - {"cast"} or graph.factors:
        return False
    if graph.through and any(isinstance(node, Apply) and node.op in WIDTHS for node in nodes_of(graph)):
        return False
    for node in nodes_of(graph):
        if not isinstance(node, (Input, Number, Whole, Apply, Reduce)) or (isinstance(node, Apply) and node.op == BAND):
            return False
        if isinstance(node, Whole) and (
            node.rest or node.regions or node.body or "*" in node.op or any(map(_is_open, node.attributes))
        ):
            return False
        if isinstance(node, Input) and any(not isinstance(la, Label) or la.windowed for la in node.labels):
            return False
    return True


def _is_open(attribute: tree.Attribute) -> bool:
    return attribute.value is None or bool(attribute.variables)


def key(node: Node) -> str:
    """What two nodes have in common if they are ever to hold at one value; "" for what may be anything."""
    if isinstance(node, Apply):
        return node.op
    if isinstance(node, Reduce):
        return f"reduce {node.combiner}"
    return node.op if isinstance(node, Whole) else ""


def facts(graph: Graph) -> list[tree.Condition]:
    """What holds of the dims of every match: the conditions, and what written types say to be one size."""
    found = [condition for condition in graph.conditions if not isinstance(condition, (Asked, Form, Within))]
    sizes = Sizes(graph)
    for group, written in sizes.written.items():
        first, *others = written
        found += [dim_conditions.equality(first, other) for other in others]
        if len(group) != 1 and all((label,) in sizes.written for label in group):
            found.append(dim_conditions.equality(first, sizes.of(group)))
    return found


def ops_and_numbers(graph: Graph) -> frozenset[str | float]:
    """The ops and numbers of a graph, to tell at a glance that it cannot hold where another does."""
    if graph not in _known_parts:
        numbers = (node for node in nodes_of(graph) if isinstance(node, Number) and node.high is None)
        literals = (_value(number.low) for number in numbers)
        found = {*(key(node) for node in nodes_of(graph)), *(n for n in literals if n is not None)}
        _known_parts[graph] = frozenset(found - {""})
    return _known_parts[graph]


_known_parts: WeakKeyDictionary[Graph, frozenset[str | float]] = WeakKeyDictionary()


class Sizes:
    """The sizes that a graph's labels have, as its ties write them."""

    def __init__(self, graph: Graph) -> None:
        self.span = graph.pattern.span
        self.written: dict[Group, list[tree.DimExpr]] = {}
        for tie in graph.ties:
            size = tree.Literal(self.span, tie.size) if isinstance(tie.size, int) else tree.DimRef(self.span, tie.size)
            self.written.setdefault(tie.labels, []).append(size)

    def of(self, group: Group) -> tree.DimExpr:
        """The product of labels' sizes; the size of a label that has none written is a name that no dim has."""
        if group in self.written:
            return self.written[group][0]
        sizes = (self.written.get((label,), [tree.DimRef(self.span, f"#{label.id}")])[0] for label in group)
        return dim_conditions.product(self.span, sizes)


def free_labels(node: Node) -> list[Label]:
    """The labels that a node depends on, in the order in which they are met."""
    return list(_free_below(node, {}))


def _free_below(node: Node, known: dict[int, dict[Label, None]]) -> dict[Label, None]:
    if id(node) not in known:
        if isinstance(node, (Input, Whole)):
            found = dict.fromkeys(node.labels)
        else:
            found = {label: None for child in children_of(node) for label in _free_below(child, known)}
        bound = node.loops if isinstance(node, Reduce) else ()
        known[id(node)] = {label: None for label in found if label not in bound}
    return known[id(node)]


def type_name(node: Apply[Node] | Whole) -> str:
    return node.type if isinstance(node, Apply) else node.element


def possible_types(element: str, graph: Graph) -> frozenset[str] | None:
    """The element types that a name may be, None for any."""
    if element in graph.variables:
        return frozenset(graph.variables[element]) or None
    return frozenset({element}) if vocabulary.is_element(element) else None


def number_range(number: Number) -> tuple[float, float] | None:
    """From where to where a constant may be, None where that depends on dims."""
    low = _value(number.low)
    high = low if number.high is None else _value(number.high)
    return None if low is None or high is None else (low, high)


def _value(expr: Any) -> int | float | None:
    return expr.value if isinstance(expr, tree.Literal) else None
