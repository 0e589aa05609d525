"""Dims that a pattern says are equal: a matcher compares no sizes, so ops of the template must make them so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iree.compiler import ir

from opsplice.matchers.capture.equal_axes import join_alike
from opsplice.matchers.capture.expressions import Axes
from opsplice.matchers.terms.terms import Index, Loop
from opsplice.matchers.terms.views import Views
from opsplice.rewrites.spelling.not_exportable import GapError
from opsplice.rewrites.spelling.spelled_template import Instance
from opsplice.spec_lang.syntax import tree


def check(parameters: Sequence[tree.Parameter], instance: Instance, function: ir.Operation) -> None:
    """Raise GapError for a dim of unknown size that inputs share although no op of the template makes them do so.

    function: the template, the parameters that it reads first among its arguments.
    """
    views, axes = Views(), Axes()
    block = function.regions[0].blocks[0]
    for op in block.operations:
        join_alike(op.operation, views.whole, axes)
    known: dict[tuple[str, int], Index] = {}
    for parameter, value in zip(parameters, block.arguments, strict=False):
        for dim, axis in zip(_names(parameter.type, instance.packs), views.whole(value).indices, strict=True):
            if dim is None or not isinstance(axis, Loop) or axis.size is not None:
                continue
            other = known.setdefault(dim, axis)
            if isinstance(other, Loop) and axes.dim(other) != axes.dim(axis):
                why = "inputs share it although no op makes their sizes equal, and a matcher compares no sizes"
                raise GapError.at(parameter.span, f"the dim `{dim[0]}`", why)


def _names(kind: tree.Type, packs: Mapping[str, int]) -> list[tuple[str, int] | None]:
    """The dims of a tensor one by one: a pack's by their numbers, None for one without a name."""
    found: list[tuple[str, int] | None] = []
    for dim in kind.dims:
        count = packs[dim.pack] if dim.pack is not None else 1
        found += [None if dim.name is None else (dim.name, number) for number in range(count)]
    return found
