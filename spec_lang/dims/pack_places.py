"""Which of several dims each of some words stands for, where one of these may be a pack."""

from __future__ import annotations

import itertools
from collections.abc import Iterable


def places(packs: Iterable[bool], count: int) -> list[slice]:
    """The place of each word among `count` dims, where a pack takes what the others leave; none if that cannot be.

    packs: for each word whether it is a pack.
    """
    words = list(packs)
    widths = [count - len(words) + 1 if is_pack else 1 for is_pack in words]
    ends = list(itertools.accumulate(widths))
    fits = min(widths, default=0) >= 0 and sum(widths) == count
    return [slice(end - width, end) for width, end in zip(widths, ends, strict=True)] if fits else []
