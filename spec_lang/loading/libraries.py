"""Libraries that specs import by name: folders of `.splice` files, in Python packages and from elsewhere.

A distribution says which folder of which package is a library by an entry point: `acme_kernels = "acme_kernels:specs"`
in the group `opsplice.libraries`. Nothing of the package is imported to find it, so no code of it runs.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opsplice.common.errors import OpspliceError, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

GROUP = "opsplice.libraries"
SPEC_SUFFIXES = (".splice", ".mlir", ".mlirbc")
_REFERENCE = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,99})(?::([A-Za-z0-9_][A-Za-z0-9_.-]{0,99}))?\Z")
_LOCATION = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?::([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*))?\Z", re.ASCII)


@dataclass(frozen=True)
class Library:
    """A folder of specs that others import by a name, which is a word as kernels' names are.

    origin: where it comes from, as `acme-kernels 1.4` for a Python package. license: as an SPDX expression, or in
    other words. prebuilt_only: whether its code may not be built or run, for it came from a registry. digest, key: of
    a registry's package the digest of its index, and the id of the key that signed it. main: the path of its main spec,
    if it says one.
    """

    name: str
    folder: Path
    origin: str
    version: str = ""
    license: str = ""
    prebuilt_only: bool = False
    digest: str = ""
    key: str = ""
    main: str = ""

    def parts(self) -> list[str]:
        """What specs import, but for `NAME:`: the names of its files."""
        return sorted(path.stem for path in self.folder.glob("*.splice"))

    def holds(self, path: Path) -> bool:
        """Whether a file is in its folder: by its name, as installers make links, and in packages of registries also
        in truth.
        """
        if not Path(os.path.abspath(path)).is_relative_to(os.path.abspath(self.folder)):
            return False
        if not self.prebuilt_only:
            return True
        try:
            found = path.resolve()
            return found.is_relative_to(self.folder.resolve()) and not found.is_symlink()
        except (OSError, RuntimeError, ValueError):  # links in a circle, which are links still from Python 3.13 on; NUL
            return False

    def spec(self, part: str | None = None) -> Path:
        """The file that a part names; None is for the main one, of the library's name or the only one.

        Raises OpspliceError if there is none.
        """
        parts = self.parts()
        if part is None and self.main:
            return self.folder / self.main
        wanted = part or (parts[0] if len(parts) == 1 else self.name)
        if wanted in parts:
            return self.folder / f"{wanted}.splice"
        if not parts:
            raise OpspliceError(f"library {self.name} ({self.origin}) has no .splice files in {self.folder}")
        names = [f"{self.name}:{each}" for each in parts]
        near = did_you_mean(f"{self.name}:{part}", names) if part is not None else None
        hint = near or f"there is {', '.join(names)}"
        lacking = f"part '{part}'" if part is not None else f"main spec, {self.name}.splice"
        raise OpspliceError(f"library {self.name} ({self.origin}) has no {lacking}", hint=hint)


# What comes with opsplice.
OWN = Library("opsplice", Path(__file__).parent.parent / "library", "comes with opsplice")


@dataclass(frozen=True)
class Reference:
    """`acme_kernels` or `acme_kernels:attention`, as specs and the command line write it."""

    library: str
    part: str | None

    def __str__(self) -> str:
        return self.library if self.part is None else f"{self.library}:{self.part}"


def reference(text: str, folder: Path) -> Reference | None:
    """What a text refers to, None if it names a file: by its ending, or since there is one in the folder."""
    found = None if text.endswith(SPEC_SUFFIXES) else _REFERENCE.match(text)
    path = folder / text
    if found is None or (os.path.lexists(path) and not os.path.isdir(path)):
        return None
    return Reference(found[1], found[2])


def find(name: str, given: Mapping[str, Library]) -> Library:
    """The library of a name. given: those that are not installed as packages, such as locked ones.

    Raises OpspliceError for a name of none, of several, or of one that is not a folder.
    """
    if name == OWN.name:
        return OWN
    entries = installed().get(name, ())
    if name in given:
        if entries and not _library(entries[0]).folder.samefile(given[name].folder):
            message = f"there are two libraries '{name}': {given[name].origin}, and {_origin(entries[0])} is installed"
            raise OpspliceError(message, hint=f"uninstall {_project(entries[0])}, or take the other out of the lock")
        return given[name]
    if not entries:
        near = did_you_mean(name, [OWN.name, *given, *installed()])
        hint = "install the Python package that brings it (pip install ...), or lock a package of that name"
        raise OpspliceError(f"there is no library '{name}'", hint=near or hint)
    if len(entries) > 1:
        both = " and ".join(_origin(entry) for entry in entries)
        raise OpspliceError(f"two packages bring a library '{name}': {both}", hint="uninstall one of them")
    return _library(entries[0])


def all_installed() -> list[Library | OpspliceError]:
    """The libraries of this environment, opsplice's own first; an error for each that cannot be used."""
    found: list[Library | OpspliceError] = [OWN]
    for name in sorted(installed()):
        try:
            found.append(find(name, {}))
        except OpspliceError as error:
            found.append(error)
    return found


