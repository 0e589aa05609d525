"""What to say of an entry point that a file does not have."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from opsplice.errors import OpspliceError

_LISTED = 8


def listed(names: Collection[str]) -> str:
    """Some names, and whether there are more."""
    shown = [f"'{name}'" for name in list(names)[:_LISTED]]
    return ", ".join(shown) + (", ..." if len(names) > _LISTED else "")


def missing(message: str, wanted: str, names: Collection[str], *, none: str = "it has none") -> OpspliceError:
    """The error for a name that a file lacks, with those that it has. none: what to do where it has no entries."""
    if not names:
        return OpspliceError(message, hint=none)
    nearest = difflib.get_close_matches(wanted, list(names)[:1000], n=1)
    found = f"it has {listed(names)}"
    return OpspliceError(message, hint=f"did you mean '{nearest[0]}'? {found}" if nearest else found)
