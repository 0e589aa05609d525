"""A layout folder as a place."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from pathlib import Path

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry.places import oci
from opsplice.targets.registry.places.layout import Layout
from opsplice.targets.registry.places.oci import EMPTY_CONFIG, Descriptor, Index, Manifest
from opsplice.targets.registry.places.place import InterruptedTransferError, NotFoundError, receive
from tests.targets.registry.sample import noise
from tests.waiting import PROCESSES, ended

DATA = noise(5000)
BLOB = Descriptor.of(DATA, "application/x")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "layout")


def file_of(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "file"
    path.write_bytes(data)
    return path


def test_an_empty_folder_has_nothing(layout: Layout):
    assert layout.tags() == []
    assert not layout.has(BLOB)
    assert layout.referrers(BLOB.digest) == []
    for act in (lambda: layout.resolve("1.0"), lambda: layout.resolve(BLOB.digest), lambda: layout.read(BLOB)):
        with pytest.raises(NotFoundError):
            act()
    assert not layout.root.exists()


def test_blobs_and_names(layout: Layout, tmp_path: Path):
    layout.put_blob(BLOB, file_of(tmp_path, DATA))
    layout.fetch(BLOB, tmp_path / "out" / "copy")
    assert (tmp_path / "out" / "copy").read_bytes() == layout.read(BLOB) == DATA
    first = layout.put_manifest(Index(()).to_bytes(), oci.INDEX, "1.0")
    second = layout.put_manifest(Index((), "application/x").to_bytes(), oci.INDEX, "2.0")
    assert (layout.resolve("1.0"), layout.resolve("2.0"), layout.resolve(second.digest)) == (first, second, second)
    assert layout.put_manifest(Index((), "application/x").to_bytes(), oci.INDEX, "1.0") == second
    assert layout.resolve("1.0") == second  # the tag moved
    assert layout.tags() == ["1.0", "2.0"]
    assert json.loads((layout.root / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    layout.forget(["1.0"])
    assert layout.tags() == ["2.0"]


def test_one_folder_holds_many_repositories(layout: Layout):
    one, two = (Layout(layout.root, f"localhost:5443/{name}") for name in ("a", "b"))
    put = one.put_manifest(Index(()).to_bytes(), oci.INDEX, "1")
    with pytest.raises(NotFoundError, match="localhost:5443/b:1"):
        two.resolve("1")
    assert (one.tags(), two.tags()) == (["1"], [])
    assert list(layout.names()) == ["localhost:5443/a:1"]
    assert layout.resolve("localhost:5443/a:1") == put


def test_what_has_a_subject_refers_to_it(layout: Layout):
    subject = layout.put_manifest(Index(()).to_bytes(), oci.INDEX, "1")
    signed = [Manifest(EMPTY_CONFIG, (), f"application/{name}", {}, subject).to_bytes() for name in "ab"]
    for data in (*signed, signed[0]):
        layout.put_manifest(data, oci.MANIFEST)
    found = layout.referrers(subject.digest)
    assert {each.artifact_type for each in found} == {"application/a", "application/b"}
    assert {layout.read(each) for each in found} == set(signed)
    assert len(found) == 2
    assert layout.tags() == ["1"]


@pytest.mark.parametrize("other", [DATA[:-1], DATA + b"x", b"", bytes([DATA[0] ^ 1]) + DATA[1:]])
def test_other_bytes_are_refused_and_mended(layout: Layout, tmp_path: Path, other: bytes):
    with pytest.raises(OpspliceError, match=r"gives other bytes|gave .* of the 5000 bytes"):
        layout.put_blob(BLOB, file_of(tmp_path, other))
    assert not layout.has(BLOB)
    layout.put_blob(BLOB, file_of(tmp_path, DATA))
    path = layout.path(BLOB)
    path.write_bytes(other)
    assert not layout.has(BLOB)
    with pytest.raises(OpspliceError, match="gives other bytes"):
        layout.read(BLOB)
    with pytest.raises(OpspliceError, match=r"gives other bytes|gave .* of the 5000 bytes"):
        layout.fetch(BLOB, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    layout.put_blob(BLOB, file_of(tmp_path, DATA))
    assert layout.read(BLOB) == DATA


def test_what_was_begun_is_resumed(tmp_path: Path):
    asked: list[int] = []
    counted: list[int] = []

    def opened(offset: int):
        asked.append(offset)
        return offset, iter([DATA[offset : offset + 2000]])

    for _ in range(2):
        with pytest.raises(InterruptedTransferError, match="of the 5000 bytes"):
            receive(BLOB, tmp_path / "blob", "there", opened, counted.append)
    receive(BLOB, tmp_path / "blob", "there", opened, counted.append)
    assert asked == [0, 2000, 4000]
    assert (tmp_path / "blob").read_bytes() == DATA
    assert sum(counted[-2:]) == 5000
    assert [path.name for path in tmp_path.iterdir()] == ["blob"]


def test_a_beginning_that_is_no_beginning_is_thrown_away(tmp_path: Path):
    counted: list[int] = []
    (tmp_path / ".blob.part").write_bytes(b"x" * 2000)
    with pytest.raises(OpspliceError, match="gives other bytes"):
        receive(BLOB, tmp_path / "blob", "there", lambda offset: (offset, [DATA[offset:]]), counted.append)
    receive(BLOB, tmp_path / "blob", "there", lambda offset: (offset, [DATA[offset:]]), counted.append)
    assert (tmp_path / "blob").read_bytes() == DATA


def test_a_source_that_begins_anew_is_followed(tmp_path: Path):
    counted: list[int] = []
    (tmp_path / ".blob.part").write_bytes(DATA[:2000])
    receive(BLOB, tmp_path / "blob", "there", lambda _offset: (0, [DATA]), counted.append)
    assert (tmp_path / "blob").read_bytes() == DATA
    assert sum(counted) == 5000


def test_a_file_that_another_process_put_into_place_is_not_written_to(tmp_path: Path):
    into, part = tmp_path / "blob", tmp_path / ".blob.part"
    with part.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        waiting = threading.Thread(
            daemon=True,
            target=receive,
            args=(BLOB, into, "there", lambda offset: (offset, [DATA[offset:]]), lambda _count: None),
        )
        waiting.start()
        time.sleep(0.1)
        # Whoever had it moved it, and what is there now was damaged since then.
        os.replace(part, into)
        into.write_bytes(b"damaged")
        moved = into.stat().st_ino
    ended(waiting)
    assert into.read_bytes() == DATA
    assert into.stat().st_ino != moved
    assert [path.name for path in tmp_path.iterdir()] == ["blob"]


def test_no_more_than_the_size_is_read(tmp_path: Path):
    taken = 0

    def endless(_offset: int):
        def chunks():
            nonlocal taken
            while True:
                taken += 1000
                yield b"x" * 1000

        return 0, chunks()

    with pytest.raises(OpspliceError, match="gives other bytes"):
        receive(BLOB, tmp_path / "blob", "there", endless, lambda _count: None)
    assert taken == 6000
    assert (tmp_path / ".blob.part").stat().st_size == 0


def _put(root: Path, number: int) -> None:
    Layout(root).put_manifest(Index((), f"application/x{number}").to_bytes(), oci.INDEX, f"v{number}")


def test_processes_that_write_at_once_lose_nothing(layout: Layout):
    writers = [PROCESSES.Process(target=_put, args=(layout.root, number)) for number in range(20)]
    for writer in writers:
        writer.start()
    ended(*writers)
    assert len(layout.tags()) == 20


@pytest.mark.parametrize("special", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.mkdir()])
def test_a_folder_of_a_strangers_has_pipes_and_devices(layout: Layout, tmp_path: Path, special):
    put = layout.put_manifest(Index(()).to_bytes(), oci.INDEX, "1")
    empty = Descriptor.of(b"", "a/b")
    for descriptor in (put, BLOB, empty):
        layout.path(descriptor).unlink(missing_ok=True)
        special(layout.path(descriptor))
    for descriptor in (put, BLOB, empty):
        assert not layout.has(descriptor)
        with pytest.raises(OpspliceError):
            layout.read(descriptor)
        if descriptor != empty:
            with pytest.raises(OpspliceError):
                layout.fetch(descriptor, tmp_path / "copy")
    (layout.root / "index.json").unlink()
    special(layout.root / "index.json")
    with pytest.raises(OpspliceError, match=r"cannot read .*index\.json: it is not a regular file"):
        layout.tags()


def test_a_folder_of_something_else_is_refused(layout: Layout):
    layout.root.mkdir()
    (layout.root / "index.json").write_text("hello")
    with pytest.raises(OpspliceError, match=r"index.json is not valid JSON"):
        layout.tags()
