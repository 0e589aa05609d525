"""A page that needs no other file: readable on narrow and wide screens, in the light and in the dark."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

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
summary h2 { display: inline; color: var(--text); }
summary { cursor: pointer; color: var(--faint); }
"""


def bar(label: str, told: str, amount: float, longest: float, *, ours: bool) -> str:
    """An amount as a bar, with a label before it and a text behind it. longest: the amount of the longest bar."""
    width = 100 * amount / longest if longest else 0
    return (
        f'<div class="bar{" ours" * ours}"><span>{escape(label)}</span><span><i style="width: {width:.1f}%"></i></span>'
        f"<span>{escape(told)}</span></div>"
    )


def card(title: str, bars: str, faint: str, more: str, badge: str = "", kind: str = "") -> str:
    """A title in HTML with a badge of a kind (`good`, `bad` or `faint`), bars, a faint line, and more HTML."""
    said = f'<span class="ratio {kind}">{escape(badge)}</span>' if badge else ""
    line = f'<div class="faint">{escape(faint)}</div>' if faint else ""
    return f"<article><header><b>{title}</b>{said}</header>{bars}{line}{more}</article>"


def document(title: str, sections: Iterable[str]) -> str:
    """A page that needs no other file."""
    body = "\n".join([f"<h1>{escape(title)}</h1>", *sections])
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<title>opsplice: {escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )
