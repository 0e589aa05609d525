"""How a tuning looks in a terminal."""

from __future__ import annotations

from textwrap import shorten

from opsplice.commands.shared.answer import aligned
from opsplice.errors import counted
from opsplice.measuring.tuning.records import UNMEASURED, Candidate, Choice, Record
from opsplice.measuring.tuning.tuning import Tuning
from opsplice.reports.render import brief, brief_location, style, times
from opsplice.reports.render_bench import time_text

_HEADS = ("", "", "IREE", "kernel", "", "10th to 90th percentile", "")
_REASON = 70


def tuning_text(found: Tuning, *, color: bool = False) -> str:
    """Each computation with its candidates, those that take longest first."""
    lines = [style(heading(found), "bold", color)]
    rows = [row for choice in found.choices for row in _rows(choice)]
    lines += aligned([_HEADS, *rows]) if rows else []
    said = [*(f"left alone: {each}" for each in found.left), *found.notes]
    return "\n".join([*lines, *(f"{style('note:', 'cyan', color)} {each}" for each in said)])


def heading(found: Tuning) -> str:
    """What was found, in a line."""
    if not found.choices:
        return "no rule takes anything that can be measured: `opsplice match` shows what rules take"
    kinds = [choice.kind for choice in found.choices]
    counts = [f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)]
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
