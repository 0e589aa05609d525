"""Rules for convolutions and transposed ones, and where the zeros around images are."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import helper

from opsplice.onnx.model_file import replace, sizes_of
from opsplice.onnx.rules.node_writer import FLOATS, NodeWriter, attribute, attributes, input_name, not_compiled

IMAGE, VOLUME = 4, 5  # dims with batches and channels
LINEAR = 20  # the version from which on GridSample says so


def zeros_around(node: onnx.NodeProto, sizes: list[int | None], taps: list[int | None]) -> list[int] | None:
    """A convolution's pads as numbers, wherever `auto_pad` says that they are; None where that needs open sizes."""
    dims, way = len(sizes), attribute(node, "auto_pad", b"NOTSET")
    if not way.startswith(b"SAME"):
        return attribute(node, "pads", [0] * 2 * dims) if way == b"NOTSET" else [0] * 2 * dims
    steps, apart = steps_of(node, dims)
    missing = []
    for size, tap, step, dilation in zip(sizes, taps, steps, apart, strict=True):
        if tap is None or (size is None and step > 1):
            return None
        begin = -1 if size is None else (size - 1) // step * step - size  # of the last window, from the end
        missing.append(max(begin + dilation * (tap - 1) + 1, 0))
    return at_both_ends(missing, way)


