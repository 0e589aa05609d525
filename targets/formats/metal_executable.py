"""A kernel put in the place of another inside an executable of IREE's for Metal.

Format: IREE 3.13, runtime/src/iree/schemas/metal_executable_def.fbs: pipelines, each with the number of its library,
the name of its function and the size of its threadgroups, and libraries, each the text of a shader. Read so from
executables that the compiler made; other versions fail the checks.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from opsplice.common.errors import OpspliceError, unforeseen
from opsplice.targets.formats import flatbuffer

_MAGIC = b"MTL1"

# Fields of the tables, by number.
_PIPELINES, _LIBRARIES = 0, 1
_ENTRY, _THREADS = 1, 3
_SOURCE = 0
_CODE = 1


@dataclass(frozen=True)
class Kernel:
    """What takes another's place: the text, its function, and how many threads a threadgroup has in x, y, z."""

    code: str
    entry: str
    workgroup: tuple[int, int, int]


def replace(executable: bytes, kernel: Kernel) -> bytes:
    """An executable of one kernel with another in its place. Raises OpspliceError where it is not of the format."""
    try:
        return _replaced(executable, kernel)
    except flatbuffer.FAILURES as error:
        raise _unknown(str(error)) from None


def _replaced(executable: bytes, kernel: Kernel) -> bytes:
    buffer = flatbuffer.unwrap(executable, _MAGIC)
    root = buffer.root
    (pipeline_at,), (library_at,) = (buffer.vector(root[field]) for field in (_PIPELINES, _LIBRARIES))
    pipeline = buffer.table(buffer.target(pipeline_at))
    library = buffer.table(buffer.target(library_at))
    code = buffer.table(buffer.target(library[_SOURCE]))[_CODE]
    if f"kernel void {buffer.text(pipeline[_ENTRY])}(" not in buffer.text(code):
        raise _unknown("its text has no such kernel")
    struct.pack_into("<3I", buffer.data, pipeline[_THREADS], *kernel.workgroup)
    buffer.set_text(pipeline[_ENTRY], kernel.entry)
    buffer.set_text(code, kernel.code)
    return flatbuffer.wrap(buffer, executable)


def _unknown(what: str) -> OpspliceError:
    return unforeseen(f"this executable for Metal is of a format that is not known: {what}")
