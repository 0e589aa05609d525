"""The packages that this machine has: pulled into the cache, unpacked into folders, swept away when nobody uses them.

    <cache>/packages/layout/             an OCI image layout: all bytes, under their digests
    <cache>/packages/unpacked/<index>/   a folder for each choice of targets, with the files under their names
    <cache>/packages/used/<index>        its time is when the package was last used
    <cache>/packages/.busy               held (flock) by those who use the packages, and by the sweeper alone

An index in the layout is named `HOST/REPOSITORY@DIGEST`: tags move, so the cache does not know them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from opsplice.common import cache
from opsplice.common.errors import OpspliceError
from opsplice.common.store import key_of
from opsplice.targets.registry import package, transfer
from opsplice.targets.registry.package import About, Choice, Package, WhyNot
from opsplice.targets.registry.places import oci
from opsplice.targets.registry.places.layout import Layout
from opsplice.targets.registry.places.oci import Descriptor
from opsplice.targets.registry.places.place import InterruptedTransferError, NotFoundError, Place, explained, is_sound
from opsplice.targets.registry.places.reference import Reference
from opsplice.targets.registry.places.transfer_progress import Meter


@dataclass(frozen=True)
class Unpacked:
    """A package as a folder. main: its main spec. files: all of it, by their paths in the folder."""

    package: Package
    choice: Choice
    folder: Path
    about: About
    files: dict[str, Descriptor]

    @property
    def main(self) -> Path:
        return self.folder / self.about.main


@dataclass(frozen=True)
class Kept:
    """A package in the cache. targets: those that were pulled. size: of its files. used: seconds since the epoch."""

    name: str
    package: Package
    targets: tuple[str, ...]
    size: int
    used: float


@dataclass(frozen=True)
class Swept:
    """What a sweep took away. freed: bytes. artifacts: how many built artifacts of the store. staying: what it left."""

    packages: tuple[Kept, ...]
    freed: int
    artifacts: int = 0
    staying: tuple[Kept, ...] = ()


class Packages:
    """The packages under one folder; it is made when something is first pulled."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = Path(os.path.abspath(root if root is not None else cache.folder() / "packages"))
        self.layout = Layout(self.root / "layout")

    def put(self, about: package.About, parts: Sequence[package.Part], repository: str) -> Descriptor:
        """Make a package that was pulled from nowhere. repository: what it is called here."""
        with self._busy(fcntl.LOCK_SH):
            descriptor = package.write(self.layout, about, parts)
            data = self.layout.read(descriptor)
            self._touch(self.layout.put_manifest(data, oci.INDEX, f"{repository}@{descriptor.digest}"))
            return descriptor

    def pull(
        self, source: Place, reference: Reference, descriptor: Descriptor, why_not: WhyNot, meter: Meter | None = None
    ) -> Unpacked:
        """Copy the chosen targets of a package into the cache, and unpack them.

        descriptor: what `source` resolved the reference to, or what a lock says.
        """
        with self._busy(fcntl.LOCK_SH):
            found = package.read(source, descriptor)
            choice = package.choose(found, why_not)
            name = f"{reference.host}/{reference.repository}@{descriptor.digest}"
            transfer.copy(source, self.layout, found, choice.taken, name, meter)
            return self._unpack(descriptor, why_not)

    def unpack(self, digest: str, why_not: WhyNot) -> Unpacked:
        """The folder of a package that was pulled, whose files are compared with their digests each time.

        Raises NotFoundError if what is wanted of it was not pulled, and OpspliceError if it is damaged.
        """
        with self._reading():
            return self._unpack(self.layout.resolve(digest), why_not)

    def get(
        self,
        reference: Reference,
        digest: str,
        why_not: WhyNot,
        sources: Sequence[Place],
        meter: Meter | None = None,
    ) -> Unpacked:
        """The folder of a package: from the cache, else from the first source that has it."""
        missing: OpspliceError | None = None
        try:
            return self.unpack(digest, why_not)
        except NotFoundError:
            pass
        except oci.DamagedError as error:
            missing = error
        for source in sources:
            try:
                return self.pull(source, reference, source.resolve(digest), why_not, meter)
            except (NotFoundError, InterruptedTransferError) as error:
                missing = error
        hint = f"opsplice kernel pull {reference}"
        raise missing or NotFoundError(f"{reference.at(digest)} is not in the cache", hint=hint)

    def kept(self) -> list[Kept]:
        """All packages that can be read, by name."""
        found = (
            self._kept(name, descriptor) for name, descriptor in sorted(self.layout.names().items()) if "@" in name
        )
        return [each for each in found if each is not None]

    def sweep(self, older: float | None = None) -> Swept:
        """Take away what no package needs, and packages that were not used for so many seconds."""
        if not self.root.is_dir():
            return Swept((), 0)
        with self._busy(fcntl.LOCK_EX):
            before = _size(self.root)
            oldest = 0.0 if older is None else time.time() - older
            kept = self.kept()
            gone = [each for each in kept if each.used < oldest]
            left = tuple(each for each in kept if each not in gone)
            staying = {each.package.descriptor.digest for each in left}
            names = self.layout.names()
            self.layout.forget(name for name, each in names.items() if "@" in name and each.digest not in staying)
            self.layout.forget(name for name in names if _subject(name) not in staying and "@" not in name)
            self._remove_blobs(self._reached())
            for folder in ("unpacked", "used"):
                for path in _listed(self.root / folder):
                    if f"sha256:{path.name}" not in staying:
                        _remove(path)
            return Swept(tuple(gone), before - _size(self.root), staying=left)

    def _unpack(self, descriptor: Descriptor, why_not: WhyNot) -> Unpacked:
        found = package.read(self.layout, descriptor)
        choice = package.choose(found, why_not)
        parts = [package.contents(self.layout, found, variant) for variant in choice.taken]
        files = package.merged(found, parts)
        key = key_of(*(variant.descriptor.digest for variant in choice.taken))[:16]
        folder = self.root / "unpacked" / descriptor.hex / key
        for path, layer in files.items():
            self._place(layer, folder / path)
        self._touch(descriptor)
        return Unpacked(found, choice, folder, parts[0].about, files)

    def _touch(self, descriptor: Descriptor) -> None:
        """Note that a package was used; a cache that cannot be written to keeps what it has noted."""
        with contextlib.suppress(OSError):
            (self.root / "used").mkdir(exist_ok=True)
            (self.root / "used" / descriptor.hex).touch()

    def _place(self, layer: Descriptor, path: Path) -> None:
        if is_sound(path, layer):
            return
        blob = self.layout.path(layer)
        if not blob.exists():
            raise NotFoundError(f"{blob} is not there", hint="pull the package again")
        if not self.layout.has(layer):
            raise oci.damaged(layer.digest, str(blob))
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            staged = path.with_name(f".{path.name}.{os.getpid()}")
            staged.unlink(missing_ok=True)
            try:
                os.link(blob, staged)
            except OSError:
                shutil.copyfile(blob, staged)  # a file system without hard links
            os.replace(staged, path)

    def _kept(self, name: str, descriptor: Descriptor) -> Kept | None:
        descriptor = Descriptor(descriptor.media_type, descriptor.digest, descriptor.size)
        try:
            found = package.read(self.layout, descriptor)
            there = [variant for variant in found.variants if self.layout.path(variant.descriptor).exists()]
            blobs = {blob.digest: blob.size for each in there for blob in self._blobs(each.descriptor)}
        except OpspliceError:
            return None
        try:
            used = (self.root / "used" / descriptor.hex).stat().st_mtime
        except OSError:
            used = 0.0
        return Kept(name, found, tuple(str(each) for each in there), sum(blobs.values()), used)

    def _blobs(self, descriptor: Descriptor) -> list[Descriptor]:
        manifest = oci.parse_manifest(self.layout.read(descriptor))
        return [descriptor, manifest.config, *manifest.layers]

    def _reached(self) -> set[str]:
        """The digests of all that the layout's names lead to."""
        found = set()
        for descriptor in self.layout.names().values():
            found.add(descriptor.digest)
            with contextlib.suppress(OpspliceError):
                for entry in oci.parse_index(self.layout.read(descriptor)).manifests:
                    with contextlib.suppress(NotFoundError):
                        found.update(blob.digest for blob in self._blobs(entry))
        return found

    def _remove_blobs(self, reached: set[str]) -> None:
        for path in _listed(self.layout.root / "blobs" / "sha256"):
            if f"sha256:{path.name}" not in reached:
                _remove(path)

    def _reading(self) -> contextlib.AbstractContextManager[None]:
        """Keeps a sweeper away, where there may be one: a cache that cannot be written to has none."""
        cache.check(self.root.parent, self.root)
        is_fixed = self.root.is_dir() and not os.access(self.root, os.W_OK)
        return contextlib.nullcontext() if is_fixed else self._busy(fcntl.LOCK_SH)

    @contextlib.contextmanager
    def _busy(self, how: int) -> Iterator[None]:
        cache.check(self.root.parent, self.root)
        with explained(self.root / ".busy"):
            cache.make(self.root)
            handle = os.open(self.root / ".busy", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, how)
            yield
        finally:
            os.close(handle)


def _subject(name: str) -> str:
    """The digest that a fallback tag is for."""
    return name.replace("-", ":", 1)


def _listed(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _remove(path: Path) -> None:
    with explained(path):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _size(folder: Path) -> int:
    """How much the files of a folder take, each file once however many links it has."""
    found = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            status = path.lstat()
            found[status.st_ino] = status.st_size
    return sum(found.values())
