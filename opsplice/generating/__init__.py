"""For authors of generators, the Python files of clauses `as generated`: what they are called with, and return."""

from __future__ import annotations

from opsplice.rewrites.plan.generation import Code, Request

__all__ = ["Code", "Request"]
