"""The three streams of a process, which its starter may have closed, or connected to what takes nothing."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any

from opsplice.common.errors import OpspliceError

_closed: set[int] = set()


class _Stdout(io.FileIO):
    """Standard output that says what is wrong with it once, and then takes everything without a word."""

    failed = False

    def write(self, data: Any) -> int:
        if self.failed:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except OSError as error:
            self.failed = True
            if isinstance(error, BrokenPipeError):
                raise
            reason = "it is closed" if 1 in _closed else (error.strerror or str(error)).lower()
            raise OpspliceError(f"cannot write to stdout: {reason}") from None


class _Stderr(io.FileIO):
    """Standard error, whose failure is no reason to fail."""

    def write(self, data: Any) -> int:
        with contextlib.suppress(OSError):
            return super().write(data)
        return memoryview(data).nbytes


def prepare() -> None:
    """Put something in the place of streams that are closed, and have every name be printable.

    Else the next file that is opened becomes such a stream, and what is printed goes into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            _closed.add(number)
            # To write to a closed stdout is an error; of a closed stderr nobody expects anything.
            os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 (it stays for the process's life)
    out, err = _Stdout(1, "w", closefd=False), _Stderr(2, "w", closefd=False)
    sys.stdout = _text(out, sys.stdout.encoding, os.isatty(1))
    sys.stderr = _text(err, sys.stderr.encoding, True)


def _text(raw: io.FileIO, encoding: str, by_line: bool) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=by_line)


def takes_output() -> bool:
    """Whether stdout has taken what was printed so far."""
    return not getattr(getattr(getattr(sys.stdout, "buffer", None), "raw", None), "failed", False)


def say(text: str) -> None:
    """Print an error to stderr; to stdout if there is no stderr."""
    print(text, file=sys.stdout if 2 in _closed else sys.stderr, flush=True)
