"""FlatBuffers as IREE's executables for GPUs are: read, and changed in place. Format: https://flatbuffers.dev/internals

What is longer than what it replaces goes to the end, and the offset that led to the old one is set to the new one. It
must not know what is in them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

# In front of each of IREE's (runtime/src/iree/schemas/executable_header... of IREE 3.13): four letters, a version, the
# size of what follows.
_HEADER, _HEADER_SIZE = "<4sIQ", 64

FAILURES = (struct.error, UnicodeDecodeError, ValueError)


class Buffer:
    """A FlatBuffer. Places are counted from its beginning. Reading raises one of FAILURES where it is none."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)

    @property
    def root(self) -> _Fields:
        return self.table(self.target(0))

    def number(self, place: int) -> int:
        (number,) = struct.unpack_from("<I", self.data, place)
        return int(number)

    def target(self, place: int) -> int:
        """Where the offset at a place leads to."""
        return place + self.number(place)

    def table(self, place: int) -> _Fields:
        """The places of a table's fields that are there, by number."""
        (back,) = struct.unpack_from("<i", self.data, place)
        (size,) = struct.unpack_from("<H", self.data, place - back)
        return _Fields(self.data, place, place - back + 4, (size - 4) // 2)

    def vector(self, place: int) -> list[int]:
        """The places of the elements of a vector of offsets, which a place leads to."""
        start = self.target(place)
        return [start + 4 + 4 * number for number in range(min(self.number(start), len(self.data) // 4))]

    def text(self, place: int) -> str:
        return self.bytes_at(place, 1).decode()

    def bytes_at(self, place: int, size: int) -> bytes:
        """A text, or a vector of numbers of so many bytes each, which a place leads to."""
        start = self.target(place)
        end = start + 4 + self.number(start) * size
        if end > len(self.data):
            raise ValueError("it is cut off")
        return bytes(self.data[start + 4 : end])

    def set_text(self, place: int, text: str) -> None:
        self._append(place, text.encode(), 1, b"\0")

    def set_bytes(self, place: int, data: bytes, size: int) -> None:
        """Let a place lead to another vector of numbers of so many bytes each."""
        self._append(place, data, size, b"")

    def _append(self, place: int, raw: bytes, size: int, end: bytes) -> None:
        self.data += bytes(-len(self.data) % 4)
        struct.pack_into("<I", self.data, place, len(self.data) - place)
        self.data += struct.pack("<I", len(raw) // size) + raw + end
        self.data += bytes(-len(self.data) % 8)


def unwrap(executable: bytes, magic: bytes) -> Buffer:
    """The FlatBuffer behind IREE's header. Raises one of FAILURES where it begins with something else."""
    found, _, size = struct.unpack_from(_HEADER, executable)
    if found != magic or len(executable) < _HEADER_SIZE + size:
        raise ValueError(f"it begins with {found!r}")
    return Buffer(executable[_HEADER_SIZE : _HEADER_SIZE + size])


def wrap(buffer: Buffer, executable: bytes) -> bytes:
    """A FlatBuffer behind the header of the executable that it was in."""
    magic, version, _ = struct.unpack_from(_HEADER, executable)
    header = struct.pack(_HEADER, magic, version, len(buffer.data))
    return header + executable[len(header) : _HEADER_SIZE] + bytes(buffer.data)


@dataclass(frozen=True)
class _Fields:
    """The fields of the table at `place`, of which `offsets` leads to `count` offsets. Tables may share theirs."""

    data: bytearray
    place: int
    offsets: int
    count: int

    def __getitem__(self, number: int) -> int:
        if number < self.count:
            (offset,) = struct.unpack_from("<H", self.data, self.offsets + 2 * number)
            if offset:
                return self.place + int(offset)
        raise ValueError(f"a table has no field {number}")
