"""How things look in a terminal: errors, reports, and the status line of long work."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

from opsplice.errors import OpspliceError
from opsplice.report import Replacement, Report, UnmatchedRule

# Approaches that go without saying.
_USUAL = ("static function", "inline", "transform dialect")
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def style(text: str, name: str, color: bool) -> str:
    """Text in a style (`bold`, `dim`, `red`, ...), or as it is without color."""
    return f"\033[{_CODES[name]}m{text}\033[0m" if color else text


def error_text(error: OpspliceError) -> str:
    """An error as the command line shows it."""
    color = sys.stderr.isatty()
    lines = [f"{style('error:', 'red', color)} {error.message}"]
    if error.details:
        lines.append(error.details.rstrip())
    if error.hint:
        lines.append(f"{style('help:', 'cyan', color)} {error.hint}")
    return "\n".join(lines)


def report_text(report: Report, *, verbose: bool, color: bool) -> str:
    """What the specs did. verbose: also each match that was left alone to another rule's advantage."""
    lines = []
    count = len(report.replacements)
    lines.append(style(f"{count} replacement{'s' * (count != 1)}", "bold", color))
    lines += _table(report.replacements, color)
    kept = [r for r in report.kept if verbose or not r.lost]
    if kept:
        lines.append(style("left alone", "bold", color))
        lines += [f"  {short_location(r.location)}  {_match(r)}: {r.reason}" for r in kept]
    if report.unmatched:
        lines += unmatched_lines(report, verbose=verbose, color=color)
    lines += [f"{style('note:', 'cyan', color)} {note}" for note in report.notes]
    lines += [w.text for w in report.spec_warnings]
    lines += [f"{style('warning:', 'yellow', color)} {w}" for w in report.warnings]
    return "\n".join(lines)


def _table(replacements: Iterable[Replacement], color: bool) -> list[str]:
    rows = [(short_location(r.location), _match(r), f"{r.kernel}{_artifacts(r)}{_how(r)}") for r in replacements]
    if not rows:
        return []
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    arrow = style("=>", "dim", color)
    return [f"  {a:<{widths[0]}}  {b:<{widths[1]}}  {arrow} {c}" for a, b, c in rows]


def short_location(location: str) -> str:
    """A location as seen from the current folder."""
    here = os.getcwd() + os.sep
    return location.removeprefix(here)


def _match(replacement: Replacement) -> str:
    if not replacement.pattern:
        return f"{replacement.rule} in @{replacement.function}"
    dims = ", ".join(f"{n} = {dim_text(s)}" for n, s in replacement.dims.items())
    return f"{replacement.pattern}({dims}) in @{replacement.function}"


def dim_text(size: Any) -> str:
    if isinstance(size, (list, tuple)):
        return "x".join(map(dim_text, size)) or "()"
    return "?" if size is None else str(size)


def _how(replacement: Replacement) -> str:
    if replacement.action == "annotate":
        return "annotated"
    how = "" if replacement.action in _USUAL else f" ({replacement.action})"
    return f"{how} (in what a rule wrote)" if replacement.round else how


def _artifacts(replacement: Replacement) -> str:
    sources = dict.fromkeys(a.source.rpartition("/")[2] for a in replacement.artifacts)
    return f" from {', '.join(sources)}" if sources else ""


def unmatched_lines(report: Report, *, verbose: bool = False, color: bool = False) -> list[str]:
    """Rules that matched nothing: each said in a line, with where they came nearest if nothing else matched either."""
    detailed = verbose or not report.replacements
    lines = []
    for rule in report.unmatched:
        lines.append(
            f"{style('warning:', 'yellow', color)} {short_location(rule.rule_location)}: `{rule.rule}` matched nothing"
        )
        if detailed:
            lines += _misses(rule)
    return lines


def _misses(rule: UnmatchedRule) -> list[str]:
    if not rule.nearest:
        return ["  nothing comes near it: `opsplice explain` shows how far the pattern goes"]
    lines = []
    for miss in rule.nearest:
        place = f"{short_location(miss.location)} in @{miss.function}"
        asked = f" (asked at {short_location(miss.spec_location)})" if miss.spec_location else ""
        there = f" at {short_location(miss.at)}" if miss.at not in ("", miss.location) else ""
        lines.append(f"  nearest: {place}: wanted {miss.wanted}, found {miss.found}{there}{asked}")
    return lines


class Status:
    """A line on stderr that says what is being done; nothing when stderr is no terminal."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._shown = False

    def __enter__(self) -> Status:
        return self

    def show(self, event: Any) -> None:
        if self._live:
            print(f"\r\033[K\033[2m{event}\033[0m", end="", file=sys.stderr, flush=True)
            self._shown = True

    def __exit__(self, *_exception: object) -> None:
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
