"""Inputs and outputs of a program as text and files: `8xf32=2`, `@x.npy`, and printed results.

The forms are those of IREE's `iree-run-module` (runtime/src/iree/tooling/function_io.c, hal/string_util.c), read more
strictly: too many values are an error here. This module knows arrays and numbers, not programs.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from opsplice.common import files
from opsplice.common.errors import OpspliceError

# An array, or a bare number that takes the type which the function declares for it.
Value = np.ndarray | int | float | bool

# MLIR's integers have a sign, none, or leave that open.
_SIGNS = ("i", "si", "ui")

ELEMENT_TYPES: dict[str, np.dtype] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    **{f"f8{kind}": np.dtype(f"float8_{kind.lower()}") for kind in ("E4M3FN", "E4M3FNUZ", "E5M2", "E5M2FNUZ")},
    "i1": np.dtype(np.bool_),
    **{f"{sign}{bits}": np.dtype(f"{'u' * (sign == 'ui')}int{bits}") for sign in _SIGNS for bits in (64, 32, 16, 8)},
    "complex<f32>": np.dtype(np.complex64),
    "complex<f64>": np.dtype(np.complex128),
}

# The first name of each dtype is the one that messages and printed results use.
_NAMES = {dtype: name for name, dtype in reversed(ELEMENT_TYPES.items())}

_TYPED = re.compile(r"(?P<dims>(?:\d+x)*)(?P<element>[a-z]+\d\w*|complex<f\d+>)(?:=(?P<values>.*))?", re.DOTALL)
_SEPARATORS = re.compile(r"[\s,;:\[\]]+")
_TRUTHS = {"0": False, "00": False, "false": False, "1": True, "01": True, "true": True}

_FORMS = "inputs are written 8xf32=2 (all equal), 2x2xi32=1,2,3,4, 8xf32 (zeros), 8xf32=@raw.bin, @array.npy or 1.5"

# How many elements of a value are printed in full, and how many of a larger one.
_IN_FULL, _FIRST = 100, 6

_NPY_MAGIC = b"\x93NUMPY"


def element_name(dtype: np.dtype) -> str:
    """The MLIR name of a dtype: "f32", "i1", ...; numpy's own name where MLIR has none here."""
    return _NAMES.get(dtype, str(dtype))


def type_name(value: Value) -> str:
    """The type of a value in MLIR's words: "4x4xf32" for an array, "float" and the like for a bare number."""
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    return "x".join([*map(str, value.shape), element_name(value.dtype)])


def parse_input(text: str) -> list[Value]:
    """The values of one input, as `iree-run-module --input=` takes it: one, or all the arrays of an .npy file.

    Raises OpspliceError for text in none of the forms, values that do not fit the type or the shape, and files that
    cannot be read.
    """
    text = text.strip()
    if text.startswith("@"):
        return list(_read_npy(Path(text[1:])))
    typed = _TYPED.fullmatch(text)
    if typed is None or (typed["element"] not in ELEMENT_TYPES and text.lower() in ("inf", "nan")):
        return [_bare_number(text)]
    dtype = ELEMENT_TYPES.get(typed["element"])
    if dtype is None:
        raise OpspliceError(
            f"input '{_cut(text)}' has an unknown element type '{typed['element']}'",
            hint=f"element types are {', '.join(ELEMENT_TYPES)}",
        )
    try:
        shape = tuple(int(dim) for dim in typed["dims"].split("x")[:-1])
        if math.prod(shape) * dtype.itemsize > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
            raise MemoryError
        return [_array(text, shape, dtype, typed["values"] or "")]
    except (MemoryError, OverflowError, ValueError):  # ValueError: no array has such a dim, or so many
        raise OpspliceError(f"input '{_cut(text)}' is too large for this machine's memory") from None


def format_value(value: Value) -> str:
    """A value as `iree-run-module` prints it: `2x2xf32=[1 2][3 4]`."""
    if not isinstance(value, np.ndarray):
        return str(value)
    return f"{type_name(value)}={_nested(value)}"


