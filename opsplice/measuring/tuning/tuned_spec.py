"""What tuning chose, as a spec: it imports what was tuned, and has rules with sizes that come before its own.

Rules that differ in one size, with nothing else measured between them, become one rule with a range of that size.
"""

from __future__ import annotations

import math
import os
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from opsplice.measuring.tuning.measurements import COMPILER, KERNEL, NOT_ALONE, UNDECIDED, Candidate, Choice
from opsplice.reports.render_bench import time_text
from opsplice.spec_lang.formatting.formatter import format as formatted

_WIDTH = 97


@dataclass(frozen=True)
class _Point:
    """A rule at sizes. head, tail: of what is written; low, high: of each dim; said: comments."""

    head: str
    condition: str
    tail: str
    low: tuple[tuple[str, int], ...]
    high: tuple[tuple[str, int], ...]
    said: tuple[str, ...]

    def text(self) -> str:
        """The rule with its comments."""
        sizes = []
        for (name, low), (_, high) in zip(self.low, self.high, strict=True):
            sizes += [f"{name} == {low}"] if low == high else [f"{name} >= {low}", f"{name} <= {high}"]
        asked = " and ".join(filter(None, [self.condition, *sizes]))
        return "\n".join([*map(_comment, self.said), f"{self.head} where {asked}{self.tail}"])


def spec_text(cpu: str, specs: Sequence[str], choices: Sequence[Choice], folder: Path) -> str:
    """The spec, laid out as `opsplice format` does."""
    parts = [
        f"// Written by `opsplice tune` on {time.strftime('%Y-%m-%d', time.gmtime())}: the fastest on one core of",
        f"// {cpu}. Other sizes are as the imported rules say.",
        *(f'import "{each}"' for each in _imports(specs, choices, folder)),
        "",
        *(f"{point.text()}\n" for point in _points(choices)),
        *_undecided(choices),
    ]
    return formatted("\n".join(parts) + "\n")


def _imports(specs: Sequence[str], choices: Sequence[Choice], folder: Path) -> list[str]:
    named = [os.path.relpath(each, folder) if each.endswith(".splice") else each for each in specs]
    written = [c for choice in choices for c in _written(choice)]
    others = [library for c in written for library in c.imports if library.partition(":")[0] not in named]
    return list(dict.fromkeys([*named, *(each for each in others if each not in named)]))


def _written(choice: Choice) -> Iterable[Candidate]:
    """The candidates whose names the spec has."""
    if choice.kind == COMPILER:
        return choice.task.candidates
    return [choice.chosen] if choice.chosen is not None else []


def _points(choices: Sequence[Choice]) -> list[_Point]:
    """A rule for each pattern and sizes: of several decisions the one with which all that it holds for takes least.

    The same sizes in another layout are measured apart, and rules do not ask for layouts: what was found is told. A
    kernel that failed in one of them is in no rule.
    """
    decided: dict[tuple[object, ...], list[_Point]] = {}
    for choice in choices:
        for point in _decided(choice):
            decided.setdefault(_place(point), []).append(point)
    points = []
    for place, several in decided.items():
        first = several[0]
        keeping = replace(first, head=f"keep {first.head.partition(' ')[2]}", condition="", tail="")
        best = min([*several, keeping], key=lambda point: sum(_seconds(each, place, point) for each in choices))
        said = [text for point in several for text in point.said]
        others = [f"in another layout, which has the same rule: {each}" for each in said[1:]]
        points.append(replace(best, said=(said[0], *others)))
    kinds: dict[tuple[object, ...], list[_Point]] = {}
    for point in points:
        kinds.setdefault(_kind(point), []).append(point)
    return [joined for kind in kinds.values() for joined in _ranges(kind, points)]


def _place(point: _Point) -> tuple[object, ...]:
    """What only one rule can hold for: a pattern, and its sizes."""
    return point.head.partition(" ")[2], point.low


