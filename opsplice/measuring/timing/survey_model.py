"""What a survey found, as plain data. No compiler here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opsplice.measuring.timing.repeated_sequences import Part, Repeated
from opsplice.reports.shown import Shown


@dataclass(frozen=True)
class Item:
    """A computation. places: where it stands; is_pattern: whether a pattern holds for it, or it is an op of that name.

    operations, moved: of one place, on numbers and in bytes of inputs and results, 0 where these are not known.
    seconds: of one place by IREE's own code alone, None where that is not known. kernels: what specs have for it.
    """

    name: str
    dims: str
    places: tuple[str, ...]
    is_pattern: bool
    operations: int
    moved: int
    seconds: float | None
    kernels: tuple[str, ...] = ()

    @property
    def total(self) -> float:
        """The seconds of all places, 0 where they are not known."""
        return (self.seconds or 0.0) * len(self.places)

    @property
    def state(self) -> str:
        """What a kernel's author wants to know of it."""
        if self.kernels:
            return f"kernel {', '.join(self.kernels)}"
        return "no kernel" if self.is_pattern else "no pattern"


@dataclass(frozen=True)
class Survey(Shown):
    """Computations, those that take longest first. note: why there are no times, what open sizes are taken as.

    layers: by function, the order of the program: numbers of `items`, with what repeats folded, without `others`, which
    take next to nothing.
    """

    items: tuple[Item, ...]
    note: str = ""
    layers: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)
    others: tuple[int, ...] = ()

    @property
    def seconds(self) -> float:
        """The sum of all."""
        return sum(item.total for item in self.items)

    def share(self, what: Item | Part) -> float:
        """The part of the time that something takes, of the operations where there are no times."""
        if isinstance(what, Repeated):
            return what.count * sum(map(self.share, what.parts))
        if isinstance(what, int):
            return self.share(self.items[what]) / len(self.items[what].places)
        if self.seconds:
            return what.total / self.seconds
        operations = sum(each.operations * len(each.places) for each in self.items)
        return what.operations * len(what.places) / operations if operations else 0.0

    def time(self, what: Part) -> float:
        """The seconds of a part of the layers."""
        if isinstance(what, int):
            return self.items[what].seconds or 0.0
        return what.count * sum(map(self.time, what.parts))

    def to_json(self) -> dict[str, Any]:
        """As `opsplice survey --json` prints it."""
        items = [{**dataclasses.asdict(i), "share": self.share(i), "state": i.state} for i in self.items]
        layers = {name: [self._part_json(part) for part in parts] for name, parts in self.layers.items()}
        found = {"computations": items, "layers": layers, "others": self.others}
        return {**found, "seconds": self.seconds, "note": self.note}

    def _part_json(self, part: Part) -> dict[str, Any]:
        if isinstance(part, int):
            return {"computation": part, "share": self.share(part)}
        parts = [self._part_json(each) for each in part.parts]
        return {"count": part.count, "parts": parts, "share": self.share(part)}

    def text_shown(self, color: bool) -> str:
        from opsplice.reports.render_survey import survey_text

        return survey_text(self, color=color)
