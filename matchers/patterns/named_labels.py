"""Labels against names of subscripts and dims of types."""

from __future__ import annotations

from opsplice.matchers.patterns.nodes import Label
from opsplice.spec_lang.syntax import tree


def match_names(names: tuple[str, ...], labels: tuple[Label, ...]) -> dict[str, tuple[Label, ...]]:
    """Subscript names against labels, position by position; a pack takes what the others leave."""
    packs = [i for i, n in enumerate(names) if n.startswith("...")]
    if not packs:
        return {n: (label,) for n, label in zip(names, labels, strict=True)}
    at, after = packs[0], len(names) - packs[0] - 1
    stop = len(labels) - after
    found: dict[str, tuple[Label, ...]] = {n: (label,) for n, label in zip(names[:at], labels[:at], strict=True)}
    found[names[at]] = labels[at:stop]
    found.update({n: (label,) for n, label in zip(names[at + 1 :], labels[stop:], strict=True)})
    return found


def align(dims: tuple[tree.Dim, ...], labels: tuple[Label, ...]) -> list[tuple[tree.Dim, tuple[Label, ...]]]:
    """Dims of a type with their labels; a pack takes what the others leave. Empty if that cannot be told."""
    at = next((i for i, d in enumerate(dims) if d.pack is not None), None)
    if at is None:
        singles = len(dims) == len(labels) and not any(la.pack for la in labels)
        return [(d, (la,)) for d, la in zip(dims, labels, strict=True)] if singles else []
    stop = len(labels) - (len(dims) - at - 1)
    if stop < at or any(la.pack for la in (*labels[:at], *labels[stop:])):
        return []
    before = [(d, (la,)) for d, la in zip(dims[:at], labels[:at], strict=True)]
    after = [(d, (la,)) for d, la in zip(dims[at + 1 :], labels[stop:], strict=True)]
    return [*before, (dims[at], labels[at:stop]), *after]
