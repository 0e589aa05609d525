"""How things look in a terminal: errors, reports, and the status line of long work."""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from opsplice.common.errors import OpspliceError, counted
from opsplice.reports.report import Miss, Replacement, Report, UnmatchedRule

# Approaches that go without saying.
_USUAL = ("static function", "inline", "transform dialect", "other", "keep")
# How many rules that match nothing are told of.
_MOST_RULES = 8
# How texts name the options that show more.
_FLAGS = re.compile(r"(, shown)? with --verbose|\s+\(--verbose[^)]*\)")
# A size of 1 among those of a match.
_OF_ONE = re.compile(r"(?<=\()(?:\w+ = 1, )+|, \w+ = 1(?=[,)])")
# How long nothing is said where a line cannot be rewritten.
_QUIET_SECONDS = 30.0
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def colored(stream: TextIO) -> bool:
    """Whether to write colors: to a terminal, unless NO_COLOR is set; FORCE_COLOR asks for them anywhere."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def style(text: str, name: str, color: bool) -> str:
    """Text in a style (`bold`, `dim`, `red`, ...), or as it is without color."""
    return f"\033[{_CODES[name]}m{text}\033[0m" if color else text


def noted(text: str, stream: TextIO) -> str:
    """A note as a stream shows it."""
    return f"{style('note:', 'cyan', colored(stream))} {text}"


def error_text(error: OpspliceError) -> str:
    """An error as the command line shows it."""
    color = colored(sys.stderr)
    lines = [f"{style('error:', 'red', color)} {error.message}"]
    if error.details:
        lines.append(error.details.rstrip())
    if error.hint:
        lines.append(f"{style('help:', 'cyan', color)} {error.hint}")
    return "\n".join(lines)


def report_text(
    report: Report, *, verbose: bool, color: bool, width: int | None = None, near: bool | None = None
) -> str:
    """What the specs did. verbose: also each match that another rule has the place of, and every rule without a match.

    width: the terminal's columns. near: as for `unmatched_lines`.
    """
    lost = [r for r in report.kept if r.lost]
    lines = [style(counts_text(report.replacements), "bold", color)]
    lines += _table(report.replacements, width, color)
    if verbose:
        viewed = [(brief_location(r.location), view) for r in report.replacements for view in r.views]
        lines += [f"  {where}  {view}" for where, view in viewed]
    lines += _left_alone("kept as the compiler's own code", [r for r in report.kept if not r.lost], color)
    if verbose:
        lines += _left_alone("lost to other rules", lost, color)
    elif lost:
        lines.append(style(f"{counted(len(lost), 'match')} lost to other rules, shown with --verbose", "dim", color))
    lines += unmatched_lines(report, verbose=verbose, near=near, color=color)
    lines += [f"{style('note:', 'cyan', color)} {note}" for note in report.notes]
    lines += [w.text for w in report.spec_warnings]
    lines += [f"{style('warning:', 'yellow', color)} {w}" for w in report.warnings]
    return "\n".join(lines)


def without_flags(text: str) -> str:
    """Text for those who gave no command."""
    return _FLAGS.sub("", text)


def counts_text(done: Sequence[Replacement]) -> str:
    """How many matches were replaced, annotated, or handed to another action of a transform spec."""
    words = {"replaced": "replacement", "annotated": "annotation", "taken": "other action"}
    of = {word: [each for each in done if each.outcome == outcome] for outcome, word in words.items()}
    return ", ".join(counted(len(each), word) for word, each in of.items() if each) or counted(len(done), "replacement")


def _left_alone(what: str, left: Sequence[Replacement], color: bool) -> list[str]:
    rows = Counter((brief_location(r.location), f"{_match(r)}: {r.reason}") for r in left)
    lines = [f"  {times(where, count)}  {text}" for (where, text), count in rows.items()]
    return [style(f"{counted(len(left), 'match')} {what}", "bold", color), *lines] if left else []


def _table(replacements: Iterable[Replacement], width: int | None, color: bool) -> list[str]:
    counts = Counter((brief_location(r.location), _match(r), kernel_text(r)) for r in replacements)
    rows = [(times(where, count), match, kernel) for (where, match, kernel), count in counts.items()]
    if not rows:
        return []
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    arrow = style("=>", "dim", color)
    if width is not None and sum(widths) + len("    =>  ") > width:
        return [line for a, b, c in rows for line in (f"  {a:<{widths[0]}}  {b}", f"    {arrow} {c}")]
    return [f"  {a:<{widths[0]}}  {b:<{widths[1]}}  {arrow} {c}" for a, b, c in rows]


def columns(stream: TextIO) -> int | None:
    """How wide the terminal is that a stream writes to; None if it writes to none."""
    return (os.get_terminal_size(stream.fileno()).columns or None) if stream.isatty() else None


def times(place: str, count: int) -> str:
    """A place, with how often it is meant where that is not once."""
    return f"{place} x{count}" if count > 1 else place


def several_text(places: Iterable[str], most: int) -> str:
    """Some places, each with how often it is meant. most: how many are named."""
    counts = Counter(places)
    named = [times(*each) for each in list(counts.items())[:most]]
    more = sum(list(counts.values())[most:])
    return ", ".join(named) + (f" and {more} more" if more else "")


def aligned(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Rows as lines whose columns begin below each other; a column that is empty in all rows is left out."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [indent + "  ".join(t.ljust(w) for t, w in zip(row, widths, strict=True) if w).rstrip() for row in rows]


def short_location(location: str) -> str:
    """A location as seen from the current folder."""
    here = os.getcwd() + os.sep
    return location.removeprefix(here)


def brief_location(location: str) -> str:
    """A short location, of a file that is far away the last folder and the name alone."""
    short = short_location(location)
    return f".../{'/'.join(short.split('/')[-2:])}" if short.startswith("/") and short.count("/") > 3 else short


def brief(what: str, most: int = 72) -> str:
    """A computation with its sizes; where it would make a table too wide, without those of 1, and then the last."""
    shown = what if len(what) <= most else _OF_ONE.sub("", what)
    if len(shown) <= most:
        return shown
    sizes, _, _ = shown[: most - 4].rpartition(", ")
    return f"{sizes}, ...)" if sizes else f"{shown[: most - 3].rpartition(' ')[0]} ..."


def _match(replacement: Replacement) -> str:
    if not replacement.pattern:
        return f"{replacement.rule} in @{replacement.function}"
    return f"{brief(f'{replacement.pattern}({dims_text(replacement)})')} in @{replacement.function}"


def dims_text(replacement: Replacement) -> str:
    """The sizes that a match binds."""
    return ", ".join(f"{n} = {dim_text(s)}" for n, s in replacement.dims.items())


def dim_text(size: Any) -> str:
    if isinstance(size, (list, tuple)):
        return "x".join(map(dim_text, size)) or "()"
    return "?" if size is None else str(size)


def kernel_text(replacement: Replacement) -> str:
    """What takes the place of a match, and where it comes from."""
    return f"{replacement.kernel}{_artifacts(replacement)}{_how(replacement)}"


def _how(replacement: Replacement) -> str:
    if replacement.action == "annotate":
        return "annotated"
    how = "" if replacement.action in _USUAL else f" ({replacement.action})"
    how += when_text(replacement)
    return f"{how} (in what a rule wrote)" if replacement.round else how


def when_text(replacement: Replacement) -> str:
    """What the program asks before it calls the kernel."""
    return f" when {replacement.when}" if replacement.when else ""


def _artifacts(replacement: Replacement) -> str:
    sources = dict.fromkeys(a.source.rpartition("/")[2] for a in replacement.artifacts)
    used = [artifact.package for artifact in replacement.artifacts if artifact.package]
    packages = dict.fromkeys(f"{each.name} {each.version}".rstrip() for each in used)
    return (f" from {', '.join(sources)}" if sources else "") + (f" of {', '.join(packages)}" if packages else "")


def unmatched_lines(
    report: Report, *, verbose: bool = False, near: bool | None = None, color: bool = False
) -> list[str]:
    """Rules that matched nothing, a line each, and where they came nearest if `near`; by default if nothing matched.

    Libraries have rules for many programs: of theirs the number is enough if nothing comes near, or something matched.
    """
    near = verbose or not report.replacements if near is None else near
    far = {rule for rule in report.unmatched if near and not rule.nearest}
    ranked = sorted(report.unmatched, key=lambda rule: (bool(rule.library), rule in far, -_progress(rule)))
    telling = [rule for rule in ranked if not rule.library or (rule.nearest and not report.replacements)]
    shown = ranked if verbose else telling[:_MOST_RULES]
    lines = []
    for rule in shown:
        warning = f"{style('warning:', 'yellow', color)} {short_location(rule.rule_location)}: `{rule.rule}`"
        lines.append(f"{warning} matched nothing{', and nothing comes near it' * (rule.looked and rule in far)}")
        if near:
            lines += _misses(rule.nearest if verbose else rule.nearest[:1])
    hidden = len(ranked) - len(shown)
    if hidden:
        rest = f"  and {counted(hidden, 'more rule')}" if shown else f"{counted(len(ranked), 'rule')} of libraries"
        lines.append(f"{rest} matched nothing, shown with --verbose")
    help_ = style("help:", "cyan", color)
    if near and shown:
        lines.append(f"{help_} `opsplice explain` shows how far a pattern goes and what to change")
    elif near and hidden and not report.replacements:
        lines.append(f"{help_} `opsplice survey` lists what the program computes, and which patterns hold in it")
    return lines


def _progress(rule: UnmatchedRule) -> float:
    """How near a rule of a library comes; those of the user's own are told in their order."""
    return rule.nearest[0].progress if rule.library and rule.nearest else 0.0


def _misses(nearest: Iterable[Miss]) -> list[str]:
    lines = []
    for miss in nearest:
        place = f"{brief_location(miss.location)} in @{miss.function}"
        asked = f" (the pattern: {short_location(miss.spec_location)})" if miss.spec_location else ""
        there = f" at {short_location(miss.at)}" if miss.at not in ("", miss.location) else ""
        lines.append(f"  nearest: {place}: wanted {miss.wanted}, found {miss.found}{there}{asked}")
    return lines


class Status:
    """A line on stderr that says what is being done: rewritten in a terminal, elsewhere a new one every half minute."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._shown = False
        self._due = time.monotonic() + _QUIET_SECONDS

    def __enter__(self) -> Status:
        return self

    def show(self, event: Any) -> None:
        if self._live:
            print(f"\r\033[K\033[2m{event}\033[0m", end="", file=sys.stderr, flush=True)
            self._shown = True
        elif time.monotonic() > self._due:
            print(f"... {event}", file=sys.stderr, flush=True)
            self._due = time.monotonic() + _QUIET_SECONDS

    def clear(self) -> None:
        """Make room for other lines."""
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self._shown = False

    def __exit__(self, *_exception: object) -> None:
        self.clear()
