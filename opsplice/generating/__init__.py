"""For authors of generators, the Python files of clauses `as generated`: what they are called with."""

from __future__ import annotations

from opsplice.rewrites.plan.generation import Request

__all__ = ["Request"]
