"""`opsplice capture`: a pattern from ops of a model; without a place, the ops that there are."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from opsplice import frontends
from opsplice.commands.shared.answer import Answer
from opsplice.commands.shared.isolated import on_model
from opsplice.common import files
from opsplice.common.errors import OpspliceError
from opsplice.common.files import check_folder
from opsplice.reports.captured import DEFAULT_NAME, Capture, CaptureJob, Op, check_name, name_for
from opsplice.reports.render import aligned, brief_location, colored, noted, style

_MAX_PLACES = 8
# Where an input comes from: the op, and its place behind it.
_LOCATION = re.compile(r"\((.*)\)$")


def run(options: argparse.Namespace) -> Answer:
    job = _job(options)
    if not job.at:
        if options.to or options.inputs or options.output:
            raise OpspliceError("say what to capture, with --at", hint="`opsplice capture MODEL` lists the ops")
        ops = on_model(options, job.source, "opsplice.compiling.capturing:list_ops", job)
        return Answer({"ops": [dataclasses.asdict(op) for op in ops]}, _listed(ops))
    if options.output:
        check_folder(Path(options.output))
    captured = on_model(options, job.source, "opsplice.compiling.capturing:run_capture", job)
    written = captured.save(options.output) if options.output else ()
    found = {**dataclasses.asdict(captured), "written": [str(path) for path in written]}
    return Answer(
        found, [] if options.output else [captured.spec.removesuffix("\n")], _notes(captured, written, options)
    )


def _job(options: argparse.Namespace) -> CaptureJob:
    path = Path(options.output) if options.output else None
    if path is not None:
        files.check_name(path)
    if path is not None and path.suffix != ".splice":
        raise OpspliceError(f"cannot write {path}: a spec ends in .splice", hint=f"write -o {path.stem or 'x'}.splice")
    name = check_name(options.name) if options.name else name_for(path) if path else DEFAULT_NAME
    source = frontends.load(options.model, options.dim)
    return CaptureJob(
        source=source,
        at=tuple(options.at),
        to=tuple(options.to),
        inputs=tuple(options.inputs),
        name=name,
        file=f"{path.stem if path else name}.c",
        phase=options.phase,
        concrete=options.concrete,
        element_variable=options.element_variable,
        packs=options.packs,
        flags=(*source.flags, *options.flags),
        verbose=options.verbose,
    )


def _notes(captured: Capture, written: tuple[Path, ...], options: argparse.Namespace) -> list[str]:
    """What is to be known beside the spec."""
    color = colored(sys.stderr)
    what = "" if captured.name == DEFAULT_NAME else f" {style(captured.name, 'bold', color)}"
    lines = [f"captured{what} at {brief_location(captured.location)} in @{captured.function}"]
    lines += aligned([(name, _LOCATION.sub(_brief, source)) for name, source in captured.inputs.items()])
    others = list(captured.matches)
    others.remove(captured.location)
    lines += [f"  it matches at {brief_location(place)} as well" for place in others[:_MAX_PLACES]]
    if len(others) > _MAX_PLACES:
        lines.append(f"  and at {len(others) - _MAX_PLACES} places more")
    lines += [noted(note, sys.stderr) for note in captured.notes]
    lines += [f"wrote {path}" for path in written]
    if options.output and captured.code and len(written) < 2:
        code = Path(options.output).parent / captured.file
        lines.append(f"left {code} as it is; move it away to have the kernel written")
    elif options.output and captured.code:
        what = "computes it in plain loops" if captured.reference else "only has the prototype: write its body"
        lines.append(f"  {captured.file} {what}")
    return lines


def _brief(location: re.Match[str]) -> str:
    return f"({brief_location(location[1])})"


def _listed(ops: tuple[Op, ...]) -> Iterator[str]:
    rows = aligned(
        [(op.handle, op.does, brief_location(op.location), f"{', '.join(op.values)} : {op.type}") for op in ops]
    )
    for function, each in itertools.groupby(zip(ops, rows, strict=True), lambda pair: pair[0].function):
        yield style(f"@{function}", "bold", colored(sys.stdout))
        yield from (row for _, row in each)
