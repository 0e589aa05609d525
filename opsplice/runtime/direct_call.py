"""Calls of programs with arrays of any framework, by DLPack: https://dmlc.github.io/dlpack/latest/.

On this machine's CPU a program reads an argument where it is if that is dense and begins at a multiple of 64 bytes;
others are copied. Results are new memory: one that IREE gives the memory of an argument, or of another result, is
copied, since whoever writes to it does not expect to change both. Nothing is kept between calls: what a framework does
to its arrays meanwhile is seen.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from iree.runtime import HalBufferView, HalDevice, HalElementType, VmVariantList
from iree.runtime.array_interop import map_dtype_to_element_type

from opsplice.runtime import call_values, runtime_devices, to_host
from opsplice.runtime.declared_functions import ValueType
from opsplice.runtime.loaded_program import LoadedProgram

# DLPack's code for the memory of the host, and the number of the device.
HOST = (1, 0)

# IREE's codes of elements: a kind in the upper half, the bits in the lower.
_KIND, _INTEGERS = 0xFF000000, (0x10000000, 0x11000000, 0x12000000)

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class DirectCall:
    """A function of a program, ready to be called. Threads may call it at once, and so may a forked child.

    program, function, device: what is called, and IREE's device; a forked child has others. scalars: which of its
    results are numbers.
    """

    def __init__(self, load: Callable[[], LoadedProgram], function: str | None = None) -> None:
        """load: gives the program; it is asked again in a forked child. function: None for the only one.

        Raises OpspliceError where the program does not load or has no such function.
        """
        self._load = load
        self._name = function
        self.prepare()

    def prepare(self) -> None:
        """Take the program that this process is to call, which after a fork is another."""
        self.generation = runtime_devices.generation
        self.program = self._load()
        self.function = self.program.function(self._name)
        self.device: HalDevice = self.program.device
        outputs = self.function.outputs or ()
        self.scalars = frozenset(index for index, output in enumerate(outputs) if output.is_scalar)
        self._invoke = self.program.invocation(self.function.name)

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        """Call the function and wait for its results.

        arguments: what `Program.run` takes, and arrays with `__dlpack__`. Returns numbers, and a `Result` for each
        tensor, or a numpy array where the device's memory is not the host's. Raises OpspliceError for arguments that
        the function does not take, and when it fails.
        """
        if self.generation != runtime_devices.generation:
            self.prepare()
        if not self.program.on_host:
            return self.program.call(self._name, *arguments)
        call_values.check_number(self.function, arguments)
        call_values.check_sizes(self.function, arguments)
        declared = self.function.inputs or (None,) * len(arguments)
        given = VmVariantList(len(arguments))
        places: set[int] = set()
        for index, (wanted, value) in enumerate(zip(declared, arguments, strict=True)):
            view = self._shared(wanted, value, places)
            self.push(given, call_values.checked_input(self.function, index, value) if view is None else view)
        results = self.invoke(given)
        return [self.result(results, index, places) for index in range(results.size)]

    def push(self, given: VmVariantList, value: Any) -> None:
        """Add an argument to those of a call: a view of a buffer, an array, which is copied, or a number."""
        if isinstance(value, HalBufferView):
            given.push_ref(value)
        elif isinstance(value, np.ndarray):
            given.push_ref(to_host.on_device(self.device, value))
        elif isinstance(value, float):
            given.push_float(value)
        else:
            given.push_int(value)

    def invoke(self, given: VmVariantList) -> VmVariantList:
        """Call the function with a list of IREE's, unchecked, and return what comes back, in such a list."""
        results = VmVariantList(1)
        try:
            self._invoke(given, results)
        except runtime_devices.FAILURES as error:
            raise self.program.failure(self.function, error) from None
        return results

    def number(self, results: VmVariantList, index: int) -> Any:
        """A result that is not a tensor."""
        outputs = self.function.outputs
        return call_values.number(results.get_variant(index), outputs[index] if outputs else None)

    def _shared(self, wanted: ValueType | None, value: Any, places: set[int]) -> HalBufferView | None:
        """An argument where it is, None if it is not an array or has to be copied; its place is added to the others."""
        if not hasattr(value, "__dlpack__") or (wanted is not None and wanted.is_scalar):
            return None
        try:
            capsule = value.__dlpack__()
            place = _address(capsule)
            if not place:  # what has no elements: IREE's threads would read at address 0
                return None
            view = self.device.from_dlpack_capsule(capsule)
        except (*runtime_devices.FAILURES, BufferError, TypeError):
            return None
        if wanted is not None and not _fits(view.element_type, tuple(view.shape), wanted):
            return None
        places.add(place)
        return view

    def result(self, results: VmVariantList, index: int, places: set[int]) -> Any:
        """A result; one in memory that is among the places already is copied, another's place is added."""
        if index in self.scalars:
            return self.number(results, index)
        result = Result(self.device, results.get_as_object(index, HalBufferView))
        if result.place in places and math.prod(result.shape):
            return Result(self.device, to_host.on_device(self.device, np.asarray(result)))
        places.add(result.place)
        return result


