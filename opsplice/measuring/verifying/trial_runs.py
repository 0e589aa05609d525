"""Matches alone, run in a child process: as IREE compiles them, with their kernels, and in f64.

The child says what it is about to do before it does it, so that its parent knows where it died. It imports IREE.
"""

from __future__ import annotations

import functools
import itertools
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from opsplice.common.errors import OpspliceError
from opsplice.measuring.cutting.records import Cut, Trial
from opsplice.measuring.cutting.runnable import Runnable
from opsplice.measuring.verifying import static_data, tolerance
from opsplice.measuring.verifying.guarded_memory import Guarded, Watched
from opsplice.measuring.verifying.trials import KINDS, Inputs, inputs_of

# How long the oracle may take for one match.
_ORACLE_SECONDS = 20.0
# How often a match is run with several threads at the most, for how many seconds, and with how many.
_RACES, _RACE_SECONDS, _THREADS = 200, 0.5, 4
# The bytes that are in memory before a call: first NaN, or -1; then what is large; zeros, as in fresh memory. Last what
# tells a number that was read there from one that was not written: a sum with NaN has the same bits.
_POISON, _OTHER_POISONS, _TELLING_POISON = 0xFF, (0x5A, 0x00), 0x01
_BACKWARDS = "it gives other numbers with its workgroups in another order: one needs or overwrites what another wrote"
_DISTURBED = "it gives other numbers with workgroups backwards and more behind its buffers: it races, or reads there"


@dataclass(frozen=True)
class Suite:
    """Matches alone, ready to run: the function of each in three programs, and in MLIR for the oracle.

    disturbed: as `kernels`, under other circumstances (`cutting/disturbing.py`). recorded: the inputs of each in the
    program's own run, None where these are not known. limit: what the user says of tolerances. seconds: how long a call
    may take.
    """

    text: str
    plain: Runnable
    kernels: Runnable
    disturbed: Runnable
    cuts: tuple[Cut, ...]
    recorded: tuple[Sequence[Any] | None, ...]
    kinds: tuple[str, ...] = KINDS
    limit: float | None = None
    seconds: int = 60


@dataclass(frozen=True)
class About:
    """What the child is about to do: a trial of a match."""

    number: int
    kind: str

    def __str__(self) -> str:
        return f"match {self.number + 1}: {self.kind}"


@dataclass(frozen=True)
class Done:
    """What a trial found."""

    number: int
    trial: Trial


@dataclass(frozen=True)
class Refused:
    """Why a match cannot be run alone."""

    number: int
    reason: str


class _KernelError(OpspliceError):
    """A call of a kernel that ended in an error, such as an exception of a command in Python."""


def run_suite(report: Callable[[Any], None], suite: Suite, first: int) -> bool:
    """Run the matches of a suite from number `first` on, and report each trial."""
    import iree.runtime

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    iree.runtime.flags.parse_flags(f"--task_topology_group_count={_THREADS}")
    programs = _Programs(suite)
    oracle = _Oracle(suite.text)
    step: About | Done
    for number, cut in enumerate(suite.cuts[first:], first):
        oracle.restart()
        try:
            for inputs in inputs_of(cut, suite.recorded[number], suite.kinds):
                for step in _tried(programs, oracle, cut, inputs, number, suite.limit):
                    report(step)
        except _KernelError as failure:
            report(Done(number, Trial(step.kind if isinstance(step, About) else "", None, None, 0.0, failure.message)))
        except OpspliceError as failure:
            report(Refused(number, failure.message))
    return True


def _tried(
    programs: _Programs, oracle: _Oracle, cut: Cut, inputs: Inputs, number: int, given: float | None
) -> Iterator[About | Done]:
    """The steps of a trial."""
    yield About(number, f"{inputs.kind}, IREE's own code")
    reference = programs.call("plain", cut, inputs)
    exact = oracle.results(cut.function, inputs.values) if inputs.is_first else None
    yield About(number, inputs.kind)
    found = programs.call("kernels", cut, inputs)
    worst, reason = _judged(cut, found, reference, exact, given)
    if reason and exact is None:  # f64 takes the longest, and what agrees with IREE's own code is near it
        exact = oracle.results(cut.function, inputs.values)
        worst, reason = _judged(cut, found, reference, exact, given)
    if reason and inputs.kind == "denormals":
        # Dispatches take denormals for zeros; what comes of these is right, too.
        zeros = inputs.without_denormals()
        plain, known = programs.call("plain", cut, zeros), oracle.results(cut.function, zeros.values)
        again, still = _judged(cut, found, plain, known, given)
        worst, reason = (worst, reason) if still else (again, "")
    elif reason and given is None and exact is not None:
        moved = [oracle.results(cut.function, inputs.moved(seed).values) for seed in range(tolerance.MOVES)]
        worst, reason = _judged(cut, found, reference, exact, given, [m for m in moved if m is not None])
    reason = _emptiness(programs, cut, inputs, found, reference) or reason if reason else found.reason
    if inputs.is_first and not reason:
        for step in _orders(programs, cut, inputs, number, found.results):
            if isinstance(step, str):
                reason = step
                break
            yield step
    yield Done(number, Trial(inputs.kind, worst.off, worst.reference_off, worst.limit, reason))


