"""Rules for windows over images: pooling.

How many windows there are, and where the last one ends, is known here, where sizes are fixed:

    ceil_mode    =>  pads that the windows fill exactly
    AveragePool  =>  one that counts all, times a constant for each place:  taps / those that count
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from opsplice.common.errors import OpspliceError
from opsplice.onnx.rules.convolutions import VOLUME, steps_of
from opsplice.onnx.rules.node_writer import (
    Input,
    NodeWriter,
    attribute,
    attributes,
    wanted_result,
    wrongly_computed,
)

# The version in which windows that begin behind the image are no longer counted.
_COUNTS_WINDOWS = 22
# What a node says whose places are those in each image.
_IN_EACH = "places in each image"
# The taps of a window, above which its dims are done one after the other: of 1280 by 1280 few lie in an image.
_MOST_TAPS = 1024
# What a node says of its windows, a number for each dim.
_BY_DIM = ("kernel_shape", "strides", "dilations")


@dataclass(frozen=True)
class _Windows:
    """Those along one dim of an image: taps, `apart` elements apart, every `step` elements.

    before, after: what lies around the image, and `end` what the windows need of it behind. Where one alone begins with
    the image, `taps` are those inside: EfficientNet's last pool has 1280 for each of 7 elements. `named`: all of them.
    """

    size: int
    taps: int
    step: int
    apart: int
    before: int
    after: int
    end: int
    named: int

    def share(self, are_counted: bool) -> np.ndarray:
        """For each window, its taps as a part of those that count: inside of the image, or of what lies around, too."""
        reach = self.apart * (self.taps - 1)
        starts = np.arange(0, max(self.size + self.before + self.end - reach, 0), self.step) - self.before
        places = starts[:, None] + self.apart * np.arange(self.named)
        low, high = (-self.before, self.size + self.after) if are_counted else (0, self.size)
        with np.errstate(divide="ignore"):
            return self.taps / ((places >= low) & (places < high)).sum(1)


def _windows(on: NodeWriter, node: onnx.NodeProto) -> list[_Windows] | None:
    """The windows along each dim; None if a size is not fixed."""
    kernel = attribute(node, "kernel_shape", [])
    sizes = (on.shape(node.input[0]) or [])[2:]
    if None in sizes or len(sizes) != len(kernel):
        return None
    automatic = attribute(node, "auto_pad", b"NOTSET")
    if automatic.startswith(b"SAME"):  # as many windows as steps, whatever ceil_mode says
        return None
    pads = attribute(node, "pads", [0] * 2 * len(kernel)) if automatic == b"NOTSET" else [0] * 2 * len(kernel)
    steps, apart = steps_of(node, len(kernel))
    found = []
    for axis, (known, taps, step, dilation) in enumerate(zip(sizes, kernel, steps, apart, strict=True)):
        size, reach = int(known or 0), dilation * (taps - 1) + 1
        before, after = pads[axis], pads[axis + len(kernel)]
        end, inside = after, taps
        if attribute(node, "ceil_mode", 0):
            last = math.ceil((size + before + after - reach) / step) * step
            if last >= size + before:  # windows begin inside, or in what lies before
                last -= step
                _check_version(on, node)
            end = max(last + reach - size - before, 0)
            reached = math.ceil(size / dilation)
            if last == before == 0 < size < reach and size - dilation * (reached - 1) <= step:
                end, inside = 0, reached
        found.append(_Windows(size, inside, step, dilation, before, after, end, taps))
    return found


def _form(windows: list[_Windows]) -> dict[str, list[int]]:
    """The windows as attributes."""
    return {
        "kernel_shape": [each.taps for each in windows],
        "strides": [each.step for each in windows],
        "dilations": [each.apart for each in windows],
        "pads": [*(each.before for each in windows), *(each.end for each in windows)],
    }


@dataclass(frozen=True)
class _Around:
    """What windows need around images of open sizes, dim by dim, as values; `after` lies there, `end` is read."""

    sizes: str
    before: Input
    after: Input
    end: Input

    def padded(self, on: NodeWriter, x: str, number: str, before: Input, end: Input) -> str:
        """Images with a number around."""
        return on.put("Pad", x, on.put("Concat", [0, 0], before, [0, 0], end, axis=0), number)


def _around(on: NodeWriter, node: onnx.NodeProto) -> _Around | None:
    """Where IREE puts windows elsewhere: by `auto_pad` every few elements, and those that `ceil_mode` adds.

    And those of MaxPool with more around at one end than at the other.
    """
    kernel, automatic = attribute(node, "kernel_shape", []), attribute(node, "auto_pad", b"NOTSET")
    steps, apart = map(np.array, steps_of(node, len(kernel)))
    is_same = automatic.startswith(b"SAME")
    is_open = None in (on.shape(node.input[0]) or [])[2:]
    reach = apart * (np.array(kernel) - 1) + 1
    pads = attribute(node, "pads", []) if automatic == b"NOTSET" else []
    front, behind = np.array(pads or [0] * 2 * len(kernel)).reshape(2, -1)
    is_lopsided = (reach % 2 == 0).any() if is_same else (front != behind).any()
    is_elsewhere = (is_same and max(steps) > 1) or _rounds_up(node) or (is_lopsided and node.op_type == "MaxPool")
    if not is_open or not is_elsewhere:
        return None
    sizes = on.put("Slice", on.put("Shape", node.input[0]), [2], [2 + len(kernel)])
    if is_same:
        last = on.put("Mul", on.put("Div", on.put("Sub", sizes, 1), steps), steps)
        missing = on.put("Max", on.put("Sub", on.put("Add", last, reach), sizes), 0)
        less = on.put("Div", missing, 2)
        more = on.put("Sub", missing, less)
        before, after = (less, more) if automatic == b"SAME_UPPER" else (more, less)
        return _Around(sizes, before, after, after)
    if not _rounds_up(node):
        return _Around(sizes, front, behind, behind)
    last = on.put("Mul", on.put("Div", on.put("Add", sizes, front + behind - reach + steps - 1), steps), steps)
    is_behind = on.put("GreaterOrEqual", last, on.put("Add", sizes, front))  # it begins behind the image
    last = on.put("Sub", last, on.put("Mul", on.put("Cast", is_behind, to=TensorProto.INT64), steps))
    return _Around(sizes, front, behind, on.put("Max", on.put("Sub", on.put("Add", last, reach - front), sizes), 0))


def _placed(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of windows over what has all around that they need."""
    return {name: given for name, given in attributes(node).items() if name not in ("auto_pad", "ceil_mode", "pads")}


