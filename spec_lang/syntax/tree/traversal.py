"""All nodes in a node, and a node with some of them changed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from opsplice.spec_lang.syntax.tree.spans import Span

_Node = TypeVar("_Node")


def parts(node: object) -> Iterator[Any]:
    """The dataclasses that a node, or several, are made of: each once, outer ones first, without spans."""
    seen: set[int] = set()
    pending: list[Any] = [node]
    while pending:
        part = pending.pop()
        kind: Any = type(part)
        if kind is tuple:
            pending.extend(reversed(part))
        elif (names := _fields_of(kind)) is not None and id(part) not in seen:
            seen.add(id(part))
            yield part
            pending.extend([getattr(part, name) for name in names])


@functools.cache
def _fields_of(kind: type) -> tuple[str, ...] | None:
    """The fields of a dataclass, the last one first; None for a span and for what is no dataclass."""
    is_part = kind is not Span and dataclasses.is_dataclass(kind)
    return tuple(each.name for each in reversed(dataclasses.fields(kind))) if is_part else None


def rebuilt(node: _Node, change: Callable[[Any], Any]) -> _Node:
    """A node, or several, with each dataclass in it as `change` gives it, spans too, the inner ones first."""
    made: Any = node
    if isinstance(node, tuple):
        made = tuple(rebuilt(part, change) for part in node)
    elif isinstance(node, Span):
        made = change(node)
    elif dataclasses.is_dataclass(node) and not isinstance(node, type):
        fields = {f.name: rebuilt(getattr(node, f.name), change) for f in dataclasses.fields(node)}
        made = change(type(node)(**fields))
    return cast("_Node", made)
