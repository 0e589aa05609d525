"""Leading dims that a captured computation only carries along, as a pack: one axis for any number of them.

They are those that come first, all of them in the same order, wherever one of them comes at all, and that nothing sums
over. Where there are none but those of size one, as of a batch of one, the pack stands for these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from opsplice.matchers.capture.expressions import (
    Arrange,
    Band,
    Captured,
    Contraction,
    Elementwise,
    Input,
    Label,
    Number,
    Opaque,
    Part,
    Reduction,
    Stack,
    Taken,
    loops_of,
    rebuilt,
    walk,
)
from opsplice.matchers.ir.tensor_values import shape_of
from opsplice.matchers.terms.terms import Loop, Sum

# Axes that stand for packs are told apart from loops by numbers that no loop has.
_PACK = Loop(-1, None)


def packed(captured: Captured, roots: Sequence[ir.Value]) -> Captured | None:
    """The same with a pack in place of as many leading dims as can be; None where there are none.

    roots: the values that are the results.
    """
    batches = frozenset(part for part in captured.inputs if _begins_with_one(part.value)) if _are_batches(roots) else ()
    leading = captured.results[0].axes
    for count in range(len(leading), 0, -1):
        dims = tuple(captured.axes.dim(axis) for axis in leading[:count])
        carriers = [part for part in captured.inputs if _dims(captured, part.axes)[:count] == dims]
        in_batch = not batches or not batches.isdisjoint(carriers)
        if carriers and in_batch and len(set(dims)) == count and _only_carried(captured, dims):
            return _repacked(captured, dims)
    if not batches or any(isinstance(part, (Band, Opaque)) for part in walk(captured.results)):
        return None
    return _batch(captured, batches)


def _begins_with_one(value: ir.Value) -> bool:
    return (shape_of(value) or (None,))[0] == 1


def _are_batches(roots: Sequence[ir.Value]) -> bool:
    return all(map(_begins_with_one, roots))


def _only_carried(captured: Captured, dims: tuple[Loop, ...]) -> bool:
    for part in walk(captured.results):
        if isinstance(part, Number):
            if set(_dims(captured, part.of)) & set(dims):
                return False
            continue
        if isinstance(part, Opaque):
            return False  # its name says nothing of other ranks
        if isinstance(part, Band) and set(_dims(captured, part.axes)) & set(dims):
            return False  # it is of just two dims
        if isinstance(part, Stack) and set(_dims(captured, (part.along,))) & set(dims):
            return False  # it has a part for each place of it
        for axes in (*part.labels, part.axes):
            found = _dims(captured, axes)
            if set(_dims(captured, tuple(loops_of(axes)))) & set(dims) - set(found):
                return False  # in a window
            if any(isinstance(label, Sum) for label in axes) and found[: len(dims)] != dims:
                return False  # only the other operand has it
            if set(found) & set(dims) and (found[: len(dims)] != dims or set(found[len(dims) :]) & set(dims)):
                return False
        if isinstance(part, (Reduction, Contraction, Taken)) and set(_dims(captured, part.summed)) & set(dims):
            return False
    return True


def _dims(captured: Captured, labels: tuple[Label, ...]) -> tuple[Label, ...]:
    return tuple(captured.axes.dim(label) if isinstance(label, Loop) else label for label in labels)


def _batch(captured: Captured, batches: frozenset[Input]) -> Captured | None:
    """A pack in front of all that has or is made from what has leading dims of size one."""

    def batched(part: Part, args: tuple[Part, ...]) -> Part:
        if isinstance(part, Input):
            return dataclasses.replace(part, axes=(_PACK, *part.axes)) if part in batches else part
        carrying = list(map(_carries, args))
        if not any(carrying):
            return dataclasses.replace(part, args=args)
        axes = (_PACK, *part.axes)
        if isinstance(part, Elementwise):
            args = tuple(_spread(arg, axes) if arg.axes else arg for arg in args)
        each = zip(part.labels, carrying, strict=False)
        labels = tuple((_PACK, *own) if carries else own for own, carries in each)
        return dataclasses.replace(part, args=args, labels=labels, axes=axes)

    made = dataclasses.replace(rebuilt(captured, batched), pack=_PACK)
    return made if all(map(_carries, made.results)) else None


def _carries(part: Part) -> bool:
    return part.axes[:1] == (_PACK,)


def _spread(part: Part, axes: tuple[Loop, ...]) -> Part:
    """An operand under the axes of what has the pack."""
    if _carries(part):  # one that had no other axes is still to be repeated
        return part if len(part.axes) == len(axes) else _broadcast(part, axes)
    own = (_PACK, *part.axes)
    if isinstance(part, Arrange):
        return dataclasses.replace(part, kind="broadcast", axes=own)
    return _broadcast(part, own)


def _broadcast(part: Part, axes: tuple[Loop, ...]) -> Part:
    return Arrange(kind="broadcast", args=(part,), labels=(part.axes,), element=part.element, axes=axes)


def _repacked(captured: Captured, dims: tuple[Loop, ...]) -> Captured:
    """A pack in the place of leading dims wherever they come, under an axis of its own for each of theirs."""
    axes = captured.axes.copy()
    packs: dict[tuple[Loop, ...], Loop] = {}

    def packed(own: tuple[Any, ...]) -> tuple[Any, ...]:
        leading = own[: len(dims)]
        if _dims(captured, leading) != dims:
            return own
        if leading not in packs:
            packs[leading] = Loop(_PACK.id - 1 - len(packs), None)
            axes.join(_PACK, packs[leading])
        return (packs[leading], *own[len(dims) :])

    def repacked(part: Part, args: tuple[Part, ...]) -> Part:
        assert not isinstance(part, Opaque), "an op known by name only takes no pack"
        labels = tuple(map(packed, part.labels))
        return dataclasses.replace(part, args=args, labels=labels, axes=packed(part.axes))

    made = rebuilt(captured, repacked)
    return dataclasses.replace(made, axes=axes, pack=axes.dim(_PACK))
