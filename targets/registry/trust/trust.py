"""Which keys may publish which packages: the trust file, and its judgement of a package's signatures.

    [keys.0123...]                       # the key's id
    public = "MCowBQYDK2VwAyEA..."       # as in its .pub file
    publishes = ["acme/*"]
    owner = "Acme's releases, 2026"

    [revoked.keys]
    "4567..." = "the laptop was stolen"

    [revoked.digests]
    "sha256:89ab..." = "wrong results for n = 0"

The file is opened anew by each command, so what is revoked in it is revoked at once. Revoked digests are those of
packages, of what they hold for one target, or of artifacts.
"""

from __future__ import annotations

import dataclasses
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.common.files import write_file
from opsplice.targets.registry.trust import envelope, toml_tables
from opsplice.targets.registry.trust.envelope import Statement
from opsplice.targets.registry.trust.keys import MissingExtraError, PublicKey, public_from_text
from opsplice.targets.registry.trust.lock import DIGEST, KEY
from opsplice.targets.registry.trust.toml_tables import Table

TRUST = "OPSPLICE_TRUST"

_NAMES = re.compile(r"[a-z0-9*][a-z0-9*._/-]{0,254}")
_LINE = re.compile(r"[^\x00-\x1f\x7f]{0,300}")
_SHOWN = 16  # hexadecimal digits of a key's id


class UntrustedError(OpspliceError):
    """A package without a signature that the trust file accepts."""


class RevokedError(UntrustedError):
    """A package that nobody signed but a key that is revoked: it is never used."""


@dataclass(frozen=True)
class TrustedKey:
    """publishes: which repositories, `*` for any text. owner: whose it is, for people."""

    key: PublicKey
    publishes: tuple[str, ...]
    owner: str = ""

    def may_publish(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.publishes)

    def __str__(self) -> str:
        return short(self.key.id) + (f" ({self.owner})" if self.owner else "")


@dataclass(frozen=True)
class Trust:
    """What a trust file says. file: its name, for errors. revoked_keys, revoked_digests: with the reasons."""

    keys: tuple[TrustedKey, ...] = ()
    revoked_keys: Mapping[str, str] = field(default_factory=dict)
    revoked_digests: Mapping[str, str] = field(default_factory=dict)
    file: str = "the trust file"

    def why_revoked(self, key: str = "", *digests: str) -> str:
        """Why a key or what has one of these digests is not to be used; "" if nothing speaks against it."""
        for digest in digests:
            if digest in self.revoked_digests:
                return f"{digest} is revoked{_because(self.revoked_digests[digest])}"
        if key in self.revoked_keys:
            return f"key {short(key)} is revoked{_because(self.revoked_keys[key])}"
        return ""

    def publisher(self, repository: str) -> TrustedKey | None:
        """A key that is not revoked and may publish a repository."""
        names = _names(repository)
        usable = (each for each in self.keys if each.key.id not in self.revoked_keys)
        return next((each for each in usable if any(map(each.may_publish, names))), None)

    def with_key(self, key: PublicKey, publishes: Sequence[str], owner: str = "") -> Trust:
        """With a key added, or with more for it to publish. Raises OpspliceError for one that is revoked."""
        if reason := self.why_revoked(key.id):
            raise OpspliceError(reason, hint=f"take it out of [revoked.keys] in {self.file} first, if that was wrong")
        known = next((each for each in self.keys if each.key == key), TrustedKey(key, ()))
        names = tuple(sorted({*known.publishes, *publishes}))
        others = [each for each in self.keys if each.key != key]
        keys = _sorted([*others, TrustedKey(key, names, owner or known.owner)])
        return dataclasses.replace(self, keys=keys)

    def revoking(self, what: str, reason: str) -> Trust:
        """With a key's id or a digest revoked."""
        if DIGEST.fullmatch(what):
            return dataclasses.replace(self, revoked_digests={**self.revoked_digests, what: reason})
        if KEY.fullmatch(what):
            return dataclasses.replace(self, revoked_keys={**self.revoked_keys, what: reason})
        raise OpspliceError(f"{what!r:.100} is neither a key's id nor a digest", hint="write all 64 digits")

    def text(self) -> str:
        """The file: the same trust gives the same bytes."""
        parts = []
        for each in self.keys:
            values: dict[str, str | bool | tuple[str, ...]] = {"public": each.key.text, "publishes": each.publishes}
            if each.owner:
                values["owner"] = each.owner
            parts.append(toml_tables.written(("keys", each.key.id), values))
        for name, revoked in (("keys", self.revoked_keys), ("digests", self.revoked_digests)):
            if revoked:
                parts.append(toml_tables.written(("revoked", name), dict(sorted(revoked.items()))))
        return "\n".join(parts)


