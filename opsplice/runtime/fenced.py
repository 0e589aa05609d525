"""Calls of functions that return before their results are there: IREE's execution model `async-external`.

Such a function takes, after what it declares, a fence to wait for and one to signal. It imports IREE's runtime.
"""

from __future__ import annotations

from typing import Any

from iree.runtime import FunctionInvoker, HalFence


class FencedInvoker(FunctionInvoker):  # type: ignore[misc]
    """Calls a function at once, and waits until its results are there."""

    __slots__ = ()

    def _invoke(self, arg_list: Any, ret_list: Any) -> None:
        done = HalFence.create_at(self._device.create_semaphore(0), 1)
        for fence in (HalFence(0), done):
            arg_list.push_ref(fence.ref)
        super()._invoke(arg_list, ret_list)
        done.wait()
