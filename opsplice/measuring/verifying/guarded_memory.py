"""Buffers whose surroundings are watched: pages that nobody may touch on both sides, inputs that cannot be written.

    | no access | ... slack | the buffer | slack | no access |

IREE takes buffers that begin at a multiple of 64 bytes, so there is slack of up to 63 bytes between the buffer and the
page behind it; the slack holds a pattern, which is compared afterwards.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from typing import Any

import numpy as np

_ALIGNED = 64
_PAGE = mmap.PAGESIZE
_NONE, _READ = 0, 1  # PROT_NONE, PROT_READ

_libc = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """A buffer of a shape and dtype, as `array`, filled with the byte `poison` like all that is around it.

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

    @property
    def is_intact(self) -> bool:
        """Whether nothing was written beside it."""
        before, behind = self._all[: self._start], self._all[self._start + self._size :]
        return bool((before == self._poison).all() and (behind == self._poison).all())

    def unwritten(self) -> np.ndarray:
        """Which elements are still as they were."""
        raw = np.ascontiguousarray(self.array).view(np.uint8).reshape(*self.array.shape, self.array.dtype.itemsize)
        return np.asarray((raw == self._poison).all(axis=-1))

    @staticmethod
    def _protect(address: int, size: int, access: int) -> None:
        if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), access):
            raise OSError(ctypes.get_errno(), "mprotect")
