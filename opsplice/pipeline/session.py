"""A session of IREE's compiler whose context is freed after it. It imports the compiler.

`Session.context` hands a context over to Python, but IREE 3.13's bindings wrap it without owning it: 4 MB stay behind
for each compile. It is destroyed here instead, once no module, op, type or location of it is left; each of these holds
a reference to its context.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
import threading
from typing import Any, cast

from iree.compiler import ir
from iree.compiler.api import Session as IreeSession
from iree.compiler.api import ctypes_dl

# Dialects that IREE's bindings have no module of. They look for one at each op that Python meets, 2,344 times for a
# layer of BERT from ONNX, if Python does not know that there is none.
for _module in (f"iree.compiler.dialects.{name}" for name in ("chlo", "iree_linalg_ext", "stablehlo", "torch")):
    if importlib.util.find_spec(_module) is None:
        cast("dict[str, object]", sys.modules)[_module] = None

# Contexts whose session is closed.
_retired: list[ir.Context] = []
_lock = threading.Lock()


class Session(IreeSession):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self._owned_context: ir.Context | None
        _free_unused()

    def close(self) -> None:
        """Ends the session. What was made in its context may live on, and keeps it."""
        super().close()
        context, self._owned_context = self._owned_context, None
        if context is not None:
            _retired.append(context)
            del context
            _free_unused()


def _free_unused() -> None:
    """Destroy the retired contexts that nothing else refers to."""
    if not _lock.acquire(blocking=False):
        return  # another thread does it; or this one, which has come here from the end of an object
    try:
        only_listed = [object()]
        for place in reversed(range(len(_retired))):
            if sys.getrefcount(_retired[place]) == sys.getrefcount(only_listed[0]):
                _destroy(_retired.pop(place))
    finally:
        _lock.release()


def _destroy(context: ir.Context) -> None:
    pointer, alive = _pointer(context), ir.Context._get_live_count()
    del context
    if ir.Context._get_live_count() < alive:
        return  # these bindings own it
    destroy = ctypes_dl._dylib.mlirContextDestroy
    destroy.argtypes, destroy.restype = [ctypes.c_void_p], None
    destroy(pointer)


def _pointer(context: ir.Context) -> int:
    read: Any = ctypes.pythonapi.PyCapsule_GetPointer
    read.argtypes, read.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    return int(read(context._CAPIPtr, ctypes_dl.MLIR_PYTHON_CAPSULE_CONTEXT))
