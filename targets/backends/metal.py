"""A kernel's file in, a checked Metal shader out that goes into IREE's executables for Metal.

Shaders are taken as text (`.metal`), which the driver compiles when a program is loaded. Nothing here compiles them,
and nothing here was run on a GPU of Apple's. `metal_source.py` says how they are called. It must not know what a kernel
computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.common.files import read_file
from opsplice.common.store import Store, key_of
from opsplice.targets.artifacts import source_inputs
from opsplice.targets.artifacts.artifact import Artifact, ArtifactRequest
from opsplice.targets.backends.backend import MLIR, Backend, artifact_of
from opsplice.targets.formats import metal_source
from opsplice.targets.formats.entries import Entry

# Part of every key. Raise it when the same inputs come to check something else.
_BUILDER = "metal 1"

_SUFFIX = ".metal"

ACCEPTED = (_SUFFIX,)


def resolve(request: ArtifactRequest, store: Store) -> Artifact:
    """The artifact for `request`, copied into the store unless it is there.

    request.symbols: the kernels that it has to define; the first is the artifact's entry.
    Raises OpspliceError when the file is absent or of another kind, is not text, includes another file or lacks a
    kernel; and when the store cannot be written.
    """
    more, how = " (slangc -target metal makes one of Slang)", "on Metal a kernel is a shader's text"
    source_inputs.check_request(request, "Metal", ACCEPTED, how=how, more=more)
    name = request.path.name
    data = read_file(request.path)

    def build(output: Path) -> Mapping[str, Any]:
        try:
            module = metal_source.reflect(data.decode(), name)
        except UnicodeDecodeError as error:
            raise OpspliceError(
                f"{name} is not text in UTF-8", hint=f"there is a stray byte at {error.start}"
            ) from None
        entries = [metal_source.find_entry(module, name, symbol) for symbol in request.symbols]
        output.write_bytes(data)
        notes = tuple(note for entry in entries for note in metal_source.unchecked(entry))
        return {"toolchain": None, "notes": notes, "entry": request.symbols[0] if request.symbols else ""}

    entry = store.get_or_build(key_of(_BUILDER, "\0".join(request.symbols), data), _SUFFIX, build)
    return artifact_of(entry, "metal")


class Metal(Backend):
    """GPUs of Apple's: shaders as text."""

    name, iree, device, format = "metal", "metal-spirv", "metal", "metal-msl-fb"
    title, kinds, functions = "Metal", ACCEPTED, MLIR
    limits = metal_source.LIMITS

    def build(self, request: ArtifactRequest, arch: str, features: str, store: Store) -> Artifact:
        return resolve(request, store)

    def entry(self, code: Artifact, name: str) -> Entry:
        module = metal_source.reflect(code.path.read_text(encoding="utf-8"), name)
        return metal_source.find_entry(module, name, code.entry)
