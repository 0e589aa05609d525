"""Rules for results whose sizes are values of the program: Compress, Expand, Range and Reshape."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto

from opsplice.frontends.reshapes import is_misread
from opsplice.onnx.rules.node_writer import FLOATS, NodeWriter, attribute, attributes, input_name

# The integers of which IREE computes ranges.
_COUNTING = (TensorProto.INT32, TensorProto.INT64)
# What a Reshape says whose shape holds sizes alone.
OF_SIZES = "of sizes"
# What a Range says whose limit does not lie behind its start.
_AHEAD = "ahead"
# Operators that make sizes, that choose some, and that make larger ones.
_SIZES = ("Shape", "Size")
_SAME = ("Cast", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze")
_RISING = ("Add", "Max", "Mul")


def compress(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """A Gather at the places that are to stay: IREE does not compile it."""
    x, condition = node.input
    if on.shape(x) is None:
        return None
    axis = attribute(node, "axis", None)
    places = on.put("Reshape", on.put("NonZero", condition), [-1])
    flat = on.put("Reshape", x, [-1]) if axis is None else x
    return on.put("Gather", flat, places, axis=axis or 0)


def expand(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """To a shape of fewer dims, with ones before: IREE does not lower it."""
    x, (given, wanted) = node.input[0], (on.shape(name) for name in node.input)
    if given is None or not wanted or wanted[0] is None or wanted[0] >= len(given):
        return None
    return on.put("Expand", x, on.put("Concat", [1] * (len(given) - wanted[0]), node.input[1], axis=0))


def range_(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Of other types than IREE counts in: as many steps as there are, each times the step.

    Of those: no less than none, of which IREE makes so many that memory does not suffice.
    """
    element = on.element(node.input[0])
    if element in (0, TensorProto.FLOAT, *_COUNTING):
        return _at_least_none(on, node) if element else None
    kind = TensorProto.DOUBLE if element in FLOATS else TensorProto.INT64
    start, limit, step = (on.cast(name, kind) for name in node.input)
    if kind == TensorProto.INT64:
        return on.put("Cast", on.put("Range", start, limit, step), to=element)
    steps = on.put("Ceil", on.put("Div", on.put("Sub", limit, start), step))
    numbers = on.cast(on.count(on.put("Max", on.put("Cast", steps, to=TensorProto.INT64), 0)), kind)
    made = on.put("Add", start, on.put("Mul", numbers, step))
    return made if kind == element else on.put("Cast", made, to=element)


