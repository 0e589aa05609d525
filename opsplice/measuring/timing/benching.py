"""What kernels bring: each match alone and the whole program, with and without, in turn on one core; and peers.

It runs in a child process that is pinned to one CPU, on a device without threads, and counts the time of its thread. On
devices other than the CPU the time is that of calls that are waited for, with inputs and results on the device.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from opsplice.common.errors import OpspliceError
from opsplice.isolation.isolate import ChildCrashError, call_isolated, method
from opsplice.measuring.cutting.records import OPEN_SIZE, Cut, others
from opsplice.measuring.cutting.runnable import Runnable
from opsplice.measuring.timing import peers
from opsplice.measuring.timing.machine import Machine, this_machine
from opsplice.measuring.timing.paired import Paired, in_turn
from opsplice.measuring.verifying.guarded_memory import view
from opsplice.measuring.verifying.trials import generated, random_inputs
from opsplice.measuring.verifying.verification import Prepared, Progress, chosen
from opsplice.reports.report import Replacement, Report
from opsplice.runtime import call_values, to_host
from opsplice.runtime.device_choice import name_of
from opsplice.runtime.value_text import ELEMENT_TYPES

IREE, KERNELS = "IREE", "kernels"
_DEVICE = "local-sync"


@dataclass(frozen=True)
class Timed:
    """The seconds of each side. replacement, same: of a match and of others that are the same; None for a function.

    operations, moved: on numbers of 32 bits or more, and bytes of inputs, weights and results; 0 where they are not
    known.
    """

    name: str
    seconds: Mapping[str, tuple[float, ...]]
    replacement: Replacement | None = None
    same: tuple[str, ...] = ()
    operations: int = 0
    moved: int = 0

    def median(self, side: str) -> float:
        """Of one side, in seconds."""
        return statistics.median(self.seconds[side])

    def against(self, side: str, ours: str = KERNELS) -> Paired | None:
        """The kernels, or another side, against a side; None where one was not run."""
        if side not in self.seconds or ours not in self.seconds:
            return None
        return Paired(self.seconds[ours], self.seconds[side])


@dataclass(frozen=True)
class Bench:
    """All that was measured. sizes: of both programs in bytes; compiled: processor time in seconds; memory: the most
    that running each adds to a process, in bytes.
    """

    report: Report
    machine: Machine
    timed: tuple[Timed, ...]
    sizes: tuple[int, int]
    compiled: tuple[float, float]
    memory: tuple[int, int]
    notes: tuple[str, ...] = ()

    @property
    def whole(self) -> tuple[Timed, ...]:
        """The functions of the program."""
        return tuple(each for each in self.timed if each.replacement is None)

    def to_json(self) -> dict[str, Any]:
        """As `opsplice bench --json` prints it; times in seconds."""
        return {
            "machine": vars(self.machine),
            "timed": [_timed_json(each) for each in self.timed],
            "bytes": self.sizes,
            "compile_seconds": self.compiled,
            "memory": self.memory,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        from opsplice.reports.render_bench import bench_text

        return bench_text(self)

    def _repr_html_(self) -> str:
        from opsplice.reports.measured_page import bench_html

        return bench_html(self)


def _timed_json(each: Timed) -> dict[str, Any]:
    found: dict[str, Any] = {"name": each.name, "seconds": {side: each.median(side) for side in each.seconds}}
    if each.replacement is not None:
        found |= {"match": each.replacement.to_json(), "same": each.same}
    for side in each.seconds:
        pair = each.against(side) if side != KERNELS else None
        if pair is not None:
            found[f"against {side}"] = {"ratio": pair.ratio, "spread": pair.spread, "verdict": pair.verdict}
    return {**found, "operations": each.operations, "bytes": each.moved}


@dataclass(frozen=True)
class Suite:
    """What a child times: matches alone, and functions of two programs and of peers."""

    plain: Runnable
    kernels: Runnable
    alone: tuple[Runnable, Runnable] | None
    cuts: tuple[Cut, ...]
    seconds: float
    function: str | None = None
    inputs: tuple[Any, ...] | None = None
    peers: tuple[str, ...] = ()
    model: Any = None
    with_kernels: bool = True


@dataclass(frozen=True)
class _Found:
    """alone: the times of each match, or why it has none. inputs: those of the program, if it is one function."""

    inputs: list[Any] = field(default_factory=list)
    alone: list[dict[str, tuple[float, ...]] | str] = field(default_factory=list)
    whole: dict[str, dict[str, tuple[float, ...]]] = field(default_factory=dict)


def bench(
    prepared: Prepared,
    on_progress: Progress,
    *,
    seconds: float = 1.0,
    function: str | None = None,
    inputs: tuple[Any, ...] | None = None,
    against: Sequence[str] = (),
    model: Any = None,
) -> Bench:
    """Time what `prepare` compiled without probes. seconds: for each match and each function."""
    alike = [(cut, places) for cut, places in prepared.alike if cut.function in prepared.replaced]
    alone = None if prepared.alone is None else (prepared.alone[0], prepared.alone[1])
    cuts = tuple(cut for cut, _ in alike)
    both = (prepared.plain, prepared.kernels)
    has_kernels = bool(prepared.report.replacements)
    suite = Suite(*both, alone, cuts, seconds, function, inputs, tuple(against), model, has_kernels)
    device = prepared.kernels.device
    try:
        found: _Found = call_isolated(_time, (suite,), on_progress=on_progress, method=method())
        memory = tuple(call_isolated(_memory, (each, suite), on_progress=on_progress, method=method()) for each in both)
    except ChildCrashError as crash:
        hint = "`opsplice verify` says which match is wrong"
        raise OpspliceError(f"the program crashes while it is timed: {crash.last_event}", hint=hint) from None
    timed = [
        Timed(places[0].replacement.location, sides, places[0].replacement, others(places), *_work(cut, found))
        for (cut, places), sides in zip(alike, found.alone, strict=True)
        if not isinstance(sides, str)
    ]
    refused = [
        f"{place.replacement.location} is timed in the whole program only: {reason}"
        for (_, (place, *_)), reason in zip(alike, found.alone, strict=True)
        if isinstance(reason, str)
    ]
    if any(set(each.symbols) - set(each.given if found.inputs else ()) for each in cuts):
        refused.append(f"sizes that the program computes are taken as {OPEN_SIZE} where matches are timed alone")
    if inputs is None and found.inputs and any(each.given for each in cuts):
        refused.append(
            f"open sizes (?) of inputs are taken as {OPEN_SIZE}, or the nearest that they may be; --input gives others"
        )
    seen = max((each.operations / each.median(KERNELS) for each in timed), default=0.0)
    machine = this_machine(on_progress, seen) if device is None else Machine(name_of(device), 0)
    timed += [Timed(f"@{name}", sides) for name, sides in found.whole.items()]
    sizes, most = (len(prepared.plain.vmfb), len(prepared.kernels.vmfb)), (memory[0], memory[1])
    return Bench(prepared.report, machine, tuple(timed), sizes, prepared.seconds, most, (*prepared.notes, *refused))


def _work(cut: Cut, found: _Found) -> tuple[int, int]:
    """Operations, as far as the peak of f32 says how many there can be, and bytes."""
    sizes = cut.sizes(found.inputs)
    narrow = any(ELEMENT_TYPES[each.element].itemsize < 4 and each.element != "i1" for each in cut.inputs)
    return 0 if narrow else cut.operations(sizes), cut.bytes_moved(sizes)


# ---- in the child ---------------------------------------------------------------------------------------------------


def pin() -> None:
    """Stay on one of the CPUs that the process may run on."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def clock_of(program: Runnable) -> Callable[[], float]:
    """What a program is timed by; one of this machine's CPU is kept on one of its cores."""
    if program.device is not None:
        return time.perf_counter
    pin()
    return time.thread_time


