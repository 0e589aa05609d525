"""What `compile`, `run`, `match` and `explain` share: a job from the options, and what shows its report."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from opsplice import frontends
from opsplice.commands.shared.isolated import on_model
from opsplice.compiling.job import Job
from opsplice.compiling.spec_sources import PackageOptions, SpecSource, resolve
from opsplice.pipeline.flags import for_this_cpu
from opsplice.reports.render import colored, columns, report_text

if TYPE_CHECKING:
    from opsplice.compiling.job import Outcome
    from opsplice.frontends import ModuleSource
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


def job_here(options: argparse.Namespace) -> Job:
    """What the options say to compile, for this machine's CPU unless they say otherwise."""
    options.flags = for_this_cpu(options.flags, options.target)
    return _job(options, frontends.load(options.model, options.dim))


def compile_job(options: argparse.Namespace) -> Outcome:
    """Compile as the options say and show the report on stderr."""
    source = frontends.load(options.model, options.dim)
    job = _job(options, source)

    def compiled() -> Outcome:
        made: Outcome = on_model(options, source, "opsplice.compiling.compilation:run_job", job)
        return made

    if options.cache and not job.without:
        from opsplice.compiling import program_cache

        outcome = program_cache.cached(job, compiled)
    else:
        outcome = compiled()
    outcome = dataclasses.replace(outcome, parameters=source.parameters)
    if not options.json:
        _show(outcome.report, options, outcome.warnings)
    return outcome


def look(options: argparse.Namespace, work: str, *args: Any) -> Any:
    """What a function of `compiling.compilation` says of the options' job, before anything is built."""
    source = frontends.load(options.model, options.dim)
    return on_model(options, source, f"opsplice.compiling.compilation:{work}", _job(options, source), *args)


def _job(options: argparse.Namespace, source: ModuleSource) -> Job:
    no_code = getattr(options, "no_code", False)
    resolve_specs(options)
    flags = (*source.flags, *options.flags)
    without: frozenset[str] = getattr(options, "without", frozenset())
    return Job(source, options.spec, flags, options.target, options.verbose, no_code, without)


def _show(report: Report, options: argparse.Namespace, warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        print(warning, file=sys.stderr)
    if options.spec:
        color, width = colored(sys.stderr), columns(sys.stderr)
        print(report_text(report, verbose=options.verbose, color=color, width=width), file=sys.stderr)
