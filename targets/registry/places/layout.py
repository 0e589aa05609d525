"""An OCI image layout folder as a place: a mirror, a folder for machines without a network, the packages in the cache.

    <root>/oci-layout, index.json   which indexes there are, by name
    <root>/blobs/sha256/<digest>    all bytes, under their own digest
    <root>/.lock                    held (flock) while index.json changes

Other tools read and write the same folder: `skopeo copy oci:FOLDER:NAME ...`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from opsplice.common.errors import OpspliceError
from opsplice.common.files import replacing
from opsplice.targets.registry.places import oci, strict_json
from opsplice.targets.registry.places.oci import Descriptor, Index
from opsplice.targets.registry.places.place import (
    CHUNK,
    NotFoundError,
    Progress,
    explained,
    fallback_tag,
    is_sound,
    no_progress,
    open_file,
    receive,
    with_referrer,
)
from opsplice.targets.registry.places.reference import Reference

_MOST_NAMES = 10_000
_MARK = strict_json.canonical({"imageLayoutVersion": "1.0.0"})


class Layout:
    """The folder `root`; it is made when something is first put there.

    repository: what names in it begin with (`localhost:5443/acme/kernels`), so that one folder serves many; or "".
    """

    def __init__(self, root: Path, repository: str = "") -> None:
        self.root = Path(os.path.abspath(root))
        self.repository = repository

    @staticmethod
    def of(root: Path, reference: Reference) -> Layout:
        """What a folder has of the repository of a reference."""
        return Layout(root, f"{reference.host}/{reference.repository}")

    def __str__(self) -> str:
        return str(self.root)

    def resolve(self, name: str) -> Descriptor:
        if name.startswith("sha256:"):
            return self._described(name)
        for entry in self._entries():
            if entry.annotations.get(oci.REF_NAME) == self._full(name):
                return Descriptor(entry.media_type, entry.digest, entry.size)
        there = ", ".join(self.tags()[:20])
        raise NotFoundError(
            f"{self.root} has no {self._full(name)!r}", hint=f"it has {there}" if there else "it has no packages"
        )

    def tags(self) -> list[str]:
        start = f"{self.repository}:" if self.repository else ""
        names = (entry.annotations.get(oci.REF_NAME, "") for entry in self._entries())
        found = sorted(name.removeprefix(start) for name in names if name.startswith(start))
        return [name for name in found if name and not name.startswith("sha256-")]

    def names(self) -> dict[str, Descriptor]:
        """All names in the folder, whatever the repository, and what they name."""
        entries = self._entries()
        return {entry.annotations[oci.REF_NAME]: entry for entry in entries if oci.REF_NAME in entry.annotations}

    def read(self, descriptor: Descriptor) -> bytes:
        path = self.path(descriptor)
        try:
            with open_file(path) as file:
                data = file.read(min(descriptor.size, oci.LARGEST_DOCUMENT) + 1)
        except OSError:
            raise self._missing(descriptor.digest) from None
        return descriptor.check(data, str(self.root))

    def has(self, descriptor: Descriptor) -> bool:
        return is_sound(self.path(descriptor), descriptor)

    def path(self, descriptor: Descriptor) -> Path:
        return self._blob(descriptor.digest)

    def fetch(self, descriptor: Descriptor, into: Path, progress: Progress = no_progress) -> None:
        _copy(descriptor, self.path(descriptor), into, str(self.root), progress)

    def put_blob(self, descriptor: Descriptor, file: Path, progress: Progress = no_progress) -> None:
        self._begin()
        _copy(descriptor, file, self.path(descriptor), str(file), progress)

    def put_bytes(self, data: bytes, media_type: str) -> Descriptor:
        self._begin()
        with explained(self.root / "blobs"):
            return self._written(data, media_type)

    def put_manifest(self, data: bytes, media_type: str, tag: str = "") -> Descriptor:
        subject = _subject(data, media_type)
        with self._changing() as entries:
            descriptor = self._written(data, media_type)
            if tag:
                self._name(entries, tag, descriptor)
            if subject:
                self._name(entries, fallback_tag(subject.digest), self._listed(entries, subject, descriptor, data))
        return Descriptor(media_type, descriptor.digest, descriptor.size)

    def referrers(self, digest: str) -> list[Descriptor]:
        return self._referrers(self._entries(), digest)

    def forget(self, names: Iterable[str]) -> None:
        """Take full names out of the folder; their bytes stay."""
        gone = set(names)
        with self._changing() as entries:
            entries[:] = [entry for entry in entries if entry.annotations.get(oci.REF_NAME) not in gone]

    def _listed(self, entries: list[Descriptor], subject: Descriptor, one: Descriptor, data: bytes) -> Descriptor:
        kind = oci.parse_manifest(data).artifact_type
        listed = with_referrer(self._referrers(entries, subject.digest), replace(one, artifact_type=kind))
        return self._written(listed, oci.INDEX)

    def _referrers(self, entries: list[Descriptor], digest: str) -> list[Descriptor]:
        name = self._full(fallback_tag(digest))
        found = [entry for entry in entries if entry.annotations.get(oci.REF_NAME) == name]
        return list(oci.parse_index(self.read(found[0])).manifests) if found else []

    def _name(self, entries: list[Descriptor], tag: str, descriptor: Descriptor) -> None:
        name = self._full(tag)
        entries[:] = [entry for entry in entries if entry.annotations.get(oci.REF_NAME) != name]
        entries.append(replace(descriptor, annotations={oci.REF_NAME: name}))

    def _full(self, tag: str) -> str:
        return f"{self.repository}:{tag}" if self.repository else tag

    def _described(self, digest: str) -> Descriptor:
        path = self._blob(oci.check_digest(digest))
        if not path.is_file():
            raise self._missing(digest)
        size = path.stat().st_size
        if size > oci.LARGEST_DOCUMENT:
            raise OpspliceError(f"{digest} in {self.root} is too large for an index or a manifest")
        data = self.read(Descriptor(oci.INDEX, digest, size))
        media_type = strict_json.parse(data, f"{digest} in {self.root}").text("mediaType", oci.MANIFEST)
        return Descriptor(media_type, digest, size)

    def _missing(self, digest: str) -> NotFoundError:
        return NotFoundError(f"{self.root} has no {digest}", hint="pull or mirror the package to it first")

    def _blob(self, digest: str) -> Path:
        return self.root / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def _entries(self) -> list[Descriptor]:
        path = self.root / "index.json"
        try:
            with open_file(path) as file:
                data = file.read(oci.LARGEST_DOCUMENT + 1)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise OpspliceError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
        return list(oci.parse_index(data, str(path), _MOST_NAMES).manifests)

    def _begin(self) -> None:
        with explained(self.root / "blobs"):
            (self.root / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
            if not (self.root / "oci-layout").is_file():
                with replacing(self.root / "oci-layout") as file:
                    file.write(_MARK)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[Descriptor]]:
        """The entries of index.json, which are written when nothing was raised meanwhile."""
        self._begin()
        with explained(self.root / "index.json"), open(self.root / ".lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            entries = self._entries()
            yield entries
            with replacing(self.root / "index.json") as file:
                file.write(Index(tuple(entries)).to_bytes())

    def _written(self, data: bytes, media_type: str) -> Descriptor:
        descriptor = Descriptor.of(data, media_type)
        if not self.has(descriptor):
            with replacing(self.path(descriptor)) as file:
                file.write(data)
        return descriptor


def _copy(descriptor: Descriptor, file: Path, into: Path, source: str, progress: Progress) -> None:
    def opened(offset: int) -> tuple[int, Iterator[bytes]]:
        try:
            reader = open_file(file)
        except OSError:
            raise NotFoundError(f"{source} has no {descriptor.digest}") from None
        reader.seek(offset)
        return offset, _chunks(reader)

    receive(descriptor, into, source, opened, progress)


def _chunks(reader: BinaryIO) -> Iterator[bytes]:
    with reader:
        while chunk := reader.read(CHUNK):
            yield chunk


def _subject(data: bytes, media_type: str) -> Descriptor | None:
    return oci.parse_manifest(data).subject if media_type == oci.MANIFEST else oci.parse_index(data).subject
