import ctypes
import signal
import tempfile
from pathlib import Path

import pytest

from opsplice.frontends import load
from opsplice.isolation.crash import compiler_crash
from opsplice.isolation.isolate import ChildCrashError, call_isolated
from opsplice.pipeline.compiler import Step, compile_module


@pytest.fixture(autouse=True)
def reproducers_in(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def compile_job(report, path, flags, crash_at=None):
    edits = [Step(crash_at, "a fatal edit", lambda _module: ctypes.string_at(0))] if crash_at else []
    return compile_module(load(path), edits, flags, on_progress=report).vmfb


def crash_of(path, flags, crash_at=None):
    # Spawned: this process has loaded the compiler, and must not fork.
    with pytest.raises(ChildCrashError) as error:
        call_isolated(compile_job, (path, flags, crash_at), method="spawn")
    return compiler_crash(error.value, load(path), flags, "opsplice compile model.mlir --no-isolate")


def test_crash_in_an_edit_names_edit_and_phase(model, generic, reproducers_in):
    error = crash_of(model, [generic], crash_at="preprocessing")
    assert error.message == "the compiler crashed in 'a fatal edit' at phase preprocessing (SIGSEGV)"
    assert "opsplice compile model.mlir --no-isolate" in error.hint
    (folder,) = reproducers_in.glob("opsplice-crash-*")
    assert str(folder) in error.hint
    assert (folder / "module.mlir").read_bytes() == model.read_bytes()
    assert (folder / "flags.txt").read_text() == f"{generic}\n"


def test_crash_in_the_compiler_names_the_phase_and_its_last_words(model, generic):
    error = crash_of(model, [generic, "--iree-hal-local-target-device-backends=llvm-cp"])
    assert error.message == "the compiler crashed in phase preprocessing (SIGSEGV)"
    assert error.details == "Default target backend not registered: llvm-cp"


def test_fatal_error_of_llvm_is_told_from_a_crash(model):
    error = crash_of(model, ["--iree-llvmcpu-target-cpu=nonsense"])
    assert error.message == "the compiler gave up in phase preprocessing (exit status 1)"
    assert "Unknown CPU for target architecture" in error.details
    assert max(map(len, error.details.splitlines())) <= 200


def test_killed_compiler_speaks_of_memory(model, reproducers_in):
    crash = ChildCrashError("died")
    crash.signal = signal.SIGKILL
    crash.last_event = "phase hal"
    error = compiler_crash(crash, load(model), [])
    assert error.message == "the compiler was killed in phase hal: most likely the machine ran out of memory"
    assert not list(reproducers_in.glob("opsplice-crash-*"))


def test_bytecode_and_text_in_memory_are_kept_too(reproducers_in):
    crash = ChildCrashError("died")
    crash.exit_code = 1
    for content, name in ((b"ML\xefRrest", "module.mlirbc"), ("module {}", "module.mlir")):
        error = compiler_crash(crash, load(content), [])
        folder = Path(error.hint.rpartition(" ")[2])
        assert (folder / name).exists()
