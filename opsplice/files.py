"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from opsplice.errors import OpspliceError


def check_folder(path: Path) -> None:
    """Raise OpspliceError if a file could not be written at `path`, before long work is done for it."""
    if path.is_dir():
        raise OpspliceError(f"cannot write {path}: it is a folder")
    if _is_special(path):
        return
    if not path.parent.is_dir():
        raise OpspliceError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise OpspliceError(f"cannot write {path}: the folder {path.parent} is not writable")


def write_file(path: Path, content: bytes) -> Path:
    """Write a file, all of it or nothing: see `replacing`. Raises OpspliceError when that fails."""
    try:
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        raise OpspliceError(f"cannot write {path}: {error.strerror or error}") from None
    return path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of the one at `path` when nothing was raised meanwhile.

    A device or a pipe (/dev/null, /dev/stdout) is written to, not replaced; of a symbolic link, what it points at is
    replaced. Raises OSError.
    """
    if _is_special(path):
        with path.open("wb") as file:
            yield file
        return
    place = Path(os.path.realpath(path))
    temporary = place.with_name(f".{place.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with temporary.open("wb") as file:
            yield file
        os.replace(temporary, place)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()
