"""The fastest of a spec's kernels and IREE's own code, for each computation of a model: found by timing them here.

    model --rule by rule--> candidates --database--> what is not known --timed, one by one--> choices --> a spec

What is measured is kept at once, so an interrupted run goes on where it was.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.compiling.job import Job
from opsplice.compiling.spec_sources import is_package
from opsplice.measuring.tuning import trying
from opsplice.measuring.tuning.candidates import Found
from opsplice.measuring.tuning.database import Database
from opsplice.measuring.tuning.measurements import Choice, Left, Record, Task, choice_of, record_key
from opsplice.measuring.tuning.tuned_spec import spec_text
from opsplice.measuring.verifying.verdict_cache import platform_key
from opsplice.measuring.verifying.verification import Progress
from opsplice.pipeline.flags import named_targets
from opsplice.reports.shown import Shown
from opsplice.runtime.device_choice import devices_for

# The seconds that one candidate is timed for.
_LEAST, _MOST = 0.1, 0.5
_FOREVER = 1e9

_Work = Sequence[tuple[Task, tuple[int, ...]]]


@dataclass(frozen=True)
class Tuning(Shown):
    """What is the fastest of each computation on a CPU, those that take longest first. specs: that were tuned, as they
    were given. known: how many measurements were in the database before; left: what could not be measured.
    """

    cpu: str
    specs: tuple[str, ...]
    choices: tuple[Choice, ...]
    known: int = 0
    left: tuple[Left, ...] = ()
    notes: tuple[str, ...] = ()

    def text(self, folder: str | Path = ".") -> str:
        """The spec. folder: where it is to stand, for the files that it imports."""
        return spec_text(self.cpu, self.specs, self.choices, Path(folder))

    def save(self, path: str | Path) -> None:
        """Write the spec."""
        from opsplice.common.files import write_file

        write_file(Path(path), self.text(Path(path).parent).encode())

    def to_json(self) -> dict[str, Any]:
        """As `opsplice tune --json` prints it; times in seconds."""
        choices = [
            {
                "computation": each.task.what,
                "places": each.task.places,
                "chosen": each.chosen.kernel if each.chosen is not None else None,
                "kind": each.kind,
                "candidates": [
                    {"rule": f"{c.head}{c.tail}", **({} if r is None else {**r.to_json(), "verdict": r.verdict})}
                    for c, r in zip(each.task.candidates, each.records, strict=True)
                ],
            }
            for each in self.choices
        ]
        left = [vars(each) for each in self.left]
        return {"cpu": self.cpu, "choices": choices, "known": self.known, "left": left, "notes": self.notes}

    def text_shown(self, color: bool) -> str:
        from opsplice.reports.render_tuning import tuning_text

        return tuning_text(self, color=color)


def check(job: Job) -> None:
    """Raise OpspliceError for specs that no other spec can import, and for devices that nothing is measured on."""
    if devices := devices_for(named_targets(job.targets, job.flags)):
        hint = "`opsplice bench` times the kernels of a spec on other devices"
        raise OpspliceError(f"tuning measures on this machine's CPU, not on '{devices[0]}'", hint=hint)
    if packages := [source.given for source in job.specs if is_package(source.given)]:
        hint = "tune a file that imports it by its name, with the lock"
        raise OpspliceError(f"{packages[0]} is a package of a registry, which specs import by its name", hint=hint)


def tune(
    job: Job,
    found: Found,
    database: Database,
    on_progress: Progress,
    *,
    seconds: float = 60.0,
    dask: str | None = None,
    again: bool = False,
) -> Tuning:
    """Measure what `candidates.find` found, as far as the database does not have it.

    seconds: the budget; what is begun is finished. dask: the address of a scheduler, whose workers measure then.
    """
    with contextlib.nullcontext() if dask is None else contextlib.closing(_Workers(dask)) as workers:
        cpu, versions = platform_key() if workers is None else workers.cpu(), trying.versions(job)
        keys = {task: [record_key(task, c, cpu, versions) for c in task.candidates] for task in found.tasks}
        before = {} if again else dict(database.records)
        todo = {task: [n for n, key in enumerate(keys[task]) if key not in before] for task in found.tasks}
        known = sum(len(keys[task]) - len(todo[task]) for task in found.tasks)
        refused: dict[Task, str] = {}
        measured = dict(before)
        each = min(_MOST, max(_LEAST, seconds / 3 / max(1, sum(map(len, todo.values())))))

        def tried(task: Task, result: Record | trying.Refused) -> None:
            if isinstance(result, trying.Refused):
                refused[task] = result.reason
            else:
                database.add(result)
                measured[result.key] = result

        work = [(task, tuple(todo[task])) for task in found.tasks if todo[task]]
        measure = trying.measured if workers is None else workers.measure
        measure(job, work, each, seconds, tried, on_progress)
        choices = [choice_of(t, tuple(measured.get(key) for key in keys[t]), refused.get(t, "")) for t in found.tasks]
        choices.sort(key=lambda choice: -choice.iree * len(choice.task.places))
        notes = tuple(filter(None, [database.ignored]))
        return Tuning(cpu, tuple(source.given for source in job.specs), tuple(choices), known, found.left, notes)


class _Workers:
    """The workers of a Dask scheduler. They have opsplice, and the specs at the same paths; each has one task."""

    def __init__(self, address: str) -> None:
        try:
            self.distributed: Any = import_module("distributed")
        except ImportError:
            raise OpspliceError("Dask is not installed", hint="pip install 'opsplice[dask]'") from None
        try:
            self.client = self.distributed.Client(address, timeout=10)
        except (OSError, ValueError, TimeoutError) as error:
            hint = "start one with: dask scheduler; then on each machine: dask worker ADDRESS --nthreads 1"
            raise OpspliceError(f"no Dask scheduler answers at {address}", details=str(error), hint=hint) from None

    def cpu(self) -> str:
        found: dict[str, str] = self.client.run(platform_key)
        if not found:
            raise OpspliceError("the Dask scheduler has no workers", hint="dask worker ADDRESS --nthreads 1")
        kinds = sorted(set(found.values()))
        if len(kinds) > 1:
            raise OpspliceError(
                "the workers have several kinds of CPU, and a tuned spec is for one",
                details="\n".join(f"{cpu}: {sum(c == cpu for c in found.values())} workers" for cpu in kinds),
                hint="tune once for each kind; databases join by `cat`",
            )
        return kinds[0]

    def measure(
        self, job: Job, work: _Work, each: float, seconds: float, tried: trying.Tried, on_progress: Progress
    ) -> None:
        """As `trying.measured`: each worker has one task at a time, and none is begun once the seconds are over."""
        until, waiting, tasks = time.monotonic() + seconds, iter(work), dict[Any, Task]()

        def begin() -> Iterator[Any]:
            for task, numbers in itertools.islice(waiting, 1) if time.monotonic() < until else ():
                future = self.client.submit(_on_worker, job, task, numbers, each, pure=False)
                tasks[future] = task
                yield future

        count = len(self.client.nthreads())
        futures = self.distributed.as_completed([future for _ in range(count) for future in begin()])
        for done, future in enumerate(futures, 1):
            on_progress(f"{done} of {len(work)}: {tasks[future].what}")
            for result in future.result():
                tried(tasks[future], result)
            for following in begin():
                futures.add(following)

    def close(self) -> None:
        self.client.close()


def _on_worker(job: Job, task: Task, numbers: tuple[int, ...], each: float) -> list[Record | trying.Refused]:
    found: list[Record | trying.Refused] = []
    trying.measured(job, [(task, numbers)], each, _FOREVER, lambda _, result: found.append(result), lambda _: None)
    return found
