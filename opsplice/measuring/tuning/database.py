"""What was measured, one line of JSON each. Databases of several machines are one after `cat a.jsonl b.jsonl`.

Of two lines with one key the later one counts.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from opsplice.common import cache
from opsplice.common.errors import OpspliceError, counted
from opsplice.measuring.tuning.measurements import Record

_MAX_BYTES = 1 << 30


def default_path() -> Path:
    """Where measurements are kept unless the user says otherwise: in the cache's folder."""
    return cache.folder() / "tuned.jsonl"


class Database:
    """The records of a file, which need not be there yet. ignored: what is to be said of lines that are not records."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[str, Record] = {}
        self.ignored = ""
        damaged = []
        for number, line in enumerate(self._text().splitlines(), 1):
            if not line.strip():
                continue
            try:
                record = Record.from_json(json.loads(line))
            except (ValueError, TypeError):
                damaged.append(number)
                continue
            self.records[record.key] = record
        if damaged:
            lines = counted(len(damaged), "line")
            self.ignored = f"{path}: {lines} ignored that are not records, the first is line {damaged[0]}"

    def add(self, record: Record) -> None:
        """Note it in the file at once, so that it is there after an interruption."""
        self.records[record.key] = record
        line = json.dumps(record.to_json(), sort_keys=True) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                size = os.fstat(file).st_size
                is_cut = size > 0 and os.pread(file, 1, size - 1) != b"\n"  # somebody died in the middle of a line
                os.write(file, ("\n" * is_cut + line).encode())
            finally:
                os.close(file)
        except OSError as error:
            raise OpspliceError(f"{self.path} cannot be written: {error.strerror}", hint="--database=FILE") from None

    def _text(self) -> str:
        try:
            if self.path.stat().st_size > _MAX_BYTES:
                raise OpspliceError(f"{self.path} is larger than any database of measurements")
            return self.path.read_text("utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise OpspliceError(f"{self.path} cannot be read: {error.strerror}", hint="--database=FILE") from None
