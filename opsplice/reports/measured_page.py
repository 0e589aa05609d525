"""What was measured as one page: no scripts, no other files, for narrow and wide screens, light and dark."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from opsplice.measuring.cutting.records import Verdict, Verification
from opsplice.measuring.timing.benching import IREE, KERNELS, Bench, Timed
from opsplice.reports.render import dims_text, short_location, unmatched_lines
from opsplice.reports.render_bench import costs, ratio_text, time_text
from opsplice.reports.render_verify import heading, outcome_text, whole_text
from opsplice.reports.report import Replacement, Report

_STYLE = """
:root { color-scheme: light dark; --text: #1d2129; --faint: #667; --back: #fff; --card: #f5f6f8; --line: #dde;
  --base: #9aa3b2; --ours: #2563eb; --good: #15803d; --bad: #b91c1c; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e8ec; --faint: #9aa; --back: #14161a; --card: #1e2127;
  --line: #333842; --base: #697386; --ours: #6ea0ff; --good: #4ade80; --bad: #f87171; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); margin: 0 auto;
  max-width: 60rem; padding: 1rem; }
h1 { font-size: 1.4rem; margin: .5rem 0; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .5rem; }
article { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .7rem .9rem;
  margin: .6rem 0; }
article header { display: flex; flex-wrap: wrap; gap: .2rem .8rem; align-items: baseline; }
header b { overflow-wrap: anywhere; } header .ratio { margin-left: auto; font-weight: 600; }
code, pre { font: 13px/1.45 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .7rem; }
.faint, dt { color: var(--faint); } .good { color: var(--good); } .bad { color: var(--bad); }
.bar { display: grid; grid-template-columns: 6.5rem 1fr 5rem; gap: .5rem; align-items: center; margin: .15rem 0; }
.bar i { display: block; height: .8rem; border-radius: 3px; background: var(--base); min-width: 2px; }
.bar.ours i { background: var(--ours); } .bar span:last-child { text-align: right; font-variant-numeric: tabular-nums; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .8rem; margin: .4rem 0 0; }
dd { margin: 0; overflow-wrap: anywhere; }
details.layers { border-left: 3px solid var(--ours); padding-left: .7rem; margin: .6rem 0; }
details.layers > summary { color: var(--text); font-weight: 600; }
summary { cursor: pointer; color: var(--faint); }
"""


def page(title: str, found: Bench, verified: Verification | None = None) -> str:
    """The whole page."""
    return document(title, _sections(found, verified))


def document(title: str, sections: Iterable[str]) -> str:
    """A page that needs no other file."""
    body = "\n".join([f"<h1>{escape(title)}</h1>", *sections])
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<title>opsplice: {escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def bench_html(found: Bench) -> str:
    """What a notebook shows: the page in a frame of its own, so that neither changes the other."""
    content = escape(page("what kernels bring", found))
    return f'<iframe srcdoc="{content}" style="width: 100%; height: 36rem; border: 0"></iframe>'


def _sections(found: Bench, verified: Verification | None) -> Iterable[str]:
    machine = found.machine
    peak = f", {machine.peak / 1e9:.0f} GFLOP/s and {machine.bandwidth / 1e9:.0f} GB/s a core" if machine.peak else ""
    yield f'<p class="faint">one core of {escape(machine.cpu)}{peak}; medians of runs in turn</p>'
    for each in found.whole:
        yield _card(escape(each.name), each, found, "")
    yield "".join(f'<div class="faint">{escape(line)}</div>' for line in costs(found))
    if verified is not None:
        yield f"<h2>Numbers</h2><p>{escape(heading(verified))}</p>"
        for whole in verified.whole:
            yield f"<p>@{escape(whole.function)}: {escape(whole.reason or whole_text(whole))}</p>"
    verdicts = {} if verified is None else {v.replacement.location: v for v in verified.verdicts}
    yield f"<h2>Replaced: {len(found.report.replacements)}</h2>"
    timed = {where: each for each in found.timed if each.replacement for where in (each.name, *each.same)}
    shown = {id(each): each for each in timed.values()}
    for each in shown.values():
        assert each.replacement is not None
        yield _card(_title(each.replacement, each), each, found, _details(each.replacement, verdicts.get(each.name)))
    for other in (r for r in found.report.replacements if r.location not in timed):
        details = _details(other, verdicts.get(other.location))
        yield f"<article><header><b>{_title(other, None)}</b></header>{details}</article>"
    yield from _left(found.report)


def _title(match: Replacement, timed: Timed | None) -> str:
    times = f" &times; {len(timed.same) + 1}" if timed is not None and timed.same else ""
    return f"{escape(match.pattern or match.rule)}({escape(dims_text(match))}){times}"


def _card(title: str, each: Timed, found: Bench, details: str) -> str:
    pair = each.against(IREE)
    said = ""
    if pair is not None:
        kind = {"faster": "good", "slower": "bad"}.get(pair.verdict, "faint")
        said = f'<span class="ratio {kind}">{escape(ratio_text(pair))}</span>'
    longest = max(map(each.median, each.seconds))
    bars = "".join(_bar(side, each.median(side), longest) for side in each.seconds)
    used = found.machine.used(each.operations, each.moved, each.median(KERNELS)) if pair is not None else ""
    roof = f'<div class="faint">{escape(used)}</div>' if used else ""
    return f"<article><header><b>{title}</b>{said}</header>{bars}{roof}{details}</article>"


def _bar(side: str, seconds: float, longest: float) -> str:
    ours = " ours" if side == KERNELS else ""
    width = 100 * seconds / longest if longest else 0
    return (
        f'<div class="bar{ours}"><span>{escape(side)}</span><span><i style="width: {width:.1f}%"></i></span>'
        f"<span>{escape(time_text(seconds))}</span></div>"
    )


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
