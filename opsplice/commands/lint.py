"""`opsplice lint`: what is allowed in .splice files and still cannot be meant."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

from opsplice.commands.shared import isolated
from opsplice.commands.shared.answer import Answer
from opsplice.commands.shared.jobs import package_options
from opsplice.common.errors import counted, did_you_mean
from opsplice.compiling.linting import is_transform_spec, lint_source
from opsplice.compiling.spec_sources import SpecSource, resolve
from opsplice.reports.render import colored
from opsplice.spec_lang.linting.lint import CODES
from opsplice.spec_lang.syntax.spec_errors import Diagnostic, render


def run(options: argparse.Namespace) -> Answer:
    deny, allow = _chosen(options.deny, options.allow)
    found: dict[tuple[str, str, str], Diagnostic] = {}
    for source in resolve(options.files, packages=package_options(options), targets=None, progress=sys.stderr):
        for diagnostic in _findings(source):
            if diagnostic.code in allow:
                continue
            if diagnostic.code in deny:
                diagnostic = dataclasses.replace(diagnostic, severity="error")
            found.setdefault((str(diagnostic.span), diagnostic.code or "", diagnostic.message), diagnostic)
    shown = list(found.values())
    errors = sum(d.severity == "error" for d in shown)
    counts = {"errors": errors, "warnings": len(shown) - errors}
    lines = [render(diagnostic, color=colored(sys.stdout)) for diagnostic in shown]
    lines.append(_summary(errors, len(shown) - errors, len(options.files)))
    return Answer({**counts, "findings": [_json(d) for d in shown]}, lines, code=int(errors > 0))


def _chosen(denied: Sequence[str], allowed: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The codes to deny and to allow. A code that is named goes before `all`, and denying before allowing."""
    _check_codes(denied, "--deny")
    _check_codes(allowed, "--allow")
    every = frozenset(CODES)
    named_deny, named_allow = every.intersection(denied), every.intersection(allowed)
    deny = named_deny | (every - named_allow if "all" in denied else frozenset())
    allow = named_allow | (every if "all" in allowed else frozenset())
    return deny, allow - deny


def _check_codes(given: Sequence[str], flag: str) -> None:
    """Say that a code is none, which is wrong usage."""
    unknown = next((code for code in given if code not in CODES and code != "all"), None)
    if unknown is not None:
        advice = did_you_mean(unknown, CODES) or f"there are: all {' '.join(CODES)}"
        print(f"error: {flag}: no warning is called {unknown}\nhelp: {advice}", file=sys.stderr)
        raise SystemExit(2)


def _findings(source: SpecSource) -> Sequence[Diagnostic]:
    # A transform spec is read by the compiler, which is imported in a child only.
    found, left_out = (
        isolated.call("opsplice.compiling.linting:lint_source", source)
        if is_transform_spec(source)
        else lint_source(source)
    )
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    return found


def _json(diagnostic: Diagnostic) -> dict[str, Any]:
    span = diagnostic.span
    return {
        "severity": diagnostic.severity,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "help": diagnostic.help,
        "file": span.source.name,
        "line": span.line,
        "column": span.column,
        "text": span.source.text[span.start : span.end],
        "notes": [{"at": str(where), "message": message} for where, message in diagnostic.notes],
    }


def _summary(errors: int, warnings: int, files: int) -> str:
    if not errors and not warnings:
        return f"nothing found in {counted(files, 'file')}"
    said = [counted(n, what) for n, what in ((errors, "error"), (warnings, "warning")) if n]
    return f"{' and '.join(said)} in {counted(files, 'file')}"
