"""A content-addressed store on disk, shared by processes.

    <root>/keys/<key>            JSON: the digest of what was built for this key, and what its builder noted
    <root>/blobs/<sha256>.<ext>  the bytes, under their own digest
    <root>/locks/<key>           held (flock) by the process that builds
    <root>/tmp/<key>/            where the holder of the lock works

Files appear under their final name complete or not at all (write, fsync, rename), and a key is written after its blob,
so a process that dies half-way leaves only its folder under tmp, which the next builder of that key empties. A record
says for which key it is, and a blob is hashed each time it is handed out; what does not fit is built again. A store
that others may write to is not used.

It must not know what is kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from opsplice.common import cache
from opsplice.common.errors import OpspliceError

_PARTS = ("keys", "blobs", "locks", "tmp")
_FRESH = 3600.0
_DAY = 86400.0

Builder = Callable[[Path], Mapping[str, Any] | None]

_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Entry:
    """One thing in the store.

    path:   absolute path of its bytes; not to be written to.
    digest: SHA-256 of its bytes, in hex.
    built:  True when this call built it, False when it was there.
    notes:  what its builder returned; JSON values.
    """

    path: Path
    digest: str
    built: bool
    notes: Mapping[str, Any]


def key_of(*parts: bytes | str) -> str:
    """A key from parts: SHA-256 over each part with its length, so that no two lists of parts collide by joining."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def recalled(
    folder: str,
    key: str,
    largest: int,
    *,
    read: Callable[[bytes], _Made],
    make: Callable[[], _Made],
    write: Callable[[_Made], bytes],
) -> _Made:
    """What was kept of `key` in a folder of the cache, else what `make` gives, which is kept. Raises what that raises.

    folder:  its name. largest: in bytes; the oldest entries go when all of them take more.
    read:    what was written, made again from bytes; it may raise whatever it likes for bytes that are none.

    Without a cache to read, or room to write, it is made each time.
    """
    store = Store(cache.folder() / folder)
    try:
        cache.check(store.root.parent)
        if (entry := store.find(key, "")) is not None:
            return read(entry.path.read_bytes())
    except Exception:  # whatever is wrong with what is kept: what it is made from is at hand
        pass
    made = make()
    with contextlib.suppress(OSError, OpspliceError):
        cache.make(store.root.parent)
        store.put(key, "", write(made))
        store.bound(largest)
    return made


