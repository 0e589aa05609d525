"""What `--spec=` and `specs=` are given, as files: a path, or a library by its name.

replace.splice          a file
acme_kernels            an installed library, its main spec
acme_kernels:attention  a part of it
oci://HOST/acme/kernels:1.4    a package of a registry, its main spec
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from opsplice.common.errors import OpspliceError
from opsplice.common.files import check_name
from opsplice.spec_lang.loading import libraries
from opsplice.spec_lang.loading.libraries import Library
from opsplice.targets.registry.places.reference import is_reference

# Folders that are asked for packages before registries, as PATH has them.
MIRROR = "OPSPLICE_MIRROR"

SpecPath = str | os.PathLike[str]


@dataclass(frozen=True)
class SpecSource:
    """A spec that is asked for.

    given: as it was written. path: its file. library: the one that it is a part of. others: libraries that are not
    installed as packages and that it may import, by name.
    """

    given: str
    path: Path
    library: Library | None = None
    others: Mapping[str, Library] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.given


@dataclass(frozen=True)
class PackageOptions:
    """Which packages of registries may be used as specs, and where they are looked for.

    lock: the lock file; what is missing is added to it. locked: use nothing that it does not have, and never write it.
    allow_unsigned: take packages that no trusted key signed. allow_code: build and run code of packages, too.
    trust: the trust file, None for the user's own. mirrors: folders that are asked before registries.
    """

    lock: Path | None = None
    locked: bool = False
    allow_unsigned: bool = False
    allow_code: bool = False
    trust: Path | None = None
    mirrors: tuple[Path, ...] = field(default_factory=lambda: _folders(os.environ.get(MIRROR, "")))


def resolve(
    specs: SpecPath | SpecSource | Iterable[SpecPath | SpecSource],
    others: Mapping[str, Library] | None = None,
    *,
    packages: PackageOptions | None = None,
    targets: Sequence[str] | None = (),
    flags: Sequence[str] = (),
    progress: TextIO | None = None,
) -> tuple[SpecSource, ...]:
    """The sources of specs, in the order given; what is a source already stays as it is.

    others: libraries that are not installed as packages, by name. packages: for those of registries, and of a lock.
    targets, flags: of the program that they are for; None for all that packages have. progress: where the user is told
    what is pulled.
    Raises OpspliceError for a library that is not there, and for a package that is not there or may not be used.
    """
    if isinstance(specs, (str, os.PathLike, SpecSource)):
        specs = (specs,)
    specs = tuple(specs)
    options = packages or PackageOptions()
    if options.locked or options.lock is not None or any(map(is_package, specs)):
        from opsplice.packaging.pulling import pulled  # transport and signatures, which other compiles do without

        return pulled(specs, options, targets, flags, progress)
    return tuple(each if isinstance(each, SpecSource) else _source(each, others or {}) for each in specs)


def installed(name: str) -> SpecSource:
    """The main spec of an installed library, whatever file has its name. Raises OpspliceError if there is none."""
    return _part(libraries.find(name, {}), None, name, {})


def is_package(spec: object) -> bool:
    """Whether a spec is a package of a registry."""
    return isinstance(spec, str) and is_reference(spec)


def _folders(text: str) -> tuple[Path, ...]:
    return tuple(Path(part) for part in text.split(os.pathsep) if part)


def _source(given: SpecPath, others: Mapping[str, Library]) -> SpecSource:
    path = Path(given)
    named = libraries.reference(given, Path()) if isinstance(given, str) else None
    if named is None:
        return SpecSource(str(path), path, None, others)
    try:
        library = libraries.find(named.library, others)
    except OpspliceError as error:
        beside = os.path.isfile(f"{path}.splice")
        hint = f"did you mean {path}.splice?" if beside else error.hint
        raise OpspliceError(f"{path} is not a file, and {error.message}", hint=hint) from None
    return _part(library, named.part, str(named), others)


def _part(library: Library, part: str | None, given: str, others: Mapping[str, Library]) -> SpecSource:
    file = library.spec(part)
    check_name(file)
    return SpecSource(given, file, library, others)
