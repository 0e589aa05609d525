"""Why patterns match or do not: plain data that pickles and turns into JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from opsplice.matchers.explain.near_miss import Attempt, Part, Place
from opsplice.reports.report import Replacement
from opsplice.reports.shown import Shown

# Where there is no terminal.
_WIDTH = 110


@dataclass(frozen=True)
class PatternExplanation:
    """One pattern: its matches with what becomes of each, and the places where it came near, the nearest first.

    location: of the pattern in the spec. note: what there is to say beside, or "".
    """

    pattern: str
    location: str
    matches: tuple[Replacement, ...]
    misses: tuple[Attempt, ...]
    note: str = ""


@dataclass(frozen=True)
class Explanation(Shown):
    """What `opsplice.explain` returns.

    pointed: the ops that were pointed at; empty if all of the program was looked at. unlooked: how many more there are,
    which were left out.
    lines: the model's own text at the locations that the misses name, where it is at hand.
    unread: what of transform specs could not be read as patterns, each with its place.
    """

    patterns: tuple[PatternExplanation, ...]
    pointed: tuple[Place, ...] = ()
    lines: dict[str, str] = field(default_factory=dict)
    unlooked: int = 0
    unread: tuple[str, ...] = ()

    def text_shown(self, color: bool) -> str:
        from opsplice.reports.render_explain import explanation_text

        return explanation_text(self, width=_WIDTH, color=color)

    def to_json(self) -> dict[str, Any]:
        """`pointed`, `patterns`, each with its `matches` and `misses`, and what of specs is `unread`."""
        return {
            "pointed": [self._place(p) for p in self.pointed],
            "unlooked": self.unlooked,
            "unread": list(self.unread),
            "patterns": [
                {
                    "pattern": p.pattern,
                    "location": p.location,
                    "matches": [m.to_json() for m in p.matches],
                    "misses": [self._miss(m) for m in p.misses],
                    "note": p.note,
                }
                for p in self.patterns
            ],
        }

    def _miss(self, miss: Attempt) -> dict[str, Any]:
        why = miss.reason
        return {
            "function": miss.function,
            "location": miss.location,
            "op": miss.op.op,
            "text": miss.op.text,
            "progress": round(miss.progress, 3),
            "similarity": round(miss.similarity, 3),
            "kind": str(why.kind),
            "wanted": why.wanted,
            "found": why.found,
            "tried_both_orders_of": why.tried,
            "spec_location": "" if why.span is None else str(why.span),
            "at": None if why.at is None else self._place(why.at),
            "help": why.help,
            "others": list(miss.others),
            "parts": [self._part(p) for p in miss.parts],
        }

    def _part(self, part: Part) -> dict[str, Any]:
        place = None if part.place is None else self._place(part.place)
        if place is not None:
            del place["text"]  # of parts only the op and its place are known
        return {
            "text": part.text,
            "spec_location": str(part.span),
            "depth": part.depth,
            "state": str(part.state),
            "input": part.is_input,
            "at": place,
        }

    def _place(self, place: Place) -> dict[str, Any]:
        return {**dataclasses.asdict(place), "line": self.lines.get(place.location, "")}
