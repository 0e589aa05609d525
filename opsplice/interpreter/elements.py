"""Element types, constants, and the rounding of results."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
from iree.compiler import ir

from opsplice.interpreter.problems import EvaluationError
from opsplice.runtime.value_text import ELEMENT_TYPES

DYNAMIC = ir.ShapedType.get_dynamic_size()
_BF16 = np.dtype(ml_dtypes.bfloat16)
_HEX = re.compile(r'"0x([0-9A-Fa-f]*)"')
_PARAMETER = re.compile(r'#flow\.parameter\.named<(?:"([^"]*)"::)?"([^"]*)">')

# The bytes of weights that a module does not hold, by their scope and name.
Parameters = Mapping[tuple[str, str], bytes | memoryview]


def element_of(kind: ir.Type) -> ir.Type:
    return kind.element_type if isinstance(kind, ir.ShapedType) else kind


def is_float(kind: ir.Type) -> bool:
    return isinstance(element_of(kind), ir.FloatType)


def exact_dtype(kind: ir.Type) -> np.dtype:
    """The numpy type of an MLIR type or of its elements, whatever floats are computed in."""
    text = str(element_of(kind))
    dtype = ELEMENT_TYPES.get("i64" if text == "index" else text)
    if dtype is None:
        raise EvaluationError(f"the interpreter does not know the element type '{text}'")
    return dtype


def rounded(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Floats in another float type: to nearest, ties to even, rounded once."""
    if dtype == _BF16 and value.dtype == np.float64:
        value = _odd(value)
    return value.astype(dtype)


def _odd(value: np.ndarray) -> np.ndarray:
    """f64 as f32, rounded to odd where it is inexact, so that rounding again is as good as rounding once."""
    near = value.astype(np.float32)
    with np.errstate(invalid="ignore"):
        error = value - near.astype(np.float64)
    is_even = near.view(np.int32) % 2 == 0
    toward = np.where(error > 0, np.float32(np.inf), np.float32(-np.inf))
    return np.where(np.isfinite(error) & (error != 0) & is_even, np.nextafter(near, toward), near)


def undefined(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A tensor of elements that nobody wrote: reading one of floats makes NaN."""
    return np.full(shape, np.nan if dtype.kind in "fV" else np.iinfo(dtype).max if dtype.kind == "i" else 1, dtype)


def constant(attribute: ir.Attribute, module: ir.Operation, parameters: Parameters) -> np.ndarray:
    """The value of a constant, in its exact type."""
    if isinstance(attribute, (ir.IntegerAttr, ir.BoolAttr)):
        return np.asarray(attribute.value).astype(exact_dtype(attribute.type))
    if isinstance(attribute, ir.FloatAttr):
        return rounded(np.asarray(attribute.value, np.float64), exact_dtype(attribute.type))
    text = str(attribute)
    named = _PARAMETER.match(text)
    if not named and not text.startswith(("dense<", "dense_resource<")):
        raise EvaluationError(f"the interpreter does not know the constant '{text[:60]}'")
    kind = attribute.type if hasattr(attribute, "type") else ir.Type.parse(text.partition("> : ")[2], module.context)
    dtype, shape = exact_dtype(kind), tuple(kind.shape)
    if named:
        return _raw(parameters.get((named[1] or "", named[2]), b""), dtype, shape, f"the parameter {named[2]}")
    if text.startswith("dense_resource<"):
        return _resource(text[len("dense_resource<") : text.rindex("> : ")], dtype, shape, module)
    if attribute.is_splat:
        return np.broadcast_to(constant(attribute.get_splat_value(), module, parameters), shape)
    try:
        return np.array(attribute).astype(dtype).reshape(shape)
    except (TypeError, ValueError):  # a type that has no place in Python's buffers
        return _written(text, dtype, shape)


def _written(text: str, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Elements from text: bytes, or numbers of which those in hexadecimal are bits."""
    elements = text[: text.rindex("> : ")]
    if found := _HEX.search(elements):
        return np.frombuffer(bytes.fromhex(found[1]), dtype).reshape(shape)
    bits = np.dtype(f"u{dtype.itemsize}")
    numbers = [
        np.array(int(word, 16), bits).view(dtype) if word.startswith("0x") else np.array(float(word)).astype(dtype)
        for word in re.findall(r"-?[\w.][\w.+-]*", elements.removeprefix("dense<"))
    ]
    return np.array(numbers, dtype).reshape(shape)


def _resource(name: str, dtype: np.dtype, shape: tuple[int, ...], module: ir.Operation) -> np.ndarray:
    """Elements that the module keeps apart; the first four bytes there are their alignment."""
    text = module.get_asm(large_elements_limit=None)
    found = re.search(rf'\s{re.escape(name)}: "0x([0-9A-Fa-f]*)"', text[text.rindex("{-#") :])
    content = bytes.fromhex(found[1])[4:] if found and dtype != np.bool_ else b""
    return _raw(content, dtype, shape, f"dense_resource<{name}>")


def _raw(content: bytes | memoryview, dtype: np.dtype, shape: tuple[int, ...], what: str) -> np.ndarray:
    count = math.prod(shape)
    if memoryview(content).nbytes not in (dtype.itemsize, count * dtype.itemsize):
        raise EvaluationError(f"the interpreter cannot read {what}")
    return np.broadcast_to(np.frombuffer(content, dtype), (count,)).reshape(shape)


def attribute_numbers(attribute: Any) -> list[int]:
    """The integers of an array attribute of any sort."""
    if isinstance(attribute, ir.ArrayAttr):
        return [ir.IntegerAttr(each).value for each in attribute]
    return [int(each) for each in attribute]