def _time(report: Progress, suite: Suite) -> _Found:
    clock = clock_of(suite.plain)
    plain, kernels = suite.plain.load(_DEVICE), suite.kernels.load(_DEVICE)
    names = chosen(plain.functions, suite.function, alone=False)
    inputs = {name: _inputs(plain.functions[name], suite) for name in names}
    found = _Found(inputs[names[0]] if len(names) == 1 else [])
    for number, cut in enumerate(suite.cuts):
        assert suite.alone is not None
        report(f"timing match {number + 1} of {len(suite.cuts)}")
        made = random_inputs(cut, cut.sizes(found.inputs))
        try:
            sides = {IREE: alone(suite.alone[0], cut, made), KERNELS: alone(suite.alone[1], cut, made)}
            found.alone.append(in_turn(sides, suite.seconds, clock))
        except OpspliceError as failure:
            found.alone.append(failure.message)
    for name, given in inputs.items():
        report(f"timing @{name}")
        whole = {IREE: _whole(plain, name, given)}
        if suite.with_kernels:
            whole[KERNELS] = _whole(kernels, name, given)
        for peer in suite.peers:
            whole |= peers.sides(peer, suite.model, given)
        found.whole[name] = in_turn(whole, suite.seconds * len(whole), clock)
    return found


def medians(report: Progress, program: Runnable, cuts: Sequence[Cut], seconds: float) -> dict[str, float]:
    """What each function of a program takes, in seconds; those that cannot be run alone are left out."""
    clock = clock_of(program)
    found = {}
    for number, cut in enumerate(cuts):
        report(f"timing computation {number + 1} of {len(cuts)}")
        try:
            call = alone(program, cut, random_inputs(cut, cut.sizes()))
            found[cut.function] = statistics.median(in_turn({"": call}, seconds, clock)[""])
        except OpspliceError:
            continue  # such as elements that nothing can be generated of, and sums that go on in their result
    return found


