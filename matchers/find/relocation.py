"""A match in terms of numbered values, so that it can be had again at a place that looks the same."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from iree.compiler import ir

from opsplice.matchers.dims.extents import Extent
from opsplice.matchers.dims.layouts import Layout
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.search.matches import Binding, Match
from opsplice.matchers.terms.terms import DimSize

# The parts of a match in which values are.
_PARTS = ("roots", "root_sizes", "inputs", "shapes", "dims", "split")


@dataclass(frozen=True)
class _Number:
    """A value by its number."""

    number: int


@dataclass(frozen=True, eq=False)
class Template:
    """A match of one root, with numbers in the place of values.

    parts: those that hold values, by name; matches share the others. ops: for each op the number of a value that it
    makes.
    """

    first: Match
    parts: Mapping[str, Any]
    ops: tuple[int, ...]

    @staticmethod
    def of(match: Match, numbers: Mapping[ir.Value, int]) -> Template | None:
        """The template of a match, or None if something in it is not among the values."""
        given = {name: getattr(match, name) for name in _PARTS}
        try:
            moved = _moved(given, lambda value: _Number(numbers[value]))
            ops = tuple(_number_of(op, numbers) for op in match.ops)
        except KeyError:
            return None
        return Template(match, {name: part for name, part in moved.items() if part is not given[name]}, ops)

    def match(self, values: Sequence[ir.Value], function: str, location: str) -> Match:
        """The match at a place in a function, at a location, with these values around it, by number."""
        parts = _moved(self.parts, lambda number: values[number.number])
        ops = tuple(defining_op(values[number]) for number in self.ops)
        return dataclasses.replace(self.first, **parts, ops=ops, function=function, location=location)


def _moved(thing: Any, move: Callable[[Any], Any]) -> Any:
    """A part of a match with its values, or their numbers, as `move` gives them: itself if it holds none."""
    if isinstance(thing, int):
        return thing
    if isinstance(thing, (_Number, ir.Value)):
        return move(thing)
    if isinstance(thing, tuple):
        made: Any = tuple([_moved(part, move) for part in thing])
        return thing if all(map(operator.is_, made, thing)) else made
    if isinstance(thing, DimSize):
        return DimSize(_moved(thing.value, move), thing.axis)
    if isinstance(thing, Binding):
        held = thing.value, thing.places
        value, places = made = _moved(held, move)
        return thing if made is held else dataclasses.replace(thing, value=value, places=places)
    if isinstance(thing, (Extent, Layout)):
        return thing.renamed(partial(_moved, move=move))
    if isinstance(thing, Mapping):
        made = {name: _moved(part, move) for name, part in thing.items()}
        return thing if all(map(operator.is_, made.values(), thing.values())) else made
    return thing


def _number_of(op: ir.Operation, numbers: Mapping[ir.Value, int]) -> int:
    """The number of a value that an op makes. Raises KeyError if there is none."""
    for value in op.results:
        if value in numbers:
            return numbers[value]
    raise KeyError
