"""Whether numbers hold: each match alone and the whole program, as IREE compiles them and with the kernels.

    model --to preprocessing--> plan --cuts--> functions --IREE, kernels, f64--> trials --> verdicts
                                     --probes--> the whole program, twice --> its results, and drift by match

Kernels run in a child process: one that crashes has failed. It imports the compiler when it compiles.
"""

from __future__ import annotations

import dataclasses
import math
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opsplice.common.errors import OpspliceError
from opsplice.compiling.job import Job
from opsplice.frontends import ModuleSource
from opsplice.isolation.isolate import ChildCrashError, call_isolated, method
from opsplice.measuring.cutting.records import PROBE, READER, Cut, Place, Trial, Verdict, Verification, Whole, others
from opsplice.measuring.cutting.runnable import Runnable
from opsplice.measuring.verifying import tolerance, trial_runs, verdict_cache
from opsplice.measuring.verifying.trials import KINDS, generated
from opsplice.reports.report import Replacement, Report
from opsplice.runtime.value_text import ELEMENT_TYPES
from opsplice.runtime.weights import Parameters, contents

Progress = Callable[[Any], None]

# How many times longer than without its kernels the whole program may take.
_TIMES_SLOWER = 20
# How long the whole program may take in f64.
_WHOLE_SECONDS = 20.0
# By how much the results of a whole program may differ, and by how many times what rounding does to those of a match.
_WHOLE_LIMIT, _WHOLE_ROUNDINGS = 1e-3, 2


@dataclass(frozen=True)
class Options:
    """How to verify. inputs: those of `function`, None for generated ones. kinds: of trials. limit: what is taken,
    instead of what follows from types and sums. whole: whether whole functions are run, too. seconds: how long a kernel
    may take.
    """

    function: str | None = None
    inputs: tuple[Any, ...] | None = None
    kinds: tuple[str, ...] = KINDS
    limit: float | None = None
    whole: bool = True
    cache: bool = True
    seconds: int = 60


