"""A suite for the tests of the frame: its cases end in every way that there is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from opsplice.common.errors import OpspliceError
from scripts.conformance import Case, SkippedError, Specs, UnchangedError, WrongError, check_close

TITLE = "Every end"
ABOUT = "No framework at all."
PACKAGES = ("numpy",)

_prepared: list[str] = []


def prepare(cases: Sequence[Case], _specs: Specs) -> None:
    if any(case.name == "crash while preparing" for case in cases):
        os.abort()
    if any(case.name == "bug while preparing" for case in cases):
        raise IndexError
    _prepared.extend(case.name for case in cases)


def cases() -> list[Case]:
    def raises(error: Exception) -> Callable[[Specs], int]:
        def run(_specs: Specs) -> int:
            raise error

        return run

    def pass_if_prepared(specs: Specs) -> int:
        if "prepared" not in _prepared:
            raise WrongError("nothing prepared it")
        return len(specs)

    def die(_specs: Specs) -> int:
        os.abort()

    def sleep(_specs: Specs) -> int:
        time.sleep(60)
        return 0

    def wrong_with_rules(specs: Specs) -> int:
        check_close([1.0, 2.0, float("nan")], [1.0, 2.5 if specs else 2.0, float("nan")], 1e-6, 0)
        return 0

    illegal = OpspliceError(
        "m does not compile", details="m:1:2: error: failed to legalize operation 'torch.aten.x' .."
    )
    return [
        Case("passes", lambda specs: 3 * len(specs)),
        Case("prepared", pass_if_prepared),
        Case("unchanged", raises(UnchangedError())),
        Case("wrong", raises(WrongError("2 instead of 1"))),
        Case("illegal", raises(illegal)),
        Case("bug", raises(KeyError("x"))),
        Case("dies", die),
        Case("skipped", raises(SkippedError("not today"))),
        Case("sleeps", sleep),
        Case("wrong with rules", wrong_with_rules),
        Case("crash while preparing", lambda _: 0),
        Case("bug while preparing", lambda _: 0),
    ]
