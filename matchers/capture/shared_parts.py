"""Equal parts of a captured computation as one: a program that computes a thing twice is written once.

Two parts are equal if they are made alike from equal parts; what their axes are called does not count.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from opsplice.matchers.capture.expressions import (
    Arrange,
    Band,
    Captured,
    Input,
    Label,
    Number,
    Opaque,
    Part,
    loops_of,
    rebuilt,
)
from opsplice.matchers.terms.terms import Loop

_MADE_OF = frozenset({"args", "labels", "axes", "meaning"})


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
        """What a part is, but for what it is made of and what its axes are called: all of its other fields."""
        if isinstance(part, Input):
            return (id(part),)
        said = {name: value for name, value in vars(part).items() if name not in _MADE_OF}
        if isinstance(part, Number):
            said |= {"value": repr(part.value), "of": tuple(map(self.axes.dim, part.of))}
        if isinstance(part, Opaque) and part.count == 1:  # results of one op belong together
            said["op"] = tuple(axis.size for axis in part.axes)
        if isinstance(part, (Arrange, Band)):
            said["dims"] = tuple(map(self.axes.dim, part.axes))
        return type(part), *said.values(), _numbered((*part.labels, part.axes))


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
