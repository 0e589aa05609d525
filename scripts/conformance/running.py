"""Runs the cases of a suite in child processes, so that a crash of the compiler or an endless compile is one row."""

from __future__ import annotations

import contextlib
import importlib
import queue
import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.isolation.isolate import ChildCrashError, call_isolated
from opsplice.pipeline.diagnostics import unlowered
from scripts.conformance import Case, Outcome, SkippedError, Specs, UnchangedError, WrongError

# What `make conformance` runs, in the order of the page.
SUITES = {
    "torch": "scripts.conformance.torch_ops",
    "onnx": "scripts.conformance.onnx_nodes",
    "jax": "scripts.conformance.jax_numpy",
}
VARIANTS: dict[str, Specs] = {"plain": (), "rules": (str(Path(__file__).with_name("rules.splice")),)}

# A case and a variant.
Task = tuple[str, str]

_BATCH = 64
_LONGEST_REASON = 160
_PREPARING = "preparing"

_ERROR_LINE = re.compile(r"^(?:.*?: )??error: (.*)", re.MULTILINE)
_TYPE = re.compile(r"<[^<>]*>")


def suite_module(suite: str) -> Any:
    """The module of a suite, by its name in SUITES or its own."""
    return importlib.import_module(SUITES.get(suite, suite))


def attempt(case: Case, specs: Specs) -> Outcome:
    """Run a case in this process."""
    try:
        return Outcome("passes", replaced=case.run(specs))
    except UnchangedError:
        return Outcome("as plain")
    except SkippedError as reason:
        return Outcome("skipped", _line(str(reason)))
    except WrongError as reason:
        return Outcome("wrong", _line(str(reason)))
    except Exception as error:
        cause = _cause(error)
        if isinstance(cause, OpspliceError):
            return Outcome("not compiled", reason_of(cause))
        return Outcome("failed", _line(f"{type(cause).__name__}: {cause}"))


def reason_of(error: OpspliceError) -> str:
    """The line of an error that says why, without places and types: what cases with the same reason share."""
    if op := unlowered(error.details):
        return f"IREE does not lower {op}"
    found = _ERROR_LINE.search(error.details)
    reason = found[1] if found else error.message
    while (shorter := _TYPE.sub("", reason)) != reason:
        reason = shorter
    return _line(reason)


def run_tasks(
    suite: str, tasks: Sequence[Task], on_outcome: Callable[[Task, Outcome], None], *, jobs: int, seconds: int
) -> None:
    """Run tasks in `jobs` processes at a time, each for at most so many seconds; `on_outcome` is called in order."""
    batches = queue.SimpleQueue[tuple[Task, ...]]()
    for batch in _batches(tasks):
        batches.put(batch)
    done = queue.SimpleQueue[tuple[Task, Outcome] | BaseException]()
    workers = [threading.Thread(target=_work, args=(suite, batches, done, seconds), daemon=True) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    for _ in tasks:
        each = done.get()
        if isinstance(each, BaseException):
            raise each
        on_outcome(*each)


def _batches(tasks: Sequence[Task]) -> Iterator[tuple[Task, ...]]:
    """Those of one variant together, so that what a suite prepares is of use."""
    for variant in VARIANTS:
        of_it = [task for task in tasks if task[1] == variant]
        for start in range(0, len(of_it), _BATCH):
            yield tuple(of_it[start : start + _BATCH])


def _work(suite: str, batches: Any, done: Any, seconds: int) -> None:
    try:
        while True:
            _run_batch(suite, batches.get_nowait(), done, seconds)
    except queue.Empty:
        return
    except BaseException as error:
        done.put(error)


def _run_batch(suite: str, batch: tuple[Task, ...], done: Any, seconds: int) -> None:
    """All tasks of a batch, in as many processes as it takes."""
    left, prepare = list(batch), True
    while left:
        started: list[str] = []

        def on_event(event: Any, started: list[str] = started) -> None:
            if isinstance(event, str):
                started.append(event)
            else:
                done.put((left.pop(0), event))

        try:
            arguments = (suite, tuple(left), seconds, prepare)
            call_isolated(run_in_child, arguments, on_progress=on_event, method="spawn")
        except ChildCrashError as crash:
            if started and started[-1] == _PREPARING:
                prepare = False
            elif not started:
                raise
            else:
                done.put((left.pop(0), _crashed(crash, seconds)))


def _crashed(crash: ChildCrashError, seconds: int) -> Outcome:
    if crash.signal == signal.SIGALRM:
        return Outcome("too long", f"it takes longer than {seconds} s")
    lines = [line for line in crash.output.splitlines() if line.strip()]
    said = next((line for line in lines if "Assertion" in line or "LLVM ERROR" in line), "")
    return Outcome("crashed", _line(said or crash.message))


def run_in_child(report: Callable[[Any], None], suite: str, tasks: Iterable[Task], seconds: int, prepare: bool) -> None:
    """Report the name of each task when it starts, and its outcome. Past its time the process ends."""
    module = suite_module(suite)
    cases = {case.name: case for case in module.cases()}
    prepared = set() if prepare and hasattr(module, "prepare") else set(VARIANTS)
    for name, variant in tasks:
        if variant not in prepared:
            report(_PREPARING)
            prepared.add(variant)
            # What fails here fails again in the cases that it concerns, alone.
            with contextlib.suppress(Exception):
                module.prepare([cases[n] for n, v in tasks if v == variant], VARIANTS[variant])
        report(f"{name} {variant}")
        signal.alarm(seconds)
        outcome = attempt(cases[name], VARIANTS[variant])
        signal.alarm(0)
        report(outcome)


def names_in_child(report: Callable[[Any], None], suite: str) -> tuple[str, ...]:
    return tuple(case.name for case in suite_module(suite).cases())


def case_names(suite: str) -> tuple[str, ...]:
    """The suite's cases; its framework is loaded by a child, for this process is there to stay."""
    return call_isolated(names_in_child, (suite,), method="spawn")


def _cause(error: BaseException) -> BaseException:
    """The error that a framework wrapped: ours, or the first one."""
    while not isinstance(error, OpspliceError) and (before := error.__cause__ or error.__context__):
        error = before
    return error


def _line(text: str) -> str:
    first = text.strip().partition("\n")[0]
    return first if len(first) <= _LONGEST_REASON else f"{first[:_LONGEST_REASON]}..."