def installed() -> Mapping[str, tuple[EntryPoint, ...]]:
    """The entry points of libraries by name."""
    return _installed(tuple((path, _changed(path)) for path in sys.path))


@functools.lru_cache(maxsize=4)
def _installed(paths: tuple[tuple[str, int], ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """paths: where Python looks for packages, and when each was changed: by that one sees what pip has installed."""
    from importlib import metadata  # half of what starting the command line takes

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in metadata.entry_points(group=GROUP):
        if entry.name != OWN.name:
            found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


def _changed(path: str) -> int:
    try:
        return os.stat(path or ".").st_mtime_ns
    except (OSError, ValueError):
        return 0


def named_folder(name: str, value: str) -> tuple[str, ...] | None:
    """The package and the folders in it that an entry point names, None if it is none of a library."""
    found = _LOCATION.match(value)
    if found is None or _REFERENCE.match(name) is None or ":" in name:
        return None
    return tuple(".".join(filter(None, found.groups())).split("."))


def _library(entry: EntryPoint) -> Library:
    path = named_folder(entry.name, entry.value)
    if path is None:
        written = f'{entry.name} = "{entry.value}"'
        hint = 'it is written as: acme_kernels = "acme_kernels:specs", package and folder'
        raise OpspliceError(f"{_origin(entry)} has an entry point that names no library: {written}", hint=hint)
    for root in _roots(path[0], entry.dist):
        folder = root.joinpath(*path[1:])
        if folder.is_dir():
            dist = entry.dist
            version, license_ = ("", "") if dist is None else (dist.version, _license(dist))
            return Library(entry.name, folder, _origin(entry), version, license_)
    hint = f"install {_project(entry)} again; its author: have the folder among the package's data"
    message = f"{_origin(entry)} has no folder {'/'.join(path)}, which it says is library {entry.name}"
    raise OpspliceError(message, hint=hint)


def _roots(package: str, distribution: Distribution | None) -> list[Path]:
    """Where a top-level package is, nothing of it imported: among the distribution's files, or where Python finds it.

    The latter is for packages that are installed to be edited, whose files are elsewhere.
    """
    roots = [] if distribution is None else [Path(str(distribution.locate_file(package)))]
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # ValueError: a module that was loaded in a way of its own
        spec = None
    return [*roots, *map(Path, (spec and spec.submodule_search_locations) or ())]


def _license(distribution: Distribution) -> str:
    """What the metadata says in one line: the expression, the first line of the older field, or the classifier."""
    metadata = distribution.metadata
    said = [*(metadata.get_all("License-Expression") or ()), *(metadata.get_all("License") or ())]
    said += [c.rpartition(" :: ")[2] for c in metadata.get_all("Classifier") or () if c.startswith("License")]
    return next((line for text in said for line in text.strip().splitlines()), "")


def _project(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "the package"


def _origin(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "a package without metadata"
