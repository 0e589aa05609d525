"""A process (a zygote) that has loaded what commands and isolated calls need, and forks for each of them.

A fresh Python takes half a second of processor time to load it, and one with PyTorch three. The zygote loads it once,
before any thread exists. What only a fresh process shows (start-up, what is imported) is tested with `sys.executable`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, NoReturn

from opsplice.isolation import isolate

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parent.parent
_MOST = 1 << 20  # bytes of a request
# What takes seconds to import: calls that are about PyTorch have a zygote of their own, with this in it.
TORCH = "opsplice.torch.importing.pt2"
# What starts a Python for each call.
SPAWN, WAIT = isolate._spawn, isolate._wait


class Zygote:
    """The ready process, seen from the tests'. modules: what it loads, besides what commands need."""

    def __init__(self, modules: Iterable[str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._owner = os.getpid()
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # threads would not survive a fork
        command = [sys.executable, "-m", "tests.zygote", str(theirs.fileno()), *modules]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, cwd=ROOT, env=environment, pass_fds=[theirs.fileno()]
        )
        theirs.close()
        atexit.register(self._process.kill)

    @property
    def is_ours(self) -> bool:
        """Whether this process started it: a fork of the tests' process has its socket, too."""
        return self._owner == os.getpid()

    def run(self, arguments: list[str], cwd: str, env: dict[str, str], streams: list[int], timeout: float) -> int:
        """The exit code of `opsplice` with arguments. streams: descriptors for stdout and stderr.

        Raises TimeoutExpired.
        """
        pid = self._ask(streams, arguments=arguments, cwd=cwd, env=env)
        expired = threading.Event()

        def stop() -> None:
            expired.set()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

        timer = threading.Timer(timeout, stop)
        timer.start()
        code = self.wait(pid)
        timer.cancel()
        if expired.is_set():
            raise subprocess.TimeoutExpired(str(arguments), timeout)
        return code

    def serve(self, job: int, writer: int, stderr: int) -> int:
        """The number of a process that makes an isolated call as a spawned one does: descriptors as for it."""
        return self._ask([1, stderr, job, writer], cwd=os.getcwd(), env=dict(os.environ), path=sys.path)

    def wait(self, pid: int) -> int:
        """The exit code of a process that it forked; negative: the signal that ended it."""
        return self._ask([], wait=pid)

    def _ask(self, descriptors: list[int], **request: object) -> int:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
            answer = self._socket.recv(_MOST)
        assert answer, "the zygote has ended"
        return int(answer)


@functools.cache
def zygote(*modules: str) -> Zygote:
    """The one with modules, started once."""
    return Zygote(modules)


def fork_isolated_calls(patch: pytest.MonkeyPatch) -> None:
    """Have zygotes fork for isolated calls, which this process, with its threads, would spawn a Python for."""
    forked: dict[int, Zygote] = {}

    def serve(job: Any, stderr: int) -> Any:
        pickled = pickle.dumps(job)
        server = zygote(*[TORCH] * (b"torch" in pickled and find_spec("torch") is not None))
        if not server.is_ours:
            return SPAWN(job, stderr)
        reader, writer = os.pipe()
        with tempfile.TemporaryFile() as file:
            file.write(pickled)
            file.seek(0)
            pid = server.serve(file.fileno(), writer, stderr if job.stderr_captured else 2)
        os.close(writer)
        forked[pid] = server
        return isolate._Child(pid, reader)

    def ended(pid: int) -> int:
        return forked.pop(pid).wait(pid) if pid in forked else WAIT(pid)

    patch.setattr(isolate, "_spawn", serve)
    patch.setattr(isolate, "_wait", ended)


# ---- in the zygote ---------------------------------------------------------------------------------------------------


def _main(descriptor: str, *modules: str) -> None:
    """Answer each request: the number of a child, or how one ended."""
    for name in ("capturing", "compilation", "explaining", "spec_export", "spec_import"):
        import_module(f"opsplice.compiling.{name}")
    for name in ("loaded_program", "value_text"):
        import_module(f"opsplice.runtime.{name}")
    for path in (ROOT / "opsplice" / "commands").rglob("*.py"):
        import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    import opsplice.cli
    from opsplice.spec_lang.loading.loader import load_text

    load_text("pattern p(x: tensor<f32>) { negf(x) }")  # the grammar is made once
    for name in modules:
        import_module(name)
    kept_phases = _compile_as_tests_do()
    assert threading.active_count() == 1
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads must not fork"
    asked = socket.socket(fileno=int(descriptor))
    ended: dict[int, int] = {}
    while True:
        data, descriptors, *_ = socket.recv_fds(asked, _MOST, 4)
        if not data:
            return
        request = json.loads(data)
        while _children_ended(ended, os.WNOHANG):
            pass
        if "wait" in request:
            while request["wait"] not in ended:
                _children_ended(ended, 0)
            answer = ended.pop(request["wait"])
        elif (answer := os.fork()) == 0:
            asked.close()
            kept_phases.FOLDER = Path(found) if (found := request["env"].get(kept_phases.VARIABLE)) else None
            _become(request, descriptors, opsplice.cli.main)
        else:
            ended.pop(answer, None)  # of an earlier process with this number, for which nobody waited
            with contextlib.suppress(ProcessLookupError, PermissionError):  # the child does the same
                os.setpgid(answer, answer)
        for each in descriptors:
            os.close(each)
        asked.send(str(answer).encode())


def _compile_as_tests_do() -> ModuleType:
    """Compile in one thread, and take what phases made from where the tests' process does; returns what keeps them."""
    import pytest

    from tests import kept, kept_phases

    patch = pytest.MonkeyPatch()
    kept.compile_in_one_thread(patch)
    kept_phases.take_from_folder(patch)
    return kept_phases


def _children_ended(ended: dict[int, int], options: int) -> bool:
    """Note a child's exit code, if one has ended."""
    try:
        pid, status = os.waitpid(-1, options)
    except ChildProcessError:
        return False
    if pid:
        ended[pid] = os.waitstatus_to_exitcode(status)
    return pid != 0


def _become(request: dict[str, Any], descriptors: list[int], main: Any) -> NoReturn:
    code: object = 1
    try:
        os.setpgid(0, 0)
        for number, stream in enumerate(descriptors[:2], 1):
            os.dup2(stream, number)
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        tempfile.tempdir = None
        if "path" in request:
            sys.path[:] = request["path"]
            with os.fdopen(descriptors[2], "rb") as file:
                job = pickle.load(file)
            isolate._serve(job, descriptors[3], os.getppid())
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
    _main(*sys.argv[1:])
