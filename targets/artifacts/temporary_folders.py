"""Temporary folders that are gone when their time is over, also where a signal ends the process before."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from typing import NoReturn

# What ends a process by default and leaves it no time; Ctrl-C is Python's own business.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class _EndedError(BaseException):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """The path of a new folder, which goes with all that is in it.

    A signal of SIGNALS that nobody handles ends the process only after that, as far as this is its main thread.
    """
    with _last_wishes(), tempfile.TemporaryDirectory(prefix="opsplice-") as path:
        yield path


@contextlib.contextmanager
def _last_wishes() -> Iterator[None]:
    """Let `finally` clauses run before a signal ends the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [number for number in SIGNALS if signal.getsignal(number) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _end)
    try:
        yield
    except _EndedError as ended:
        if ended.number in taken:
            signal.signal(ended.number, signal.SIG_DFL)
            os.kill(os.getpid(), ended.number)
        raise
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, _frame: object) -> NoReturn:
    raise _EndedError(number)
