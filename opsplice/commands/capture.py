"""`opsplice capture`: a pattern from ops of a model; without a place, the ops that there are."""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import sys
from pathlib import Path
from typing import Any

from opsplice import files, frontends
from opsplice.commands.jobs import in_child
from opsplice.errors import OpspliceError
from opsplice.files import check_folder
from opsplice.reports.captured import DEFAULT_NAME, Capture, CaptureJob, Op, check_name, name_for
from opsplice.reports.render import colored, style

_MAX_PLACES = 8


def run(options: argparse.Namespace) -> int:
    job = _job(options)
    if not job.at:
        if options.to or options.inputs or options.output:
            raise OpspliceError("say what to capture, with --at", hint="`opsplice capture MODEL` lists the ops")
        _show_ops(in_child(options, job.source, _list, (job,)), options)
        return 0
    if options.output:
        check_folder(Path(options.output))
    captured = in_child(options, job.source, _capture, (job,))
    written = captured.save(options.output) if options.output else ()
    if options.json:
        found = {**dataclasses.asdict(captured), "written": [str(path) for path in written]}
        print(json.dumps(found, indent=2))
        return 0
    if not options.output:
        sys.stdout.write(captured.spec)
        sys.stdout.flush()
    _show(captured, written, options)
    return 0


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


def _capture(report: Any, job: CaptureJob) -> Capture:
    """Runs in the child: only there is the compiler imported."""
    gc.set_threshold(100_000)  # loading the compiler makes so many objects that collecting garbage takes long
    from opsplice.compiling.capturing import run_capture

    return run_capture(report, job)


def _list(report: Any, job: CaptureJob) -> tuple[Op, ...]:
    gc.set_threshold(100_000)
    from opsplice.compiling.capturing import list_ops

    return list_ops(report, job)


# ---- output ------------------------------------------------------------------------------------------------------


def _show(captured: Capture, written: tuple[Path, ...], options: argparse.Namespace) -> None:
    """What is to be known beside the spec, on stderr."""
    color = colored(sys.stderr)
    what = "" if captured.name == DEFAULT_NAME else f" {style(captured.name, 'bold', color)}"
    lines = [f"captured{what} at {captured.location} in @{captured.function}"]
    width = max(map(len, captured.inputs), default=0)
    lines += [f"  {name:<{width}}  {source}" for name, source in captured.inputs.items()]
    others = list(captured.matches)
    others.remove(captured.location)
    lines += [f"  it matches at {place} as well" for place in others[:_MAX_PLACES]]
    if len(others) > _MAX_PLACES:
        lines.append(f"  and at {len(others) - _MAX_PLACES} places more")
    lines += [f"{style('note:', 'cyan', color)} {note}" for note in captured.notes]
    lines += [f"wrote {path}" for path in written]
    if options.output and captured.code and len(written) < 2:
        code = Path(options.output).parent / captured.file
        lines.append(f"left {code} as it is; move it away to have the kernel written")
    elif options.output and captured.code:
        what = "computes it in plain loops" if captured.reference else "only has the prototype: write its body"
        lines.append(f"  {captured.file} {what}")
    print("\n".join(lines), file=sys.stderr)


def _show_ops(ops: tuple[Op, ...], options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps({"ops": [dataclasses.asdict(op) for op in ops]}, indent=2))
        return
    rows = [(op.handle, op.location, f"{', '.join(op.values)} : {op.type}") for op in ops]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
    function = None
    for op, row in zip(ops, rows, strict=True):
        if op.function != function:
            function = op.function
            print(style(f"@{function}", "bold", colored(sys.stdout)))
        print(f"  {row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}")
