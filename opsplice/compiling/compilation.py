"""One compile from a model and specs to a program: the flow that every command and the Python interface share.

    model --frontend--> module --to phase--> splice (find, plan, edit) for each spec --> rest of the pipeline --> vmfb

It imports the compiler; import it only when there is something to compile.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from iree.compiler import ir

from opsplice import provenance
from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store
from opsplice.compiling import linting, prebuilt
from opsplice.compiling.job import Job, Outcome, Question
from opsplice.compiling.resolution import commands_of
from opsplice.compiling.spec_files import Spec, TransformSpec, load_specs
from opsplice.compiling.splice import Splicer, at_phase, phases_of, run_pipeline
from opsplice.frontends import ModuleSource
from opsplice.isolation.crash import compiler_crash
from opsplice.isolation.isolate import ChildCrashError, call_isolated
from opsplice.pipeline import compiler, own_edits
from opsplice.pipeline.compiler import Compilation, CompileError, Step, compile_executable, compile_module, run
from opsplice.pipeline.devices import flags_for, target_step
from opsplice.pipeline.diagnostics import render
from opsplice.pipeline.flags import asks_to_print, with_growth, with_slp
from opsplice.pipeline.phases import PHASE, START, phase_index
from opsplice.reports.explanation import Explanation
from opsplice.reports.render import unmatched_lines
from opsplice.reports.report import Report
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.executable_targets import ProgramTarget, targets_of
from opsplice.rewrites.ir.symbols import Brought
from opsplice.rewrites.link import late_binding
from opsplice.rewrites.memory import aligned_buffers, in_bounds
from opsplice.rewrites.plan.known_sizes import MOST_GROWTH
from opsplice.spec_lang.loading.loader import LoadedSpec
from opsplice.spec_lang.syntax import tree

Progress = Callable[[Any], None]

# What is shown a module and a spec that is about to be applied to it.
Watch = Callable[[ir.Module, Spec, Splicer], None]


# Patterns in PDL, which IREE applies at the same phase: after a transform spec, and so after ours.
_PATTERNS = "--iree-preprocessing-pdl-spec-filename="


def _patterns_after_specs(job: Job) -> tuple[Job, list[Step]]:
    """A job with specs without its flag for patterns in PDL, and the edit that applies these, as IREE does."""
    files = [flag.removeprefix(_PATTERNS) for flag in job.flags if flag.startswith(_PATTERNS)]
    if not files or not job.specs:
        return job, []
    flags = tuple(flag for flag in job.flags if not flag.startswith(_PATTERNS))
    passes = f'iree-preprocessing-apply-pdl-patterns{{patterns-file="{files[-1]}"}},canonicalize,cse'
    apply = functools.partial(run_pipeline, passes=passes, where=f"{_PATTERNS}{files[-1]}")
    return dataclasses.replace(job, flags=flags), [Step(PHASE, "patterns in PDL", apply)]


def run_job(on_progress: Progress, job: Job, watch: Watch | None = None, extra: Sequence[Step] = ()) -> Outcome:
    """Compile in this process. Raises OpspliceError; a crash of the compiler ends the process.

    watch: is shown the module and each spec before the spec is applied. extra: edits after those of the specs.
    """
    job, patterns = _patterns_after_specs(job)
    steps = _Steps(job, preview=False, watch=watch)
    commands = steps.commands()
    flags = (*job.flags, *flags_for(job.targets, job.flags))
    if steps.inlines_functions():
        flags = with_slp(flags)
    if job.specs:
        flags = with_growth(flags, MOST_GROWTH)
    own = own_edits.steps(flags, steps.note_kernels if job.specs else None)
    edits = [*steps.all(), *extra, *patterns, *own, *steps.late(), own_edits.LAST]

    def report(progress: compiler.Progress) -> None:
        on_progress(dataclasses.replace(progress, notes=tuple(unmatched_lines(steps.report))))

    try:
        compiled = compile_module(job.source, edits, flags, verbose=job.verbose, on_progress=report)
    except CompileError as error:
        # What a rule was to replace may be what IREE cannot compile.
        raise error.noting(*unmatched_lines(steps.report)) from None
    warnings = tuple(render([w]) for w in compiled.warnings)
    return Outcome(compiled.vmfb, steps.report, warnings, steps.provided, commands)


def run_isolated(job: Job, on_progress: Progress | None) -> Outcome:
    """Compile in a child process, so that a crash of the compiler is an OpspliceError."""
    hidden = not (job.verbose or asks_to_print(job.flags))  # what the compiler writes to stderr
    try:
        return call_isolated(run_job, (job,), on_progress=on_progress, method="spawn", capture_stderr=hidden)
    except ChildCrashError as crash:
        raise compiler_crash(crash, job.source, job.flags, None) from None


def preview(on_progress: Progress, job: Job) -> Report:
    """What the specs would replace; the module is converted but not compiled, and nothing is built."""
    job, _ = _patterns_after_specs(job)
    steps = _Steps(job, preview=True)
    with Compilation(job.flags, verbose=job.verbose) as compilation:
        compilation.load(job.source)
        run(compilation, steps.all(), to=steps.phases()[-1], on_progress=on_progress)
    return steps.report


def explained(on_progress: Progress, job: Job, question: Question) -> Explanation:
    """Why the patterns of the specs match or do not; the module is converted but not compiled, and not changed."""
    from opsplice.compiling import explaining  # what only this needs takes long to load

    job, _ = _patterns_after_specs(job)
    specs, unread = explaining.check(load_specs(job.specs), question)
    steps = _Steps(job, preview=True)
    found: list[Explanation] = []

    def step(phase: str) -> Step:
        def look(module: ir.Module) -> None:
            parts = explaining.parts_at(specs, phase, PHASE, question)
            splicer = steps.splicer(phase, Store())
            found.append(explaining.explain(module, parts, question, job.source, splicer))

        return Step(phase, "explain", look)

    with Compilation(job.flags, verbose=job.verbose) as compilation:
        compilation.load(job.source)
        phases = [phase for phase in steps.phases() if explaining.parts_at(specs, phase, PHASE, question)]
        run(compilation, [*steps.devices, *map(step, phases)], to=phases[-1], on_progress=on_progress)
    return dataclasses.replace(explaining.joined(found), unread=unread)


def transformed(job: Job) -> tuple[ir.Module, Report]:
    """The module after input conversion with the specs applied, in a context of its own."""
    steps = _Steps(job, preview=False, phase="input")
    if steps.phases()[-1] != "input":
        hint = "such rules are for `opsplice compile`"
        raise OpspliceError(
            f"a rule is for phase {steps.phases()[-1]}, and a frontend's module ends at input", hint=hint
        )
    if steps.late():
        hint = "such kernels are for `opsplice compile`"
        raise OpspliceError(
            "a kernel comes from a provider, and a frontend's module ends before its code is there", hint=hint
        )
    with Compilation(job.flags, verbose=job.verbose) as compilation:
        compilation.load(job.source)
        align = Step("input", "align buffers", aligned_buffers.align_early)
        bounding = Step("input", "keep indices in bounds", in_bounds.keep_in_bounds)
        noting = Step("input", "note kernels", steps.note_kernels)
        run(compilation, [*steps.all(), bounding, align, noting], to="input")
        context = ir.Context()
        module = ir.Module.parse(emit.bytecode(compilation.module.operation), context=context)
    return module, steps.report


def _kept_rules(spec: LoadedSpec, without: Collection[str]) -> LoadedSpec:
    return dataclasses.replace(spec, rules=tuple(rule for rule in spec.rules if str(rule.span) not in without))


def _is_idle(spec: LoadedSpec | TransformSpec) -> bool:
    """Whether a spec does nothing by itself, as one that is there for others to import."""
    return isinstance(spec, LoadedSpec) and not spec.rules and not spec.runs


class _Steps:
    """The edits of a job, and the report that grows as they are applied."""

    def __init__(self, job: Job, *, preview: bool, phase: str = PHASE, watch: Watch | None = None) -> None:
        specs = load_specs(job.specs)
        self.no_code = job.no_code
        # Sources that transform specs name are refused where they would be built.
        self.specs = tuple(
            spec if isinstance(spec, TransformSpec) else _kept_rules(prebuilt.only(spec, job.no_code), job.without)
            for spec in specs
        )
        self.names = [str(p) for p in job.specs]
        self.phase = phase
        self.preview = preview
        self.watch = watch
        idle = [name for name, spec in zip(self.names, specs, strict=True) if _is_idle(spec)]
        warnings = tuple(f"{name} has no rule, so it replaces nothing: write `replace ... with ...`" for name in idle)
        self.report = Report(spec_warnings=linting.brief(self.specs), warnings=warnings)
        self.devices = [target_step(job.targets, job.flags)] if job.targets else []
        # Before `preprocessing` a module does not say what it is compiled for.
        early = any(phase_index(phase) < phase_index(PHASE) for phase in self.phases())
        self.targets = targets_for(job.flags, self.devices) if early else None
        self.conversions = conversions_for(job.flags) if START in self.phases() else {}
        self.store = Store()
        self.brought = Brought()
        self.flags = (*job.flags, *flags_for(job.targets, job.flags))
        self.provided: late_binding.Provided = {}

    def note_kernels(self, module: ir.Module) -> None:
        provenance.note(module, self.report)

    def phases(self) -> list[str]:
        """The phases at which specs apply, in the order of the pipeline."""
        found = {self.phase}
        for spec in self.specs:
            if not isinstance(spec, TransformSpec):
                found |= phases_of(spec, self.phase)
        return sorted(found, key=phase_index)

    def all(self) -> list[Step]:
        return [*self.devices, *(self._step(phase, number) for phase in self.phases() for number in self._at(phase))]

    def late(self) -> list[Step]:
        """The edits that take out of the program what a provider is to have; none where no kernel asks for that."""
        steps = []
        if any(clause.is_plugin for clause in self._clauses(scalar=True)):
            linked = functools.partial(late_binding.bind_functions, provided=self.provided)
            last = Step(late_binding.BIND_PHASE, "leave the linking of functions to a provider", linked)
            # Behind the steps that approaches ask for, which link the functions that are here.
            steps.append(Step(late_binding.BIND_PHASE, "look for functions of plugins", lambda _module: [last]))
        if not any(clause.is_provided for clause in self._clauses()):
            return steps
        # Some flags are the process's: all compiles in it must have the same ones.
        compiling = functools.partial(compile_executable, phase=late_binding.TAKE_PHASE, flags=self.flags)

        def take(module: ir.Module) -> None:
            self.provided.update(late_binding.take(module, compiling))

        bind = functools.partial(late_binding.bind, provided=self.provided)
        return [
            Step(late_binding.TAKE_PHASE, "compile the kernels of a provider", take),
            Step(late_binding.BIND_PHASE, "ask a provider for kernels", bind),
            *steps,
        ]

    def inlines_functions(self) -> bool:
        """Whether the code for CPUs that the compiler makes may call functions on elements."""
        return any(clause.backend == "cpu" for clause in self._clauses(scalar=True))

    def _clauses(self, *, scalar: bool = False) -> list[tree.ArtifactClause]:
        """The artifacts of all kernels, or of functions on elements only."""
        specs = [spec for spec in self.specs if not isinstance(spec, TransformSpec)]
        kernels = [kernel for spec in specs for kernel in spec.kernels.values()]
        return [clause for kernel in kernels if kernel.is_scalar or not scalar for clause in kernel.artifacts]

    def commands(self) -> dict[str, Path]:
        """The files of what the program calls on the host, by module."""
        return commands_of(spec for spec in self.specs if not isinstance(spec, TransformSpec))

    def _at(self, phase: str) -> list[int]:
        """The specs with something to do at a phase, by number. All come at the default one, to be reported on."""
        return [
            number
            for number, spec in enumerate(self.specs)
            if phase == self.phase or (not isinstance(spec, TransformSpec) and phase in phases_of(spec, self.phase))
        ]

    def splicer(self, phase: str, store: Store) -> Splicer:
        """What applies specs at a phase."""
        targets = self.targets if phase_index(phase) < phase_index(PHASE) else None
        return Splicer(store, targets, self.conversions if phase == START else {}, self.brought, self.no_code)

    def _step(self, phase: str, number: int) -> Step:
        splicer = self.splicer(phase, self.store)

        def apply(module: ir.Module) -> tuple[Step, ...]:
            spec = self.specs[number]
            if not isinstance(spec, TransformSpec):
                spec = at_phase(spec, phase, self.phase)
            if self.preview:
                self.report += splicer.preview(module, spec)
                return ()
            if self.watch is not None:
                self.watch(module, spec, splicer)
            report, later = splicer.apply(module, spec)
            self.report += report
            return later

        return Step(phase, f"spec {self.names[number]}", apply)


def targets_for(flags: tuple[str, ...], devices: list[Step]) -> tuple[ProgramTarget, ...]:
    """The targets that flags and a choice of devices stand for, read off an empty program compiled with them."""
    with Compilation(flags) as compilation:
        compilation.load(ModuleSource(content="module {}"))
        run(compilation, devices, to=PHASE)
        return targets_of(compilation.module)


def conversions_for(flags: tuple[str, ...]) -> dict[str, str]:
    """The element types that IREE converts between `start` and `input`, each with the flag that asks for it."""
    with Compilation(flags) as compilation:
        return compilation.conversions
