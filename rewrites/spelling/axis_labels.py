"""Labels of contractions, reductions and rearrangements, one for each axis of a tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opsplice.rewrites.spelling.not_exportable import GapError
from opsplice.spec_lang.syntax import tree

# A label, or one of the axes that a pack stands for.
Label = tuple[str, int]
_NAMED = {
    ("mk", "kn", "mn"): "linalg.matmul",
    ("bmk", "bkn", "bmn"): "linalg.batch_matmul",
    ("mk", "k", "m"): "linalg.matvec",
    ("k", "kn", "n"): "linalg.vecmat",
    ("bmk", "bk", "bm"): "linalg.batch_matvec",
    ("k", "k", ""): "linalg.dot",
}


def plain(subscripts: tree.Subscripts) -> list[tuple[str, ...]]:
    """The labels of each operand, where there are no windows."""
    if subscripts.windows:
        raise GapError.at(subscripts.span, "a window", "a template has no sizes for what slides over another")
    return [tuple(label for label in labels if isinstance(label, str)) for labels in subscripts.operands]


def expanded(labels: Sequence[str], sizes: Mapping[str, Sequence[Any]]) -> list[Label]:
    """Labels one for each axis: a pack becomes as many as it has dims."""
    return [(label, i) for label in labels for i in range(len(sizes[label]))]


def named_contraction(operands: Sequence[Sequence[Label]], result: Sequence[Label]) -> str | None:
    """The op that is a contraction of these labels; None where there is none."""
    if len(operands) != 2:
        return None
    left, right = operands
    names: dict[Label, str] = {}
    for label in dict.fromkeys([*left, *right]):
        places = (label in left, label in right, label in result)
        letter = {(True, True, True): "b", (True, False, True): "m", (False, True, True): "n"}.get(places, "k")
        if letter in names.values():
            return None
        names[label] = letter

    def spelled(labels: Sequence[Label]) -> str:
        return "".join(names[label] for label in labels)

    return _NAMED.get((spelled(left), spelled(right), spelled(result)))