def default_path(environ: Mapping[str, str] = os.environ) -> Path | None:
    """`$OPSPLICE_TRUST`, else `opsplice/trust.toml` in `$XDG_CONFIG_HOME` or `$HOME/.config`; None without a home."""
    if chosen := environ.get(TRUST):
        return Path(chosen)
    if os.path.isabs(base := environ.get("XDG_CONFIG_HOME", "")):
        return Path(base) / "opsplice" / "trust.toml"
    home = environ.get("HOME", "")
    return Path(home) / ".config" / "opsplice" / "trust.toml" if os.path.isabs(home) else None


def read(path: Path) -> Trust:
    """A trust file. Raises OpspliceError for one that others may write to, or that says what is not understood."""
    table = toml_tables.read(path)
    status = path.stat()
    if stat.S_IMODE(status.st_mode) & (stat.S_IWGRP | stat.S_IWOTH) or status.st_uid not in (os.geteuid(), 0):
        raise OpspliceError(
            f"others may write to the trust file {path}, so it is not used",
            hint=f"look through it, then: chmod go-w {path}, and have it be yours or root's",
        )
    return _trust(table)


def read_chosen(path: Path | None = None) -> Trust:
    """The trust file that is named, which must be there, or the default one, which need not."""
    if path is not None:
        return read(path)
    if (default := default_path()) is None:
        return Trust()
    # A file that was asked for by the environment must be there, too: what it revokes counts.
    return read(default) if os.path.lexists(default) or os.environ.get(TRUST) else Trust(file=str(default))


def parse(data: bytes, name: str = "trust.toml") -> Trust:
    """What a trust file holds. name: for errors."""
    return _trust(toml_tables.parse(data, name))


def write(path: Path, trust: Trust) -> None:
    """Write a trust file, whole or not at all, and its folder if there is none."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OpspliceError(f"cannot make the folder {path.parent}: {(error.strerror or str(error)).lower()}") from None
    write_file(path, trust.text().encode())


def check_patterns(patterns: Iterable[str]) -> tuple[str, ...]:
    """Patterns of repositories as a user gives them. Raises OpspliceError."""
    for each in patterns:
        if not _NAMES.fullmatch(each):
            raise OpspliceError(
                f"{each!r:.100} names no packages", hint="write the repository without its host, such as acme/*"
            )
    return tuple(patterns)


def short(key: str) -> str:
    """The part of a key's id that is shown to people."""
    return key[:_SHOWN]


def vouched(
    trust: Trust, signatures: Iterable[bytes | OpspliceError], repository: str, digest: str, preferred: str = ""
) -> tuple[TrustedKey, Statement]:
    """The key whose signature makes a package one to trust, and what it signed.

    signatures: envelopes, from wherever, and why others cannot be read. repository: what was asked for, as
    `acme/kernels`; what a mirror puts before it does not matter. digest: of the package's index.
    preferred: the id of the key to name if several are good.
    Raises OpspliceError for a digest that is revoked, and UntrustedError, with what is wrong with each signature, if
    none is good: RevokedError if one is of a revoked key.
    """
    if reason := trust.why_revoked("", digest):
        raise OpspliceError(f"{repository} is not used: {reason}")
    problems, kind = [], UntrustedError
    good: list[tuple[TrustedKey, Statement]] = []
    hint = "get the key of its publisher by a way that you trust, then: opsplice kernel trust KEY.pub --publishes NAME"
    for number, data in enumerate(signatures, start=1):
        try:
            if isinstance(data, OpspliceError):
                raise data
            good += _judged(trust, data, repository, digest)
        except MissingExtraError:
            raise
        except OpspliceError as error:
            problems.append(f"  signature {number}: {error.message}")
            if isinstance(error, RevokedError):
                kind = RevokedError
                hint = "ask its publisher for a signature by a key that is not revoked, or take another version"
    if good:
        return next((each for each in good if each[0].key.id == preferred), good[0])
    what = "has no signature" if not problems else f"has no signature that {trust.file} accepts"
    raise kind(f"{repository} ({digest}) {what}", details="\n".join(problems), hint=hint)


