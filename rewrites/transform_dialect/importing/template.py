"""A template of a transform spec as a pattern in the making: its inputs, its dims, and expressions on them."""

from __future__ import annotations

import dataclasses
import itertools
import re
from dataclasses import dataclass
from typing import TypeAlias

from iree.compiler import ir

WORD = re.compile(r"\b[A-Za-z_]\w*")


@dataclass(frozen=True)
class Input:
    """A parameter of the pattern. dims: the axis classes of a tensor, None for a scalar. position: among arguments.

    variable: whether the element type is a type variable; open: whether any number of dims follows.
    """

    name: str
    element: str
    dims: tuple[int, ...] | None
    position: int
    variable: bool = False
    open: bool = False


@dataclass(frozen=True)
class Label:
    """A loop of an op, as a label: the name of its dim; a letter where another loop before it is of the same dim.

    loops: the axis classes of the op's loops. number: which of them.
    """

    loops: tuple[int, ...]
    number: int

    def name(self, axes: Axes) -> str:
        root = axes.root(self.loops[self.number])
        if root in map(axes.root, self.loops[: self.number]):
            return chr(ord("a") + self.number)
        return axes.name(root)


# An expression: text, the axis classes of dims in types, and labels. It is written when all classes are known.
Parts: TypeAlias = "tuple[str | int | Label, ...]"


@dataclass(eq=False)
class Template:
    """A pattern in the making.

    lets: name and expression. result: the root's expression, dims and element type. starts: for arguments that
    reductions start from, by position, the neutral value of their op. op: the root, for messages. source: what keeps
    the values alive.
    """

    inputs: list[Input]
    lets: list[tuple[str, Parts]]
    result: Parts
    result_dims: tuple[int, ...]
    result_element: str
    axes: Axes
    values: dict[ir.Value, Value]
    starts: dict[int, float | int | None]
    op: ir.Operation
    source: object = None

    def of_result(self, number: int) -> Template:
        """The same of another result of its root than the first."""
        names = [f"r{each}" for each in range(number + 1)]
        return dataclasses.replace(self, lets=[*self.lets, (", ".join(names), self.result)], result=(names[number],))

    def dim(self, axis: int) -> str:
        """The name of an axis class."""
        return self.axes.name(axis)

    def text(self, parts: Parts) -> str:
        """An expression as it is written. A dim that no input has is its size, or `?`."""
        named = {self.axes.root(axis) for each in self.inputs for axis in each.dims or ()}

        def word(part: str | int | Label) -> str:
            if isinstance(part, str):
                return part
            if isinstance(part, Label):
                return part.name(self.axes)
            if self.axes.root(part) in named:
                return self.axes.name(part)
            return str(self.axes.size(part) or "?")

        return "".join(map(word, parts))


class Axes:
    """Classes of axes that are of one size."""

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._sizes: dict[int, int] = {}
        self._names: dict[int, str] = {}

    def new(self, size: int | None) -> int:
        self._parents.append(len(self._parents))
        if size is not None:
            self._sizes[len(self._parents) - 1] = size
        return len(self._parents) - 1

    def named(self, name: str | None, size: int | None, known: dict[str, int]) -> int:
        """A new class, or that of a name that is known; with a name given it goes by that."""
        if name is not None and name in known:
            return known[name]
        axis = self.new(size)
        if name is not None:
            known[name] = axis
            self._names[axis] = name
        return axis

    def root(self, axis: int) -> int:
        while self._parents[axis] != axis:
            axis = self._parents[axis]
        return axis

    def join(self, left: int, right: int) -> None:
        left, right = self.root(left), self.root(right)
        if left == right:
            return
        self._parents[right] = left
        if right in self._sizes:
            self._sizes.setdefault(left, self._sizes[right])

    def fix(self, axis: int, size: int) -> None:
        """Give a class a size."""
        self._sizes[self.root(axis)] = size

    def size(self, axis: int) -> int | None:
        return self._sizes.get(self.root(axis))

    def name(self, axis: int) -> str:
        root = self.root(axis)
        if root not in self._names:
            taken = set(self._names.values())
            self._names[root] = next(n for i in itertools.count(len(taken)) if (n := f"d{i}") not in taken)
        return self._names[root]


@dataclass(frozen=True)
class Value:
    """A value of the template as an expression.

    scalar: whether it is a number or a scalar, maybe spread to a tensor. number: its value, if it is known.
    """

    parts: Parts
    axes: tuple[int, ...]
    element: str
    scalar: bool = False
    number: float | int | None = None
