"""The store under damage, races, kills and folders that cannot be written."""

import errno
import json
import os
import resource
import signal
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store, key_of
from tests.waiting import PROCESSES, ended

KEY = key_of("a key")


def write(text: str):
    def build(path: Path):
        path.write_text(text)
        return {"by": "test"}

    return build


def never(path: Path):
    raise AssertionError("built although it was in the store")


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_second_request_builds_nothing_and_remembers_the_notes(store):
    first = store.get_or_build(KEY, ".o", write("code"))
    second = Store(store.root).get_or_build(KEY, ".o", never)
    assert (first.built, second.built) == (True, False)
    assert second.path == first.path
    assert second.path.read_text() == "code"
    assert second.path.suffix == ".o"
    assert second.notes == {"by": "test"}


def test_equal_results_of_different_keys_are_one_file(store):
    one = store.get_or_build(key_of("one"), ".o", write("code"))
    two = store.get_or_build(key_of("two"), ".o", write("code"))
    assert two.built
    assert one.path == two.path


@pytest.mark.parametrize("damage", [b"c0de", b"", b"code and more"])
def test_damaged_file_is_built_again(store, damage):
    entry = store.get_or_build(KEY, ".o", write("code"))
    entry.path.write_bytes(damage)
    again = store.get_or_build(KEY, ".o", write("code"))
    assert again.built
    assert again.path.read_text() == "code"


@pytest.mark.parametrize("place", ["keys", "blobs", "locks"])
def test_a_folder_in_a_files_place_goes(store, place):
    entry = store.get_or_build(KEY, ".o", write("code"))
    path = store.root / place / (entry.path.name if place == "blobs" else KEY)
    path.unlink()
    (path / "inside").mkdir(parents=True)
    assert store.get_or_build(KEY, ".o", write("code")).path.read_text() == "code"
    assert store.get_or_build(KEY, ".o", write("code")).path.is_file()


def test_a_record_of_another_key_is_not_taken(store):
    store.get_or_build(KEY, ".o", write("code"))
    other = key_of("other")
    os.link(store.root / "keys" / KEY, store.root / "keys" / other)
    assert store.get_or_build(other, ".o", write("other code")).path.read_text() == "other code"


def test_a_record_that_leads_out_of_the_store_is_not_taken(store, tmp_path):
    store.get_or_build(KEY, ".o", write("code"))
    (tmp_path / "planted.o").write_text("planted")
    record = {"key": KEY, "digest": "../../planted", "notes": {}}
    (store.root / "keys" / KEY).write_text(json.dumps(record))
    assert store.get_or_build(KEY, ".o", write("code")).path.read_text() == "code"


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"digest": 3, "notes": {}}', b"\xff\xfe"])
def test_damaged_record_is_built_again(store, damage):
    store.get_or_build(KEY, ".o", write("code"))
    (store.root / "keys" / KEY).write_bytes(damage)
    assert store.get_or_build(KEY, ".o", write("code")).built


def test_failed_build_leaves_nothing(store):
    def fail(path: Path):
        path.write_text("half")
        raise OpspliceError("does not compile")

    with pytest.raises(OpspliceError, match="does not compile"):
        store.get_or_build(KEY, ".o", fail)
    assert [path for path in files(store.root) if path.parent.name != "locks"] == []
    assert store.get_or_build(KEY, ".o", write("code")).built


def _slowly(tally: Path, path: Path):
    with open(tally, "a") as file:
        file.write("x")
    time.sleep(0.3)
    path.write_text("code")


def _ask(barrier, root: Path, tally: Path):
    barrier.wait(60)
    entry = Store(root).get_or_build(KEY, ".o", partial(_slowly, tally))
    sys.exit(entry.path.read_text() != "code")


def test_processes_that_ask_at_once_build_once(store, tmp_path):
    tally = tmp_path / "tally"
    barrier = PROCESSES.Barrier(4)
    children = [PROCESSES.Process(target=_ask, args=(barrier, store.root, tally)) for _ in range(4)]
    for child in children:
        child.start()
    ended(*children)
    assert [child.exitcode for child in children] == [0] * 4
    assert tally.read_text() == "x"


def _hang(started, path: Path):
    path.write_text("half")
    started.set()
    time.sleep(60)


def test_killed_builder_leaves_nothing_that_is_taken_for_a_result(store):
    started = PROCESSES.Event()
    child = PROCESSES.Process(target=store.get_or_build, args=(KEY, ".o", partial(_hang, started)))
    child.start()
    assert started.wait(60)
    os.kill(child.pid, signal.SIGKILL)
    ended(child)
    assert not (store.root / "keys" / KEY).exists()
    entry = store.get_or_build(KEY, ".o", write("whole"))
    assert entry.built
    assert entry.path.read_text() == "whole"
    # The killed builder's leavings went with the next build.
    assert files(store.root / "tmp") == []


