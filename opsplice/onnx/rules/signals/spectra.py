"""Writes STFT of signals of an open length, or of all bins, as products.

ONNX says nothing of the shape of the one, and IREE does not compile the other.

    frames = signal at (frame * step + place)       [batch, frames, length]
    result = (frames * window) @ waves              [batch, frames, bins, real and imaginary part]
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from opsplice.onnx.rules.node_writer import FLOATS, NodeWriter, attribute, input_name

_MATRIX = 2  # dims


def short_spectra(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Of real signals; frames of a fixed length."""
    signal, step, window, length = (input_name(node, place) for place in range(4))
    shape, element, step_size = on.shape(signal), on.element(signal), on.constant(step)
    is_half = attribute(node, "onesided", 1)
    if shape is None or element not in FLOATS or (shape[1] is not None and is_half) or step_size is None:
        return None
    known, sizes = on.constant(length) if length else None, on.shape(window) if window else None
    size = int(known) if known is not None else sizes[0] if sizes else None
    if size is None or shape[2:] not in ([], [1]):
        return None
    kind = helper.tensor_dtype_to_np_dtype(element)
    row = signal if len(shape) == _MATRIX else on.put("Squeeze", signal, [2])
    count = on.put("Add", on.put("Div", on.put("Sub", on.size(row, 1), size), int(step_size)), 1)
    starts = on.put("Unsqueeze", on.put("Mul", on.count(count), int(step_size)), [1])
    frames = on.put("Gather", row, on.put("Add", starts, np.arange(size)), axis=1)
    frames = on.put("Mul", frames, window) if window else frames
    bins = size // 2 + 1 if is_half else size
    turns = np.outer(np.arange(size), np.arange(bins)) % size * (-2j * np.pi / size)
    waves = np.exp(turns)
    parts = np.stack([waves.real, waves.imag], -1).reshape(size, -1).astype(kind)
    return on.put("Reshape", on.put("MatMul", frames, on.give(parts, large=True)), [0, 0, bins, 2])
