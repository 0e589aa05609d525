"""The libraries of this machine: those that are installed, and those that are still folders of a project."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.common.files import LARGEST_TEXT, read_file
from opsplice.spec_lang.loading import libraries
from opsplice.spec_lang.loading.libraries import Library
from opsplice.spec_lang.loading.loader import load


@dataclass(frozen=True)
class LibraryPart:
    """A file of a library. name: as it is imported, `acme_kernels:attention`. rules: how many it has."""

    name: str
    patterns: tuple[str, ...]
    kernels: tuple[str, ...]
    rules: int


@dataclass(frozen=True)
class LibraryInfo:
    """An installed library. problem: why it cannot be used, "" if it can."""

    name: str
    version: str
    license: str
    origin: str
    folder: str
    parts: tuple[LibraryPart, ...] = ()
    problem: str = ""


def installed() -> tuple[LibraryInfo, ...]:
    """The libraries of this environment, opsplice's own first. None of their code is run."""
    return tuple(map(_described, libraries.all_installed()))


def at(given: str | os.PathLike[str]) -> list[Library]:
    """The libraries that are meant: that of a name, those of a project's folder, or the folder of specs itself.

    Raises OpspliceError where there is none.
    """
    folder = Path(given)
    if not folder.is_dir():
        named = libraries.reference(str(given), Path())
        if named is None:
            raise OpspliceError(f"there is no folder {folder}", hint="give a library's folder, or the name of one")
        return [libraries.find(named.library, {})]
    if (folder / "pyproject.toml").is_file():
        return list(_of_project(folder))
    if not any(folder.glob("*.splice")):
        hint = "give the folder of a project, with its pyproject.toml, or one of .splice files"
        raise OpspliceError(f"there is no library in {folder}", hint=hint)
    return [Library(folder.resolve().name.replace("-", "_"), folder, str(folder))]


def _of_project(folder: Path) -> Iterator[Library]:
    file = folder / "pyproject.toml"
    try:
        project = tomllib.loads(read_file(file, LARGEST_TEXT).decode()).get("project", {})
        entries = dict(project.get("entry-points", {}).get(libraries.GROUP, {}))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, AttributeError, ValueError, TypeError) as error:
        raise OpspliceError(f"{file} cannot be read: {error}") from None
    if not entries:
        hint = f'[project.entry-points."{libraries.GROUP}"] names them: acme_kernels = "acme_kernels:specs"'
        raise OpspliceError(f"{file} names no library", hint=hint)
    for name, value in entries.items():
        path = libraries.named_folder(name, str(value)) or ()
        found = [each for each in (folder.joinpath("src", *path), folder.joinpath(*path)) if path and each.is_dir()]
        if not found:
            hint = 'it is written as: acme_kernels = "acme_kernels:specs", package and folder'
            raise OpspliceError(
                f'{file} says that library {name} is "{value}", but that folder does not exist', hint=hint
            )
        yield Library(name, found[0], str(folder))


def _described(library: Library | OpspliceError) -> LibraryInfo:
    if isinstance(library, OpspliceError):
        return LibraryInfo("", "", "", "", "", problem=str(library))
    about = (library.name, library.version, library.license, library.origin, str(library.folder))
    try:
        parts = tuple(_part(library, name) for name in library.parts())
    except OpspliceError as error:
        return LibraryInfo(*about, problem=str(error))
    return LibraryInfo(*about, parts=parts)


def _part(library: Library, name: str) -> LibraryPart:
    own = load(library.spec(name), library).files[-1]
    patterns, kernels = (p.name for p in own.patterns), (k.name for k in own.kernels)
    return LibraryPart(f"{library.name}:{name}", tuple(patterns), tuple(kernels), len(own.rules))
