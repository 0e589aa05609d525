"""Payloads and patterns as short text, and what a search makes of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from opsplice.matchers.explain.failure_words import sentence
from opsplice.matchers.find import engine
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.matchers.search.matches import Found, Match
from opsplice.matchers.terms.terms import DimSize
from opsplice.spec_lang.loading.loader import load_text


@dataclass(frozen=True)
class Outcome:
    """What was found, in the payload's own names."""

    found: Found
    module: Any

    @property
    def count(self) -> int:
        return len(self.found.matches)

    @property
    def only(self) -> Match:
        assert self.count == 1, f"{self.count} matches, near misses: {self.reasons}"
        return self.found.matches[0]

    @property
    def inputs(self) -> dict[str, Any]:
        """For each parameter the SSA name that it is bound to, or its constant."""
        bound = self.only.inputs.items()
        return {n: b.constant if b.value is None else b.value.get_name() for n, b in bound}

    @property
    def dims(self) -> dict[str, Any]:
        """Each dim as a number, or as `%tensor#axis` when it is dynamic."""
        return {name: _shown(size) for name, size in self.only.dims.items()}

    @property
    def roots(self) -> list[str]:
        return [match.roots[0].get_name() for match in self.found.matches]

    @property
    def reasons(self) -> list[str]:
        return [sentence(m) for m in self.found.near_misses]


Finder = Callable[[str, str], Outcome]


@pytest.fixture(scope="session")
def session() -> Any:
    from iree.compiler.api import Session

    return Session()


@pytest.fixture(scope="module")
def unregistered(session: Any) -> Iterator[None]:
    """With ops of dialects that nobody knows."""
    before = session.context.allow_unregistered_dialects
    session.context.allow_unregistered_dialects = True
    yield
    session.context.allow_unregistered_dialects = before


@pytest.fixture(scope="session")
def find(session: Any) -> Finder:
    """`find(payload, spec)`: what the spec's last pattern finds in a module, or in one function's text.

    All that is asked is written to the file OPSPLICE_PAIRS, for `make soak` and `make mutation` to ask again.
    """
    from iree.compiler import ir

    def run(payload: str, spec: str) -> Outcome:
        module = ir.Module.parse(payload, context=session.context)
        before = str(module)
        loaded = load_text(spec)
        pattern = list(loaded.patterns.values())[-1]
        found = engine.find(module, compile_pattern(loaded, pattern.name))
        assert str(module) == before, "a search changes nothing"
        if "OPSPLICE_PAIRS" in os.environ:
            with Path(os.environ["OPSPLICE_PAIRS"]).open("a") as file:
                file.write(json.dumps([before, spec, pattern.name]) + "\n")
        return Outcome(found, module)

    return run


def _shown(size: Any) -> Any:
    if isinstance(size, tuple):
        return tuple(map(_shown, size))
    return f"{size.value.get_name()}#{size.axis}" if isinstance(size, DimSize) else size
