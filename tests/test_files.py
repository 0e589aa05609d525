"""Files that are written whole or not at all, whatever stands in their place."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from opsplice.errors import OpspliceError
from opsplice.files import check_folder, replacing, write_file
from opsplice.values import save_values


def test_devices_and_pipes_are_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        check_folder(pipe)
        write_file(pipe, b"content")
        assert os.read(reader, 100) == b"content"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_link_stays_and_what_it_points_at_is_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link = tmp_path / "link"
    link.symlink_to("folder/file")
    write_file(link, b"content")
    assert link.is_symlink()
    assert (tmp_path / "folder" / "file").read_bytes() == b"content"
    assert [p.name for p in (tmp_path / "folder").iterdir()] == ["file"]


def test_outputs_are_written_through_links_and_into_pipes(tmp_path: Path) -> None:
    link, target = tmp_path / "link.npy", tmp_path / "target.npy"
    link.symlink_to(target)
    save_values([np.arange(3)], link)
    assert link.is_symlink()
    np.testing.assert_array_equal(np.load(target), np.arange(3))
    pipe = tmp_path / "pipe.npy"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        save_values([np.arange(3)], pipe)
        assert os.read(reader, 1000) == target.read_bytes()
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_what_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = write_file(tmp_path / "file", b"old")

    def interrupted() -> None:
        with replacing(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "file"):
        with pytest.raises(OpspliceError, match="cannot write"):
            check_folder(path)
        with pytest.raises(OpspliceError, match="cannot write"):
            write_file(path, b"")
