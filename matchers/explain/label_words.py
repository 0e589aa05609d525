"""The dims of a program as a pattern's labels, where a search stopped."""

from __future__ import annotations

from collections.abc import Mapping

from opsplice.matchers.search.labels import unflattened
from opsplice.matchers.search.tracing import Stop
from opsplice.matchers.terms.terms import UNIT, Index, Sum


def turned_pack(stop: Stop) -> str | None:
    """The name of a pack whose dims are all there, in another order than they were bound in."""
    given = unflattened(stop.given)
    for label in stop.asked:
        bound = unflattened(stop.labels.get(label, ())) if label.pack else ()
        order = tuple(index for index in given if index in bound)
        if order != bound and sorted(map(str, order)) == sorted(map(str, bound)):
            return label.name.removeprefix("...")
    return None


def label_names(stop: Stop) -> list[str]:
    """The pattern's names for the indices that were compared: "?" for one that no label has. A pack is named once."""
    names: dict[Index, str] = {}
    for label, group in stop.labels.items():
        for index in group:
            if index != UNIT:
                names.setdefault(index, f"...{label.name.removeprefix('...')}" if label.pack else label.name)
    for labels, loops in stop.loops:
        free = [la for la in labels if la not in stop.labels]
        left = [loop for loop in loops if loop not in names]
        if len(free) == 1 == len(left):
            names[left[0]] = free[0].name
    found = [_name(index, names) for index in stop.given]
    return [n for i, n in enumerate(found) if not (n.startswith("...") and i and found[i - 1] == n)]


def _name(index: Index, names: Mapping[Index, str]) -> str:
    if index in names or not isinstance(index, Sum):
        return names.get(index, "1" if index == UNIT else "?")
    return f"({' + '.join(_name(part, names) for _, part in index.terms)})"