def brief_value(value: Value) -> str:
    """A small value in full; of a large one the type, the first elements, the range and the mean."""
    if not isinstance(value, np.ndarray) or value.size <= _IN_FULL:
        return format_value(value)
    first = " ".join(map(_number, value.ravel()[:_FIRST]))
    return f"{type_name(value)}={first}...{_statistics(value)}"


def _statistics(array: np.ndarray) -> str:
    """The range and the mean of an array's numbers, and how many are none; complex numbers have no order."""
    if array.dtype.kind == "c":
        return ""
    if array.dtype == np.bool_:
        return f" {np.count_nonzero(array)} of {array.size} are 1"
    wide = array if array.dtype.kind in "iu" else array.astype(np.float64)
    numbers = wide if array.dtype.kind in "iu" else wide[~np.isnan(wide)]
    lacking = array.size - numbers.size
    nan = f" {lacking} of {array.size} are NAN" if lacking else ""
    if not numbers.size:
        return nan
    with np.errstate(invalid="ignore"):  # infinities of both signs have no mean
        mean = numbers.mean(dtype=np.float64)
    return f" from {numbers.min():G} to {numbers.max():G}, mean {mean:G}{nan and ','}{nan}"


def save_values(values: Sequence[Value], target: str | os.PathLike[str]) -> list[Path]:
    """Writes values with numpy: to one .npy file, one after the other, or as output0.npy, ... into a folder.

    `np.load(file)` reads one array from an open file and leaves it at the next. Types that .npy has no name for (bf16,
    f8) are stored as raw elements of their size. Returns the files, each complete or not written at all. Raises
    OpspliceError when they cannot be written.
    """
    path = Path(target)
    arrays = [np.asarray(value) for value in values]
    try:
        if path.suffix == ".npy":
            _write(path, arrays)
            return [path]
        path.mkdir(parents=True, exist_ok=True)
        paths = [path / f"output{number}.npy" for number in range(len(arrays))]
        for file, array in zip(paths, arrays, strict=True):
            _write(file, [array])
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OpspliceError(f"cannot write the outputs to {path}: {reason}") from None
    return paths


def _bare_number(text: str) -> Value:
    for kind in (_integer, float):
        try:
            return kind(text)
        except ValueError:
            continue
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise OpspliceError(f"cannot read the input '{_cut(text)}'", hint=_FORMS)


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(text, 0)


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        if not text.lower().lstrip("+-").startswith("0x"):
            raise
        return float(int(text, 16))


def _array(text: str, shape: tuple[int, ...], dtype: np.dtype, values: str) -> np.ndarray:
    count = math.prod(shape)
    if values.startswith("@"):
        return _read_raw(Path(values[1:]), shape, dtype)
    words = [word for word in _SEPARATORS.split(values) if word]
    if not words:
        return np.zeros(shape, dtype)
    if len(words) not in (1, count):
        raise OpspliceError(
            f"input '{_cut(text)}' has {len(words)} values for {count} elements",
            hint="give one value for all the elements, or one for each",
        )
    try:
        elements = _elements(words, dtype)
    except (ValueError, KeyError, OverflowError):
        raise OpspliceError(_bad_value(text, words, dtype), hint=_FORMS) from None
    return np.full(shape, elements[0], dtype) if len(words) == 1 else elements.reshape(shape)


