"""What is known of sizes that a program only has at run time.

A program assumes something of them: `util.assume.int %d<umin = 16, udiv = 16>`. Its frontend noted which sizes inputs
may have (`input_sizes`), and each call checks that. What is computed from such sizes has bounds computed from theirs.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable
from typing import Any

from iree.compiler import ir

from opsplice.matchers.dims.extents import Extent, Total
from opsplice.matchers.dims.input_sizes import NOTE, Sizes
from opsplice.matchers.dims.size_reader import DIVISIONS, SizeReader
from opsplice.matchers.terms.terms import DimSize
from opsplice.spec_lang.dims.judge import Bounds, Known, between, both, computed

# The size of an input that has no type that says its sizes.
_SIZE_OF_INPUT = "hal.buffer_view.dim"
_REFLECTION = "iree.reflection"
_FIELD = re.compile(r"\b(umin|umax|udiv) = (\d+)")
_MAX_DEPTH = 16


def bounds_of(size: DimSize, reader: SizeReader) -> Known:
    """What is known of a size, None if nothing is."""
    return _Bounds(reader).of(reader.of(size))


def noted(value: ir.Value) -> tuple[Known, ...]:
    """What its frontend noted of a function's input, dim by dim; of a value that is the size of one dim, of that one.

    Nothing for other values, and where nothing is noted.
    """
    if isinstance(value.owner, ir.Block):
        return _limits(value)
    op = value.owner.operation
    if op.name != _SIZE_OF_INPUT:
        return ()
    axis = ir.IntegerAttr(op.attributes["index"]).value
    return _limits(op.operands[0])[axis : axis + 1]


def _limits(value: ir.Value) -> tuple[Known, ...]:
    function = value.owner.owner if isinstance(value.owner, ir.Block) else None
    if function is None or _REFLECTION not in function.attributes:
        return ()
    notes = ir.DictAttr(function.attributes[_REFLECTION])
    if NOTE not in notes:
        return ()
    limits = Sizes.read(ir.StringAttr(notes[NOTE]).value).limits(ir.BlockArgument(value).arg_number)
    return tuple(None if limit is None else between(*limit) for limit in limits)


class _Bounds:
    """What is known of extents, from what is known of what they are computed from."""

    def __init__(self, reader: SizeReader) -> None:
        self._reader = reader
        self._known: dict[Extent, Known] = {}

    def of(self, extent: Extent, depth: int = 0) -> Known:
        if extent not in self._known:
            if extent.atom is None:
                factors = (self.of(Extent.of(atom), depth) for atom, power in extent.atoms for _ in range(power))
                found = _all("*", extent.factor, factors)
            else:
                found = self._of_atom(extent.atom, depth)
            for result in self._reader.assumed.get(extent, ()):
                found = both(found, _assumed(result))
            self._known[extent] = found
        return self._known[extent]

    def _of_atom(self, atom: Any, depth: int) -> Known:
        if isinstance(atom, Total):
            return _all("+", 0, (self.of(term, depth) for term in atom.terms))
        if isinstance(atom, DimSize):
            dims = noted(atom.value) if isinstance(atom.value, ir.BlockArgument) else ()
            return dims[atom.axis] if atom.axis < len(dims) else None
        op = None if isinstance(atom.owner, ir.Block) else atom.owner.operation
        if op is None or op.name not in DIVISIONS or depth > _MAX_DEPTH:
            return next(iter(noted(atom)), None)
        divided, divisor = (self.of(self._reader.number(operand), depth + 1) for operand in op.operands)
        if divided is None or (divided.low if isinstance(divided, Bounds) else divided) < 0:
            return None  # these divisions round in different ways
        found: Known = computed(DIVISIONS[op.name], divided, divisor)
        return found


def _all(op: str, start: int, numbers: Iterable[Known]) -> Known:
    return functools.reduce(functools.partial(computed, op), numbers, start)


def _assumed(result: ir.OpResult) -> Known:
    """What holds in each of the cases that are assumed."""
    cases = ir.ArrayAttr(ir.ArrayAttr(result.owner.attributes["assumptions"])[result.result_number])
    read = [{name: int(number) for name, number in _FIELD.findall(str(case))} for case in cases]
    if not read:
        return None
    high = None if any("umax" not in case for case in read) else max(case["umax"] for case in read)
    low = min(case.get("umin", 0) for case in read)
    return between(low, high, math.gcd(*(case.get("udiv", 1) for case in read)))
