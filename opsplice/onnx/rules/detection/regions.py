"""Writes RoiAlign as Gather of the four pixels around each point, weighed: IREE does not compile it.

Points lie in a grid in each cell of a region. Along each dim of the images:

    at    = start + cell * step + (point + 1/2) * step / points       [regions, cells * points]
    pixel = floor(at), and the next one;  share = at - floor(at), nothing where the point is outside
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from opsplice.onnx.rules.node_writer import Input, NodeWriter, attribute

_IMAGES = 4  # dims
_HEIGHT, _WIDTH = 2, 3
_CELLS = {_HEIGHT: "output_height", _WIDTH: "output_width"}
# Of the dims [regions, rows, points, columns, points, channels].
_POINTS = [2, 4]


@dataclass(frozen=True)
class _Line:
    """The points along a dim: two pixels for each and their shares, [regions, cells * points].

    cells: how many there are. count: of points in each cell of a region, [regions], and `most` of any, a scalar.
    counted: which of so many points there are, [regions, 1, most].
    """

    pixels: tuple[str, str]
    shares: tuple[str, str]
    cells: int
    count: str
    most: str
    counted: str


def aligned(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """The mean or the largest of the points in each cell of each region."""
    x, regions, batches = node.input
    shape, element, is_mean = on.shape(x), on.element(x), attribute(node, "mode", b"avg") == b"avg"
    if shape is None or len(shape) != _IMAGES or not element:
        return None
    bounds = on.put("Mul", on.cast(regions, TensorProto.FLOAT), _number(attribute(node, "spatial_scale", 1.0)))
    if is_centred := attribute(node, "coordinate_transformation_mode", b"half_pixel") == b"half_pixel":
        bounds = on.put("Sub", bounds, _number(0.5))
    left, top, right, bottom = (on.put("Gather", bounds, column, axis=1) for column in range(4))
    rows = _line(on, node, x, _HEIGHT, top, bottom, is_centred)
    columns = _line(on, node, x, _WIDTH, left, right, is_centred)
    height, width = (on.size(x, axis) for axis in (_HEIGHT, _WIDTH))
    by_pixel = on.put("Transpose", on.cast(x, TensorProto.FLOAT), perm=[0, 2, 3, 1])
    channels = on.put("Slice", on.put("Shape", x), [1], [2])
    pixels = on.put("Reshape", by_pixel, on.put("Concat", [-1], channels, axis=0))
    images = on.put("Unsqueeze", on.put("Mul", on.cast(batches, TensorProto.INT64), height), [1])
    total = ""
    for row, of_row in zip(rows.pixels, rows.shares, strict=True):
        line = on.put("Unsqueeze", on.put("Mul", on.put("Add", images, row), width), [2])
        for column, of_column in zip(columns.pixels, columns.shares, strict=True):
            place = on.put("Add", line, on.put("Unsqueeze", column, [1]))
            share = on.put("Mul", on.put("Unsqueeze", of_row, [2]), on.put("Unsqueeze", of_column, [1]))
            term = on.put("Mul", on.put("Gather", pixels, place), on.put("Unsqueeze", share, [3]))
            total = on.put("Add" if is_mean else "Max", total, term) if total else term
    lines = (each for line in (rows, columns) for each in ([line.cells], on.put("Reshape", line.most, [1])))
    apart: list[Input] = [[0], *lines, channels]
    by_point = on.put("Reshape", total, on.put("Concat", *apart, axis=0))
    if is_mean:
        cells = on.put("ReduceSum", by_point, _POINTS, keepdims=0)
        points = on.put("Max", on.put("Mul", rows.count, columns.count), _number(1))
        made = on.put("Div", cells, on.put("Unsqueeze", points, [1, 2, 3]))
    else:
        made = _largest(on, by_point, rows, columns)
    return on.cast(on.put("Transpose", made, perm=[0, 3, 1, 2]), element)


def _largest(on: NodeWriter, by_point: str, rows: _Line, columns: _Line) -> str:
    """Of the points of each cell; 0 where there are none."""
    counted = on.put(
        "And", on.put("Unsqueeze", rows.counted, [3, 4, 5]), on.put("Unsqueeze", columns.counted, [1, 2, 5])
    )
    by_point = on.put("Where", counted, by_point, _number(float(np.finfo(np.float32).min)))
    largest = on.put("Squeeze", on.largest(by_point, np.array(_POINTS)), _POINTS)
    is_any = on.put("Greater", on.put("Min", rows.count, columns.count), _number(0))
    return on.put("Where", on.put("Unsqueeze", is_any, [1, 2, 3]), largest, _number(0))


def _line(on: NodeWriter, node: onnx.NodeProto, x: str, axis: int, start: str, end: str, is_centred: bool) -> _Line:
    cells, points = attribute(node, _CELLS[axis], 1), attribute(node, "sampling_ratio", 0)
    far = on.put("Sub", end, start)
    far = far if is_centred else on.put("Max", far, _number(1))
    step = on.put("Div", far, _number(cells))
    if points:
        most, count = on.give(np.array(points)), on.put("Add", on.put("Mul", step, _number(0)), _number(points))
    else:
        count = on.put("Ceil", step)
        largest = on.put("Squeeze", on.largest(count, np.array([0])), [0])
        most = on.put("Max", on.put("Cast", largest, to=TensorProto.INT64), 1)  # a size of 0 means another one
    numbers = on.cast(on.count(most), TensorProto.FLOAT)
    wide_step, wide_count = (on.put("Unsqueeze", each, [1, 2]) for each in (step, count))
    place = on.put("Div", on.put("Mul", on.put("Add", numbers, _number(0.5)), wide_step), wide_count)
    corners = on.put("Mul", np.arange(cells, dtype=np.float32).reshape(-1, 1), wide_step)
    at = on.put("Add", on.put("Add", on.put("Unsqueeze", start, [1, 2]), corners), place)
    size = on.cast(on.size(x, axis), TensorProto.FLOAT)
    is_inside = on.put("And", on.put("GreaterOrEqual", at, _number(-1)), on.put("LessOrEqual", at, size))
    counted = on.put("Less", numbers, wide_count)
    is_inside = on.put("And", is_inside, counted)
    last = on.put("Sub", size, _number(1))
    at = on.put("Min", on.put("Max", at, _number(0)), last)
    pixel = on.put("Floor", at)
    share = on.put("Sub", at, pixel)
    shares = [on.put("Where", is_inside, each, _number(0)) for each in (on.put("Sub", _number(1), share), share)]
    pixels = [on.put("Cast", each, to=TensorProto.INT64) for each in (pixel, _next(on, pixel, last))]
    flat = [on.put("Flatten", each, axis=1) for each in (*pixels, *shares)]
    return _Line((flat[0], flat[1]), (flat[2], flat[3]), cells, count, most, counted)


def _next(on: NodeWriter, pixel: str, last: str) -> str:
    return on.put("Min", on.put("Add", pixel, _number(1)), last)


def _number(value: float) -> np.ndarray:
    return np.array(value, np.float32)
