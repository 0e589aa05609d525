"""What the tests of the matchers search, and for what: recorded by a run of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Tests that take long, and those that make programs of their own.
_LEFT_OUT = "not random and not capture and not explain and not frontends and not library and not test_traps"
# A program longer than this is one that tests how long things take.
_LONG = 15_000


@dataclass(frozen=True)
class Recorded:
    """A program, a spec, and the pattern that is searched for."""

    text: str
    spec: str
    pattern: str


def recording(path: Path) -> subprocess.Popen[bytes]:
    """The tests as they run, writing down what they ask."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/matchers", "-k", _LEFT_OUT]
    environment = {**os.environ, "OPSPLICE_PAIRS": str(path)}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)


def recorded(path: Path) -> Iterator[Recorded]:
    """What was written down, each once."""
    for line in dict.fromkeys(path.read_text().splitlines()):
        found = Recorded(*json.loads(line))
        if len(found.text) < _LONG:
            yield found
