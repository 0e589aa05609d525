"""Model files that are not MLIR: each is imported by its frontend, in a child process, into the cache.

What comes out is a module in bytecode, and an archive of the parameters that are not in it. An importer is a Python
module with one function, `import_model(request) -> facts`. It writes MODULE and maybe ARCHIVE into `request.folder`,
returns what its frontend wants to know later, as JSON has it, and runs no code of the model's author. Two facts have a
meaning here: `flags`, for the compiler, and `depends`, the files beside the model that were read.

An entry of the cache is used again as long as the model's content, the files that it refers to, the dims and the
versions of all that took part are the same. It is complete or not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module, metadata, util
from pathlib import Path
from typing import Any

from opsplice.common import cache
from opsplice.common.errors import OpspliceError
from opsplice.runtime.weights import SCOPE, Parameters, read_archives

MODULE = "module.mlirbc"
ARCHIVE = "parameters.irpa"
_FACTS = "facts.json"
_GIVEN = "given"

_GIB = 1 << 30
_KEPT_SECONDS = 30 * 24 * 3600


@dataclass(frozen=True)
class Format:
    """A format of model files.

    importer: see above. package: what has to be installed, and the name of our extra. largest: how many bytes a file
    may have, None for any number.
    """

    name: str
    importer: str
    package: str
    largest: int | None = 2 << 30


ONNX = Format("ONNX", "opsplice.onnx.importing", "onnx")
EXPORTED = Format("PyTorch", "opsplice.torch.importing.pt2", "torch", largest=None)
JAX = Format("JAX", "opsplice.jax.exported_file", "jax")
FORMATS = {".onnx": ONNX, ".pt2": EXPORTED}


@dataclass(frozen=True)
class Request:
    """What an importer gets. name: what messages call the model. dims: the sizes of symbolic dims, by name."""

    path: Path
    name: str
    folder: Path
    dims: Mapping[str, int]


@dataclass(frozen=True)
class Imported:
    """An imported model: a module in bytecode, the archive of its parameters if there is one, and the facts."""

    module: Path
    archive: Path | None
    facts: Mapping[str, Any]

    @property
    def parameters(self) -> Parameters:
        """The archive as programs take it."""
        return () if self.archive is None else read_archives(f"{SCOPE}={self.archive}")


def import_model(
    model: Path | bytes,
    form: Format,
    dims: Mapping[str, int] | None = None,
    *,
    seconds: int | None = None,
    memory: int | None = None,
) -> Imported:
    """A model file, or its bytes, as a module.

    seconds, memory (bytes): the most that the child may take; by default by the size of the model.
    Raises OpspliceError for a missing package, a damaged model, what the importer refuses, and a child that crashes.
    """
    name = str(model) if isinstance(model, Path) else f"the {form.name} model"
    if util.find_spec(form.package) is None:
        raise OpspliceError(
            f"{name} is a model of {form.name}, and the package '{form.package}' is not installed",
            hint=f"install it: pip install 'opsplice[{form.package}]'",
        )
    dims = dict(dims or {})
    root = cache.folder() / "imported"
    cache.make(cache.folder())
    root.mkdir(exist_ok=True)
    cache.check(cache.folder(), root)
    entry = root / _key(model, form, dims)
    found = _read(entry, model)
    return found or _made(model, form, Request(Path(), name, entry, dims), seconds, memory)


def _made(model: Path | bytes, form: Format, wanted: Request, seconds: int | None, memory: int | None) -> Imported:
    from opsplice.isolation.isolate import ChildCrashError, call_isolated, method

    entry = wanted.folder
    _sweep(entry.parent)
    folder = Path(tempfile.mkdtemp(dir=entry.parent, prefix="."))
    try:
        path = model if isinstance(model, Path) else folder / _GIVEN
        if isinstance(model, bytes):
            path.write_bytes(model)
        size = path.stat().st_size
        # The weights may be in files beside the model.
        limits = (seconds or 300 + size // (4 << 20), memory or 16 * _GIB + 8 * size)
        request = Request(path, wanted.name, folder, wanted.dims)
        try:
            call_isolated(_import, (form.importer, request, *limits), method=method())
        except ChildCrashError as crash:
            raise _failure(crash, wanted.name, limits[0]) from None
        if isinstance(model, bytes):
            path.unlink()
        _publish(folder, entry)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = _read(entry, model)
    if found is None:
        raise OpspliceError(f"{wanted.name} changes while it is imported", hint="wait until it is written, try again")
    return found


def _import(_report: Any, importer: str, request: Request, seconds: int, memory: int) -> None:
    """Runs in the child."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    with contextlib.suppress(ValueError):  # a lower limit is there already
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    facts = import_module(importer).import_model(request)
    files = [file for file in request.folder.iterdir() if file.name != _GIVEN]
    content = {
        "facts": facts,
        "sizes": {file.name: file.stat().st_size for file in files},
        "depends": {str(path): _identity(Path(path)) for path in facts.pop("depends", ())},
    }
    (request.folder / _FACTS).write_text(json.dumps(content))


def _failure(crash: Any, name: str, seconds: int) -> OpspliceError:
    if crash.signal == signal.SIGALRM:
        return OpspliceError(f"importing {name} takes longer than {seconds} seconds, so it was given up")
    if crash.signal == signal.SIGKILL:
        return OpspliceError(f"importing {name} was killed: most likely the machine ran out of memory")
    last = "\n".join(crash.output.splitlines()[-5:])
    return OpspliceError(
        f"importing {name} crashed: {crash.message}", details=last[:1000], hint="the file may be damaged"
    )


def _publish(folder: Path, entry: Path) -> None:
    for _ in range(2):
        try:
            folder.rename(entry)
            return
        except OSError:  # another process was faster, or what is there is out of date
            shutil.rmtree(entry, ignore_errors=True)
    raise OpspliceError(f"cannot write the cache's folder {entry}", hint="remove it")


def _read(entry: Path, model: Path | bytes) -> Imported | None:
    """What is there of a model, None unless it is whole and up to date."""
    try:
        content = json.loads((entry / _FACTS).read_bytes())
        whole = all((entry / name).stat().st_size == size for name, size in content["sizes"].items())
        if not whole or any(_identity(Path(path)) != known for path, known in content["depends"].items()):
            return None
        os.utime(entry)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    archive = entry / ARCHIVE if ARCHIVE in content["sizes"] else None
    return Imported(entry / MODULE, archive, content["facts"])


def _identity(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]


def _key(model: Path | bytes, form: Format, dims: Mapping[str, int]) -> str:
    if isinstance(model, Path):
        with model.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        # The files that it refers to are beside it.
        place = os.path.realpath(model.parent)
    else:
        content, place = hashlib.sha256(model).hexdigest(), ""
    versions = [metadata.version(package) for package in ("opsplice", "iree-base-compiler", form.package)]
    parts = [form.name, content, place, sorted(dims.items()), versions, _code(form)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _code(form: Format) -> str:
    """A digest of the importer's package, so that a changed one is asked again. PyTorch takes seconds to import."""
    root, *names = form.importer.split(".")
    found = util.find_spec(root)
    assert found is not None
    assert found.submodule_search_locations
    files = sorted(Path(found.submodule_search_locations[0], *names[:1]).rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _sweep(root: Path) -> None:
    """Remove what nobody has used for long, and what a killed process has left."""
    oldest = time.time() - _KEPT_SECONDS
    for entry in root.iterdir():
        with contextlib.suppress(OSError):
            if entry.stat().st_mtime < oldest:
                shutil.rmtree(entry, ignore_errors=True)
