"""Graphs that PyTorch runs itself until their programs are compiled, one after the other, in a child process."""

from __future__ import annotations

import atexit
import queue
import threading
from collections.abc import Callable
from typing import Any

# A compiled graph, called with a list of tensors and numbers, which it empties.
Graph = Callable[[list[Any]], Any]


class Later:
    """A graph that is being compiled: calls of it are PyTorch's own until that is done.

    What went wrong is raised by the next call.
    """

    # PyTorch copies the `__dict__` of what it wraps.
    __slots__ = ("__dict__", "_graph")

    def __init__(self, eager: Callable[..., Any], make: Callable[[], Graph]) -> None:
        """make: compiles the graph, in a thread."""
        self._boxed_call = True
        self._graph = unboxed(eager)
        _start()
        _waiting.put((self, make))

    def __call__(self, arguments: list[Any]) -> Any:
        return self._graph(arguments)

    def finish(self, make: Callable[[], Graph]) -> None:
        """Compile it, and call what comes of that from now on."""
        try:
            self._graph = make()
        except BaseException as error:  # whoever calls the graph is to see it
            self._graph = raising(error)


def wait() -> None:
    """Wait until all graphs that are compiled in the background are."""
    _waiting.join()


def unboxed(eager: Callable[..., Any]) -> Graph:
    """What takes its arguments one by one, as what takes a list, which it empties."""

    def call(arguments: list[Any]) -> Any:
        given = tuple(arguments)
        arguments.clear()
        return eager(*given)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def raising(error: BaseException) -> Graph:
    """What raises an error when it is called, without what led to it: that holds what IREE's compiler has made, which
    must be gone when Python ends."""
    error.__traceback__ = error.__context__ = None

    def call(_arguments: list[Any]) -> Any:
        raise error

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


_waiting: queue.Queue[tuple[Later, Callable[[], Graph]]] = queue.Queue()
_lock = threading.Lock()
_threads: list[threading.Thread] = []


def _start() -> None:
    with _lock:
        if not _threads:
            _threads.append(threading.Thread(target=_work, name="opsplice-compiles", daemon=True))
            _threads[0].start()
            atexit.register(_end)


def _work() -> None:
    while True:
        graph, make = _waiting.get()
        if not _closed.is_set():
            graph.finish(make)
        _waiting.task_done()


_closed = threading.Event()


def _end() -> None:
    """End the compile that is going on, so that nobody waits for it."""
    from opsplice.isolation.isolate import end_all

    _closed.set()
    end_all()
    wait()
