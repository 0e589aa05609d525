"""Calls of a compiled program with tensors, which are not copied where that can be (see `direct_call`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import torch
from iree.runtime import HalBufferView, VmVariantList
from torch.nn import Parameter
from torch.utils.dlpack import from_dlpack, to_dlpack

from opsplice.common.errors import OpspliceError
from opsplice.program import Program
from opsplice.runtime import call_values, runtime_devices
from opsplice.runtime.direct_call import HOST, DirectCall, Result

Call = Callable[[Sequence[Any]], list[Any]]


# Calls that take longer, in seconds, are worth waking other threads for, which takes 50 us.
LONG = 200e-6
_IN_A_ROW = 3


Dtypes = Sequence[torch.dtype | None]


def compiled_call(program: Program, device: str | None, plugins: Sequence[Any] = (), dtypes: Dtypes = ()) -> Call:
    """A function from tensors and numbers to the program's results.

    dtypes: of the results, whose integers have no sign in the program; else they are signed.
    device: None for the calling thread until calls take long, and then for as many threads as PyTorch has.
    Raises OpspliceError for tensors that are not on the CPU, and when the program fails.
    """
    if device is not None:
        return _on(device, program, plugins, dtypes)
    alone = _on("local-sync", program, plugins, dtypes)
    if torch.get_num_threads() == 1:
        return alone
    return _Growing(alone, partial(_helped, program, plugins, dtypes))


def _helped(program: Program, plugins: Sequence[Any], dtypes: Dtypes) -> Call:
    call = _on("local-task", program, plugins, dtypes)
    program.unload("local-sync")
    return call


def _on(device: str, program: Program, plugins: Sequence[Any], dtypes: Dtypes) -> Call:
    if device == "local-task":
        runtime_devices.limit_threads(torch.get_num_threads())
    return _Call(program.direct("main", device=device, plugins=plugins), dtypes)


class _Growing:
    """Calls in the calling thread; when some in a row have taken long, other threads help with all that follow."""

    __slots__ = ("_call", "_helped", "_left")

    def __init__(self, alone: Call, helped: Callable[[], Call]) -> None:
        self._call = alone
        self._helped = helped
        self._left = _IN_A_ROW

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        if not self._left:
            return self._call(given)
        start = perf_counter()
        results = self._call(given)
        self._left = self._left - 1 if perf_counter() - start > LONG else _IN_A_ROW
        if not self._left:
            self._call = self._helped()
        return results


class _Call:
    """What `DirectCall` does, in the fewest steps: graphs are called with hundreds of weights.

    PyTorch's guards have seen to it that the tensors have the types that the program was compiled for.
    """

    __slots__ = ("_direct", "_views")

    def __init__(self, direct: DirectCall, dtypes: Dtypes) -> None:
        self._direct = direct
        # Results that may have another type of the same bits: IREE's integers have no sign.
        self._views = {index: dtype for index, dtype in enumerate(dtypes) if dtype is not None and dtype in _INTEGERS}

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        results = self._results(given)
        for index, dtype in self._views.items():
            results[index] = results[index].view(dtype)
        return results

    def _results(self, given: Sequence[Any]) -> list[Any]:
        direct = self._direct
        if direct.generation != runtime_devices.generation:
            direct.prepare()
        if not direct.program.on_host:
            return [_tensor(each) for each in direct([_converted(direct, *each) for each in enumerate(given)])]
        arguments = VmVariantList(len(given))
        push, view_of = arguments.push_ref, direct.device.from_dlpack_capsule
        places = set()
        for index, value in enumerate(given):
            # What a tensor that is a lazy conjugate or negative has in its memory is something else.
            if type(value) is Parameter or (
                type(value) is torch.Tensor and not value.is_neg() and not (value.is_complex() and value.is_conj())
            ):
                try:
                    if place := value.data_ptr():  # not for what has no elements
                        push(view_of(to_dlpack(value)))
                        places.add(place)
                        continue
                except _NOT_SHARED:
                    pass
            direct.push(arguments, _converted(direct, index, value))
        results = direct.invoke(arguments)
        return [_result(direct, results, index, places) for index in range(results.size)]


_INTEGERS = tuple(getattr(torch, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64))
_NOT_SHARED = (*runtime_devices.FAILURES, BufferError)


def _result(direct: DirectCall, results: VmVariantList, index: int, places: set[int]) -> Any:
    if index in direct.scalars:
        return direct.number(results, index)
    view = results.get_as_object(index, HalBufferView)
    try:
        tensor = from_dlpack(direct.device.create_dlpack_capsule(view, *HOST))
    except runtime_devices.FAILURES:  # of a type that DLPack does not know
        return _tensor(np.array(Result(direct.device, view)))
    place = tensor.data_ptr()
    if place in places and tensor.numel():
        return tensor.clone()
    places.add(place)
    return tensor


def _converted(direct: DirectCall, index: int, value: Any) -> Any:
    """An argument in memory of its own, as numpy has it, or a number. Raises OpspliceError for what is not copied."""
    if not isinstance(value, torch.Tensor):
        return call_values.checked_input(direct.function, index, value)
    if value.device.type != "cpu":
        raise OpspliceError(
            f"input {index} is on {value.device}, but programs take tensors on the CPU",
            hint="move the model and its inputs: model.cpu(), x.cpu()",
        )
    declared = direct.function.inputs
    dtype = declared[index].dtype if declared else None
    try:
        dense = value.detach().resolve_conj().resolve_neg().contiguous()
        bits = dense.as_strided((dense.numel(),), (1,)).view(torch.uint8).numpy()
    except (RuntimeError, TypeError) as error:
        kind = f"{value.layout} tensor of {value.dtype}"
        raise OpspliceError(f"input {index} is a {kind}, which cannot be taken", details=str(error)) from None
    return bits.view(dtype).reshape(value.shape)


def _tensor(value: Any) -> Any:
    """A result of numpy's as a tensor; numbers stay."""
    if not isinstance(value, np.ndarray):
        return value
    bits = torch.from_numpy(value.reshape(-1).view(np.uint8))
    return bits.view(getattr(torch, value.dtype.name)).reshape(value.shape)
