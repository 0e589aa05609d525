"""What matches are tried on: numbers of the program's own run, random ones, special values; in several sizes."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opsplice.common.errors import OpspliceError
from opsplice.measuring.cutting.records import OPEN_SIZE, Cut, Part
from opsplice.measuring.verifying import tolerance
from opsplice.runtime.declared_functions import Function, ValueType
from opsplice.runtime.value_text import ELEMENT_TYPES

# The sizes of open dims: of the first, third, ... and of those between. Special values are tried in the first pair.
_SIZES = ((OPEN_SIZE, 10), (1, 2), (2, 1), (3, 3), (64, 34), (200, 130))
# What a trial has at the most in each value, and in each that has open dims where these are larger than most blocks.
_MOST_ELEMENTS, _MOST_OPEN_ELEMENTS, _LARGE = 1 << 24, 1 << 18, 128
_SMALL_INTEGERS = 8
# A few places of an input get a special value: the last, and some by chance.
_SPECIAL_PLACES = 3
_SPECIAL = {"nan": math.nan, "infinity": math.inf, "-infinity": -math.inf}
_SCALED = {"zeros": 0.0, "denormals": 1e-40, "large": 100.0}
KINDS = ("program", "random", "sizes", *_SPECIAL, *_SCALED)


@dataclass(frozen=True)
class Inputs:
    """The inputs of a trial, in order. kind: where they are from, in words; is_first: whether races and holes are
    looked for on them; sizes: those of the results' symbols."""

    kind: str
    values: tuple[Any, ...]
    sizes: dict[str, int]
    is_first: bool = False

    def without_denormals(self) -> Inputs:
        """The same with zeros in their place."""
        return self._with_floats(_flushed)

    def rolled(self) -> Inputs:
        """The same with each element in the next one's place."""
        values = (np.roll(v.reshape(-1), 1).reshape(v.shape) if isinstance(v, np.ndarray) else v for v in self.values)
        return dataclasses.replace(self, values=tuple(values))

    def moved(self, seed: int) -> Inputs:
        """The same with each float off by the spacing of its type."""
        return self._with_floats(lambda array: tolerance.moved(array, seed))

    def _with_floats(self, change: Callable[[np.ndarray], np.ndarray]) -> Inputs:
        floats = (isinstance(v, np.ndarray) and tolerance.is_float(v.dtype) for v in self.values)
        # numpy makes a number of an array without dims
        values = (np.asarray(change(v)) if is_ else v for v, is_ in zip(self.values, floats, strict=True))
        return dataclasses.replace(self, values=tuple(values))


