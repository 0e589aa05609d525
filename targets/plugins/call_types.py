"""What a plain C function is called with, as one word: how programs and plugins say it to each other.

A letter stands for each argument: an address, or what a value is in C's registers. Narrow integers come widened to 32
bits, and a bf16 as an f16. It must not know kernels, programs or plugins.
"""

from __future__ import annotations

from collections.abc import Iterable

ADDRESS = "address"

_LETTERS = {ADDRESS: "a", "i32": "w", "i64": "l", "f16": "h", "f32": "f", "f64": "d"}
_KINDS = {letter: kind for kind, letter in _LETTERS.items()}
_PASSED = {"i1": "i32", "i8": "i32", "i16": "i32", "index": "i64", "bf16": "f16"}


def passed(element: str) -> str:
    """What a value of an element type, or an `ADDRESS`, is passed as: one of the keys of the letters."""
    return _PASSED.get(element, element)


def encoded(elements: Iterable[str]) -> str:
    """The word for a function's arguments: element types, or `ADDRESS`."""
    return "".join(_LETTERS[passed(element)] for element in elements)


def told(word: str) -> str:
    """A word as errors show it: `(address, f32, i64)`."""
    return f"({', '.join(_KINDS.get(letter, letter) for letter in word)})"
