"""Writes Resize as elements that are gathered along each dim and weighed.

IREE lowers few of its forms. Which elements a place takes, and with which weights, says `resized_places`:

    nearest 1 element, linear 2, cubic 4:  y = the sum over t of weights[t] * Gather(x, places[t])

GridSample gathers elements by their places. DepthToSpace and SpaceToDepth are reshapes and transposes.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from opsplice.onnx.rules.node_writer import NodeWriter, attribute, input_name
from opsplice.onnx.rules.resized_places import (
    HALF,
    WHOLE,
    Axis,
    Numbers,
    cast,
    computed,
    is_outside,
    positions,
    scaled,
    sized,
    taps,
)
from opsplice.onnx.rules.valued_sizes import is_size_of, number_at

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_BYTES = (TensorProto.INT8, TensorProto.UINT8)
# What GridSample may find around an image.
_AROUND = (b"zeros", b"border", b"reflection")
# Which elements it takes along each dim, from the one before a place on.
_CUBIC = (b"cubic", b"bicubic")
_TAPS = {b"nearest": (0,), **dict.fromkeys((b"linear", b"bilinear"), (0, 1)), **dict.fromkeys(_CUBIC, (-1, 0, 1, 2))}


def resize(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """None for what is left to IREE: integers that are weighed, but for linear bytes."""
    axes = _axes(on, node)
    if axes is None:
        return None
    repeated = _repeated(on, node, axes)
    return _weighed(on, node, axes) if repeated is None else repeated


def _repeated(on: NodeWriter, node: onnx.NodeProto, axes: list[Axis]) -> str | None:
    """By the nearest element and whole factors: each element repeated, where IREE computes where to read."""
    given = on.shape(node.input[0]) or []
    scales = {axis.number: axis.scale for axis in axes}
    if attribute(node, "mode", b"nearest") != b"nearest" or any(isinstance(scale, str) for scale in scales.values()):
        return None
    factors = [int(scales.get(number, 1)) for number in range(len(given))]
    made = [-1 if size is None else size * factor for size, factor in zip(given, factors, strict=True)]
    mode = attribute(node, "coordinate_transformation_mode", b"half_pixel")
    rounding = attribute(node, "nearest_mode", b"round_prefer_floor")
    centred = mode in (b"half_pixel", b"half_pixel_symmetric") and rounding.startswith(b"round")
    down = rounding == b"floor" or (rounding == b"round_prefer_floor" and max(factors, default=1) <= 2)
    from_start = mode == b"asymmetric" and down
    is_whole = 0 not in factors and all(factors[number] == scale for number, scale in scales.items())
    if not (given and is_whole and (centred or from_start)) or made.count(-1) > 1:
        return None
    spread = on.put("Unsqueeze", node.input[0], np.arange(1, 2 * len(factors), 2))
    repeated = on.put("Expand", spread, [n for factor in factors for n in (1, factor)])
    return on.put("Reshape", repeated, made)


def _weighed(on: NodeWriter, node: onnx.NodeProto, axes: list[Axis]) -> str | None:
    """Each element of the result as those that it is made of, dim by dim."""
    mode = attribute(node, "mode", b"nearest")
    element = on.element(node.input[0])
    is_nearest = mode == b"nearest"
    # Sums of bytes are cut off to whole numbers, as in onnxruntime. Cubic ones may be no bytes.
    is_known = is_nearest or element in _FLOATS or (element in _BYTES and mode == b"linear")
    if not is_known or (_smooths(node) and element not in _FLOATS):
        return None
    y = node.input[0] if is_nearest else on.cast(node.input[0], TensorProto.FLOAT)
    outside = ""
    crops = attribute(node, "coordinate_transformation_mode", b"") == b"tf_crop_and_resize"
    for axis in sorted(axes, key=lambda each: min(each.ratio, 1)):  # those that shrink first
        behind = len(on.shape(node.input[0]) or ()) - axis.number - 1
        at = positions(on, node, axis)
        places, weights = taps(on, node, axis, at)
        if crops:
            is_out = _beside(on, is_outside(on, axis, at), behind)
            outside = on.put("Or", outside, is_out) if outside else is_out
        taken = [on.put("Gather", y, each, axis=axis.number) for each in places]
        if weights:
            taken = [on.put("Mul", part, _beside(on, each, behind)) for part, each in zip(taken, weights, strict=True)]
        y = taken[0]
        for part in taken[1:]:
            y = on.put("Add", y, part)
    if element in _BYTES and not is_nearest:  # IREE takes floats above 127 for no bytes
        y = on.put("Cast", y, to=TensorProto.INT32)
    y = y if is_nearest or element == TensorProto.FLOAT else on.put("Cast", y, to=element)
    if not outside:
        return y
    return on.put("Where", outside, on.number(attribute(node, "extrapolation_value", 0.0), node.input[0]), y)


def _beside(on: NodeWriter, numbers: Numbers, behind: int) -> str:
    """One for each place of a dim, with so many dims behind it."""
    sizes = [-1, *[1] * behind]
    return on.put("Reshape", numbers, sizes) if isinstance(numbers, str) else on.give(np.reshape(numbers, sizes))


def _axes(on: NodeWriter, node: onnx.NodeProto) -> list[Axis] | None:
    """The dims that are resized; None if something is not known."""
    x, shape = node.input[0], on.shape(node.input[0])
    named = [input_name(node, number) for number in (1, 2, 3)]
    roi, scales, sizes = (on.constant(name) for name in named)
    if shape is None:
        return None
    axes = [axis % len(shape) for axis in attribute(node, "axes", range(len(shape)))]
    crops = attribute(node, "coordinate_transformation_mode", b"") == b"tf_crop_and_resize"
    if crops and (on.shape(named[0]) != [2 * len(axes)] or 0 in shape):
        return None
    by_scale = named[1] != "" and (scales is None or scales.size > 0)
    if (by_scale and scales is not None and scales.size != len(axes)) or not (by_scale or named[2]):
        return None
    policy = attribute(node, "keep_aspect_ratio_policy", b"stretch")
    if policy != b"stretch" and not by_scale:
        return _of_one_scale(on, node, axes, sizes)
    found: list[Axis] = []
    known, name = (scales, named[1]) if by_scale else (sizes, named[2])
    for index, axis in enumerate(axes):
        if shape[axis] == 0:
            return None
        part = WHOLE
        if crops:
            places = (index, index + len(axes))
            ends = [on.put("Gather", named[0], each) if roi is None else roi[each] for each in places]
            part = cast(on, ends[0], TensorProto.FLOAT), cast(on, ends[1], TensorProto.FLOAT)
        wanted = number_at(on, name, index) if known is None else known[index]
        if wanted is not None:
            stays = wanted == (1 if by_scale else shape[axis])
        else:
            stays = not by_scale and is_size_of(on, name, index, x, axis)
        if stays and part == WHOLE:
            continue
        size = on.size(x, axis) if shape[axis] is None else np.int64(shape[axis] or 0)
        to = on.put("Gather", name, index) if wanted is None else wanted
        found.append((scaled if by_scale else sized)(on, axis, size, to, part))
    return found


def _of_one_scale(on: NodeWriter, node: onnx.NodeProto, axes: list[int], sizes: np.ndarray | None) -> list[Axis] | None:
    """Dims that keep their ratios, in no larger or no smaller sizes than those that are wanted."""
    shape, scales = on.shape(node.input[0]) or [], []
    if any(shape[axis] == 0 for axis in axes):
        return None
    given = [on.size(node.input[0], axis) if shape[axis] is None else np.int64(shape[axis] or 0) for axis in axes]
    given = [cast(on, size, TensorProto.FLOAT) for size in given]
    for index, size in enumerate(given):
        wanted = on.put("Gather", node.input[3], index) if sizes is None else sizes[index]
        scales.append(computed(on, "Div", cast(on, wanted, TensorProto.FLOAT), size))
    kind = "Min" if attribute(node, "keep_aspect_ratio_policy", b"") == b"not_larger" else "Max"
    scale = functools.reduce(lambda one, other: computed(on, kind, one, other), scales)
    made = [computed(on, "Floor", computed(on, "Add", computed(on, "Mul", size, scale), HALF)) for size in given]
    return [
        Axis(axis, size, new, cast(on, new, TensorProto.INT64), scale, WHOLE, by_size=False)
        for axis, size, new in zip(axes, given, made, strict=True)
    ]


def _smooths(node: onnx.NodeProto) -> bool:
    """Whether elements are weighed over as much as one of the result covers."""
    return bool(attribute(node, "antialias", 0)) and attribute(node, "mode", b"nearest") != b"nearest"


# ---- pixels from anywhere --------------------------------------------------------------------------------------------


def affine_grid(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """The places of pixels, moved by a matrix for each image: a sum of columns times places, the last dim first."""
    matrices, sizes = node.input
    shape, element = on.shape(sizes), on.element(matrices)
    if not shape or shape[0] is None:
        return None
    dims = shape[0] - 2
    one, two = on.number(1, matrices), on.number(2, matrices)
    columns = [
        on.put("Unsqueeze", on.put("Gather", matrices, column, axis=2), np.arange(1, 1 + dims))
        for column in range(dims + 1)
    ]
    total = columns[-1]
    for column, axis in enumerate(reversed(range(dims))):
        size = on.put("Gather", sizes, axis + 2)
        numbers, extent = on.cast(on.put("Range", 0, size, 1), element), on.cast(size, element)
        if attribute(node, "align_corners", 0):
            step = on.put("Div", two, on.put("Max", on.put("Sub", extent, one), one))
            places = on.put("Sub", on.put("Mul", numbers, step), one)
        else:
            places = on.put("Sub", on.put("Div", on.put("Add", on.put("Mul", numbers, two), one), extent), one)
        along = on.put("Unsqueeze", places, [0, *(1 + each for each in range(dims + 1) if each != axis)])
        total = on.put("Add", total, on.put("Mul", columns[column], along))
    return total


def grid_sample(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Elements by their places: IREE takes the wrong ones at ties, outside, and where images are not square.

    Places name the last dim of an image first.
    """
    shape, places = on.shape(node.input[0]), on.shape(node.input[1])
    mode, padding = attribute(node, "mode", b"linear"), attribute(node, "padding_mode", b"zeros")
    if shape is None or places is None or mode not in _TAPS or padding not in _AROUND:
        return None
    element = on.element(node.input[0])
    kind = TensorProto.DOUBLE if element == TensorProto.DOUBLE else TensorProto.FLOAT
    real = np.float64 if kind == TensorProto.DOUBLE else np.float32
    image, around = on.put("Shape", node.input[0]), on.put("Shape", node.input[1])
    count, channels, *spatial = (on.put("Gather", image, [axis]) for axis in range(len(shape)))
    made_sizes = [on.put("Gather", around, [axis]) for axis in range(1, len(shape) - 1)]
    extents, dims = spatial[::-1], len(spatial)
    corners = attribute(node, "align_corners", 0)
    one, two = np.array(1, real), np.array(2, real)
    sizes = [size for size in reversed(shape[2:]) if size is not None]
    if len(sizes) < dims:
        whole = on.put("Cast", on.put("Concat", *extents, axis=0), to=kind)
        last = on.put("Sub", whole, one)
        row_starts = on.put("Concat", [1], *(_total(on, extents[:number]) for number in range(1, dims)), axis=0)
        span = on.put("Max", last, one) if corners else whole
    else:
        known = np.array(sizes, real)
        whole, last, row_starts = (on.give(each) for each in (known, known - 1, np.cumprod([1, *sizes[:-1]])))
        span = on.give(np.maximum(known - 1, 1) if corners else known)
    above = on.put("Add", on.cast(node.input[1], kind), one)
    if corners:  # in the order of PyTorch and onnxruntime, whose ties come from rounding
        place = on.put("Mul", on.put("Div", above, two), last)
    else:
        place = on.put("Div", on.put("Sub", on.put("Mul", above, whole), one), two)
    zero = on.give(np.array(0, real))
    first = on.give(np.array(0 if corners else -0.5, real))
    is_dim = [on.give(each) for each in np.eye(dims, dtype=bool)]

    def within(at: str) -> str:
        return on.put("Min", on.put("Max", at, zero), last)

    def mirrored(at: str) -> str:
        far = on.put("Mod", on.put("Abs", on.put("Sub", at, first)), on.put("Add", span, span), fmod=1)
        return on.put("Add", first, on.put("Min", far, on.put("Sub", on.put("Add", span, span), far)))

    def product(numbers: str) -> str:
        """Of the numbers for each place, for all channels."""
        parts = [on.put("Gather", numbers, dim, axis=-1) for dim in range(dims)]
        return on.put("Unsqueeze", _total(on, parts), [1])

    def taken(at: str) -> str:
        if padding == b"reflection":
            at = mirrored(at)
        inside = within(at)
        steps = on.put("Mul", on.put("Cast", inside, to=TensorProto.INT64), row_starts)  # floats are too coarse
        index = on.put("Reshape", on.put("ReduceSum", steps, [-1], keepdims=0), line)
        wide = on.put("Add", index, for_each)  # spread over the channels
        values = on.put("Reshape", on.put("GatherElements", flat, wide, axis=2), made)
        if padding != b"zeros":
            return values
        kept = on.put("Cast", product(on.put("Cast", on.put("Equal", at, inside), to=kind)), to=TensorProto.BOOL)
        return on.put("Where", kept, values, nothing)

    held = element if mode == b"nearest" else kind
    made = on.put("Concat", count, channels, *made_sizes, axis=0)
    line = on.put("Concat", count, [1], _total(on, made_sizes), axis=0)
    lines = on.put("Concat", count, channels, _total(on, spatial), axis=0)
    flat = on.put("Reshape", on.cast(node.input[0], held), lines)
    none = helper.make_tensor("", TensorProto.INT64, [1], [0])
    for_each = on.put("ConstantOfShape", on.put("Concat", [1], channels, [1], axis=0), value=none)
    nothing = np.zeros(1, helper.tensor_dtype_to_np_dtype(held))
    if mode == b"nearest":  # of ties outside, before they are mirrored
        return taken(on.put("Round", place))
    if padding == b"reflection":
        place = mirrored(place)
    if padding != b"zeros" and mode not in _CUBIC:
        place = within(place)
    floor = on.put("Floor", place)
    above = on.put("Sub", place, floor)
    taps, total = _TAPS[mode], ""
    ats = [on.put("Add", floor, np.array(tap, real)) for tap in taps]
    shares = [_share(on, on.put("Abs", on.put("Sub", above, np.array(tap, real))), tap, mode, real) for tap in taps]
    for chosen in itertools.product(range(len(taps)), repeat=dims):
        at, share = (_chosen(on, is_dim, [each[tap] for tap in chosen]) for each in (ats, shares))
        term = on.put("Mul", taken(at), product(share))
        total = on.put("Add", total, term) if total else term
    return on.cast(total, element)


