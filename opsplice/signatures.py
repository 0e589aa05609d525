"""Keys, signatures, the trust file and locks, as `opsplice kernel` has them, from Python.

    signatures.keygen("acme.key")
    signatures.sign("oci://registry.example/acme/kernels:1.4", ["acme.key"])
    signatures.trust("acme.pub", ["acme/*"])
    signatures.verify("oci://registry.example/acme/kernels:1.4")
    signatures.lock(["oci://registry.example/acme/kernels:1.4"], "opsplice.lock")

All raise OpspliceError for what cannot be done.
"""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from opsplice import __version__
from opsplice.common.errors import OpspliceError
from opsplice.compiling.spec_sources import PackageOptions
from opsplice.packaging.pulling import sources_of
from opsplice.targets.registry import package
from opsplice.targets.registry.package_cache import Packages
from opsplice.targets.registry.places.reference import Reference
from opsplice.targets.registry.places.remote import Remote
from opsplice.targets.registry.trust import admission, keys, signing
from opsplice.targets.registry.trust import lock as locks
from opsplice.targets.registry.trust import trust as trusts
from opsplice.targets.registry.trust.admission import Admission, Policy
from opsplice.targets.registry.trust.envelope import Statement
from opsplice.targets.registry.trust.keys import PublicKey
from opsplice.targets.registry.trust.lock import Lock
from opsplice.targets.registry.trust.trust import Trust, TrustedKey

PathText = str | os.PathLike[str]


@dataclass(frozen=True)
class Verified:
    """A package and the key that vouches for it. statement: what the key signed."""

    digest: str
    key: TrustedKey
    statement: Statement


@dataclass(frozen=True)
class LockUpdate:
    """What was locked. added: the packages that were asked for, with notes of what changed."""

    lock: Lock
    added: tuple[Admission, ...]


def keygen(path: PathText, passphrase: str = "") -> PublicKey:
    """Make a key: a private part at `path`, for its owner alone, and a public one beside it, `.pub`."""
    return keys.generate(Path(path), passphrase)


def sign(reference: str, key_files: Sequence[PathText]) -> Statement:
    """Sign a package where it is, in its registry; what was signed."""
    private = [keys.read_private(Path(each), ask_passphrase) for each in key_files]
    wanted = Reference.parse(reference)
    place = Remote(wanted)
    descriptor = place.resolve(wanted.named)
    found = package.read(place, descriptor)
    made = {"opsplice": __version__, "iree": found.iree, "version": found.version}
    statement = Statement(wanted.repository, descriptor.digest, {key: text for key, text in made.items() if text})
    signing.sign(place, descriptor, statement, private)
    return statement


def verify(reference: str, options: PackageOptions | None = None) -> Verified:
    """The key that makes a package one to trust; nothing of the package is pulled or run.

    options: the trust file, and mirrors that are asked before the registry.
    """
    wanted, options = Reference.parse(reference), options or PackageOptions()
    known = trusts.read_chosen(options.trust)
    sources = sources_of(wanted, options)
    descriptor, place = admission.located(wanted.named, sources)
    return Verified(descriptor.digest, *admission.vouched(wanted, descriptor.digest, [place, *sources], known))


def trust(key_file: PathText, publishes: Iterable[str], owner: str = "", trust_file: PathText | None = None) -> Trust:
    """Let a key publish repositories, as `acme/*`."""
    key, names = keys.read_public(Path(key_file)), trusts.check_patterns(publishes)
    return _changed(trust_file, lambda known: known.with_key(key, names, owner))


def revoke(what: str, reason: str = "", trust_file: PathText | None = None) -> Trust:
    """Never again use a key, by its id or its `.pub` file, or a digest."""
    if what.endswith(keys.PUBLIC_SUFFIX):
        what = keys.read_public(Path(what)).id
    return _changed(trust_file, lambda known: known.revoking(what, reason))


def lock(
    references: Sequence[str],
    path: PathText = locks.DEFAULT,
    *,
    upgrade: Sequence[str] = (),
    options: PackageOptions | None = None,
) -> LockUpdate:
    """Pin packages in a lock file. upgrade: names in it whose tags are looked up anew; `all` for all.

    The rest of the lock stays as it is. Nothing is written if anything fails.
    """
    options = options or PackageOptions()
    current = locks.read_if_there(Path(path))
    anew = _upgraded(current, upgrade)
    wanted = [*map(Reference.parse, references), *anew]
    policy = Policy(trusts.read_chosen(options.trust), current, allow_unsigned=options.allow_unsigned)
    added = []
    for reference in wanted:
        known = policy.lock.find(reference.source, reference.tag, reference.digest)
        asked = replace(policy, lock=policy.lock.without(known.name)) if known and reference in anew else policy
        found = admission.admit(reference, Packages().layout, sources_of(reference, options), asked)
        if known and known.digest != found.entry.digest:
            note = f"{known} was {known.digest} and is {found.entry.digest}"
            found = replace(found, notes=(*found.notes, note))
        added.append(found)
        policy = replace(policy, lock=found.lock)
    locks.write(Path(path), policy.lock)
    return LockUpdate(policy.lock, tuple(added))


def ask_passphrase(path: Path) -> str:
    """The passphrase of a private key, from the terminal."""
    if not sys.stdin.isatty():
        raise OpspliceError(f"{path} has a passphrase", hint=f"give it as {keys.PASSPHRASE}")
    return getpass.getpass(f"passphrase of {path}: ")


def _upgraded(current: Lock, names: Sequence[str]) -> list[Reference]:
    found = []
    for name in [each.name for each in current.packages] if "all" in names else names:
        if (entry := current.named(name)) is None:
            there = ", ".join(each.name for each in current.packages) or "no packages"
            raise OpspliceError(f"{name} is not in {current.file}", hint=f"it has {there}")
        if not entry.version:
            raise OpspliceError(
                f"{name} is locked by digest, without a tag, so it cannot be upgraded",
                hint=f"lock a tag: {entry.source}:TAG",
            )
        found.append(Reference.parse(f"{entry.source}:{entry.version}"))
    return found


def _changed(trust_file: PathText | None, change: Callable[[Trust], Trust]) -> Trust:
    path = trusts.default_path() if trust_file is None else Path(trust_file)
    if path is None:
        raise OpspliceError("there is no home folder for a trust file", hint="name one: --trust=FILE")
    known = trusts.read(path) if os.path.lexists(path) else Trust(file=str(path))
    trusts.write(path, changed := change(known))
    return changed
