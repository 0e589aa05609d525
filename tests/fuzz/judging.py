"""Whether an input is handled: read, or refused with an OpspliceError, in little time and memory."""

from __future__ import annotations

import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from opsplice.common.errors import OpspliceError

# For an input of 64 KiB at most. The processor's time, so that a busy machine fails nothing.
SECONDS = 10
MEBIBYTES = 512
# A person reads an error.
_LONGEST_ERROR = 20_000


@dataclass(frozen=True)
class Outcome:
    """What came of an input. failure: what went wrong and where, the same for inputs that show the same; or ""."""

    refused: bool = False
    failure: str = ""
    trace: str = ""


class TooSlowError(Exception):
    """The reader did not come to an end in time."""


def outcome(read: Callable[[bytes], object], data: bytes, seconds: float = SECONDS) -> Outcome:
    """Give an input to a reader. For the main thread: it sets a signal."""
    before = _peak()
    found = Outcome()
    try:
        with _limited(seconds):
            read(data)
    except OpspliceError as error:
        found = Outcome(refused=True)
        if len(str(error)) > _LONGEST_ERROR:
            failure = f"an error of more than {_LONGEST_ERROR} characters at {_place(error)}"
            return Outcome(failure=failure, trace=str(error)[:2000])
    except Exception as error:
        trace = "".join(traceback.format_exception(error))
        cut = trace if len(trace) < 8000 else f"{trace[:4000]}\n...\n{trace[-4000:]}"
        return Outcome(failure=f"{type(error).__name__} at {_place(error)}", trace=cut)
    grown = _peak() - before
    return Outcome(failure="memory", trace=f"{grown} MiB for {len(data)} bytes") if grown > MEBIBYTES else found


def _place(error: BaseException) -> str:
    """The innermost line of opsplice's own that an error went through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "site-packages" not in frame.filename and "/fuzz/" not in frame.filename]
    frame = (ours or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"


def _peak() -> int:
    """The most memory that this process had so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak >> 20 if sys.platform == "darwin" else peak >> 10


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raises TooSlowError after so much of the processor's time; where native code lets nothing be raised, after it."""

    def stop(*_: object) -> None:
        raise TooSlowError(f"more than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    started = time.process_time()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    if time.process_time() - started > seconds:
        raise TooSlowError(f"more than {seconds} s")