def _total(on: NodeWriter, factors: list[str]) -> str:
    return functools.reduce(lambda one, other: on.put("Mul", one, other), factors)


def _chosen(on: NodeWriter, is_dim: list[str], values: list[str]) -> str:
    """Of each of some values the numbers of its dim."""
    made = values[-1]
    for holds, value in zip(is_dim[-2::-1], values[-2::-1], strict=True):
        made = on.put("Where", holds, value, made)
    return made


def _share(on: NodeWriter, far: str, tap: int, mode: bytes, real: type[np.floating[Any]]) -> str:
    """What the element of a tap weighs, which lies so far from a place, along each dim."""
    cubic = [1.25, -2.25, 0.0, 1.0] if tap in (0, 1) else [-0.75, 3.75, -6.0, 3.0]  # behind 1 another curve
    first, *terms = [np.array(term, real) for term in (cubic if mode in _CUBIC else [-1.0, 1.0])]
    total = on.give(first)
    for term in terms:
        total = on.put("Add", on.put("Mul", total, far), term)
    return total


# ---- pixels as channels ----------------------------------------------------------------------------------------------


def depth_to_space(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """With the channels of a pixel apart (CRD): IREE takes those of other channels."""
    x, block = node.input[0], attribute(node, "blocksize", 0)
    if attribute(node, "mode", b"DCR") == b"DCR":
        return None
    channels, sizes = on.put("Div", on.put("Shape", x, start=1, end=2), block**2), on.put("Shape", x, start=2)
    apart = on.put("Reshape", x, on.put("Concat", [0], channels, [block, block], sizes, axis=0))
    turned = on.put("Transpose", apart, perm=(0, 1, 4, 2, 5, 3))
    return on.put("Reshape", turned, on.put("Concat", [0], channels, on.put("Mul", sizes, block), axis=0))


def space_to_depth(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """With the channels of a pixel apart (CRD), for which IREE puts them side by side."""
    x, block = node.input[0], attribute(node, "blocksize", 0)
    if attribute(node, "mode", b"DCR") == b"DCR":
        return None
    channels, sizes = on.put("Shape", x, start=1, end=2), on.put("Div", on.put("Shape", x, start=2), block)
    height, width = (on.put("Gather", sizes, [place]) for place in (0, 1))
    apart = on.put("Reshape", x, on.put("Concat", [0], channels, height, [block], width, [block], axis=0))
    turned = on.put("Transpose", apart, perm=(0, 1, 3, 5, 2, 4))
    return on.put("Reshape", turned, on.put("Concat", [0], on.put("Mul", channels, block**2), sizes, axis=0))
