"""Runs other people's tests through opsplice: `make conformance`, or `python -m scripts.conformance torch onnx`.

A suite is a module with

    TITLE, ABOUT    the heading and the paragraph for docs/conformance.md
    PACKAGES        the distributions whose versions the table names
    cases()         what is tried, always in the same order
    prepare(cases, specs)   may be left out: called before a batch of cases runs, to compile several at once. A crash in
                    it costs nothing: the batch then runs without it.

Each case runs twice: on IREE alone (no specs), and with the rules of `rules.splice`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Specs = Sequence[str]
Word = Literal["passes", "wrong", "not compiled", "failed", "crashed", "too long", "skipped", "as plain"]


@dataclass(frozen=True)
class Case:
    """One thing that is tried.

    run: takes the specs, and returns how many places they replaced. It raises WrongError where results differ from the
    framework's, SkippedError where the case does not apply, OpspliceError where the program does not compile, and
    UnchangedError where the specs match nothing, so that the program is the one without them.
    """

    name: str
    run: Callable[[Specs], int]


@dataclass(frozen=True)
class Outcome:
    """How a case ended. reason: the line that says why it does not pass. replaced: the number of replacements.

    failed: by an exception that no user should see; crashed: with the process; as plain: as the case did without specs.
    """

    word: Word
    reason: str = ""
    replaced: int = 0


class WrongError(Exception):
    """The results are not the framework's."""


class SkippedError(Exception):
    """The case does not apply, for the reason given."""


class UnchangedError(Exception):
    """No rule matches, so the program would be the one without specs."""


def check_close(found: Any, wanted: Any, relative: float, absolute: float) -> None:
    """Raise WrongError unless arrays agree in shape, dtype and values; NaNs agree with NaNs."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        raise WrongError(f"{found.dtype}{list(found.shape)} instead of {wanted.dtype}{list(wanted.shape)}")
    if found.dtype == bool or not np.issubdtype(found.dtype, np.inexact):
        bad = found != wanted
    else:
        # Halves of ml_dtypes are no `inexact` of numpy's: callers widen them.
        bad = ~np.isclose(found, wanted, relative, absolute, equal_nan=True)
    if not bad.any():
        return
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    raise WrongError(f"{bad.sum()} of {bad.size} elements differ, such as {found[at]} instead of {wanted[at]}")
