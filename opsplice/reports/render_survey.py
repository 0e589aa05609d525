"""How a survey looks: in a terminal, on a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from opsplice.common.errors import counted
from opsplice.measuring.timing.repeated_sequences import Part, Repeated
from opsplice.measuring.timing.survey_model import Item, Survey
from opsplice.reports.page import bar, card, document
from opsplice.reports.render import aligned, brief, brief_location, several_text, style
from opsplice.reports.render_bench import time_text

_HEADS = ("share", "time", "", "operations", "bytes", "")
# Narrower terminals are not told operations and bytes.
_WIDE = 100
# How many places of a computation are named, how many computations that nothing takes, and how heavy these are.
_NAMED, _MOST, _LEAST = 3, 8, 0.01
# What stands before the parts of what repeats.
_BELOW = "|  "


def survey_text(found: Survey, *, color: bool = False, width: int | None = None) -> str:
    """The layers, a line for each computation; then heavy ones without a kernel. width: of the terminal."""
    several = len(found.layers) > 1
    rows: list[tuple[str, ...]] = []
    for name, parts in found.layers.items():
        rows += [_group_row(Repeated(1, parts), found, f"@{name}", 0)] if several else []
        rows += [row for part in parts for row in _rows(part, found, 1 if several else 0)]
    if found.others:
        amount = sum(found.share(found.items[n]) for n in found.others)
        rows.append((f"{amount:.0%}", "", f"{counted(len(found.others), 'other')}, each below 1%", "", "", ""))
    if width is not None and width < _WIDE:
        rows = [(*row[:3], "", "", row[5]) for row in rows]
    heads = tuple(head if any(row[n] for row in rows) else "" for n, head in enumerate(_HEADS))
    shown = aligned(_fitted([heads, *rows], width)) if rows else []
    lines = [style(heading(found), "bold", color), *shown, *_missing(found, color)]
    return "\n".join([*lines, *([found.note] if found.note else [])])


def heading(found: Survey) -> str:
    """What share has a kernel, and what has none, in a line."""
    parts = {"have a kernel": 0.0, "match a pattern without a kernel": 0.0, "match no pattern": 0.0}
    for item in found.items:
        key = "have a kernel" if item.kernels else list(parts)[1 if item.is_pattern else 2]
        parts[key] += found.share(item)
    of = "the time" if found.seconds else "the operations"
    return f"of {of}, {', '.join(f'{share:.0%} {what}' for what, share in parts.items())}"


def _rows(part: Part, found: Survey, depth: int) -> Iterator[tuple[str, ...]]:
    if isinstance(part, Repeated) and len(part.parts) > 1:
        yield _group_row(part, found, group_text(part), depth)
        for each in part.parts:
            yield from _rows(each, found, depth + 1)
        return
    item, count = leaf(part, found)
    yield (
        f"{found.share(part):.0%}",
        time_text(found.time(part)) if found.time(part) else "not timed" if found.seconds else "",
        f"{_BELOW * depth}{f'{count} x ' if count > 1 else ''}{brief(what(item))}",
        amount_text(item.operations * count),
        amount_text(item.moved * count),
        item.state,
    )


def leaf(part: Part, found: Survey) -> tuple[Item, int]:
    """A computation and how often it follows itself; of what repeats only that."""
    if isinstance(part, int):
        return found.items[part], 1
    item, count = leaf(part.parts[0], found)
    return item, count * part.count


def group_text(group: Repeated) -> str:
    """How often a group of computations repeats."""
    return f"{group.count} layers of {counted(_length(group.parts), 'computation')}, each:"


def _length(parts: Iterable[Part]) -> int:
    return sum(1 if isinstance(part, int) else part.count * _length(part.parts) for part in parts)


def _group_row(group: Repeated, found: Survey, name: str, depth: int) -> tuple[str, ...]:
    seconds = found.time(group)
    return f"{found.share(group):.0%}", time_text(seconds) if seconds else "", f"{_BELOW * depth}{name}", "", "", ""


def _fitted(rows: list[tuple[str, ...]], width: int | None) -> list[tuple[str, ...]]:
    """Rows whose names are cut so that a line fits a terminal."""
    if width is None:
        return rows
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = max(24, width - 2 - sum(w + 2 for n, w in enumerate(widths) if w and n != 2))
    cut = [row[2] if len(row[2]) <= room else f"{row[2][: room - 3]}..." for row in rows]
    return [(*row[:2], name, *row[3:]) for row, name in zip(rows, cut, strict=True)]


def _missing(found: Survey, color: bool) -> list[str]:
    items = [item for item in found.items if not item.kernels and found.share(item) >= _LEAST][:_MOST]
    if not items or len(items) == len(found.items):
        return []
    lines = [f"  {found.share(i):.0%}  {brief(what(i))}, {i.state}: {places_text(i)}" for i in items]
    return [style("heavy, and without a kernel:", "bold", color), *lines]


def what(item: Item) -> str:
    """A computation with its sizes."""
    return f"{item.name}({item.dims})" if item.is_pattern else f"{item.name} {item.dims}"


def places_text(item: Item) -> str:
    """Where it stands, the first places of it."""
    return several_text(map(brief_location, item.places), _NAMED)


def amount_text(number: int) -> str:
    """A number with a prefix: 1.2 G."""
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {prefix}"
    return str(number) if number else ""


def survey_page(title: str, found: Survey) -> str:
    """A page of its own."""
    said = [f"<p>{escape(line)}</p>" for line in (heading(found), found.note) if line]
    return document(f"what is in {title}", [*said, *layers_html(found)])


def layers_html(found: Survey) -> Iterator[str]:
    """The layers as cards, what repeats in a frame."""
    longest = max((found.share(part) for part in _leaves(found.layers.values())), default=0.0)
    for name, parts in found.layers.items():
        yield f"<h2>@{escape(name)}</h2>" if len(found.layers) > 1 else ""
        yield from (_part_html(part, found, longest) for part in parts)


def _leaves(groups: Iterable[Iterable[Part]]) -> Iterator[Part]:
    for parts in groups:
        for part in parts:
            if isinstance(part, Repeated) and len(part.parts) > 1:
                yield from _leaves([part.parts])
            else:
                yield part


def _part_html(part: Part, found: Survey, longest: float) -> str:
    if not (isinstance(part, Repeated) and len(part.parts) > 1):
        return _card(part, found, longest)
    inner = "".join(_part_html(each, found, longest) for each in part.parts)
    time = f", {time_text(found.time(part))}" if found.time(part) else ""
    head = f"{found.share(part):.1%}{time}: {group_text(part)}"
    return f'<details class="layers" open><summary>{escape(head)}</summary>{inner}</details>'


def _card(part: Part, found: Survey, longest: float) -> str:
    item, count = leaf(part, found)
    share, seconds = found.share(part), found.time(part)
    kind = "good" if item.kernels else "faint" if item.is_pattern else "bad"
    times = f" &times; {count}" if count > 1 else ""
    said = [(item.operations, " operations"), (item.moved, "B")]
    amounts = ", ".join(f"{amount_text(number)}{what}" for number, what in said if number)
    amounts += " each" * bool(amounts)
    bars = bar(f"{share:.1%}", time_text(seconds) if seconds else "", share, longest, ours=bool(item.kernels))
    places = (
        f"<details><summary>places</summary>{'<br>'.join(escape(brief_location(p)) for p in item.places)}</details>"
    )
    return card(f"{escape(what(item))}{times}", bars, amounts, places, item.state, kind)
