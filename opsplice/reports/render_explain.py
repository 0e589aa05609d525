"""How an explanation looks in a terminal.

    relu  layers.splice:11:9  no match, 1 near miss

      model.mlir:8:13 in @main: 2 of 3 parts hold
        + maximumf  arith.maximumf        8:13
        +   x       the program's input0
        x   0.0     arith.constant        3:10

        wanted the constant 0.0, found the constant 6.0
        3 | %six = arith.constant dense<6.0> : tensor<4x100xf32>
          |        ^
        help: ...

Marks: + held, x stopped here, ~ alike but not judged, - optional and absent, . not reached; = a match, - one that is
kept or lost.
"""

from __future__ import annotations

import itertools
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence

from opsplice.common.errors import counted
from opsplice.common.excerpts import excerpt
from opsplice.matchers.explain.near_miss import Attempt, Part, Place, State
from opsplice.reports.explanation import Explanation, PatternExplanation
from opsplice.reports.render import brief_location, dim_text, short_location, style, when_text
from opsplice.reports.report import Replacement

# How much is shown without --verbose: of a pattern, and of all where ops are pointed at or not.
_MOST_SHOWN = 3
_MOST_MATCHES = 10
_MOST_NAMES = 8
_NARROWEST = 60
_MARKS = {
    State.HELD: ("+", "green"),
    State.FAILED: ("x", "red"),
    State.ALIKE: ("~", "cyan"),
    State.ABSENT: ("-", "dim"),
    State.OPEN: (".", "dim"),
}


def explanation_text(explanation: Explanation, *, width: int, color: bool, verbose: bool = False) -> str:
    """The text for a terminal of so many columns. verbose: all misses, not only the nearest."""
    shown = _Text(explanation, max(width, _NARROWEST), color, verbose)
    return "\n".join(shown.lines())


