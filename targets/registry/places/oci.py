"""Descriptors, indexes and manifests of OCI (image spec 1.1), read strictly and written canonically.

Fields are written in the order of the Go structures of OCI's image spec, and annotations sorted. Tools in Go, such as
skopeo, write an index anew when they copy it, and it keeps its digest only if that gives the same bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry.places import strict_json
from opsplice.targets.registry.places.strict_json import Table

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"

TITLE = "org.opencontainers.image.title"
VERSION = "org.opencontainers.image.version"
LICENSES = "org.opencontainers.image.licenses"
REF_NAME = "org.opencontainers.image.ref.name"

LARGEST_DOCUMENT = strict_json.LARGEST
LARGEST_BLOB = 1 << 30
MOST_MANIFESTS = 1000
MOST_LAYERS = 10_000

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}", re.ASCII)


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def check_digest(text: str) -> str:
    """`text` if it is `sha256:` and 64 hex digits in lower case; else OpspliceError."""
    if not _DIGEST.fullmatch(text):
        raise OpspliceError(f"{text!r:.100} is not a digest", hint="a digest is sha256: and 64 digits 0-9 a-f")
    return text


@dataclass(frozen=True)
class Descriptor:
    """What names bytes: their type, SHA-256 and size, and notes about them."""

    media_type: str
    digest: str
    size: int
    artifact_type: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)

    @staticmethod
    def of(data: bytes, media_type: str, annotations: Mapping[str, str] | None = None) -> Descriptor:
        return Descriptor(media_type, digest_of(data), len(data), annotations=annotations or {})

    @property
    def hex(self) -> str:
        return self.digest.removeprefix("sha256:")

    def check(self, data: bytes, source: str) -> bytes:
        """`data` if it is what the descriptor names; else OpspliceError. source: where it comes from."""
        if len(data) != self.size or digest_of(data) != self.digest:
            raise damaged(self.digest, source)
        return data


@dataclass(frozen=True)
class Index:
    """A list of manifests (or of indexes, in a layout folder's index.json)."""

    manifests: tuple[Descriptor, ...]
    artifact_type: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)
    subject: Descriptor | None = None

    def to_bytes(self) -> bytes:
        entries = [_descriptor_values(each) for each in self.manifests]
        return _document(INDEX, self.artifact_type, self.annotations, self.subject, {"manifests": entries})


@dataclass(frozen=True)
class Manifest:
    """A config and layers."""

    config: Descriptor
    layers: tuple[Descriptor, ...]
    artifact_type: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)
    subject: Descriptor | None = None

    def to_bytes(self) -> bytes:
        layers = [_descriptor_values(each) for each in self.layers]
        values = {"config": _descriptor_values(self.config), "layers": layers}
        return _document(MANIFEST, self.artifact_type, self.annotations, self.subject, values)


EMPTY_CONFIG = Descriptor.of(b"{}", EMPTY)


def parse_index(data: bytes, what: str = "the index", most: int = MOST_MANIFESTS) -> Index:
    """Raises OpspliceError, as everything here does, for what is not an index within the limits."""
    table = _opened(data, what, INDEX, "manifests", ("config", "layers"))
    manifests = [_descriptor(each, LARGEST_DOCUMENT) for each in table.tables("manifests", most)]
    return Index(tuple(manifests), *_common(table))


def parse_manifest(data: bytes, what: str = "the manifest") -> Manifest:
    table = _opened(data, what, MANIFEST, "layers", ("manifests",))
    config = _descriptor(table.table("config"), LARGEST_DOCUMENT)
    layers = [_descriptor(each, LARGEST_BLOB) for each in table.tables("layers", MOST_LAYERS)]
    return Manifest(config, tuple(layers), *_common(table))


class DamagedError(OpspliceError):
    """Bytes are not those that a digest names."""


def damaged(digest: str, source: str) -> DamagedError:
    return DamagedError(
        f"{source} gives other bytes than those of {digest}",
        hint="the bytes were damaged or exchanged and are not used; ask whoever runs it, or take another source",
    )


def _opened(data: bytes, what: str, media_type: str, needed: str, foreign: tuple[str, ...]) -> Table:
    table = strict_json.parse(data, what)
    if table.integer("schemaVersion") != 2:
        raise table.error("only 2 is known", "schemaVersion")
    if (found := table.text("mediaType", media_type)) != media_type:
        raise table.error(f"{found!r:.100} stands where {media_type} is expected", "mediaType")
    # One document that is both is read as one thing by one client and as another by the next.
    if both := [key for key in foreign if key in table]:
        raise table.error(f"it has {both[0]} beside {needed}, so it is not {media_type}")
    return table


def _common(table: Table) -> tuple[str, dict[str, str], Descriptor | None]:
    subject = _descriptor(table.table("subject"), LARGEST_DOCUMENT) if "subject" in table else None
    return table.text("artifactType", ""), table.mapping("annotations"), subject


def _descriptor(table: Table, largest: int) -> Descriptor:
    media_type, digest, size = table.text("mediaType"), table.text("digest"), table.integer("size")
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise table.error("it is not a media type", "mediaType")
    if not _DIGEST.fullmatch(digest):
        raise table.error("it is not sha256: and 64 digits 0-9 a-f", "digest")
    if not 0 <= size <= largest:
        raise table.error(f"{size} is not from 0 to {largest}", "size")
    return Descriptor(media_type, digest, size, table.text("artifactType", ""), table.mapping("annotations"))


def _descriptor_values(descriptor: Descriptor) -> dict[str, Any]:
    values: dict[str, Any] = {
        "mediaType": descriptor.media_type,
        "digest": descriptor.digest,
        "size": descriptor.size,
    }
    if descriptor.annotations:
        values["annotations"] = dict(sorted(descriptor.annotations.items()))
    if descriptor.artifact_type:
        values["artifactType"] = descriptor.artifact_type
    return values


def _document(
    media_type: str,
    artifact_type: str,
    annotations: Mapping[str, str],
    subject: Descriptor | None,
    content: dict[str, Any],
) -> bytes:
    values: dict[str, Any] = {"schemaVersion": 2, "mediaType": media_type}
    if artifact_type:
        values["artifactType"] = artifact_type
    values |= content
    if subject:
        values["subject"] = _descriptor_values(subject)
    if annotations:
        values["annotations"] = dict(sorted(annotations.items()))
    return strict_json.canonical(values, sort_keys=False)
