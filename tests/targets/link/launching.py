"""Calls of dispatches, to be compared with what files hold."""

from __future__ import annotations

from collections.abc import Sequence

from opsplice.targets.formats import entries
from opsplice.targets.formats.entries import Entry, Limits, Threads


def launch(
    entry: Entry, buffers: Sequence[bool] | int, words: int, workgroup: Threads | None, limits: Limits | None = None
) -> Threads:
    """Check a call with so many buffers and words, whose types fit."""
    passed = (True,) * buffers if isinstance(buffers, int) else tuple(buffers)
    return entries.check(entries.Launch("k", passed, (("n", "f32"),) * words, workgroup), entry, limits or Limits())
