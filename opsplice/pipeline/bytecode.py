"""Reads MLIR bytecode from memory that is aligned as the bytecode asks for.

The bindings' parsers hand MLIR the memory as it comes, and reading a module with resources fails when that happens not
to be aligned ("expected section alignment 64 but bytecode buffer ... is not aligned"), files included. So the bytes are
copied to an aligned place and given to MLIR's C API (mlir-c/IR.h).
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any

from opsplice.pipeline.diagnostics import Diagnostic, from_mlir_diagnostic

if TYPE_CHECKING:
    from iree.compiler import ir

# Writers ask for the alignment of their resources: 64 bytes for tensors. A page is more than any asks for.
_ALIGNMENT = 4096

# A capsule refers to its name and does not keep it: the bytes have to outlive it.
_MODULE_NAME = b"iree.compiler.ir.Module._CAPIPtr"


class _StringRef(ctypes.Structure):
    """MlirStringRef of mlir-c/Support.h."""

    _fields_ = (("data", ctypes.c_void_p), ("length", ctypes.c_size_t))


def parse_bytecode(content: bytes, context: ir.Context) -> ir.Module | list[Diagnostic]:
    """The module in a context, verified, or the reasons why it cannot be read. It keeps nothing of `content`."""
    from iree.compiler import ir
    from iree.compiler.api import ctypes_dl

    reasons: list[Diagnostic] = []

    def keep(diagnostic: Any) -> bool:
        reasons.append(from_mlir_diagnostic(diagnostic))
        return True

    memory = ctypes.create_string_buffer(len(content) + _ALIGNMENT)
    address = -(-ctypes.addressof(memory) // _ALIGNMENT) * _ALIGNMENT
    ctypes.memmove(address, content, len(content))
    context_pointer = ctypes_dl.PyCapsule_GetPointer(context._CAPIPtr, ctypes_dl.MLIR_PYTHON_CAPSULE_CONTEXT)
    with context.attach_diagnostic_handler(keep):
        module_pointer = _parser()(context_pointer, _StringRef(address, len(content)))
    if not module_pointer:
        return reasons
    return ir.Module._CAPICreate(ctypes_dl.PyCapsule_New(module_pointer, _MODULE_NAME, None))


@functools.cache
def _parser() -> Any:
    from iree.compiler.api import ctypes_dl

    # PyDLL keeps the GIL during the call: the bindings' diagnostic handler runs in it and needs the GIL.
    library = ctypes.PyDLL(ctypes_dl._dylib._name, handle=ctypes_dl._dylib._handle)
    # MlirContext and MlirModule are structs of one pointer, which the ABI passes as that pointer.
    parse = library.mlirModuleCreateParse
    parse.argtypes = [ctypes.c_void_p, _StringRef]
    parse.restype = ctypes.c_void_p
    return parse
