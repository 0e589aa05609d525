"""One executable compiled on its own: a module that holds nothing else, to the bytes that a device loads."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence

from opsplice.frontends.source import ModuleSource
from opsplice.pipeline.compiler import Compilation, CompileError


def compile_executable(bytecode: bytes, phase: str, flags: Sequence[str] = ()) -> bytes:
    """The bytes of the only `hal.executable` of a module, which is at a phase and has one variant, for one target.

    Raises CompileError as `Compilation` does.
    """
    with Compilation(flags) as compilation:
        compilation.load(ModuleSource(content=bytecode))
        compilation.phase = phase
        compilation.run_to("hal")
        return _output(compilation)


def _output(compilation: Compilation) -> bytes:
    from iree.compiler.api import Output, ctypes_dl

    write = ctypes_dl._dylib.ireeCompilerInvocationOutputHALExecutable
    write.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    write.restype = ctypes.c_void_p
    with contextlib.closing(Output.open_membuffer()) as output:
        try:
            ctypes_dl._handle_error(write(compilation._invocation._inv_p, output._output_p))
        except ValueError as error:
            raise CompileError(f"IREE cannot write an executable: {error}") from None
        return bytes(output.map_memory())
