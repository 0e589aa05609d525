"""Writes spectra as products with waves: DFT of a known length, and STFT.

IREE does not compile DFT, nor STFT of all bins or of an open batch; ONNX says nothing of the shape of the others.

    frames = signal at (frame * step + place)       [batch, frames, length]
    result = (frames * window) @ waves              [batch, frames, bins, real and imaginary part]
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from opsplice.onnx.rules.node_writer import FLOATS, NodeWriter, attribute, input_name

_MATRIX = 2  # dims
_AXIS_IS_AN_INPUT = 20  # of DFT, from this version on


def short_spectra(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Of real signals; frames of a fixed length."""
    signal, step, window, length = (input_name(node, place) for place in range(4))
    shape, element, step_size = on.shape(signal), on.element(signal), on.constant(step)
    is_half = attribute(node, "onesided", 1)
    if shape is None or element not in FLOATS or step_size is None:
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
    parts = _parts(_waves(size, bins)).reshape(size, -1).astype(kind)
    return on.put("Reshape", on.put("MatMul", frames, on.give(parts, large=True)), [0, 0, bins, 2])


def spectrum(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Along a dim of a known size: [..., places * parts] @ [places * parts, bins * parts], real and imaginary parts."""
    x, element, shape = node.input[0], on.element(node.input[0]), on.shape(node.input[0])
    given, named = input_name(node, 1), input_name(node, 2)
    length, way = on.constant(given) if given else None, on.constant(named) if named else None
    unknown = (given and length is None) or (named and way is None)
    if shape is None or element not in FLOATS or unknown or shape[-1] is None:
        return None
    axis = attribute(node, "axis", 1) if on.version < _AXIS_IS_AN_INPUT else int(way) if way is not None else -2
    axis, parts = axis % len(shape), shape[-1]
    is_half, is_inverse = bool(attribute(node, "onesided", 0)), bool(attribute(node, "inverse", 0))
    places = shape[axis]
    if places is None:
        return None
    size = int(length) if length is not None else 2 * (places - 1) if is_half and is_inverse else places
    kept = _transform(size, is_half, is_inverse)[:places, :parts]
    matrix = np.zeros((places, parts, *kept.shape[2:]), helper.tensor_dtype_to_np_dtype(element))
    matrix[: len(kept)] = kept
    order = [*(each for each in range(len(shape) - 1) if each != axis), axis, len(shape) - 1]
    rows = on.put("Reshape", on.put("Transpose", x, perm=order), [*[0] * (len(shape) - 2), places * parts])
    product = on.put("MatMul", rows, on.give(matrix.reshape(places * parts, -1), large=True))
    result = on.put("Reshape", product, [*[0] * (len(shape) - 2), *matrix.shape[2:]])
    return on.put("Transpose", result, perm=np.argsort(order).tolist())


def _transform(size: int, is_half: bool, is_inverse: bool) -> np.ndarray:
    """What each part of each place adds to each part of each bin, [places, parts, bins, parts]."""
    half = size // 2 + 1
    if is_half and is_inverse:  # what is left out are conjugates, and the result is real
        twice = np.where((np.arange(half) == 0) | (2 * np.arange(half) == size), 1, 2)[:, None]
        return np.moveaxis(_parts(_waves(size, size)[:half] * twice / size), -1, 1)[..., None]
    waves = _waves(size, half if is_half else size)
    waves = waves.conj() / size if is_inverse else waves
    return np.stack([_parts(waves), _parts(1j * waves)], 1)


def _waves(size: int, bins: int) -> np.ndarray:
    """exp(-2 pi i place bin / size), [places, bins]."""
    turns = np.outer(np.arange(size), np.arange(bins)) % size
    return np.exp(turns * (-2j * np.pi / size))


def _parts(numbers: np.ndarray) -> np.ndarray:
    return np.stack([numbers.real, numbers.imag], -1)
