"""Functions of shared libraries with TVM's interface for foreign functions (`apache-tvm-ffi`), called with arrays.

Such a library has an export `__tvm_ffi_NAME` for each function. It takes tensors as DLPack has them, with
strides, and numbers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from opsplice.common.errors import MissingToolError, OpspliceError

# Before the name of each function, among the exports of a library.
PREFIX = "__tvm_ffi_"
SUFFIX = ".so"


class Library:
    """A library whose functions are attributes, as those of a module of Python."""

    def __init__(self, path: Path) -> None:
        """Raises OpspliceError where the package is not installed, or the system cannot load the library."""
        try:
            import tvm_ffi
        except ImportError:
            raise MissingToolError(
                f"{path} is a library of TVM FFI, which is not installed", hint="pip install apache-tvm-ffi"
            ) from None
        self._tensor = tvm_ffi.from_dlpack
        try:
            self._module = tvm_ffi.load_module(str(path.absolute()))
        except (RuntimeError, OSError) as error:
            raise OpspliceError(
                f"the system cannot load {path}",
                details=str(error),
                hint="link it with the libraries that it needs; `tvm-ffi-config --libs` names TVM's",
            ) from None

    def __getattr__(self, name: str) -> Callable[..., None]:
        function = getattr(self._module, name)

        def call(*given: Any) -> None:
            function(*(self._passed(each) if isinstance(each, np.ndarray) else each for each in given))

        return call

    def _passed(self, array: np.ndarray) -> Any:
        """An array as a tensor in the same memory. DLPack does not say that a tensor is only to be read."""
        extent = sum((size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True))
        length = extent + array.itemsize if array.size else 0
        memory = (ctypes.c_char * length).from_address(array.ctypes.data)
        try:
            return self._tensor(np.ndarray(array.shape, array.dtype, memoryview(memory), 0, array.strides))
        except (BufferError, TypeError) as error:
            raise OpspliceError(f"numpy gives no {array.dtype} to DLPack: {error}") from None
