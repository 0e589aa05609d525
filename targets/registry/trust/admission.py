"""Whether a package may be used, and which one a reference means: the lock, the trust file and the user's word decide.

What is pinned by a lock is found without a network if the cache has it. Signatures are verified before anything of the
package is parsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry import package as packages
from opsplice.targets.registry.package import Package
from opsplice.targets.registry.places.oci import Descriptor
from opsplice.targets.registry.places.place import NotFoundError, Place
from opsplice.targets.registry.places.reference import Reference
from opsplice.targets.registry.trust import lock as locks
from opsplice.targets.registry.trust import trust as trusts
from opsplice.targets.registry.trust.envelope import Statement
from opsplice.targets.registry.trust.keys import MissingExtraError
from opsplice.targets.registry.trust.lock import Lock, Locked
from opsplice.targets.registry.trust.signing import signatures
from opsplice.targets.registry.trust.trust import RevokedError, Trust, TrustedKey, UntrustedError


@dataclass(frozen=True)
class Policy:
    """locked: nothing but what the lock has. allow_unsigned: take what no trusted key signed; the lock then says so."""

    trust: Trust = field(default_factory=Trust)
    lock: Lock = field(default_factory=Lock)
    locked: bool = False
    allow_unsigned: bool = False


@dataclass(frozen=True)
class Admission:
    """A package that may be used.

    place: one that has it. lock: with the package in it, to be written if it is kept. notes: what the user is told.
    """

    package: Package
    place: Place
    entry: Locked
    lock: Lock
    notes: tuple[str, ...] = ()


def admit(reference: Reference, cache: Place, sources: Sequence[Place], policy: Policy) -> Admission:
    """The package that a reference means.

    cache: where packages of before are, by digest. sources: the registry, or mirrors of it, the first that answers
    wins; they are not asked for what the lock pins and the cache has.
    Raises OpspliceError, and UntrustedError where a signature is what is missing.
    """
    entry = pinned(reference, policy)
    notes: list[str] = []
    if entry is not None:
        descriptor, place = located(entry.digest, (cache, *sources))
        if place is not cache and (moved := _moved(entry, place)):
            notes.append(moved)
    else:
        descriptor, place = located(reference.named, (cache, *sources) if reference.digest else sources)
    key = _signer(reference, descriptor.digest, entry, [place, *sources], policy)
    package = packages.read(place, descriptor)
    _check_version(reference, package, key)
    targets = {str(variant): variant.descriptor.digest for variant in package.variants}
    _check_not_revoked(reference, policy, *targets.values())
    version = reference.tag or (entry.version if entry else "")
    new = Locked(package.name, reference.source, version, package.descriptor.digest, targets, key)
    if new != entry:
        notes += _changes(new, entry, policy)
    return Admission(package, place, new, policy.lock.with_package(new), tuple(notes))


def pinned(reference: Reference, policy: Policy) -> Locked | None:
    """What the lock has for a reference; None if it is to be added. Raises OpspliceError for that with `locked`."""
    entry = policy.lock.find(reference.source, reference.tag, reference.digest)
    if entry is None and policy.locked:
        other = policy.lock.find(reference.source)
        has = f"; it has {other} ({other.digest})" if other else ""
        raise OpspliceError(
            f"{reference} is not in {policy.lock.file}, and with --locked nothing else is used{has}",
            hint=f"opsplice kernel lock {reference} -o {policy.lock.file}",
        )
    return entry


def located(name: str, places: Iterable[Place]) -> tuple[Descriptor, Place]:
    """name: a tag or a digest."""
    missing: list[NotFoundError] = []
    for place in places:
        try:
            return place.resolve(name), place
        except NotFoundError as error:
            missing.append(error)
    if len(missing) == 1:
        raise missing[0]
    raise NotFoundError(
        f"{name} is nowhere", details="\n".join(f"  {error.message}" for error in missing), hint="pull it first"
    )


def _moved(entry: Locked, place: Place) -> str:
    """Whether a tag means something else where the package was found."""
    if not entry.version:
        return ""
    try:
        now = place.resolve(entry.version)
    except OpspliceError:
        return ""  # it is gone; the lock's digest is what counts
    if now.digest == entry.digest:
        return ""
    return (
        f"the tag {entry.version} of {entry.source} has moved to {now.digest}; the lock's {entry.digest} is used "
        f"(opsplice kernel lock --upgrade {entry.name} takes the new one)"
    )


def _signer(reference: Reference, digest: str, entry: Locked | None, places: Sequence[Place], policy: Policy) -> str:
    """The id of the key that vouches for a package; "" for one that was allowed without."""
    _check_not_revoked(reference, policy, digest)
    publisher = policy.trust.publisher(reference.repository)
    allowed_before = entry is not None and not entry.key and publisher is None
    try:
        # No other signature can make a difference to what was allowed without one.
        asked = places[:1] if allowed_before else places
        return vouched(reference, digest, asked, policy.trust, entry.key if entry else "")[0].key.id
    except RevokedError:
        raise
    except UntrustedError as error:
        if allowed_before:
            return ""
        if entry is not None and entry.key:
            raise
        if publisher is not None:
            error.hint = f"key {publisher} publishes this name, so that what it did not sign is never used"
            raise
        if policy.allow_unsigned:
            return ""
        error.hint = f"{error.hint}; or take it unsigned: --allow-unsigned, once for each lock"
        raise


def _check_not_revoked(reference: Reference, policy: Policy, *digests: str) -> None:
    if reason := policy.trust.why_revoked("", *digests):
        raise OpspliceError(f"{reference} is not used: {reason}")


def vouched(
    reference: Reference, digest: str, places: Sequence[Place], trust: Trust, preferred: str = ""
) -> tuple[TrustedKey, Statement]:
    """The key that makes a package one to trust, and what it signed: see `trust.vouched`.

    Signatures are looked for where the package is, and then elsewhere: some are made after it was copied.
    """
    failures: list[UntrustedError] = []
    unreachable: list[OpspliceError] = []
    for place in dict.fromkeys(places):
        try:
            return trusts.vouched(trust, signatures(place, digest), reference.repository, digest, preferred)
        except UntrustedError as error:
            failures.append(error)
        except MissingExtraError:
            raise
        except OpspliceError as error:  # a registry that a mirror stands in for
            unreachable.append(error)
    revoked = [each for each in failures if isinstance(each, RevokedError)]
    telling = [each for each in failures if each.details]
    raise [*revoked, *telling, *failures, *unreachable][0]


def _check_version(reference: Reference, package: Package, key: str) -> None:
    """Refuse an old package, signed long ago, under the tag of a new one."""
    tag, version = reference.tag.removeprefix("v"), package.version.removeprefix("v")
    if key and tag[:1].isdigit() and not f"{version}.".startswith(f"{tag}."):
        raise OpspliceError(
            f"{reference} is version {version}, not {tag}: the registry serves another package for this tag",
            hint="ask its publisher; to use it all the same, name it by its digest",
        )


def _changes(new: Locked, entry: Locked | None, policy: Policy) -> list[str]:
    """What of the lock changes, in words. Raises OpspliceError where it must not."""
    other = policy.lock.named(new.name)
    if other is not None and other.source != new.source:
        raise OpspliceError(
            f"{new.source} and {other.source} are both called {new.name}",
            hint=f"one can be pushed with another --name, or {other.source} be taken out of {policy.lock.file}",
        )
    if entry is not None and policy.locked:
        if replace(entry, key=new.key) == new:
            change = f"{new.name} is signed by key {trusts.short(new.key)}, not {trusts.short(entry.key) or 'unsigned'}"
        else:
            change = f"{new.name} is not as {policy.lock.file} says of {entry.digest}: somebody has edited the file"
        raise OpspliceError(change, hint=f"opsplice kernel lock --upgrade {entry.name} -o {policy.lock.file}")
    locks.check_new(new)
    if other is None:
        return []
    unsigned = f", which is not signed as {other} was" if other.key and not new.key else ""
    return [f"{policy.lock.file} has {other} ({other.digest}); it changes to {new}{unsigned}"]
