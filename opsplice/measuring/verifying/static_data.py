"""The static data of a loaded program: what its kernels keep between calls, and share between workers.

    vmfb: ... | ELF | ...        memory: ... | code | ... | data and bss | ...

IREE maps an embedded ELF to where there is room. Its code is looked for among the executable pages of the process,
which tells where its writable data is. Known for Linux; elsewhere nothing is found.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_MAP = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r-xp \S+ 00:00 0\s*$", re.MULTILINE)
_MAGIC = b"\x7fELF\x02\x01\x01"
_LOAD, _RELRO, _EXECUTABLE, _WRITABLE = 1, 0x6474E552, 1, 2
_PAGE = 4096
# How much of the code is compared.
_COMPARED = 65536


@dataclass(frozen=True)
class _Segment:
    """A part of an ELF: where it is in the file, where in memory, and how long it is in both."""

    kind: int
    flags: int
    offset: int
    address: int
    in_file: int
    in_memory: int


@dataclass(frozen=True)
class StaticData:
    """Writable memory of loaded programs. ranges: addresses and bytes."""

    ranges: tuple[tuple[int, int], ...]

    def copy(self) -> bytes:
        """What is in it now."""
        return b"".join(ctypes.string_at(address, size) for address, size in self.ranges)


def of_program(vmfb: bytes) -> StaticData:
    """The static data of all that a process has loaded of a program."""
    pages = list(_executable_pages())
    found: dict[tuple[int, int], None] = {}
    for match in re.finditer(re.escape(_MAGIC), vmfb):
        segments = _segments(vmfb, match.start())
        for code in (s for s in segments if s.kind == _LOAD and s.flags & _EXECUTABLE):
            start = code.address % _PAGE
            text = vmfb[match.start() + code.offset :][: min(code.in_file, _COMPARED)]
            for begin, end in pages:
                if begin + start + len(text) <= end and ctypes.string_at(begin + start, len(text)) == text:
                    base = begin + start - code.address
                    found |= dict.fromkeys((base + address, size) for address, size in _writable(segments))
    return StaticData(tuple(found))


def _executable_pages() -> Iterator[tuple[int, int]]:
    """The executable memory of this process that is of no file."""
    try:
        with open("/proc/self/maps") as maps:
            text = maps.read()
    except OSError:
        return
    for begin, end in _MAP.findall(text):
        yield int(begin, 16), int(end, 16)


def _segments(data: bytes, start: int) -> list[_Segment]:
    """The program headers of the ELF of 64 bits that begins at a place; none of a damaged one."""
    try:
        (table,) = struct.unpack_from("<Q", data, start + 32)
        size, count = struct.unpack_from("<HH", data, start + 54)
        headers = (struct.unpack_from("<IIQQQQQ", data, start + table + number * size) for number in range(count))
        return [_Segment(k, flags, offset, at, n, m) for k, flags, offset, at, _, n, m in headers]
    except struct.error:
        return []


def _writable(segments: list[_Segment]) -> Iterator[tuple[int, int]]:
    """The addresses and sizes of what is written to while the program runs."""
    constant = [(s.address, s.address + s.in_memory) for s in segments if s.kind == _RELRO]
    for part in segments:
        if part.kind == _LOAD and part.flags & _WRITABLE:
            begin, end = part.address, part.address + part.in_memory
            for low, high in constant:
                begin = high if low <= begin < high else begin
            if begin < end:
                yield begin, end - begin
