"""A repository of an OCI registry (distribution spec 1.1) as a place."""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urljoin, urlsplit

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry.places import oci, strict_json
from opsplice.targets.registry.places.connection import ATTEMPTS, Connection, attempts, bounded, streamed
from opsplice.targets.registry.places.oci import Descriptor
from opsplice.targets.registry.places.place import (
    NotFoundError,
    Progress,
    fallback_tag,
    no_progress,
    open_file,
    receive,
    with_referrer,
)
from opsplice.targets.registry.places.reference import Reference

_DOCUMENTS = (oci.INDEX, oci.MANIFEST)
_ACCEPT = {"Accept": ", ".join(_DOCUMENTS)}
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}", re.ASCII)
_MOST_PAGES = 20
_LARGEST_KNOWN = 1 << 16
_MOST_TAGS = 10_000
# A registry may need long until a large upload is kept.
_COMMIT_SECONDS = 300.0


class Remote:
    """The repository that a reference names; its tag and digest do not matter."""

    def __init__(self, reference: Reference, environ: Mapping[str, str] = os.environ) -> None:
        self.source = reference.source
        self._reference, self._environ = reference, environ
        # Small documents by their digests: what was read need not be fetched again.
        self._known: dict[str, bytes] = {}

    def __str__(self) -> str:
        return self.source

    @functools.cached_property
    def _connection(self) -> Connection:
        """Made when first used: what is never asked costs nothing."""
        return Connection(self._reference, self._environ)

    def resolve(self, name: str) -> Descriptor:
        try:
            return self._resolved(name)
        except NotFoundError:
            raise NotFoundError(f"{self.source} has no {name}", hint=self._there()) from None

    def _resolved(self, name: str) -> Descriptor:
        def get() -> tuple[bytes, str]:
            response = self._connection.send("GET", f"manifests/{name}", (200,), headers=_ACCEPT)
            media_type = response.headers.get("Content-Type", "").partition(";")[0].strip()
            return bounded(response, oci.LARGEST_DOCUMENT, f"what {self.source} has as {name}"), media_type

        data, media_type = attempts(get)
        if media_type not in _DOCUMENTS:
            raise OpspliceError(
                f"{name} in {self.source} is not a package of opsplice but something else, such as a container image"
            )
        descriptor = Descriptor.of(data, media_type)
        if name.startswith("sha256:"):
            replace(descriptor, digest=name).check(data, self.source)
        self._known[descriptor.digest] = data
        return descriptor

    def tags(self) -> list[str]:
        found: list[str] = []
        what = f"the list of tags of {self.source}"
        for page in self._pages("tags/list?n=1000", what):
            table = strict_json.parse(page, what)
            # A repository without tags has null there.
            found += table.texts("tags") if table.values.get("tags") is not None else ()
            if len(found) > _MOST_TAGS:
                raise OpspliceError(f"{self.source} has more than {_MOST_TAGS} tags")
        return sorted(tag for tag in set(found) if _TAG.fullmatch(tag) and not tag.startswith("sha256-"))

    def read(self, descriptor: Descriptor) -> bytes:
        if (known := self._known.get(descriptor.digest)) is not None:
            return descriptor.check(known, self.source)

        def get() -> bytes:
            response = self._connection.send("GET", self._path(descriptor), (200,), headers=_ACCEPT)
            return bounded(response, oci.LARGEST_DOCUMENT, f"{descriptor.digest} of {self.source}")

        try:
            data = descriptor.check(attempts(get), self.source)
        except NotFoundError:
            raise self._missing(descriptor) from None
        if len(data) <= _LARGEST_KNOWN:
            self._known[descriptor.digest] = data
        return data

    def has(self, descriptor: Descriptor) -> bool:
        def head() -> bool:
            self._connection.send("HEAD", self._path(descriptor), (200,), headers=_ACCEPT).close()
            return True

        try:
            return attempts(head)
        except NotFoundError:
            return False

    def path(self, _descriptor: Descriptor) -> None:
        return None

    def fetch(self, descriptor: Descriptor, into: Path, progress: Progress = no_progress) -> None:
        what = f"{descriptor.digest} of {self.source}"

        def opened(offset: int) -> tuple[int, Iterable[bytes]]:
            headers = {"Range": f"bytes={offset}-"} if offset else {}
            # 416: the registry has less than it said.
            response = self._connection.send("GET", self._path(descriptor), (200, 206, 416), headers=headers)
            if response.status_code == 416:
                response.close()
                return opened(0)
            begins = response.headers.get("Content-Range", "").startswith(f"bytes {offset}-")
            if response.status_code == 206 and not (offset and begins):
                response.close()
                raise OpspliceError(f"{self.source} gives another range of {descriptor.digest} than was asked for")
            return (offset if response.status_code == 206 else 0), streamed(response, what)

        try:
            attempts(lambda: receive(descriptor, into, self.source, opened, progress))
        except NotFoundError:
            raise self._missing(descriptor) from None

    def put_blob(self, descriptor: Descriptor, file: Path, progress: Progress = no_progress) -> None:
        try:
            with open_file(file) as opened:
                upload = _Upload(opened, str(file), descriptor, progress)
                self._upload(descriptor, upload.again)
        except FileNotFoundError:
            raise NotFoundError(f"there is no {file}") from None

    def put_bytes(self, data: bytes, media_type: str) -> Descriptor:
        descriptor = Descriptor.of(data, media_type)
        if not self.has(descriptor):
            self._upload(descriptor, lambda: data)
        return descriptor

    def put_manifest(self, data: bytes, media_type: str, tag: str = "") -> Descriptor:
        descriptor = Descriptor.of(data, media_type)

        def put() -> bool:
            headers = {"Content-Type": media_type}
            url = f"manifests/{tag or descriptor.digest}"
            with self._connection.send("PUT", url, (201,), headers=headers, body=lambda: data) as response:
                if (kept := response.headers.get("Docker-Content-Digest", descriptor.digest)) != descriptor.digest:
                    raise oci.damaged(descriptor.digest, f"{self.source} keeps {kept!r:.100}, and")
                return "OCI-Subject" in response.headers

        lists_it = attempts(put)
        document = oci.parse_manifest(data) if media_type == oci.MANIFEST else oci.parse_index(data)
        if document.subject and not lists_it:
            self._list(document.subject.digest, replace(descriptor, artifact_type=document.artifact_type))
        return descriptor

    def _list(self, subject: str, one: Descriptor) -> None:
        """Put a referrer into the index under the fallback tag; again if somebody else wrote that at the same time."""
        for _ in range(ATTEMPTS):
            self.put_manifest(with_referrer(self._by_tag(subject), one), oci.INDEX, fallback_tag(subject))
            if one in self._by_tag(subject):
                return
        raise OpspliceError(f"{self.source} does not keep what refers to {subject}", hint="try again later")

    def referrers(self, digest: str) -> list[Descriptor]:
        try:
            pages = list(
                self._pages(f"referrers/{oci.check_digest(digest)}", f"the list of referrers of {self.source}")
            )
        except NotFoundError:
            return self._by_tag(digest)
        return [each for page in pages for each in oci.parse_index(page).manifests]

    def _by_tag(self, digest: str) -> list[Descriptor]:
        try:
            return list(oci.parse_index(self.read(self._resolved(fallback_tag(digest)))).manifests)
        except NotFoundError:
            return []

    def _pages(self, url: str, what: str) -> Iterable[bytes]:
        """The pages of a list, each of which links to the next."""
        for _ in range(_MOST_PAGES):
            page = url

            def get(page: str = page) -> tuple[bytes, str]:
                response = self._connection.send("GET", page, (200,))
                following = response.links.get("next", {}).get("url", "")
                return bounded(response, oci.LARGEST_DOCUMENT, what), following

            data, following = attempts(get)
            yield data
            url = urljoin(urljoin(self._connection.base, url), following)
            if not following or not self._connection.is_own(url):
                return

    def _upload(self, descriptor: Descriptor, body: Callable[[], object]) -> None:
        def put() -> None:
            with self._connection.send("POST", "blobs/uploads/", (202,), body=lambda: b"") as response:
                place = self._connection.checked(urljoin(response.url, response.headers.get("Location", "")))
            url = f"{place}{'&' if urlsplit(place).query else '?'}digest={descriptor.digest}"
            headers = {"Content-Type": "application/octet-stream"}
            self._connection.send("PUT", url, (201,), headers=headers, body=body, seconds=_COMMIT_SECONDS).close()

        attempts(put)

    def _path(self, descriptor: Descriptor) -> str:
        return f"{'manifests' if descriptor.media_type in _DOCUMENTS else 'blobs'}/{descriptor.digest}"

    def _missing(self, descriptor: Descriptor) -> NotFoundError:
        return NotFoundError(f"{self.source} has no {descriptor.digest}")

    def _there(self) -> str | None:
        try:
            tags = self.tags()
        except OpspliceError:
            return None
        return f"it has {', '.join(tags[-20:])}" if tags else None


class _Upload:
    """A file that is sent, and hashed meanwhile: its end is not sent if the whole is not what it should be."""

    def __init__(self, file: BinaryIO, name: str, descriptor: Descriptor, progress: Progress) -> None:
        self._file, self._name, self._descriptor, self._progress = file, name, descriptor, progress
        self._sent, self._digest = 0, hashlib.sha256()

    def again(self) -> _Upload:
        """From the beginning."""
        self._file.seek(0)
        self._progress(-self._sent)
        self._sent, self._digest = 0, hashlib.sha256()
        return self

    def __len__(self) -> int:
        return self._descriptor.size - self._sent

    def read(self, count: int = -1) -> bytes:
        data = self._file.read(min(count, len(self)) if count >= 0 else len(self))
        self._digest.update(data)
        self._sent += len(data)
        if (not data or not len(self)) and self._digest.hexdigest() != self._descriptor.hex:
            raise oci.damaged(self._descriptor.digest, self._name)
        self._progress(len(data))
        return data
