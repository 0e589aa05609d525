"""Buffers whose surroundings are watched: pages that nobody may touch on both sides, inputs that cannot be written.

    | no access | ... slack | the buffer | slack | no access |

IREE takes buffers that begin at a multiple of 64 bytes, so there is slack of up to 63 bytes between the buffer and the
page behind it; the slack holds a pattern, which is compared afterwards. On devices other than the CPU there are no such
pages: the pattern stands behind the buffer, and inputs are compared afterwards, too.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from typing import Any

import numpy as np

from opsplice.runtime import to_host

_ALIGNED = 64
_PAGE = mmap.PAGESIZE
_NONE, _READ = 0, 1  # PROT_NONE, PROT_READ

# How many bytes stand behind a buffer of a device.
BEHIND = 16384

_libc = ctypes.CDLL(None, use_errno=True)


class Watched:
    """A buffer of a shape and dtype for any device, as `array`. poison: the byte that it and what is behind it hold."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, poison: int = 0xFF) -> None:
        kind = np.dtype(dtype)
        self._size, self._poison = math.prod(shape) * kind.itemsize, poison
        self._all: np.ndarray = np.full(self._size + BEHIND, poison, np.uint8)
        self._sealed: bytes | None = None
        self._device: Any = None
        self._buffer: Any = None
        self.array: np.ndarray = self._all[: self._size].view(kind).reshape(shape)

    def seal(self) -> None:
        """Let nobody write to it."""
        self._sealed = self.array.tobytes()

    def on(self, device: Any, dtype: Any) -> Any:
        """A view of it on a device, as elements of a type."""
        from iree.runtime import HalBufferView
        from iree.runtime.array_interop import map_dtype_to_element_type

        self._device, self._buffer = device, to_host.on_device(device, self._all).get_buffer()
        return HalBufferView(self._buffer, self.array.shape, map_dtype_to_element_type(np.dtype(dtype)))

    def fetch(self) -> None:
        """Get what the device made of it."""
        self._all[...] = to_host.to_host(self._device, self._buffer, self._all.size)

    @property
    def harm(self) -> str:
        """What was written where nothing may be, "" if nothing was."""
        if (self._all[self._size :] != self._poison).any():
            return "it writes outside of its buffers"
        return "it writes to an input" if self._sealed not in (None, self.array.tobytes()) else ""

    def unwritten(self) -> np.ndarray:
        """Which elements are still as they were."""
        raw = np.ascontiguousarray(self.array).view(np.uint8).reshape(*self.array.shape, self.array.dtype.itemsize)
        still = raw[..., 0] == self._poison
        for byte in range(1, raw.shape[-1]):
            still &= raw[..., byte] == self._poison
        return np.asarray(still)


class Guarded(Watched):
    """A buffer of this machine's CPU, filled with the byte `poison` like all that is around it.

    at_end: whether its end is at the page that nobody may touch; else its beginning is.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, poison: int = 0xFF, *, at_end: bool = True) -> None:
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        self._room = max(_PAGE, -(-size // _PAGE) * _PAGE)
        self._memory = mmap.mmap(-1, self._room + 2 * _PAGE)
        self._start = (self._room - size) // _ALIGNED * _ALIGNED if at_end else 0
        self._size, self._poison = size, poison
        self._all = np.frombuffer(self._memory, np.uint8)[_PAGE : _PAGE + self._room]
        self._all[:] = poison
        bits = self._all[self._start : self._start + size]
        self.array: np.ndarray = bits.view(kind).reshape(shape)
        self._base = self._all.ctypes.data - _PAGE
        for page in (self._base, self._base + _PAGE + self._room):
            self._protect(page, _PAGE, _NONE)

    def seal(self) -> None:
        """Let nobody write to it."""
        self._protect(self._base + _PAGE, self._room, _READ)

    def on(self, device: Any, dtype: Any) -> Any:
        """A view of it where it is."""
        return view(device, self.array, dtype)

    def fetch(self) -> None:
        """Nothing: the device works in it."""

    @property
    def harm(self) -> str:
        """What was written where nothing may be, "" if nothing was."""
        beside = (self._all[: self._start], self._all[self._start + self._size :])
        is_intact = all((part == self._poison).all() for part in beside)
        return "" if is_intact else "it writes outside of its buffers"

    @staticmethod
    def _protect(address: int, size: int, access: int) -> None:
        if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), access):
            raise OSError(ctypes.get_errno(), "mprotect")


def view(device: Any, array: np.ndarray, dtype: Any) -> Any:
    """A buffer of IREE's on an array's own memory, which programs may also copy to. The caller keeps the array."""
    from iree.runtime import BufferUsage, HalBufferView, MemoryType
    from iree.runtime.array_interop import map_dtype_to_element_type

    kind, usage = MemoryType.HOST_LOCAL | MemoryType.DEVICE_VISIBLE, BufferUsage.DEFAULT | BufferUsage.MAPPING
    buffer = device.allocator.import_host_allocation(array.reshape(-1).view(np.uint8), kind, usage)
    return HalBufferView(buffer, array.shape, map_dtype_to_element_type(np.dtype(dtype)))
