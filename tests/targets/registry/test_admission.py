"""Which package a reference means, and whether it may be used: the lock, signatures, and the user's word decide."""

import dataclasses
from pathlib import Path

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry import package
from opsplice.targets.registry.places import oci
from opsplice.targets.registry.places.layout import Layout
from opsplice.targets.registry.places.place import NotFoundError
from opsplice.targets.registry.places.reference import Reference
from opsplice.targets.registry.trust import admission, signing
from opsplice.targets.registry.trust.admission import Policy
from opsplice.targets.registry.trust.envelope import Statement
from opsplice.targets.registry.trust.lock import Lock, Locked
from opsplice.targets.registry.trust.trust import RevokedError, UntrustedError

from . import sample
from .signers import key, trusting

ONE, TWO = key(1), key(2)
TRUST = trusting(ONE)
REFERENCE = Reference.parse("oci://registry.example/acme/kernels:1.4")


class Asked(Layout):
    """A registry that is a folder, and says what it was asked for."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: list[str] = []

    def resolve(self, name):
        self.asked.append(name)
        return super().resolve(name)

    def referrers(self, digest):
        self.asked.append(f"referrers of {digest}")
        return super().referrers(digest)


class Room:
    """A registry with a package in it, and an empty cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registry = Asked(folder / "registry")
        self.cache = Layout(folder / "cache")
        self.package = self.push("1.4")

    def push(self, version: str, tag: str = "", place: Layout | None = None, **changes):
        about = dataclasses.replace(sample.ABOUT, version=version, **changes)
        return package.write(place or self.registry, about, sample.parts(self.folder / "files"), tag or version)

    def sign(self, *keys, name="acme/kernels", place=None, of=None) -> None:
        of = of or self.package
        signing.sign(place or self.registry, of, Statement(name, of.digest), keys)

    def admit(self, reference=REFERENCE, trust=TRUST, lock=Lock(), **policy):  # noqa: B008
        return admission.admit(reference, self.cache, [self.registry], Policy(trust, lock, **policy))

    def keep(self, version: str = "1.4") -> None:
        """In the cache, too, by digest alone."""
        assert self.push(version, "kept", self.cache).digest == self.package.digest


@pytest.fixture
def room(tmp_path) -> Room:
    return Room(tmp_path)


def test_a_signed_package_is_admitted_and_locked(room):
    room.sign(ONE)
    found = room.admit()
    assert found.package.descriptor.digest == room.package.digest
    assert found.place is room.registry
    assert found.notes == ()
    (entry,) = found.lock.packages
    assert entry == found.entry
    assert (entry.name, entry.source, entry.version) == ("acme_kernels", REFERENCE.source, "1.4")
    assert (entry.digest, entry.key) == (room.package.digest, ONE.public.id)
    assert list(entry.targets) == ["cuda:sm_80", "x86_64", "x86_64 avx512f subgroup>=32"]


def test_what_is_locked_and_cached_is_taken_without_asking_the_registry(room):
    room.sign(ONE)
    lock = room.admit().lock
    room.keep()
    room.sign(ONE, place=room.cache)
    room.push("1.5", "1.4")  # meanwhile the tag moves
    room.registry.asked.clear()
    for locked in (False, True):
        found = room.admit(lock=lock, locked=locked)
        assert (found.place, found.lock, found.notes) == (room.cache, lock, ())
    assert room.registry.asked == []


def test_a_mirror_that_knows_no_tags_is_enough(room):
    room.sign(ONE)
    lock = room.admit().lock
    mirror = Layout(room.folder / "mirror")
    room.push("1.4", "kept", mirror)
    room.sign(ONE, place=mirror)
    room.registry.asked.clear()
    found = admission.admit(REFERENCE, room.cache, [mirror, room.registry], Policy(TRUST, lock, locked=True))
    assert (found.place, found.notes, room.registry.asked) == (mirror, (), [])


def test_a_tag_that_moved_is_said_and_the_locked_package_used(room):
    room.sign(ONE)
    lock = room.admit().lock
    moved = room.push("1.5", "1.4")
    found = room.admit(lock=lock, locked=True)
    assert found.entry.digest == room.package.digest != moved.digest
    assert found.notes == (
        f"the tag 1.4 of {REFERENCE.source} has moved to {moved.digest}; the lock's {room.package.digest} is used "
        "(opsplice kernel lock --upgrade acme_kernels takes the new one)",
    )


