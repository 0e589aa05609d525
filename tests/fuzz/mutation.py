"""Inputs that are nearly right: a good one with a few things in it changed.

Text changes by words, binary data by numbers, so that much of what comes out gets past the first check of a reader.
Some is very large, from a part that is written again and again: what takes the square of its input's size shows so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

LARGEST = 1 << 16

_WORDS = re.compile(rb"\w+|\s+|[^\w\s]")
_STRANGE_WORDS = (
    *(b"0", b"-1", b"1", b"99999999999999999999", b"1e999", b"nan", b"0x", b"inf", b"9" * 5000, b"_", b"x" * 300),
    *(b"x1" * 70, b"99999999999999999999x4", b"0x99999999999999999999x", b"4294967296", b"-9223372036854775808"),
    *(b"\0", b"\xff", "ﬁé٣\u2028".encode(), b"\r", b'"', b"//", b"/*", b"(" * 200, b"[" * 200, b"{" * 200, b"-" * 200),
)
_STRANGE_NUMBERS = (0, 1, 2, 3, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 63)


def is_text(data: bytes) -> bool:
    """Whether data is changed by words: UTF-8 without zeros."""
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def mutant(data: bytes, others: Sequence[bytes], random: Random, largest: int = LARGEST) -> bytes:
    """`data` with one to six changes, some of them parts of `others`; at most `largest` bytes."""
    text = is_text(data)
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        pieces = _WORDS.findall(data) if text else _cells(data, random.choice((1, 2, 4, 8)))
        other = random.choice(others)
        spare = _WORDS.findall(other) if text else _cells(other, 4)
        data = b"".join(_changed(pieces or [b""], spare or [b""], random, text, largest))
    return data[:largest]


def _cells(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def _changed(pieces: list[bytes], spare: list[bytes], random: Random, text: bool, largest: int) -> list[bytes]:
    """Pieces with a run of them, mostly a short one, changed."""
    first = random.randrange(len(pieces))
    last = min(len(pieces), first + random.choice((1, 1, 1, 2, 4, 16, 64)))
    run = pieces[first:last]
    begin = random.randrange(len(spare))
    taken = spare[begin : begin + random.choice((1, 1, 2, 8, 32))]
    kind = random.randrange(100)
    if kind < 20:
        run = []
    elif kind < 45:
        run = [random.choice(_STRANGE_WORDS) if text else _number(random, len(run[0]))]
    elif kind < 65:
        run = taken
    elif kind < 75:
        run = [*run, *taken]
    elif kind < 85:
        run = run * random.choice((2, 3, 9))
    elif kind < 87:
        run = run * (largest // max(1, len(b"".join(run))))
    elif kind < 90:
        return pieces[:first]
    elif text:
        run = [bytes([random.randrange(32, 127)])]
    else:
        run = [bytes(byte ^ 1 << random.randrange(8) for byte in run[0]), *run[1:]]
    return [*pieces[:first], *run, *pieces[last:]]


def _number(random: Random, size: int) -> bytes:
    number = random.choice((*_STRANGE_NUMBERS, random.randrange(64), random.getrandbits(64)))
    return (number & (1 << 8 * size) - 1).to_bytes(size, "little")
