"""How far a transfer is: a bar on a terminal, one line elsewhere, both on stderr."""

from __future__ import annotations

import shutil
import threading
import time
from typing import TextIO

_PAUSE = 0.1
_BAR = 30


class Meter:
    """Shows how many of the expected bytes have come; for several threads, and for one `with`.

    what: such as `pulling acme/kernels 1.4`. stream: None shows nothing.
    """

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what, self._stream = what, stream
        self._done = self._total = 0
        self._shown = 0.0
        self._lock = threading.Lock()
        self.stopped = False

    def expect(self, count: int) -> None:
        """So many bytes more are to come."""
        self._total += count
        if count and self._stream and not self._stream.isatty():
            print(f"{self._what}: {size(count)}", file=self._stream, flush=True)

    def stop(self) -> None:
        """Make all threads that report here end."""
        self.stopped = True

    def __call__(self, count: int) -> None:
        if self.stopped:
            raise StoppedError
        with self._lock:
            self._done += count
            now = time.monotonic()
            if self._stream and self._stream.isatty() and now > self._shown + _PAUSE:
                self._shown = now
                self._draw(self._stream)

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._shown and self._stream:
            print("\r\x1b[K", end="", file=self._stream, flush=True)

    def _draw(self, stream: TextIO) -> None:
        columns = shutil.get_terminal_size().columns - 1
        line = f"{self._what}  {size(self._done)} of {size(self._total)}"
        if (width := min(_BAR, columns - len(line) - 4)) > 0 and self._total:
            line += f"  [{('#' * round(min(1.0, self._done / self._total) * width)).ljust(width, '.')}]"
        print(f"\r\x1b[K{line[:columns]}", end="", file=stream, flush=True)


class StoppedError(Exception):
    """Ends a thread whose work is not wanted any more."""


def size(count: int) -> str:
    """Bytes as people read them."""
    for unit, step in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= step:
            return f"{count / step:.1f} {unit}"
    return f"{count} bytes"
