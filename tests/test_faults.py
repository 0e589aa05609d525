"""Disks that are full and memory that is not there, at each write in turn: nothing half-written, and a clear error."""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opsplice import cli
from opsplice.commands import compile as compile_command
from opsplice.common.errors import OpspliceError
from opsplice.common.files import write_file
from opsplice.common.store import Store, key_of
from opsplice.compiling.job import Outcome
from opsplice.reports.captured import Capture
from opsplice.reports.report import Report
from opsplice.runtime import providers
from opsplice.runtime.value_text import save_values

KEY = key_of("a key")
UGLY = "pattern  p(x: f32) { negf(x) }"
FAULTS = [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), OSError(errno.EIO, os.strerror(errno.EIO)), MemoryError()]
ids = {"ids": ["full", "broken", "memory"]}


class Faults:
    """Counts what is done to the disk, and fails at the time that it is told."""

    def __init__(self, at: int, error: Exception) -> None:
        self.at, self.error, self.count = at, error, 0

    def step(self) -> None:
        self.count += 1
        if self.count == self.at:
            raise self.error


class FaultyFile:
    """A file whose writes, flushes and closing count."""

    def __init__(self, file: Any, faults: Faults) -> None:
        self._file, self._faults = file, faults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> FaultyFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def write(self, data: Any) -> int:
        try:
            self._faults.step()
        except BaseException:
            self._file.write(data[: len(data) // 2])  # what a full disk takes
            raise
        return self._file.write(data)

    def flush(self) -> None:
        self._faults.step()
        self._file.flush()

    def close(self) -> None:
        self._file.close()
        self._faults.step()  # some file systems say only then that there was no room


@contextmanager
def faulty(at: int, error: Exception) -> Iterator[Faults]:
    """Meanwhile the n-th of all steps that change the disk fails."""
    faults = Faults(at, error)
    patch = pytest.MonkeyPatch()
    opened = io.open

    def counted(name: str) -> None:
        original = getattr(os, name)

        def call(*arguments: Any, **options: Any) -> Any:
            faults.step()
            return original(*arguments, **options)

        patch.setattr(os, name, call)

    def open_file(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if not set(mode) & set("wax+"):
            return opened(file, mode, *arguments, **options)
        faults.step()
        return FaultyFile(opened(file, mode, *arguments, **options), faults)

    for name in ("replace", "fsync", "mkdir"):
        counted(name)
    patch.setattr(io, "open", open_file)
    patch.setattr(builtins, "open", open_file)
    try:
        yield faults
    finally:
        patch.undo()


def at_each_step(error: Exception, act: Callable[[], None], check: Callable[[], None], least: int) -> None:
    """Run an action with a failure at its first step, its second and so on, until it has no such step any more."""
    for at in range(1, 100):
        with faulty(at, error) as faults:
            failure = failure_of(act)
        # A folder that is there need not be made.
        if isinstance(error, OSError) and failure is not None:
            assert os.strerror(error.errno).lower() in failure.message.lower()
        check()
        if faults.count < at:
            assert at > least
            return
    raise AssertionError("it does not come to an end")


def failure_of(act: Callable[[], None]) -> Any:
    try:
        act()
    except (OpspliceError, MemoryError) as failure:
        return failure
    return None


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("error", FAULTS, **ids)
def test_the_store_keeps_whole_entries_or_none(tmp_path: Path, error: Exception) -> None:
    numbers = iter(range(1000))
    roots: list[Path] = []

    def build(path: Path) -> dict[str, str]:
        path.write_bytes(b"code" * 100)
        return {"by": "test"}

    def act() -> None:
        roots.append(tmp_path / f"cache{next(numbers)}")
        Store(roots[-1]).get_or_build(KEY, ".o", build)

    def check() -> None:
        store = Store(roots[-1])
        entry = store.get_or_build(KEY, ".o", build)
        assert entry.path.read_bytes() == b"code" * 100
        assert not store.get_or_build(KEY, ".o", build).built
        assert names(store.root / "tmp") == set()
        assert names(store.root / "blobs") == {entry.path.name}
        assert names(store.root / "keys") == {KEY}

    at_each_step(error, act, check, least=10)


@pytest.mark.parametrize("error", FAULTS, **ids)
@pytest.mark.parametrize("old", [None, b"old"])
def test_files_are_written_whole_or_stay_as_they_were(tmp_path: Path, error: Exception, old: bytes | None) -> None:
    path = tmp_path / "file"

    def act() -> None:
        path.unlink(missing_ok=True)
        if old is not None:
            descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
            os.write(descriptor, old)
            os.close(descriptor)
        write_file(path, b"new" * 1000)

    def check() -> None:
        assert names(tmp_path) <= {"file"}
        assert (path.read_bytes() if path.exists() else None) in (old, b"new" * 1000)

    at_each_step(error, act, check, least=3)


@pytest.mark.parametrize("error", FAULTS, **ids)
def test_outputs_are_whole_arrays(tmp_path: Path, error: Exception) -> None:
    arrays = [np.arange(100.0), np.ones((2, 3), np.int8)]

    def act() -> None:
        save_values(arrays, tmp_path / "all.npy")
        save_values(arrays, tmp_path / "each")

    def check() -> None:
        assert names(tmp_path) <= {"all.npy", "each"}
        for path in tmp_path.rglob("*.npy"):
            with path.open("rb") as file:
                np.testing.assert_array_equal(np.load(file), arrays[path.name == "output1.npy"])
                if path.name == "all.npy":
                    np.testing.assert_array_equal(np.load(file), arrays[1])
        assert not list(tmp_path.rglob(".*"))

    at_each_step(error, act, check, least=10)


@pytest.mark.parametrize("error", FAULTS, **ids)
def test_folders_of_kernels_and_captures_have_whole_files(tmp_path: Path, error: Exception) -> None:
    kernels = {("a", "x"): b"A" * 100, ("b", "x"): b"B" * 100}
    captured = Capture("p", "spec" * 100, "code" * 100, "p.c", "f", "m:1", {}, ("m:1",), True)
    whole = {"a.x.bin": b"A" * 100, "b.x.bin": b"B" * 100, "p.c": b"code" * 100, "p.splice": b"spec" * 100}
    folder = tmp_path / "kernels"

    def act() -> None:
        providers.write_folder(folder, kernels)
        (folder / "p.c").unlink(missing_ok=True)
        (folder / "p.splice").unlink(missing_ok=True)
        captured.save(folder / "p.splice")

    def check() -> None:
        there = names(folder) if folder.exists() else set()
        assert there <= set(whole)
        assert all((folder / name).read_bytes() == whole[name] for name in there)
        assert "p.c" in there or "p.splice" not in there

    at_each_step(error, act, check, least=8)


@pytest.mark.parametrize("error", FAULTS, **ids)
def test_commands_say_what_is_wrong(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = Outcome(b"program" * 100, Report(), (), {("k", "x"): b"kernel" * 100})
    monkeypatch.setattr(compile_command, "compile_job", lambda _options: outcome)
    monkeypatch.chdir(tmp_path)
    for name in ("model.mlir", "ugly.splice"):
        Path(name).write_text(UGLY)
    for command, least in ((["compile", "model.mlir", "-o", "out.vmfb"], 6), (["format", "ugly.splice"], 3)):
        for at in range(1, 100):
            Path("ugly.splice").write_text(UGLY)
            with faulty(at, error) as faults:
                code = cli.main(command)
            said = capsys.readouterr()
            assert "Traceback" not in said.err
            if faults.count < at:
                assert code == 0
                assert at > least
                break
            # A folder that is there need not be made.
            assert code == 1 or (tmp_path / "out.vmfb").read_bytes() == outcome.vmfb
            assert ("error: " in said.err) == (code == 1)
            assert not [name for name in names(tmp_path) if name.startswith(".")]
            for path in (*tmp_path.glob("*.vmfb"), *tmp_path.rglob("*.bin")):
                assert path.read_bytes() in (outcome.vmfb, b"kernel" * 100)
            assert code == 0 or Path("ugly.splice").read_text() == UGLY
