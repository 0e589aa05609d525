"""The parts of a captured computation: expressions on whole tensors, with an axis for each dim.

Every part has `axes`, in order, without those of size one, and an element type. An axis is a loop of the view that it
was read from; `Axes` says which of them are the same dim. Parts compare by identity: what is shared is one part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

from opsplice.matchers.dims.equal_sizes import Classes
from opsplice.matchers.terms.terms import Loop, Sum

# How an operand of a contraction is read along one of its axes: at a label, or at a sum of labels, which is a window.
Label = Loop | Sum


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """What all parts have. args: what it is made of; labels: what the axes of each of them are called, if told."""

    element: str
    axes: tuple[Loop, ...] = ()
    args: tuple[Part, ...] = ()
    labels: tuple[tuple[Label, ...], ...] = ()

    @property
    def summed(self) -> tuple[Loop, ...]:
        """The loops of its labels that it has no axis for, in the order in which they are read."""
        return tuple(dict.fromkeys(a for each in self.labels for a in loops_of(each) if a not in self.axes))


@dataclass(frozen=True, eq=False, kw_only=True)
class Input(Part):
    """A value that the computation starts from. scalar: a number rather than a tensor."""

    value: Any
    scalar: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Number(Part):
    """A constant. of: the axes whose sizes multiply to it, if it is there as their size."""

    value: int | float
    of: tuple[Loop, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Elementwise(Part):
    """An op on each element; the arguments have its axes, or none."""

    op: str
    attributes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Arrange(Part):
    """The argument under other axes: repeated (`broadcast`) or in another order."""

    kind: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Reduction(Part):
    """The argument, combined over those labels that are not in `axes`.

    Only what an op by name means has sums of labels. start: the value that a template has for any that it starts from.
    """

    combiner: str
    start: Any = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Contraction(Part):
    """The product of the arguments, each under its labels, summed over the loops of labels that are not in `axes`.

    widened: the op that brings the elements of an argument to `element`, "" for none. start: as of a reduction.
    """

    widened: tuple[str, ...]
    start: Any = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Taken(Part):
    """Elements of the first argument at indices that the others are: one for each label that `axes` lacks, in order."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Band(Part):
    """A function of column - row, its axes: four numbers, as `terms.ops.bands` has them, and its start, if any."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Stack(Part):
    """The arguments, one behind another along the one of its axes that none of them has."""

    @property
    def along(self) -> Loop:
        """The axis that tells which argument it is."""
        return next(axis for axis in self.axes if axis not in self.labels[0])


@dataclass(frozen=True, eq=False, kw_only=True)
class Opaque(Part):
    """Result `number` of the `count` of an op that is only known by name. `op` is the program's own, for `number`s.

    attributes: as patterns write them. meaning: what it computes, where that can be said in C though not in the
    language. body: what its region holds, as MLIR, if the name does not tell it. rest: whether it takes any further
    operands, and without any others anything at all.
    """

    op: Any
    name: str
    attributes: tuple[tuple[str, str], ...] = ()
    number: int = 0
    count: int = 1
    meaning: Part | None = None
    body: str = ""
    rest: bool = False


def loops_of(labels: Iterable[Label]) -> Iterator[Loop]:
    """The loops of labels, those of sums included."""
    for label in labels:
        if isinstance(label, Loop):
            yield label
        else:
            yield from (loop for _, loop in label.terms if isinstance(loop, Loop))


def walk(roots: tuple[Part, ...]) -> Iterator[Part]:
    """Each part once, arguments first, in the order in which they are written."""
    seen: set[int] = set()
    pending: list[tuple[Part, bool]] = [(root, False) for root in reversed(roots)]
    while pending:
        part, done = pending.pop()
        if done:
            yield part
        elif id(part) not in seen:
            seen.add(id(part))
            pending.append((part, True))
            pending += [(arg, False) for arg in reversed(part.args)]


class Axes(Classes):
    """Which axes are the same dim, because the computation makes them so; equal sizes alone do not count."""

    def copy(self) -> Axes:
        """The same axes, to know more of."""
        other = Axes()
        other._parents.update(self._parents)
        return other

    def join(self, left: Loop, right: Loop) -> None:
        left, right = self.dim(left), self.dim(right)
        # The size is told by whichever knows it.
        self.make_equal(*((right, left) if left.size is not None else (left, right)))

    def dim(self, axis: Loop) -> Loop:
        """The axis that stands for all that are the same dim."""
        return cast("Loop", self.first(axis))


@dataclass(frozen=True)
class Stop:
    """Where the computation was cut although more of it was asked for, and why."""

    value: Any
    reason: str


@dataclass(frozen=True)
class Captured:
    """A part of a program, lifted.

    inputs: in the order in which they are read. stops: where it was cut. pack: the dim that stands for any number of
    them, None for none. is_split: whether some dim of the program is several here.
    """

    results: tuple[Part, ...]
    inputs: tuple[Input, ...]
    axes: Axes
    stops: tuple[Stop, ...]
    pack: Loop | None = None
    is_split: bool = False


def rebuilt(captured: Captured, change: Callable[[Part, tuple[Part, ...]], Part]) -> Captured:
    """A computation with each part as `change` makes it of the part and of what its arguments became."""
    made: dict[int, Part] = {}
    for part in walk(captured.results):
        made[id(part)] = change(part, tuple(made[id(arg)] for arg in part.args))
    results = tuple(made[id(part)] for part in captured.results)
    inputs = tuple(part for part in walk(results) if isinstance(part, Input))
    return replace(captured, results=results, inputs=inputs)
