"""Reshapes that IREE 3.13 gets wrong in the Torch dialect, which graphs of PyTorch and ONNX become."""

from __future__ import annotations

import math
from collections.abc import Sequence


def is_misread(given: Sequence[int | None], wanted: Sequence[int | None]) -> bool:
    """Whether IREE misreads a reshape between these sizes, None for those that are not fixed.

    Of `?x?x2x16` to `?x32` it takes the two first dims to be the same, so the others have to hold 32 elements, and the
    second one is 1. Through one dim, both halves are clear.
    """
    if None not in given or wanted.count(None) != 1:
        return False
    first = given.index(None)
    if given.count(None) == 1 and given[: first + 1] == wanted[: first + 1] and _fixed(given) == _fixed(wanted):
        return False
    same = 0
    for one, other in zip(reversed(given), reversed(wanted), strict=False):
        if one is None or one != other:
            break
        same += 1
    return min(len(given), len(wanted)) - same > 1


def _fixed(sizes: Sequence[int | None]) -> int:
    """How many elements the fixed sizes come to."""
    return math.prod(size for size in sizes if size is not None)
