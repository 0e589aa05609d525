"""What a long compile of a graph does, on stderr."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from opsplice.reports.render import Status

# In seconds. Of shorter compiles nothing is said.
LONG = 2.0


@contextlib.contextmanager
def watching(name: str, ops: int, wanted: bool | None) -> Iterator[Callable[[Any], None]]:
    """What is called with each event of a compile. Once the compile is long it says so: in a line of its own for each
    event where `wanted` and no terminal listens, in one that changes in a terminal, unless `wanted` is False.
    """
    terminal = sys.stderr.isatty()
    if wanted is False or not (wanted or terminal):
        yield _nothing
        return
    lock = threading.Lock()
    latest: list[Any] = []
    with Status() as status:

        def show() -> None:
            text = f"opsplice: compiling {name}, {ops} ops: {latest[-1]}"
            if terminal:
                status.show(text)
            else:
                print(text, file=sys.stderr, flush=True)

        def first() -> None:
            with lock:
                if latest:
                    show()

        timer = threading.Timer(LONG, first)
        timer.daemon = True
        timer.start()

        def watch(event: Any) -> None:
            with lock:
                latest.append(event)
                if timer.finished.is_set():
                    show()

        try:
            yield watch
        finally:
            timer.cancel()
            with lock:
                latest.clear()


def _nothing(_event: Any) -> None:
    pass
