"""Which elements Resize takes along a dim, and with which weights.

A number is one that is known here, as where sizes are fixed, or a value that the program computes, by its name. What is
computed of numbers that are known is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from opsplice.onnx.rules.node_writer import NodeWriter, attribute, not_compiled

Numbers = str | np.generic | np.ndarray
_KNOWN: dict[str, Callable[..., Any]] = {
    "Abs": np.abs,
    "Add": np.add,
    "Ceil": np.ceil,
    "Div": np.divide,
    "Floor": np.floor,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Or": np.logical_or,
    "Sub": np.subtract,
    "Where": np.where,
}
# Where what is taken of a dim begins and ends, as parts of it.
Part = tuple[Numbers, Numbers]
WHOLE: Part = (np.float32(0), np.float32(1))
_ZERO, HALF, _ONE, _TWO = (np.float32(each) for each in (0, 0.5, 1, 2))


@dataclass(frozen=True)
class Axis:
    """How a dim is resized: sizes and scale as scalars in f32, as places are.

    count: the size that it gets, as a whole number. by_size: the model gives `made`, not the scale.
    """

    number: int
    given: Numbers
    made: Numbers
    count: Numbers
    scale: Numbers
    part: Part
    by_size: bool

    @property
    def ratio(self) -> float:
        """How many times as large the dim becomes, 1 where that is not known."""
        is_open = isinstance(self.given, str) or isinstance(self.made, str)
        return 1.0 if is_open else float(np.divide(self.made, self.given))


def computed(on: NodeWriter, kind: str, *inputs: Numbers) -> Any:
    """What an operator of ONNX makes of numbers."""
    return on.put(kind, *inputs) if any(isinstance(each, str) for each in inputs) else _KNOWN[kind](*inputs)


def cast(on: NodeWriter, numbers: Numbers, kind: int) -> Any:
    """Numbers as elements of a type."""
    if isinstance(numbers, str):
        return on.put("Cast", numbers, to=kind)
    return numbers.astype(helper.tensor_dtype_to_np_dtype(kind))


def scaled(on: NodeWriter, number: int, size: Numbers, scale: Numbers, part: Part) -> Axis:
    """A dim of a size that is scaled."""
    given = cast(on, size, TensorProto.FLOAT)
    made = computed(on, "Floor", computed(on, "Mul", given, scale))
    return Axis(number, given, made, cast(on, made, TensorProto.INT64), scale, part, False)


def sized(on: NodeWriter, number: int, size: Numbers, wanted: Numbers, part: Part) -> Axis:
    """A dim of a size that gets another one."""
    given, made = (cast(on, each, TensorProto.FLOAT) for each in (size, wanted))
    return Axis(number, given, made, wanted, computed(on, "Div", made, given), part, True)


def positions(on: NodeWriter, node: onnx.NodeProto, axis: Axis) -> Any:
    """Where each element of the result lies among those given, in f32: the type decides at ties."""

    def of(kind: str, *inputs: Numbers) -> Any:
        return computed(on, kind, *inputs)

    mode = attribute(node, "coordinate_transformation_mode", b"half_pixel")
    x = on.count(axis.count) if isinstance(axis.count, str) else np.arange(int(axis.count))
    x = cast(on, x, TensorProto.FLOAT)
    last, end = (of("Sub", size, _ONE) for size in (axis.given, axis.made))
    steps, is_one = of("Max", end, _ONE), of("Less", axis.made, _TWO)
    if mode == b"align_corners":
        return of("Div", of("Mul", x, last), steps)
    if mode == b"asymmetric":
        return of("Div", of("Mul", x, axis.given), axis.made) if axis.by_size else of("Div", x, axis.scale)
    if mode == b"tf_crop_and_resize":
        start, end = axis.part
        within = of("Div", of("Mul", of("Mul", x, of("Sub", end, start)), last), steps)
        middle = of("Mul", of("Mul", HALF, of("Add", start, end)), last)
        return of("Where", is_one, middle, of("Add", of("Mul", start, last), within))
    if mode == b"half_pixel_symmetric":  # onnxruntime adds in f64
        shrinks = of("Div", axis.made, of("Mul", axis.scale, axis.given))
        before = of("Mul", of("Mul", axis.given, HALF), of("Sub", _ONE, shrinks))
        x, before, scale = (cast(on, each, TensorProto.DOUBLE) for each in (x, before, axis.scale))
        half = np.float64(HALF)
        at = of("Sub", of("Add", before, of("Div", of("Add", x, half), scale)), half)
        return cast(on, at, TensorProto.FLOAT)
    centres = of("Div", of("Add", x, HALF), axis.scale)
    if mode == b"tf_half_pixel_for_nn":  # of versions before 13
        return centres
    centred = of("Sub", centres, HALF)
    return of("Where", is_one, _ZERO, centred) if mode == b"pytorch_half_pixel" else centred


def is_outside(on: NodeWriter, axis: Axis, at: Numbers) -> Any:
    """Whether positions lie outside of what is given."""
    behind = computed(on, "Greater", at, computed(on, "Sub", axis.given, _ONE))
    return computed(on, "Or", computed(on, "Less", at, _ZERO), behind)


def taps(on: NodeWriter, node: onnx.NodeProto, axis: Axis, at: Numbers) -> tuple[list[Any], list[Any]]:
    """The places of the elements that each position takes, and their weights; none for the nearest one alone."""
    mode = attribute(node, "mode", b"nearest")
    floor = computed(on, "Floor", at)
    part = computed(on, "Sub", at, floor)
    if mode == b"nearest":
        return [_index(on, axis, _nearest(on, node, at, floor, part))], []
    narrows = _ONE
    if attribute(node, "antialias", 0):
        if isinstance(axis.scale, str):
            raise not_compiled(node, "over how many elements it smooths rests on open sizes")
        narrows = min(_ONE, np.float32(axis.scale))
    reach = math.ceil((1 if mode == b"linear" else 2) / narrows)
    steps = [np.float32(step) for step in range(1 - reach, reach + 1)]
    whole = [computed(on, "Add", floor, step) for step in steps]
    if mode == b"linear" and narrows == 1:
        weights = [computed(on, "Sub", _ONE, part), part]
    else:
        apart = (computed(on, "Abs", computed(on, "Sub", step, part)) for step in steps)
        curve = _linear if mode == b"linear" else _cubic
        weights = [curve(on, node, computed(on, "Mul", each, narrows)) for each in apart]
    excludes = attribute(node, "exclude_outside", 0)
    if excludes:
        pairs = zip(whole, weights, strict=True)
        weights = [computed(on, "Where", is_outside(on, axis, place), _ZERO, weight) for place, weight in pairs]
    if narrows != 1 or excludes:
        total = weights[0]
        for weight in weights[1:]:
            total = computed(on, "Add", total, weight)
        weights = [computed(on, "Div", weight, total) for weight in weights]
    return [_index(on, axis, place) for place in whole], weights


def _index(on: NodeWriter, axis: Axis, place: Numbers) -> Any:
    last = computed(on, "Sub", axis.given, _ONE)
    within = computed(on, "Min", computed(on, "Max", place, _ZERO), last)
    return cast(on, within, TensorProto.INT64)


def _nearest(on: NodeWriter, node: onnx.NodeProto, at: Numbers, floor: Numbers, part: Numbers) -> Any:
    mode = attribute(node, "nearest_mode", b"round_prefer_floor")
    if mode == b"floor":
        return floor
    if mode == b"ceil":
        return computed(on, "Ceil", at)
    is_up = computed(on, "Greater" if mode == b"round_prefer_floor" else "GreaterOrEqual", part, HALF)
    return computed(on, "Add", floor, cast(on, is_up, TensorProto.FLOAT))


def _linear(on: NodeWriter, _node: onnx.NodeProto, far: Numbers) -> Any:
    return computed(on, "Max", computed(on, "Sub", _ONE, far), _ZERO)


def _cubic(on: NodeWriter, node: onnx.NodeProto, far: Numbers) -> Any:
    """The weight of an element so far away."""
    a = np.float32(attribute(node, "cubic_coeff_a", -0.75))

    def curve(first: np.float32, *terms: np.float32) -> Any:
        total: Any = first
        for term in terms:
            total = computed(on, "Add", computed(on, "Mul", total, far), np.float32(term))
        return total

    near, behind = curve(a + 2, -(a + 3), _ZERO, _ONE), curve(a, -5 * a, 8 * a, -4 * a)
    outer = computed(on, "Where", computed(on, "Less", far, _TWO), behind, _ZERO)
    return computed(on, "Where", computed(on, "LessOrEqual", far, _ONE), near, outer)
