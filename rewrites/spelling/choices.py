"""Which way is taken at each place where a pattern has several: alternatives, and ops that need not be there."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False)
class Choices:
    """The ways that are taken, in the order in which their places are met; the first one at places beyond these.

    counts: how many ways each place has that was met.
    """

    taken: tuple[int, ...]
    counts: list[int] = field(default_factory=list)

    def next(self, count: int) -> int:
        """Which way is taken at a place that has as many."""
        self.counts.append(count)
        met = len(self.counts)
        return self.taken[met - 1] if met <= len(self.taken) else 0

    def following(self) -> tuple[int, ...] | None:
        """The choices after these; None after the last."""
        taken = [*self.taken, *[0] * len(self.counts)][: len(self.counts)]
        while taken and taken[-1] + 1 == self.counts[len(taken) - 1]:
            taken.pop()
        return (*taken[:-1], taken[-1] + 1) if taken else None
