"""Where packages are: a registry or a layout folder, behind one interface, and how bytes get from it into a file.

All that a place gives is compared with its digest here, whoever else did so.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import io
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry.places import oci
from opsplice.targets.registry.places.oci import Descriptor, Index

# Told how many bytes more (or less, when some are thrown away) have come.
Progress = Callable[[int], None]

# What gives the bytes of a blob from an offset on: where it really begins, and the bytes.
Opener = Callable[[int], tuple[int, Iterable[bytes]]]

CHUNK = 1 << 20


class NotFoundError(OpspliceError):
    """A place does not have what was asked for."""


class Place(Protocol):
    """`str` of a place says in messages where it is."""

    def resolve(self, name: str) -> Descriptor:
        """The index or manifest of a tag or a digest. Raises NotFoundError."""

    def tags(self) -> list[str]: ...

    def read(self, descriptor: Descriptor) -> bytes:
        """The bytes of an index, a manifest or a config. Raises NotFoundError, and OpspliceError if they are others."""

    def has(self, descriptor: Descriptor) -> bool:
        """Whether an index, a manifest or a blob need not be put there."""

    def path(self, descriptor: Descriptor) -> Path | None:
        """Where a blob is, or is to be, in a file; None in a registry."""

    def fetch(self, descriptor: Descriptor, into: Path, progress: Progress = ...) -> None:
        """Write a blob to a file, which appears whole or not at all; what was begun is resumed."""

    def put_blob(self, descriptor: Descriptor, file: Path, progress: Progress = ...) -> None: ...

    def put_bytes(self, data: bytes, media_type: str) -> Descriptor:
        """Put a small blob there."""

    def put_manifest(self, data: bytes, media_type: str, tag: str = "") -> Descriptor:
        """Put an index or a manifest there, after all that it names; with a subject it becomes a referrer of that."""

    def referrers(self, digest: str) -> list[Descriptor]:
        """Manifests whose subject has this digest. Their type stands in them: the lists of some servers are wrong."""


def no_progress(_count: int) -> None:
    """Says nothing."""


def fallback_tag(digest: str) -> str:
    """The tag of the index that lists referrers where a server does not."""
    return digest.replace(":", "-")


def with_referrer(referrers: Iterable[Descriptor], one: Descriptor) -> bytes:
    """The index under the fallback tag, with one more."""
    others = [each for each in referrers if each.digest != one.digest]
    return Index((*others, one)).to_bytes()


def open_file(path: Path) -> io.BufferedReader:
    """A regular file, to be read. Raises OSError for others too: a stranger's folder may have pipes and devices."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return open(handle, "rb")


def is_sound(path: Path, descriptor: Descriptor) -> bool:
    """Whether a file is there and holds the bytes of a descriptor."""
    try:
        if path.stat().st_size != descriptor.size:
            return False
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == descriptor.hex
    except OSError:
        return False


def describe(path: Path, media_type: str) -> Descriptor:
    """The descriptor of a file's bytes. Raises OSError."""
    with open_file(path) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Descriptor(media_type, f"sha256:{digest}", file.tell())


def receive(descriptor: Descriptor, into: Path, source: str, opener: Opener, progress: Progress) -> None:
    """Write what `opener` gives to `into` if it is what the descriptor names.

    Bytes gather in a hidden file beside it, and are used by the next call if this one fails or is killed. Processes
    that want the same file wait for the first. Nothing is read beyond the descriptor's size.
    """
    with explained(into):
        into.parent.mkdir(parents=True, exist_ok=True)
        with _part(into.with_name(f".{into.name}.part")) as (file, part):
            if not is_sound(into, descriptor):
                _fill(file, descriptor, source, opener, progress)
                os.fsync(file.fileno())
                os.replace(part, into)
            else:
                part.unlink(missing_ok=True)


def _fill(file: BinaryIO, descriptor: Descriptor, source: str, opener: Opener, progress: Progress) -> None:
    resumed, total = _resumed(file, descriptor)
    if total:
        progress(total)
    if total < descriptor.size:
        start, chunks = opener(total)
        if start != total:
            progress(-total)
            resumed, total = _emptied(file), 0
        for chunk in chunks:
            total += len(chunk)
            if total > descriptor.size:
                break
            resumed.update(chunk)
            _write(file, chunk)
            progress(len(chunk))
    if total < descriptor.size:
        raise InterruptedTransferError(
            f"{source} gave {total} of the {descriptor.size} bytes of {descriptor.digest}",
            hint="try again: what has come is kept",
        )
    if total > descriptor.size or resumed.hexdigest() != descriptor.hex:
        _emptied(file)
        raise oci.damaged(descriptor.digest, source)
    file.flush()


class InterruptedTransferError(OpspliceError):
    """A transfer ended before its time; to try again is worth it. pause: how many seconds later, if that was said."""

    pause = 0.0


def _resumed(file: BinaryIO, descriptor: Descriptor) -> tuple[hashlib._Hash, int]:
    """The digest so far of what is in the file, and its size; more than there should be is thrown away."""
    file.seek(0)
    digest, total = hashlib.sha256(), 0
    while chunk := file.read(CHUNK):
        digest.update(chunk)
        total += len(chunk)
    if total > descriptor.size or (total == descriptor.size and digest.hexdigest() != descriptor.hex):
        return _emptied(file), 0
    return digest, total


def _emptied(file: BinaryIO) -> hashlib._Hash:
    file.seek(0)
    file.truncate()
    return hashlib.sha256()


def _write(file: BinaryIO, chunk: bytes) -> None:
    try:
        file.write(chunk)
    except OSError:
        # Where there is no room, what was begun is in the way.
        with contextlib.suppress(OSError):
            _emptied(file)
        raise


@contextlib.contextmanager
def _part(path: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """A file to gather bytes in, which no other process writes to meanwhile."""
    while True:
        file = open(path, "a+b", buffering=0)  # noqa: SIM115 (closed below)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            # Whoever held it before may have moved it to its final place.
            if _same(file, path):
                yield file, path
                return
        finally:
            file.close()


def _same(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Failures of the disk as errors that name the folder."""
    try:
        yield
    except OSError as error:
        raise OpspliceError(
            f"cannot write to {path.parent}: {(error.strerror or str(error)).lower()}",
            hint="make room in that folder or make it writable, or choose another folder",
        ) from error
