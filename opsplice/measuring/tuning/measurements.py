"""What tuning measures, and what it found. Plain data that crosses processes and machines. No compiler here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opsplice.common.store import key_of
from opsplice.measuring.cutting.records import Cut
from opsplice.measuring.timing.paired import verdict_of
from opsplice.reports.report import DimSize

_FORMAT = "tuned 1"


@dataclass(frozen=True, eq=False)
class Candidate:
    """A rule that can take a place. location: where it stands; dims: of the match there; digests: of what it calls.

    head, condition, tail: its text, `replace p priority 1`, `n >= 16`, ` with k(x)`. imports: the libraries' files that
    its names are from.
    """

    location: str
    pattern: str
    kernel: str
    dims: Mapping[str, DimSize]
    digests: tuple[str, ...]
    head: str
    condition: str
    tail: str
    imports: tuple[str, ...] = ()

    @property
    def call(self) -> str:
        """What takes the place, with its arguments, in a line."""
        written = " ".join(self.tail.removeprefix(" with ").removesuffix(" otherwise keep").split())
        return written.replace("( ", "(").replace(", )", ")").replace(" )", ")")


@dataclass(frozen=True)
class Left:
    """A computation that cannot be measured. what: pattern and dims, for people; reason: why."""

    what: str
    places: tuple[str, ...]
    reason: str


@dataclass(frozen=True, eq=False)
class Task:
    """A computation of the model as a function of its own, and the rules for it, the first of the spec first.

    text: the function in MLIR; digest: of that. what: pattern and dims, for people. others: where rules stand that are
    not applied when one of these is measured.
    """

    text: str
    digest: str
    cut: Cut
    what: str
    places: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    others: frozenset[str] = frozenset()

    def named(self, candidate: Candidate) -> str:
        """A candidate's kernel, with its pattern or its arguments where others have the same."""
        same = [each for each in self.candidates if each.kernel == candidate.kernel]
        if len(same) == 1:
            return candidate.kernel.rpartition(".")[2]
        if len({each.pattern for each in same}) == len(same):
            return f"{candidate.kernel.rpartition('.')[2]} for {candidate.pattern.rpartition('.')[2]}"
        return candidate.call


@dataclass(frozen=True)
class Record:
    """A kernel beside IREE's own code, as a line of the database has it. key: of all that it depends on.

    seconds: of IREE's code and of the kernel; ratio, spread: the median and the 10th and 90th percentile of kernel /
    IREE in pairs. failed: why it is not a choice, "" if it is one.
    """

    key: str
    cpu: str
    computation: str
    kernel: str
    digests: tuple[str, ...]
    seconds: tuple[float, float] = (0.0, 0.0)
    ratio: float = 0.0
    spread: tuple[float, float] = (0.0, 0.0)
    rounds: int = 0
    failed: str = ""
    at: str = ""

    @property
    def verdict(self) -> str:
        """`faster` or `slower` than IREE's code beyond the noise, else `no difference`; `failed`."""
        return "failed" if self.failed else verdict_of(self.ratio, self.spread)

    def to_json(self) -> dict[str, Any]:
        """As a line of the database."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, found: Any) -> Record:
        """What `to_json` was made of. Raises TypeError or ValueError for anything else."""
        record = cls(**found)
        iree, ours = map(float, record.seconds)
        low, high = map(float, record.spread)
        texts = (record.key, record.cpu, record.computation, record.kernel, record.failed, record.at, *record.digests)
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("a text is not text")
        return dataclasses.replace(
            record, digests=tuple(record.digests), seconds=(iree, ours), ratio=float(record.ratio), spread=(low, high)
        )


def record_key(task: Task, candidate: Candidate, cpu: str, versions: str) -> str:
    """What a measurement depends on. versions: of IREE, and its flags."""
    rule = f"{candidate.head}{candidate.condition}{candidate.tail}"
    return key_of(_FORMAT, task.digest, rule, *candidate.digests, cpu, versions)


@dataclass(frozen=True)
class Choice:
    """What is the fastest for a computation. records: of each candidate, None for those that were not measured.

    chosen: the candidate, None if it is IREE's code or undecided. kind: in a word. refused: why nothing was measured.
    """

    task: Task
    records: tuple[Record | None, ...]
    kind: str
    chosen: Candidate | None = None
    refused: str = ""

    @property
    def iree(self) -> float:
        """The seconds of IREE's own code, 0 if they are not known."""
        return next((r.seconds[0] for r in self.records if r is not None and r.seconds[0]), 0.0)


KERNEL, COMPILER, UNDECIDED, UNMEASURED = "kernel", "IREE", "no difference", "not measured"


# Why a candidate could not be measured, which says nothing of how fast it is.
NOT_ALONE = "its rule does not take the computation where it stands alone"


def choice_of(task: Task, records: tuple[Record | None, ...], refused: str = "") -> Choice:
    """The fastest beyond the noise: of kernels that are equal the first of the spec; none beside one not measured."""
    known = [(c, r) for c, r in zip(task.candidates, records, strict=True) if r is not None]
    if len(known) < len(records) or not known:
        return Choice(task, records, UNMEASURED, refused=refused)
    if any(record.failed == NOT_ALONE for _, record in known):
        return Choice(task, records, UNDECIDED)
    faster = [(c, r) for c, r in known if r.verdict == "faster"]
    if faster:
        best = min((r for _, r in faster), key=lambda r: r.ratio)
        chosen = next(c for c, r in faster if r.ratio <= best.ratio or r.spread[0] <= best.spread[1])
        return Choice(task, records, KERNEL, chosen)
    is_slow = known[0][1].verdict in ("slower", "failed")
    return Choice(task, records, COMPILER if is_slow else UNDECIDED)
