"""What a command answers: one JSON value with --json, else lines for people."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.common.files import check_folder


@dataclass(frozen=True)
class Answer:
    """found: the value for --json. lines: for stdout, notes: for stderr. code: the command's exit code."""

    found: Any
    lines: Iterable[str] = ()
    notes: Iterable[str] = ()
    code: int = 0

    def show(self, as_json: bool) -> int:
        """Print it, and return the exit code."""
        if as_json:
            print(json.dumps(self.found, indent=2))
            return self.code
        for texts, stream in ((self.lines, sys.stdout), (self.notes, sys.stderr)):
            for text in texts:
                print(text, file=stream)
            stream.flush()
        return self.code


def to_stdout(options: argparse.Namespace, what: str) -> bool:
    """Whether -o names stdout. Raises OpspliceError where --json wants it, too, and for a file that cannot be written.

    what: that is written.
    """
    if options.output == "-" and options.json:
        raise OpspliceError("--json and -o - both want stdout", hint=f"write {what} to a file")
    if options.output != "-":
        check_folder(Path(options.output))
    return bool(options.output == "-")
