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
from types import SimpleNamespace
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

# { void *data; DLDevice device; int32_t ndim; DLDataType dtype; int64_t *shape, *strides; uint64_t byte_offset; }
# Not `pythonapi.PyCapsule_GetPointer`, which is one for all, and others have it return other types.
_words_of = ctypes.pythonapi["PyCapsule_GetPointer"]
_words_of.restype, _words_of.argtypes = ctypes.POINTER(ctypes.c_uint64), [ctypes.py_object, ctypes.c_char_p]


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
        self._fits = None if self.function.inputs is None else [_fitting(each) for each in self.function.inputs]
        self._on_host = self.program.on_host
        self._invoke = self.program.invocation(self.function.name)

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        """Call the function and wait for its results.

        arguments: what `Program.run` takes, and arrays with `__dlpack__`. Returns numbers, and a `Result` for each
        tensor, or a numpy array where the device's memory is not the host's. Raises OpspliceError for arguments that
        the function does not take, and when it fails.
        """
        if self.generation != runtime_devices.generation:
            self.prepare()
        if not self._on_host:
            return self.program.call(self._name, *arguments)
        call_values.check_number(self.function, arguments)
        call_values.check_sizes(self.function, arguments)
        fits = self._fits
        given = VmVariantList(len(arguments))
        places: set[int] = set()
        for index, value in enumerate(arguments):
            view = self._shared(_anything if fits is None else fits[index], value, places)
            if view is not None:
                given.push_ref(view)
            else:
                self.push(given, call_values.checked_input(self.function, index, value))
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

    def _shared(self, fits: _Fits | None, value: Any, places: set[int]) -> HalBufferView | None:
        """An argument where it is, None if it is not an array or has to be copied; its place is added to the others."""
        if fits is None or not hasattr(value, "__dlpack__"):
            return None
        try:
            capsule = value.__dlpack__()
            place = _address(capsule)
            if not place:  # what has no elements: IREE's threads would read at address 0
                return None
            view = self.device.from_dlpack_capsule(capsule)
        except (*runtime_devices.FAILURES, BufferError, TypeError):
            return None
        if not fits(view.element_type, tuple(view.shape)):
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

    __slots__ = ("_device", "_view", "dtype", "place", "shape")

    def __init__(self, device: HalDevice, view: HalBufferView) -> None:
        """place: the address of its elements."""
        self._device = device
        self._view = view
        self.shape = tuple(view.shape)
        self.dtype = _type_of(view.element_type)
        self.place = _address(capsule_of(device, view))

    def __dlpack__(self, **_options: Any) -> Any:
        """A capsule; of types that DLPack does not know, one with their bits."""
        return capsule_of(self._device, self._view)

    def __dlpack_device__(self) -> tuple[int, int]:
        return HOST

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Its memory as numpy takes it in the fewest steps. Of types of others than numpy it asks `__array__`."""
        if self.dtype.isbuiltin != 1:
            raise AttributeError("numpy's interface of arrays has no name for elements of this type")
        return self._memory(self.dtype.str)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        bits = SimpleNamespace(owner=self, __array_interface__=self._memory(f"|V{self.dtype.itemsize}"))
        array = np.asarray(bits).view(self.dtype)
        return array if dtype is None and not copy else np.array(array, dtype=dtype, copy=copy)

    def _memory(self, type_text: str) -> dict[str, Any]:
        return {"version": 3, "shape": self.shape, "typestr": type_text, "data": (self.place, False)}


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


@functools.cache
def _type_of(element: int) -> np.dtype:
    """numpy's type of elements of IREE's."""
    dtype: np.dtype = HalElementType.map_to_dtype(element)
    return dtype


def _address(capsule: Any) -> int:
    """Where the elements of a DLPack tensor are: the first field of its structure, and the byte offset in the last."""
    words = _words_of(capsule, b"dltensor")
    place: int = words[0] + words[5]
    return place


_Fits = Callable[[int, tuple[int, ...]], bool]


def _anything(element: int, shape: tuple[int, ...]) -> bool:
    return True


def _fitting(wanted: ValueType) -> _Fits | None:
    """Whether arrays of a type and a shape are what an input wants; None for an input that is a number."""
    if wanted.is_scalar:
        return None
    dtype, dims = wanted.dtype, wanted.shape
    if dtype is None or dims is None:
        return _anything
    element = int(map_dtype_to_element_type(dtype))
    return functools.lru_cache(maxsize=64)(
        lambda given, shape: _alike(given, element) and call_values.fits(shape, dims)
    )


def _alike(one: int, other: int) -> bool:
    """Whether elements are of one type; integers of one size are, whatever their sign."""
    if one == other:
        return True
    return one & _KIND in _INTEGERS and other & _KIND in _INTEGERS and one & ~_KIND == other & ~_KIND
