"""Labels against names of subscripts and dims of types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opsplice.matchers.patterns.nodes import Label, Window
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


def bind(
    subscripts: tree.Subscripts,
    labels: tuple[Label, ...],
    fresh: Callable[[str, bool, bool], Label],
    dims: Mapping[str, str],
) -> tuple[list[tuple[Label, ...]], tuple[Label, ...]]:
    """The labels of each operand when the result is looked at under `labels`, and the new ones among them.

    fresh: makes a label of a name, a pack or not, windowed or not. dims: the graph's names for factors of windows.
    """
    named = match_names(subscripts.result, labels)
    new: list[Label] = []
    bound = []
    windowed = {label for window in subscripts.windows if not _is_merged(window) for _, label in window.terms}

    def labelled(name: str) -> tuple[Label, ...]:
        if name not in named:
            label = fresh(name.removeprefix("..."), name.startswith("..."), name in windowed)
            named[name] = (label,)
            new.append(label)
        return named[name]

    for operand in subscripts.operands:
        at: list[Any] = []
        for name in operand:
            if isinstance(name, tree.Window):
                terms = ((dims[f] if isinstance(f, str) else f, labelled(la)[0]) for f, la in name.terms)
                at.append(Window(tuple(terms), _is_merged(name)))
            else:
                at.extend(labelled(name))
        bound.append(tuple(at))
    return bound, tuple(new)


def _is_merged(window: tree.Window) -> bool:
    """Whether it steps by the size of one of its own dims: `(c*g + c)`."""
    return any(factor == label for factor, _ in window.terms for _, label in window.terms)