def say_pads(graph: onnx.GraphProto) -> None:
    """Write as numbers the pads of transposed convolutions that make up for `output_padding`: ONNX infers without it.

    Of filters whose sizes are said by the node or known before anything is inferred.
    """
    sizes = {value.name: sizes_of(value.type.tensor_type) for value in graph.input}
    sizes |= {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    for node in (each for each in graph.node if each.op_type == "ConvTranspose"):
        form = attributes(node)
        way, more = form.get("auto_pad", b"NOTSET"), form.get("output_padding", [])
        kernel = form.get("kernel_shape") or [size or 0 for size in (sizes.get(node.input[1]) or [])[2:]]
        if not kernel or 0 in kernel or not any(more) or not way.startswith(b"SAME") or "output_shape" in form:
            continue
        steps, apart = steps_of(node, len(kernel))
        pads = helper.make_attribute("pads", _pads_of_steps(_reach(kernel, apart), more, steps, way))
        replace(node.attribute, [each for each in node.attribute if each.name not in ("auto_pad", "pads")])
        node.attribute.append(pads)


def _pads_of_steps(reach: list[int], more: list[int], steps: list[int], way: bytes) -> list[int]:
    """The pads that leave a transposed convolution as many places as steps, whatever the size of its image."""
    over = [end + added - step for end, added, step in zip(reach, more, steps, strict=True)]
    return at_both_ends([max(each, 0) for each in over], way)


def _reach(kernel: list[int], apart: list[int]) -> list[int]:
    """How far a filter reaches along each dim."""
    return [step * (size - 1) + 1 for size, step in zip(kernel, apart, strict=True)]


def steps_of(node: onnx.NodeProto, dims: int) -> tuple[list[int], list[int]]:
    """The strides of windows and their dilations."""
    return attribute(node, "strides", [1] * dims), attribute(node, "dilations", [1] * dims)


def at_both_ends(pads: list[int], way: bytes) -> list[int]:
    """What lies around each dim, half before it and half behind; `way` says where the larger half is."""
    less = [each // 2 for each in pads]
    more = [each - half for each, half in zip(pads, less, strict=True)]
    return [*less, *more] if way == b"SAME_UPPER" else [*more, *less]


def conv_transpose(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """What IREE does not take: pads that differ at both ends, a convolution of each channel apart, and zeros around.

    IREE takes these for those that it spreads an image in, and misplaces it. They become -0.
    """
    if (parted := _parted_zeros(on, node)) is not None:
        return parted
    cut = _cut_transpose(on, node)
    return _spread_transpose(on, node) if cut is None else cut


def _parted_zeros(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    padded, element = on.producer(node.input[0]), on.element(node.input[0])
    if (
        padded is None
        or padded.op_type != "Pad"
        or attribute(padded, "mode", b"constant") != b"constant"
        or element not in FLOATS
    ):
        return None
    value = on.constant(input_name(padded, 2)) if input_name(padded, 2) else np.array(0.0)
    if value is None or value.any() or np.signbit(value).any():
        return None
    zero = on.give(np.array(-0.0, helper.tensor_dtype_to_np_dtype(element)))
    around = on.put("Pad", *padded.input[:2], zero, *padded.input[3:], **attributes(padded))
    return on.put("ConvTranspose", around, *node.input[1:], **attributes(node))


def _cut_transpose(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Without pads, of which the result is cut, and zeros put behind it where it is to be larger."""
    shape, weight = (on.shape(name) for name in node.input[:2])
    form = attributes(node)
    automatic, given = form.pop("auto_pad", b"NOTSET"), form.pop("output_shape", [])
    if not weight or not shape or None in weight:
        return None
    dims = len(weight) - 2
    pads, more = form.pop("pads", [0] * 2 * dims), form.pop("output_padding", [0] * dims)
    strides, apart = (form.get(name, [1] * dims) for name in ("strides", "dilations"))
    reach = _reach([size or 0 for size in weight[2:]], apart)
    if given and None in shape[2:]:
        whole = on.put("ConvTranspose", *node.input[:2], **form)
        return _with_bias(on, node, _sized(on, whole, np.array(given[-dims:]), np.array(more), automatic))
    if given:
        sizes = [int(size or 0) for size in shape[2:]]
        ends = [step * (size - 1) + end for step, size, end in zip(strides, sizes, reach, strict=True)]
        over = [end + added - size for end, added, size in zip(ends, more, given[-dims:], strict=True)]
        pads = at_both_ends(over, automatic)
    elif automatic.startswith(b"SAME"):
        pads = _pads_of_steps(reach, more, strides, automatic)
    elif automatic == b"VALID":
        pads = [0] * 2 * dims
    if pads[:dims] == pads[dims:] and automatic == b"NOTSET" and not given:
        return None
    around = [-pad for pad in pads[:dims]], [added - pad for pad, added in zip(pads[dims:], more, strict=True)]
    whole = on.put("ConvTranspose", *node.input[:2], **form)
    return _with_bias(on, node, on.put("Pad", whole, [0, 0, *around[0], 0, 0, *around[1]]))


def _sized(on: NodeWriter, whole: str, wanted: np.ndarray, more: np.ndarray, way: bytes) -> str:
    """Images of open sizes, cut to fixed ones at both ends, with zeros behind where they are to have `more`."""
    dims = len(wanted)
    axes, zeros = np.arange(2, 2 + dims), np.zeros(2 + dims, np.int64)
    sizes = on.put("Slice", on.put("Shape", whole), [2], [2 + dims])
    over = on.put("Sub", sizes, wanted - more)
    before = on.put("Div", over, 2)
    before = before if way == b"SAME_UPPER" else on.put("Sub", over, before)
    end = on.put("Add", before, wanted)
    padded = on.put("Pad", whole, on.put("Concat", zeros, [0, 0], on.put("Max", on.put("Sub", end, sizes), 0), axis=0))
    return on.put("Reshape", on.put("Slice", padded, before, end, axes), [0, 0, *wanted])


def _with_bias(on: NodeWriter, node: onnx.NodeProto, images: str) -> str:
    bias = input_name(node, 2)
    dims = len(on.shape(node.input[1]) or ()) - 2
    return on.put("Add", images, on.put("Reshape", bias, [-1, *[1] * dims])) if bias else images


def _spread_transpose(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Of each channel apart, which IREE does not take: as a plain convolution over spread elements."""
    group, (shape, weight) = attribute(node, "group", 1), (on.shape(name) for name in node.input[:2])
    if group == 1 or not weight or weight[0] != group or None in weight or not shape:
        return None
    kernel = [size or 0 for size in weight[2:]]
    dims = len(kernel)
    strides, apart = steps_of(node, dims)
    pads, more = attribute(node, "pads", [0] * 2 * dims), attribute(node, "output_padding", [0] * dims)
    reach = [step * (size - 1) for step, size in zip(apart, kernel, strict=True)]
    before = [far - pad for far, pad in zip(reach, pads[:dims], strict=True)]
    ends = zip(reach, pads[dims:], more, strides, strict=True)
    after = [far - pad + added - (stride - 1) for far, pad, added, stride in ends]
    lines = on.put("Unsqueeze", node.input[0], np.arange(3, 3 + 2 * dims, 2))
    gaps = [n for stride in strides for n in (0, stride - 1)]
    lines = on.put("Pad", lines, [0] * (2 * dims + 4) + gaps)
    sizes = on.put("Mul", on.put("Slice", on.put("Shape", node.input[0]), [2], [2 + dims]), strides)
    spread = on.put("Reshape", lines, on.put("Concat", [0, 0], sizes, axis=0))
    padded = on.put("Pad", spread, [0, 0, *before, 0, 0, *after])
    mirrored = on.put("Reshape", node.input[1], [-1, 1, *kernel])
    for number, size in enumerate(kernel):
        mirrored = on.put("Gather", mirrored, np.arange(size)[::-1], axis=number + 2)
    return on.put("Conv", padded, mirrored, *node.input[2:], group=group, dilations=apart)


def convolution(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Of each channel of volumes apart, which IREE does not take: for each slice of the filter one of images."""
    group, (shape, weight) = attribute(node, "group", 1), (on.shape(name) for name in node.input[:2])
    if group == 1 or not shape or not weight or weight[:2] != [group, 1] or shape[1] != group:
        return None
    kernel, dims = weight[2:], len(shape) - 2
    if len(shape) != VOLUME or None in kernel:
        return None
    if (pads := zeros_around(node, shape[2:], kernel)) is None:
        raise not_compiled(node, "how many zeros lie around volumes with a group for each channel rests on open sizes")
    strides, apart = steps_of(node, dims)
    inside_out = [0, 2, 1, 3, 4]
    form = {"strides": strides[1:], "dilations": apart[1:], "pads": [*pads[1:dims], *pads[dims + 1 :]]}
    padded = on.put("Pad", node.input[0], [0, 0, pads[0], 0, 0, 0, 0, pads[dims], 0, 0])
    slices, total = on.put("Transpose", padded, perm=inside_out), ""
    whole = on.put("Concat", [-1], on.put("Slice", on.put("Shape", slices), [2], [VOLUME]), axis=0)
    last = apart[0] * ((kernel[0] or 0) - 1)
    taken = ""
    for number in range(kernel[0] or 0):
        first = number * apart[0]
        end = first - last or np.iinfo(np.int64).max
        taken = on.put("Slice", slices, [first], [end], [1], [strides[0]])
        images = on.put("Reshape", taken, whole)
        plane = on.put("Reshape", on.put("Gather", node.input[1], [number], axis=2), [group, 1, *kernel[1:]])
        part = on.put("Conv", images, plane, *([] if total else node.input[2:]), group=group, **form)
        total = on.put("Add", total, part) if total else part
    parts = on.put("Slice", on.put("Shape", taken), [0], [2]), on.put("Slice", on.put("Shape", total), [1], [dims + 1])
    volumes = on.put("Reshape", total, on.put("Concat", *parts, axis=0))
    return on.put("Transpose", volumes, perm=inside_out)


def blocks_summed(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Col2Im: blocks that overlap, summed by a transposed convolution with a filter for each place of a block."""
    x, image, block = node.input[0], on.constant(node.input[1]), on.constant(node.input[2])
    shape = on.shape(x)
    if shape is None or shape[1] is None or image is None or block is None:
        return None
    dims, places = len(block), math.prod(block.tolist())
    steps, apart = steps_of(node, dims)
    pads = attribute(node, "pads", [0] * 2 * dims)
    around = [size + pads[at] + pads[dims + at] for at, size in enumerate(image.tolist())]
    left = [size - far for size, far in zip(around, _reach(block.tolist(), apart), strict=True)]
    counts = [each // step + 1 for each, step in zip(left, steps, strict=True)]
    more = [each % step for each, step in zip(left, steps, strict=True)]
    filters = np.eye(places, dtype=helper.tensor_dtype_to_np_dtype(on.element(x))).reshape(places, 1, *block.tolist())
    form = {"strides": steps, "dilations": apart, "pads": pads, "output_padding": more}
    summed = on.put("ConvTranspose", on.put("Reshape", x, [-1, places, *counts]), on.give(filters), **form)
    return on.put("Reshape", summed, [-1, shape[1] // places, *image.tolist()])


def at_offsets(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """DeformConv: what each tap reads is sampled from the image, and a plain convolution sums these up."""
    x, weight, offsets, bias, mask = (input_name(node, place) for place in range(5))
    known = [[size or 0 for size in on.shape(name) or ()] for name in (x, weight, offsets)]
    image, filters, around = known
    if len(image) != IMAGE or len(around) != IMAGE or 0 in (*image[1:], *filters, *around[1:]):
        return None
    (channels, *sizes), (rows, columns) = image[1:], around[2:]
    parts, group, taps = attribute(node, "offset_group", 1), attribute(node, "group", 1), math.prod(filters[2:])
    steps, apart = steps_of(node, 2)
    pads = attribute(node, "pads", [0] * 4)
    lines = [
        np.arange(count)[None] * step - pad + np.arange(size)[:, None] * dilation
        for count, step, pad, size, dilation in zip((rows, columns), steps, pads, filters[2:], apart, strict=False)
    ]
    plain = np.stack(np.broadcast_arrays(lines[0][:, None, :, None], lines[1][None, :, None, :]))
    plain = plain.reshape(2, taps, rows, columns).swapaxes(0, 1)
    kind = helper.tensor_dtype_to_np_dtype(on.element(x))
    places = on.put("Add", on.put("Reshape", offsets, [-1, *plain.shape]), plain.astype(kind))
    # As GridSample has them: columns first, from -1 to 1.
    scale = (2 / np.array(sizes, kind))[:, None, None]
    shares = on.put("Add", on.put("Mul", places, scale.astype(kind)), (scale / 2 - 1).astype(kind))
    turned = on.put("Transpose", on.put("Gather", shares, [1, 0], axis=2), perm=[0, 1, 3, 4, 2])
    grid = on.put("Reshape", turned, [-1, taps * rows, columns, 2])
    mode = "linear" if on.version >= LINEAR else "bilinear"
    read = on.put("GridSample", on.put("Reshape", x, [-1, channels // parts, *sizes]), grid, mode=mode)
    if mask:
        read = on.put("Mul", read, on.put("Reshape", mask, [-1, 1, taps * rows, columns]))
    volumes = on.put("Reshape", read, [-1, channels, taps, rows * columns])
    flat = on.put("Reshape", weight, [*filters[:2], taps, 1])
    made = on.put("Conv", volumes, flat, *filter(None, [bias]), group=group)
    return on.put("Reshape", made, [-1, filters[0], rows, columns])
