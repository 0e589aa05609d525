"""Leading dims that a captured computation only carries along, as a pack: one axis for any number of them.

They are those that come first, all of them in the same order, wherever one of them comes at all, and that nothing sums
over.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from opsplice.matchers.parts import (
    Arrange,
    Axes,
    Captured,
    Contraction,
    Elementwise,
    Input,
    Label,
    Number,
    Opaque,
    Part,
    Reduction,
    loops_of,
    walk,
)
from opsplice.matchers.terms import Loop, Sum

# Axes that stand for packs are told apart from loops by numbers that no loop has.
_PACK = -1


def packed(captured: Captured) -> Captured | None:
    """The same with a pack in place of as many leading dims as can be; None where there are none."""
    leading = captured.results[0].axes
    for count in range(len(leading), 0, -1):
        dims = tuple(captured.axes.dim(axis) for axis in leading[:count])
        if len(set(dims)) == count and _only_carried(captured, dims):
            return _Packer(captured, dims).run()
    return None


def _only_carried(captured: Captured, dims: tuple[Loop, ...]) -> bool:
    if not any(_dims(captured, part.axes)[: len(dims)] == dims for part in captured.inputs):
        return False
    for part in walk(captured.results):
        if isinstance(part, Number):
            if set(_dims(captured, part.of)) & set(dims):
                return False
            continue
        if isinstance(part, Opaque):
            return False  # its name says nothing of other ranks
        for axes in _written(part):
            found = _dims(captured, axes)
            if set(_dims(captured, tuple(loops_of(axes)))) & set(dims) - set(found):
                return False  # in a window
            if any(isinstance(label, Sum) for label in axes) and found[: len(dims)] != dims:
                return False  # only the other operand has it
            if set(found) & set(dims) and (found[: len(dims)] != dims or set(found[len(dims) :]) & set(dims)):
                return False
        if isinstance(part, (Reduction, Contraction)) and not _keeps(captured, part, dims):
            return False
    return True


def _keeps(captured: Captured, part: Reduction | Contraction, dims: tuple[Loop, ...]) -> bool:
    """Whether the axes that are summed over are others."""
    labels = part.labels if isinstance(part, Contraction) else (part.labels,)
    summed = tuple(axis for each in labels for axis in loops_of(each) if axis not in part.axes)
    return not set(_dims(captured, summed)) & set(dims)


def _written(part: Part) -> tuple[tuple[Label, ...], ...]:
    """Every tuple of axes that a part is written with."""
    if isinstance(part, Contraction):
        return (*part.labels, part.axes)
    return (part.labels, part.axes) if isinstance(part, (Arrange, Reduction)) else (part.axes,)


def _dims(captured: Captured, labels: tuple[Label, ...]) -> tuple[Label, ...]:
    return tuple(captured.axes.dim(label) if isinstance(label, Loop) else label for label in labels)


class _Packer:
    def __init__(self, captured: Captured, dims: tuple[Loop, ...]) -> None:
        self.captured = captured
        self.dims = dims
        self.axes: Axes = captured.axes.copy()
        self.pack = Loop(_PACK, None)
        self.packs: dict[tuple[Loop, ...], Loop] = {}
        self.made: dict[int, Part] = {}

    def run(self) -> Captured:
        for part in walk(self.captured.results):
            self.made[id(part)] = self._repacked(part)
        results = tuple(self.made[id(part)] for part in self.captured.results)
        inputs = tuple(part for part in walk(results) if isinstance(part, Input))
        return Captured(results, inputs, self.axes, self.captured.stops, self.axes.dim(self.pack))

    def _repacked(self, part: Part) -> Part:
        axes = self._tuple(part.axes)
        if isinstance(part, (Input, Number)):
            return dataclasses.replace(part, axes=axes)
        if isinstance(part, (Arrange, Reduction)):
            return dataclasses.replace(part, arg=self.made[id(part.arg)], labels=self._tuple(part.labels), axes=axes)
        assert isinstance(part, (Elementwise, Contraction)), "an op known by name only takes no pack"
        args = tuple(self.made[id(arg)] for arg in part.args)
        if isinstance(part, Elementwise):
            return dataclasses.replace(part, args=args, axes=axes)
        return dataclasses.replace(part, args=args, labels=tuple(map(self._tuple, part.labels)), axes=axes)

    def _tuple(self, axes: tuple[Any, ...]) -> tuple[Any, ...]:
        count = len(self.dims)
        leading = axes[:count]
        if _dims(self.captured, leading) != self.dims:
            return axes
        if leading not in self.packs:
            self.packs[leading] = Loop(_PACK - 1 - len(self.packs), None)
            self.axes.join(self.pack, self.packs[leading])
        return (self.packs[leading], *axes[count:])