def inputs_of(cut: Cut, recorded: Sequence[Any] | None, kinds: Sequence[str] = KINDS) -> Iterator[Inputs]:
    """The trials of a match. recorded: its inputs in the program's own run, None where they are not known."""
    generator = np.random.default_rng(int(cut.digest[:8], 16))
    symbols = cut.symbols
    pairs = dict.fromkeys((*_SIZES, *((size, size // 2 + 2) for size in cut.tried)))
    for number, pair in enumerate(pairs if symbols and "sizes" in kinds else _SIZES[:1]):
        sizes = {symbol: pair[at % 2] for at, symbol in enumerate(symbols)}
        if number and not _is_small_enough(cut, sizes, is_large=pair[0] > _LARGE and pair[0] not in cut.tried):
            continue
        told = f"random, {', '.join(map(str, sizes.values()))}" if symbols else "random"
        plain = _values(generator, cut, sizes)
        if "random" in kinds or number:
            yield Inputs(told, plain, sizes, number == 0)
        if number == 0:
            yield from _special(generator, cut, plain, sizes, kinds)
    if recorded is not None and "program" in kinds:
        found = _sizes_of(cut, recorded)
        if found is not None:
            yield Inputs("the program's own", tuple(recorded), found)


def _is_small_enough(cut: Cut, sizes: dict[str, int], *, is_large: bool) -> bool:
    parts = (*cut.inputs, *cut.results)
    is_open = {part: any(not isinstance(size, int) for size in part.sizes or ()) for part in parts}
    most = {part: _MOST_OPEN_ELEMENTS if is_large and is_open[part] else _MOST_ELEMENTS for part in parts}
    return all(math.prod(part.shape(sizes)) <= most[part] for part in parts)


def random_inputs(cut: Cut, sizes: dict[str, int]) -> Inputs:
    """Random numbers for a match, the same each time. sizes: of its symbols."""
    generator = np.random.default_rng(int(cut.digest[:8], 16))
    return Inputs("random", _values(generator, cut, sizes), sizes)


def _values(generator: np.random.Generator, cut: Cut, sizes: dict[str, int]) -> tuple[Any, ...]:
    return tuple(random(generator, part, sizes, number in cut.positive) for number, part in enumerate(cut.inputs))


def _flushed(array: np.ndarray) -> np.ndarray:
    tiny = 1.2e-38 if array.dtype.itemsize <= 4 else float(np.finfo(array.dtype).tiny)
    return np.where(np.abs(array.astype(np.float64)) < tiny, np.zeros_like(array), array)


def _special(
    generator: np.random.Generator, cut: Cut, plain: tuple[Any, ...], sizes: dict[str, int], kinds: Sequence[str]
) -> Iterator[Inputs]:
    floats = [
        number
        for number, value in enumerate(plain)
        if isinstance(value, np.ndarray) and tolerance.is_float(value.dtype)
    ]
    for kind, special in _SPECIAL.items():
        # Weights are not infinite: a kernel may fold a gain of theirs into others, which gives NaN of an infinite one.
        left_out = cut.finite if math.isnan(special) else cut.finite | cut.weights
        tried = [number for number in floats if number not in left_out]
        for number in tried if kind in kinds else ():
            changed = plain[number].copy().reshape(-1)
            if changed.size:
                changed[generator.integers(0, changed.size, _SPECIAL_PLACES)] = special
                changed[-1] = special
            values = [*plain]
            values[number] = changed.reshape(plain[number].shape)
            yield Inputs(f"{kind} in input {number}", tuple(values), sizes)
    for kind, factor in _SCALED.items():
        if kind in kinds and floats:
            yield Inputs(
                kind,
                tuple(
                    np.asarray(value.astype(np.float64) * factor).astype(value.dtype) if number in floats else value
                    for number, value in enumerate(plain)
                ),
                sizes,
            )


def normal(generator: np.random.Generator, shape: Sequence[int], is_positive: bool) -> np.ndarray:
    """Normal numbers, or as many well above 0, of f64."""
    made = np.asarray(generator.normal(size=shape))
    return np.abs(made) + 0.25 if is_positive else made


def random(generator: np.random.Generator, part: Part, sizes: dict[str, int], is_positive: bool = False) -> Any:
    """Random numbers: floats around 0 or above it, small integers, all that 8 bits hold."""
    dtype = ELEMENT_TYPES.get("i64" if part.element == "index" else part.element)
    if dtype is None:
        raise OpspliceError(f"nothing can be generated of type {part.element}")
    shape = part.shape(sizes)
    made: np.ndarray
    if dtype == np.bool_:
        made = np.asarray(generator.integers(0, 2, shape))
    elif np.issubdtype(dtype, np.integer) and dtype.itemsize == 1:
        made = np.asarray(generator.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape))
    elif np.issubdtype(dtype, np.integer):
        made = np.asarray(generator.integers(0, _SMALL_INTEGERS, shape))
    else:
        made = normal(generator, shape, is_positive)
    return made.astype(dtype) if part.sizes is not None else made.astype(dtype).item()


def generated(function: Function) -> list[Any]:
    """Inputs of a function: floats around 0, small integers; the same each time."""
    generator = np.random.default_rng(0)
    made = []
    for number, kind in enumerate(function.inputs or ()):
        noted = function.sizes.at(number, OPEN_SIZE) if function.sizes else ()
        made.append(random(generator, _part(kind, noted), {}))
    return made


def _part(kind: ValueType, noted: Sequence[int | None]) -> Part:
    if kind.dtype is None or kind.element is None:
        raise OpspliceError(f"the program takes {kind}, but only tensors and numbers can be generated")
    if kind.shape is None:
        return Part(kind.element, None)
    sizes = itertools.zip_longest(kind.shape, noted[: len(kind.shape)])
    return Part(kind.element, tuple(next((size for size in known if size is not None), OPEN_SIZE) for known in sizes))


def _sizes_of(cut: Cut, values: Sequence[Any]) -> dict[str, int] | None:
    """The sizes of a cut's symbols for some inputs, None where they cannot be read off these."""
    found: dict[str, int] = {}
    for part, value in zip(cut.inputs, values, strict=True):
        for size, wanted in zip(np.shape(value), part.sizes or (), strict=True):
            if not isinstance(wanted, int) and len(wanted.symbols) == 1 and wanted.symbols[0][1] == 1:
                found[wanted.symbols[0][0]] = size // wanted.factor
    return found if set(found) >= set(cut.symbols) else None