def _judged(trust: Trust, data: bytes, repository: str, digest: str) -> list[tuple[TrustedKey, Statement]]:
    found = envelope.parse(data, "the envelope")
    known = {each.key: each for each in trust.keys}
    signers = found.signers(known)
    good = [key for key in signers if key.id not in trust.revoked_keys]
    if not good:
        claimed = [each.key for each in found.signatures]
        revoked = [key.id for key in signers] or [each for each in claimed if each in trust.revoked_keys]
        if revoked:
            raise RevokedError(trust.why_revoked(revoked[0]))
        if mine := [each for each in claimed if each in {key.id for key in known}]:
            raise OpspliceError(f"key {short(mine[0])} did not sign this: it was changed, or made by somebody else")
        ids = ", ".join(f"{short(each)!r}" for each in claimed) or "none"
        raise OpspliceError(f"it is by no key that you trust (it names {ids})")
    statement = envelope.parse_statement(found.payload)
    if statement.digest != digest:
        raise OpspliceError(f"it is good, but for another package: {statement.name} ({statement.digest})")
    if statement.name not in _names(repository):
        raise OpspliceError(f"it is good, but for {statement.name}, and {repository} was asked for")
    if publishers := [known[key] for key in good if known[key].may_publish(statement.name)]:
        return [(each, statement) for each in publishers]
    allowed = ", ".join(known[good[0]].publishes) or "nothing"
    raise OpspliceError(f"it is by key {known[good[0]]}, which may publish {allowed}, not {statement.name}")


def _names(repository: str) -> set[str]:
    """What a repository may be called where it was signed: a mirror has more in front."""
    parts = repository.split("/")
    return {"/".join(parts[start:]) for start in range(len(parts))}


def _trust(top: Table) -> Trust:
    top.only("keys", "revoked")
    keys = [_key(identity, table) for identity, table in top.table("keys").tables(KEY, "a key's id").items()]
    revoked = top.table("revoked")
    revoked.only("keys", "digests")
    revoked_keys = _reasons(revoked.table("keys"), KEY, "a key's id, 64 hexadecimal digits")
    revoked_digests = _reasons(revoked.table("digests"), DIGEST, "a digest, sha256: and 64 hexadecimal digits")
    return Trust(_sorted(keys), revoked_keys, revoked_digests, top.file)


def _reasons(table: Table, form: re.Pattern[str], what: str) -> dict[str, str]:
    return {table.key(each, form, what): table.string(each, _LINE, "a reason, one line") for each in table.values}


def _key(identity: str, table: Table) -> TrustedKey:
    table.only("public", "publishes", "owner")
    key = public_from_text(table.string("public", _LINE, "a public key, as in a .pub file"))
    if key is None:
        raise table.error(
            "'public' is not a key of ed25519", "public", "copy the line between the two of the .pub file"
        )
    if key.id != identity:
        raise table.error(f"the key's id is {key.id}", None, "an id and a key that differ belong to two keys")
    owner = table.string("owner", _LINE, "a line of text") if "owner" in table.values else ""
    return TrustedKey(key, table.strings("publishes", _NAMES, "names of packages, such as acme/*"), owner)


def _sorted(keys: Iterable[TrustedKey]) -> tuple[TrustedKey, ...]:
    return tuple(sorted(keys, key=lambda each: each.key.id))


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""
