"""Signatures beside the packages that they are of: manifests whose subject is the package's index."""

from __future__ import annotations

from collections.abc import Sequence

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry.places import oci
from opsplice.targets.registry.places.oci import Descriptor, Manifest
from opsplice.targets.registry.places.place import Place
from opsplice.targets.registry.trust import envelope
from opsplice.targets.registry.trust.envelope import ENVELOPE, Statement
from opsplice.targets.registry.trust.keys import PrivateKey

# Whoever can write to a registry can put more there than anybody wants to read.
_MOST = 64


def sign(place: Place, package: Descriptor, statement: Statement, keys: Sequence[PrivateKey]) -> Descriptor:
    """Sign a package where it is. package: of its index, whose digest the statement names."""
    layer = place.put_bytes(envelope.sign(statement, *keys), ENVELOPE)
    place.put_bytes(b"{}", oci.EMPTY)
    manifest = Manifest(oci.EMPTY_CONFIG, (layer,), ENVELOPE, subject=package)
    return place.put_manifest(manifest.to_bytes(), oci.MANIFEST)


def signatures(place: Place, digest: str) -> list[bytes | OpspliceError]:
    """The envelopes that a place has for a package, unverified; an error for each that cannot be read."""
    found: list[bytes | OpspliceError] = []
    for referrer in place.referrers(digest):
        # Some servers list the type of the config, which is empty, for that of the manifest.
        if referrer.artifact_type in ("", ENVELOPE, oci.EMPTY) and len(found) < _MOST:
            try:
                found += _envelopes(place, referrer, digest)
            except OpspliceError as error:
                found.append(error)
    return found


def _envelopes(place: Place, referrer: Descriptor, digest: str) -> list[bytes]:
    if referrer.media_type != oci.MANIFEST:
        return []
    manifest = oci.parse_manifest(place.read(referrer), f"the manifest {referrer.digest} of {place}")
    if manifest.artifact_type != ENVELOPE or manifest.subject is None or manifest.subject.digest != digest:
        return []
    layer = next((layer for layer in manifest.layers if layer.media_type == ENVELOPE), None)
    if layer is None or layer.size > envelope.LARGEST:
        raise OpspliceError(f"{referrer.digest} holds no envelope of at most {envelope.LARGEST >> 20} MiB")
    return [place.read(layer)]
