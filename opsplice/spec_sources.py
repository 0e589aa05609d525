"""What `--spec=` and `specs=` are given, as files: a path, or a library by its name.

replace.splice          a file
acme_kernels            an installed library, its main spec
acme_kernels:attention  a part of it
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from opsplice.errors import OpspliceError
from opsplice.files import check_name
from opsplice.spec_lang import libraries
from opsplice.spec_lang.libraries import Library

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


def resolve(
    specs: SpecPath | SpecSource | Iterable[SpecPath | SpecSource], others: Mapping[str, Library] | None = None
) -> tuple[SpecSource, ...]:
    """The sources of specs, in the order given; what is a source already stays as it is.

    others: libraries that are not installed as packages, by name. Raises OpspliceError for a library that is not there.
    """
    if isinstance(specs, (str, os.PathLike, SpecSource)):
        specs = (specs,)
    return tuple(each if isinstance(each, SpecSource) else _source(each, others or {}) for each in specs)


def _source(given: SpecPath, others: Mapping[str, Library]) -> SpecSource:
    path = Path(given)
    named = libraries.reference(given, Path()) if isinstance(given, str) else None
    if named is None:
        return SpecSource(str(path), path, None, others)
    try:
        library = libraries.find(named.library, others)
    except OpspliceError as error:
        beside = os.path.isfile(f"{path}.splice")
        hint = f"did you mean {path}.splice?" if beside else f"a spec is also a .splice file; or {error.hint}"
        raise OpspliceError(f"{path} is no file, and {error.message}", hint=hint) from None
    file = library.spec(named.part)
    check_name(file)
    return SpecSource(str(named), file, library, others)
