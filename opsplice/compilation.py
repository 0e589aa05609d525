"""One compile from a model and specs to a program: the flow that every command and the Python interface share.

    model --frontend--> module --to phase--> splice (find, plan, edit) for each spec --> rest of the pipeline --> vmfb

It imports the compiler; import it only when there is something to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from iree.compiler import ir

from opsplice.frontends import ModuleSource
from opsplice.job import Job, Outcome
from opsplice.pipeline.compiler import Compilation, Step, compile_module, run
from opsplice.pipeline.crash import compiler_crash
from opsplice.pipeline.devices import target_step
from opsplice.pipeline.diagnostics import render
from opsplice.pipeline.flags import asks_to_print
from opsplice.pipeline.isolate import ChildCrashError, call_isolated
from opsplice.report import Report
from opsplice.rewrites.devices import ProgramTarget, targets_of
from opsplice.specs import load_specs
from opsplice.splice import Splicer
from opsplice.targets.store import Store

# Where rules apply: after input conversion and the ABI's wrappers, before dispatches are formed.
PHASE = "preprocessing"

Progress = Callable[[Any], None]


def run_job(on_progress: Progress, job: Job) -> Outcome:
    """Compile in this process. Raises OpspliceError; a crash of the compiler ends the process."""
    steps = _Steps(job, preview=False)
    compiled = compile_module(job.source, steps.all(), job.flags, verbose=job.verbose, on_progress=on_progress)
    warnings = tuple(render([w]) for w in compiled.warnings)
    return Outcome(compiled.vmfb, steps.report, warnings)


def run_isolated(
    job: Job, on_progress: Progress | None, method: Literal["fork", "spawn"], command: str | None = None
) -> Outcome:
    """Compile in a child process, so that a crash of the compiler is an OpspliceError.

    command: what the user would type to have the crash in the open.
    """
    try:
        return call_isolated(run_job, (job,), on_progress=on_progress, method=method, capture_stderr=captures(job))
    except ChildCrashError as crash:
        raise compiler_crash(crash, job.source, job.flags, command) from None


def captures(job: Job) -> bool:
    """Whether what the compiler writes to stderr is kept from the user: not if they asked to see it."""
    return not (job.verbose or asks_to_print(job.flags))


def preview(on_progress: Progress, job: Job) -> Report:
    """What the specs would replace; the module is converted but not compiled, and nothing is built."""
    steps = _Steps(job, preview=True)
    with Compilation(job.flags, verbose=job.verbose) as compilation:
        compilation.load(job.source)
        run(compilation, steps.all(), to=PHASE, on_progress=on_progress)
    return steps.report


def transformed(job: Job) -> tuple[ir.Module, Report]:
    """The module after input conversion with the specs applied, in a context of its own."""
    steps = _Steps(job, preview=False, phase="input")
    with Compilation(job.flags, verbose=job.verbose) as compilation:
        compilation.load(job.source)
        run(compilation, steps.all(), to="input")
        context = ir.Context()
        module = ir.Module.parse(_bytecode(compilation.module), context=context)
    return module, steps.report


class _Steps:
    """The edits of a job, and the report that grows as they are applied."""

    def __init__(self, job: Job, *, preview: bool, phase: str = PHASE) -> None:
        self.specs = load_specs(job.specs)
        self.names = [str(p) for p in job.specs]
        self.phase = phase
        self.preview = preview
        self.report = Report()
        # Before `preprocessing` a module does not say what it is compiled for.
        self.devices = [target_step(job.archs, job.flags)] if job.archs else []
        targets = None if phase == PHASE else targets_for(job.flags, self.devices)
        self.splicer = Splicer(Store(), targets)

    def all(self) -> list[Step]:
        return [*self.devices, *(self._step(number, name) for number, name in enumerate(self.names))]

    def _step(self, number: int, name: str) -> Step:
        def apply(module: ir.Module) -> tuple[Step, ...]:
            spec = self.specs[number]
            if self.preview:
                self.report += self.splicer.preview(module, spec)
                return ()
            report, later = self.splicer.apply(module, spec)
            self.report += report
            return later

        return Step(self.phase, f"spec {name}", apply)


def targets_for(flags: tuple[str, ...], devices: list[Step]) -> tuple[ProgramTarget, ...]:
    """The targets that flags and a choice of devices stand for, read off an empty program compiled with them."""
    with Compilation(flags) as compilation:
        compilation.load(ModuleSource(content="module {}"))
        run(compilation, devices, to=PHASE)
        return targets_of(compilation.module)


def _bytecode(module: ir.Module) -> bytes:
    import io

    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()
