"""Sizes of dims as numbers, and what the compiler makes of weights in bytes, as far as the planner knows them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from opsplice.matchers.search import matches, uses
from opsplice.matchers.search.matches import Size
from opsplice.matchers.terms.views import Views
from opsplice.rewrites.plan.actions import SumSize, Written
from opsplice.spec_lang.dims import judge
from opsplice.spec_lang.syntax import vocabulary

# By how many bytes constants may grow that IREE computes from others when it compiles. Its own limit is 1 MB; weights
# of groups of 24 channels that are filled up to 32 pass it.
MOST_GROWTH = 8 << 20


def numbers(views: Views, size: Size | tuple[Size, ...]) -> judge.Known | tuple[judge.Known, ...]:
    """Sizes as numbers, or as what the program assumes of them; None for what a kernel's dims say."""
    return None if isinstance(size, SumSize) else matches.numbers(views, size)


def product(size: Size | tuple[Size | None, ...] | None) -> int | None:
    """A size as one number; None if some of it is only known at run time."""
    parts = size if isinstance(size, tuple) else (size,)
    known = [p for p in parts if isinstance(p, int)]
    return math.prod(known) if len(known) == len(parts) else None


def growth(code: Written) -> float:
    """How many bytes more the compiler makes than the weights have that it makes them from; 0 if from others, too."""
    weights = set[ir.Value]()
    for argument in code.arguments:
        value = argument.binding.value
        found = None if value is None else uses.weights_of(value)
        if found is None:
            return 0
        weights |= found
    kinds = [ir.RankedTensorType(value.type) for value in weights if isinstance(value.type, ir.RankedTensorType)]
    if (
        not weights
        or not all(kind.has_static_shape for kind in kinds)
        or not all(isinstance(size, int) for size in code.sizes)
    ):
        return 0
    held = [(tuple(kind.shape), str(kind.element_type)) for kind in kinds]
    made = (code.sizes, code.element)
    return _bytes(*made) - sum(_bytes(*each) for each in held)


def known_unequal(left: Size | tuple[Size, ...], right: Size | tuple[Size, ...]) -> bool:
    """Whether two sizes are known to differ."""
    first, second = product(left), product(right)
    return first is not None and second is not None and first != second


def _bytes(sizes: Sequence[Size], element: str) -> float:
    return (product(tuple(sizes)) or 0) * (vocabulary.bits(element) or 0) / 8
