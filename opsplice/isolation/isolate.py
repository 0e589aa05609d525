"""Calls a function in a child process, so that a crash of native code there is an error here.

It carries results, OpspliceErrors and progress events over a pipe, and knows nothing of what it runs.

The child leads a process group of its own and has a private temporary folder. Whatever ends the call (the result, a
crash, Ctrl-C, SIGTERM), the group is killed and the folder removed. On Linux the child also dies with its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeVar, cast

from opsplice.common.errors import OpspliceError, failure_outside
from opsplice.isolation.noise import adopt_stderr
from opsplice.targets.artifacts import temporary_folders

Result = TypeVar("Result")

# A message on the pipe: its kind, the length of the pickle that follows, the pickle.
_HEADER = struct.Struct("<cQ")
_PROGRESS, _RESULT, _ERROR, _BUG = b"p", b"r", b"e", b"b"

_PR_SET_PDEATHSIG = 1  # linux/prctl.h

# A spawned child finds the modules that its parent finds, then serves one call.
_SPAWNED = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); " + (
    "from opsplice.isolation.isolate import _serve_spawned; _serve_spawned(*map(int, sys.argv[2:]))"
)

# The children of calls that are going on, and those of them that `end_all` has ended.
_children: set[int] = set()
_ended: set[int] = set()

Method = Literal["fork", "spawn"]

# What makes threads that do not outlive a fork.
_THREADED = {"iree.compiler", "iree.runtime", "jax", "torch"}


class ChildCrashError(OpspliceError):
    """The child ended without a result.

    signal: the signal that ended it, or None when it exited by itself with `exit_code`.
    last_event: what it reported last, or None.
    output: what it wrote to stderr, if that was captured.
    """

    signal: signal.Signals | None = None
    exit_code: int | None = None
    last_event: Any = None
    output: str = ""

    @property
    def end(self) -> str:
        """How it ended, in a word or two: `SIGSEGV`, `status 1`."""
        return self.signal.name if self.signal else f"status {self.exit_code}"


@dataclass(frozen=True)
class _Job:
    """What the child needs: picklable for spawn, inherited by fork."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    temporary_folder: str
    stderr_captured: bool


@dataclass(frozen=True)
class _Child:
    pid: int
    pipe: int


def call_isolated(
    function: Callable[..., Result],
    args: tuple[Any, ...] = (),
    *,
    on_progress: Callable[[Any], None] | None = None,
    method: Method = "fork",
    capture_stderr: bool = True,
) -> Result:
    """Returns function(report, *args), called in a child process.

    `report` sends an event (any picklable value) to on_progress here. The child's stderr is captured and shown only
    after a crash, or left alone with capture_stderr=False; its stdin is empty.

    "fork" starts in milliseconds, but only a process without other threads and with no compiler or device loaded may
    fork. "spawn" starts a fresh Python: function, args and results must pickle, and function must be importable
    (`__main__` is not run again).

    Raises the OpspliceError or KeyboardInterrupt that the function raised, ChildCrashError when the child died, and
    RuntimeError with the child's traceback for any other exception: that is a bug.
    """
    with temporary_folders.folder() as folder, tempfile.TemporaryFile() as stderr:
        job = _Job(function, args, folder, capture_stderr)
        child = (_fork if method == "fork" else _spawn)(job, stderr.fileno())
        last_event = None
        _children.add(child.pid)
        try:
            for kind, value in _messages(child.pipe):
                if kind == _PROGRESS:
                    last_event = value
                    if on_progress is not None:
                        on_progress(value)
                elif kind == _RESULT:
                    return cast("Result", value)
                elif kind == _ERROR:
                    raise value
                else:
                    raise RuntimeError(f"the isolated call failed:\n{value}")
            status = _wait(child.pid)
            if child.pid in _ended:
                raise KeyboardInterrupt
        finally:
            _children.discard(child.pid)
            _ended.discard(child.pid)
            os.close(child.pipe)
            _kill_group(child.pid)
        stderr.seek(0)
        raise _crash(status, last_event, stderr.read().decode("utf-8", "replace"))


def call_apart(
    function: Callable[..., Result], /, *args: Any, on_progress: Callable[[Any], None], **keywords: Any
) -> Result:
    """Returns function(*args, on_progress=..., **keywords), which makes isolated calls of its own.

    Where this process may not fork, it is called in a child that may, so that only one child starts slowly. Function,
    arguments and result must then pickle. Raises what the function raises, and what `call_isolated` raises.
    """
    if method() == "fork":
        return function(*args, on_progress=on_progress, **keywords)
    found: Result = call_isolated(_reporting, (function, args, keywords), on_progress=on_progress, method="spawn")
    return found


