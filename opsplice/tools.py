"""The Python interface where no model is taken: specs, libraries, and this machine."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from opsplice.compiling.spec_sources import PackageOptions, SpecPath, resolve

if TYPE_CHECKING:
    from opsplice.pattern_libraries.finding import Finding
    from opsplice.pattern_libraries.library_list import LibraryInfo
    from opsplice.rewrites.transform_dialect.importing.importer import Imported
    from opsplice.spec_lang.syntax.spec_errors import Diagnostic
    from opsplice.targets.doctor import Check


def import_spec(spec: str | os.PathLike[str], *, partial: bool = False) -> Imported:
    """A transform-dialect spec as a `.splice` file: its `text`, and the constructs that are `left_out`.

    partial: leave out what a `.splice` file cannot say instead of raising.
    Raises OpspliceError for a file that is not a transform spec, and for all constructs that cannot be said, at once.
    """
    from opsplice.compiling.spec_import import import_file

    return import_file(Path(spec), partial=partial)


def lint(specs: SpecPath | Iterable[SpecPath], *, packages: PackageOptions | None = None) -> tuple[Diagnostic, ...]:
    """The errors in specs, and warnings of what is likely a mistake (docs/lint.md).

    specs: as for `compile`, one or several; the files that they import are checked too. A Python warning names each
    construct of a transform spec that cannot be checked. Raises OpspliceError for a file that cannot be read.
    """
    from opsplice.compiling.linting import lint_source

    found: dict[Diagnostic, None] = {}
    for source in resolve(specs, packages=packages, targets=None):
        diagnostics, left_out = lint_source(source)
        found |= dict.fromkeys(diagnostics)
        for line in left_out:
            warnings.warn(f"not checked: {line}", stacklevel=2)
    return tuple(found)


def format(text: str) -> str:  # noqa: A001 - the name of the command
    """The text of a `.splice` file as `opsplice format` writes it. Raises SpecError for text that is not a spec."""
    from opsplice.spec_lang.formatting import formatter

    return formatter.format(text)


def doctor() -> list[Check]:
    """What this machine can build and run, found out by building, and how to get what is missing."""
    from opsplice.targets.doctor import probe

    return probe()


def libraries() -> tuple[LibraryInfo, ...]:
    """The pattern libraries of this environment, opsplice's own first, and what is in them. No code of theirs runs."""
    from opsplice.pattern_libraries.library_list import installed

    return installed()


def new_library(name: str, folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """Write a Python package with a pattern library that works, into a new folder, and return its files.

    folder: by default one of the library's name. Raises OpspliceError for a name that is none of a package, and for a
    folder that has something in it.
    """
    from opsplice.pattern_libraries.library_template import create

    return create(name, None if folder is None else Path(folder))


def check_library(library: str | os.PathLike[str]) -> tuple[Finding, ...]:
    """Try a library: its text, its code for all targets, each pattern on an example, and the numbers of its kernels.

    library: the folder of a project or of specs, or the name of an installed one. Its code is built and run.
    Raises OpspliceError where there is no such library.
    """
    from opsplice.pattern_libraries.library_check import check
    from opsplice.pattern_libraries.library_list import at

    return tuple(finding for each in at(library) for finding in check(each))
