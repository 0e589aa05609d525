"""Reports and programs as a notebook shows them: HTML that needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from opsplice.reports.render import counts_text, dims_text, kernel_text, short_location, unmatched_lines, without_flags
from opsplice.reports.report import Replacement, Report
from opsplice.reports.shown import FAINT, preformatted

_LEFT = "text-align: left; vertical-align: top"
_HEADS = ("where", "pattern", "dims", "kernel", "outcome")


def report_html(report: Report) -> str:
    """A table of the matches, those that another rule has folded away, and what there is to say besides."""
    lost = [each for each in report.kept if each.lost]
    shown = [*report.replacements, *(each for each in report.kept if not each.lost)]
    parts = [f"<p><b>{escape(counts_text(report.replacements))}</b></p>", _table(shown)]
    if lost:
        parts.append(_folded(f"{len(lost)} lost to other rules", _table(lost)))
    said = [*unmatched_lines(report), *(f"note: {note}" for note in report.notes)]
    said += [*(each.text for each in report.spec_warnings), *(f"warning: {each}" for each in report.warnings)]
    return "\n".join([*parts, preformatted(without_flags("\n".join(said)))] if said else parts)


def program_html(size: int, report: Report | None, warnings: Sequence[str]) -> str:
    """A line on a compiled program, its report folded away."""
    head = f"<p><b>opsplice.Program</b> of {size:,} bytes</p>"
    said = [preformatted("\n".join(warnings))] if warnings else []
    if report is None:
        return "\n".join([head, *said])
    return "\n".join([head, _folded(counts_text(report.replacements), report_html(report)), *said])


def _table(matches: Iterable[Replacement]) -> str:
    rows = [_cells(match) for match in matches]
    if not rows:
        return ""
    heads = "".join(f'<th style="{_LEFT}">{head}</th>' for head in _HEADS)
    lines = ["".join(f'<td style="{_LEFT}">{cell}</td>' for cell in row) for row in rows]
    return "\n".join(
        [f"<table><thead><tr>{heads}</tr></thead><tbody>", *(f"<tr>{line}</tr>" for line in lines), "</tbody></table>"]
    )


def _cells(match: Replacement) -> tuple[str, ...]:
    where = f'<span title="{escape(f"in @{match.function}")}">{escape(short_location(match.location))}</span>'
    pattern = f'<span title="{escape(match.rule)}">{escape(match.pattern or match.rule)}</span>'
    outcome = f"<b>{match.outcome}</b>" if match.outcome == "replaced" else match.outcome
    if match.reason:
        outcome += f'<br><span style="{FAINT}">{escape(match.reason)}</span>'
    return where, pattern, escape(dims_text(match)), escape(kernel_text(match)), outcome


def _folded(head: str, body: str) -> str:
    return f"<details><summary>{escape(head)}</summary>\n{body}\n</details>"
