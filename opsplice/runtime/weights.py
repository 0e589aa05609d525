"""Parameters (weights) that programs do not hold: in archives, as IREE reads them, or in memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsplice.common.errors import OpspliceError
from opsplice.common.files import check_file, check_folder, check_name, replacing

if TYPE_CHECKING:
    import numpy as np

# The module that programs import parameters from.
MODULE = "io_parameters"
# The scope of a model's weights, as our frontends, IREE's importers and iree-turbine have it.
SCOPE = "model"
_SUFFIXES = (".irpa", ".gguf", ".safetensors")
_FORM = "an archive is named as SCOPE=FILE, or FILE alone for weights with no scope or the scope `model`"


@dataclass(frozen=True)
class Archive:
    """A file of parameters, and the scope that programs know them by: "" stands for no scope, and for `model`.

    identity: changes when the file does.
    """

    scope: str
    path: str
    identity: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Arrays:
    """Parameters in memory, by name, of the scope `model`.

    They are C-contiguous. The CPU uses those that begin at a multiple of 64 bytes where they are, and copies others.
    """

    arrays: Mapping[str, np.ndarray] = field(repr=False)


Parameters = tuple[Archive | Arrays, ...]


def read_archives(given: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Parameters:
    """The archives that a user names: `scope=weights.irpa`, or the file alone for an empty scope.

    Raises OpspliceError for a file that is not there.
    """
    texts = [given] if isinstance(given, str | os.PathLike) else given
    return tuple(_archive(*_parted(text)) for text in texts)


def beside(program: Path) -> Path:
    """Where the parameters of a saved program are: `model.irpa` for `model.vmfb`."""
    return program.with_suffix(_SUFFIXES[0])


def found_beside(program: Path) -> Parameters:
    """The archive that was saved with a program, if there is one."""
    return (_archive(SCOPE, str(beside(program))),) if beside(program).is_file() else ()


def joined(given: Parameters, others: Parameters) -> Parameters:
    """What is given, and of the others those whose scope is not given."""
    scopes = {_scope(each) for each in given}
    return (*given, *(each for each in others if _scope(each) not in scopes))


def save(program: Path, vmfb: bytes, parameters: Parameters) -> list[Path]:
    """Write a program, and the parameters of the scope `model` to an archive beside it: both or neither.

    Archives of other scopes stay where they are. Returns the files. Raises OpspliceError when that fails.
    """
    from opsplice.runtime.runtime_devices import FAILURES, status

    own = [each for each in parameters if _scope(each) == SCOPE]
    paths = [program, beside(program)] if own else [program]
    if own and program == beside(program):
        raise OpspliceError(f"{program} is where the program's weights go", hint="call the program .vmfb")
    for path in paths:
        check_folder(path)
    try:
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(replacing(path)) for path in paths]
            files[0].write(vmfb)
            if own:
                write_archive(files[1].name, own)
    except (OSError, *FAILURES) as error:
        reason = getattr(error, "strerror", None) or status(error)
        raise OpspliceError(f"cannot write {' and '.join(map(str, paths))}: {reason}") from None
    return paths


def write_archive(path: str | os.PathLike[str], parameters: Iterable[Archive | Arrays]) -> None:
    """Write parameters to a new archive, a `.irpa`."""
    _index(parameters).create_archive_file(os.fspath(path))


def module_of(instance: Any, parameters: Parameters) -> Any:
    """The module to load before a program, with its parameters. Raises OpspliceError for an archive that is damaged."""
    from iree.runtime import create_io_parameters_module

    providers = [index.create_provider(scope=scope) for scope, index in _indexes(parameters).items()]
    return create_io_parameters_module(instance, *providers)


def contents(parameters: Parameters) -> dict[tuple[str, str], bytes | memoryview]:
    """The bytes of each parameter, by scope and name. Raises OpspliceError for an archive that is damaged."""
    entries = ((scope, name, entry) for scope, index in _indexes(parameters).items() for name, entry in index.items())
    return {(scope, name): entry.file_view if entry.is_file else entry.splat_pattern for scope, name, entry in entries}


def _indexes(parameters: Parameters) -> dict[str, Any]:
    """What there is in each scope."""
    scopes: dict[str, list[Archive | Arrays]] = {}
    for each in parameters:
        scopes.setdefault("" if isinstance(each, Arrays) else each.scope, []).append(each)
    indexes = {scope: _index(own) for scope, own in scopes.items()}
    if "" in indexes:
        indexes.setdefault(SCOPE, indexes[""])
    return indexes


def _index(parameters: Iterable[Archive | Arrays]) -> Any:
    from iree.runtime import ParameterIndex

    from opsplice.runtime.runtime_devices import FAILURES, status

    index = ParameterIndex()
    for each in parameters:
        if isinstance(each, Arrays):
            for name, array in each.arrays.items():
                index.add_buffer(name, array)
            continue
        try:
            index.load(each.path)
        except FAILURES as error:
            raise OpspliceError(
                f"cannot read the parameters in {each.path}",
                details=status(error),
                hint=f"archives end in {' '.join(_SUFFIXES)}",
            ) from None
    return index


def _scope(parameters: Archive | Arrays) -> str:
    return parameters.scope or SCOPE if isinstance(parameters, Archive) else SCOPE


def _parted(text: str | os.PathLike[str]) -> tuple[str, str]:
    scope, equals, path = text.partition("=") if isinstance(text, str) else ("", "=", os.fspath(text))
    return (scope, path) if equals else ("", scope)


def _archive(scope: str, path: str) -> Archive:
    check_file(Path(path), None, hint=_FORM)
    check_name(Path(path))
    status = os.stat(path)
    return Archive(scope, path, (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size))
