"""A match in terms of numbered values, so that it can be had again at a place that looks the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.search.matches import Binding, Match
from opsplice.matchers.terms.terms import DimSize


@dataclass(frozen=True, eq=False)
class Template:
    """A match of one root, with numbers in the place of values.

    inputs: each input with its binding in numbers, or None for one that holds no values. ops: for each op the number
    of a value that it makes. sizes: the root's sizes, the shapes and the dims, with numbers in the place of values, or
    None where they hold no values, so that all matches share them.
    """

    first: Match
    root: int
    inputs: tuple[tuple[str, Binding | None], ...]
    ops: tuple[int, ...]
    sizes: tuple[Any, Any, Any, Any] | None

    @staticmethod
    def of(match: Match, numbers: Mapping[ir.Value, int]) -> Template | None:
        """The template of a match, or None if something in it is not among the values."""
        try:
            inputs = tuple(
                (
                    name,
                    None
                    if bound.value is None
                    else _moved(bound, numbers.__getitem__, lambda value: _Number(numbers[value])),
                )
                for name, bound in match.inputs.items()
            )
            ops = tuple(_number_of(op, numbers) for op in match.ops)
            sizes = (match.root_sizes, match.shapes, match.dims, match.split)
            numbered = _replaced(sizes, numbers.__getitem__)
            return Template(match, numbers[match.roots[0]], inputs, ops, None if numbered == sizes else numbered)
        except KeyError:
            return None

    def match(self, values: Sequence[ir.Value], function: str, location: str) -> Match:
        """The match at a place in a function, at a location, with these values around it, by number."""
        first, value = self.first, values.__getitem__
        inputs = {
            name: first.inputs[name] if bound is None else _moved(bound, value, lambda number: value(number.number))
            for name, bound in self.inputs
        }
        sizes = (first.root_sizes, first.shapes, first.dims, first.split)
        root_sizes, shapes, dims, split = sizes if self.sizes is None else _replaced(self.sizes, value)
        ops = tuple(defining_op(value(number)) for number in self.ops)
        return dataclasses.replace(
            first,
            roots=(value(self.root),),
            root_sizes=root_sizes,
            inputs=inputs,
            shapes=shapes,
            dims=dims,
            split=split,
            ops=ops,
            function=function,
            location=location,
        )


@dataclass(frozen=True)
class _Number:
    """A value by its number, among the factors of an offset or a stride."""

    number: int


def _moved(bound: Binding, replace: Callable[[Any], Any], atom: Callable[[Any], Any]) -> Binding:
    """A binding with its values replaced. atom: what takes the place of a value among the factors of a stride."""

    def renamed(each: Any) -> Any:
        return DimSize(replace(each.value), each.axis) if isinstance(each, DimSize) else atom(each)

    places = tuple((replace(value), layout.renamed(renamed)) for value, layout in bound.places)
    return dataclasses.replace(bound, value=replace(bound.value), places=places)


def _number_of(op: ir.Operation, numbers: Mapping[ir.Value, int]) -> int:
    """The number of a value that an op makes. Raises KeyError if there is none."""
    for value in op.results:
        if value in numbers:
            return numbers[value]
    raise KeyError


def _replaced(sizes: Any, replace: Callable[[Any], Any]) -> Any:
    """Sizes, in tuples and by name, with what they are read from replaced."""
    if isinstance(sizes, DimSize):
        return DimSize(replace(sizes.value), sizes.axis)
    if isinstance(sizes, tuple):
        return tuple(_replaced(size, replace) for size in sizes)
    if isinstance(sizes, Mapping):
        return {name: _replaced(size, replace) for name, size in sizes.items()}
    return sizes
