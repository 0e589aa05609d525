"""What can be reached from some things, going from each to those that follow it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def reachable(start: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> Iterator[Node]:
    """All of `start` and what follows it, near or far, each once. following: asked once of each, when the next is."""
    pending, seen = list(start), set[Node]()
    while pending:
        at = pending.pop()
        if at not in seen:
            seen.add(at)
            yield at
            pending += following(at)
