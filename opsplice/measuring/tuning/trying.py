"""The candidates of a computation, timed beside IREE's own code in a child process; wrong kernels are never chosen."""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.compiling.job import Job
from opsplice.isolation.isolate import ChildCrashError, call_isolated, method
from opsplice.measuring.cutting.runnable import Runnable
from opsplice.measuring.timing import benching
from opsplice.measuring.timing.paired import Paired, in_turn
from opsplice.measuring.tuning.measurements import NOT_ALONE, Candidate, Record, Task, record_key
from opsplice.measuring.verifying import tolerance
from opsplice.measuring.verifying.trials import inputs_of
from opsplice.measuring.verifying.verdict_cache import platform_key
from opsplice.measuring.verifying.verification import Progress, of_text


@dataclass(frozen=True)
class _About:
    """What the child is about to do: a task, and the number of its candidate, None for IREE's own code."""

    task: int
    number: int | None = None


@dataclass(frozen=True)
class Refused:
    """Why the function of a task cannot be measured."""

    reason: str


Tried = Callable[[Task, Record | Refused], None]


def measured(
    job: Job, todo: Sequence[tuple[Task, tuple[int, ...]]], each: float, budget: float, tried: Tried, progress: Progress
) -> None:
    """Measure candidates of tasks, by their numbers. each: seconds for one; budget: for all, then no task is begun."""
    until = time.monotonic() + budget
    about = _About(-1)
    left = list(todo)

    def note(event: Any) -> None:
        nonlocal about
        if isinstance(event, _About):
            about = event
            task, _ = left[event.task]
            within = f"{event.task + 1} of {len(left)}, {max(0, until - time.monotonic()):.0f} s left"
            progress(f"{task.what}: {within}")
        elif isinstance(event, (Record, Refused)):
            tried(left[about.task][0], event)
        else:
            progress(event)

    while left and until > time.monotonic():
        try:
            call_isolated(
                _measure, (job, tuple(left), each, until - time.monotonic()), on_progress=note, method=method()
            )
            return
        except ChildCrashError as crash:
            if about.task < 0:
                raise OpspliceError(f"nothing can be measured: {crash.message}", details=crash.output) from None
            task, numbers = left[about.task]
            left = left[about.task + 1 :]
            if about.number is None:
                tried(task, Refused(f"it crashes as IREE compiles it: {crash.message}"))
                continue
            failed = "it crashes: `opsplice verify` says more"
            tried(task, _record(job, task, task.candidates[about.number], failed=failed))
            if rest := numbers[numbers.index(about.number) + 1 :]:
                left.insert(0, (task, rest))


def versions(job: Job) -> str:
    """What of IREE a measurement depends on."""
    from importlib.metadata import version

    return " ".join((version("iree-base-compiler"), version("iree-base-runtime"), *job.flags))


def _record(job: Job, task: Task, candidate: Candidate, **found: Any) -> Record:
    cpu, now = platform_key(), time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    key = record_key(task, candidate, cpu, versions(job))
    return Record(key, cpu, task.what, candidate.kernel, candidate.digests, at=now, **found)


# ---- in the child ---------------------------------------------------------------------------------------------------


def _measure(
    report: Progress, job: Job, todo: tuple[tuple[Task, tuple[int, ...]], ...], each: float, budget: float
) -> None:
    until = time.monotonic() + budget
    for place, (task, numbers) in enumerate(todo):
        if place and time.monotonic() > until:
            return
        report(_About(place))
        alone = of_text(job, task.text)
        try:
            theirs = _call(task, alone, dataclasses.replace(alone, specs=()), report)
            theirs()
        except OpspliceError as failure:
            report(Refused(failure.message))
            continue
        for number in numbers:
            report(_About(place, number))
            candidate = task.candidates[number]
            try:
                found = _timed(task, candidate, alone, theirs, each, report)
            except OpspliceError as failure:
                found = {"failed": failure.message}
            report(_record(job, task, candidate, **found))


def _call(task: Task, alone: Job, job: Job, report: Progress, location: str = "") -> Callable[[], Any]:
    """The function of a task as a job compiles it. location: of the rule that is to take it."""
    from opsplice.compiling.compilation import run_job

    outcome = run_job(report, job)
    if location and all(each.rule_location != location for each in outcome.report.replacements):
        raise OpspliceError(NOT_ALONE)
    inputs = next(iter(inputs_of(task.cut, None, ("random",))))
    return benching.alone(Runnable.of(alone, outcome), task.cut, inputs)


def _timed(
    task: Task, candidate: Candidate, alone: Job, theirs: Callable[[], Any], seconds: float, report: Progress
) -> dict[str, Any]:
    """What a candidate's record says. Raises OpspliceError for one that is not a choice."""
    without = task.others - {candidate.location}
    ours = _call(task, alone, dataclasses.replace(alone, without=without), report, candidate.location)
    if wrong := _wrong(task, ours, theirs):
        raise OpspliceError(f"its numbers differ from IREE's: {wrong}")
    with _pinned():
        taken = in_turn({benching.IREE: theirs, benching.KERNELS: ours}, seconds)
    pair = Paired(taken[benching.KERNELS], taken[benching.IREE])
    seconds_of = (statistics.median(pair.theirs), statistics.median(pair.ours))
    return {"seconds": seconds_of, "ratio": pair.ratio, "spread": pair.spread, "rounds": len(pair.ours)}


@contextmanager
def _pinned() -> Iterator[None]:
    """Stay on one CPU, and go on to use all of them afterwards."""
    has_affinity = hasattr(os, "sched_setaffinity")
    before = os.sched_getaffinity(0) if has_affinity else set()
    benching.pin()
    try:
        yield
    finally:
        if has_affinity:
            os.sched_setaffinity(0, before)


def _wrong(task: Task, ours: Callable[[], Any], theirs: Callable[[], Any]) -> str:
    """What is wrong with results, by IREE's; `verify` looks further."""
    count = len(task.cut.results)
    both = ([part.copy() for part in side()[1][-count:]] for side in (ours, theirs))
    for result, wanted in zip(*both, strict=True):
        limit = max(task.cut.width, tolerance.limit_of(result.dtype, task.cut.longest_sum))
        if reason := tolerance.judge(result, wanted, None, 2 * limit, task.cut.longest_sum).reason:
            return reason
    return ""
