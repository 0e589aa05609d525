"""Programs that build and check code: how they are run, what they are known by, and what they said.

It must not know which programs there are.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts import temporary_folders

TIME_LIMIT_VARIABLE = "OPSPLICE_BUILD_TIMEOUT"
_SECONDS = 600

_MOST_LINES = 40
_WIDEST = 400


class TimeLimitError(OpspliceError):
    """A program did not end in time."""


def identity_of(command: Sequence[str], *more: str) -> str:
    """Changes whenever a program may have changed: its command, and size and time of the files in it. more: what else
    counts.

    The version would say less (distributions patch without changing it) and cost a process on each compile.
    """
    files = [os.path.realpath(command[0]), *(word for word in command[1:] if os.path.exists(word))]
    stats = map(os.stat, files)
    return "\0".join([*more, *command, *files, *(f"{s.st_size} {s.st_mtime_ns}" for s in stats)])


def package_folder(name: str) -> Path | None:
    """The folder of an installed package of Python's, which may bring programs; it is not imported."""
    spec = importlib.util.find_spec(name)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def release_in(said: str, form: str = r"\d+\.\d+(?:\.\d+)?") -> str:
    """The version in what a program says of itself. form: what it looks like."""
    found = re.search(form, said)
    return found.group() if found else "(unknown version)"


# How clang begins to tell of its own stack where it crashed.
_TRACE = re.compile(r"^(?:PLEASE submit a bug report|Stack dump)", re.MULTILINE)


def shown(said: str, status: int) -> str:
    """What a compiler said when it failed, with an end and no trace of itself; `status` where it said nothing."""
    lines = _TRACE.split(said, maxsplit=1)[0].splitlines() or [f"it ended with status {status} and said nothing"]
    lines = [line if len(line) <= _WIDEST else f"{line[:_WIDEST]} ..." for line in lines]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"... ({len(lines) - _MOST_LINES} more lines)"]
    return "\n".join(lines)


@functools.cache
def output_of(command: tuple[str, ...], *, diagnostics: bool = False) -> str:
    """What a compiler says about itself, asked once per process. diagnostics: also what it writes as those."""
    done = run_program(command)
    if done.returncode != 0:
        raise OpspliceError(f"{shlex.join(command)} failed", hint="install it again", details=done.stderr.strip())
    return done.stdout + done.stderr if diagnostics else done.stdout


def run_program(
    command: Sequence[str], *, text: str = "", seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a compiler in a folder of its own, which goes with all that it leaves there.

    text: for its stdin. seconds: the longest that it may take; None for what the user allows.
    Raises OpspliceError when it cannot be started, TimeLimitError when it does not end in time; it is ended then.
    """
    longest = time_limit() if seconds is None else seconds
    with temporary_folders.folder() as folder:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**_environment(), "TMPDIR": folder},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise OpspliceError(f"cannot run {command[0]}: {error.strerror}", hint="install it again") from error
        try:
            out, err = process.communicate(text, timeout=longest)
        except subprocess.TimeoutExpired:
            raise TimeLimitError(
                f"{Path(command[0]).name} has not ended in {longest:g} seconds, and was stopped",
                hint=f"allow it more time: --build-timeout=SECONDS, or {TIME_LIMIT_VARIABLE}",
                details=shlex.join(command),
            ) from None
        finally:
            if process.poll() is None:
                _end(process)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def must_run(command: Sequence[str], failure: str, hint: Callable[[str], str | None] = lambda _: None) -> None:
    """Runs a compiler; if it fails, raises the error `failure` with its own lines as details. hint: of what it said."""
    done = run_program(command)
    if done.returncode != 0:
        said = "\n".join(line for line in f"{done.stderr}\n{done.stdout}".splitlines() if line.strip())
        raise OpspliceError(failure, hint=hint(said), details=shown(said, done.returncode))


def run_worker(script: Path, job: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    """Runs a script of ours that does a job, given as JSON. What it answers is JSON on its stdout."""
    # -P keeps the script's folder off the child's import path: its module names are not meant for the top level.
    return run_program([sys.executable, "-P", str(script)], text=json.dumps(job))


def time_limit() -> float:
    """The seconds that a compiler may take. Raises OpspliceError when the environment says something else."""
    chosen = os.environ.get(TIME_LIMIT_VARIABLE, "").strip()
    try:
        seconds = float(chosen or _SECONDS)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < threading.TIMEOUT_MAX:
        raise OpspliceError(f"{TIME_LIMIT_VARIABLE} is not a number of seconds: {chosen}", hint="such as 600")
    return seconds


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and those that it has started: GCC and nvcc are but drivers of others."""
    pending, family = [process.pid], []
    while pending:
        family.append(pending.pop())
        # Stopped, it starts no more while its children are listed.
        with contextlib.suppress(OSError):
            os.kill(family[-1], signal.SIGSTOP)
            pending += map(int, Path(f"/proc/{family[-1]}/task/{family[-1]}/children").read_text().split())
    for pid in family:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()


def _environment() -> dict[str, str]:
    """Messages in English, and none of the variables that add folders or flags to a compiler's behind our back."""
    hidden = {"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LANGUAGE", "DEPENDENCIES_OUTPUT"}
    hidden |= {"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"}
    return {name: value for name, value in os.environ.items() if name not in hidden} | {"LC_ALL": "C"}