@dataclass(frozen=True)
class Prepared:
    """All programs, compiled. replaced: the rules that took a place in the function of each cut.
    seconds: of processor time that the program took to compile, without kernels and with them.
    """

    report: Report
    places: tuple[Place, ...]
    plain: Runnable
    kernels: Runnable
    text: str = ""
    cuts: tuple[Cut, ...] = ()
    alone: tuple[Runnable, Runnable, Runnable] | None = None
    seconds: tuple[float, float] = (0.0, 0.0)
    replaced: dict[str, tuple[Replacement, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def alike(self) -> list[tuple[Cut, list[Place]]]:
        """The places of each computation that is a function of its own, as it is cut out at the first."""
        found: dict[str, tuple[Cut, list[Place]]] = {}
        for place in self.places:
            if place.cut is not None:
                found.setdefault(place.cut.digest, (place.cut, []))[1].append(place)
        return list(found.values())

    def with_weights(self, weights: Parameters) -> Prepared:
        """The whole program with its weights, which do not go to other processes with the model."""
        plain, kernels = (dataclasses.replace(each, parameters=weights) for each in (self.plain, self.kernels))
        return dataclasses.replace(self, plain=plain, kernels=kernels)


def verify(job: Job, prepared: Prepared, options: Options, on_progress: Progress) -> Verification:
    """What running says of programs that `prepare` compiled. Raises OpspliceError for inputs that do not fit."""
    if unknown := set(options.kinds) - set(KINDS):
        raise OpspliceError(f"there are no trials '{unknown.pop()}'", hint=f"there are: {', '.join(KINDS)}")
    notes = list(prepared.notes)
    before = _run(prepared.plain, options, "the program without its kernels", on_progress)
    recorded = before.probes if before.error == "" else {}
    if before.error:
        notes.append(before.error)
    whole: tuple[Whole, ...] = ()
    if options.whole and not before.error:
        seconds = options.seconds + math.ceil(_TIMES_SLOWER * before.seconds)
        after = _run(prepared.kernels, options, "the program", on_progress, seconds)
        whole = _compared(job, prepared, options, before, after)
    verdicts = _verdicts(prepared, options, recorded, on_progress)
    return Verification(prepared.report, verdicts, whole, notes=tuple(notes))


# ---- matches alone --------------------------------------------------------------------------------------------------


def _verdicts(
    prepared: Prepared, options: Options, recorded: dict[int, np.ndarray], on_progress: Progress
) -> tuple[Verdict, ...]:
    """A verdict for each computation, in the order of the program; places that compute the same share one."""
    apart = (place for place in prepared.places if place.cut is None)
    told = [Verdict(place.replacement, "not tried", reason=place.reason) for place in apart]
    known: dict[str, Verdict] = {}
    to_run: list[tuple[Cut, Place]] = []
    for cut, (place, *_) in prepared.alike:
        if reason := _not_alone(cut, place, prepared):
            known[cut.digest] = Verdict(place.replacement, "not tried", reason=reason)
            continue
        found = verdict_cache.find(place, options, recorded, prepared.kernels.device) if options.cache else None
        if found is not None:
            known[cut.digest] = dataclasses.replace(found, cached=True)
        else:
            to_run.append((cut, place))
    trials = _trials(prepared, options, recorded, to_run, on_progress)
    for (cut, place), found_trials in zip(to_run, trials, strict=True):
        if isinstance(found_trials, str):
            reason = f"it cannot be run alone: {found_trials}"
            known[cut.digest] = Verdict(place.replacement, "not tried", reason=reason)
            continue
        failed = [trial for trial in found_trials if trial.reason]
        verdict = Verdict(
            place.replacement,
            "failed" if failed else "ok",
            found_trials,
            f"{failed[0].kind}: {failed[0].reason}" if failed else "",
        )
        known[cut.digest] = verdict
        verdict_cache.keep(place, options, recorded, prepared.kernels.device, verdict)
    shared = [
        dataclasses.replace(known[cut.digest], replacement=places[0].replacement, same=others(places))
        for cut, places in prepared.alike
    ]
    order = {id(place.replacement): number for number, place in enumerate(prepared.places)}
    return tuple(sorted([*told, *shared], key=lambda verdict: order[id(verdict.replacement)]))


def _not_alone(cut: Cut, place: Place, prepared: Prepared) -> str:
    """Why the function of a match says nothing of its kernel, "" if it does."""
    if prepared.alone is None:
        return "the compiler refuses the matches as functions of their own"
    found = prepared.replaced.get(cut.function, ())
    if not any(r.rule_location == place.replacement.rule_location for r in found):
        takers = ", ".join(dict.fromkeys(r.pattern for r in found)) or "nothing"
        return f"alone, its rule does not take it: {takers} does" if found else "alone, its rule does not match it"
    return ""


def _trials(
    prepared: Prepared,
    options: Options,
    recorded: dict[int, np.ndarray],
    places: Sequence[tuple[Cut, Place]],
    on_progress: Progress,
) -> list[tuple[Trial, ...] | str]:
    """The trials of each place, or why it has none; a crash fails the one that it happens in."""
    if not places or prepared.alone is None:
        return []
    plain, kernels, disturbed = prepared.alone
    cuts, inputs = tuple(cut for cut, _ in places), tuple(_recorded(place, recorded) for _, place in places)
    suite = trial_runs.Suite(
        prepared.text, plain, kernels, disturbed, cuts, inputs, options.kinds, options.limit, options.seconds
    )
    found: list[list[Trial]] = [[] for _ in places]
    refused: dict[int, str] = {}
    number = 0

    def note(event: Any) -> None:
        if isinstance(event, trial_runs.Done):
            found[event.number].append(event.trial)
        elif isinstance(event, trial_runs.Refused):
            refused[event.number] = event.reason
        else:
            on_progress(event)

    while number < len(places):
        try:
            call_isolated(trial_runs.run_suite, (suite, number), on_progress=note, method=method())
            break
        except ChildCrashError as crash:
            about = crash.last_event
            if not isinstance(about, (trial_runs.About, trial_runs.Done, trial_runs.Refused)):
                raise OpspliceError(f"the matches cannot be run alone: {crash.message}", details=crash.output) from None
            kind = about.kind if isinstance(about, trial_runs.About) else "afterwards"
            found[about.number].append(Trial(kind, None, None, 0.0, _crash(crash, options.seconds)))
            number = about.number + 1
    return [refused.get(number, tuple(each)) for number, each in enumerate(found)]


def _crash(crash: ChildCrashError, seconds: int) -> str:
    if crash.end == "SIGALRM":
        return f"it does not end within {seconds} s"
    if not crash.end.startswith("SIG"):
        return f"it ends the process ({crash.end})"
    return f"it crashes ({crash.end}): it reads or writes outside of its buffers, or writes to an input"


def _recorded(place: Place, recorded: dict[int, np.ndarray]) -> tuple[Any, ...] | None:
    """The inputs of a match in the program's own run."""
    values = [recorded.get(number) for number in place.probes]
    known = place.cut is not None and len(values) == len(place.cut.inputs)
    return tuple(values) if known and all(v is not None for v in values) else None


# ---- the whole program ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ran:
    """Results by function, what probes noted, and how long the calls took."""

    results: dict[str, list[np.ndarray]] = field(default_factory=dict)
    inputs: dict[str, list[Any]] = field(default_factory=dict)
    probes: dict[int, np.ndarray] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""


class _CallError(OpspliceError):
    """A function of the program with kernels that ended in an error, where the one without them did not."""


def _run(program: Runnable, options: Options, what: str, on_progress: Progress, seconds: int | None = None) -> _Ran:
    """Run the functions of a program in a child process. An error in a call is found of kernels, and raised without.

    seconds: how long each call may take, which is for programs with kernels.
    """
    on_progress(f"running {what}")
    try:
        return call_isolated(_run_functions, (program, options, seconds), on_progress=on_progress, method=method())
    except ChildCrashError as crash:
        how = f"does not end within {seconds} s" if crash.end == "SIGALRM" else f"crashes ({crash.end})"
        return _Ran(error=f"{what} {how} in {crash.last_event}")
    except _CallError as failure:
        return _Ran(error=f"{what} fails in {failure.message}")


def _run_functions(report: Progress, program: Runnable, options: Options, seconds: int | None) -> _Ran:
    loaded = program.load("local-task")
    ran = _Ran()
    begun = time.monotonic()
    for name in chosen(loaded.functions, options.function, alone=options.inputs is not None):
        report(f"@{name}")
        given = options.inputs if options.inputs is not None else generated(loaded.functions[name])
        ran.inputs[name] = list(given)
        signal.alarm(seconds or 0)
        try:
            ran.results[name] = [np.asarray(value) for value in loaded.call(name, *given)]
        except OpspliceError as failure:
            raise failure if seconds is None else _CallError(f"@{name}: {failure.message}") from None
        finally:
            signal.alarm(0)
        if READER in loaded.functions:
            for number, value in enumerate(loaded.call(READER)):
                if value is not None:
                    ran.probes.setdefault(number, np.asarray(value))
    return dataclasses.replace(ran, seconds=time.monotonic() - begun)


def chosen(functions: Iterable[str], wanted: str | None, *, alone: bool) -> list[str]:
    """The functions of a program to run: the one that is wanted, or all. alone: whether it is to be one.

    Raises OpspliceError if it has none that is wanted, or several where one is to be.
    """
    names = [name for name in functions if not name.startswith(PROBE)]
    found = [name for name in names if wanted in (None, name)]
    if (wanted is not None and not found) or (alone and len(found) != 1):
        what = "single function: say which is meant" if wanted is None else f"function '{wanted}'"
        raise OpspliceError(f"the program has no {what}", hint=f"it has: {', '.join(names)}")
    return found


def _compared(job: Job, prepared: Prepared, options: Options, before: _Ran, after: _Ran) -> tuple[Whole, ...]:
    if after.error:
        return (Whole("", float("inf"), 0.0, reason=after.error),)
    both = {place.root: place.replacement for place in prepared.places}.items()
    drift: dict[str, list[tuple[str, str, float]]] = {name: [] for name in before.results}
    first = next(iter(drift), "")
    for root, told in both:
        if root in before.probes and root in after.probes:
            within = told.function if told.function in drift else first  # what others call is the first one's
            amount = tolerance.difference(after.probes[root], before.probes[root])
            drift[within].append((told.location, told.pattern, amount))
    found = []
    limit = options.limit if options.limit is not None else _whole_limit(prepared.places)
    known = _exact(job, prepared.plain.parameters, before)
    for name, results in before.results.items():
        answer = known[name]
        exact, note = (None, f"not compared with f64: {answer}") if isinstance(answer, str) else (answer, "")
        difference = _furthest(after.results[name], results)
        off = reference_off = None
        if exact is not None:
            off = _furthest(after.results[name], exact)
            reference_off = _furthest(results, exact)
        wrong = difference > limit if off is None else off > max(limit, 2 * (reference_off or 0.0))
        reason = "its results differ from those without the kernels by more than the limit" if wrong else ""
        lost = _lost(results)
        found.append(Whole(name, difference, limit, off, reference_off, tuple(drift[name]), note, reason, lost))
    return tuple(found)


def _whole_limit(places: Sequence[Place]) -> float:
    """What a whole program may be off by. Where matches keep numbers in narrow types, so does what is around them."""
    elements = {part.element for place in places if place.cut is not None for part in place.cut.results}
    dtypes = [ELEMENT_TYPES[each] for each in elements if each in ELEMENT_TYPES]
    kept = max(map(tolerance.rounding, dtypes), default=0.0)
    return max(_WHOLE_LIMIT, _WHOLE_ROUNDINGS * kept)


def _lost(results: Sequence[np.ndarray]) -> float:
    """The share of numbers that are NaN or infinite."""
    lost = sum(np.count_nonzero(~np.isfinite(each)) for each in results if tolerance.is_float(each.dtype))
    return lost / max(1, sum(each.size for each in results))


def _furthest(some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> float:
    return max((tolerance.difference(one, other) for one, other in zip(some, others, strict=True)), default=0.0)


def _exact(job: Job, weights: Parameters, before: _Ran) -> dict[str, list[np.ndarray] | str]:
    """What the functions of a program compute in f64, called in turn as they were, or why that is not known.

    weights: those of the model, which a source leaves behind when it crosses processes.
    """
    found: dict[str, list[np.ndarray] | str] = {}

    def note(told: tuple[str, list[np.ndarray] | str]) -> None:
        found.update([told])

    try:
        call_isolated(_evaluated, (job, weights, before.inputs), on_progress=note, method=method())
    except (ChildCrashError, OpspliceError) as failure:
        return {name: found.get(name, failure.message) for name in before.inputs}
    return found


def _evaluated(report: Progress, job: Job, weights: Parameters, inputs: dict[str, list[Any]]) -> None:
    from opsplice.interpreter import Program
    from opsplice.pipeline.compiler import Compilation

    with Compilation(job.flags) as compilation:
        compilation.load(job.source)
        compilation.run_to("input")
        program = Program(compilation.module, np.float64, contents(weights))
        for name, given in inputs.items():
            told: list[np.ndarray] | str
            try:
                with trial_runs.limited([_WHOLE_SECONDS]):
                    told = program.call(name, given)
            except OpspliceError as failure:
                told = failure.message
            report((name, told))


# ---- compiling ------------------------------------------------------------------------------------------------------


def prepare(on_progress: Progress, job: Job, probing: bool = True) -> Prepared:
    """Compile the program without its kernels and with them, and its matches alone. Raises what `compile` raises.

    probing: whether the program notes the values of matches, which timing is better without.
    """
    from opsplice.measuring.cutting.preparation import Preparation

    return Preparation(job, on_progress, probing).all()


def of_text(job: Job, text: str) -> Job:
    """A job for functions that were cut out of the program of another one."""
    flags = tuple(flag for flag in job.flags if not flag.startswith("--iree-input-type"))
    return dataclasses.replace(job, source=ModuleSource(content=text), flags=flags)