def _check_version(on: NodeWriter, node: onnx.NodeProto) -> None:
    """Refuse what older versions of ONNX's operators give another size than runtimes do."""
    if on.version < _COUNTS_WINDOWS:
        raise OpspliceError(
            f"node '{node.name}' ({node.op_type}) has a window that begins behind the image, which version "
            f"{on.version} of ONNX's operators counts, and runtimes do not",
            hint=f"bring the model to version {_COUNTS_WINDOWS}: onnx.version_converter",
        )


def _rounds_up(node: onnx.NodeProto) -> bool:
    return bool(attribute(node, "ceil_mode", 0)) and not attribute(node, "auto_pad", b"").startswith(b"SAME")


def average_pool(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Where zeros around do not count, IREE computes for each element how many there are, and it counts what lies
    behind them where `ceil_mode` leads there."""
    are_counted, element = attribute(node, "count_include_pad", 0), on.element(node.input[0])
    windows = _windows(on, node) if element else None
    is_slow = not are_counted and any(attribute(node, "pads", [])) and element == TensorProto.FLOAT
    if element and (around := _around(on, node)) is not None:
        return _open_average(on, node, around)
    if windows is None or not (_rounds_up(node) or is_slow):
        return None
    shares = np.ones((), np.float64)
    for each in windows:
        shares = np.multiply.outer(shares, each.share(bool(are_counted)))
    if not np.isfinite(shares).all():
        return None
    mean = on.put("AveragePool", node.input[0], count_include_pad=1, **_form(windows))
    if (shares == 1).all():
        return mean
    return on.put("Mul", mean, shares[None, None].astype(helper.tensor_dtype_to_np_dtype(element)))


def _open_average(on: NodeWriter, node: onnx.NodeProto, around: _Around) -> str:
    """The means of windows, divided by those of ones where there is a number that counts."""
    x, form = node.input[0], _placed(node) | {"count_include_pad": 1}
    one = helper.make_tensor("", on.element(x), [1], [1.0])
    mean = _padded_mean(on, x, around, around.before, around.end, form)
    sizes, before, end = around.sizes, around.before, around.end
    if attribute(node, "count_include_pad", 0):
        if around.after is end:
            return mean
        sizes = on.put("Add", on.put("Add", sizes, before), around.after)
        before, end = [0] * len(form["kernel_shape"]), on.put("Max", on.put("Sub", end, around.after), 0)
    ones = on.put("ConstantOfShape", on.put("Concat", [1, 1], sizes, axis=0), value=one)
    share = _padded_mean(on, ones, around, before, end, form)
    # IREE takes open sizes of two tensors for equal: the shares must not have dims for images and channels.
    places = on.put("Slice", on.put("Shape", share), [2], [2 + len(form["kernel_shape"])])
    return on.put("Mul", mean, on.put("Reciprocal", on.put("Reshape", share, places)))


def _padded_mean(on: NodeWriter, x: str, around: _Around, before: Input, end: Input, form: Mapping[str, Any]) -> str:
    """Means of windows with zeros around, of large windows dim by dim."""
    taps, zero = form["kernel_shape"], on.number(0, x)
    if math.prod(taps) <= _MOST_TAPS:
        return on.put("AveragePool", around.padded(on, x, zero, before, end), **form)
    for axis in range(len(taps)):
        here = (np.arange(len(taps)) == axis).astype(np.int64)
        alone = {name: np.where(here, form.get(name, 1), 1).tolist() for name in _BY_DIM}
        padded = around.padded(on, x, zero, on.put("Mul", before, here), on.put("Mul", end, here))
        x = on.put("AveragePool", padded, count_include_pad=1, **alone)
    return x


def lp_pool(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Roots of means of powers, times the taps: IREE lowers none whose windows are placed by `auto_pad` or dilated."""
    placed = attribute(node, "auto_pad", b"NOTSET") != b"NOTSET" or max(attribute(node, "dilations", [1])) > 1
    windows = _windows(on, node) if _rounds_up(node) else []
    if not placed or windows is None or not on.element(node.input[0]):
        return None
    form, power = _form(windows) if windows else attributes(node), attribute(node, "p", 2)
    form.pop("p", None)
    taps = math.prod(form["kernel_shape"])
    powers = on.put("Pow", on.put("Abs", node.input[0]), on.number(power, node.input[0]))
    mean = on.put("AveragePool", powers, count_include_pad=1, **form)
    sums = on.put("Mul", mean, on.number(taps, node.input[0]))
    return on.put("Pow", sums, on.number(1 / power, node.input[0]))


def max_pool(on: NodeWriter, node: onnx.NodeProto) -> list[str] | None:
    """Places count the elements of all images, which IREE counts in each; bytes are floats meanwhile."""
    x, element, rank = node.input[0], on.element(node.input[0]), len(on.shape(node.input[0]) or ())
    windows, has_places = _windows(on, node), wanted_result(node, 1) and node.doc_string != _IN_EACH
    if element in (TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64):
        raise wrongly_computed(node, "it takes large numbers without a sign for negative ones")
    # IREE takes bytes without a sign for those with one, and its compiler crashes at volumes of others.
    is_byte = element == TensorProto.UINT8 or (element == TensorProto.INT8 and rank == VOLUME)
    if (around := _around(on, node)) is not None:
        if wanted_result(node, 1):
            raise wrongly_computed(node, "of open sizes, its windows lie elsewhere, and places count from there")
        kind = TensorProto.FLOAT if element in (TensorProto.UINT8, TensorProto.INT8) else element
        lowest = on.give(np.array(-np.inf, helper.tensor_dtype_to_np_dtype(kind)))
        padded = around.padded(on, on.cast(x, kind), lowest, around.before, around.end)
        largest = on.put("MaxPool", padded, **_placed(node))
        return [largest if kind == element else on.put("Cast", largest, to=element)]
    if not (is_byte or has_places or _rounds_up(node)):
        return None
    form = attributes(node)
    if windows is not None:
        form = {name: given for name, given in form.items() if name not in ("auto_pad", "ceil_mode")} | _form(windows)
    count = 1 + wanted_result(node, 1)
    made = on.put_all("MaxPool", count, on.cast(x, TensorProto.FLOAT) if is_byte else x, **form, doc_string=_IN_EACH)
    if is_byte:
        made[0] = on.put("Cast", made[0], to=element)
    if has_places:
        made[1] = _of_all_images(on, node, made[1])
    return made


def _of_all_images(on: NodeWriter, node: onnx.NodeProto, places: str) -> str:
    """Places in each image as places in the whole tensor."""
    shape = on.shape(node.input[0])
    if shape is None or None in shape[1:] or attribute(node, "storage_order", 0):
        raise wrongly_computed(node, "it counts the places of maxima in each image, and row by row")
    channels, *sizes = (int(size or 0) for size in shape[1:])
    ones = [1] * len(sizes)
    size = math.prod(sizes)
    by_channel = on.give((np.arange(channels) * size).reshape(1, channels, *ones))
    if shape[0] == 1:
        return places if channels == 1 else on.put("Add", places, by_channel)
    batches = on.put("Reshape", on.places(node.input[0], 0), [-1, 1, *ones])
    starts = on.put("Mul", batches, channels * size)
    return on.put("Add", on.put("Add", places, by_channel), starts)
