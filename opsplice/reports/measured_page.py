"""What was measured as one page: no scripts, no other files, for narrow and wide screens, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from opsplice.measuring.cutting.records import Verdict, Verification
from opsplice.measuring.timing.benching import IREE, KERNELS, Bench, Timed
from opsplice.measuring.timing.survey_model import Survey
from opsplice.reports import render_survey
from opsplice.reports.page import bar, card, document
from opsplice.reports.render import dims_text, short_location, unmatched_lines
from opsplice.reports.render_bench import costs, ratio_text, time_text
from opsplice.reports.render_verify import heading, outcome_text, whole_text
from opsplice.reports.report import Replacement, Report


@dataclass(frozen=True)
class Measured:
    """What is known of a model: what kernels bring, whether numbers hold, what it is made of."""

    title: str
    bench: Bench
    verified: Verification | None = None
    survey: Survey | None = None


def page(title: str, found: Bench, verified: Verification | None = None, survey: Survey | None = None) -> str:
    """The page of one model."""
    return document(title, _sections(Measured(title, found, verified, survey)))


def report_page(title: str, models: Sequence[Measured]) -> str:
    """The page of several models: a bar chart of all, then each."""
    wholes = [(each, whole) for each in models for whole in each.bench.whole]
    summary = [_card(escape(each.title), whole, each.bench, "") for each, whole in wholes]
    folded = (
        f"<details><summary><h2>{escape(each.title)}</h2></summary>{''.join(_sections(each))}</details>"
        for each in models
    )
    return document(title, [*summary, *folded])


def bench_html(found: Bench) -> str:
    """What a notebook shows: the page in a frame of its own, so that neither changes the other."""
    content = escape(page("what kernels bring", found))
    return f'<iframe srcdoc="{content}" style="width: 100%; height: 36rem; border: 0"></iframe>'


def _sections(model: Measured) -> Iterable[str]:
    found, verified = model.bench, model.verified
    machine = found.machine
    peak = f", {machine.peak / 1e9:.0f} GFLOP/s and {machine.bandwidth / 1e9:.0f} GB/s a core" if machine.peak else ""
    yield f'<p class="faint">{escape(machine.told)}{peak}; medians of runs in turn</p>'
    for each in found.whole:
        yield _card(escape(each.name), each, found, "")
    yield "".join(f'<div class="faint">{escape(line)}</div>' for line in (*costs(found), *found.notes))
    if verified is not None:
        yield f"<h2>Numbers</h2><p>{escape(heading(verified))}</p>"
        for whole in verified.whole:
            yield f"<p>@{escape(whole.function)}: {escape(whole.reason or whole_text(whole))}</p>"
    verdicts = {} if verified is None else {_key(v.replacement): v for v in verified.verdicts}
    yield f"<h2>Replaced: {len(found.report.replacements)}</h2>"
    shown = set()
    for each in found.timed:
        if (match := each.replacement) is not None:
            shown |= {_key(match, where) for where in (each.name, *each.same)}
            yield _card(_title(match, each), each, found, _details(match, verdicts.get(_key(match))))
    for other in (r for r in found.report.replacements if _key(r) not in shown):
        details = _details(other, verdicts.get(_key(other)))
        yield card(_title(other, None), "", "", details)
    if model.survey is not None:
        said = filter(None, (render_survey.heading(model.survey), model.survey.note))
        yield f"<h2>Layers</h2><p>{escape('; '.join(said))}</p>"
        yield from render_survey.layers_html(model.survey)
    yield from _left(found.report)


def _key(match: Replacement, where: str | None = None) -> tuple[str, str, str]:
    """What tells matches apart: of a line of PyTorch many may come. where: its place, if not the match's own."""
    return where or match.location, match.pattern, dims_text(match)


def _title(match: Replacement, timed: Timed | None) -> str:
    times = f" &times; {len(timed.same) + 1}" if timed is not None and timed.same else ""
    return f"{escape(match.pattern or match.rule)}({escape(dims_text(match))}){times}"


def _card(title: str, each: Timed, found: Bench, details: str) -> str:
    pair = each.against(IREE)
    seconds = {side: each.median(side) for side in each.seconds}
    longest = max(seconds.values())
    bars = "".join(bar(side, time_text(took), took, longest, ours=side == KERNELS) for side, took in seconds.items())
    if pair is None:
        return card(title, bars, "", details)
    used = found.machine.used(each.operations, each.moved, seconds[KERNELS])
    kind = {"faster": "good", "slower": "bad"}.get(pair.verdict, "faint")
    return card(title, bars, used, details, ratio_text(pair), kind)


def _details(match: Replacement, verdict: Verdict | None) -> str:
    rows: list[tuple[str, Any]] = [
        ("where", f"{short_location(match.location)} in @{match.function}"),
        ("kernel", match.kernel),
        ("rule", short_location(match.rule_location)),
        *(("view", view) for view in match.views),
    ]
    for use in match.artifacts:
        rows.append(("artifact", f"{short_location(use.source)} ({use.form}, {use.target.partition(',')[0]})"))
        rows += [("digest", use.digest)] if use.digest else []
    if verdict is not None:
        rows.insert(0, ("numbers", f"{verdict.outcome}: {outcome_text(verdict)}"))
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in rows)
    is_open = " open" if verdict is not None and verdict.outcome == "failed" else ""
    return f"<details{is_open}><summary>details</summary><dl>{listed}</dl></details>"


def _left(report: Report) -> Iterable[str]:
    kept = [each for each in report.kept if not each.lost]
    if kept:
        yield f"<h2>Left to the compiler: {len(kept)}</h2>"
        for each in kept:
            where = escape(short_location(each.location))
            yield f"<article><b>{_title(each, None)}</b> {where}<br>{escape(each.reason)}</article>"
    lines = unmatched_lines(report, verbose=True, near=True)
    if lines:
        yield f"<h2>Near misses</h2><pre>{escape(chr(10).join(lines))}</pre>"
