"""Threads and processes that tests start, and wait for: for a minute, not for ever."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any

# Starts processes from one that has no threads: a fork of the tests' own, where JAX and PyTorch have some, may hang.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["pytest", "opsplice.commands.compile", "opsplice.targets.backends.cpu", "numpy"])


def ended(*started: Thread | BaseProcess, within: float = 60) -> None:
    """Wait until all have ended; fails where one has not after so many seconds, and kills it if it is a process."""
    until = time.monotonic() + within
    for each in started:
        each.join(max(0, until - time.monotonic()))
    late = [each for each in started if each.is_alive()]
    for each in late:
        if isinstance(each, BaseProcess):
            each.kill()
    assert not late, f"{len(late)} of {len(started)} did not end within {within} seconds"


def in_threads(*calls: Callable[[], Any], within: float = 60) -> None:
    """Call each in a thread of its own, at once; threads that do not end do not keep the tests' process from ending."""
    threads = [Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    ended(*threads, within=within)
