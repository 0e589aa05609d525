"""FatELF files: what is written is read, and hostile bytes are refused."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsplice.common.errors import OpspliceError
from opsplice.targets.formats import fatelf


def elf(machine: int, body: bytes = b"", *, word: int = 2, order: int = 1, os_abi: int = 0) -> bytes:
    return struct.pack("<4sBBBBB7xHH", b"\x7fELF", word, order, 1, os_abi, 0, 3, machine) + body


def test_what_is_written_is_read():
    parts = [elf(62, b"one"), elf(183, b"two" * 5000), elf(243, b"three")]
    data = fatelf.write(parts)
    assert fatelf.is_fat(data)
    assert [(part.machine, part.data) for part in fatelf.read(data, "k.sos")] == list(
        zip([62, 183, 243], parts, strict=True)
    )


def test_the_layout_is_the_one_that_iree_reads():
    data = fatelf.write([elf(62, b"x" * 100, os_abi=3)])
    assert data[:8] == bytes.fromhex("fa700e1f 0100 01 00")
    machine, os_abi, _, word, order, _, _, offset, size = struct.unpack_from("<HBBBBBBQQ", data, 8)
    assert (machine, os_abi, word, order) == (62, 3, 2, 1)
    assert offset == 4096
    assert data[offset : offset + size] == elf(62, b"x" * 100, os_abi=3)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "1 to 255"),
        ([b"text"], "part 0 is not an ELF library"),
        ([elf(62), elf(62)], "same machine"),
        ([elf(3, word=1)], "not a 64-bit"),
        ([elf(62, order=2)], "little-endian"),
        ([elf(number) for number in range(256)], "1 to 255"),
    ],
)
def test_what_cannot_be_joined(parts, message):
    with pytest.raises(OpspliceError, match=message):
        fatelf.write(parts)


HEADER = struct.Struct("<IHBB")
RECORD = struct.Struct("<HBBBBBBQQ")


def fat(records: list[tuple[int, int, int]], body: bytes, *, version: int = 1, count: int | None = None) -> bytes:
    head = HEADER.pack(fatelf.MAGIC, version, len(records) if count is None else count, 0)
    return head + b"".join(RECORD.pack(m, 0, 0, 2, 1, 0, 0, o, s) for m, o, s in records) + body


ONE = elf(62)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not FatELF"),
        (b"\x7fELF", "not FatELF"),
        (fatelf.MAGIC.to_bytes(4, "little"), "header is cut off"),
        (fat([], b""), "holds no library"),
        (fat([], b"", version=2), "version 2"),
        (fat([(62, 32, 20)], ONE, count=9), "table of its libraries is cut off"),
        (fat([(62, 0, 20)], ONE), "library 0 is not inside"),
        (fat([(62, 32, 21)], ONE), "library 0 is not inside"),
        (fat([(62, 32, 0)], ONE), "library 0 is not inside"),
        (fat([(62, 2**64 - 1, 2**64 - 1)], ONE), "library 0 is not inside"),
        (fat([(183, 32, 20)], ONE), "another machine than its record says"),
        (fat([(62, 56, 20), (62, 56, 20)], ONE), "library 1 overlaps"),
        (fat([(62, 32, 20)], bytes(20)), "not an ELF library"),
    ],
)
def test_damaged_files(data, message):
    with pytest.raises(OpspliceError, match=message):
        fatelf.read(data, "k.sos")


@given(st.binary(max_size=300))
def test_any_bytes_are_safe(data):
    for hostile in (data, fatelf.MAGIC.to_bytes(4, "little") + data):
        try:
            parts = fatelf.read(hostile, "k.sos")
        except OpspliceError:
            continue
        assert sum(len(part.data) for part in parts) <= len(hostile)


@given(st.data())
def test_any_change_is_safe(data):
    whole = bytearray(fatelf.write([elf(62, b"a"), elf(183, b"b")]))
    for _ in range(data.draw(st.integers(1, 8))):
        whole[data.draw(st.integers(0, 56))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(OpspliceError):
        fatelf.read(bytes(whole), "k.sos")
