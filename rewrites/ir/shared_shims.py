"""One shim for all calls of a function that differ in numbers only.

    flow.dispatch @opsplice_k(%a)       =>      %n = arith.constant 64 : index
                                                flow.dispatch @opsplice_k[%n](%a, %n)

IREE takes about as long for a shim as for a loop of its own. A function whose code is compiled already gains nothing
from a shim that knows sizes, strides and numbers, so these become values that the dispatch is given. Those that are the
same for all dispatches IREE puts into the shim again.

The numbers stand at the start of the function, behind its constant tensors. IREE's analysis of what it can compute when
it compiles follows constants in their order. Where it meets a dispatch first, it finds steps of a chain in the wrong
order, and evaluates each by itself: a weight would be transposed by one program, and packed by another.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TypeVar

from iree.compiler import ir

from opsplice.matchers.dims.extents import ONE, Extent
from opsplice.matchers.dims.layouts import Layout, Runs
from opsplice.rewrites.ir import emit
from opsplice.rewrites.layouts import strides
from opsplice.rewrites.plan.actions import Buffer, GivenSize, KernelCall, Output, Scalar
from opsplice.rewrites.plan.known_sizes import product
from opsplice.spec_lang.syntax import tree, vocabulary

# IREE's runtime passes so many words of 32 bits to a dispatch on a CPU.
_MOST_WORDS = 64
# A number that needs more than one word stays where it is: IREE makes words of indices that are no larger.
_WORD_BITS, _LARGEST = 32, 2**31 - 1

_Strided = TypeVar("_Strided", Buffer, Output)


class Constants:
    """Where numbers stand in the functions of one module."""

    def __init__(self) -> None:
        self._places: dict[ir.Operation, ir.InsertionPoint] = {}

    def place(self) -> ir.InsertionPoint:
        """Behind the constant tensors of the function of the current point, which become the first of its constants."""
        function = ir.InsertionPoint.current.block.owner
        while "sym_name" not in function.attributes and function.parent.parent is not None:
            function = function.parent
        if (place := self._places.get(function.operation)) is None:
            block = function.regions[0].blocks[0]
            constants = list(itertools.takewhile(lambda op: op.operation.name == "arith.constant", block.operations))
            others = [*itertools.dropwhile(_is_tensor, constants), block.operations[len(constants)]]
            for op in filter(_is_tensor, others[:-1]):
                op.operation.move_before(others[0])
            place = self._places[function.operation] = ir.InsertionPoint(others[0])
        return place


def with_values(call: KernelCall, at: ir.InsertionPoint) -> KernelCall:
    """A call whose numbers are values, made at a point, if no compiler specialises the kernel's function for them."""
    if any(path.suffix == ".bc" for path in call.objects.values()):
        return call
    with at:
        shared = dataclasses.replace(
            call,
            dims={name: _dim(product(size)) or size for name, size in call.dims.items()},
            arguments=tuple(_scalar(a) if isinstance(a, Scalar) else _buffer(a) for a in call.arguments),
            outputs=tuple(map(_buffer, call.outputs)),
        )
    buffers = len([each for each in (*call.arguments, *call.outputs) if not isinstance(each, Scalar)])
    # Where some are known at run time only, IREE may make two words of each, as of the place of a buffer.
    words = _passed(shared) * (2 if _passed(call) else 1) + 2 * buffers
    return shared if words <= _MOST_WORDS else call


def _is_tensor(op: ir.OpView) -> bool:
    return isinstance(op.operation.results[0].type, ir.RankedTensorType)


def _passed(call: KernelCall) -> int:
    """How many values a dispatch is given besides buffers."""
    scalars = [a for a in call.arguments if isinstance(a, Scalar) and a.value is not None]
    dims = [size for size in call.dims.values() if product(size) is None]
    return len(scalars) + len(dims) + len(strides.passed(call))


def _dim(size: int | None) -> GivenSize | None:
    return None if size is None or size > _LARGEST else GivenSize(emit.index(size), 0)


def _scalar(scalar: Scalar) -> Scalar:
    if scalar.number is None or not _is_word(scalar.number, scalar.element):
        return scalar
    value = emit.constant(scalar.number, ir.Type.parse(scalar.element))
    return dataclasses.replace(scalar, value=value, number=None)


def _is_word(number: float, element: str) -> bool:
    return vocabulary.width(element) <= _WORD_BITS or (element in ("index", "i64") and 0 <= number <= _LARGEST)


def _buffer(buffer: _Strided) -> _Strided:
    layout = buffer.layout
    return buffer if layout is None else dataclasses.replace(buffer, layout=_layout(buffer.shape, layout))


def _layout(shape: Sequence[tree.Dim], layout: Layout) -> Layout:
    dims = tuple(_runs(dim, runs) for dim, runs in zip(shape, layout.dims, strict=True))
    return Layout(_extent(layout.count), _extent(layout.offset), dims)


def _runs(dim: tree.Dim, runs: Runs) -> Runs:
    """Of sizes only those count that the number of a workgroup is taken apart by."""
    asked = [dim.pack is not None and number > 0 for number in range(len(runs))]
    return tuple((_extent(size) if ask else ONE, _extent(s)) for (size, s), ask in zip(runs, asked, strict=True))


def _extent(extent: Extent) -> Extent:
    """Zero stays a number: shims leave out what is multiplied by it."""
    given = _dim(extent.number) if extent.factor else None
    return extent if given is None else Extent.of(given.value)
