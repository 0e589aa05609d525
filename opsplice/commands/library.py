"""`opsplice library list`, `new` and `check`: pattern libraries that are Python packages."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from opsplice.commands import isolated
from opsplice.pattern_libraries import library_list, library_template
from opsplice.reports.render import colored, style
from opsplice.spec_lang.loading.libraries import Library

if TYPE_CHECKING:
    from opsplice.pattern_libraries.library_check import Finding

_MARKS = {"ok": ("ok", "green"), "failed": ("failed", "red"), "skipped": ("--", "yellow")}


def run(options: argparse.Namespace) -> int:
    return {"list": _list, "new": _new, "check": _check}[options.action](options)


def _list(options: argparse.Namespace) -> int:
    found = [each for each in library_list.installed() if options.name in (None, each.name)]
    if options.name is not None and not found:
        library_list.at(options.name)  # says what is wrong with the name
    if options.json:
        print(json.dumps({"libraries": [dataclasses.asdict(each) for each in found]}, indent=2))
        return 0
    for library in found:
        about = [each for each in (library.license, library.origin) if each]
        print(" ".join([library.name, *([f"({', '.join(about)})"] if about else []), library.folder]).strip())
        if library.problem:
            print("\n".join(f"  {line}" for line in library.problem.splitlines()))
        for part in library.parts:
            if options.name is None:
                counts = ((len(part.patterns), "pattern"), (len(part.kernels), "kernel"), (part.rules, "rule"))
                print(f"  {part.name}: {', '.join(_count(*each) for each in counts)}")
                continue
            print(f"  {part.name}: {_count(part.rules, 'rule')}")
            for kind, names in (("pattern", part.patterns), ("kernel", part.kernels)):
                for name in names:
                    print(f"    {kind} {name}")
    return 0


def _new(options: argparse.Namespace) -> int:
    written = library_template.create(options.name, None if options.folder is None else Path(options.folder))
    if options.json:
        print(json.dumps({"files": [str(path) for path in written]}, indent=2))
        return 0
    for path in written:
        print(f"wrote {path}")
    root = written[0].parent
    print(f"next: pip install --editable {root} && opsplice library check {root}")
    return 0


def _check(options: argparse.Namespace) -> int:
    found = [(library, isolated.call(_findings, library)) for library in library_list.at(options.library)]
    findings = [finding for _, each in found for finding in each]
    failed = sum(finding.outcome == "failed" for finding in findings)
    if options.json:
        said = [{"library": library.name, **dataclasses.asdict(f)} for library, each in found for f in each]
        print(json.dumps({"failed": failed, "findings": said}, indent=2))
        return int(failed > 0)
    color = colored(sys.stdout)
    for library, each in found:
        print(f"{library.name} in {library.folder}")
        for finding in each:
            word, colour = _MARKS[finding.outcome]
            first, *more = finding.detail.splitlines() or [""]
            line = f"  {style(f'{word:<6}', colour, color)}  {finding.step:<7}  {finding.subject}: {first}"
            print("\n".join([line.removesuffix(": "), *(f"            {rest}" for rest in more)]))
    print(f"{_count(failed, 'problem')} found" if failed else "nothing wrong found")
    return int(failed > 0)


def _findings(library: Library) -> list[Finding]:
    """Runs in the child: only there is the compiler imported."""
    from opsplice.pattern_libraries import library_check

    return list(library_check.check(library))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
