"""What `verify` says."""

from __future__ import annotations

from opsplice.measuring.cutting.records import Verification
from opsplice.reports.render import several_text
from opsplice.reports.render_verify import heading
from opsplice.reports.report import Report


def test_that_nothing_matched_is_said() -> None:
    assert heading(Verification(Report(), ())).startswith("no rule matched")


def test_places_are_named_once_with_how_often() -> None:
    places = ["m.py:1", "m.py:1", "m.py:2", "m.py:3", "m.py:1", "m.py:4", "m.py:4"]
    assert several_text(places, 3) == "m.py:1 x3, m.py:2, m.py:3 and 2 more"
    assert several_text(places[:1], 3) == "m.py:1"