def _inputs(function: Any, suite: Suite) -> list[Any]:
    if suite.inputs is None:
        return generated(function)
    call_values.checked_arguments(function, suite.inputs)
    return list(suite.inputs)


def alone(program: Runnable, cut: Cut, inputs: Any) -> Callable[[], object]:
    """A call of a cut-out match into memory that is there already."""
    from iree.runtime import VmVariantList

    from opsplice.runtime.direct_call import DirectCall

    call = DirectCall(lambda: program.load(_DEVICE), cut.function)
    declared = [*(call.function.inputs or ())]
    given = VmVariantList(len(declared))
    kept = []
    outputs = zip(cut.results, declared[len(inputs.values) :], strict=True)
    made = [np.zeros(part.shape(inputs.sizes), kind.dtype) for part, kind in outputs]
    for value, kind in zip((*inputs.values, *made), declared, strict=True):
        if not isinstance(value, np.ndarray):
            call.push(given, value)
        elif not call.program.on_host:
            given.push_ref(to_host.on_device(call.device, value))
        else:
            kept.append(to_host.aligned_copy(value))
            given.push_ref(view(call.device, kept[-1], kind.dtype))
    return lambda: (call.invoke(given), kept)


def _whole(program: Any, name: str, given: list[Any]) -> Callable[[], object]:
    from iree.runtime import VmVariantList

    from opsplice.runtime.direct_call import DirectCall

    call = DirectCall(lambda: program, name)
    arrays = [to_host.aligned_copy(value) if isinstance(value, np.ndarray) else value for value in given]
    if call.program.on_host:
        return lambda: call(arrays)
    known = VmVariantList(len(given))
    for index, value in enumerate(given):
        call.push(known, call_values.checked_input(call.function, index, value))
    return lambda: call.invoke(known)


def _memory(report: Progress, program: Runnable, suite: Suite) -> int:
    """The most memory that running a program once adds to a process, 0 where the system does not say it."""
    from opsplice.runtime import direct_call, loaded_program  # noqa: F401 (what runs programs is there before)

    report("measuring memory")
    if program.device is not None:
        return 0
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return 0
    before = _status("VmRSS")
    loaded = program.load(_DEVICE)
    for name in chosen(loaded.functions, suite.function, alone=False):
        loaded.call(name, *_inputs(loaded.functions[name], suite))
    return max(0, _status("VmHWM") - before)


def _status(key: str) -> int:
    """A number of bytes of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))