def test_with_locked_nothing_else_is_used(room):
    room.sign(ONE)
    lock = room.admit().lock
    other = Reference.parse("oci://registry.example/acme/kernels:1.5")
    room.push("1.5")
    room.registry.asked.clear()
    with pytest.raises(OpspliceError, match=r":1\.5 is not in opsplice\.lock, .*; it has acme_kernels 1\.4 \(sha256"):
        room.admit(other, lock=lock, locked=True)
    for reference in (REFERENCE, REFERENCE.at("sha256:" + "0" * 64)):
        with pytest.raises(OpspliceError, match=r"is not in opsplice\.lock"):
            room.admit(reference, locked=True, allow_unsigned=True)
    assert room.registry.asked == []


def test_a_lock_that_was_edited_is_told_from_the_package(room):
    room.sign(ONE)
    entry = room.admit().entry
    for changed in ({"name": "other"}, {"targets": {"x86_64": entry.targets["x86_64"]}}):
        lock = Lock((dataclasses.replace(entry, **changed),))
        with pytest.raises(OpspliceError, match="somebody has edited the file"):
            room.admit(lock=lock, locked=True)
    lock = Lock((dataclasses.replace(entry, digest="sha256:" + "0" * 64),))
    with pytest.raises(NotFoundError):
        room.admit(lock=lock, locked=True)


def test_an_unsigned_package_needs_a_word_once_for_each_lock(room):
    room.package = room.push("1.4")
    nobody = trusting(ONE, publishes=("other/*",))
    with pytest.raises(UntrustedError, match=r"has no signature\nhelp: .*--allow-unsigned, once for each lock"):
        room.admit(trust=nobody)
    found = room.admit(trust=nobody, allow_unsigned=True)
    assert found.entry.key == ""
    assert "unsigned = true" in found.lock.text()
    assert room.admit(trust=nobody, lock=found.lock).lock == found.lock
    assert room.admit(trust=nobody, lock=found.lock, locked=True).lock == found.lock
    # Another version is another package.
    room.push("1.5")
    with pytest.raises(UntrustedError):
        room.admit(Reference.parse("oci://registry.example/acme/kernels:1.5"), trust=nobody, lock=found.lock)


def test_a_name_that_a_trusted_key_publishes_is_never_taken_unsigned(room):
    found = room.admit(trust=trusting(), allow_unsigned=True)
    room.sign(TWO)
    for lock in (Lock(), found.lock):
        with pytest.raises(UntrustedError, match="publishes this name, so that what it did not sign is never used"):
            room.admit(lock=lock, allow_unsigned=True)


def test_what_the_lock_says_is_signed_is_never_taken_unsigned(room):
    room.sign(ONE)
    lock = room.admit().lock
    with pytest.raises(UntrustedError, match="by no key that you trust"):
        room.admit(trust=trusting(), lock=lock, allow_unsigned=True)


def test_signatures_are_judged_before_the_package_is_read(room, monkeypatch):
    monkeypatch.setattr(package, "read", lambda *_: pytest.fail("it is parsed"))
    with pytest.raises(UntrustedError):
        room.admit()


def test_a_signature_that_came_later_is_found_in_the_registry(room):
    room.keep()
    room.sign(ONE)
    lock = room.admit().lock
    assert room.admit(lock=lock).place is room.cache


def test_a_revoked_key_or_digest_stops_what_is_locked_and_cached(room):
    room.sign(ONE)
    entry = room.admit().entry
    lock = Lock((entry,))
    room.keep()
    room.sign(ONE, place=room.cache)
    with pytest.raises(UntrustedError, match="is revoked: stolen"):
        room.admit(trust=TRUST.revoking(ONE.public.id, "stolen"), lock=lock, locked=True)
    for digest in (entry.digest, entry.targets["x86_64"]):
        with pytest.raises(OpspliceError, match=f"is not used: {digest} is revoked: wrong"):
            room.admit(trust=TRUST.revoking(digest, "wrong"), lock=lock, locked=True)
    with pytest.raises(OpspliceError, match="is revoked: wrong"):
        room.admit(trust=trusting().revoking(entry.digest, "wrong"), allow_unsigned=True)


@pytest.mark.parametrize("keys", [[(ONE, TWO)], [(ONE,), (TWO,)]], ids=["one envelope", "two envelopes"])
def test_of_two_keys_the_lock_keeps_the_one_that_it_has(room, keys):
    for each in keys:
        room.sign(*each)
    locks = [room.admit(trust=trusting(each)).lock for each in (ONE, TWO)]
    assert [lock.packages[0].key for lock in locks] == [ONE.public.id, TWO.public.id]
    for lock in locks:
        assert room.admit(trust=trusting(ONE, TWO), lock=lock, locked=True).lock == lock


