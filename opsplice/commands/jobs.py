"""What `compile`, `run` and `match` share: a job from the options, run in a child process, with progress and report."""

from __future__ import annotations

import argparse
import dataclasses
import gc
import shlex
import sys
from typing import TYPE_CHECKING, Any

from opsplice import frontends
from opsplice.commands import stdout
from opsplice.compiling.job import Job, Question
from opsplice.compiling.spec_sources import PackageOptions, SpecSource, resolve
from opsplice.reports.render import Status, colored, columns, report_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from opsplice.compiling.job import Outcome
    from opsplice.frontends import ModuleSource
    from opsplice.reports.explanation import Explanation
    from opsplice.reports.report import Report


def resolve_specs(options: argparse.Namespace) -> None:
    """Put the sources of the options' specs into the place of what was written; packages are pulled."""
    if not isinstance(options.spec, str) and all(isinstance(each, SpecSource) for each in options.spec):
        return
    options.spec = resolve(
        options.spec,
        packages=package_options(options),
        targets=options.target,
        flags=options.flags,
        progress=sys.stderr,
    )


def package_options(options: argparse.Namespace) -> PackageOptions:
    """What the options say of packages, as far as the command has them."""
    names = ("lock", "locked", "allow_unsigned", "allow_code", "trust")
    given: dict[str, Any] = {name: getattr(options, name) for name in names if hasattr(options, name)}
    if options.mirror:
        given["mirrors"] = tuple(options.mirror)
    return PackageOptions(**given)


def compile_job(options: argparse.Namespace) -> Outcome:
    """Compile as the options say and show the report on stderr."""
    source = frontends.load(options.model, options.dim)
    job = _job(options, source)

    def compiled() -> Outcome:
        made: Outcome = in_child(options, source, _work, ("compile", job))
        return made

    if options.cache:
        from opsplice.compiling import program_cache

        outcome = program_cache.cached(job, compiled)
    else:
        outcome = compiled()
    outcome = dataclasses.replace(outcome, parameters=source.parameters)
    if not options.json:
        _show(outcome.report, options, outcome.warnings)
    return outcome


def preview_job(options: argparse.Namespace) -> Report:
    """What the options' specs would replace."""
    source = frontends.load(options.model, options.dim)
    report: Report = in_child(options, source, _work, ("preview", _job(options, source)))
    return report


def explain_job(options: argparse.Namespace) -> Explanation:
    """Why the options' patterns match or do not."""
    question = Question(options.pattern, options.at)
    source = frontends.load(options.model, options.dim)
    explanation: Explanation = in_child(options, source, _work, ("explain", _job(options, source), question))
    return explanation


def _job(options: argparse.Namespace, source: ModuleSource) -> Job:
    no_code = getattr(options, "no_code", False)
    resolve_specs(options)
    return Job(source, options.spec, (*source.flags, *options.flags), options.target, options.verbose, no_code)


def in_child(
    options: argparse.Namespace, source: ModuleSource, work: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    """`work(progress, *arguments)` in a child process, so that a crash of the compiler is an OpspliceError."""
    with Status() as status, stdout.kept_free():
        if options.no_isolate:
            return work(status.show, *arguments)
        from opsplice.isolation.crash import compiler_crash
        from opsplice.isolation.isolate import ChildCrashError, call_isolated, method
        from opsplice.pipeline.flags import asks_to_print

        try:
            return call_isolated(
                work,
                arguments,
                on_progress=status.show,
                method=method(),
                capture_stderr=not (options.verbose or asks_to_print(options.flags)),
            )
        except ChildCrashError as crash:
            command = shlex.join(["opsplice", *sys.argv[1:], "--no-isolate"])
            raise compiler_crash(crash, source, options.flags, command) from None


def _work(report: Any, task: str, job: Job, question: Question | None = None) -> Any:
    """Runs in the child: only there is the compiler imported."""
    # Loading the compiler makes so many objects that collecting garbage meanwhile takes longer than matching.
    gc.set_threshold(100_000)
    from opsplice.compiling.compilation import explained, preview, run_job

    if question is not None:
        return explained(report, job, question)
    return preview(report, job) if task == "preview" else run_job(report, job)


def _show(report: Report, options: argparse.Namespace, warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        print(warning, file=sys.stderr)
    if options.spec:
        color, width = colored(sys.stderr), columns(sys.stderr)
        print(report_text(report, verbose=options.verbose, color=color, width=width), file=sys.stderr)
