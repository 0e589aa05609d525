"""Labels against names of subscripts and dims of types."""

from __future__ import annotations

from opsplice.matchers.patterns.nodes import Label
from opsplice.spec_lang.dims.pack_places import places
from opsplice.spec_lang.syntax import tree


def match_names(names: tuple[str, ...], labels: tuple[Label, ...]) -> dict[str, tuple[Label, ...]]:
    """Subscript names against labels, position by position; a pack takes what the others leave."""
    at = places((name.startswith("...") for name in names), len(labels))
    return {name: labels[place] for name, place in zip(names, at, strict=True)}


def packs(dims: tuple[tree.Dim, ...], given: tuple[tree.Dim, ...]) -> dict[str, tuple[tree.Dim, ...]]:
    """The dims of an argument that each pack of its parameter's type stands for."""
    at = places((dim.pack is not None for dim in dims), len(given))
    return {dim.pack: given[place] for dim, place in zip(dims, at, strict=False) if dim.pack is not None}


def align(dims: tuple[tree.Dim, ...], labels: tuple[Label, ...]) -> list[tuple[tree.Dim, tuple[Label, ...]]]:
    """Dims of a type with their labels; a pack takes what the others leave. Empty if that cannot be told."""
    at = places((dim.pack is not None for dim in dims), len(labels))
    found = [(dim, labels[place]) for dim, place in zip(dims, at, strict=False)]
    return [] if any(label.pack for dim, group in found if dim.pack is None for label in group) else found
