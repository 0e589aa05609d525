"""How a survey looks: in a terminal, on a page."""

from __future__ import annotations

from html import escape

from opsplice.commands.shared.answer import aligned
from opsplice.measuring.timing.survey_model import Item, Survey
from opsplice.reports.measured_page import document
from opsplice.reports.render import short_location, style
from opsplice.reports.render_bench import time_text

_HEADS = ("share", "", "", "time", "operations", "bytes", "")
_NAMED = 3


def survey_text(found: Survey, *, color: bool = False) -> str:
    """A line for each computation; then the heavy ones that nothing is there for."""
    rows = [_row(item, found) for item in found.items]
    lines = [style(heading(found), "bold", color), *(aligned([_HEADS, *rows]) if rows else [])]
    return "\n".join([*lines, *([found.note] if found.note else [])])


def heading(found: Survey) -> str:
    """What share has a kernel, and what has none, in a line."""
    parts = {"have a kernel": 0.0, "match a pattern without a kernel": 0.0, "match no pattern": 0.0}
    for item in found.items:
        key = "have a kernel" if item.kernels else list(parts)[1 if item.is_pattern else 2]
        parts[key] += found.share(item)
    of = "the time" if found.seconds else "the operations"
    return f"of {of}, {', '.join(f'{share:.0%} {what}' for what, share in parts.items())}"


def _row(item: Item, found: Survey) -> tuple[str, ...]:
    return (
        f"{found.share(item):.0%}",
        f"{len(item.places)} x" if len(item.places) > 1 else "",
        what(item),
        time_text(item.total) if item.seconds else "",
        amount_text(item.operations * len(item.places)),
        amount_text(item.moved * len(item.places)),
        f"{item.state}; {places_text(item)}",
    )


def what(item: Item) -> str:
    """A computation with its sizes."""
    return f"{item.name}({item.dims})" if item.is_pattern else f"{item.name} {item.dims}"


def places_text(item: Item) -> str:
    """Where it stands, the first places of it."""
    named = ", ".join(map(short_location, item.places[:_NAMED]))
    return named + (", ..." if len(item.places) > _NAMED else "")


def amount_text(number: int) -> str:
    """A number with a prefix: 1.2 G."""
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {prefix}"
    return str(number) if number else ""


def survey_page(title: str, found: Survey) -> str:
    """A page of its own."""
    said = [f"<p>{escape(line)}</p>" for line in (heading(found), found.note) if line]
    return document(f"what is in {title}", [*said, _cards(found)])


def survey_html(found: Survey) -> str:
    """What a notebook shows."""
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _row(i, found))}</tr>" for i in found.items)
    heads = "".join(f"<th>{head}</th>" for head in _HEADS)
    return f"<p><b>{escape(heading(found))}</b></p><table><tr>{heads}</tr>{rows}</table>"


def _cards(found: Survey) -> str:
    longest = max(map(found.share, found.items), default=0.0)
    return "".join(_card(item, found, longest) for item in found.items)


def _card(item: Item, found: Survey, longest: float) -> str:
    share = found.share(item)
    width = 100 * share / longest if longest else 0
    ours, kind = (" ours", "good") if item.kernels else ("", "faint" if item.is_pattern else "bad")
    times = f" &times; {len(item.places)}" if len(item.places) > 1 else ""
    time = time_text(item.total) if item.seconds else ""
    amounts = f"{amount_text(item.operations)} operations, {amount_text(item.moved)}B each"
    return (
        f'<article><header><b>{escape(what(item))}{times}</b><span class="ratio {kind}">{escape(item.state)}</span>'
        f'</header><div class="bar{ours}"><span>{share:.1%}</span><span><i style="width: {width:.1f}%"></i></span>'
        f'<span>{escape(time)}</span></div><div class="faint">{escape(amounts)}</div>'
        f"<details><summary>places</summary>{'<br>'.join(escape(short_location(p)) for p in item.places)}</details>"
        "</article>"
    )
