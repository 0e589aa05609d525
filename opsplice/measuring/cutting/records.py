"""What is known of a cut-out match, and what verifying found: plain data that crosses processes. No compiler here."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from opsplice.reports.report import Replacement, Report
from opsplice.reports.shown import Shown
from opsplice.runtime.value_text import ELEMENT_TYPES

# The size that open dims are tried and timed at, where nothing says another.
OPEN_SIZE = 17


@dataclass(frozen=True)
class SymbolicSize:
    """A size that is known at run time only: a factor times symbols, each so many times."""

    factor: int
    symbols: tuple[tuple[str, int], ...]

    def value(self, sizes: Mapping[str, int]) -> int:
        """The size, for sizes of the symbols."""
        found = self.factor
        for name, power in self.symbols:
            found *= sizes[name] ** power
        return found


@dataclass(frozen=True)
class Part:
    """An input or a result: its element type and its sizes, None for a scalar."""

    element: str
    sizes: tuple[int | SymbolicSize, ...] | None

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The sizes as numbers."""
        return tuple(s if isinstance(s, int) else s.value(sizes) for s in self.sizes or ())


@dataclass(frozen=True)
class Cut:
    """A match as a function of its own. longest_sum: how many numbers it adds up. digest: of its rule and its ops.
    work: operations on numbers, a sum. width: of the widest range that the pattern takes a constant
    from, as a part of it: results may differ by as much. tried: sizes at which another kernel may be called.
    weights: the numbers of the inputs that are constants of the program. finite: of those that the kernel wants to be
    finite. sparse: of those that are read at computed indices, as a table is. positive: of those whose root or
    logarithm is taken, as a variance's. given: the symbols that are sizes of the program's inputs, with input and axis.
    held: the bytes of weights that are constants of the function.
    """

    function: str
    inputs: tuple[Part, ...]
    results: tuple[Part, ...]
    longest_sum: int
    digest: str
    work: tuple[SymbolicSize, ...] = ()
    width: float = 0.0
    tried: tuple[int, ...] = ()
    weights: frozenset[int] = frozenset()
    finite: frozenset[int] = frozenset()
    sparse: frozenset[int] = frozenset()
    positive: frozenset[int] = frozenset()
    given: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    held: int = 0

    def sizes(self, inputs: Sequence[Any] = ()) -> dict[str, int]:
        """The sizes of its symbols that it is timed at: those of the program's inputs, where they are known."""
        known = {name: np.shape(inputs[at])[axis] for name, (at, axis) in self.given.items() if inputs}
        return dict.fromkeys(self.symbols, OPEN_SIZE) | known

    def operations(self, sizes: Mapping[str, int]) -> int:
        """How many operations on numbers it makes."""
        return sum(part.value(sizes) for part in self.work)

    def bytes_moved(self, sizes: Mapping[str, int]) -> int:
        """The bytes of all inputs, weights and results together; of a sparse input at most as many numbers as of the
        results.
        """
        made = sum(math.prod(part.shape(sizes)) for part in self.results)
        moved = self.held
        for number, part in enumerate((*self.inputs, *self.results)):
            count = math.prod(part.shape(sizes))
            moved += ELEMENT_TYPES[part.element].itemsize * (min(count, made) if number in self.sparse else count)
        return moved

    @property
    def symbols(self) -> tuple[str, ...]:
        """The sizes that are open."""
        sizes = (s for part in (*self.inputs, *self.results) for s in part.sizes or ())
        return tuple(dict.fromkeys(n for s in sizes if isinstance(s, SymbolicSize) for n, _ in s.symbols))


@dataclass(frozen=True)
class Place:
    """A match of the program: what takes its place, its function alone (None: `reason` says why there is none).

    probes: the numbers of the probes that note its inputs. root: that of its first result.
    """

    replacement: Replacement
    cut: Cut | None
    reason: str = ""
    probes: tuple[int, ...] = ()
    root: int | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What it is known by in every compile of the program."""
        r = self.replacement
        return r.function, r.location, r.rule_location, str(r.dims)


def others(places: Sequence[Place]) -> tuple[str, ...]:
    """Where a computation stands besides at the first of its places."""
    return tuple(place.replacement.location for place in places[1:])


# What begins the names of what notes values, and the function that reads them.
PROBE = "opsplice_probe_"
READER = f"{PROBE}read"

Outcome = Literal["ok", "failed", "not tried"]


@dataclass(frozen=True)
class Trial:
    """One run of a match alone. kind: where its inputs are from; off: how far results are from f64, as a part of the
    largest number of the row; reference_off: the same of IREE's own code, None where `off` is from that code.
    limit: the most that `off` may be. reason: what is wrong, "" if nothing is.
    """

    kind: str
    off: float | None
    reference_off: float | None
    limit: float
    reason: str = ""


@dataclass(frozen=True)
class Verdict:
    """What was found of a match. same: how many more places of the program are the same computation.

    cached: whether nothing was run because the same code was verified before.
    """

    replacement: Replacement
    outcome: Outcome
    trials: tuple[Trial, ...] = ()
    reason: str = ""
    same: tuple[str, ...] = ()
    cached: bool = False

    @property
    def worst(self) -> Trial | None:
        """The trial that says most: the first that failed, else the one that is furthest off its limit."""
        failed = [trial for trial in self.trials if trial.reason]
        exact = [trial for trial in self.trials if trial.reference_off is not None]
        known = exact or [trial for trial in self.trials if trial.off is not None]
        return failed[0] if failed else max(known, key=lambda t: (t.off or 0) / (t.limit or 1), default=None)


@dataclass(frozen=True)
class Whole:
    """The whole program, with the kernels and without. drift: by match, how far its result is from the one without.

    off, reference_off: how far the results are from f64, None where that could not be computed (`note` says why).
    difference: between the two, as a part of the largest number. lost: the share of its numbers that say nothing, since
    they are NaN or infinite without the kernels.
    """

    function: str
    difference: float
    limit: float
    off: float | None = None
    reference_off: float | None = None
    drift: tuple[tuple[str, str, float], ...] = ()
    note: str = ""
    reason: str = ""
    lost: float = 0.0


@dataclass(frozen=True)
class Verification(Shown):
    """What `verify` found, match by match and for whole functions."""

    report: Report
    verdicts: tuple[Verdict, ...]
    whole: tuple[Whole, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failed and not any(each.reason for each in self.whole)

    @property
    def failed(self) -> tuple[Verdict, ...]:
        """The matches with wrong numbers."""
        return tuple(verdict for verdict in self.verdicts if verdict.outcome == "failed")

    def to_json(self) -> dict[str, Any]:
        """As `opsplice verify --json` prints it."""
        verdicts = [{**dataclasses.asdict(v), "replacement": v.replacement.to_json()} for v in self.verdicts]
        whole = [dataclasses.asdict(w) for w in self.whole]
        return {"ok": self.ok, "matches": verdicts, "whole": whole, "notes": list(self.notes)}

    def text_shown(self, color: bool) -> str:
        from opsplice.reports.render_verify import verification_text

        return verification_text(self, color=color)