class _Text:
    def __init__(self, explanation: Explanation, width: int, color: bool, verbose: bool) -> None:
        self.explanation = explanation
        self.width = width
        self.color = color
        self.verbose = verbose

    def lines(self) -> Iterable[str]:
        if self.explanation.pointed:
            yield from self._pointed(self.explanation.pointed)
            yield ""
        shown, hidden = self._chosen()
        for number, (pattern, misses) in enumerate(shown):
            if number:
                yield ""
            yield from self._pattern(pattern, misses)
        if hidden:
            yield ""
            names = ", ".join(p.pattern for p in hidden[:_MOST_NAMES]) + ", ..." * (len(hidden) > _MOST_NAMES)
            said = f"and {counted(len(hidden), 'more pattern')}: {names}"
            yield from self._wrapped(f"{said} (--verbose shows all, --pattern=NAME one)", "")
        if self.explanation.unread:
            yield ""
        for line in self.explanation.unread:
            yield f"{self._style('left out:', 'yellow')} {line}"

    def _chosen(self) -> tuple[list[tuple[PatternExplanation, Sequence[Attempt]]], list[PatternExplanation]]:
        """The patterns to show, each with the misses to show of it, and those that are only named."""
        patterns = self.explanation.patterns
        if self.verbose:
            return [(pattern, pattern.misses) for pattern in patterns], []
        telling = [self._telling(pattern) for pattern in patterns]
        each = [(rank, -miss.held, at) for at, of in enumerate(telling) for rank, miss in enumerate(of[:_MOST_SHOWN])]
        most_patterns, most_misses = (6, 4) if self.explanation.pointed else (30, 15)
        counts = Counter(at for _, _, at in sorted(each)[:most_misses])
        ranked = sorted(range(len(patterns)), key=lambda at: not (patterns[at].matches or counts[at]))
        if self.explanation.pointed:
            ranked = [at for at in ranked if patterns[at].matches or counts[at]] or ranked
        shown = sorted(ranked[:most_patterns])
        hidden = [pattern for at, pattern in enumerate(patterns) if at not in shown]
        return [(patterns[at], telling[at][: counts[at]]) for at in shown], hidden

    def _telling(self, pattern: PatternExplanation) -> Sequence[Attempt]:
        """The misses of a pattern that say something: at ops that are pointed at, those of which enough holds.

        That is half where a pattern matches there, else any part, and if nothing holds the first of each pattern.
        """
        if not self.explanation.pointed:
            return pattern.misses
        patterns = self.explanation.patterns
        if any(p.matches for p in patterns):
            return [miss for miss in pattern.misses if 2 * miss.held >= miss.asked]
        if any(miss.held for p in patterns for miss in p.misses):
            return [miss for miss in pattern.misses if miss.held]
        return pattern.misses[:1]

    def _style(self, text: str, name: str) -> str:
        return style(text, name, self.color)

    def _pointed(self, places: Sequence[Place]) -> Iterable[str]:
        """Each location with the ops there: one line of a model may be many."""
        at: dict[str, list[Place]] = {}
        for place in places:
            at.setdefault(place.location, []).append(place)
        shown = list(at.items())[: None if self.verbose else _MOST_SHOWN]
        for location, here in shown:
            names = Counter(place.op for place in here)
            ops = ", ".join(name if count == 1 else f"{name} ({count})" for name, count in names.items())
            lead = short_location(location)
            first, *rest = self._wrapped(f"{lead}  {ops}" if lead else ops, "")
            yield from [first.replace(lead, self._style(lead, "bold"), 1) if lead else first, *rest]
            yield from self._excerpt(here[-1], "  ")
        hidden = self.explanation.unlooked + sum(len(here) for here in at.values()) - sum(len(h) for _, h in shown)
        if hidden:
            yield self._style(f"and {hidden} more such ops", "dim")

    # ---- patterns -------------------------------------------------------------------------------------------------

    def _pattern(self, pattern: PatternExplanation, shown: Sequence[Attempt]) -> Iterable[str]:
        where = self._style(brief_location(pattern.location), "dim")
        misses = len(pattern.misses if self.verbose else self._telling(pattern))
        yield f"{self._style(pattern.pattern, 'bold')}  {where}  {_counts(len(pattern.matches), misses)}"
        most = None if self.verbose else _MOST_MATCHES
        yield from self._matches(pattern.matches[:most])
        if most is not None and len(pattern.matches) > most:
            yield self._style(f"  {len(pattern.matches) - most} more matches with --verbose", "dim")
        for miss in shown:
            yield ""
            yield from self._miss(miss)
        if len(shown) < misses:
            yield ""
            yield self._style(f"  {misses - len(shown)} more near misses with --verbose", "dim")
        if pattern.note:
            yield from self._wrapped(pattern.note, "  ")

    def _matches(self, matches: Sequence[Replacement]) -> Iterable[str]:
        places = [brief_location(m.location) for m in matches]
        width = max(map(len, places), default=0)
        for place, match in zip(places, matches, strict=True):
            dims = ", ".join(f"{n} = {dim_text(s)}" for n, s in match.dims.items())
            mark = self._style("=", "green") if not match.reason else self._style("-", "yellow")
            line = f"  {mark} {place:<{width}}  ({dims}) in @{match.function}"
            if not match.reason:
                what = "annotated" if match.action == "annotate" else f"{match.kernel}{when_text(match)}"
                arrow = f"{self._style('=>', 'dim')} {what}"
                fits = len(line) + len(what) + 5 <= self.width + (len(mark) - 1)
                yield from [f"{line}  {arrow}"] if fits else [line, f"      {arrow}"]
                if self.verbose or self.explanation.pointed:
                    for view in match.views:
                        yield from self._wrapped(view, "      ")
                continue
            yield line
            rule = f"`{match.rule}`: " if match.outcome == "kept" else ""
            outcome = f"{match.outcome}: " if match.rule else ""
            yield from self._wrapped(f"{outcome}{rule}{match.reason}", "      ")

    # ---- misses ---------------------------------------------------------------------------------------------------

    def _miss(self, miss: Attempt) -> Iterable[str]:
        held = f"{miss.held} of {miss.asked} parts hold"
        if miss.alike:
            held += f", {miss.alike} more {'is' if miss.alike == 1 else 'are'} alike"
        yield f"  {self._style(brief_location(miss.location), 'bold')} in @{miss.function}: {held}"
        yield from self._drawing(miss)
        why = miss.reason
        yield ""
        said = f"{self._style('wanted', 'red')} {why.wanted}, {self._style('found', 'red')} {why.found}"
        plain = f"wanted {why.wanted}, found {why.found}"
        yield from [f"    {said}"] if len(plain) + 4 <= self.width else self._wrapped(plain, "    ")
        if why.at is not None:
            yield from self._excerpt(why.at, "    ")
        if why.tried:
            yield f"    {why.tried} commutes: both orders were tried"
        if why.help:
            label = self._style("help:", "cyan")
            first, *rest = self._wrapped(f"help: {why.help}", "    ")
            yield first.replace("help:", label, 1)
            yield from rest
        if miss.others:
            verb = "match" if len(miss.others) > 1 else "matches"
            yield from self._wrapped(f"{', '.join(miss.others)} {verb} here", "    ")

    def _drawing(self, miss: Attempt) -> Iterable[str]:
        """The pattern as a tree, beside what each part is in the model."""
        parts = _worth_drawing(miss.parts)
        file = _file(miss.location)
        texts = ["  " * part.depth + text for part, text in parts]
        ops = [_said_of(part) for part, _ in parts]
        places = [
            "" if part.place is None else short_location(part.place.location.removeprefix(file)) for part, _ in parts
        ]
        room = self.width - 6
        left = min(max(map(len, texts)), room // 2)
        right = min(max(map(len, places)), (room - left) // 2)
        middle = min(max(map(len, ops)), room - left - right - 4)
        for (part, _), text, op, place in zip(parts, texts, ops, places, strict=True):
            letter, hue = _MARKS[part.state]
            row = f"{_cut(text, left):<{left}}  {_cut(op, middle):<{middle}}  {_cut_left(place, right)}".rstrip()
            yield f"    {self._style(letter, hue)} {self._style(row, 'dim') if hue == 'dim' else row}"

    def _excerpt(self, place: Place, indent: str) -> Iterable[str]:
        """The line of the model at a place, with the column marked; else the op as IREE prints it."""
        line = self.explanation.lines.get(place.location)
        numbers = place.location.rsplit(":", 2)
        if line is None or len(numbers) != 3:
            shown = f"{short_location(place.location)}: {place.text}" if place.location else place.text
            yield self._style(f"{indent}{_cut(shown, self.width - len(indent))}", "dim")
            return
        number, column = numbers[1], int(numbers[2]) - 1
        lead = len(line) - len(line.lstrip())
        room = self.width - len(indent) - len(number) - 3
        text, caret = excerpt(line.strip(), max(0, column - lead), max(0, column - lead) + 1, room)
        blank = " " * (len(indent) + len(number) + 1)
        yield f"{indent}{self._style(f'{number} |', 'dim')} {text}"
        yield f"{blank}{self._style('|', 'dim')} {self._style(caret, 'green')}"

    def _wrapped(self, text: str, indent: str) -> list[str]:
        return textwrap.wrap(
            text,
            self.width,
            initial_indent=indent,
            subsequent_indent=indent + "  ",
            break_long_words=False,
            break_on_hyphens=False,
        )


def _said_of(part: Part) -> str:
    """What a part is in the model."""
    if part.state is State.ABSENT:
        return "absent, optional"
    return "" if part.place is None else part.place.op


def _counts(matches: int, misses: int) -> str:
    said = counted(matches, "match") if matches else "no match"
    return f"{said}, {counted(misses, 'near miss')}" if misses else said


def _worth_drawing(parts: Sequence[Part]) -> list[tuple[Part, str]]:
    """Parts with their texts. What was not looked into stays in one row, whole."""
    kept: list[tuple[Part, str]] = []
    closed: int | None = None  # the depth of a part whose own parts are not drawn
    for number, part in enumerate(parts):
        if closed is not None and part.depth > closed:
            continue
        closed = part.depth if part.state is not State.HELD and _is_open(parts, number) else None
        kept.append((part, part.text if closed is None else part.whole))
    return kept


def _is_open(parts: Sequence[Part], number: int) -> bool:
    """Whether nothing of what a part is made of was looked at, but for what is drawn elsewhere."""
    depth = parts[number].depth
    below = itertools.takewhile(lambda p: p.depth > depth, parts[number + 1 :])
    return all(p.state in (State.OPEN, State.ABSENT) or p.again for p in below)


def _file(location: str) -> str:
    """`model.mlir:` of `model.mlir:8:13`, or ""."""
    file, _, _ = location.rpartition(":")[0].rpartition(":")
    return f"{file}:" if file else ""


def _cut_left(text: str, width: int) -> str:
    return text if len(text) <= width else f"...{text[len(text) - max(0, width - 3) :]}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(0, width - 3)]}..."
