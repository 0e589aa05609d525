"""A place where a pattern was tried and did not hold, told in full. Plain data, which holds nothing of a module."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from opsplice.matchers.search.failures import Kind
from opsplice.spec_lang.syntax import tree


@dataclass(frozen=True)
class Place:
    """A payload op or argument, as text. op: its name, or `argument 0 of @main`; text: its IR in one line, cut.

    location: `file:line:column`, "" for an argument.
    """

    op: str
    location: str
    text: str


@dataclass(frozen=True)
class Reason:
    """Why a pattern does not hold at a place.

    wanted, found: what the pattern asks for and what is there. span: that part of the pattern; at: that place of the
    model. tried: the commutative op of which both orders were tried, "" if there is none. help: what to change, or "".
    """

    kind: Kind
    wanted: str
    found: str
    span: tree.Span | None
    at: Place | None
    tried: str = ""
    help: str = ""

    def __str__(self) -> str:
        return f"wanted {self.wanted}, found {self.found}"


class State(StrEnum):
    """What became of a part of a pattern."""

    HELD = "held"
    FAILED = "failed"
    ALIKE = "alike"  # not judged, but the same op stands there
    ABSENT = "absent"  # optional, and the program does without it
    OPEN = "open"  # not judged


@dataclass(frozen=True)
class Part:
    """A part of a pattern, as it is drawn. whole: as the spec writes it; text: less the parts that it is made of.

    depth: how deep it lies in other parts, from 0. place: what it held at in the model (without its IR), or where it
    failed. again: whether it is only named here, and drawn further up.
    """

    text: str
    whole: str
    span: tree.Span
    depth: int
    state: State
    is_input: bool
    place: Place | None
    again: bool = False


@dataclass(frozen=True)
class Attempt:
    """One place where a pattern was tried and did not hold.

    location: of the op where the pattern's result was looked for, `op` in words. progress: which part of the pattern's
    ops held, up to 1; similarity: which part of them is the same op as in the model, also behind where it stopped.
    others: patterns that do match there.
    """

    pattern: str
    function: str
    location: str
    op: Place
    progress: float
    similarity: float
    reason: Reason
    parts: tuple[Part, ...]
    others: tuple[str, ...] = ()

    @property
    def asked(self) -> int:
        """How many parts there are, but for optional ones that the program does without."""
        return sum(p.state is not State.ABSENT for p in self.parts)

    @property
    def held(self) -> int:
        """How many parts held."""
        return sum(p.state is State.HELD for p in self.parts)

    @property
    def alike(self) -> int:
        """How many more are alike."""
        return sum(p.state is State.ALIKE for p in self.parts)
