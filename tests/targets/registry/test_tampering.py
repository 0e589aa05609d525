"""Whoever can write to a registry's storage: no byte of a signed package can be changed without an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry import package
from opsplice.targets.registry.package_cache import Packages
from opsplice.targets.registry.trust import admission, signing
from opsplice.targets.registry.trust.admission import Policy
from opsplice.targets.registry.trust.envelope import Statement
from opsplice.targets.registry.trust.trust import UntrustedError

from . import sample
from .server import Server
from .signers import key, trusting

REPOSITORY = "acme/tampered"


@pytest.fixture
def stored(registry: Server, tmp_path: Path) -> list[Path]:
    """The files in which a registry keeps a signed package: each blob, manifest, index, and list of signatures."""
    place = registry.remote(REPOSITORY)
    put = package.write(place, sample.ABOUT, sample.parts(tmp_path / "files", 500), "1.4")
    signing.sign(place, put, Statement(REPOSITORY, put.digest), [key(1)])
    found = package.read(place, put)
    contents = [package.contents(place, found, variant) for variant in found.variants]
    manifests = [variant.descriptor for variant in found.variants]
    (signature,) = place.referrers(put.digest)
    listed = place.resolve(put.digest.replace(":", "-"))
    (layer,) = package.oci.parse_manifest(place.read(signature)).layers
    digests = [put, signature, listed, layer, contents[0].config, *manifests]
    files = [each for part in contents for each in part.files.values()]
    return [registry.blob(digest) for digest in dict.fromkeys(each.digest for each in (*digests, *files))]


def pulled(registry: Server, root: Path) -> dict[str, bytes]:
    """What a user who trusts the key gets, on a machine with nothing in its cache."""
    reference, place = registry.reference(REPOSITORY, "1.4"), registry.remote(REPOSITORY)
    packages = Packages(root)
    admitted = admission.admit(reference, packages.layout, [place], Policy(trusting(key(1))))
    unpacked = packages.get(reference, admitted.package.descriptor.digest, lambda _variant: "", [place])
    return {path: (unpacked.folder / path).read_bytes() for path in unpacked.files}


def test_no_changed_byte_is_used(registry: Server, stored: list[Path], tmp_path: Path):
    sound = pulled(registry, tmp_path / "sound")
    assert len(sound) == 4
    assert len(stored) == 12
    for number, file in enumerate(stored):
        before = file.read_bytes()
        for place in (0, len(before) // 2, len(before) - 1):
            file.write_bytes(before[:place] + bytes([before[place] ^ 1]) + before[place + 1 :])
            with pytest.raises(OpspliceError):
                pulled(registry, tmp_path / f"{number}-{place}")
        file.unlink()
        with pytest.raises(OpspliceError):
            pulled(registry, tmp_path / f"{number}-gone")
        file.write_bytes(before)
    assert pulled(registry, tmp_path / "again") == sound


def test_a_package_in_the_place_of_another_is_not_used(registry: Server, tmp_path: Path):
    """Each is signed by the trusted key; the registry says that the tag of one means the other."""
    for name in ("acme/one", "acme/other"):
        place = registry.remote(name)
        about = sample.ABOUT if name == "acme/one" else package.About("other", "1.4", sample.ABOUT.main)
        put = package.write(place, about, sample.parts(tmp_path / "files", 500), "1.4")
        signing.sign(place, put, Statement(name, put.digest), [key(1)])
    one, other = registry.remote("acme/one"), registry.remote("acme/other")
    wrong = other.resolve("1.4")
    for signed in other.referrers(wrong.digest):
        manifest = package.oci.parse_manifest(other.read(signed))
        for blob in (manifest.config, *manifest.layers):
            one.put_bytes(other.read(blob), blob.media_type)
        one.put_manifest(other.read(signed), signed.media_type)
    packages = Packages(tmp_path / "cache")
    about = package.About("other", "1.4", sample.ABOUT.main)
    assert package.write(one, about, sample.parts(tmp_path / "files", 500), "1.4") == wrong
    reference = registry.reference("acme/one", "1.4")
    with pytest.raises(UntrustedError, match="it is good, but for acme/other, and acme/one was asked for"):
        admission.admit(reference, packages.layout, [registry.remote("acme/one")], Policy(trusting(key(1))))
