"""`opsplice.lock`: which packages a project uses, by digest, made for review in a diff.

    lock = 1

    [packages.acme_kernels]
    source = "oci://registry.example/acme/kernels"
    version = "1.4"
    digest = "sha256:..."
    key = "..."

    [packages.acme_kernels.targets]
    "cuda:sm_80" = "sha256:..."
    x86_64 = "sha256:..."

`key` is the id of the key whose signature was accepted; `unsigned = true` stands in its place if there was none and the
user allowed that. Tags move, digests do not: what counts is the digest.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.common.files import write_file
from opsplice.targets.registry.trust import toml_tables
from opsplice.targets.registry.trust.toml_tables import Table

DEFAULT = "opsplice.lock"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
KEY = re.compile(r"[0-9a-f]{64}")

_FORMAT = 1
_A_DIGEST = "a digest, sha256: and 64 hexadecimal digits"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")
_SOURCE = re.compile(r"[a-z][a-z0-9+]*:[!-?A-~]{1,500}")  # no @: the digest has a line of its own
_VERSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_TARGET = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_:.,+<>=! -]{0,799}")
_HEAD = "# Packages of kernels and patterns, by digest. opsplice writes this file: review it and commit it.\n"


@dataclass(frozen=True)
class Locked:
    """A package of the lock.

    name: as specs import it. source: where it comes from, without tag and digest. version: the tag that was asked for,
    "" for none. digest: of its index. targets: the digests of its manifests, of all targets that it has. key: the id of
    the key that signed it; "" for a package that was allowed without a signature.
    """

    name: str
    source: str
    version: str
    digest: str
    targets: Mapping[str, str] = field(default_factory=dict)
    key: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".rstrip()


@dataclass(frozen=True)
class Lock:
    """The packages of a lock file, sorted by name. file: for errors."""

    packages: tuple[Locked, ...] = ()
    file: str = DEFAULT

    def named(self, name: str) -> Locked | None:
        """The package of a name."""
        return next((each for each in self.packages if each.name == name), None)

    def find(self, source: str, version: str = "", digest: str = "") -> Locked | None:
        """The package that comes from a source, with a version or a digest if they are given."""
        for each in self.packages:
            if each.source == source and version in ("", each.version) and digest in ("", each.digest):
                return each
        return None

    def with_package(self, package: Locked) -> Lock:
        """The lock with a package added, or in the place of the one with its name."""
        others = [each for each in self.packages if each.name != package.name]
        return dataclasses.replace(self, packages=_sorted([*others, package]))

    def without(self, name: str) -> Lock:
        """The lock without a package."""
        return dataclasses.replace(self, packages=tuple(each for each in self.packages if each.name != name))

    def text(self) -> str:
        """The file: the same packages give the same bytes."""
        parts = [f"{_HEAD}lock = {_FORMAT}\n"]
        for each in self.packages:
            values: dict[str, str | bool | tuple[str, ...]] = {"source": each.source}
            if each.version:
                values["version"] = each.version
            values["digest"] = each.digest
            values |= {"key": each.key} if each.key else {"unsigned": True}
            parts.append(toml_tables.written(("packages", each.name), values))
            if each.targets:
                parts.append(
                    toml_tables.written(("packages", each.name, "targets"), dict(sorted(each.targets.items())))
                )
        return "\n".join(parts)


def read(path: Path) -> Lock:
    """A lock file. Raises OpspliceError for one that cannot be read or says what is not understood."""
    if not (path.exists() or path.is_symlink()):
        hint = f"opsplice kernel lock oci://... -o {path} makes one, and so does a compile with --lock={path}"
        raise OpspliceError(f"no such file: {path}", hint=hint)
    return _lock(toml_tables.read(path))


def read_if_there(path: Path) -> Lock:
    """A lock file, or an empty lock where there is no such file yet."""
    return read(path) if path.exists() or path.is_symlink() else Lock(file=str(path))


def parse(data: bytes, name: str = DEFAULT) -> Lock:
    """What a lock file holds. name: for errors."""
    return _lock(toml_tables.parse(data, name))


def write(path: Path, lock: Lock) -> None:
    """Write a lock file, whole or not at all; it is not touched if nothing changes."""
    data = lock.text().encode()
    if not (path.is_file() and path.read_bytes() == data):
        write_file(path, data)


def _lock(top: Table) -> Lock:
    if (found := top.values.get("lock")) != _FORMAT or isinstance(found, bool):
        what = (
            "not a lock of opsplice" if found is None else f"a lock of format {found!r}, and opsplice reads {_FORMAT}"
        )
        raise top.error(f"this is {what}", "lock", "write it anew with `opsplice kernel lock`")
    top.only("lock", "packages")
    packages = top.table("packages").tables(_NAME, "a package's name")
    return Lock(_sorted(_package(name, table) for name, table in packages.items()), top.file)


def _package(name: str, table: Table) -> Locked:
    table.only("source", "version", "digest", "key", "unsigned", "targets")
    source = table.string(
        "source", _SOURCE, "where the package comes from, such as oci://registry.example/acme/kernels"
    )
    version = table.string("version", _VERSION, "a tag") if "version" in table.values else ""
    digest = table.string("digest", DIGEST, _A_DIGEST)
    if table.flag("unsigned") == ("key" in table.values):
        raise table.error(f"{name} needs either 'key' or 'unsigned = true'", "key" if "key" in table.values else None)
    key = table.string("key", KEY, "a key's id, 64 hexadecimal digits") if "key" in table.values else ""
    given = table.table("targets")
    targets = {given.key(each, _TARGET, "a target"): given.string(each, DIGEST, _A_DIGEST) for each in given.values}
    return Locked(name, source, version, digest, targets, key)


def check_new(package: Locked) -> Locked:
    """`package`, if its parts can stand in a lock. Raises OpspliceError otherwise: they come from a registry."""
    _lock(toml_tables.parse(Lock((package,)).text().encode(), package.source))
    return package


def _sorted(packages: Iterable[Locked]) -> tuple[Locked, ...]:
    return tuple(sorted(packages, key=lambda each: each.name))
