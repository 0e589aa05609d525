"""Whose cache is used: where it is, and who may write to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from opsplice.common import cache
from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store, key_of

KEY = key_of("a key")


def build(path: Path) -> None:
    path.write_text("code")


def test_where_the_cache_is(tmp_path: Path) -> None:
    assert cache.folder({"OPSPLICE_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/a")
    assert cache.folder({"XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/b/opsplice")
    assert cache.folder({"XDG_CACHE_HOME": "relative", "HOME": "/c"}) == Path("/c/.cache/opsplice")
    assert cache.folder({"OPSPLICE_CACHE": "here"}) == Path.cwd() / "here"


@pytest.mark.parametrize("home", [None, "", "~", "relative"])
def test_without_a_home_the_cache_is_temporary_and_private(home: str | None) -> None:
    folder = cache.folder({} if home is None else {"HOME": home})
    assert folder.is_absolute()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert cache.is_temporary(folder)


def test_an_unknown_user_has_a_home_if_it_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_is_known_user", lambda: False)
    assert cache.folder({"HOME": str(tmp_path)}) == tmp_path / ".cache" / "opsplice"
    assert cache.is_temporary(cache.folder({"HOME": str(tmp_path / "absent")}))


def test_a_temporary_cache_goes_with_its_process(tmp_path: Path) -> None:
    code = (
        "import os; from opsplice.common.store import Store\n"
        "store = Store(); store.check_writable(); print(store.root)\n"
        "pid = os.fork() or (Store(), exit())\n"
        "os.waitpid(pid, 0); print(store.root.is_dir())"
    )
    environ = {k: v for k, v in os.environ.items() if k not in ("HOME", "OPSPLICE_CACHE", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )
    root, there = done.stdout.split()
    assert there == "True"
    assert not Path(root).exists()
    assert list(tmp_path.iterdir()) == []


def test_the_cache_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = Store(tmp_path / "deep" / "cache")
        store.get_or_build(KEY, ".o", build)
    finally:
        os.umask(before)
    assert store.root.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("part", ["", "keys", "blobs", "locks", "tmp"])
@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_a_cache_that_others_may_write_to_is_not_used(tmp_path: Path, part: str, mode: int) -> None:
    store = Store(tmp_path / "cache")
    store.get_or_build(KEY, ".o", build)
    (store.root / part).chmod(mode)
    with pytest.raises(OpspliceError, match="others may write to the cache") as error:
        store.get_or_build(KEY, ".o", build)
    assert str(store.root / part) in error.value.message
    assert "chmod" in error.value.hint
    assert "OPSPLICE_CACHE" in error.value.hint


def test_a_cache_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "cache")
    store.get_or_build(KEY, ".o", build)
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    with pytest.raises(OpspliceError, match=r"belongs to .*, and user 4321 runs opsplice") as error:
        store.get_or_build(KEY, ".o", build)
    assert "OPSPLICE_CACHE" in error.value.hint
    with pytest.raises(OpspliceError, match="belongs to"):
        store.check_writable()
