"""What is said of a choice between nodes, said of each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opsplice.matchers.patterns.nodes import Choice, Node, Setting


def within(arg: Node, apply: Callable[[Node], Node], keep: Callable[[Any, Callable[[], Node]], Node]) -> Node | None:
    """`f(x | y)` as `f(x) | f(y)`, the same choice; None for what is no choice.

    apply: f. keep: has one object for all nodes of one key.
    """

    def inner(node: Node) -> Node:
        return within(node, apply, keep) or apply(node)

    if isinstance(arg, Choice):
        options, number = tuple(map(inner, arg.options)), arg.number
        return keep(("choice", number, *map(id, options)), lambda: Choice(options, number))
    if isinstance(arg, Setting):
        node, target, value = inner(arg.node), arg.target, arg.value
        return keep(("setting", id(node), id(target), value), lambda: Setting(node, target, value))
    return None
