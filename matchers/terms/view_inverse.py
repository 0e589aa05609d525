"""Views read backwards: at which indices a view holds an element of what it is a view of."""

from __future__ import annotations

from opsplice.matchers.terms.terms import UNIT, Flat, Index, Loop, Part, Sized, flatten, split


def solved(view: tuple[Index, ...], source: tuple[Index, ...], wanted: tuple[Index, ...]) -> tuple[Index, ...] | None:
    """The indices at which a view holds the element of its source at `wanted`.

    view: the loops of the view, one for each dim, `UNIT` for one of size one; source: the indices of its source, in
    terms of these. None where several elements of the view are that element, or where it cannot be told.
    """
    known: dict[Index, Index] = {}
    pending = list(zip(source, wanted, strict=True))
    parts: dict[tuple[Index, tuple[Sized, ...]], dict[int, Index]] = {}
    while pending:
        index, given = pending.pop()
        if isinstance(index, Flat):
            pending.extend(zip(index.parts, split(given, index.sizes), strict=True))
        elif isinstance(index, Part):
            found = parts.setdefault((index.whole, index.sizes), {})
            if found.setdefault(index.position, given) != given:
                return None
            if len(found) == len(index.sizes):
                found_all = tuple(found[position] for position in range(len(index.sizes)))
                pending.append((index.whole, flatten(found_all, index.sizes)))
        elif index == UNIT or isinstance(index, Loop):
            if known.setdefault(index, given) != given or (index == UNIT) != (given == UNIT):
                return None
        else:
            return None
    if any(index not in known for index in view if index != UNIT):
        return None
    return tuple(UNIT if index == UNIT else known[index] for index in view)
