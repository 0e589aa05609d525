"""Files that are written whole or not at all, whatever stands in their place."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.common.files import check_folder, read_file, replacing, write_file, write_files
from opsplice.runtime.value_text import save_values


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


def refusals(path: Path) -> dict[str, str]:
    """What is said where a file of this name is given, by how it is given."""
    from opsplice import frontends
    from opsplice.common.store import Store
    from opsplice.compiling import spec_files
    from opsplice.runtime import loaded_program, providers, weights
    from opsplice.runtime.value_text import parse_input
    from opsplice.targets.artifacts.artifact import ArtifactRequest, CpuTarget
    from opsplice.targets.backends.cpu import resolve
    from opsplice.targets.plugins import plugin_file

    def artifact(name: Path) -> None:
        resolve(ArtifactRequest(name, ("k",)), CpuTarget("x86_64"), Store())

    def included(name: Path) -> None:
        source = name.with_name("k.c")
        source.write_text(f'#include "{name.name}"\n')
        artifact(source)

    uses = {
        ".splice": lambda p: spec_files.load_specs([p]),
        ".mlir": lambda p: spec_files.load_specs([p]),
        ".model": frontends.load,
        ".npy": lambda p: parse_input(f"@{p}"),
        ".raw": lambda p: parse_input(f"4xf32=@{p}"),
        ".vmfb": lambda p: loaded_program.load_program(p),
        ".irpa": lambda p: weights.module_of(None, weights.read_archives(f"model={p}")),
        ".so": plugin_file.read,
        ".bin": lambda p: providers.read_kernel(("k", "embedded-elf-x86_64"), p),
        ".h": included,
        **dict.fromkeys((".c", ".S", ".ll", ".o", ".bc"), artifact),
    }
    said = {}
    for kind, use in uses.items():
        named = path.with_suffix(kind)
        path.rename(named)
        try:
            with pytest.raises(OpspliceError) as error:
                use(named)
        finally:
            named.rename(path)
        said[kind] = error.value.message
    return said


def test_a_pipe_is_refused_wherever_a_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert {m.rpartition(" is ")[2] for m in refusals(tmp_path / "pipe").values()} == {"a device or a pipe, not a file"}


def test_a_pipe_that_a_transform_spec_names_is_refused(tmp_path: Path, samples: Path) -> None:
    sample = samples / "mul_abs_negate"
    (tmp_path / "spec.mlir").write_text((sample / "replace.mlir").read_text())
    os.mkfifo(tmp_path / "functions.c")
    with pytest.raises(OpspliceError, match="is a device or a pipe, not a file"):
        opsplice.transform(str(sample / "model.mlir"), [tmp_path / "spec.mlir"], no_code=True)
    with pytest.raises(OpspliceError, match="is a device or a pipe, not a file"):
        opsplice.compile(str(sample / "model.mlir"), [tmp_path / "spec.mlir"])


def test_devices_are_refused(tmp_path: Path) -> None:
    for name in ("/dev/zero", "/dev/stdin"):
        with pytest.raises(OpspliceError, match="is a device or a pipe"):
            read_file(Path(name))


def test_a_huge_file_is_refused_wherever_all_of_it_would_be_read(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(3 << 30)
    said = refusals(tmp_path / "huge")
    # IREE maps programs and archives into memory; an input may be as large as the memory.
    mapped = [said.pop(kind) for kind in (".npy", ".vmfb", ".irpa")]
    assert all(mapped)
    assert "has 3221225472 bytes" in said.pop(".raw")
    assert {kind for kind, message in said.items() if "is larger than" not in message} == set()


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "file"):
        with pytest.raises(OpspliceError, match="cannot write"):
            check_folder(path)
        with pytest.raises(OpspliceError, match="cannot write"):
            write_file(path, b"")


@pytest.mark.parametrize("was_there", [False, True])
def test_a_new_folder_is_whole_or_not_there(tmp_path: Path, was_there: bool) -> None:
    folder = tmp_path / "new"
    if was_there:
        folder.mkdir()
    with pytest.raises(OpspliceError, match="cannot write"):
        write_files(folder, {"deep/first": b"1", "second": b"2", "x" * 300: b"3"}, new="name a new folder")
    assert folder.exists() == was_there
    assert [path.name for path in tmp_path.rglob("*")] == ["new"] * was_there
