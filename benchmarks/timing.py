"""Paired timing: the two sides in turn, so that a ratio holds when the machine's speed drifts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Paired:
    """Seconds of each run of both sides, in order."""

    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median of the ratios ours / theirs, pair by pair."""
        return statistics.median(a / b for a, b in zip(self.ours, self.theirs, strict=True))

    def row(self, name: str, unit: float, suffix: str) -> str:
        ours, theirs = statistics.median(self.ours) / unit, statistics.median(self.theirs) / unit
        spread = sorted(a / b for a, b in zip(self.ours, self.theirs, strict=True))
        low, high = spread[len(spread) // 10], spread[-1 - len(spread) // 10]
        return f"{name:46}{ours:9.2f} {suffix}{theirs:9.2f} {suffix}   x{self.ratio:.2f}  ({low:.2f} to {high:.2f})"


def paired(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    rounds: int,
    warm: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> Paired:
    """Time two functions in turn, after a few runs of each that do not count."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + warm):
        for function, found in zip((ours, theirs), taken, strict=True):
            start = clock()
            function()
            if number >= warm:
                found.append(clock() - start)
    return Paired(tuple(taken[0]), tuple(taken[1]))


def header(title: str, ours: str, theirs: str) -> str:
    return f"\n{title}\n{'':46}{ours:>12}{theirs:>12}   ratio (10th to 90th percentile)"
