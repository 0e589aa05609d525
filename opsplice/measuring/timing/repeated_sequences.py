"""Repeated structure in a sequence: `a b c b c d` is `a, 2 x (b c), d`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Repeated:
    """Parts that follow each other so many times. A part is a number of the sequence, or repeated itself."""

    count: int
    parts: tuple[Part, ...]


Part = int | Repeated


def folded(numbers: Sequence[int]) -> tuple[Part, ...]:
    """The sequence with what repeats side by side told once: at each place what covers most, the shortest of these."""
    found: list[Part] = []
    at = 0
    while at < len(numbers):
        covered, period = max(((_repeats(numbers, at, p) * p, -p) for p in _periods(numbers, at)), default=(0, 0))
        if covered == 0:
            found.append(numbers[at])
            at += 1
            continue
        found.append(Repeated(covered // -period, folded(numbers[at : at - period])))
        at += covered
    return tuple(found)


def _periods(numbers: Sequence[int], at: int) -> list[int]:
    """After how many numbers what stands at a place follows again."""
    most = (len(numbers) - at) // 2
    return [p for p in range(1, most + 1) if _is_repeated(numbers, at, at + p, p)]


def _repeats(numbers: Sequence[int], at: int, period: int) -> int:
    count = 1
    while _is_repeated(numbers, at, at + count * period, period):
        count += 1
    return count


def _is_repeated(numbers: Sequence[int], one: int, other: int, length: int) -> bool:
    if other + length > len(numbers) or numbers[one] != numbers[other]:
        return False
    return numbers[one : one + length] == numbers[other : other + length]
