"""`opsplice library list`, `new` and `check`: pattern libraries that are Python packages."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opsplice.commands.shared import isolated
from opsplice.commands.shared.answer import Answer
from opsplice.common.errors import counted
from opsplice.pattern_libraries import library_list, library_template
from opsplice.pattern_libraries.finding import Finding
from opsplice.reports.render import Status, colored, style
from opsplice.spec_lang.loading.libraries import Library

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
    said = [finding for library in library_list.at(options.library) for finding in _found(library, options.json)]
    failed = sum(finding["outcome"] == "failed" for finding in said)
    last = f"{counted(failed, 'problem')} found" if failed else "nothing wrong found"
    return Answer({"failed": failed, "findings": said}, [last], code=int(failed > 0))


def _found(library: Library, as_json: bool) -> list[dict[str, Any]]:
    """What is found of a library, each told at once unless all is to be JSON."""
    found: list[dict[str, Any]] = []

    def note(event: Any) -> None:
        if not isinstance(event, Finding):
            status.show(event)
            return
        found.append({"library": library.name, **dataclasses.asdict(event)})
        if not as_json:
            status.clear()
            print("\n".join(_told(event)), flush=True)

    if not as_json:
        print(f"{library.name} in {library.folder}", flush=True)
    with Status() as status:
        isolated.call("opsplice.pattern_libraries.library_check:reported", library, on_progress=note)
    return found


def _told(finding: Finding) -> Iterator[str]:
    word, colour = _MARKS[finding.outcome]
    first, *more = finding.detail.splitlines() or [""]
    mark = style(f"{word:<6}", colour, colored(sys.stdout))
    yield f"  {mark}  {finding.step:<7}  {finding.subject}: {first}".removesuffix(": ")
    yield from (f"            {rest}" for rest in more)