class Result:
    """A tensor that a function returned: `numpy.asarray` and all that read DLPack take it without a copy."""

    __slots__ = ("_device", "_type_text", "_view", "dtype", "place", "shape")

    def __init__(self, device: HalDevice, view: HalBufferView) -> None:
        """place: the address of its elements."""
        self._device = device
        self._view = view
        self.shape = tuple(view.shape)
        self.dtype, self._type_text = _type_of(view.element_type)
        self.place = _address(self.__dlpack__())

    def __dlpack__(self, **_options: Any) -> Any:
        """A capsule; of types that DLPack does not know, one with their bits."""
        return capsule_of(self._device, self._view)

    def __dlpack_device__(self) -> tuple[int, int]:
        return HOST

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = np.asarray(_Memory(self._view, self.place, self.shape, self._type_text))
        if array.dtype != self.dtype:
            array = array.view(self.dtype)
        return array if dtype is None and not copy else np.array(array, dtype=dtype, copy=copy)


def capsule_of(device: HalDevice, view: HalBufferView) -> Any:
    """A DLPack capsule for a buffer of the host; of types that DLPack does not know, one with their bits."""
    try:
        return device.create_dlpack_capsule(view, *HOST)
    except runtime_devices.FAILURES:
        bits = view.element_type & 0xFF
        return device.create_dlpack_capsule(retyped(view, getattr(HalElementType, f"UINT_{bits}")), *HOST)


def retyped(view: HalBufferView, element: HalElementType) -> HalBufferView:
    """The same bits as elements of another type of the same size."""
    return HalBufferView(view.get_buffer(), view.shape, element)


class _Memory:
    """Memory as numpy takes it."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, owner: Any, place: int, shape: tuple[int, ...], type_text: str) -> None:
        """owner: what holds it."""
        self._owner = owner
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": type_text, "data": (place, False)}


@functools.cache
def _type_of(element: int) -> tuple[np.dtype, str]:
    """numpy's type of elements of IREE's, and how its interface of arrays writes it, which knows no types of others."""
    dtype = HalElementType.map_to_dtype(element)
    return dtype, dtype.str if dtype.isbuiltin == 1 else f"|V{dtype.itemsize}"


def _address(capsule: Any) -> int:
    """Where the elements of a DLPack tensor are: the first field of its structure, and the byte offset in the last."""
    words = _Words.from_address(_pointer_of(capsule, b"dltensor"))
    return words[0] + words[-1]


# { void *data; DLDevice device; int32_t ndim; DLDataType dtype; int64_t *shape, *strides; uint64_t byte_offset; }
_Words = ctypes.c_uint64 * 6


@functools.lru_cache(maxsize=1024)
def _fits(element: int, shape: tuple[int, ...], wanted: ValueType) -> bool:
    if wanted.dtype is None or wanted.shape is None:
        return True
    return _alike(element, _element_of(wanted.dtype)) and call_values.fits(shape, wanted.shape)


@functools.cache
def _element_of(dtype: np.dtype) -> int:
    return int(map_dtype_to_element_type(dtype))


def _alike(one: int, other: int) -> bool:
    """Whether elements are of one type; integers of one size are, whatever their sign."""
    if one == other:
        return True
    return one & _KIND in _INTEGERS and other & _KIND in _INTEGERS and one & ~_KIND == other & ~_KIND