def _act(there, prepare, build, root: Path):
    prepare()
    try:
        Store(root).get_or_build(KEY, ".o", build)
        there.send(None)
    except OpspliceError as error:
        there.send(error)


def error_in_child(prepare, build, store) -> OpspliceError | None:
    """The error that building raises in a child, which may give up rights or space before."""
    here, there = PROCESSES.Pipe(duplex=False)
    child = PROCESSES.Process(target=_act, args=(there, prepare, build, store.root))
    child.start()
    there.close()
    assert here.poll(60), "the child died"
    error = here.recv()
    ended(child)
    return error


def test_full_disk_is_a_clear_error_and_leaves_no_result(store, tmp_path):
    product = tmp_path / "product"
    product.write_bytes(b"x" * 10_000)
    # The nearest thing to a full disk that needs no rights: no file may grow beyond a limit.
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1000, 1000))
    error = error_in_child(limit, partial(os.link, product), store)
    assert error is not None
    assert str(store.root) in error.message
    assert os.strerror(errno.EFBIG) in error.message
    assert "OPSPLICE_CACHE" in error.hint
    assert not (store.root / "keys" / KEY).exists()
    assert store.get_or_build(KEY, ".o", write("code")).built


def test_disk_that_fills_while_building_is_a_clear_error(store):
    def build(path: Path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OpspliceError, match=r"cannot write to the cache .*No space left"):
        store.get_or_build(KEY, ".o", build)


def test_folder_without_write_permission_is_a_clear_error(store):
    store.root.mkdir()
    store.root.chmod(0o555)
    if os.getuid() == 0:  # whom permissions do not stop
        os.chown(store.root, 65534, -1)
    nobody = partial(os.setuid, 65534) if os.getuid() == 0 else int
    error = error_in_child(nobody, partial(Path.write_text, data="code"), store)
    assert error is not None
    assert str(store.root) in error.message
    assert os.strerror(errno.EACCES) in error.message
    assert "OPSPLICE_CACHE" in error.hint


def test_what_is_there_can_be_read_from_a_folder_that_cannot_be_written(store, monkeypatch):
    store.get_or_build(KEY, ".o", write("code"))

    def refuse(*args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("open", "replace", "mkdir"):
        monkeypatch.setattr(os, name, refuse)
    assert store.get_or_build(KEY, ".o", never).path.read_text() == "code"


def test_a_file_in_the_folders_place_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OpspliceError, match="cannot write to the cache"):
        Store(tmp_path / "file" / "cache").check_writable()


def test_writable_folder_passes_the_check_and_stays_clean(store):
    store.check_writable()
    assert files(store.root / "tmp") == []


def aged(path: Path, days: float):
    then = time.time() - days * 86400
    os.utime(path, (then, then))


def test_what_was_not_used_for_long_is_swept(store):
    assert store.sweep() == (0, 0)
    old, used, new = (store.get_or_build(key_of(name), ".o", write(name)) for name in ("old", "used", "new"))
    keys = store.root / "keys"
    for name in ("old", "used"):
        aged(keys / key_of(name), 40)
    for entry in (old, used):
        aged(entry.path, 40)
    store.get_or_build(key_of("used"), ".o", never)
    assert store.sweep(30 * 86400, dry_run=True)[0] == 1
    assert old.path.exists()
    entries, freed = store.sweep(30 * 86400)
    assert entries == 1
    assert freed > 3
    assert [each.path.exists() for each in (old, used, new)] == [False, True, True]
    assert store.get_or_build(key_of("old"), ".o", write("old")).built
    # A file that no key leads to goes without a word about age, once nobody can be about to name it.
    (keys / key_of("used")).unlink()
    assert store.sweep() == (0, 4)
    (keys / key_of("new")).unlink()
    assert store.sweep(0) == (0, 0)
    assert new.path.exists()


def test_keys_tell_apart_parts_that_join_to_one_text():
    assert key_of("ab", "c") != key_of("a", "bc")
    assert key_of("a") == key_of(b"a")


def test_no_record_is_read_while_there_is_room(store, monkeypatch):
    """It is asked each time something is kept, whatever else there is."""
    for number in range(3):
        store.put(key_of(str(number)), ".txt", b"x" * 100)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "_digest", None)
        store.bound(10_000)
    assert len(list((store.root / "keys").iterdir())) == 3
    store.bound(400)
    assert len(list((store.root / "keys").iterdir())) == 1
