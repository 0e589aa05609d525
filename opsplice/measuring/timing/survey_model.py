"""What a survey found, as plain data. No compiler here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Item:
    """A computation. places: where it stands; is_pattern: whether a pattern holds for it, or it is an op of that name.

    operations, moved: of one place, on numbers and in bytes of inputs and results; 0 where sizes are open.
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
class Survey:
    """Computations, those that take longest first. note: why there are no times, "" if there are."""

    items: tuple[Item, ...]
    note: str = ""

    @property
    def seconds(self) -> float:
        """The sum of all."""
        return sum(item.total for item in self.items)

    def share(self, item: Item) -> float:
        """The part of the time that an item takes, of the operations where there are no times."""
        if self.seconds:
            return item.total / self.seconds
        operations = sum(each.operations * len(each.places) for each in self.items)
        return item.operations * len(item.places) / operations if operations else 0.0

    def to_json(self) -> dict[str, Any]:
        """As `opsplice survey --json` prints it."""
        items = [{**dataclasses.asdict(i), "share": self.share(i), "state": i.state} for i in self.items]
        return {"computations": items, "seconds": self.seconds, "note": self.note}

    def __str__(self) -> str:
        from opsplice.reports.render_survey import survey_text

        return survey_text(self)

    def _repr_html_(self) -> str:
        from opsplice.reports.render_survey import survey_html

        return survey_html(self)
