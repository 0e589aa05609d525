"""FatELF: one file with the same library for several architectures, as IREE's embedded loader reads it.

    header   <I H B B          magic 0x1F0E70FA, version 1, number of records, 0
    record   <H 6B Q Q         e_machine, OS ABI and its version, word size, byte order, 0, 0, offset, size
    ...                        then the libraries, each at a multiple of 4096 bytes

Format: https://icculus.org/fatelf/ as IREE 3.13 takes it: the first record that suits the machine is loaded. Any bytes
are safe to read. It must not know what the libraries hold.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from opsplice.common.errors import OpspliceError
from opsplice.targets.formats.entries import damaged

MAGIC = 0x1F0E70FA
_VERSION = 1
_damaged = partial(damaged, "a damaged FatELF")
_HEADER = struct.Struct("<IHBB")
_RECORD = struct.Struct("<HBBBBBBQQ")
_ALIGNMENT = 4096
_MOST_PARTS = 255

# The word size has the numbers of ELF's own header; the byte order has others (1 is the least significant byte first).
_ELF_IDENT = struct.Struct("<4sBBBBB7xHH")
_WORD_64 = 2
_LSB_FIRST = 1


@dataclass(frozen=True)
class Part:
    """One library of the file, for the machine of that ELF number."""

    machine: int
    data: bytes


def is_fat(data: bytes) -> bool:
    """Whether bytes begin as a FatELF does."""
    return data[:4] == MAGIC.to_bytes(4, "little")


def write(parts: Sequence[bytes], names: Sequence[str] = ()) -> bytes:
    """The file of several ELF libraries, 64-bit and little-endian, each for another machine.

    names: how errors call them. Raises OpspliceError for what is no such library, and for two of one machine.
    """
    if not 1 <= len(parts) <= _MOST_PARTS:
        raise OpspliceError(f"a FatELF holds 1 to {_MOST_PARTS} libraries, not {len(parts)}")
    called = list(names) or [f"part {number}" for number in range(len(parts))]
    records, chunks, seen = [], [], dict[int, str]()
    offset = _aligned(_HEADER.size + len(parts) * _RECORD.size)
    for data, name in zip(parts, called, strict=True):
        machine, os_abi, abi_version = _identity(data, name)
        if machine in seen:
            raise OpspliceError(
                f"{seen[machine]} and {name} are for the same machine (ELF machine {machine})",
                hint="the loader takes the first that suits the machine: leave one of them out",
            )
        seen[machine] = name
        records.append(_RECORD.pack(machine, os_abi, abi_version, _WORD_64, _LSB_FIRST, 0, 0, offset, len(data)))
        chunks.append((offset, data))
        offset = _aligned(offset + len(data))
    made = bytearray(_HEADER.pack(MAGIC, _VERSION, len(parts), 0) + b"".join(records))
    for start, data in chunks:
        made += bytes(start - len(made)) + data
    return bytes(made)


def read(data: bytes, name: str) -> tuple[Part, ...]:
    """The libraries in a file, in its order. name: how errors call it. Raises OpspliceError if it is damaged."""
    if not is_fat(data):
        raise OpspliceError(f"{name} is not FatELF", hint="`opsplice kernel fat` makes one of several libraries")
    if len(data) < _HEADER.size:
        raise _damaged(name, "the header is cut off")
    _, version, count, _ = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise OpspliceError(f"{name} is a FatELF of version {version}; version {_VERSION} is known")
    first = _HEADER.size + count * _RECORD.size
    if first > len(data):
        raise _damaged(name, "the table of its libraries is cut off")
    if count == 0:
        raise _damaged(name, "it holds no library")
    parts: list[Part] = []
    ranges: list[tuple[int, int]] = []
    for number in range(count):
        machine, *_, offset, size = _RECORD.unpack_from(data, _HEADER.size + number * _RECORD.size)
        if offset < first or size == 0 or offset + size > len(data):
            raise _damaged(name, f"library {number} is not inside the file")
        ranges.append((offset, offset + size))
        parts.append(Part(machine, data[offset : offset + size]))
        _check_no_overlap(ranges, name)
    for number, part in enumerate(parts):
        if _identity(part.data, f"library {number} of {name}")[0] != part.machine:
            raise _damaged(name, f"library {number} is for another machine than its record says")
    return tuple(parts)


def _check_no_overlap(ranges: Sequence[tuple[int, int]], name: str) -> None:
    """Libraries that share bytes would cost more than the file's size to read."""
    start, end = ranges[-1]
    if any(start < other_end and other_start < end for other_start, other_end in ranges[:-1]):
        raise _damaged(name, f"library {len(ranges) - 1} overlaps another")


def _identity(data: bytes, name: str) -> tuple[int, int, int]:
    """(e_machine, OS ABI, its version) of an ELF file, 64-bit and little-endian."""
    if len(data) < _ELF_IDENT.size or data[:4] != b"\x7fELF":
        raise OpspliceError(f"{name} is not an ELF library", hint="link it with -shared for an ELF target")
    _, word, order, _, os_abi, abi_version, _, machine = _ELF_IDENT.unpack_from(data)
    if (word, order) != (2, 1):
        raise OpspliceError(f"{name} is not a 64-bit little-endian ELF library", hint="build it for a 64-bit target")
    return machine, os_abi, abi_version


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT
