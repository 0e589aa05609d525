"""Equal parts of a captured computation as one: a program that computes a thing twice is written once.

Two parts are equal if they are made alike from equal parts; what their axes are called does not count.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from opsplice.matchers.capture.expressions import (
    Arrange,
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
    rebuilt,
)
from opsplice.matchers.terms.terms import Loop


def shared(captured: Captured) -> Captured:
    """The same computation with each of its parts once."""
    return _Sharing(captured).run()


class _Sharing:
    def __init__(self, captured: Captured) -> None:
        self.captured = captured
        self.axes = captured.axes.copy()
        self.first: dict[Any, Part] = {}

    def run(self) -> Captured:
        return dataclasses.replace(rebuilt(self.captured, self._once), axes=self.axes)

    def _once(self, part: Part, args: tuple[Part, ...]) -> Part:
        key = (*self._own(part), *map(id, args))
        if key not in self.first:
            self.first[key] = dataclasses.replace(part, args=args) if args else part
        found = self.first[key]
        for axis, other in zip(part.axes, found.axes, strict=True):
            self.axes.join(axis, other)
        return found

    def _own(self, part: Part) -> tuple[Any, ...]:
        """What a part is, but for what it is made of."""
        if isinstance(part, Input):
            return (id(part),)
        if isinstance(part, Number):
            return "number", repr(part.value), part.element, tuple(map(self.axes.dim, part.of))
        if isinstance(part, Elementwise):
            return part.op, part.attributes, part.element
        if isinstance(part, Opaque):
            # Results of one op belong together.
            own = part.op if part.count > 1 else tuple(axis.size for axis in part.axes)
            return part.name, part.attributes, part.number, own
        if isinstance(part, Arrange):
            return part.kind, _numbered((*part.labels, part.axes)), tuple(map(self.axes.dim, part.axes))
        if isinstance(part, Reduction):
            return part.combiner, _numbered((*part.labels, part.axes))
        assert isinstance(part, Contraction), "there are no other parts"
        return part.widened, part.element, _numbered((*part.labels, part.axes))


def _numbered(labels: tuple[tuple[Label, ...], ...]) -> tuple[Any, ...]:
    """Labels by the order in which they come first."""
    numbers: dict[Loop, int] = {}
    for each in labels:
        for loop in loops_of(each):
            numbers.setdefault(loop, len(numbers))

    def numbered(label: Label) -> Any:
        if isinstance(label, Loop):
            return numbers[label]
        return tuple((factor, numbers[loop]) for factor, loop in label.terms if isinstance(loop, Loop))

    return tuple(tuple(map(numbered, each)) for each in labels)
