import ctypes
import faulthandler
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.isolation import isolate
from opsplice.isolation.isolate import ChildCrashError, call_apart, call_isolated
from tests import zygote

METHODS = pytest.mark.parametrize("method", ["fork", "spawn"])


@pytest.fixture(autouse=True)
def _spawned(monkeypatch):
    """For other tests, what is spawned is forked from a process that is ready."""
    monkeypatch.setattr(isolate, "_spawn", zygote.SPAWN)
    monkeypatch.setattr(isolate, "_wait", zygote.WAIT)


def add(report, a, b):
    report("adding")
    report(("pid", os.getpid()))
    return a + b


def fail_for_the_user(_report):
    raise OpspliceError("no such thing", hint="make one", details="a line")


def fail_with_a_bug(_report):
    raise KeyError("a bug")


def interrupt(_report):
    raise KeyboardInterrupt


def crash(report, how):
    # The test runner's handler would print a traceback of its own.
    faulthandler.disable()
    report("before")
    os.write(2, b"last words\n")
    if how == "segfault":
        ctypes.string_at(0)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(7)


def print_and_return(_report):
    print("to stdout")
    os.write(2, b"to stderr\n")
    return "done"


def leave_a_mess(report):
    """A temporary file and a process that would go on."""
    descriptor, left = tempfile.mkstemp()
    os.close(descriptor)
    sleeper = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    report((left, sleeper.pid))


def return_what_does_not_pickle(_report):
    return lambda: None


def return_much(_report):
    return bytes(10_000_000)


def read_stdin(_report):
    return os.read(0, 10)


def add_apart(a, *, function, on_progress):
    how = isolate.method()
    return os.getpid(), how, call_isolated(add, (a, function), on_progress=on_progress, method=how)


def is_running(pid):
    try:
        # The state follows the name in parentheses; a zombie was killed and only waits to be reaped.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends_soon(pid):
    """Whether a process that was sent a signal is gone within seconds."""
    deadline = time.monotonic() + 60
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_running(pid)


@METHODS
def test_result_and_progress_come_back(method):
    events = []
    assert call_isolated(add, (2, 3), on_progress=events.append, method=method) == 5
    assert events[0] == "adding"
    assert events[1][1] != os.getpid()


@METHODS
def test_error_for_the_user_comes_back_whole(method):
    with pytest.raises(OpspliceError) as error:
        call_isolated(fail_for_the_user, method=method)
    assert (error.value.message, error.value.hint, error.value.details) == ("no such thing", "make one", "a line")


@METHODS
def test_a_bug_comes_back_with_its_traceback(method):
    with pytest.raises(RuntimeError) as error:
        call_isolated(fail_with_a_bug, method=method)
    assert "fail_with_a_bug" in str(error.value)
    assert "KeyError: 'a bug'" in str(error.value)


@METHODS
def test_segfault_is_an_error_here(method, capfd):
    with pytest.raises(ChildCrashError) as error:
        call_isolated(crash, ("segfault",), method=method)
    assert error.value.signal == signal.SIGSEGV
    assert error.value.last_event == "before"
    assert error.value.output == "last words\n"
    assert capfd.readouterr().err == ""


def test_kill_and_exit_are_told_apart():
    with pytest.raises(ChildCrashError) as error:
        call_isolated(crash, ("kill",))
    assert error.value.signal == signal.SIGKILL
    with pytest.raises(ChildCrashError) as error:
        call_isolated(crash, ("exit",))
    assert error.value.signal is None
    assert error.value.exit_code == 7


@METHODS
def test_stdout_passes_and_stderr_is_captured(method, capfd):
    assert call_isolated(print_and_return, method=method) == "done"
    out, err = capfd.readouterr()
    assert out == "to stdout\n"
    assert err == ""


@METHODS
def test_stderr_passes_when_asked(method, capfd):
    call_isolated(print_and_return, method=method, capture_stderr=False)
    assert capfd.readouterr().err == "to stderr\n"


def test_text_buffered_before_the_fork_is_written_once():
    program = "\n".join(
        [
            "from opsplice.isolation.isolate import call_isolated",
            "def nothing(report): print('child')",
            "print('parent')",
            "call_isolated(nothing)",
        ]
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "parent\nchild\n"


@METHODS
def test_temporary_files_and_processes_go_with_the_child(method):
    events = []
    call_isolated(leave_a_mess, on_progress=events.append, method=method)
    file, pid = events[0]
    assert not Path(file).exists()
    assert ends_soon(pid)


@METHODS
def test_result_that_does_not_pickle_is_a_bug(method):
    with pytest.raises(RuntimeError, match="pickle"):
        call_isolated(return_what_does_not_pickle, method=method)


def test_large_results_pass():
    assert call_isolated(return_much) == bytes(10_000_000)


@METHODS
def test_stdin_is_empty(method):
    assert call_isolated(read_stdin, method=method) == b""


def test_a_call_apart_is_a_child_that_forks_where_this_process_may_not(monkeypatch):
    monkeypatch.setattr(isolate, "method", lambda: "spawn")
    events = []
    pid, how, total = call_apart(add_apart, 2, function=3, on_progress=events.append)
    assert pid != os.getpid()
    assert (how, total, events[0]) == ("fork", 5, "adding")


def test_a_call_apart_stays_here_where_this_process_may_fork(monkeypatch):
    monkeypatch.setattr(isolate, "method", lambda: "fork")
    events = []
    assert call_apart(add_apart, 2, function=3, on_progress=events.append) == (os.getpid(), "fork", 5)
    assert events[0] == "adding"


WAITING = """
import os, subprocess, sys, tempfile, time
from opsplice.isolation.isolate import call_isolated

def wait(report):
    sleeper = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
    report((os.getpid(), sleeper.pid, tempfile.gettempdir()))
    time.sleep(60)

def show(event):
    print(*event, flush=True)

try:
    call_isolated(wait, on_progress=show)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.fixture
def waiting(tmp_path):
    """A process that waits for an isolated child; the child's pid, its child's pid and its temporary folder."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True, env=environment)
    child, grandchild, folder = process.stdout.readline().split()
    yield process, int(child), int(grandchild), Path(folder)
    process.kill()
    process.communicate()
    if is_running(grandchild):
        os.kill(int(grandchild), signal.SIGKILL)


def test_interrupt_leaves_nothing_behind(waiting):
    process, child, grandchild, folder = waiting
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "interrupted\n"
    assert ends_soon(child)
    assert ends_soon(grandchild)
    assert not folder.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_that_end_the_process_leave_nothing_behind(waiting, number):
    process, child, grandchild, folder = waiting
    process.send_signal(number)
    assert process.wait(timeout=60) == -number
    assert ends_soon(child)
    assert ends_soon(grandchild)
    assert not folder.exists()


@METHODS
def test_an_interrupt_that_is_raised_is_one_here(method):
    with pytest.raises(KeyboardInterrupt):
        call_isolated(interrupt, method=method)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_child_dies_with_its_parent(waiting):
    process, child, _, _ = waiting
    process.kill()
    process.wait()
    assert ends_soon(child)
