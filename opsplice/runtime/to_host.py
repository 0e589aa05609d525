"""Copies between a device and the host, and memory that both take.

This module loads IREE's runtime only when there is something to copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def to_host(device: Any, buffer: Any, size: int) -> np.ndarray:
    """The first `size` bytes of a device's buffer, as memory of the host's own.

    IREE 3.13 reads what the host cannot see by importing memory of the host into the device, which drivers refuse
    whose pages are larger than numpy's alignment. A buffer that both see is copied to instead.
    """
    import iree.runtime as rt

    staging = device.allocator.allocate_buffer(
        memory_type=rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE,
        allowed_usage=rt.BufferUsage.TRANSFER | rt.BufferUsage.MAPPING,
        allocation_size=buffer.byte_length(),
    )
    done = device.create_semaphore(0)
    device.queue_copy(buffer, staging, wait_semaphores=[], signal_semaphores=[(done, 1)])
    rt.HalFence.create_at(done, 1).wait()
    mapped: np.ndarray = staging.map().asarray((buffer.byte_length(),), np.dtype(np.uint8))
    return mapped[:size].copy()


def aligned(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """An array that starts where buffers of kernels do, at a multiple of 64 bytes: IREE takes it as it is."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def aligned_copy(array: np.ndarray) -> np.ndarray:
    """A copy of an array in such memory."""
    made = aligned(array.shape, array.dtype)
    made[...] = array
    return made


def on_device(device: Any, array: np.ndarray) -> Any:
    """A view of a new buffer of a device that both see, with the elements of an array; types of ml_dtypes as bits."""
    from iree.runtime import BufferUsage, MemoryType
    from iree.runtime.array_interop import map_dtype_to_element_type

    return device.allocator.allocate_buffer_copy(
        memory_type=MemoryType.DEVICE_LOCAL | MemoryType.HOST_VISIBLE,
        allowed_usage=BufferUsage.DEFAULT | BufferUsage.MAPPING,
        device=device,
        buffer=array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}"),
        element_type=map_dtype_to_element_type(array.dtype),
    )


def is_mappable(buffer: Any) -> bool:
    """Whether the host can look into a buffer."""
    from iree.runtime import BufferUsage, MemoryType

    visible, mapping = int(MemoryType.HOST_VISIBLE), int(BufferUsage.MAPPING_SCOPED)
    return bool(buffer.memory_type() & visible == visible and buffer.allowed_usage() & mapping == mapping)