def _seconds(choice: Choice, place: tuple[object, ...], point: _Point) -> float:
    """How long a computation takes, in all of its places, where a rule holds that is for another layout of it."""
    rules = [_point(each, each.head, each.tail, "") for each in choice.task.candidates]
    if place not in map(_place, rules):
        return 0.0
    taken = choice.iree
    for rule, record in zip(rules, choice.records, strict=True):
        same = (rule.head, rule.condition, rule.tail) == (point.head, point.condition, point.tail)
        if same and _place(rule) == place and record is not None and record.failed != NOT_ALONE:
            taken = math.inf if record.failed else choice.iree * record.ratio
    return taken * len(choice.task.places)


def _kind(point: _Point) -> tuple[object, ...]:
    """What points share that may become one rule: its text, and the dims that it has."""
    return point.head, point.condition, point.tail, tuple(name for name, _ in point.low)


def _decided(choice: Choice) -> Iterator[_Point]:
    said = _measured(choice)
    if choice.kind == KERNEL and choice.chosen is not None:
        yield _point(choice.chosen, choice.chosen.head, choice.chosen.tail, said)
    elif choice.kind == COMPILER:
        for each in {candidate.head: candidate for candidate in choice.task.candidates}.values():
            yield _point(each, f"keep{each.head.removeprefix('replace')}", "", said)


def _point(candidate: Candidate, head: str, tail: str, said: str) -> _Point:
    sizes = tuple((name, _count(size)) for name, size in candidate.dims.items())
    return _Point(head, candidate.condition if tail else "", tail, sizes, sizes, (said,))


def _count(size: object) -> int:
    """A pack counts as the product of its dims, in conditions too."""
    return math.prod(size) if isinstance(size, list) else int(str(size))


def _measured(choice: Choice) -> str:
    times = [f"{time_text(choice.iree)} by IREE" if choice.iree else "IREE not timed"]
    for candidate, record in zip(choice.task.candidates, choice.records, strict=True):
        if record is not None:
            told = record.failed or f"{time_text(record.seconds[1])} (x{1 / record.ratio:.2f})"
            name = choice.task.named(candidate)
            times.append(f"{told} by {name}" if not record.failed else f"{name}: {told}")
    count = len(choice.task.places)
    return f"{choice.task.what}{f', {count} places' if count > 1 else ''}: {'; '.join(times)}"


def _ranges(points: list[_Point], all_points: Sequence[_Point]) -> list[_Point]:
    """Points of one kind, joined along the dim that joins most."""
    names = [name for name, _ in points[0].low]
    best = points
    for axis in range(len(names)):
        joined = list(_along(axis, points, all_points))
        best = joined if len(joined) < len(best) else best
    return best


def _along(axis: int, points: list[_Point], all_points: Sequence[_Point]) -> Iterator[_Point]:
    lines: dict[tuple[tuple[str, int], ...], list[_Point]] = {}
    for point in points:
        lines.setdefault((*point.low[:axis], *point.low[axis + 1 :]), []).append(point)
    for rest, line in lines.items():
        line.sort(key=lambda point: point.low[axis][1])
        pattern = line[0].head.partition(" ")[2]
        others = [
            other.low[axis][1]
            for other in all_points
            if _kind(other) != _kind(line[0])
            and other.head.partition(" ")[2] == pattern
            and (*other.low[:axis], *other.low[axis + 1 :]) == rest
        ]
        current = line[0]
        for following in line[1:]:
            if any(current.high[axis][1] < size < following.low[axis][1] for size in others):
                yield current
                current = following
            else:
                current = replace(current, high=following.high, said=(*current.said, *following.said))
        yield current


def _comment(text: str) -> str:
    return "\n".join(f"// {line}" for line in textwrap.wrap(text, _WIDTH, break_on_hyphens=False))


def _undecided(choices: Sequence[Choice]) -> list[str]:
    """What is left to the order of the imported rules, in comments."""
    same = [_comment(_measured(each)) for each in choices if each.kind == UNDECIDED]
    return ["// Without a difference beyond the noise, so as the imported rules say:", *same] if same else []
