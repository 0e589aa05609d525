"""What `verify` says."""

from __future__ import annotations

from opsplice.measuring.cutting.records import Verification
from opsplice.reports.render_verify import heading
from opsplice.reports.report import Report


def test_that_nothing_matched_is_said() -> None:
    assert heading(Verification(Report(), ())).startswith("no rule matched")
