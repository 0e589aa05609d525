"""A kernel put in the place of another inside an executable of IREE's for Metal.

Format: IREE 3.13, runtime/src/iree/schemas/metal_executable_def.fbs: a header of 64 bytes (`MTL1`, a version, the size
of what follows), then a FlatBuffer (https://flatbuffers.dev/internals): pipelines, each with the number of its library,
the name of its function and the size of its threadgroups, and libraries, each the text of a shader. What is longer than
what it replaces goes to the end, and the offset that led to the old one is set to the new one. Read so from executables
that the compiler made; other versions fail the checks.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from opsplice.errors import OpspliceError

_MAGIC = b"MTL1"
_HEADER, _HEADER_SIZE = "<4sIQ", 64

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
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise _unknown(str(error)) from None


def _replaced(executable: bytes, kernel: Kernel) -> bytes:
    magic, version, size = struct.unpack_from(_HEADER, executable)
    if magic != _MAGIC or len(executable) < _HEADER_SIZE + size:
        raise _unknown(f"it begins with {magic!r}")
    buffer = _Buffer(bytearray(executable[_HEADER_SIZE : _HEADER_SIZE + size]))
    root = buffer.table(buffer.target(0))
    (pipeline_at,), (library_at,) = (buffer.vector(root[field]) for field in (_PIPELINES, _LIBRARIES))
    pipeline = buffer.table(buffer.target(pipeline_at))
    library = buffer.table(buffer.target(library_at))
    code = buffer.table(buffer.target(library[_SOURCE]))[_CODE]
    if f"kernel void {buffer.text(pipeline[_ENTRY])}(" not in buffer.text(code):
        raise _unknown("its text has no such kernel")
    struct.pack_into("<3I", buffer.data, pipeline[_THREADS], *kernel.workgroup)
    buffer.set_text(pipeline[_ENTRY], kernel.entry)
    buffer.set_text(code, kernel.code)
    header = struct.pack(_HEADER, magic, version, len(buffer.data))
    return header + executable[len(header) : _HEADER_SIZE] + bytes(buffer.data)


class _Buffer:
    """A FlatBuffer. Places are counted from its beginning."""

    def __init__(self, data: bytearray) -> None:
        self.data = data

    def number(self, place: int) -> int:
        (number,) = struct.unpack_from("<I", self.data, place)
        return int(number)

    def target(self, place: int) -> int:
        """Where the offset at a place leads to."""
        return place + self.number(place)

    def table(self, place: int) -> Mapping[int, int]:
        """The places of a table's fields that are there, by number."""
        (back,) = struct.unpack_from("<i", self.data, place)
        (size,) = struct.unpack_from("<H", self.data, place - back)
        offsets = struct.unpack_from(f"<{(size - 4) // 2}H", self.data, place - back + 4)
        return _Fields({number: place + offset for number, offset in enumerate(offsets) if offset})

    def vector(self, place: int) -> list[int]:
        """The places of the elements of a vector of offsets, which a place leads to."""
        start = self.target(place)
        return [start + 4 + 4 * number for number in range(min(self.number(start), len(self.data) // 4))]

    def text(self, place: int) -> str:
        start = self.target(place)
        return self.data[start + 4 : start + 4 + self.number(start)].decode()

    def set_text(self, place: int, text: str) -> None:
        """Append a text, and let a place lead to it."""
        self.data += bytes(-len(self.data) % 4)
        struct.pack_into("<I", self.data, place, len(self.data) - place)
        raw = text.encode()
        self.data += struct.pack("<I", len(raw)) + raw + b"\0"
        self.data += bytes(-len(self.data) % 8)


class _Fields(dict[int, int]):
    def __missing__(self, number: int) -> int:
        raise _unknown(f"a table has no field {number}")


def _unknown(what: str) -> OpspliceError:
    return OpspliceError(
        f"this executable for Metal is of a format that is not known: {what}",
        hint="this is a bug in opsplice, or IREE is not of version 3.13: please report it",
    )
