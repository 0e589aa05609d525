"""All nodes in a node, and a node with some of them changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from opsplice.spec_lang.syntax.tree.spans import Span


def parts(node: object) -> Iterator[Any]:
    """The dataclasses that a node, or several, are made of: each once, outer ones first, without spans."""
    seen: set[int] = set()
    pending: list[Any] = [node]
    while pending:
        part = pending.pop()
        kind = type(part)
        if kind is tuple:
            pending.extend(reversed(part))
        elif kind is not Span and hasattr(kind, "__dataclass_fields__") and id(part) not in seen:
            seen.add(id(part))
            yield part
            pending.extend([getattr(part, name) for name in reversed(kind.__dataclass_fields__)])


def rebuilt(node: Any, change: Callable[[Any], Any]) -> Any:
    """A node, or several, with each dataclass in it as `change` gives it, spans too, the inner ones first."""
    if isinstance(node, tuple):
        return tuple(rebuilt(part, change) for part in node)
    if not dataclasses.is_dataclass(node) or isinstance(node, type):
        return node
    if isinstance(node, Span):
        return change(node)
    return change(type(node)(**{f.name: rebuilt(getattr(node, f.name), change) for f in dataclasses.fields(node)}))