def _elements(words: Sequence[str], dtype: np.dtype) -> np.ndarray:
    """Raises ValueError, KeyError or OverflowError when a word is not a value of the dtype."""
    if dtype == np.bool_:
        return np.array([_TRUTHS[word.lower()] for word in words], dtype)
    if dtype.kind in "iu":
        numbers = [_integer(word) for word in words]
        limits = np.iinfo(dtype)
        # A signless integer is written either way: i8=255 is i8=-1.
        largest = limits.max if dtype.kind == "u" else 2 * limits.max + 1
        if min(numbers) < limits.min or max(numbers) > largest:
            raise OverflowError
        bits = [number & (2 ** (8 * dtype.itemsize) - 1) for number in numbers]
        return np.array(bits, np.dtype(f"u{dtype.itemsize}")).view(dtype)
    if dtype.kind == "c":
        return np.array([complex(word) for word in words], dtype)
    wide = np.array([_float(word) for word in words])
    with np.errstate(over="ignore"):
        made = wide.astype(dtype)
    if not np.array_equal(np.isfinite(made.astype(wide.dtype)), np.isfinite(wide)):
        raise OverflowError
    return made


def _bad_value(text: str, words: Sequence[str], dtype: np.dtype) -> str:
    for word in words:
        try:
            _elements([word], dtype)
        except (ValueError, KeyError, OverflowError):
            return f"'{word}' in the input '{_cut(text)}' is not a value of {element_name(dtype)}"
    raise AssertionError("every word alone is a value")


def _read_raw(path: Path, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    wanted = math.prod(shape) * dtype.itemsize
    files.check_file(path, None)
    if (size := path.stat().st_size) != wanted:
        described = "x".join([*map(str, shape), element_name(dtype)])
        raise OpspliceError(f"{path} has {size} bytes, {described} takes {wanted}")
    content = files.read_file(path, wanted)
    if dtype == np.bool_:
        return np.asarray(np.frombuffer(content, np.uint8) != 0).reshape(shape)
    return np.frombuffer(content, dtype).reshape(shape).copy()


def _read_npy(path: Path) -> list[np.ndarray]:
    files.check_file(path, None)
    arrays = []
    try:
        with path.open("rb") as file:
            if file.read(len(_NPY_MAGIC)) != _NPY_MAGIC:
                raise OpspliceError(
                    f"{path} is not an .npy file", hint="numpy.save writes one; raw bytes are given as 8xf32=@raw.bin"
                )
            file.seek(0)
            while file.tell() < os.fstat(file.fileno()).st_size:
                array = np.lib.format.read_array(file, allow_pickle=False)
                arrays.append(np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C"))
    except OpspliceError:
        raise
    except OSError as error:
        raise OpspliceError(f"cannot read the input {path}: {(error.strerror or str(error)).lower()}") from None
    except Exception as error:  # numpy lets Python parse the header, and passes on what goes wrong there
        reason = error if isinstance(error, ValueError | EOFError) else "its header is damaged, or asks for too much"
        raise OpspliceError(f"cannot read array {len(arrays)} of {path}: {reason}") from None
    return arrays


def _nested(array: np.ndarray) -> str:
    # The innermost rows stand in brackets, none around the whole: 2x2xf32=[1 2][3 4], 4xf32=1 2 3 4.
    if array.ndim == 0:
        return _number(array[()])
    if array.ndim > 1:
        return "".join(f"[{_nested(row)}]" for row in array)
    return " ".join(map(_number, array))


def _number(element: Any) -> str:
    if element.dtype == np.bool_:
        return str(int(element))
    if element.dtype.kind in "iu":
        return str(element)
    if element.dtype.kind == "c":
        return str(complex(element)).strip("()")
    return f"{float(element):G}"


def _write(path: Path, arrays: Sequence[np.ndarray]) -> None:
    with files.replacing(path) as file:
        # Of a file numpy asks where it stands, and a pipe has no such place: so it gets no more than a way to write.
        stream = SimpleNamespace(write=file.write)
        for array in arrays:
            np.save(stream, _storable(array))


def _storable(array: np.ndarray) -> np.ndarray:
    """Itself, or raw elements: numpy would write f8E5M2 as a float of one byte, and not read that again."""
    try:
        np.dtype(array.dtype.str)
    except TypeError:
        return array.view(f"V{array.dtype.itemsize}")
    return array


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
