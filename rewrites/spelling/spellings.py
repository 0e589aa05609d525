"""The spellings that a pattern is exported in: which ops a program may have written the same computation with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Spelling:
    """How a pattern becomes ops.

    elementwise: ops on whole tensors, one `linalg.generic` for each op, or one for as many as fit (`fused`).
    constants:   of ops on tensors: filled, splatted (dynamic dims), or dense (static dims).
    views:       whether broadcasts and transposes are ops of their own, or indexing maps of their users.
    transposes:  the op for a transpose that is an op of its own.
    named:       whether contractions are named ops, where there is one.
    accumulator: whether the bodies of reductions have the running value first.
    extrema:     whether a maximum or minimum of floats is an op, or a comparison and a choice.
    reductions:  the op for a reduction.
    """

    name: str
    elementwise: Literal["tensor", "generic", "fused"]
    views: Literal["ops", "maps"]
    accumulator: bool
    constants: Literal["fill", "splat", "dense"] = "fill"
    transposes: Literal["generic", "linalg.transpose"] = "generic"
    named: bool = True
    extrema: Literal["op", "select"] = "op"
    reductions: Literal["generic", "linalg.reduce"] = "generic"


_TENSORS = Spelling("ops on tensors", "tensor", "ops", accumulator=True)
_REDUCE = replace(_TENSORS, name="ops on tensors, linalg.reduce", reductions="linalg.reduce")
_TORCH = Spelling(
    "one generic for each op, as from Torch", "generic", "maps", accumulator=False, transposes="linalg.transpose"
)
_BASE = (
    _TENSORS,
    replace(_TENSORS, name="ops on tensors, running values second", accumulator=False),
    _REDUCE,
    replace(_REDUCE, name="ops on tensors, linalg.reduce, running values second", accumulator=False),
    replace(_TENSORS, name="ops on tensors, splats", constants="splat"),
    replace(_TENSORS, name="ops on tensors, dense constants", constants="dense"),
    Spelling("one generic for each op, as from StableHLO", "generic", "ops", accumulator=True),
    _TORCH,
    replace(_TORCH, name=f"{_TORCH.name}, maxima as choices", extrema="select"),
    Spelling("fused generics", "fused", "maps", accumulator=False),
)


def spellings() -> Iterator[Spelling]:
    """Every spelling; those that come to the same text for a pattern are to be taken once."""
    yield from _BASE
    for spelling in _BASE:
        yield replace(spelling, name=f"{spelling.name}, contractions as generics", named=False)