def _judged(
    cut: Cut,
    found: _Results,
    reference: _Results,
    exact: list[np.ndarray] | None,
    given: float | None,
    of_moved: Sequence[list[np.ndarray]] = (),
) -> tuple[tolerance.Judgement, str]:
    """The worst of the results of a call, and what is wrong with it, "" if nothing is."""
    judged = []
    for at, (result, wanted) in enumerate(zip(found.results, reference.results, strict=True)):
        limit = max(cut.width, tolerance.limit_of(result.dtype, cut.longest_sum, given))
        known, others = None if exact is None else exact[at], [each[at] for each in of_moved]
        judgement = tolerance.judge(result, wanted, known, limit, cut.longest_sum, others)
        judged.append((judgement, judgement.reason))
    return max(judged, key=lambda each: (bool(each[1]), each[0].off))


def _emptiness(programs: _Programs, cut: Cut, inputs: Inputs, found: _Results, reference: _Results) -> str:
    """What is wrong where results hold what memory held before the call, "" if they do not."""
    holes = [now & ~wanted for now, wanted in zip(found.unwritten, reference.unwritten, strict=True)]
    if not any(hole.any() for hole in holes):
        return ""
    again = programs.call("kernels", cut, inputs, poison=_TELLING_POISON)
    for hole, still, result in zip(holes, again.unwritten, again.results, strict=True):
        # A command's own array holds NaN where it wrote nothing, whatever was in memory.
        if count := np.count_nonzero(hole & (still | (result != result))):
            return f"{count} of {hole.size} elements are not written"
    hole = next(hole for hole in holes if hole.any())
    told = f"{np.count_nonzero(hole)} of {hole.size} elements are made of memory that nobody wrote"
    return f"{told}: it reads its result before it writes it, or outside of its buffers"


def _orders(
    programs: _Programs, cut: Cut, inputs: Inputs, number: int, before: Sequence[np.ndarray]
) -> Iterator[About | str]:
    """What goes wrong where only the memory or the order of the workgroups is another; they are to give equal bits."""
    yield About(number, f"{inputs.kind}, in other memory")
    for poison in _OTHER_POISONS:
        other = programs.call("kernels", cut, inputs, poison=poison, at_end=False)
        if other.reason or not _equal(other.results, before):
            yield other.reason or "it gives other numbers in other memory: it races, or reads what nobody wrote"
    on_host = programs.on_host
    yield About(number, f"{inputs.kind}, workgroups backwards")
    disturbed = programs.call("disturbed", cut, inputs)
    if disturbed.reason or not _equal(disturbed.results, before):
        yield disturbed.reason or (_BACKWARDS if on_host else _DISTURBED)
    if on_host:
        yield About(number, f"{inputs.kind}, in another call")
        if programs.keeps(cut, inputs):
            yield "it keeps numbers of a call in static data, which all workers and calls share"
    yield About(number, f"{inputs.kind}, {_THREADS} threads")
    until = time.monotonic() + _RACE_SECONDS
    for _ in itertools.takewhile(lambda _: time.monotonic() < until, range(_RACES)):
        if not _equal(programs.call("kernels", cut, inputs, device="local-task").results, before):
            where = f"on {_THREADS} threads" if on_host else "when it is run again"
            yield f"it gives other numbers {where}: its workgroups or threads race"
            return


