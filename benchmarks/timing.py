"""What tables of figures share. The timing itself is the package's."""

from __future__ import annotations

from opsplice.measuring.timing.paired import Paired, paired

__all__ = ["Paired", "header", "paired"]


def header(title: str, ours: str, theirs: str) -> str:
    return f"\n{title}\n{'':46}{ours:>12}{theirs:>12}   ratio (10th to 90th percentile)"
