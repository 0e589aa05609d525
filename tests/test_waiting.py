"""Tests wait for what they start, but not for ever."""

from __future__ import annotations

import threading
import time

import pytest

from tests.waiting import PROCESSES, ended, in_threads


def test_what_does_not_end_fails_the_test():
    go, done = threading.Event(), []
    with pytest.raises(AssertionError, match="1 of 2 did not end within"):
        in_threads(lambda: done.append(True), go.wait, within=0.1)
    go.set()
    assert done
    sleeper = PROCESSES.Process(target=time.sleep, args=(60,))
    sleeper.start()
    with pytest.raises(AssertionError, match="1 of 1 did not end within"):
        ended(sleeper, within=0.1)
    ended(sleeper)
    assert sleeper.exitcode < 0
