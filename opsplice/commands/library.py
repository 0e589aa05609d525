"""`opsplice library list`, `new` and `check`: pattern libraries that are Python packages."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from opsplice.commands.shared import isolated
from opsplice.commands.shared.answer import Answer
from opsplice.errors import counted
from opsplice.pattern_libraries import library_list, library_template
from opsplice.reports.render import colored, style
from opsplice.spec_lang.loading.libraries import Library

if TYPE_CHECKING:
    from opsplice.pattern_libraries.library_check import Finding

_MARKS = {"ok": ("ok", "green"), "failed": ("failed", "red"), "skipped": ("--", "yellow")}


def run(options: argparse.Namespace) -> Answer:
    return {"list": _list, "new": _new, "check": _check}[options.action](options)


def _list(options: argparse.Namespace) -> Answer:
    found = [each for each in library_list.installed() if options.name in (None, each.name)]
    if options.name is not None and not found:
        library_list.at(options.name)  # says what is wrong with the name
    lines = (line for library in found for line in _described(library, whole=options.name is not None))
    return Answer({"libraries": [dataclasses.asdict(each) for each in found]}, lines)


def _described(library: library_list.LibraryInfo, *, whole: bool) -> Iterator[str]:
    about = [each for each in (library.license, library.origin) if each]
    yield " ".join([library.name, *([f"({', '.join(about)})"] if about else []), library.folder]).strip()
    yield from (f"  {line}" for line in library.problem.splitlines())
    for part in library.parts:
        counts = [(part.rules, "rule")]
        if not whole:
            counts = [(len(part.patterns), "pattern"), (len(part.kernels), "kernel"), *counts]
        yield f"  {part.name}: {', '.join(counted(*each) for each in counts)}"
        if whole:
            yield from (f"    pattern {name}" for name in part.patterns)
            yield from (f"    kernel {name}" for name in part.kernels)


def _new(options: argparse.Namespace) -> Answer:
    written = library_template.create(options.name, None if options.folder is None else Path(options.folder))
    root = written[0].parent
    following = f"next: pip install --editable {root} && opsplice library check {root}"
    return Answer({"files": list(map(str, written))}, [*(f"wrote {path}" for path in written), following])


def _check(options: argparse.Namespace) -> Answer:
    work = "opsplice.pattern_libraries.library_check:findings_of"
    found = [(library, isolated.call(work, library)) for library in library_list.at(options.library)]
    failed = sum(finding.outcome == "failed" for _, each in found for finding in each)
    said = [{"library": library.name, **dataclasses.asdict(f)} for library, each in found for f in each]
    lines = [line for library, each in found for line in _tried(library, each)]
    lines.append(f"{counted(failed, 'problem')} found" if failed else "nothing wrong found")
    return Answer({"failed": failed, "findings": said}, lines, code=int(failed > 0))


def _tried(library: Library, findings: Sequence[Finding]) -> Iterator[str]:
    yield f"{library.name} in {library.folder}"
    for finding in findings:
        word, colour = _MARKS[finding.outcome]
        first, *more = finding.detail.splitlines() or [""]
        mark = style(f"{word:<6}", colour, colored(sys.stdout))
        yield f"  {mark}  {finding.step:<7}  {finding.subject}: {first}".removesuffix(": ")
        yield from (f"            {rest}" for rest in more)
