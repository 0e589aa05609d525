"""Files of the user's: read only if they are files and not too large, written whole or not at all."""

from __future__ import annotations

import contextlib
import difflib
import os
import shutil
import stat
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from opsplice.common.errors import OpspliceError

# The largest file of code, and the largest text that people write.
LARGEST = 1 << 30
LARGEST_TEXT = 64 << 20

_INSTALLED = ("/site-packages/", "/dist-packages/", "<frozen ", os.path.dirname(os.__file__) + os.sep)
_HERE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def read_file(path: Path, largest: int = LARGEST) -> bytes:
    """The bytes of a file. Raises OpspliceError as `check_file` does, and when it cannot be read."""
    check_file(path, largest)
    try:
        # What has taken the file's place since then is not a pipe to wait for either.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            _check_status(path, status, largest)
            # Python takes memory for all that it is told to read; what has no size, as in /proc, is small.
            return file.read(status.st_size or LARGEST_TEXT)
    except OSError as error:
        raise _unreadable(path, error) from None


def is_file(path: Path) -> bool:
    """Whether there is such a file; a name that is too long, or holds NUL, is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_installed(file: str) -> bool:
    """Whether a Python file is a part of an installed package, of Python or of opsplice, and not the user's own."""
    return any(sign in file for sign in _INSTALLED) or file.startswith(_HERE)


def check_file(path: Path, largest: int | None = LARGEST, hint: str | None = None) -> None:
    """Raise OpspliceError unless `path` is a regular file that is not too large; it is not opened.

    largest: in bytes; None for files that are not read at once. hint: what to give instead of a folder or a device.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise _dangling(path) from None
        raise OpspliceError(f"no such file: {path}", hint=_near(path)) from None
    except (OSError, RuntimeError, ValueError) as error:  # ValueError: a name with NUL in it
        raise (_dangling(path) if _is_link(path) else _unreadable(path, error)) from None
    _check_status(path, status, largest, hint)


def check_name(path: Path) -> None:
    """Raise OpspliceError for a name that is not UTF-8, of a file that IREE opens or a spec names."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        raise OpspliceError(
            f"the name of {path} is not UTF-8, so IREE cannot open it and specs cannot name it",
            hint="rename the file or its folder",
        ) from None


def _check_status(path: Path, status: os.stat_result, largest: int | None, hint: str | None = None) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise OpspliceError(f"{path} is a folder, not a file", hint=hint)
    if not stat.S_ISREG(status.st_mode):
        raise OpspliceError(f"{path} is a device or a pipe, not a file", hint=hint or "write it to a file first")
    if largest is not None and status.st_size > largest:
        raise OpspliceError(f"{path} is larger than {_size(largest)}, the most that is read")


def _size(count: int) -> str:
    return f"{count / (1 << 30):g} GiB" if count >= 1 << 30 else f"{count / (1 << 20):g} MiB"


def _unreadable(path: Path, error: Exception) -> OpspliceError:
    reason = (getattr(error, "strerror", None) or str(error)).lower()
    return OpspliceError(f"cannot read {path}: {reason}", hint="check the file's permissions")


def _dangling(path: Path) -> OpspliceError:
    return OpspliceError(f"{path} is a link to {os.readlink(path)}, which leads to no file", hint="make the link again")


def _is_link(path: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return path.is_symlink()
    return False


def _named(folder: Path) -> str:
    return "this folder" if folder == Path() else str(folder)


def _near(path: Path) -> str:
    try:
        there = sorted(entry.name for entry in path.parent.iterdir() if not entry.is_dir())
    except OSError:
        return f"there is no folder {path.parent}"
    nearest = difflib.get_close_matches(path.name, there, n=1)
    return f"did you mean {nearest[0]}?" if nearest else f"no file in {_named(path.parent)} has a name like it"


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


def write_files(folder: Path, files: Mapping[str, bytes], *, new: str = "") -> list[Path]:
    """Write files below a folder, which is made, and return them. new: what to do if the folder holds anything yet.

    Raises OpspliceError when that fails; a new folder is then as it was.
    """
    was_there = folder.exists()
    if new and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OpspliceError(f"{folder} exists already", hint=new)
    try:
        for parent in dict.fromkeys([folder, *((folder / name).parent for name in files)]):
            _make_folder(parent)
        return [write_file(folder / name, content) for name, content in files.items()]
    except BaseException:
        if new:
            _empty(folder, itself=not was_there)
        raise


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OpspliceError(f"cannot make the folder {folder}: {error.strerror or error}") from None


def _empty(folder: Path, *, itself: bool) -> None:
    """Remove what is in a folder, as far as that can be done, or the folder itself."""
    for each in [folder] if itself else list(folder.iterdir()):
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)


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
