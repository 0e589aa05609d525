"""Catches what native code writes to file descriptor 2.

IREE reports most things through callbacks, but its linkers and LLVM's fatal errors write to stderr on their own. This
module knows nothing of compilers.

Redirecting a file descriptor is process-wide. Captures in several threads may overlap: they then share one file, and
each sees what any of them wrote while it was open, along with what other Python threads printed to stderr meanwhile.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

_STDERR = 2


@dataclass
class Noise:
    """What was written during one capture; filled in when the capture ends."""

    text: str = ""


@dataclass
class _Redirection:
    """The state that overlapping captures share, guarded by `_lock`."""

    depth: int = 0
    file: IO[bytes] | None = None
    original: int = -1
    adopted: bool = False


_lock = threading.Lock()
_state = _Redirection()


def adopt_stderr() -> None:
    """Declares that fd 2 is a readable file of this process's own, as in an isolated child.

    Captures then read that file in place, so that a crashing process leaves its last words where its parent finds them.
    """
    _state.adopted = True


@contextmanager
def captured(enabled: bool = True) -> Iterator[Noise]:
    """Collects what is written to fd 2 in the body. With enabled=False it goes to stderr as ever."""
    noise = Noise()
    if not enabled:
        yield noise
        return
    start = _begin()
    try:
        yield noise
    finally:
        noise.text = _end(start)


def _begin() -> int:
    with _lock:
        if _state.depth == 0 and not _state.adopted:
            _redirect()
        _state.depth += 1
        return os.fstat(_STDERR).st_size


def _end(start: int) -> str:
    with _lock:
        size = os.fstat(_STDERR).st_size - start
        text = os.pread(_STDERR, size, start).decode("utf-8", "replace")
        _state.depth -= 1
        if _state.depth == 0 and not _state.adopted:
            _restore()
        return text


def _redirect() -> None:
    _flush_python()
    _state.file = tempfile.TemporaryFile()  # noqa: SIM115 (closed in _restore)
    _state.original = os.dup(_STDERR)
    os.dup2(_state.file.fileno(), _STDERR)


def _restore() -> None:
    _flush_python()
    os.dup2(_state.original, _STDERR)
    os.close(_state.original)
    assert _state.file is not None
    _state.file.close()
    _state.file = None


def _flush_python() -> None:
    # Text that Python still buffers belongs to whichever stderr was current when it was printed.
    if sys.stderr is not None:
        sys.stderr.flush()
