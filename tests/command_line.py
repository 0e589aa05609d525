"""The command line for tests: `opsplice(...)` is a process of its own, as for a user, forked from one that is ready.

A fresh Python takes half a second of processor time to load what commands need. Here one process (a zygote) loads it
once and forks for each call, before any thread exists. What only a fresh process shows (start-up, what is imported) is
tested with `sys.executable`.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, NoReturn

ROOT = Path(__file__).parent.parent


def opsplice(
    *arguments: object,
    cwd: str | os.PathLike[str] = ".",
    env: dict[str, str] | None = None,
    check: bool = False,
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run `opsplice` with arguments, as `subprocess.run` does with text captured. env: what is added to this one's.

    Raises CalledProcessError with check for a code other than 0, and TimeoutExpired.
    """
    words = [str(argument) for argument in arguments]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        request = {"arguments": words, "cwd": os.path.abspath(cwd), "env": {**os.environ, **(env or {})}}
        code = _zygote().call(request | {"pid": os.getpid(), "streams": [out.fileno(), err.fileno()]}, timeout)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode())
    done = subprocess.CompletedProcess(["opsplice", *words], code, *texts)
    if check:
        done.check_returncode()
    return done


class _Zygote:
    """The ready process, and its side of the pipes."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.command_line"]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # threads would not survive a fork
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env=environment)
        atexit.register(self.process.kill)

    def call(self, request: dict[str, object], timeout: float) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        child = int(self.process.stdout.readline())
        expired = threading.Event()

        def stop() -> None:
            expired.set()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)

        timer = threading.Timer(timeout, stop)
        timer.start()
        code = int(self.process.stdout.readline())
        timer.cancel()
        if expired.is_set():
            raise subprocess.TimeoutExpired(str(request["arguments"]), timeout)
        return code


_started: list[_Zygote] = []


def _zygote() -> _Zygote:
    if not _started:
        _started.append(_Zygote())
    return _started[0]


# ---- in the zygote ---------------------------------------------------------------------------------------------------


def _serve() -> None:
    """Fork a child for each request of stdin; print its number, then its exit code."""
    from importlib import import_module

    for name in ("capturing", "compilation", "explaining", "spec_export", "spec_import"):
        import_module(f"opsplice.compiling.{name}")
    for name in ("loaded_program", "value_text"):
        import_module(f"opsplice.runtime.{name}")
    for path in (ROOT / "opsplice" / "commands").rglob("*.py"):
        import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    import opsplice.cli
    from opsplice.spec_lang.loading.loader import load_text

    load_text("pattern p(x: tensor<f32>) { negf(x) }")  # the grammar is made once
    assert threading.active_count() == 1
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads must not fork"
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _run(opsplice.cli.main, json.loads(line))
        _say(child)
        _say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _say(number: int) -> None:
    print(number, flush=True)


def _run(main: object, request: dict[str, object]) -> NoReturn:
    code: object = 1
    try:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, stream in enumerate(request["streams"], 1):
            os.dup2(os.open(f"/proc/{request['pid']}/fd/{stream}", os.O_WRONLY), number)
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        tempfile.tempdir = None
        sys.argv = ["opsplice", *request["arguments"]]
        try:
            code = main()
        except SystemExit as ended:
            code = ended.code
        except BaseException:
            import traceback

            traceback.print_exc()
        _close(sys.stdout, sys.stderr)
    finally:
        os._exit(code if isinstance(code, int) else int(code is not None))


def _close(*streams: IO[str]) -> None:
    for stream in streams:
        stream.flush()


if __name__ == "__main__":
    _serve()