def _equal(some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> bool:
    return all(np.array_equal(_bytes(a), _bytes(b)) for a, b in zip(some, others, strict=True))


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


@dataclass(frozen=True)
class _Results:
    """unwritten: which elements of each result are as they were before. reason: what was written beside."""

    results: tuple[np.ndarray, ...]
    unwritten: tuple[np.ndarray, ...]
    reason: str = ""


class _Programs:
    """The programs of a suite, called in guarded memory."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.calls: dict[tuple[str, str, str], Any] = {}
        self.on_host = suite.kernels.device is None

    def call(
        self,
        program: str,
        cut: Cut,
        inputs: Inputs,
        poison: int = _POISON,
        *,
        at_end: bool = True,
        device: str = "local-sync",
    ) -> _Results:
        """Call the function of a match in one of the programs."""
        from iree.runtime import VmVariantList

        call = self._direct(program, cut.function, device)
        watched = functools.partial(Guarded, at_end=at_end) if call.program.on_host else Watched
        declared = [*call.function.inputs]
        given = VmVariantList(len(declared))
        guards = []
        for value, kind in zip(inputs.values, declared, strict=False):
            if not isinstance(value, np.ndarray):
                call.push(given, value)
                continue
            guard = watched(value.shape, value.dtype, poison)
            guard.array[...] = value
            guard.seal()
            guards.append(guard)
            given.push_ref(guard.on(call.device, kind.dtype))
        results = []
        for part, kind in zip(cut.results, declared[len(inputs.values) :], strict=True):
            guard = watched(part.shape(inputs.sizes), kind.dtype, poison)
            results.append(guard)
            given.push_ref(guard.on(call.device, kind.dtype))
        signal.alarm(self.suite.seconds)
        try:
            call.invoke(given)
        except OpspliceError as failure:
            raise failure if program == "plain" else _KernelError(failure.message) from None
        finally:
            signal.alarm(0)
        for guard in (*guards, *results):
            guard.fetch()
        reason = next((guard.harm for guard in (*guards, *results) if guard.harm), "")
        return _Results(tuple(g.array.copy() for g in results), tuple(g.unwritten() for g in results), reason)

    def keeps(self, cut: Cut, inputs: Inputs) -> bool:
        """Whether the static data of the kernels is another after a call with other inputs."""
        self.call("kernels", cut, inputs)
        before = (data := static_data.of_program(self.suite.kernels.vmfb)).copy()
        self.call("kernels", cut, inputs.rolled())
        return data.copy() != before

    def _direct(self, program: str, function: str, device: str) -> Any:
        from opsplice.runtime.direct_call import DirectCall

        key = (program, function, device)
        if key not in self.calls:
            self.calls[key] = DirectCall(lambda: getattr(self.suite, program).load(device), function)
        return self.calls[key]


class _Oracle:
    """The matches in f64, by the interpreter, for as long as that takes no longer than it may."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.module: Any = None
        self.left = _ORACLE_SECONDS
        self.reason = ""

    def restart(self) -> None:
        """Begin with another match."""
        self.left, self.reason = _ORACLE_SECONDS, ""

    def results(self, function: str, inputs: Sequence[Any]) -> list[np.ndarray] | None:
        """What a function computes, None where the interpreter cannot say; `reason` is then why."""
        from opsplice.interpreter import EvaluationError, evaluate

        if self.reason:
            return None
        left = [self.left]
        try:
            with limited(left):
                module = self._parsed()
                return evaluate(module, function, self._with_outputs(function, inputs), np.float64)
        except (EvaluationError, OpspliceError) as failure:
            self.reason = failure.message
            return None
        finally:
            self.left = left[0]

    def _parsed(self) -> Any:
        from iree.compiler import ir

        from opsplice.rewrites.ir import emit

        if self.module is None:
            context = ir.Context()
            emit.load_dialects(context)
            self.module = ir.Module.parse(self.text, context)
        return self.module

    def _with_outputs(self, function: str, inputs: Sequence[Any]) -> list[Any]:
        """With something for each buffer of a result, which the ops of a match do not read."""
        from iree.compiler import ir

        from opsplice.matchers.ir.op_names import symbol_of

        found = next(op.operation for op in self.module.body.operations if symbol_of(op.operation) == function)
        kinds = [argument.type for argument in found.regions[0].blocks[0].arguments][len(inputs) :]
        sizes = (
            [1 if k.is_dynamic_dim(axis) else k.get_dim_size(axis) for axis in range(k.rank)]
            for k in map(ir.RankedTensorType, kinds)
        )
        return [*inputs, *(np.zeros(size) for size in sizes)]


@contextmanager
def limited(left: list[float]) -> Iterator[None]:
    """Raise OpspliceError after the seconds in a list, in Python code; afterwards the list has what is left of them."""

    def stop(*_: object) -> None:
        raise OpspliceError("it takes too long in f64")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(left[0], 0.01))
    try:
        yield
    finally:
        left[0] = signal.setitimer(signal.ITIMER_REAL, 0)[0]
        signal.signal(signal.SIGALRM, before)
