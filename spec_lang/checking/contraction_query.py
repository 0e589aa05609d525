"""What `contracts("m 32, k ?")` asks: how many dims of a kind a contraction has, and their sizes."""

from __future__ import annotations

from collections.abc import Mapping

# Batch dims, those that only one factor has beside the result, and those that are summed over.
KINDS = ("b", "m", "n", "k")


def asked_sizes(text: str) -> Mapping[str, tuple[int | None, ...]]:
    """The sizes that are asked for, by the kind of dim; None for any size. Raises ValueError with what is wrong."""
    found: dict[str, tuple[int | None, ...]] = {}
    for part in text.split(",") if text.strip() else ():
        kind, *sizes = part.split() or [""]
        if kind not in KINDS or kind in found:
            raise ValueError(f"each of {', '.join(KINDS)} comes once at most, not {kind or 'nothing'}")
        wrong = next((size for size in sizes if size != "?" and not size.isdecimal()), None)
        if wrong is not None:
            raise ValueError(f"a size is a number or ?, not {wrong}")
        found[kind] = tuple(None if size == "?" else int(size) for size in sizes)
    return found


def written(sizes: Mapping[str, tuple[int | None, ...]]) -> str:
    """The text that asks for sizes."""
    return ", ".join(" ".join([kind, *("?" if size is None else str(size) for size in sizes[kind])]) for kind in sizes)
