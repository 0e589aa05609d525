"""What checking a library finds. It imports no compiler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """What one step found of a part, a kernel or a pattern. outcome: `skipped` is what cannot be tried here.

    detail: what was built or how far numbers are apart, or what is wrong, maybe in several lines.
    """

    step: Literal["format", "lint", "build", "pattern", "numbers"]
    subject: str
    outcome: Literal["ok", "failed", "skipped"]
    detail: str = ""