def _at_least_none(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    start, limit, step = node.input
    first, way = on.constant(start), on.constant(step)
    rises = way is not None and way > 0
    is_length = rises and first is not None and first <= 0 and _is_size(on, limit)
    if node.doc_string == _AHEAD or is_length or (rises and _is_further(on, start, limit)):
        return None
    highest, lowest = (on.put(kind, start, limit) for kind in ("Max", "Min"))
    if way is None:
        ahead = on.put("Where", on.put("Less", step, on.number(0, step)), lowest, highest)
    else:
        ahead = highest if rises else lowest
    return on.put("Range", start, ahead, step, doc_string=_AHEAD)


def _is_size(on: NodeWriter, name: str) -> bool:
    """Whether a value is a size, or the sum or product of some, so that it is not negative."""
    known, made = on.constant(name), on.producer(name)
    if known is not None or made is None or made.op_type in _SIZES:
        return made is not None if known is None else bool((known >= 0).all())
    return made.op_type in (*_SAME, *_RISING) and all(
        _is_size(on, each) for each in (made.input if made.op_type in _RISING else made.input[:1])
    )


def is_size_of(on: NodeWriter, numbers: str, index: int, x: str, axis: int) -> bool:
    """Whether a number of a list is read as the size of x along a dim, as PyTorch has it of batch and channels."""
    maker = on.producer(numbers)
    while maker is not None and maker.op_type != "Shape":
        source = _source(on, maker, index)
        if source is None:
            return False
        maker, index = on.producer(source[0]), source[1]
    return maker is not None and maker.input[0] == x and index + attribute(maker, "start", 0) == axis


def number_at(on: NodeWriter, numbers: str, index: int) -> np.generic | None:
    """A number of a list where that is known, though others may not be."""
    known, maker = on.constant(numbers), on.producer(numbers)
    if known is not None:
        return known.reshape(-1)[index]
    source = None if maker is None else _source(on, maker, index)
    return None if source is None else number_at(on, *source)


def _source(on: NodeWriter, maker: onnx.NodeProto, index: int) -> tuple[str, int] | None:
    """The list that a number of a node's result comes from as it is, and its place there; None if that is not known."""
    if maker.op_type in ("Cast", "Identity", "Unsqueeze"):
        return maker.input[0], index
    if maker.op_type == "Slice":
        step = input_name(maker, 4)
        begin, steps = on.constant(maker.input[1]), on.constant(step) if step else np.array([1])
        is_plain = begin is not None and begin.size == 1 and begin.item() >= 0 and steps is not None and steps == 1
        return (maker.input[0], index + begin.item()) if is_plain and begin is not None else None
    if maker.op_type == "Gather":
        places = on.constant(maker.input[1])
        place = -1 if places is None else int(places.reshape(-1)[index])
        return None if place < 0 else (maker.input[0], place)
    for part in maker.input if maker.op_type == "Concat" else ():
        (count,) = on.shape(part) or [None]
        if count is None or index < count:
            return None if count is None else (part, index)
        index -= count
    return None


def _is_further(on: NodeWriter, start: str, limit: str) -> bool:
    """Whether a value is another one and a size."""
    made = on.producer(limit)
    if made is None or made.op_type != "Add" or start not in made.input:
        return False
    return any(_is_size(on, each) for each in made.input if each != start)


def reshape(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """What IREE misreads, through one dim, or with the size that -1 stands for."""
    given, sizes = on.shape(node.input[0]), on.constant(node.input[1])
    if given is None or node.doc_string == OF_SIZES:
        return None
    if sizes is None and not _is_followed(on, node.input[1]):
        return _by_sizes(on, node)
    wanted = on.shape(node.output[0]) if sizes is None else [None if size < 0 else int(size) for size in sizes]
    if wanted is not None and is_misread(given, wanted) and not _keeps_size(on, node.input[1]):
        return on.put("Reshape", on.put("Reshape", node.input[0], [-1]), node.input[1])
    return _with_the_rest(on, node, given) if sizes is None else None


def _keeps_size(on: NodeWriter, shape: str) -> bool:
    """Whether there is a 0 in a shape, or in a part that is known."""
    made = on.producer(shape)
    parts = [on.constant(part) for part in (made.input if made is not None and made.op_type == "Concat" else [shape])]
    return any(part is not None and 0 in part for part in parts)


def _is_followed(on: NodeWriter, name: str) -> bool:
    """Whether IREE's importer sees whole numbers as a program of sizes: not those that are given, or made of floats."""
    followed, seen = [name], {name}
    for each in followed:
        made = on.producer(each)
        if on.constant(each) is not None or (made is not None and made.op_type in ("Shape", "Size")):
            continue
        if made is None or any(on.element(value) in FLOATS for value in made.input):
            return False
        followed += [value for value in made.input if value and value not in seen]
        seen.update(made.input)
    return True


def _by_sizes(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """To a shape that is known only as the program runs: IREE takes -1 in it for a size."""
    wanted, (shape,) = node.input[1], on.shape(node.input[1]) or [None]
    if shape is None:
        return None
    present = on.put("Shape", node.input[0])
    sizes = wanted
    if not attribute(node, "allowzero", 0):
        kept = on.put("Concat", present, [1] * shape, axis=0)
        sizes = on.put("Where", on.put("Equal", wanted, 0), on.put("Slice", kept, [0], [shape]), wanted)
    is_rest = on.put("Less", sizes, 0)
    others = on.put("ReduceProd", on.put("Where", is_rest, 1, sizes), keepdims=0)
    made = on.put("Where", is_rest, _divided(on, node.input[0], [others]), sizes)
    return on.put("Reshape", node.input[0], made, **attributes(node), doc_string=OF_SIZES)


def _with_the_rest(on: NodeWriter, node: onnx.NodeProto, given: list[int | None]) -> str | None:
    """Where one dim becomes several, -1 and others of open sizes among them: IREE takes -1 for the size itself."""
    made, wanted = on.producer(node.input[1]), on.shape(node.output[0])
    if made is None or made.op_type != "Concat" or wanted is None or len(made.input) != len(wanted):
        return None
    known = [on.constant(part) for part in made.input]
    values = [None if each is None else each.tolist() for each in known]
    rest = [place for place, value in enumerate(values) if value == [-1]]
    same = sum(1 for _ in itertools.takewhile(_is_one_size, zip(reversed(given), reversed(wanted), strict=False)))
    split = range(len(given) - same - 1, len(wanted) - same)
    if len(rest) != 1 or rest[0] not in split or [0] in values:
        return None
    (place,) = rest
    if all(values[each] is not None for each in split):
        return None
    left = _divided(on, node.input[0], [part for part in made.input if part != made.input[place]])
    parts = [left if each == place else part for each, part in enumerate(made.input)]
    return on.put("Reshape", node.input[0], on.put("Concat", *parts, axis=0))


def _divided(on: NodeWriter, x: str, sizes: Sequence[str]) -> str:
    """How many elements of a value there are for each of some sizes: what -1 stands for beside them."""
    left = on.put("Size", x)
    for size in sizes:
        left = on.put("Div", left, on.put("Max", size, 1))  # a size of zero is not to end the process
    return left


def _is_one_size(sizes: tuple[int | None, int | None]) -> bool:
    return sizes[0] is not None and sizes[0] == sizes[1]
