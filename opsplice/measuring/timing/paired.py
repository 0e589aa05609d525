"""Timing of several ways to do the same, in turn, so that ratios hold when the machine's speed drifts.

Rounds are in different orders: what runs behind a call that does much the same finds more in the caches.
"""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

_Side = TypeVar("_Side")

# A sample is of so many calls that it takes at least this long.
_LEAST = 200e-6
_WARM, _FEWEST, _MOST = 2, 7, 201
# A median ratio this close to 1 is no difference, however narrow the spread.
_NO_DIFFERENCE = 0.02


@dataclass(frozen=True)
class Paired:
    """Seconds of each run of both sides, in order."""

    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """Ours / theirs, pair by pair, in order of size."""
        return sorted(a / b for a, b in zip(self.ours, self.theirs, strict=True))

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The 10th and the 90th percentile of the ratios."""
        found = self.ratios
        return found[len(found) // 10], found[-1 - len(found) // 10]

    def row(self, name: str, unit: float, suffix: str) -> str:
        """A line of a table: medians, the ratio and its spread."""
        ours, theirs = statistics.median(self.ours) / unit, statistics.median(self.theirs) / unit
        low, high = self.spread
        return f"{name:46}{ours:9.2f} {suffix}{theirs:9.2f} {suffix}   x{self.ratio:.2f}  ({low:.2f} to {high:.2f})"

    @property
    def verdict(self) -> str:
        """`faster` or `slower` where all but a tenth of the pairs say so, else `no difference`."""
        return verdict_of(self.ratio, self.spread)


def verdict_of(ratio: float, spread: tuple[float, float]) -> str:
    """What a median ratio and its spread say, as `Paired.verdict`."""
    low, high = spread
    if abs(ratio - 1) < _NO_DIFFERENCE or low <= 1 <= high:
        return "no difference"
    return "faster" if ratio < 1 else "slower"


def paired(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    rounds: int,
    warm: int = _WARM,
    clock: Callable[[], float] = time.perf_counter,
) -> Paired:
    """Time two functions in turn, after a few runs of each that do not count."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + warm):
        for function, found in turned(zip((ours, theirs), taken, strict=True), number):
            start = clock()
            function()
            if number >= warm:
                found.append(clock() - start)
    return Paired(tuple(taken[0]), tuple(taken[1]))


def turned(sides: Iterable[_Side], number: int) -> list[_Side]:
    """The sides in the order of a round, which is the same each time."""
    return random.Random(number).sample(each := list(sides), len(each))


def in_turn(
    sides: Mapping[str, Callable[[], object]], seconds: float, clock: Callable[[], float] = time.thread_time
) -> dict[str, tuple[float, ...]]:
    """Seconds in single calls of each side, in turn, for about so many seconds in all.

    clock: what tells the seconds, by default those of this thread.
    """
    calls = {name: _calls(side, clock) for name, side in sides.items()}
    taken: dict[str, list[float]] = {name: [] for name in sides}
    until = time.monotonic() + seconds
    for number in itertools.count():
        if number >= _MOST or (number >= _FEWEST and time.monotonic() > until):
            break
        for name, side in turned(sides.items(), number):
            start = clock()
            for _ in range(calls[name]):
                side()
            taken[name].append((clock() - start) / calls[name])
    return {name: tuple(found) for name, found in taken.items()}


def _calls(side: Callable[[], object], clock: Callable[[], float]) -> int:
    """How many calls make a sample. It also warms the side up."""
    for _ in range(_WARM):
        side()
    start = clock()
    side()
    return max(1, round(_LEAST / max(clock() - start, 1e-7)))