class Store:
    """The store under one folder; it is made when something is first written."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = Path(os.path.abspath(root if root is not None else cache.folder()))

    def get_or_build(self, key: str, suffix: str, build: Builder) -> Entry:
        """The entry of `key`, built by `build(path)` where it is absent or damaged.

        key:    hex digest of all that the result depends on (see `key_of`).
        suffix: the file name's ending, with its dot.
        build:  writes the file at the path it is given; what it returns (JSON values) is kept as the entry's notes.
                Whatever it raises passes through, and nothing is kept; its OSErrors are taken for failures to write.

        Processes that ask for one key at one time build it once. Raises OpspliceError when the folder cannot be used,
        or is not the user's alone to write to.
        """
        if (entry := self.find(key, suffix)) is not None:
            return entry
        with self._lock(key):
            # Another process may have built it while this one waited for the lock.
            if (entry := self._find(key, suffix)) is not None:
                return entry
            return self._build(key, suffix, build)

    def find(self, key: str, suffix: str) -> Entry | None:
        """The entry of `key` if it is there and whole. Raises OpspliceError where the folder is not the user's own."""
        cache.check(self.root, *(self.root / part for part in _PARTS))
        return self._find(key, suffix)

    def put(self, key: str, suffix: str, data: bytes) -> Entry:
        """Make `data` the entry of `key`, whatever it was before. Raises what `get_or_build` raises."""

        def write(output: Path) -> None:
            output.write_bytes(data)

        with self._lock(key):
            return self._build(key, suffix, write)

    def bound(self, size: int) -> None:
        """Remove what was used longest ago until the rest takes at most so many bytes. No record is read before."""
        if self._size() <= size:
            return
        blobs = dict[str, dict[Path, os.stat_result]]()
        for path, status in self._files("blobs").items():
            blobs.setdefault(_named(path), {})[path] = status
        total = 0
        for record, status in sorted(self._files("keys").items(), key=lambda item: -item[1].st_mtime_ns):
            # Its blob goes with the one that used it last.
            entry = {record: status, **blobs.pop(self._digest(record), {})}
            total += sum(status.st_size for status in entry.values())
            if total > size:
                self._remove(entry)

    def check_writable(self) -> None:
        """Raises OpspliceError unless files can be made in the store."""
        with self._lock("probe"), self._workplace("probe") as folder, self._explained():
            _write_synced(folder / "probe", b"probe")

    def sweep(self, older: float | None = None, dry_run: bool = False) -> tuple[int, int]:
        """Remove what was not used for so many seconds, and what no key leads to; how many entries and bytes that is.

        older: None removes no entry. dry_run: only count. What was written within the last hour stays in any case, for
        those who are about to use it.
        """
        now = time.time()
        oldest = 0.0 if older is None else min(now - older, now - _FRESH)
        records = self._files("keys")
        gone = {path: status for path, status in records.items() if status.st_mtime < oldest}
        named = {self._digest(path) for path in records if path not in gone}
        loose = {
            path: status
            for path, status in self._files("blobs").items()
            if _named(path) not in named and status.st_mtime < now - _FRESH
        }
        if not dry_run:
            self._remove((*gone, *loose))
        return len(gone), sum(status.st_size for status in (*gone.values(), *loose.values()))

    def _size(self) -> int:
        total = 0
        for part in ("keys", "blobs"):
            with contextlib.suppress(FileNotFoundError), os.scandir(self.root / part) as files:
                for file in files:
                    with contextlib.suppress(FileNotFoundError):
                        total += file.stat(follow_symlinks=False).st_size
        return total

    def _files(self, part: str) -> dict[Path, os.stat_result]:
        """The files of a part that other processes have not taken away meanwhile."""
        found = {}
        with contextlib.suppress(FileNotFoundError):
            for path in (self.root / part).iterdir():
                with contextlib.suppress(FileNotFoundError):
                    found[path] = path.stat()
        return {path: status for path, status in found.items() if stat.S_ISREG(status.st_mode)}

    def _remove(self, paths: Iterable[Path]) -> None:
        for path in paths:
            with self._explained():
                path.unlink(missing_ok=True)

    @staticmethod
    def _digest(record: Path) -> str:
        try:
            return str(json.loads(record.read_bytes())["digest"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def _find(self, key: str, suffix: str) -> Entry | None:
        try:
            record = json.loads((self.root / "keys" / key).read_bytes())
            digest, notes = record["digest"], record["notes"]
            blob = self._blob(digest, suffix)
            sound = record["key"] == key and hashlib.sha256(blob.read_bytes()).hexdigest() == digest
        except (OSError, ValueError, KeyError, TypeError):
            # Absent, unreadable or damaged: in each case building again is the remedy, and it reports what stops it.
            return None
        if not sound:
            return None
        self._note_use(self.root / "keys" / key)
        return Entry(blob, digest, False, notes)

    @staticmethod
    def _note_use(record: Path) -> None:
        """Its time says when an entry was last used, to the day; a store that cannot be written to keeps its times."""
        with contextlib.suppress(OSError):
            if record.stat().st_mtime < time.time() - _DAY:
                os.utime(record)

    def _build(self, key: str, suffix: str, build: Builder) -> Entry:
        with self._workplace(key) as folder:
            product = folder / f"product{suffix}"
            with self._explained():
                notes = dict(build(product) or {})
            data = product.read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            with self._explained():
                # The builder may have left a link or odd permissions, so the bytes are written afresh.
                self._publish(folder, self._blob(digest, suffix), data)
                record = json.dumps({"key": key, "digest": digest, "notes": notes}, sort_keys=True).encode()
                self._publish(folder, self.root / "keys" / key, record)
        return Entry(self._blob(digest, suffix), digest, True, notes)

    def _blob(self, digest: str, suffix: str) -> Path:
        return self.root / "blobs" / f"{digest}{suffix}"

    @staticmethod
    def _publish(folder: Path, target: Path, data: bytes) -> None:
        target.parent.mkdir(exist_ok=True)
        staged = folder / "staged"
        _write_synced(staged, data)
        _clear(target)
        os.replace(staged, target)

    @contextlib.contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        with self._explained():
            cache.make(self.root)
            path = self.root / "locks" / key
            path.parent.mkdir(exist_ok=True)
            _clear(path)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with self._explained():
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def _workplace(self, key: str) -> Iterator[Path]:
        folder = self.root / "tmp" / key
        with self._explained():
            # Left by a builder that was killed; the lock says that nobody else works here now.
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OpspliceError(
                f"cannot write to the cache {self.root}: {error.strerror or error}",
                hint="make room in that folder or make it writable, or set OPSPLICE_CACHE to another folder",
            ) from error


def _named(blob: Path) -> str:
    """The digest that is its name."""
    return blob.name.partition(".")[0]


def _clear(path: Path) -> None:
    """Remove a folder that stands where a file is to be."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)


def _write_synced(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
