"""How a tuning looks in a terminal."""

from __future__ import annotations

from textwrap import shorten

from opsplice.common.errors import counted
from opsplice.measuring.tuning.measurements import COMPILER, KERNEL, UNDECIDED, UNMEASURED, Candidate, Choice, Record
from opsplice.measuring.tuning.tuning import Tuning
from opsplice.reports.render import aligned, brief, brief_location, several_text, style, times
from opsplice.reports.render_bench import time_text

_HEADS = ("", "", "IREE", "kernel", "", "10th to 90th percentile", "")
_REASON = 70
# How many places of a computation are named.
_NAMED = 3
_KINDS = {KERNEL: "by a kernel", COMPILER: "by IREE's own code", UNDECIDED: "without a difference"}


def tuning_text(found: Tuning, *, color: bool = False) -> str:
    """Each computation with its candidates, those that take longest first."""
    lines = [style(heading(found), "bold", color)]
    rows = [row for choice in found.choices for row in _rows(choice)]
    lines += aligned([_HEADS, *rows]) if rows else []
    said = list(found.notes)
    for reason in dict.fromkeys(each.reason for each in found.left):
        left = [each for each in found.left if each.reason == reason]
        told = [f"  {brief(each.what)} at {several_text(map(brief_location, each.places), _NAMED)}" for each in left]
        said.append("\n".join([f"left alone: {reason}", *told]))
    return "\n".join([*lines, *(f"{style('note:', 'cyan', color)} {each}" for each in said)])


def heading(found: Tuning) -> str:
    """What was found, in a line."""
    if not found.choices and found.left:
        return f"nothing is measured: {counted(len(found.left), 'computation')} left alone"
    if not found.choices:
        return "nothing is measured: no rule matches. `opsplice explain` shows how far patterns go"
    kinds = [choice.kind for choice in found.choices]
    counts = [f"{kinds.count(kind)} {_KINDS.get(kind, kind)}" for kind in dict.fromkeys(kinds)]
    again = f"; {counted(found.known, 'measurement')} known from before" if found.known else ""
    missing = "; more --seconds measure the rest" if UNMEASURED in kinds else ""
    return f"fastest on one core of {found.cpu}: {', '.join(counts)}{again}{missing}"


def _rows(choice: Choice) -> list[tuple[str, ...]]:
    place = times(brief_location(choice.task.places[0]), len(choice.task.places))
    both = zip(choice.task.candidates, choice.records, strict=True)
    rows = [(place, f"{brief(choice.task.what)} => {choice.task.named(c)}", *_told(choice, c, r)) for c, r in both]
    return [rows[0], *(("", *row[1:]) for row in rows[1:])]


def _told(choice: Choice, candidate: Candidate, record: Record | None) -> tuple[str, ...]:
    if record is None:
        return "", "", "", "", choice.refused or UNMEASURED
    if record.failed:
        return "", "", "", "", shorten(record.failed, _REASON, placeholder=" ...")
    low, high = record.spread
    is_chosen = choice.chosen is candidate
    said = "chosen" if is_chosen else ""
    ratio = record.verdict if record.verdict == "no difference" else f"x{1 / record.ratio:.2f}"
    return (*map(time_text, record.seconds), ratio, f"{1 / high:.2f} to {1 / low:.2f}", said)
