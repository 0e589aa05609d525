"""What Resize takes along a dim of an open size, computed while the program runs.

The formulas are those of `resizing`, as nodes: places and weights are values here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from opsplice.onnx.rules.node_writer import NodeWriter, attribute, not_compiled

_HALF, _ONE = np.float32(0.5), np.float32(1)


@dataclass(frozen=True)
class OpenAxis:
    """How a dim is resized: sizes and scale as scalars in f32.

    count: the size that it gets, as a whole number. known_scale: the scale if it is a constant. part, by_size: as for
    dims of fixed sizes.
    """

    number: int
    given: str
    made: str
    count: str
    scale: str
    known_scale: float | None
    part: tuple[float, float]
    by_size: bool


def open_axis(
    on: NodeWriter, x: str, number: int, known_scale: float | None, size: str, scale: str, part: tuple[float, float]
) -> OpenAxis:
    """A dim that is scaled, by a constant or a value, or brought to a size; the others are "" or None."""
    given = on.put("Cast", on.size(x, number), to=TensorProto.FLOAT)
    if size:
        made = on.put("Cast", size, to=TensorProto.FLOAT)
        return OpenAxis(number, given, made, size, on.put("Div", made, given), None, part, True)
    scale = scale or on.give(np.array(known_scale, np.float32))
    made = on.put("Floor", on.put("Mul", given, scale))
    count = on.put("Cast", made, to=TensorProto.INT64)
    return OpenAxis(number, given, made, count, scale, known_scale, part, False)


def positions(on: NodeWriter, node: onnx.NodeProto, axis: OpenAxis) -> str:
    """Where each element of the result lies among those given."""
    mode = attribute(node, "coordinate_transformation_mode", b"half_pixel")
    x = on.put("Cast", on.count(axis.count), to=TensorProto.FLOAT)
    last, end = (on.put("Sub", size, _ONE) for size in (axis.given, axis.made))
    steps, is_one = on.put("Max", end, _ONE), on.put("Less", axis.made, np.float32(2))
    if mode == b"align_corners":
        return on.put("Div", on.put("Mul", x, last), steps)
    if mode == b"asymmetric":
        return on.put("Div", on.put("Mul", x, axis.given), axis.made) if axis.by_size else on.put("Div", x, axis.scale)
    if mode == b"tf_crop_and_resize":
        start, reach = (np.float32(each) for each in (axis.part[0], axis.part[1] - axis.part[0]))
        within = on.put("Div", on.put("Mul", on.put("Mul", x, reach), last), steps)
        at = on.put("Add", on.put("Mul", last, start), within)
        middle = on.put("Mul", last, _HALF * np.float32(sum(axis.part)))
        return on.put("Where", is_one, middle, at)
    if mode == b"half_pixel_symmetric":  # onnxruntime adds in f64
        shrinks = on.put("Div", axis.made, on.put("Mul", axis.scale, axis.given))
        before = on.put("Mul", on.put("Mul", axis.given, _HALF), on.put("Sub", _ONE, shrinks))
        x, before, scale = (on.put("Cast", each, to=TensorProto.DOUBLE) for each in (x, before, axis.scale))
        half = np.float64(_HALF)
        at = on.put("Sub", on.put("Add", before, on.put("Div", on.put("Add", x, half), scale)), half)
        return on.put("Cast", at, to=TensorProto.FLOAT)
    centred = on.put("Sub", on.put("Div", on.put("Add", x, _HALF), axis.scale), _HALF)
    return on.put("Where", is_one, np.float32(0), centred) if mode == b"pytorch_half_pixel" else centred


def is_outside(on: NodeWriter, axis: OpenAxis, at: str) -> str:
    """Whether positions lie outside of what is given."""
    behind = on.put("Greater", at, on.put("Sub", axis.given, _ONE))
    return on.put("Or", on.put("Less", at, np.float32(0)), behind)


def taps(on: NodeWriter, node: onnx.NodeProto, axis: OpenAxis, at: str) -> tuple[list[str], list[str]]:
    """The places of the elements that each position takes, and their weights."""
    mode = attribute(node, "mode", b"nearest")
    floor = on.put("Floor", at)
    part = on.put("Sub", at, floor)
    if mode == b"nearest":
        return [_index(on, axis, _nearest(on, node, at, floor, part))], []
    smooths, narrows = attribute(node, "antialias", 0), _ONE
    if smooths and axis.known_scale is None:
        raise not_compiled(node, "over how many elements it smooths rests on open sizes")
    if smooths and (axis.known_scale or 1) < 1:
        narrows = np.float32(axis.known_scale)
    reach = math.ceil((1 if mode == b"linear" else 2) / narrows)
    steps = [np.float32(step) for step in range(1 - reach, reach + 1)]
    far = [on.put("Mul", on.put("Abs", on.put("Sub", step, part)), narrows) for step in steps]
    weights = [_linear(on, each) if mode == b"linear" else _cubic(on, node, each) for each in far]
    whole = [on.put("Add", floor, step) for step in steps]
    if attribute(node, "exclude_outside", 0):
        zero = np.float32(0)
        weights = [
            on.put("Where", is_outside(on, axis, place), zero, weight)
            for place, weight in zip(whole, weights, strict=True)
        ]
    if narrows != 1 or attribute(node, "exclude_outside", 0):
        total = weights[0]
        for weight in weights[1:]:
            total = on.put("Add", total, weight)
        weights = [on.put("Div", weight, total) for weight in weights]
    return [_index(on, axis, place) for place in whole], weights


def _index(on: NodeWriter, axis: OpenAxis, place: str) -> str:
    within = on.put("Min", on.put("Max", place, np.float32(0)), on.put("Sub", axis.given, _ONE))
    return on.put("Cast", within, to=TensorProto.INT64)


def _nearest(on: NodeWriter, node: onnx.NodeProto, at: str, floor: str, part: str) -> str:
    mode = attribute(node, "nearest_mode", b"round_prefer_floor")
    if mode == b"floor":
        return floor
    if mode == b"ceil":
        return on.put("Ceil", at)
    is_up = on.put("Greater" if mode == b"round_prefer_floor" else "GreaterOrEqual", part, _HALF)
    return on.put("Add", floor, on.put("Cast", is_up, to=TensorProto.FLOAT))


def _linear(on: NodeWriter, far: str) -> str:
    return on.put("Max", on.put("Sub", _ONE, far), np.float32(0))


def _cubic(on: NodeWriter, node: onnx.NodeProto, far: str) -> str:
    """The weight of an element so far away."""
    a = np.float32(attribute(node, "cubic_coeff_a", -0.75))

    def curve(*terms: np.floating) -> str:
        total = on.give(np.array(terms[0], np.float32))
        for term in terms[1:]:
            total = on.put("Add", on.put("Mul", total, far), np.float32(term))
        return total

    near, behind = curve(a + 2, -(a + 3), 0 * a, _ONE), curve(a, -5 * a, 8 * a, -4 * a)
    outer = on.put("Where", on.put("Less", far, np.float32(2)), behind, np.float32(0))
    return on.put("Where", on.put("LessOrEqual", far, _ONE), near, outer)