def test_a_package_that_only_a_revoked_key_signed_is_no_unsigned_one(room):
    found = room.admit(trust=trusting(), allow_unsigned=True)
    room.sign(ONE)
    revoked = trusting().revoking(ONE.public.id, "stolen")
    for lock, locked in ((Lock(), False), (found.lock, False), (found.lock, True)):
        with pytest.raises(RevokedError, match=r"is revoked: stolen\nhelp: ask its publisher"):
            room.admit(trust=revoked, lock=lock, locked=locked, allow_unsigned=True)
    room.sign(TWO)
    after = trusting(TWO).revoking(ONE.public.id, "stolen")
    assert room.admit(trust=after).entry.key == TWO.public.id


def test_a_package_that_is_signed_anew_changes_the_lock_and_not_with_locked(room):
    room.sign(ONE)
    lock = room.admit().lock
    room.sign(TWO)
    after = trusting(ONE, TWO).revoking(ONE.public.id, "replaced")
    found = room.admit(trust=after, lock=lock)
    assert found.entry.key == TWO.public.id
    assert len(found.notes) == 1
    with pytest.raises(OpspliceError, match=f"signed by key {TWO.public.id[:16]}, not {ONE.public.id[:16]}"):
        room.admit(trust=after, lock=lock, locked=True)


def test_an_old_package_under_a_new_tag_is_refused(room):
    room.sign(ONE)
    room.registry.put_manifest(room.registry.read(room.package), oci.INDEX, "1.5")
    newer = Reference.parse("oci://registry.example/acme/kernels:1.5")
    with pytest.raises(OpspliceError, match=r"1\.5 is version 1\.4, not 1\.5: the registry serves another package"):
        room.admit(newer)
    for tag in ("1", "v1.4", "latest"):
        room.registry.put_manifest(room.registry.read(room.package), oci.INDEX, tag)
        assert room.admit(dataclasses.replace(REFERENCE, tag=tag)).entry.version == tag
    room.sign(ONE, of=room.push("v2.0"))
    assert room.admit(dataclasses.replace(REFERENCE, tag="v2.0")).package.version == "v2.0"


def test_another_version_takes_the_place_in_the_lock(room):
    room.sign(ONE)
    lock = room.admit().lock
    newer = room.push("1.5")
    room.sign(ONE, of=newer)
    found = room.admit(Reference.parse("oci://registry.example/acme/kernels:1.5"), lock=lock)
    assert [each.version for each in found.lock.packages] == ["1.5"]
    before = f"acme_kernels 1.4 ({room.package.digest})"
    assert found.notes == (f"opsplice.lock has {before}; it changes to acme_kernels 1.5",)


def test_two_packages_of_one_name_are_an_error_with_both(room):
    room.sign(ONE)
    lock = Lock((Locked("acme_kernels", "oci://elsewhere/acme", "1", room.package.digest),))
    with pytest.raises(OpspliceError, match=r"oci://registry\.example/acme/kernels and oci://elsewhere/acme are both"):
        room.admit(lock=lock)


def test_a_reference_by_digest_needs_no_tag_and_one_without_both_is_an_error(room):
    room.sign(ONE)
    bare = Reference.parse(REFERENCE.source)
    found = room.admit(bare.at(room.package.digest))
    assert (found.entry.version, found.entry.digest) == ("", room.package.digest)
    assert room.admit(bare, lock=found.lock).entry == found.entry
    with pytest.raises(OpspliceError, match="has neither a tag nor a digest"):
        room.admit(bare)


def test_referrers_that_are_no_signatures_are_passed_over(room):
    layer = room.registry.put_bytes(b"{}", oci.EMPTY)
    other = oci.Manifest(oci.EMPTY_CONFIG, (layer,), "application/vnd.example.sbom", subject=room.package)
    hollow = oci.Manifest(oci.EMPTY_CONFIG, (layer,), signing.ENVELOPE, subject=room.package)
    room.registry.put_manifest(other.to_bytes(), oci.MANIFEST)
    room.registry.put_manifest(hollow.to_bytes(), oci.MANIFEST)
    with pytest.raises(UntrustedError, match=r"signature 1: sha256:.* holds no envelope of at most 1 MiB"):
        room.admit()
    room.sign(ONE)
    assert room.admit().entry.key == ONE.public.id
