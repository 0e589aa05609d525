"""Archives with parameters (weights) that programs do not hold, as IREE reads them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsplice.errors import OpspliceError
from opsplice.files import check_file, check_name

# The module that programs import parameters from.
MODULE = "io_parameters"
_SUFFIXES = (".irpa", ".gguf", ".safetensors")
_FORM = "an archive is named as SCOPE=FILE, or FILE alone where the scope is empty"


@dataclass(frozen=True)
class Archive:
    """A file of parameters, and the scope that programs know it by. identity: changes when the file does."""

    scope: str
    path: str
    identity: tuple[int, ...]


def read_archives(given: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> tuple[Archive, ...]:
    """The archives that a user names: `model=weights.irpa`, or the file alone for an empty scope.

    Raises OpspliceError for a file that is not there.
    """
    texts = [given] if isinstance(given, str | os.PathLike) else given
    return tuple(_archive(text if isinstance(text, str) else f"={os.fspath(text)}") for text in texts)


def _archive(text: str) -> Archive:
    scope, equals, path = text.partition("=")
    if not equals:
        scope, path = "", text
    check_file(Path(path), None, hint=_FORM)
    check_name(Path(path))
    status = os.stat(path)
    return Archive(scope, path, (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size))


def module_of(instance: Any, archives: Sequence[Archive]) -> Any:
    """The module to load before a program, with what archives hold. Raises OpspliceError for one that is damaged."""
    from iree.runtime import ParameterIndex, create_io_parameters_module

    from opsplice.devices import FAILURES, status

    indexes: dict[str, Any] = {}
    for archive in archives:
        try:
            indexes.setdefault(archive.scope, ParameterIndex()).load(archive.path)
        except FAILURES as error:
            raise OpspliceError(
                f"cannot read the parameters in {archive.path}",
                details=status(error),
                hint=f"archives end in {' '.join(_SUFFIXES)}",
            ) from None
    providers = [index.create_provider(scope=scope) for scope, index in indexes.items()]
    return create_io_parameters_module(instance, *providers)
