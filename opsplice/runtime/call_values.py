"""Inputs and results of a call: what a function declares against what is given, and numbers as the VM has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opsplice.common.errors import OpspliceError, counted
from opsplice.runtime import to_host
from opsplice.runtime.declared_functions import Function, ValueType
from opsplice.runtime.value_text import Value, element_name, type_name

# In the VM there are no 16-bit floats: such a scalar travels as its bits.
_HALVES = ("f16", "bf16")


# The kinds of numpy dtype that Python numbers may have for a wanted kind; ml_dtypes' floats are of kind V.
_ACCEPTED_KINDS = {"b": "biu", "i": "iu", "u": "iu", "f": "iuf", "V": "iuf", "c": "iufc"}


def checked_arguments(function: Function, inputs: Sequence[Any]) -> list[Any]:
    check_number(function, inputs)
    arguments = [checked_input(function, index, value) for index, value in enumerate(inputs)]
    check_sizes(function, arguments)
    return arguments


def check_number(function: Function, inputs: Sequence[Any]) -> None:
    """Raise OpspliceError unless there are as many inputs as a function declares, if it declares any."""
    if function.inputs is not None and len(inputs) != len(function.inputs):
        raise OpspliceError(
            f"'{function.name}' takes {counted(len(function.inputs), 'input')}, not {len(inputs)}",
            hint=f"it is {function}",
        )


def check_sizes(function: Function, arguments: Sequence[Any]) -> None:
    """Raise OpspliceError for arrays of a size that a function does not take."""
    if function.sizes is not None and function.inputs is not None:
        names = [_input_name(index, wanted) for index, wanted in enumerate(function.inputs)]
        function.sizes.check(function.name, names, [getattr(each, "shape", ()) for each in arguments])


def _input_name(index: int, wanted: ValueType) -> str:
    return f"input {index}" if wanted.name == f"input{index}" else f"input {index} ({wanted.name})"


def checked_input(function: Function, index: int, value: Any) -> Any:
    """An input as a function declares it: an array of the wanted dtype, or a number. Raises OpspliceError."""
    if function.inputs is None:
        return _undeclared(value)
    wanted = function.inputs[index]
    try:
        return _argument(wanted, value)
    except _MismatchError as mismatch:
        raise OpspliceError(
            f"{_input_name(index, wanted)} of '{function.name}' is {mismatch.given}, the function wants {wanted}",
            hint=mismatch.hint,
        ) from None


class _MismatchError(Exception):
    def __init__(self, given: str, hint: str | None = None) -> None:
        super().__init__(given)
        self.given = given
        self.hint = hint


def _argument(wanted: ValueType, value: Any) -> Any:
    dtype = wanted.dtype
    if dtype is None:
        return _undeclared(value)
    array = _typed(value, dtype) if hasattr(value, "dtype") else _from_numbers(value, dtype)
    if not fits(array.shape, wanted.shape or ()):
        raise _MismatchError(type_name(array))
    return _scalar_argument(array) if wanted.is_scalar else array


def _undeclared(value: Any) -> Any:
    # The VM takes no Python bool.
    return int(value) if isinstance(value, bool) else value


def _typed(value: Any, dtype: np.dtype) -> np.ndarray:
    """An array that has its own dtype, which must be the wanted one but for spellings of the same bits."""
    array = np.asarray(value, order="C")
    if array.dtype == dtype:
        return array
    array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype == dtype:
        return array
    same_size = array.dtype.itemsize == dtype.itemsize
    # MLIR's i32 has no sign, and .npy files hold bf16 as raw bytes.
    if same_size and (array.dtype.kind + dtype.kind == "ui" or array.dtype.type is np.void):
        return array.view(dtype)
    raise _MismatchError(type_name(array), f"convert it to {element_name(dtype)}")


def _from_numbers(value: Any, dtype: np.dtype) -> np.ndarray:
    """Python numbers, or nested lists of them, in the wanted dtype if that keeps what they say."""
    try:
        array = np.asarray(value)
        if array.dtype.kind not in _ACCEPTED_KINDS[dtype.kind]:
            raise _MismatchError(_described(value))
        converted = np.asarray(value, dtype=dtype, order="C")
    except (ValueError, TypeError, OverflowError) as error:
        raise _MismatchError(_described(value), str(error)) from None
    if dtype == np.bool_ and not np.array_equal(converted, array):
        raise _MismatchError(_described(value), "give 0 or 1")
    return converted


def _described(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"


def fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    """Whether a shape is one of those that are declared."""
    if shape == wanted:
        return True
    return len(shape) == len(wanted) and all(want in (None, dim) for dim, want in zip(shape, wanted, strict=True))


def _scalar_argument(array: np.ndarray) -> int | float:
    if element_name(array.dtype) in _HALVES:
        return int(array.view(np.uint16))
    if array.dtype.kind == "f":
        return float(array)
    # The VM's integers are signed.
    return int(array.view(np.int64)) if array.dtype == np.uint64 else int(array)


def host_results(function: Function, results: Any, device: Any) -> list[Value]:
    if results is None:
        return []
    values = list(results) if isinstance(results, tuple) else [results]
    declared = function.outputs if function.outputs is not None else (None,) * len(values)
    return [
        _as_declared(_on_host(value, device), wanted) if hasattr(value, "to_host") else number(value, wanted)
        for value, wanted in zip(values, declared, strict=True)
    ]


def number(value: Any, declared: ValueType | None) -> Any:
    """A scalar result of IREE's as the number that the function declares."""
    if declared is None or declared.dtype is None or not isinstance(value, int):
        return value
    if declared.element in _HALVES:
        return float(np.array(value, np.uint16).view(declared.dtype))
    if declared.element == "i1":
        return bool(value)
    # A narrow integer comes in a wide register, its upper bits unset.
    bits = 8 * declared.dtype.itemsize
    unsigned = value & (2**bits - 1)
    signed: int = unsigned - 2**bits if declared.dtype.kind == "i" and unsigned >> (bits - 1) else unsigned
    return signed


def _as_declared(array: np.ndarray, declared: ValueType | None) -> np.ndarray:
    """IREE's integers have no sign, what a function declares may have one."""
    wanted = declared.dtype if declared is not None else None
    if wanted is None or wanted.kind + array.dtype.kind not in ("iu", "ui") or wanted.itemsize != array.dtype.itemsize:
        return array
    return array.view(wanted)


def _on_host(value: Any, device: Any) -> np.ndarray:
    """An array of the device as one of the host that owns its memory."""
    buffer = value._buffer_view.get_buffer()
    size = int(np.prod(value.shape, dtype=np.int64)) * value.dtype.itemsize
    if not size:
        return np.empty(value.shape, value.dtype)
    if to_host.is_mappable(buffer):
        # The host's view of device memory goes away with the program; a copy does not.
        return np.array(value.to_host())
    return np.asarray(to_host.to_host(device, buffer, size).view(value.dtype).reshape(value.shape))
