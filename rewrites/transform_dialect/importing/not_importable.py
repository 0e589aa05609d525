"""What of a transform spec cannot be said in our language."""

from __future__ import annotations

import re
from typing import Any

_PLACE = re.compile(r'loc\("(.*)":(\d+):(\d+)\)')


class UnreadableError(Exception):
    """Raised inside the importer: an op of the spec cannot be read. The message names it with its place."""

    def __init__(self, op: Any, why: str) -> None:
        super().__init__(f"{place(op)}: {op.name}: {why}")


def place(op: Any) -> str:
    """Where an op stands in its file: `file:line:column`."""
    found = _PLACE.search(str(op.location))
    return f"{found[1]}:{found[2]}:{found[3]}" if found else str(op.location)