def _reporting(
    report: Callable[[Any], None], function: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> Any:
    return function(*args, on_progress=report, **keywords)


def end_all() -> None:
    """End the calls that other threads have going on: they raise KeyboardInterrupt."""
    for pid in tuple(_children):
        _ended.add(pid)
        _kill_group(pid)


def method() -> Method:
    """How to start a child: a process with threads of IREE or of a framework may not fork. Those of numpy may."""
    if not _THREADED & sys.modules.keys():
        return "fork"
    try:
        return "fork" if len(os.listdir("/proc/self/task")) == 1 else "spawn"
    except OSError:
        return "spawn"


def _fork(job: _Job, stderr: int) -> _Child:
    # Or the child would write the same text again.
    _flush_streams()
    reader, writer = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            os.setpgid(0, 0)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            if job.stderr_captured:
                os.dup2(stderr, 2)
            _serve(job, writer, parent)
        finally:
            os._exit(1)
    with contextlib.suppress(OSError):
        # The child does the same; whoever comes first makes the group before anyone could need it.
        os.setpgid(pid, pid)
    os.close(writer)
    return _Child(pid, reader)


def _spawn(job: _Job, stderr: int) -> _Child:
    pickled = pickle.dumps(job)
    reader, writer = os.pipe()
    # A file, not a pipe: nobody has to write while the child reads. It has no name, so nobody else can write to it.
    with tempfile.TemporaryFile() as job_file:
        job_file.write(pickled)
        job_file.seek(0)
        command = [sys.executable, "-P", "-c", _SPAWNED, json.dumps(sys.path)]
        numbers = [str(number) for number in (job_file.fileno(), writer, os.getpid())]
        process = subprocess.Popen(
            command + numbers,
            stdin=subprocess.DEVNULL,
            stderr=stderr if job.stderr_captured else None,
            pass_fds=(job_file.fileno(), writer),
            process_group=0,
        )
    os.close(writer)
    # `_wait` reaps the child; Popen need not warn that nobody waited for it.
    process.returncode = 0
    return _Child(process.pid, reader)


def _serve_spawned(job_file: int, writer: int, parent: int) -> NoReturn:
    os.set_inheritable(writer, False)
    with os.fdopen(job_file, "rb") as file:
        job = pickle.load(file)
    _serve(job, writer, parent)


def _serve(job: _Job, writer: int, parent: int) -> NoReturn:
    """The child's whole life after its start. Ends without Python's or the compiler's shutdown: both can crash."""
    _die_with(parent)
    for number in temporary_folders.SIGNALS:
        signal.signal(number, signal.SIG_DFL)  # the folder is the parent's
    os.environ["TMPDIR"] = tempfile.tempdir = job.temporary_folder
    if job.stderr_captured:
        adopt_stderr()

    def report(event: Any) -> None:
        _send(writer, _PROGRESS, event)

    try:
        result = job.function(report, *job.args)
        # The parent kills the child as soon as it has the result.
        _flush_streams()
        _send(writer, _RESULT, result)
    except OpspliceError as error:
        _flush_streams()
        _send(writer, _ERROR, error)
    except KeyboardInterrupt:  # no terminal's, which this process does not have, but raised by what was called
        _flush_streams()
        _send(writer, _ERROR, KeyboardInterrupt())
    except BaseException as error:
        outside = failure_outside(error)
        text = "" if outside else traceback.format_exc()
        _flush_streams()
        _send(writer, _ERROR if outside else _BUG, outside or text)
    os._exit(0)


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _die_with(parent: int) -> None:
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It died before the call above.
        os._exit(1)


def _send(writer: int, kind: bytes, value: Any) -> None:
    body = pickle.dumps(value)
    view = memoryview(_HEADER.pack(kind, len(body)) + body)
    while view:
        view = view[os.write(writer, view) :]


def _messages(reader: int) -> Iterator[tuple[bytes, Any]]:
    """The child's messages until it closes the pipe; one cut off in the middle is none."""
    with os.fdopen(reader, "rb", closefd=False) as stream:
        while len(header := stream.read(_HEADER.size)) == _HEADER.size:
            kind, size = _HEADER.unpack(header)
            body = stream.read(size)
            if len(body) < size:
                return
            yield kind, pickle.loads(body)


def _wait(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _crash(status: int, last_event: Any, output: str) -> ChildCrashError:
    if status < 0:
        number = signal.Signals(-status)
        error = ChildCrashError(f"the isolated process died of {number.name}", details=output)
        error.signal = number
    else:
        error = ChildCrashError(f"the isolated process exited with status {status}, without a result", details=output)
        error.exit_code = status
    error.last_event = last_event
    error.output = output
    return error
