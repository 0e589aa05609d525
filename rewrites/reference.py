"""A captured computation as plain C loops: right, not fast."""
from __future__ import annotations
from dataclasses import dataclass
@dataclass(frozen=True)
class Reference:
    text: str
    complete: bool
    bitcode: bool
def reference(captured, names, options):
    return Reference("", False, False)
